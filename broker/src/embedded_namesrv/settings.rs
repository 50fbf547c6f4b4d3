//! The name server's own settings: what requests 318 and 319 change and show.

use crate::config::PropertyFile;
use parking_lot::RwLock;

/// Keys that must not be changed online.
const BLACK_LIST: [&str; 3] = ["configBlackList", "configStorePath", "kvConfigPath"];

/// Why a change was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A key of the black list.
    #[error("Can not update config in black list.")]
    BlackListed,
    /// Anything else.
    #[error("nothing was changed: {0}")]
    Invalid(String),
}

/// Effective settings; they live as long as the process.
#[derive(Debug)]
pub struct NameServerSettings {
    listen: String,
    bind: String,
    order_message_enable: RwLock<bool>,
}

impl NameServerSettings {
    /// Settings of a name server that listens there.
    pub fn new(listen: std::net::SocketAddr) -> Self {
        Self {
            listen: listen.port().to_string(),
            bind: listen.ip().to_string(),
            order_message_enable: RwLock::new(false),
        }
    }

    /// Whether routes of order topics carry their order configuration.
    pub fn order_message_enable(&self) -> bool {
        *self.order_message_enable.read()
    }

    /// All settings.
    fn items(&self) -> [(&'static str, String); 7] {
        [
            ("bindAddress", self.bind.clone()),
            ("clusterTest", "false".into()),
            ("enableAllTopicList", "true".into()),
            ("enableTopicList", "true".into()),
            ("listenPort", self.listen.clone()),
            (
                "orderMessageEnable",
                self.order_message_enable().to_string(),
            ),
            ("returnOrderTopicConfigToBroker", "true".into()),
        ]
    }

    /// Body of the answer to request 319.
    pub fn print(&self) -> String {
        self.items()
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect()
    }

    /// Applies request 318, all or nothing. Only `orderMessageEnable` can change; any other key may be given its value.
    pub fn update(&self, body: &[u8]) -> Result<(), Refused> {
        let wanted = PropertyFile::parse(body).map_err(|e| Refused::Invalid(e.to_string()))?;
        if wanted.pairs().any(|(key, _)| BLACK_LIST.contains(&key)) {
            return Err(Refused::BlackListed);
        }
        let items = self.items();
        let mut order = self.order_message_enable();
        for (key, value) in wanted.pairs() {
            match items.iter().find(|(k, _)| *k == key) {
                Some((_, present)) if present == value => {}
                Some(("orderMessageEnable", _)) if matches!(value, "true" | "false") => {
                    order = value == "true"
                }
                Some(_) => {
                    return Err(Refused::Invalid(format!(
                        "key {key}: the embedded name server takes no other value than its present one for this key"
                    )));
                }
                None => return Err(Refused::Invalid(format!("key {key} is not known"))),
            }
        }
        *self.order_message_enable.write() = order;
        Ok(())
    }
}

//! Broker configurations: a fixture's own, or a small one for new stores, on free ports.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::fixture::Fixture;
use crate::ports::Ports;

/// A `broker.conf` in the making: keys in order, the last setting of a key wins.
#[derive(Clone, Debug)]
pub struct Conf {
    keys: Vec<(String, String)>,
    /// The ports in it.
    pub ports: Ports,
    /// The store directory in it.
    pub store: PathBuf,
}

/// Small files, so that tests roll over many of them.
const SMALL: &str = "brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
autoCreateTopicEnable=true
defaultTopicQueueNums=4
sendMessageThreadPoolNums=4
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=6000
maxHashSlotNum=1000
maxIndexNum=4000
waitTimeMillsInSendQueue=5000
osPageCacheBusyTimeOutMills=5000";

impl Conf {
    /// A new store of small files, replicated log with one member.
    pub fn small(store: &Path, namesrv: &str) -> Result<Conf> {
        Conf::from_text(SMALL, store, namesrv)?.dledger()
    }

    /// The configuration that a fixture was written with, moved to `store`, to free ports and to `namesrv`;
    /// with transaction checks put off, so that only the test writes; without a replicated log if the
    /// fixture is a plain one (see [`Conf::dledger`]).
    pub fn of_fixture(fixture: &Fixture, store: &Path, namesrv: &str) -> Result<Conf> {
        let conf = Conf::from_text(&fixture.broker_conf(None)?, store, namesrv)?;
        let conf = conf
            .set("transactionCheckInterval", 86_400_000)
            .set("transactionTimeOut", 86_400_000);
        if fixture.plain {
            Ok(conf)
        } else {
            conf.dledger()
        }
    }

    fn from_text(text: &str, store: &Path, namesrv: &str) -> Result<Conf> {
        let ports = Ports::free()?;
        let keys = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(k, v)| {
                (
                    k.trim().to_owned(),
                    v.trim().replace("@STORE@", &store.display().to_string()),
                )
            })
            .collect();
        let conf = Conf {
            keys,
            ports,
            store: store.to_owned(),
        };
        // The files of a fixture keep their old times: nothing may expire. (Java computes the age in
        // 32-bit milliseconds: 596 hours are the most that it can express.)
        Ok(conf
            .set("listenPort", ports.listen)
            .set("namesrvAddr", namesrv)
            .set("storePathRootDir", store.display())
            .set("storePathCommitLog", store.join("commitlog").display())
            .set("fileReservedTime", 500)
            .set("deleteWhen", format!("{:02}", far_hour()))
            .set("diskMaxUsedSpaceRatio", 95))
    }

    /// Adds what an operator adds for one member of the replicated log.
    pub fn dledger(self) -> Result<Conf> {
        let peers = format!("n0-127.0.0.1:{}", self.ports.peer);
        let group = self.get("brokerName").unwrap_or("broker-a").to_owned();
        Ok(self
            .set("enableDLegerCommitLog", true)
            .set("dLegerGroup", group)
            .set("dLegerPeers", peers)
            .set("dLegerSelfId", "n0"))
    }

    /// Sets a key.
    pub fn set(mut self, key: &str, value: impl ToString) -> Conf {
        self.keys.retain(|(k, _)| k != key);
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// Removes a key.
    pub fn unset(mut self, key: &str) -> Conf {
        self.keys.retain(|(k, _)| k != key);
        self
    }

    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// The same broker on new ports (a port of a killed process may stay busy for a while).
    pub fn moved(self) -> Result<Conf> {
        let ports = Ports::free()?;
        let member = self.get("dLegerPeers").is_some();
        let mut conf = self.set("listenPort", ports.listen);
        conf.ports = ports;
        if member { conf.dledger() } else { Ok(conf) }
    }

    /// The file.
    pub fn text(&self) -> String {
        self.keys
            .iter()
            .map(|(k, v)| format!("{k}={v}\n"))
            .collect()
    }
}

/// An hour of the day (UTC) half a day from now: expired files are deleted in that hour only.
fn far_hour() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    (now / 3600 + 12) % 24
}

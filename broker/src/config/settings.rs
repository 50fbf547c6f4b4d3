//! The configuration of a running broker: read by all, changed by the online update (request 25).

use super::keys::{BrokerConfig, Effect, HONOURED};
use super::load::{ConfigSource, Loaded};
use super::others::{ACCEPTED, REFUSED};
use super::properties::PropertyFile;
use crate::tables::DataVersion;
use parking_lot::{Mutex, RwLock};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why an online update was refused; nothing of it was applied.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A key of the black list: code 16, Java's remark.
    #[error("Can not update config in black list.")]
    BlackListed,
    /// Unknown keys, or values that make no sense or are refused: code 1, one line that names each.
    #[error("nothing was changed: {0}")]
    Invalid(String),
    /// The file could not be written: code 1.
    #[error("nothing was changed: cannot write {path}: {error}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// What an online update did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Updated {
    /// Keys that changed, with their new values.
    pub changed: Vec<(String, String)>,
    /// True if `brokerPermission` changed, so that the broker must register again at once.
    pub permission_changed: bool,
    /// What the caller should know beside "done": keys that wait for a restart or have no effect.
    pub remark: Option<String>,
}

/// Shared handle of the effective configuration.
#[derive(Debug)]
pub struct Settings {
    current: RwLock<Arc<BrokerConfig>>,
    version: Mutex<DataVersion>,
    source: ConfigSource,
}

impl Settings {
    /// Takes over what was read at start.
    pub fn new(loaded: Loaded) -> Self {
        Self {
            current: RwLock::new(Arc::new(loaded.config)),
            version: Mutex::new(DataVersion::now()),
            source: loaded.source,
        }
    }

    /// The configuration now; keep it for one request, not for longer.
    pub fn get(&self) -> Arc<BrokerConfig> {
        self.current.read().clone()
    }

    /// Reads a value without taking a reference: for the hot path.
    pub fn with<R>(&self, read: impl FnOnce(&BrokerConfig) -> R) -> R {
        read(&self.current.read())
    }

    /// Version of the configuration: field `version` of the answer to request 26 as JSON.
    pub fn version(&self) -> DataVersion {
        self.version.lock().clone()
    }

    /// Changes the effective configuration without a file.
    #[cfg(test)]
    pub(crate) fn change_for_test(&self, change: impl FnOnce(&mut BrokerConfig)) {
        let mut config = (*self.get()).clone();
        change(&mut config);
        *self.current.write() = Arc::new(config);
    }

    /// The file that an online update writes: the one given by `-c`, else Java's `config/broker.properties` of the
    /// store, which a later start reads only if it is given by `-c`.
    pub fn file(&self) -> PathBuf {
        match &self.source {
            ConfigSource::File(path) => path.clone(),
            ConfigSource::Defaults => self.get().config_dir().join("broker.properties"),
        }
    }

    /// Applies the text of an online update (Java properties): all of it or nothing. The file is rewritten in place,
    /// atomically, comments and order kept. Blocks on file I/O.
    pub fn update(&self, body: &[u8]) -> Result<Updated, UpdateError> {
        let wanted = PropertyFile::parse(body).map_err(|e| UpdateError::Invalid(e.to_string()))?;
        let pairs = effective_pairs(&wanted);
        if pairs.is_empty() {
            return Ok(Updated::default());
        }
        // Updates are rare: the version's lock keeps them one after another.
        let mut version = self.version.lock();
        let current = self.get();
        if pairs.iter().any(|(key, _)| is_black_listed(&current, key)) {
            return Err(UpdateError::BlackListed);
        }
        let mut live = (*current).clone();
        let mut remarks = Vec::new();
        let mut problems = Vec::new();
        for (key, value) in &pairs {
            match apply_online(&mut live, key, value) {
                Ok(remark) => remarks.extend(remark),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(UpdateError::Invalid(problems.join("; ")));
        }
        let path = self.file();
        rewrite(&path, &pairs).map_err(|error| UpdateError::Unwritable {
            path: path.clone(),
            error,
        })?;
        let permission_changed = live.broker_permission != current.broker_permission;
        *self.current.write() = Arc::new(live);
        version.next();
        if self.source == ConfigSource::Defaults {
            remarks.push(format!(
                "written to {}, which the next start reads only if given by -c",
                path.display()
            ));
        }
        let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
        Ok(Updated {
            changed: pairs,
            permission_changed,
            remark,
        })
    }
}

/// The pairs of a request, the last of a name, in order.
fn effective_pairs(wanted: &PropertyFile) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in wanted.pairs() {
        pairs.retain(|(k, _)| k != key);
        pairs.push((key.to_string(), value.to_string()));
    }
    pairs
}

fn is_black_listed(config: &BrokerConfig, key: &str) -> bool {
    let fixed = ["brokerConfigPath", "rocketmqHome", "configBlackList"];
    fixed.contains(&key) || config.config_black_list.split(';').any(|k| k.trim() == key)
}

/// Applies one pair as far as it can be applied now; a remark if it cannot, `Err` if it is nonsense.
fn apply_online(
    config: &mut BrokerConfig,
    key: &str,
    value: &str,
) -> Result<Option<String>, String> {
    let expected = |e: String| format!("key {key}: value '{value}' makes no sense, expected {e}");
    if let Some(known) = HONOURED.iter().find(|k| k.name == key) {
        if value.is_empty() {
            return Err(expected("a value".into()));
        }
        if known.effect == Effect::Live {
            return config.apply(key, value).map_err(expected).map(|_| None);
        }
        // Checked on a copy only: the running broker keeps what it was started with.
        config.clone().apply(key, value).map_err(expected)?;
        let same = config.get(key).as_deref() == Some(value);
        return Ok((!same).then(|| format!("{key} takes effect at the next start")));
    }
    if let Some(known) = REFUSED.iter().find(|k| k.name == key) {
        return match value.eq_ignore_ascii_case(known.default) {
            true => Ok(None),
            false => Err(format!(
                "key {key}: value '{value}' is refused: {}",
                known.why
            )),
        };
    }
    if ACCEPTED.iter().any(|k| k.name == key) {
        return config.apply(key, value).map_err(expected);
    }
    Err(format!("key {key} is not known"))
}

/// Rewrites the file with the pairs: temporary file beside it, synced, renamed over it; the old one stays as `.bak`.
fn rewrite(path: &Path, pairs: &[(String, String)]) -> io::Result<()> {
    // A link (as container platforms mount configurations) stays a link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let old = match std::fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut file =
        PropertyFile::parse(old.as_deref().unwrap_or_default()).map_err(io::Error::other)?;
    for (key, value) in pairs {
        file.set(key, value);
    }
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let sibling = |suffix: &str| PathBuf::from([path.as_os_str(), suffix.as_ref()].concat_os());
    if let Some(old) = &old {
        write_synced(&sibling(".bak"), old, path)?;
    }
    let temporary = sibling(".tmp");
    write_synced(&temporary, &file.to_bytes(), path)?;
    std::fs::rename(&temporary, path)?;
    std::fs::File::open(folder)?.sync_all()
}

/// Writes and syncs `bytes`, with the permissions of `like` where that exists: a configuration may hold secrets.
fn write_synced(path: &Path, bytes: &[u8], like: &Path) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    if let Ok(meta) = std::fs::metadata(like) {
        file.set_permissions(meta.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Joins two pieces of a path name without going through UTF-8.
trait ConcatOs {
    fn concat_os(&self) -> std::ffi::OsString;
}

impl ConcatOs for [&std::ffi::OsStr; 2] {
    fn concat_os(&self) -> std::ffi::OsString {
        let mut joined = self[0].to_os_string();
        joined.push(self[1]);
        joined
    }
}

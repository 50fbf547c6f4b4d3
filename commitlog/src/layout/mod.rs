//! The store directory: where everything lies, the `abort` file, the store lock, the store checkpoint.

mod checkpoint;

use std::io;
use std::path::{Path, PathBuf};

use dledger::fs::Fs;
pub use dledger::fs::{LockError, StoreLock};

pub use checkpoint::StoreCheckpoint;

/// Digits of a data file's name: the absolute offset of its first byte.
const NAME_DIGITS: usize = 20;

/// Name of the data file that begins at `start`.
pub fn file_name(start: i64) -> String {
    format!("{start:020}")
}

/// The offset that a data file's name stands for; none for any other name.
pub fn parse_file_name(name: &str) -> Option<i64> {
    let digits = name.len() == NAME_DIGITS && name.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| name.parse().ok()).flatten()
}

/// The paths of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLayout {
    root: PathBuf,
    commitlog: Vec<PathBuf>,
    commitlog_read_only: Vec<PathBuf>,
    dledger_data: Option<PathBuf>,
}

impl StoreLayout {
    /// A store below `root` with everything at its default place.
    pub fn new(root: impl Into<PathBuf>) -> StoreLayout {
        let root = root.into();
        StoreLayout {
            commitlog: vec![root.join("commitlog")],
            commitlog_read_only: Vec::new(),
            dledger_data: None,
            root,
        }
    }

    /// Moves the legacy commitlog: `storePathCommitLog`, possibly several directories joined by `splitter`,
    /// and `readOnlyCommitLogStorePaths` likewise.
    pub fn with_commitlog(
        mut self,
        paths: &str,
        read_only: Option<&str>,
        splitter: &str,
    ) -> StoreLayout {
        let split = |paths: &str| -> Vec<PathBuf> {
            let pieces: Vec<&str> = if splitter.is_empty() {
                vec![paths]
            } else {
                paths.split(splitter).collect()
            };
            pieces
                .iter()
                .map(|p| p.trim())
                .filter(|p| !p.is_empty())
                .map(PathBuf::from)
                .collect()
        };
        let paths = split(paths);
        if !paths.is_empty() {
            self.commitlog = paths;
        }
        self.commitlog_read_only = read_only.map(split).unwrap_or_default();
        self.commitlog_read_only
            .retain(|path| !self.commitlog.contains(path));
        self
    }

    /// Moves the DLedger data files: `storePathDLedgerCommitLog`.
    pub fn with_dledger_data(mut self, path: Option<PathBuf>) -> StoreLayout {
        self.dledger_data = path;
        self
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directories of the legacy commitlog, writable ones first.
    pub fn commitlog_dirs(&self) -> impl Iterator<Item = &Path> {
        self.commitlog
            .iter()
            .chain(&self.commitlog_read_only)
            .map(PathBuf::as_path)
    }

    /// Whether the legacy commitlog lies in several directories.
    pub fn is_multi_path(&self) -> bool {
        self.commitlog.len() + self.commitlog_read_only.len() > 1
    }

    /// Whether a directory of the legacy commitlog is read-only by configuration.
    pub fn is_read_only(&self, dir: &Path) -> bool {
        self.commitlog_read_only.iter().any(|p| p == dir)
    }

    /// Consume queues.
    pub fn consumequeue(&self) -> PathBuf {
        self.root.join("consumequeue")
    }

    /// Extensions of the consume queues (filter bitmaps).
    pub fn consumequeue_ext(&self) -> PathBuf {
        self.root.join("consumequeue_ext")
    }

    /// Batch consume queues of 5.x.
    pub fn batch_consumequeue(&self) -> PathBuf {
        self.root.join("batchconsumequeue")
    }

    /// Key index files.
    pub fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    /// The store checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// Exists while a broker runs, and after a kill.
    pub fn abort(&self) -> PathBuf {
        self.root.join("abort")
    }

    /// The lock file.
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// A file below `config/`, such as `topics.json`.
    pub fn config(&self, name: &str) -> PathBuf {
        self.root.join("config").join(name)
    }

    /// Folder of a DLedger member.
    pub fn dledger(&self, self_id: &str) -> PathBuf {
        self.root.join(format!("dledger-{self_id}"))
    }

    /// The directory of a DLedger member's data files, when it was moved away from its folder.
    pub fn dledger_data_override(&self) -> Option<&Path> {
        self.dledger_data.as_deref()
    }

    /// Directory of a DLedger member's data files.
    pub fn dledger_data(&self, self_id: &str) -> PathBuf {
        self.dledger_data
            .clone()
            .unwrap_or_else(|| self.dledger(self_id).join("data"))
    }

    /// A file of LedgerMQ's own, in a folder that a Java broker does not look at.
    pub fn sidecar(&self, name: &str) -> PathBuf {
        self.sidecar_dir().join(name)
    }

    /// The folder of LedgerMQ's own files.
    pub fn sidecar_dir(&self) -> PathBuf {
        self.root.join("ledgermq")
    }

    /// Takes the store lock, the one that a Java broker takes too.
    pub fn take_lock(&self) -> Result<StoreLock, LockError> {
        dledger::fs::lock_exclusive(&self.lock())
    }

    /// Whether the last broker did not stop in order.
    pub fn was_aborted(&self, fs: &dyn Fs) -> bool {
        fs.exists(&self.abort())
    }

    /// Marks the store as in use: the next start after a kill finds the mark. Holds the process id as text, as
    /// 5.x writes it; readers look at its existence only.
    pub fn create_abort(&self, fs: &dyn Fs) -> io::Result<()> {
        fs.write(&self.abort(), std::process::id().to_string().as_bytes())?;
        fs.sync_dir(&self.root)
    }

    /// Takes the mark away after a stop in order. No error if it is gone.
    pub fn remove_abort(&self, fs: &dyn Fs) -> io::Result<()> {
        match fs.remove_file(&self.abort()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => fs.sync_dir(&self.root),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(file_name(1_048_576), "00000000000001048576");
        assert_eq!(parse_file_name("00000000000001048576"), Some(1_048_576));
        for name in [
            "",
            "x",
            "1048576",
            "0000000000000104857x",
            "00000000000001048576.bak",
            "+0000000000001048576",
        ] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
        assert_eq!(parse_file_name("99999999999999999999"), None);
    }

    #[test]
    fn several_commitlog_paths() {
        let layout = StoreLayout::new("/s").with_commitlog("/a, /b,", Some("/c,/a"), ",");
        let dirs: Vec<_> = layout.commitlog_dirs().collect();
        assert_eq!(dirs, [Path::new("/a"), Path::new("/b"), Path::new("/c")]);
        assert!(layout.is_multi_path() && layout.is_read_only(Path::new("/c")));
        let layout = StoreLayout::new("/s").with_commitlog("  ", None, ",");
        assert_eq!(
            layout.commitlog_dirs().collect::<Vec<_>>(),
            [Path::new("/s/commitlog")]
        );
        assert_eq!(layout.dledger_data("n0"), Path::new("/s/dledger-n0/data"));
    }
}

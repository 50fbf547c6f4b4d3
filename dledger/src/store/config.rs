//! What a store is told, and how it names an entry.

use std::path::PathBuf;

use crate::entry::HEADER_SIZE;
use crate::index_unit::{INDEX_FILE_SIZE, IndexUnit};
use crate::recovery::ShortLog;

/// Where a log lies and how large its files are.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `<root>/dledger-<id>`: checkpoint, vote file, `index/`, and `data/` unless `data_dir` says otherwise.
    pub base: PathBuf,
    /// The directory of the data files, if it is not `<base>/data`.
    pub data_dir: Option<PathBuf>,
    /// Bytes of a data file; the same on every member of a group. Java's default is 1 GiB.
    pub segment_size: u64,
    /// Bytes of an index file; a multiple of 32. Java's is always 167,772,160.
    pub index_file_size: u64,
    /// What to do when the log ends before the committed index of its own checkpoint.
    pub short_log: ShortLog,
}

impl StoreConfig {
    /// A log below `base` with data files of `segment_size` bytes; everything else as Java has it, and a log that
    /// is shorter than its checkpoint refused.
    pub fn new(base: impl Into<PathBuf>, segment_size: u64) -> Self {
        StoreConfig {
            base: base.into(),
            data_dir: None,
            segment_size,
            index_file_size: INDEX_FILE_SIZE,
            short_log: ShortLog::Refuse,
        }
    }

    /// The directory of the data files.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir
            .clone()
            .unwrap_or_else(|| self.base.join("data"))
    }

    /// The directory of the index files.
    pub fn index_dir(&self) -> PathBuf {
        self.base.join("index")
    }
}

/// Checks a body found on disk that was not known to be synced.
pub trait BodyCheck: Send + Sync {
    /// `body_pos` is the position of the body's first byte in the log. An error says what is wrong with it.
    fn check(&self, body: &[u8], body_pos: i64) -> Result<(), String>;
}

/// A check for logs whose bodies carry nothing that could be checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCheck;

impl BodyCheck for NoCheck {
    fn check(&self, _body: &[u8], _body_pos: i64) -> Result<(), String> {
        Ok(())
    }
}

/// Where an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryAt {
    /// Number of the entry.
    pub index: i64,
    /// Its term.
    pub term: i64,
    /// Position of its first byte.
    pub pos: i64,
    /// Bytes, header included.
    pub size: i32,
}

impl EntryAt {
    /// Position of the first byte of the body.
    pub fn body_pos(&self) -> i64 {
        self.pos + HEADER_SIZE as i64
    }

    /// Position after the entry.
    pub fn end_pos(&self) -> i64 {
        self.pos + i64::from(self.size)
    }

    pub(super) fn of(unit: &IndexUnit) -> Self {
        EntryAt {
            index: unit.index,
            term: unit.term,
            pos: unit.pos,
            size: unit.size,
        }
    }
}

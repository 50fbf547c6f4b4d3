//! A bounded cache of open files.
//!
//! A store of 10 000 topics has some 80 000 queue files; each is opened when it is needed and stays open only
//! while it is among the recently used.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use dledger::fs::{File, Fs, OpenMode};
use parking_lot::Mutex;

const SHARDS: usize = 16;

/// Which file: the owner (a queue, an index) and the position that the file begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    pub owner: u64,
    pub start: i64,
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn File>,
    used: u64,
}

#[derive(Debug, Default)]
struct Shard {
    files: HashMap<FileKey, Opened>,
    clock: u64,
}

/// Open files, at most a fixed number, the least recently used closed first.
#[derive(Debug)]
pub(crate) struct Descriptors {
    fs: Arc<dyn Fs>,
    shards: [Mutex<Shard>; SHARDS],
    per_shard: usize,
}

impl Descriptors {
    /// A cache of about `limit` files.
    pub fn new(fs: Arc<dyn Fs>, limit: usize) -> Descriptors {
        Descriptors {
            fs,
            shards: Default::default(),
            per_shard: (limit / SHARDS).max(2),
        }
    }

    /// The file, from the cache or opened for reading and writing.
    pub fn get(
        &self,
        key: FileKey,
        path: impl FnOnce() -> std::path::PathBuf,
    ) -> io::Result<Arc<dyn File>> {
        let mut shard = self.shard(key).lock();
        shard.clock += 1;
        let now = shard.clock;
        if let Some(opened) = shard.files.get_mut(&key) {
            opened.used = now;
            return Ok(opened.file.clone());
        }
        drop(shard);
        let file = self.fs.open(&path(), OpenMode::ReadWrite)?;
        self.insert(key, file.clone());
        Ok(file)
    }

    /// Creates the file at its full length, a hole until it is written, and keeps it open.
    pub fn create(&self, key: FileKey, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        let file = self.fs.open(path, OpenMode::Create)?;
        file.set_len(len)?;
        self.insert(key, file.clone());
        Ok(file)
    }

    /// Closes a file, before it is removed.
    pub fn forget(&self, key: FileKey) {
        self.shard(key).lock().files.remove(&key);
    }

    /// Files open at present.
    pub fn open_files(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().files.len())
            .sum()
    }

    fn insert(&self, key: FileKey, file: Arc<dyn File>) {
        let mut shard = self.shard(key).lock();
        if shard.files.len() >= self.per_shard {
            let oldest = shard.files.iter().min_by_key(|(_, opened)| opened.used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                shard.files.remove(&oldest);
            }
        }
        let used = shard.clock;
        shard.files.insert(key, Opened { file, used });
    }

    fn shard(&self, key: FileKey) -> &Mutex<Shard> {
        let spread = key.owner.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[(spread as usize ^ (key.start as usize >> 4)) % SHARDS]
    }
}

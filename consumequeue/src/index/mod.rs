//! The key index: messages by `UNIQ_KEY` and `KEYS`, in Java's files.
//!
//! Files are named by the local time of their creation and follow each other; each has a hash table over the
//! items in it. The text of a key is not stored, only its hash: whoever queries checks what he gets against the
//! message ([`matches`]).

mod file;
mod hash;
mod layout;
mod load;
mod query;
mod slots;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dledger::fs::Fs;
use parking_lot::{Mutex, RwLock};
use tracing::info;

use crate::descriptors::Descriptors;
use crate::error::Error;

pub use file::IndexEntry;
pub(crate) use file::IndexFile;
pub(crate) use hash::TopicHash;
pub(crate) use layout::{HEADER_SIZE, Header, Shape};
pub use query::matches;

/// Index files kept open.
const MAX_OPEN_FILES: usize = 64;

/// Settings of [`KeyIndex`].
#[derive(Debug, Clone)]
pub struct IndexConfig {
    /// The folder `index` of the store.
    pub path: PathBuf,
    /// Hash slots of a file (`maxHashSlotNum`).
    pub hash_slots: u32,
    /// Items of a file (`maxIndexNum`), of which the first is never used.
    pub max_items: u32,
}

impl IndexConfig {
    /// Java's sizes.
    pub fn new(path: impl Into<PathBuf>) -> IndexConfig {
        IndexConfig {
            path: path.into(),
            hash_slots: 5_000_000,
            max_items: 20_000_000,
        }
    }
}

/// What [`KeyIndex::open`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// Number of files.
    pub files: usize,
    /// What was found wrong; the files from there on were removed and must be made again from the log.
    pub damaged: Option<String>,
    /// Names that do not belong there and were left alone.
    pub foreign_names: usize,
}

/// The key index of a store. One writer, any number of readers.
#[derive(Debug)]
pub struct KeyIndex {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    shape: Shape,
    descriptors: Arc<Descriptors>,
    owners: AtomicU64,
    /// Ascending by name.
    files: RwLock<Vec<Arc<IndexFile>>>,
    writer: Mutex<Writer>,
    poisoned: AtomicBool,
}

#[derive(Debug, Default)]
struct Writer {
    /// Accepted, but not yet in a file: only after an error.
    backlog: Vec<IndexEntry>,
    /// Physical offset of the last message accepted: earlier ones are in the index already.
    accepted: i64,
    /// Whether names in the folder changed since the last sync.
    names_changed: bool,
    /// End time of the last full file that was synced.
    full_timestamp: i64,
}

impl KeyIndex {
    /// Opens the index; the folder need not exist.
    pub fn open(fs: Arc<dyn Fs>, config: &IndexConfig) -> Result<(KeyIndex, IndexReport), Error> {
        for (key, value) in [
            ("maxHashSlotNum", config.hash_slots),
            ("maxIndexNum", config.max_items),
        ] {
            if value < 2 || i32::try_from(value).is_err() {
                return Err(Error::Setting {
                    key,
                    reason: format!("{value} is not a usable number"),
                });
            }
        }
        let index = KeyIndex {
            descriptors: Arc::new(Descriptors::new(fs.clone(), MAX_OPEN_FILES)),
            fs,
            path: config.path.clone(),
            shape: Shape {
                slots: config.hash_slots,
                items: config.max_items,
            },
            owners: AtomicU64::new(0),
            files: RwLock::default(),
            writer: Mutex::default(),
            poisoned: AtomicBool::new(false),
        };
        let report = index.load()?;
        Ok((index, report))
    }

    /// Adds entries, in the order of the log: all keys of a message in one call. Messages at or below the last one
    /// accepted are left out, so that reading a part of the log again does no harm. After an error the entries
    /// are kept and written first by the next call.
    pub fn append(&self, entries: &[IndexEntry]) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        let new = entries.partition_point(|entry| entry.physical_offset <= writer.accepted);
        if writer.backlog.is_empty() {
            let mut rest = &entries[new..];
            if let Some(last) = rest.last() {
                writer.accepted = last.physical_offset;
            }
            let written = self.write(&mut writer, &mut rest);
            if written.is_err() {
                writer.backlog.extend_from_slice(rest);
            }
            return written;
        }
        writer.backlog.extend_from_slice(&entries[new..]);
        if let Some(last) = entries[new..].last() {
            writer.accepted = last.physical_offset;
        }
        let backlog = std::mem::take(&mut writer.backlog);
        let mut rest = backlog.as_slice();
        let written = self.write(&mut writer, &mut rest);
        writer.backlog = rest.to_vec();
        written
    }

    /// Physical offset of the last message accepted; -1 if the index is empty.
    pub fn last_physical_offset(&self) -> i64 {
        self.writer.lock().accepted
    }

    /// Writes what is only in memory, and makes everything accepted before the call durable if `sync` is set.
    pub fn flush(&self, sync: bool) -> Result<(), Error> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::Poisoned);
        }
        let flushed = self.flush_files(sync);
        if sync && flushed.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        flushed
    }

    /// End time of the last full file that was synced, for the store's checkpoint; 0 if there is none.
    pub fn full_timestamp(&self) -> i64 {
        self.writer.lock().full_timestamp
    }

    /// Removes files, but never the last, whose messages all lie below the begin of the log; returns how many.
    pub fn expire(&self, log_min: i64) -> Result<usize, Error> {
        let mut removed = 0;
        loop {
            let oldest = {
                let mut files = self.files.write();
                if files.len() < 2 || files[0].header().end_physical >= log_min {
                    return Ok(removed);
                }
                files.remove(0)
            };
            self.remove_file(&oldest)?;
            removed += 1;
        }
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.files.read().len()
    }

    fn write(&self, writer: &mut Writer, rest: &mut &[IndexEntry]) -> Result<(), Error> {
        while !rest.is_empty() {
            let last = self.files.read().last().cloned();
            let file = match last.filter(|file| file.room() > 0) {
                Some(file) => file,
                None => self.roll(writer)?,
            };
            let (now, later) = rest.split_at(file.room().min(rest.len()));
            file.append(now)?;
            *rest = later;
        }
        Ok(())
    }

    fn roll(&self, writer: &mut Writer) -> Result<Arc<IndexFile>, Error> {
        let last = self.files.read().last().cloned();
        if last.is_none() {
            self.fs
                .create_dir_all(&self.path)
                .map_err(Error::io("create folder", &self.path))?;
        }
        let name = load::next_name(last.as_ref().map(|file| file.name.as_str()));
        let file = Arc::new(IndexFile::create(
            self.path.join(&name),
            self.owners.fetch_add(1, Ordering::Relaxed),
            self.shape,
            self.descriptors.clone(),
            last.map(|file| file.header()).as_ref(),
        )?);
        writer.names_changed = true;
        info!(name, "new index file");
        self.files.write().push(file.clone());
        Ok(file)
    }

    fn flush_files(&self, sync: bool) -> Result<(), Error> {
        let files = self.files.read().clone();
        let names_changed = sync && std::mem::take(&mut self.writer.lock().names_changed);
        let mut full_timestamp = 0;
        for (number, file) in files.iter().enumerate() {
            file.flush()?;
            if sync {
                file.sync()?;
            }
            if sync && file.room() == 0 {
                full_timestamp = file.header().end_timestamp;
            }
            if number + 1 < files.len() {
                file.release();
            }
        }
        if names_changed {
            self.fs
                .sync_dir(&self.path)
                .map_err(Error::io("sync folder", &self.path))?;
        }
        if sync {
            self.writer.lock().full_timestamp = full_timestamp;
        }
        Ok(())
    }

    fn remove_file(&self, file: &IndexFile) -> Result<(), Error> {
        file.close();
        self.writer.lock().names_changed = true;
        self.fs
            .remove_file(file.path())
            .map_err(Error::io("remove index", file.path()))
    }
}

//! The legacy half: the commitlog files that a broker wrote before it ran on a DLedger log.
//!
//! Files of one fixed size, named by the absolute offset of their first byte, frames one after another, the
//! rest of a full file behind a [blank record](crate::blank). While mixed with a DLedger log these files are
//! only read, and deleted from the front by retention.

mod listing;
mod mark;
mod recovery;
mod scan_note;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dledger::fs::{Fs, Map, MapMode};
use parking_lot::RwLock;

pub use listing::{LegacyFile, Listing, list};
pub use mark::{LegacyMark, MARK_FILE};
pub use recovery::{
    Behind, ClosedEnd, Recovered, Stop, abnormal_start, closed_end, intact_behind, normal_start,
    recover,
};
pub use scan_note::SCAN_NOTE_FILE;

use crate::progress::Progress;

/// The legacy files of an open store, mapped when first read.
#[derive(Debug)]
pub struct LegacyLog {
    fs: Arc<dyn Fs>,
    file_size: u64,
    files: RwLock<Arc<[Arc<Mapped>]>>,
}

/// One file, mapped on first use.
#[derive(Debug)]
struct Mapped {
    file: LegacyFile,
    map: OnceLock<Arc<dyn Map>>,
}

impl Mapped {
    fn map(&self, fs: &dyn Fs) -> io::Result<&Arc<dyn Map>> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let map = fs.map(&self.file.path, MapMode::ReadOnly)?;
        Ok(self.map.get_or_init(|| map))
    }
}

impl LegacyLog {
    /// The given files, ascending and of `file_size` bytes each; contiguous, unless it is a damaged store that is looked
    /// at.
    pub fn new(fs: Arc<dyn Fs>, files: Vec<LegacyFile>, file_size: u64) -> LegacyLog {
        let files = files.into_iter().map(|file| {
            Arc::new(Mapped {
                file,
                map: OnceLock::new(),
            })
        });
        LegacyLog {
            fs,
            file_size,
            files: RwLock::new(files.collect()),
        }
    }

    /// Whether no file is left.
    pub fn is_empty(&self) -> bool {
        self.files.read().is_empty()
    }

    /// Start of the first file, none if no file is left.
    pub fn min_offset(&self) -> Option<i64> {
        self.files.read().first().map(|f| f.file.start)
    }

    /// End of the last file, none if no file is left.
    pub fn end(&self) -> Option<i64> {
        self.files
            .read()
            .last()
            .map(|f| f.file.start + self.file_size as i64)
    }

    /// The files that are left, ascending.
    pub fn files(&self) -> Vec<LegacyFile> {
        self.files.read().iter().map(|f| f.file.clone()).collect()
    }

    /// The bytes `[position, position + len)`, if they lie in one file that is still there.
    pub fn slice(&self, position: i64, len: usize) -> io::Result<Option<Bytes>> {
        let Some((file, at)) = self.find(position) else {
            return Ok(None);
        };
        if at + len as u64 > self.file_size {
            return Ok(None);
        }
        Ok(Some(file.map(&*self.fs)?.slice(at, len)))
    }

    /// The bytes from `position` to the end of its file, and where that file ends.
    pub fn rest_of_file(&self, position: i64) -> io::Result<Option<(Bytes, i64)>> {
        let Some((file, at)) = self.find(position) else {
            return Ok(None);
        };
        let bytes = file
            .map(&*self.fs)?
            .slice(at, (self.file_size - at) as usize);
        Ok(Some((bytes, file.file.start + self.file_size as i64)))
    }

    /// Removes the first file. Readers that hold slices of it keep them.
    pub(crate) fn remove_first(&self) -> io::Result<Option<PathBuf>> {
        let mut files = self.files.write();
        let Some(first) = files.first().cloned() else {
            return Ok(None);
        };
        self.fs.remove_file(&first.file.path)?;
        *files = files[1..].into();
        drop(files);
        if let Some(dir) = first.file.path.parent() {
            self.fs.sync_dir(dir)?;
        }
        Ok(Some(first.file.path.clone()))
    }

    fn find(&self, position: i64) -> Option<(Arc<Mapped>, u64)> {
        let files = self.files.read();
        let behind = files.partition_point(|f| f.file.start <= position);
        let file = files.get(behind.checked_sub(1)?)?;
        let at = (position - file.file.start) as u64;
        (at < self.file_size).then(|| (file.clone(), at))
    }
}

/// Where a recovery reports how far it is.
pub type OnProgress<'a> = &'a dyn Fn(Progress);

#[cfg(test)]
mod tests;

//! The file layer: everything the log, and the parts above it, do with a disk.
//!
//! Two implementations exist. [`RealFs`] works on the operating system's files, with memory mappings for the
//! files of a log. [`MemFs`] is its twin in memory: it remembers for every page what was synced, and can produce
//! the disk that a power failure would have left behind (a *crash image*), so that recovery can be tested on
//! thousands of them.
//!
//! What is durable when: the content of a file after [`File::sync`] or [`Map::sync`] of the range, a directory
//! entry after [`Fs::sync_dir`] of its directory. Nothing else is promised after a power failure; after the death
//! of the process everything written is still there.

mod lock;
mod mapping;
mod mem;
mod real;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

pub use lock::{LockError, StoreLock, lock_exclusive};
pub use mem::{CrashPolicy, MemFs};
pub use real::RealFs;

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The file name, without its directory. Names that are not UTF-8 are given with replacement characters.
    pub name: String,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Last modification, milliseconds since the epoch.
    pub modified_ms: i64,
}

/// Size of a partition, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the partition holds for ordinary users (used + available).
    pub total: u64,
    /// Bytes that an ordinary user may still write.
    pub available: u64,
}

impl Space {
    /// Used part, 0.0 to 1.0, as `df` counts it (rounded up to a full percent).
    pub fn used_ratio(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let used = u128::from(self.total.saturating_sub(self.available));
        let percent = (used * 100).div_ceil(u128::from(self.total));
        percent as f64 / 100.0
    }
}

/// How [`Fs::open`] opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// For reading and writing; created empty when it does not exist, otherwise its content is kept.
    Create,
}

/// How [`Fs::map`] maps a file. The whole file is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapMode {
    /// An existing file of at least one byte, for reading.
    ReadOnly,
    /// An existing file of at least one byte, for reading and writing.
    ReadWrite,
    /// For reading and writing; a new, sparse file of this many bytes. A file of that name may exist only if it
    /// is empty or already has that size. The size is durable when the call returns, the directory entry is not.
    Create {
        /// Bytes.
        size: u64,
    },
}

/// A file system.
pub trait Fs: Send + Sync + fmt::Debug + 'static {
    /// The entries of a directory, ascending by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Whether something of that name exists.
    fn exists(&self, path: &Path) -> bool;
    /// Creates a directory and its parents; each new name is made durable. No error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with everything in it.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file over what was there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Sets the time of last modification, milliseconds since the epoch.
    fn set_modified(&self, path: &Path, ms: i64) -> io::Result<()>;
    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Writes a whole file in place; not synced, not atomic.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Replaces a file atomically and durably: writes and syncs `<path>.tmp`, renames it over `path`, syncs the
    /// directory. After a crash at any instant the old or the new content is there, whole.
    fn write_durable(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a file for positioned reads and writes.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Maps a file.
    fn map(&self, path: &Path, mode: MapMode) -> io::Result<Arc<dyn Map>>;
    /// Space on the partition of a path.
    fn space(&self, path: &Path) -> io::Result<Space>;
}

/// A file opened for positioned reads and writes.
pub trait File: Send + Sync + fmt::Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf` at `offset`; the file grows as needed.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends (with zeros, sparse) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
}

/// A mapped file of fixed length.
///
/// One writer at a time, and it only writes where no reader has been told to look: bytes become visible to readers
/// by the caller publishing a larger end (an atomic store with release order) after the write. Reading or writing
/// beyond the length is a bug of the caller and panics.
pub trait Map: Send + Sync + fmt::Debug {
    /// Length in bytes.
    fn len(&self) -> u64;
    /// Whether it is of length zero (it never is).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The bytes `[offset, offset + len)`; without a copy on real files, where the slice keeps the mapping alive
    /// even after the file was unlinked. Only for published bytes.
    fn slice(&self, offset: u64, len: usize) -> Bytes;
    /// Copies bytes out.
    fn read_at(&self, offset: u64, buf: &mut [u8]);
    /// Lends bytes to `f` without touching a reference count.
    fn view(&self, offset: u64, len: usize, f: &mut dyn FnMut(&[u8]));
    /// Lends `[offset, offset + len)` to `f` for writing, in place.
    fn write(&self, offset: u64, len: usize, f: &mut dyn FnMut(&mut [u8]));
    /// Overwrites a range with zeros through the file, for bytes that readers may still hold: they may see the
    /// old bytes or zeros.
    fn zero(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Reserves disk blocks for a range and brings its pages into memory for writing. After success a write to the
    /// range cannot fail for lack of space; a full disk is an error here.
    fn prepare(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Makes a range durable, and the length with it.
    fn sync(&self, offset: u64, len: u64) -> io::Result<()>;
    /// The first offset at or after `from` that may hold something else than zeros; the length if there is none.
    fn next_data(&self, from: u64) -> u64;
}

/// Whether an error means that the disk, or a quota on it, is full.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

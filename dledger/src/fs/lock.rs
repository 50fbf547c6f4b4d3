//! The lock that keeps two brokers from one store.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};

/// Record locks belong to the process, so a second attempt of the same process would succeed: these are the files
/// that this process holds.
static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process, or this one, holds it.
    #[error("{} is locked: another broker is running on this store", .0.display())]
    Held(PathBuf),
    /// The lock file could not be opened, locked or written.
    #[error("cannot lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A held lock; released when dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct StoreLock {
    /// Closing it releases the lock. No other descriptor of this file may be closed by this process meanwhile:
    /// that would release it too.
    _file: File,
    key: PathBuf,
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        HELD.lock().remove(&self.key);
    }
}

/// Takes the store lock: a POSIX record lock on the file, the kind that a Java broker takes (on its first byte), so
/// each keeps the other out. Creates the file if it is missing and writes the word `lock`, as Java does. Does not
/// wait.
pub fn lock_exclusive(path: &Path) -> Result<StoreLock, LockError> {
    let failed = |source| LockError::Io {
        path: path.to_owned(),
        source,
    };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let key = dir.canonicalize().map_err(failed)?.join(name);
    let mut held = HELD.lock();
    if held.contains(&key) {
        return Err(LockError::Held(path.to_owned()));
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&key)
        .map_err(failed)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            return Err(LockError::Held(path.to_owned()));
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    file.write_all(b"lock").map_err(failed)?;
    held.insert(key.clone());
    Ok(StoreLock { _file: file, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_of_the_same_file_is_refused_until_the_first_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = lock_exclusive(&path).unwrap();
        assert!(matches!(lock_exclusive(&path), Err(LockError::Held(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"lock");
        drop(first);
        lock_exclusive(&path).unwrap();
    }
}

//! The store checkpoint: 4096 bytes, i64 fields, the rest zero or of a version that we do not know.

use std::io;
use std::path::Path;

use dledger::fs::Fs;

use crate::frame::read_i64;

/// Bytes of the file.
const LEN: usize = 4096;
/// Subtracted from the smaller timestamp, as Java does: timestamps are taken a little before the data is safe.
const MARGIN_MS: i64 = 3000;

const PHYSIC: usize = 0;
const LOGICS: usize = 8;
const INDEX: usize = 16;
const MASTER_FLUSHED: usize = 24;
const CONFIRM: usize = 32;
/// Bytes whose meaning is known for the versions we read.
const KNOWN: usize = 48;

/// What the store checkpoint says. Bytes that we do not know (5.5.0 has another i64 at 40) survive a rewrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheckpoint {
    bytes: Vec<u8>,
    found_len: Option<usize>,
}

impl Default for StoreCheckpoint {
    fn default() -> Self {
        StoreCheckpoint {
            bytes: vec![0; LEN],
            found_len: None,
        }
    }
}

impl StoreCheckpoint {
    /// Reads the file; all zero if there is none. A shorter file counts as followed by zeros, a longer one keeps
    /// its surplus.
    pub fn load(fs: &dyn Fs, path: &Path) -> io::Result<StoreCheckpoint> {
        let mut bytes = match fs.read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(StoreCheckpoint::default()),
            Err(e) => return Err(e),
        };
        let found_len = Some(bytes.len());
        if bytes.len() < LEN {
            bytes.resize(LEN, 0);
        }
        Ok(StoreCheckpoint { bytes, found_len })
    }

    /// Replaces the file atomically and durably.
    pub fn save(&self, fs: &dyn Fs, path: &Path) -> io::Result<()> {
        fs.write_durable(path, &self.bytes)
    }

    /// Length that the file had, none if there was no file.
    pub fn found_len(&self) -> Option<usize> {
        self.found_len
    }

    /// Whether the length is the one that brokers write (or there is no file).
    pub fn has_sound_len(&self) -> bool {
        self.found_len.is_none_or(|len| len == LEN)
    }

    /// Whether bytes beyond the known fields are in use.
    pub fn has_unknown_bytes(&self) -> bool {
        self.bytes[KNOWN..].iter().any(|&b| b != 0)
    }

    /// Store time of the last message known to be on disk, ms.
    pub fn physic_msg_timestamp(&self) -> i64 {
        self.get(PHYSIC)
    }

    /// Store time of the last message whose consume queue entry is known to be on disk, ms.
    pub fn logics_msg_timestamp(&self) -> i64 {
        self.get(LOGICS)
    }

    /// Store time of the last message in the last full index file, ms.
    pub fn index_msg_timestamp(&self) -> i64 {
        self.get(INDEX)
    }

    /// 5.x: what the master flushed (controller mode).
    pub fn master_flushed_offset(&self) -> i64 {
        self.get(MASTER_FLUSHED)
    }

    /// 5.x: start of the last sound record that a recovery found.
    pub fn confirm_phy_offset(&self) -> i64 {
        self.get(CONFIRM)
    }

    /// Sets [`physic_msg_timestamp`](Self::physic_msg_timestamp).
    pub fn set_physic_msg_timestamp(&mut self, ms: i64) {
        self.set(PHYSIC, ms);
    }

    /// Sets [`logics_msg_timestamp`](Self::logics_msg_timestamp).
    pub fn set_logics_msg_timestamp(&mut self, ms: i64) {
        self.set(LOGICS, ms);
    }

    /// Sets [`index_msg_timestamp`](Self::index_msg_timestamp).
    pub fn set_index_msg_timestamp(&mut self, ms: i64) {
        self.set(INDEX, ms);
    }

    /// Messages stored up to this time are in the log and in the queues for certain, ms; 0 if nothing is known.
    pub fn min_timestamp(&self) -> i64 {
        let min = self.physic_msg_timestamp().min(self.logics_msg_timestamp());
        min.saturating_sub(MARGIN_MS).max(0)
    }

    fn get(&self, at: usize) -> i64 {
        read_i64(&self.bytes, at).unwrap_or_default()
    }

    fn set(&mut self, at: usize, value: i64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use dledger::fs::MemFs;

    use super::*;

    #[test]
    fn unknown_bytes_survive_a_rewrite() {
        let fs = MemFs::new();
        let path = Path::new("/s/checkpoint");
        fs.create_dir_all(Path::new("/s")).unwrap();
        let mut raw = vec![0u8; LEN];
        raw[7] = 9;
        raw[47] = 5;
        raw[100] = 7;
        fs.write(path, &raw).unwrap();
        let mut c = StoreCheckpoint::load(&fs, path).unwrap();
        assert!(c.has_unknown_bytes() && c.has_sound_len());
        c.set_physic_msg_timestamp(10_000);
        c.set_logics_msg_timestamp(9_000);
        c.save(&fs, path).unwrap();
        let c = StoreCheckpoint::load(&fs, path).unwrap();
        assert_eq!((c.min_timestamp(), c.index_msg_timestamp()), (6_000, 0));
        let now = fs.read(path).unwrap();
        assert_eq!((now.len(), &now[40..]), (LEN, &raw[40..]));
    }

    #[test]
    fn missing_short_and_long_files() {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/s")).unwrap();
        let path = Path::new("/s/checkpoint");
        let c = StoreCheckpoint::load(&fs, path).unwrap();
        assert_eq!((c.min_timestamp(), c.found_len()), (0, None));
        fs.write(path, &5_000i64.to_be_bytes()).unwrap();
        let c = StoreCheckpoint::load(&fs, path).unwrap();
        assert_eq!(
            (c.physic_msg_timestamp(), c.has_sound_len()),
            (5_000, false)
        );
        fs.write(path, &vec![1; 5000]).unwrap();
        let c = StoreCheckpoint::load(&fs, path).unwrap();
        c.save(&fs, path).unwrap();
        assert_eq!(fs.read(path).unwrap().len(), 5000);
    }
}

//! The commitlog of a broker that runs on a DLedger log: each message frame is the body of one entry.
//!
//! Positions below the *divide* belong to the legacy files of an upgraded store and are only read; everything from
//! there on is the DLedger log. A message's physical offset is the position of its frame: entry position + 48. What
//! is visible ends at the commit point.

mod open;
mod put;
mod read;
mod retention;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dledger::store::BodyCheck;
use dledger::{CommitWatch, Log, ShutdownError, StartError, Status};

pub use open::{CommitLogConfig, OpenError, OpenReport};
pub use put::{Put, PutBatch, PutError};
pub use retention::{Removed, RetentionClock, RetentionError, Sweep};

use crate::frame::FrameView;
use crate::legacy::LegacyLog;

/// A broker's commitlog. Cheap to clone; all clones are the same log.
#[derive(Debug, Clone)]
pub struct DLedgerCommitLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    log: Log,
    halves: Arc<Halves>,
    data_dir: PathBuf,
    commitlog_dirs: Vec<PathBuf>,
    mark: PathBuf,
    /// End of the last legacy message, if that is known.
    legacy_end: Option<i64>,
    fs: Arc<dyn dledger::fs::Fs>,
    max_message_size: AtomicUsize,
    max_topic_len: usize,
    max_frame: usize,
}

/// What reading needs.
#[derive(Debug)]
struct Halves {
    legacy: LegacyLog,
    log: Log,
    reader: dledger::store::Reader,
}

impl DLedgerCommitLog {
    /// Takes part in the group; a group of one leads when this returns. Sends may be accepted only after the queue
    /// offsets were set from all that is committed.
    pub async fn start(&self) -> Result<(), StartError> {
        self.inner.log.start().await
    }

    /// Syncs and stops the log.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.inner.log.shutdown().await
    }

    /// The DLedger log.
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// Role, term, indexes and durability of the DLedger log.
    pub fn status(&self) -> Status {
        self.inner.log.status()
    }

    /// Follows the commit point: positions as [`max_offset`](Self::max_offset) gives them.
    pub fn watch_committed(&self) -> CommitWatch {
        self.inner.log.watch_committed()
    }

    /// Largest body accepted, bytes (`maxMessageSize`).
    pub fn max_message_size(&self) -> usize {
        self.inner.max_message_size.load(Ordering::Relaxed)
    }

    /// Changes `maxMessageSize` while running.
    pub fn set_max_message_size(&self, bytes: usize) {
        self.inner.max_message_size.store(bytes, Ordering::Relaxed);
    }

    /// The directories that hold the log's files, for judging how full their disks are: that of the DLedger data,
    /// and while legacy files are left, theirs.
    pub fn data_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.inner.data_dir.clone()];
        if !self.inner.halves.legacy.is_empty() {
            dirs.extend(self.inner.commitlog_dirs.iter().cloned());
        }
        dirs
    }
}

/// What recovery of the DLedger log checks of a body that was not known to be synced: that it is one whole frame, at
/// its own place, with the right CRC.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameCheck;

impl BodyCheck for FrameCheck {
    fn check(&self, body: &[u8], body_pos: i64) -> Result<(), String> {
        let frame = FrameView::parse(body).map_err(|e| e.to_string())?;
        if frame.size() != body.len() {
            return Err(format!(
                "{} bytes follow the message",
                body.len() - frame.size()
            ));
        }
        frame.validate(body_pos).map_err(|e| e.to_string())
    }
}

/// The clock, ms.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;

//! Retention over both halves: the oldest legacy files first, the last of them included; the DLedger log's own files
//! only when no legacy file is left, since a hole between the halves would break addressing.
//!
//! A file's age is that of the newer of its modification time and the first message behind it, so copied or reset
//! file times delete nothing. Clock jumps: see [`RetentionClock`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::DLedgerCommitLog;
use crate::legacy::LegacyMark;

/// One pass over the oldest files. It stops at the first file that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Files whose newest message was stored before this time may go, ms; `i64::MAX` for any.
    pub older_than_ms: i64,
    /// At most so many files.
    pub max_files: usize,
    /// No file that holds this position or a later one goes: what is still to be dispatched.
    pub keep_from: i64,
}

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Legacy files removed.
    pub legacy: Vec<PathBuf>,
    /// DLedger data files removed.
    pub dledger: usize,
    /// First position that is left.
    pub min_offset: i64,
}

/// Why a pass was not finished.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// A legacy file or our note about the legacy half.
    #[error("removing legacy commitlog files: {0}")]
    Legacy(#[from] io::Error),
    /// The DLedger log.
    #[error("removing DLedger files: {0}")]
    Dledger(String),
}

impl DLedgerCommitLog {
    /// Removes old files. Readers that hold slices of them keep them until they let go.
    pub fn expire(&self, sweep: &Sweep) -> Result<Removed, RetentionError> {
        let mut removed = Removed {
            legacy: Vec::new(),
            dledger: 0,
            min_offset: 0,
        };
        if self.inner.halves.legacy.is_empty() {
            removed.dledger = self.expire_dledger(sweep)?;
        } else {
            self.expire_legacy(sweep, &mut removed.legacy)?;
        }
        removed.min_offset = self.min_offset();
        Ok(removed)
    }

    fn expire_legacy(
        &self,
        sweep: &Sweep,
        removed: &mut Vec<PathBuf>,
    ) -> Result<(), RetentionError> {
        let legacy = &self.inner.halves.legacy;
        while removed.len() < sweep.max_files {
            let files = legacy.files();
            let Some(first) = files.first() else { break };
            let end = first.start + self.file_size();
            if end > sweep.keep_from || !self.is_old(end, first.modified_ms, sweep) {
                break;
            }
            if files.len() == 1 {
                self.retire_legacy()?;
            }
            removed.extend(legacy.remove_first()?);
        }
        Ok(())
    }

    /// Whether a file that ends at `end` and was modified then is older than the sweep keeps.
    fn is_old(&self, end: i64, modified_ms: i64, sweep: &Sweep) -> bool {
        if sweep.older_than_ms == i64::MAX {
            return true;
        }
        // Without a message behind the file its own last one is not far from the modification time.
        let next = self.first_store_timestamp(end).unwrap_or(modified_ms);
        modified_ms.max(next) < sweep.older_than_ms
    }

    /// Notes that the legacy half goes by our own doing, before its last file does.
    fn retire_legacy(&self) -> Result<(), RetentionError> {
        let divide = self.divided_offset();
        let fs = &*self.inner.fs;
        let known = LegacyMark::load(fs, &self.inner.mark)?.filter(|mark| mark.divide == divide);
        let unknown = LegacyMark {
            divide,
            end: divide,
            last_store_timestamp: 0,
            retired: true,
        };
        let mark = known.map_or(unknown, |mark| LegacyMark {
            retired: true,
            ..mark
        });
        Ok(mark.save(fs, &self.inner.mark)?)
    }

    fn expire_dledger(&self, sweep: &Sweep) -> Result<usize, RetentionError> {
        let log = &self.inner.log;
        let mut keep_from_pos = sweep.keep_from;
        if sweep.older_than_ms != i64::MAX {
            let reader = &self.inner.halves.reader;
            let mut start = reader.first_pos();
            for _ in 0..sweep.max_files {
                let end = reader.segment_end(start);
                match self.first_store_timestamp(end) {
                    Some(next) if next < sweep.older_than_ms => start = end,
                    _ => break,
                }
            }
            keep_from_pos = keep_from_pos.min(start);
        }
        let sweep = dledger::store::Sweep {
            older_than_ms: sweep.older_than_ms,
            max_files: sweep.max_files,
            keep_from_pos,
        };
        let expired = log
            .expire(&sweep)
            .map_err(|e| RetentionError::Dledger(e.to_string()))?;
        Ok(expired.files)
    }
}

/// Tells whether the clock may be trusted to delete files by their age.
///
/// It may not for as long as files are kept (counted in time that passes while the broker runs)
/// - from the start, if the newest message looks older than that: the clock may be wrong, or the broker was down, and
///   consumers have a claim to the time;
/// - from a jump of the clock, forward by more than an hour against the time that passed.
///
/// Deletion because a disk is full does not ask.
#[derive(Debug, Clone)]
pub struct RetentionClock {
    reserved: Duration,
    last_wall_ms: i64,
    last: Duration,
    held_until: Duration,
}

/// Forward steps of the clock up to this size are no jump, ms.
const STEP_MS: i64 = 3_600_000;

impl RetentionClock {
    /// A clock that starts now: `wall_ms` by the system's clock, `newest_ms` the store time of the newest message (none
    /// if there is none).
    pub fn new(wall_ms: i64, newest_ms: Option<i64>, reserved: Duration) -> RetentionClock {
        let reserved_ms = i64::try_from(reserved.as_millis()).unwrap_or(i64::MAX);
        let suspicious =
            newest_ms.is_some_and(|newest| wall_ms.saturating_sub(newest) > reserved_ms);
        RetentionClock {
            reserved,
            last_wall_ms: wall_ms,
            last: Duration::ZERO,
            held_until: if suspicious { reserved } else { Duration::ZERO },
        }
    }

    /// How long deletion by age is held yet; none if it may go on. `running` is the time since the start by a clock
    /// that does not jump.
    pub fn held_for(&mut self, wall_ms: i64, running: Duration) -> Option<Duration> {
        let passed =
            i64::try_from(running.saturating_sub(self.last).as_millis()).unwrap_or(i64::MAX);
        if wall_ms
            .saturating_sub(self.last_wall_ms)
            .saturating_sub(passed)
            > STEP_MS
        {
            self.held_until = running + self.reserved;
        }
        (self.last_wall_ms, self.last) = (wall_ms, running);
        self.held_until
            .checked_sub(running)
            .filter(|rest| !rest.is_zero())
    }
}

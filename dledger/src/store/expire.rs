//! Removing the oldest files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::StoreError;
use super::files::{Segment, file_name};
use super::shared::Shared;
use crate::index_unit::UNIT_SIZE;

/// When old files may go; plain values of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct RetentionPolicy {
    /// Hours of the day (0 to 23) in which expired files are removed (`deleteWhen`).
    pub delete_hours: Vec<u32>,
    /// Milliseconds that a file is kept after its last modification (`fileReservedTime`).
    pub reserved_ms: i64,
    /// Used part of the partition from which expired files are removed at any hour (`diskMaxUsedSpaceRatio`).
    pub check_ratio: f64,
    /// Used part from which files are removed although they have not expired; `None` for never.
    pub force_ratio: Option<f64>,
    /// Files removed in one sweep at most.
    pub files_per_sweep: usize,
}

/// What the policy looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Situation {
    /// Now, milliseconds since the epoch.
    pub now_ms: i64,
    /// Hour of the day, local time.
    pub hour: u32,
    /// Used part of the partition, 0.0 to 1.0.
    pub used_ratio: f64,
}

impl RetentionPolicy {
    /// What is to be removed now; `None` for nothing.
    pub fn sweep(&self, situation: &Situation) -> Option<Sweep> {
        let forced = self
            .force_ratio
            .is_some_and(|ratio| situation.used_ratio > ratio);
        let due =
            self.delete_hours.contains(&situation.hour) || situation.used_ratio > self.check_ratio;
        if !due && !forced {
            return None;
        }
        let older_than_ms = if forced {
            i64::MAX
        } else {
            situation.now_ms.saturating_sub(self.reserved_ms)
        };
        Some(Sweep {
            older_than_ms,
            max_files: self.files_per_sweep,
            keep_from_pos: i64::MAX,
        })
    }
}

/// One pass over the oldest files. It stops at the first file that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Files last modified before this time may go, milliseconds since the epoch; `i64::MAX` for any.
    pub older_than_ms: i64,
    /// At most so many.
    pub max_files: usize,
    /// No file that holds a position at or after this one goes: what a reader, a follower or the commit still needs.
    pub keep_from_pos: i64,
}

/// A data file, as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Position of its first byte.
    pub start: i64,
    /// Bytes.
    pub size: i64,
    /// Last modification, milliseconds since the epoch.
    pub modified_ms: i64,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// Data files removed.
    pub files: usize,
    /// Bytes of data files removed.
    pub bytes: i64,
    /// The first index that is left.
    pub begin_index: i64,
    /// The first position that is left.
    pub first_pos: i64,
}

/// Removes old files without the writer's lock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Expirer {
    shared: Arc<Shared>,
}

impl Expirer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Expirer { shared }
    }

    /// The data files, oldest first.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, StoreError> {
        let dir = self.shared.data.dir();
        let listed = self.shared.fs.list(dir);
        let listed = listed.map_err(|e| StoreError::io(format!("listing {}", dir.display()), e))?;
        let info = |segment: Arc<Segment>| {
            let name = file_name(segment.start);
            let entry = listed.iter().find(|entry| entry.name == name);
            SegmentInfo {
                start: segment.start,
                size: segment.size,
                modified_ms: entry.map_or(i64::MAX, |entry| entry.modified_ms),
            }
        };
        Ok(self.shared.data.all().into_iter().map(info).collect())
    }

    /// Removes whole files from the oldest on, never the last one, and only while the first entry that is left is
    /// synced: a power failure must not leave a log without a begin. The index follows. A file that a reader still holds is unlinked at once; its memory goes with the reader.
    pub fn expire(&self, sweep: &Sweep) -> Result<Expired, StoreError> {
        let shared = &self.shared;
        let _alone = shared.cutting.lock();
        let synced = shared.synced_pos.load(Ordering::Acquire);
        let mut first = None;
        let segments = self.segments()?;
        for (info, next) in segments
            .iter()
            .zip(segments.iter().skip(1))
            .take(sweep.max_files)
        {
            let needed = next.start > sweep.keep_from_pos || next.start >= synced;
            if info.modified_ms >= sweep.older_than_ms || needed {
                break;
            }
            first = Some(next.start);
        }
        let files = match first {
            Some(pos) => self.remove_below(pos)?,
            None => 0,
        };
        Ok(Expired {
            files,
            bytes: files as i64 * shared.data.file_size,
            begin_index: shared.begin_index(),
            first_pos: shared.first_pos(),
        })
    }

    fn remove_below(&self, pos: i64) -> Result<usize, StoreError> {
        let shared = &self.shared;
        // A file may be there and still without an entry: then the log would have no begin.
        let header = shared.header(pos);
        let Some(header) = header.filter(|header| header.pos == pos && pos < shared.end_pos())
        else {
            return Ok(0);
        };
        shared.first_pos.store(pos, Ordering::Release);
        shared.begin_index.store(header.index, Ordering::Release);
        let removed = shared.data.remove_below(pos);
        let removed = removed.map_err(|e| StoreError::io("removing expired data files", e))?;
        let index = shared.index.remove_below(header.index * UNIT_SIZE as i64);
        index.map_err(|e| StoreError::io("removing expired index files", e))?;
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RetentionPolicy {
        RetentionPolicy {
            delete_hours: vec![4],
            reserved_ms: 1000,
            check_ratio: 0.75,
            force_ratio: Some(0.85),
            files_per_sweep: 10,
        }
    }

    #[test]
    fn the_policy_knows_hour_ratio_and_force() {
        let at = |hour, used_ratio| {
            policy().sweep(&Situation {
                now_ms: 5000,
                hour,
                used_ratio,
            })
        };
        assert_eq!(at(3, 0.5), None);
        assert_eq!(at(4, 0.5).unwrap().older_than_ms, 4000);
        assert_eq!(at(3, 0.75), None);
        assert_eq!(at(3, 0.76).unwrap().older_than_ms, 4000);
        assert_eq!(at(3, 0.86).unwrap().older_than_ms, i64::MAX);
        let calm = RetentionPolicy {
            force_ratio: None,
            ..policy()
        };
        let full = Situation {
            now_ms: 5000,
            hour: 3,
            used_ratio: 0.99,
        };
        assert_eq!(calm.sweep(&full).unwrap().older_than_ms, 4000);
    }
}

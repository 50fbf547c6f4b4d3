//! What a log tells about itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::config::Durability;
use crate::peers::MemberId;
use crate::raft::RoleKind;

/// A member's role, as told to whoever follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleChange {
    /// The role.
    pub role: RoleKind,
    /// The term that it holds for.
    pub term: i64,
    /// The leader, if known.
    pub leader: Option<MemberId>,
}

/// A log's state at one moment. Indexes are −1 and positions the log's begin when there is no entry.
#[derive(Clone, Debug)]
pub struct Status {
    /// The group.
    pub group: String,
    /// This member.
    pub self_id: MemberId,
    /// How many members the group has.
    pub members: usize,
    /// Role.
    pub role: RoleKind,
    /// Current term.
    pub term: i64,
    /// The leader, if known.
    pub leader: Option<MemberId>,
    /// First index.
    pub begin_index: i64,
    /// Last index.
    pub end_index: i64,
    /// Committed index.
    pub committed_index: i64,
    /// Synced index.
    pub flushed_index: i64,
    /// Exclusive end of what was written (bytes).
    pub end_pos: i64,
    /// Exclusive end of what is committed (bytes).
    pub committed_pos: i64,
    /// Exclusive end of what is synced (bytes).
    pub flushed_pos: i64,
    /// Durability class in force.
    pub durability: Durability,
    /// The reason why the log takes nothing any more.
    pub poisoned: Option<Arc<str>>,
    /// Syncs and their durations.
    pub sync: SyncStatus,
}

/// Figures of the flusher since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncStatus {
    /// How many syncs were made.
    pub count: u64,
    /// Sum of their durations.
    pub total: Duration,
    /// Duration of the last one.
    pub last: Duration,
    /// Longest one.
    pub longest: Duration,
    /// Longest time that an entry was unsynced: from the append that made the log dirty to the end of its sync.
    pub longest_unsynced: Duration,
}

/// The flusher's counters, in microseconds.
#[derive(Debug, Default)]
pub(super) struct SyncCounters {
    count: AtomicU64,
    total: AtomicU64,
    last: AtomicU64,
    longest: AtomicU64,
    longest_unsynced: AtomicU64,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl SyncCounters {
    pub(super) fn synced(&self, took: Duration, unsynced: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(micros(took), Ordering::Relaxed);
        self.last.store(micros(took), Ordering::Relaxed);
        self.longest.fetch_max(micros(took), Ordering::Relaxed);
        self.longest_unsynced
            .fetch_max(micros(unsynced), Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> SyncStatus {
        let duration = |counter: &AtomicU64| Duration::from_micros(counter.load(Ordering::Relaxed));
        SyncStatus {
            count: self.count.load(Ordering::Relaxed),
            total: duration(&self.total),
            last: duration(&self.last),
            longest: duration(&self.longest),
            longest_unsynced: duration(&self.longest_unsynced),
        }
    }
}

//! How a log is opened.

use std::time::Duration;

use crate::peers::{MemberId, Peers};
use crate::raft::{Acknowledge, Timers};
use crate::store::StoreConfig;

/// When an append is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Class P: when a majority holds it in its page cache. It is synced within the flush interval.
    #[default]
    PageCacheMajority,
    /// Class S: when a majority has synced it. One sync covers everything appended before it began.
    SyncMajority,
}

impl Durability {
    /// `P` or `S`.
    pub fn class(self) -> char {
        match self {
            Durability::PageCacheMajority => 'P',
            Durability::SyncMajority => 'S',
        }
    }

    pub(super) fn acknowledge(self) -> Acknowledge {
        match self {
            Durability::PageCacheMajority => Acknowledge::Written,
            Durability::SyncMajority => Acknowledge::Synced,
        }
    }
}

/// A log's configuration. [`LogConfig::new`] has Java's defaults.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Name of the group; members of another group are refused.
    pub group: String,
    /// Which member this is.
    pub self_id: MemberId,
    /// All members.
    pub peers: Peers,
    /// Where the log lies, and its file sizes.
    pub store: StoreConfig,
    /// Longest time between an append and the begin of the sync that covers it.
    pub flush_interval: Duration,
    /// Pause between two writes of the checkpoint; none is written when nothing changed.
    pub checkpoint_interval: Duration,
    /// When an append is acknowledged.
    pub durability: Durability,
    /// Most appended but uncommitted entries before appends are refused.
    pub pending_max: usize,
    /// Longest wait of [`crate::Log::committed`].
    pub ack_timeout: Duration,
    /// Election timers.
    pub timers: Timers,
}

impl LogConfig {
    /// A log with Java's defaults: class P, flush every 10 ms, checkpoint every 3 s, 10 000 pending, 2.5 s to wait.
    pub fn new(
        group: impl Into<String>,
        self_id: MemberId,
        peers: Peers,
        store: StoreConfig,
    ) -> LogConfig {
        LogConfig {
            group: group.into(),
            self_id,
            peers,
            store,
            flush_interval: Duration::from_millis(10),
            checkpoint_interval: Duration::from_secs(3),
            durability: Durability::default(),
            pending_max: 10_000,
            ack_timeout: Duration::from_millis(2500),
            timers: Timers::default(),
        }
    }
}

//! The message store of a broker: log, queues, key index and dispatcher as one thing.
//!
//! Opening follows one order: lock → examination, or refusal → recovery and upgrade → leadership →
//! abort file → queues and index → catching up → queue offsets; only then may sends be accepted. See
//! [`opening`]. Closing goes the other way and leaves a store that a Java broker opens as cleanly
//! stopped.

mod get;
pub mod opening;
mod put;
mod repair;
mod retention;
mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::{Duration, Instant};

use bytes::Bytes;
use commitlog::layout::{StoreCheckpoint, StoreLayout, StoreLock};
use commitlog::{DLedgerCommitLog, QueueOffsets, QueueSlot, RetentionClock};
use consumequeue::{ConsumeQueue, ConsumeQueues, DelayLevels, Dispatcher, KeyIndex, time_search};
use dledger::fs::Fs;
use parking_lot::Mutex;

pub use consumequeue::Unit;
pub use consumequeue::time_search::Boundary;
pub use get::{Fetched, GetLimits, GetRequest, GetStatus};
pub use opening::{OnStage, Opened, OpeningError, Stage};
pub use put::{Delay, PutError, Stored};
pub use repair::{RepairError, Repaired, repair};
pub use retention::CleanPolicy;
pub use running::Running;

/// A send that has found its topic stores its message within this time.
const SENDS_END_WITHIN: Duration = Duration::from_millis(20);

/// The removal of a topic waits no longer than this for the dispatcher.
const DISPATCH_TIME: Duration = Duration::from_secs(5);

/// What went wrong while reading or cleaning.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Queues or index.
    #[error(transparent)]
    Derived(#[from] consumequeue::Error),
    /// Files of the log.
    #[error(transparent)]
    Retention(#[from] commitlog::RetentionError),
    /// Another file.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Messages by key.
#[derive(Debug)]
pub struct FoundByKey {
    /// Whole stored records, oldest first.
    pub messages: Vec<Bytes>,
    /// Store time of the last record in the index, ms.
    pub index_timestamp: i64,
    /// Physical offset of the last record in the index.
    pub index_physical_offset: i64,
}

/// The store of a running broker.
#[derive(Debug)]
pub struct MessageStore {
    fs: Arc<dyn Fs>,
    layout: StoreLayout,
    log: DLedgerCommitLog,
    queues: Arc<ConsumeQueues>,
    index: Option<Arc<KeyIndex>>,
    dispatcher: Dispatcher<DLedgerCommitLog>,
    offsets: QueueOffsets,
    levels: DelayLevels,
    /// The store's checkpoint file as it was last written.
    checkpoint: Mutex<StoreCheckpoint>,
    checkpointed: AtomicI64,
    clock: Mutex<RetentionClock>,
    opened: Instant,
    disk_full: AtomicBool,
    stopping: AtomicBool,
    /// Held as long as the store is open.
    _lock: StoreLock,
}

impl MessageStore {
    /// The log.
    pub fn log(&self) -> &DLedgerCommitLog {
        &self.log
    }

    /// A queue that has ever had a message.
    pub(crate) fn queue(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        self.queues.queue(topic, queue_id)
    }

    /// Where the next offset of a queue is counted.
    pub fn slot(&self, topic: &str, queue_id: i32) -> Arc<QueueSlot> {
        let slot = self.offsets.slot(topic, queue_id);
        // A message that was on its way while its topic was deleted has made the queue again: who
        // comes next goes on behind it.
        let (_, end) = self.queue_range(topic, queue_id);
        if slot.next() == 0 && end > 0 {
            slot.set(end);
        }
        slot
    }

    /// First offset of a queue and the offset that its next message gets; (0, 0) if it never had one.
    pub fn queue_range(&self, topic: &str, queue_id: i32) -> (i64, i64) {
        self.queue(topic, queue_id)
            .map_or((0, 0), |queue| (queue.min_offset(), queue.max_offset()))
    }

    /// The offset that the next message of a queue gets, those counted that consumers cannot see yet.
    pub fn stored_end(&self, topic: &str, queue_id: i32) -> i64 {
        self.offsets.next(topic, queue_id)
    }

    /// How far the message at a queue offset lies before the end of the log, in bytes.
    pub fn behind(&self, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
        let queue = self.queue(topic, queue_id)?;
        if offset < queue.min_offset() || offset >= queue.max_offset() {
            return None;
        }
        let unit = queue.unit(offset).ok()??;
        Some(self.log.max_offset() - unit.physical_offset)
    }

    /// True if a group that is new to a queue may begin at 0: the queue still begins there, and its
    /// first message, if there is one, lies within `memory_distance` of the end of the log.
    pub fn begins_in_memory(&self, topic: &str, queue_id: i32, memory_distance: i64) -> bool {
        let (min, max) = self.queue_range(topic, queue_id);
        min <= 0
            && (max <= 0
                || self
                    .behind(topic, queue_id, 0)
                    .is_none_or(|behind| behind <= memory_distance))
    }

    /// The offset of a queue at a time (ms). May read from the disk.
    pub fn offset_by_time(
        &self,
        topic: &str,
        queue_id: i32,
        timestamp: i64,
        boundary: Boundary,
    ) -> Result<i64, StoreError> {
        match self.queue(topic, queue_id) {
            Some(queue) => Ok(time_search::offset_by_time(
                &queue, &self.log, timestamp, boundary,
            )?),
            None => Ok(0),
        }
    }

    /// Store time of the message at a queue offset, ms. May read from the disk.
    pub fn store_time(&self, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
        let queue = self.queue(topic, queue_id)?;
        time_search::store_time(&queue, &self.log, offset)
            .ok()
            .flatten()
    }

    /// The committed message at a physical offset.
    pub fn message_at(&self, physical_offset: i64) -> Option<Bytes> {
        self.log.message_at(physical_offset)
    }

    /// Messages of a topic that have a key and were stored in `[begin, end]` (ms): the newest `max`.
    pub fn query(
        &self,
        topic: &str,
        key: &str,
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<FoundByKey, StoreError> {
        let Some(index) = &self.index else {
            return Ok(FoundByKey {
                messages: Vec::new(),
                index_timestamp: 0,
                index_physical_offset: 0,
            });
        };
        let mut found = index.find(&self.log, topic, key, max, begin, end)?;
        found.sort_unstable_by_key(|(physical_offset, _)| *physical_offset);
        let last = index.last_physical_offset();
        Ok(FoundByKey {
            messages: found.into_iter().map(|(_, message)| message).collect(),
            index_timestamp: self.log.store_timestamp_at(last).unwrap_or(0),
            index_physical_offset: last,
        })
    }

    /// Range and units of a queue from an offset on; `None` if it never had a message.
    pub fn units(
        &self,
        topic: &str,
        queue_id: i32,
        from: i64,
        count: usize,
    ) -> Result<Option<(i64, i64, Vec<Unit>)>, StoreError> {
        let Some(queue) = self.queue(topic, queue_id) else {
            return Ok(None);
        };
        let (min, max) = (queue.min_offset(), queue.max_offset());
        let mut units = Vec::new();
        let left = (max - from.max(0)).clamp(0, count as i64) as usize;
        queue.units(from.max(0), left, &mut units)?;
        Ok(Some((min, max, units)))
    }

    /// Topics that have queues.
    pub fn topics(&self) -> Vec<Arc<str>> {
        self.queues.topics()
    }

    /// Removes the queues of a topic that nobody is sent to any more; its messages stay in the log until
    /// they expire. Blocks for a moment: what was stored before must be dispatched before, or it would
    /// make the queues again.
    pub fn remove_topic(&self, topic: &str) -> Result<(), StoreError> {
        std::thread::sleep(SENDS_END_WITHIN);
        let (stored, begun) = (self.log.max_offset(), Instant::now());
        while self.dispatcher.position() < stored && begun.elapsed() < DISPATCH_TIME {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.dispatcher.remove_topic(topic)?;
        self.offsets.remove_topic(topic);
        Ok(())
    }

    /// Committed bytes that consumers cannot see yet.
    pub fn behind_bytes(&self) -> i64 {
        self.dispatcher.behind_bytes()
    }
}

//! The next offset of every queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use dashmap::DashMap;

/// The next offset of one queue. Read and advanced under the log's lock only, so that offsets are dense and
/// in the order of the log; cheap to keep beside a topic's settings.
#[derive(Debug, Default)]
pub struct QueueSlot {
    next: AtomicI64,
}

impl QueueSlot {
    /// The offset that the next message of the queue will get.
    pub fn next(&self) -> i64 {
        self.next.load(Ordering::Acquire)
    }

    /// Sets the next offset: when the queues have been read at start, or a topic begins anew.
    pub fn set(&self, next: i64) {
        self.next.store(next, Ordering::Release);
    }

    /// Advances by `count`; only under the log's lock.
    pub(crate) fn advance(&self, count: i64) {
        self.next.store(self.next() + count, Ordering::Release);
    }
}

/// Next offsets of all queues, by topic and queue id.
///
/// A slot lives as long as the table: whoever keeps an `Arc` of it and whoever looks it up later assign from
/// the same counter, even when the topic was deleted and made again in between.
#[derive(Debug, Default)]
pub struct QueueOffsets {
    topics: DashMap<Box<str>, HashMap<i32, Arc<QueueSlot>>>,
}

impl QueueOffsets {
    /// An empty table: every queue begins at 0.
    pub fn new() -> QueueOffsets {
        QueueOffsets::default()
    }

    /// The slot of a queue, made at 0 if it is new.
    pub fn slot(&self, topic: &str, queue_id: i32) -> Arc<QueueSlot> {
        if let Some(slot) = self
            .topics
            .get(topic)
            .and_then(|queues| queues.get(&queue_id).cloned())
        {
            return slot;
        }
        self.topics
            .entry(topic.into())
            .or_default()
            .entry(queue_id)
            .or_default()
            .clone()
    }

    /// The next offset of a queue, 0 if nothing is known of it.
    pub fn next(&self, topic: &str, queue_id: i32) -> i64 {
        self.topics
            .get(topic)
            .and_then(|queues| queues.get(&queue_id).map(|slot| slot.next()))
            .unwrap_or(0)
    }

    /// Sets the next offset of a queue.
    pub fn set(&self, topic: &str, queue_id: i32, next: i64) {
        self.slot(topic, queue_id).set(next);
    }

    /// Replaces the whole table by what the queues say; queues not named begin at 0 again.
    pub fn rebuild<'a>(&self, queues: impl IntoIterator<Item = (&'a str, i32, i64)>) {
        self.topics
            .iter()
            .for_each(|topic| topic.values().for_each(|slot| slot.set(0)));
        queues
            .into_iter()
            .for_each(|(topic, queue_id, next)| self.set(topic, queue_id, next));
    }

    /// Forgets a deleted topic: its queues begin at 0 if it is made again.
    pub fn remove_topic(&self, topic: &str) {
        if let Some(queues) = self.topics.get(topic) {
            queues.values().for_each(|slot| slot.set(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_and_survive_removal() {
        let table = QueueOffsets::new();
        let slot = table.slot("T", 1);
        slot.advance(3);
        assert_eq!(
            (table.next("T", 1), table.next("T", 2), table.next("U", 1)),
            (3, 0, 0)
        );
        table.remove_topic("T");
        assert_eq!(table.next("T", 1), 0);
        slot.advance(1);
        assert_eq!(table.slot("T", 1).next(), 1);
        table.rebuild([("T", 2, 9)]);
        assert_eq!((slot.next(), table.next("T", 2)), (0, 9));
    }
}

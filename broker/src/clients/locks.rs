//! Queue locks of orderly consumers (requests 41 and 42).
//!
//! A queue of a group belongs to one client id at a time. A lock lasts [`LOCK_LIFETIME`] from its
//! owner's last request; clients ask again every 20 s. Whether the client is a member of the group
//! is not looked at, as in Java.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a lock lasts without being asked for again.
pub const LOCK_LIFETIME: Duration = Duration::from_secs(60);

/// Locks of groups that were not touched for this long are forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Most locks of all groups together. Beyond it those that ran out are dropped, and if that does not help new ones
/// are refused: a client that is refused asks again later.
const LOCKS_MAX: usize = 200_000;

/// A full table is not looked through more often than this.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Lock {
    client_id: String,
    since: Instant,
}

impl Lock {
    fn is_live(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) <= LOCK_LIFETIME
    }
}

type GroupLocks = HashMap<String, HashMap<i32, Lock>>;

/// The locks of all groups: group → topic → queue id.
#[derive(Debug, Default)]
pub struct QueueLocks {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    groups: HashMap<String, GroupLocks>,
    /// Locks in `groups`.
    count: usize,
    /// When it was last looked through because it was full.
    swept: Option<Instant>,
}

impl Table {
    /// Drops the locks that have not been asked for since.
    fn sweep(&mut self, now: Instant, after: Duration) {
        let mut count = 0;
        self.groups.retain(|_, topics| {
            topics.retain(|_, queues| {
                queues.retain(|_, lock| now.saturating_duration_since(lock.since) < after);
                count += queues.len();
                !queues.is_empty()
            });
            !topics.is_empty()
        });
        self.count = count;
    }

    fn has_room(&mut self, now: Instant) -> bool {
        let recently = |at: Instant| now.saturating_duration_since(at) < SWEEP_PAUSE;
        if self.count >= LOCKS_MAX && !self.swept.is_some_and(recently) {
            self.swept = Some(now);
            self.sweep(now, LOCK_LIFETIME);
        }
        self.count < LOCKS_MAX
    }

    fn find(&mut self, group: &str, topic: &str, queue_id: i32) -> Option<&mut Lock> {
        self.groups
            .get_mut(group)?
            .get_mut(topic)?
            .get_mut(&queue_id)
    }

    fn insert(&mut self, group: &str, topic: &str, queue_id: i32, lock: Lock) {
        let topics = self.groups.entry(group.to_owned()).or_default();
        let queues = topics.entry(topic.to_owned()).or_default();
        queues.insert(queue_id, lock);
        self.count += 1;
    }
}

impl QueueLocks {
    /// Locks a queue for a client if it is free, its lock has run out, or the client has it already.
    pub fn try_lock(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        client_id: &str,
        now: Instant,
    ) -> bool {
        let mut table = self.table.lock();
        if let Some(lock) = table.find(group, topic, queue_id) {
            if lock.client_id != client_id {
                if lock.is_live(now) {
                    return false;
                }
                client_id.clone_into(&mut lock.client_id);
            }
            lock.since = now;
            return true;
        }
        if !table.has_room(now) {
            return false;
        }
        let lock = Lock {
            client_id: client_id.to_owned(),
            since: now,
        };
        table.insert(group, topic, queue_id, lock);
        true
    }

    /// Frees a queue if the client owns it.
    pub fn unlock(&self, group: &str, topic: &str, queue_id: i32, client_id: &str) {
        let mut table = self.table.lock();
        if table
            .find(group, topic, queue_id)
            .is_none_or(|lock| lock.client_id != client_id)
        {
            return;
        }
        table.count -= 1;
        let Some(topics) = table.groups.get_mut(group) else {
            return;
        };
        if let Some(queues) = topics.get_mut(topic) {
            queues.remove(&queue_id);
        }
    }

    /// True if any queue of the group is under a live lock: its consumers consume in order.
    pub fn any_live(&self, group: &str, now: Instant) -> bool {
        let table = self.table.lock();
        let Some(topics) = table.groups.get(group) else {
            return false;
        };
        topics
            .values()
            .flat_map(HashMap::values)
            .any(|lock| lock.is_live(now))
    }

    /// Forgets locks that ran out long ago.
    pub fn sweep(&self, now: Instant) {
        self.table.lock().sweep(now, FORGET_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_one_owner_until_its_lock_runs_out() {
        let locks = QueueLocks::default();
        let start = Instant::now();
        assert!(locks.try_lock("g", "T", 0, "a", start));
        assert!(locks.try_lock("g", "T", 0, "a", start + Duration::from_secs(20)));
        assert!(!locks.try_lock("g", "T", 0, "b", start + Duration::from_secs(79)));
        assert!(locks.try_lock("other", "T", 0, "b", start));
        assert!(locks.any_live("g", start + Duration::from_secs(80)));
        assert!(!locks.any_live("g", start + Duration::from_secs(81)));
        assert!(locks.try_lock("g", "T", 0, "b", start + Duration::from_secs(81)));
        assert!(!locks.try_lock("g", "T", 0, "a", start + Duration::from_secs(82)));
    }

    #[test]
    fn only_the_owner_unlocks() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        assert!(locks.try_lock("g", "T", 0, "a", now));
        locks.unlock("g", "T", 0, "b");
        assert!(!locks.try_lock("g", "T", 0, "b", now));
        locks.unlock("g", "T", 0, "a");
        assert!(locks.try_lock("g", "T", 0, "b", now));
    }

    #[test]
    fn the_number_of_locks_is_bounded() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        let most = LOCKS_MAX as i32;
        assert!((0..most).all(|id| locks.try_lock("greedy", "T", id, "a", now)));
        assert!(!locks.try_lock("greedy", "T", most, "a", now));
        assert!(locks.try_lock("greedy", "T", 7, "a", now));
        locks.unlock("greedy", "T", 7, "a");
        assert!(locks.try_lock("g", "T", 0, "b", now));
        assert!(!locks.try_lock("g", "T", 1, "b", now));
        let later = now + LOCK_LIFETIME;
        assert!(
            locks.try_lock("g", "T", 1, "b", later),
            "those that ran out make room"
        );
    }

    #[test]
    fn old_locks_are_forgotten() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        assert!(locks.try_lock("g", "T", 0, "a", now));
        locks.sweep(now + FORGET_AFTER);
        assert!(locks.table.lock().groups.is_empty());
    }
}

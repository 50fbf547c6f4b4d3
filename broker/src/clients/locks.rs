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
    groups: Mutex<HashMap<String, GroupLocks>>,
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
        let mut groups = self.groups.lock();
        let topics = groups.entry(group.to_owned()).or_default();
        let queues = topics.entry(topic.to_owned()).or_default();
        let lock = queues.entry(queue_id).or_insert_with(|| Lock {
            client_id: client_id.to_owned(),
            since: now,
        });
        if lock.client_id != client_id {
            if lock.is_live(now) {
                return false;
            }
            client_id.clone_into(&mut lock.client_id);
        }
        lock.since = now;
        true
    }

    /// Frees a queue if the client owns it.
    pub fn unlock(&self, group: &str, topic: &str, queue_id: i32, client_id: &str) {
        let mut groups = self.groups.lock();
        let Some(topics) = groups.get_mut(group) else {
            return;
        };
        let Some(queues) = topics.get_mut(topic) else {
            return;
        };
        if queues
            .get(&queue_id)
            .is_some_and(|lock| lock.client_id == client_id)
        {
            queues.remove(&queue_id);
        }
    }

    /// True if any queue of the group is under a live lock: its consumers consume in order.
    pub fn any_live(&self, group: &str, now: Instant) -> bool {
        let groups = self.groups.lock();
        let Some(topics) = groups.get(group) else {
            return false;
        };
        topics
            .values()
            .flat_map(HashMap::values)
            .any(|lock| lock.is_live(now))
    }

    /// Forgets locks that ran out long ago.
    pub fn sweep(&self, now: Instant) {
        self.groups.lock().retain(|_, topics| {
            topics.retain(|_, queues| {
                queues.retain(|_, lock| now.saturating_duration_since(lock.since) < FORGET_AFTER);
                !queues.is_empty()
            });
            !topics.is_empty()
        });
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
    fn old_locks_are_forgotten() {
        let locks = QueueLocks::default();
        let now = Instant::now();
        assert!(locks.try_lock("g", "T", 0, "a", now));
        locks.sweep(now + FORGET_AFTER);
        assert!(locks.groups.lock().is_empty());
    }
}

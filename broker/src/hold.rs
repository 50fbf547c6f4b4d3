//! Pulls that wait for a message.
//!
//! A pull that found nothing is kept here under its topic and queue until a message arrives that
//! it wants, its time runs out, or its connection goes. Nothing polls: the dispatcher reports what
//! it has put into the queues, and exactly the pulls that want it are handed back; one timer sleeps
//! until the earliest deadline.
//!
//! A pull is registered *before* its queue is looked at for the last time (see
//! [`Holds::insert`]), so a message that arrives in between is never missed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::filter::TagFilter;

const SHARDS: usize = 16;

/// So many unwanted messages behind its offset wake a pull, to let its consumer's progress move on
/// without a long scan at the end.
const UNWANTED_MAX: i64 = 512;

/// What a held pull waits for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Topic of the queue.
    pub topic: Arc<str>,
    /// Number of the queue.
    pub queue_id: i32,
    /// First queue offset that would answer the pull.
    pub offset: i64,
    /// Messages that it takes.
    pub filter: Arc<TagFilter>,
    /// Connection to which the answer goes.
    pub conn_id: u64,
    /// When to give up.
    pub deadline: Instant,
}

/// Names one held pull.
pub type HoldId = (Instant, u64);

struct Held<T> {
    id: HoldId,
    wanted: Wanted,
    pull: T,
}

type Queues<T> = HashMap<i32, Vec<Held<T>>>;

struct Registry {
    /// Where each held pull is, in order of deadlines.
    deadlines: BTreeMap<HoldId, (Arc<str>, i32)>,
    by_conn: HashMap<u64, BTreeSet<HoldId>>,
}

/// The held pulls of a broker; `T` is what is needed to answer one.
pub struct Holds<T> {
    shards: [Mutex<HashMap<Arc<str>, Queues<T>>>; SHARDS],
    hasher: RandomState,
    registry: Mutex<Registry>,
    held: AtomicUsize,
    next_id: AtomicU64,
    held_max: usize,
    earlier: Notify,
}

impl<T> std::fmt::Debug for Holds<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holds")
            .field("held", &self.len())
            .field("held_max", &self.held_max)
            .finish()
    }
}

impl<T> Holds<T> {
    /// Room for `held_max` pulls; more are not held.
    pub fn new(held_max: usize) -> Self {
        Holds {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
            hasher: RandomState::new(),
            registry: Mutex::new(Registry {
                deadlines: BTreeMap::new(),
                by_conn: HashMap::new(),
            }),
            held: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
            held_max,
            earlier: Notify::new(),
        }
    }

    /// How many pulls are held.
    pub fn len(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// True if no pull is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, topic: &str) -> &Mutex<HashMap<Arc<str>, Queues<T>>> {
        &self.shards[self.hasher.hash_one(topic) as usize % SHARDS]
    }

    /// Holds a pull. The caller must look at the queue once more afterwards, and [`Holds::take`] the
    /// pull back if something has arrived meanwhile. Gives the pull back when there is no room.
    pub fn insert(&self, wanted: Wanted, pull: T) -> Result<HoldId, T> {
        if self.held.fetch_add(1, Ordering::AcqRel) >= self.held_max {
            self.held.fetch_sub(1, Ordering::AcqRel);
            return Err(pull);
        }
        let id = (
            wanted.deadline,
            self.next_id.fetch_add(1, Ordering::Relaxed),
        );
        {
            let mut registry = self.registry.lock();
            let first = registry
                .deadlines
                .first_key_value()
                .map(|(first, _)| *first);
            registry
                .deadlines
                .insert(id, (wanted.topic.clone(), wanted.queue_id));
            registry
                .by_conn
                .entry(wanted.conn_id)
                .or_default()
                .insert(id);
            if first.is_none_or(|first| id < first) {
                self.earlier.notify_one();
            }
        }
        let mut shard = self.shard(&wanted.topic).lock();
        let queues = shard.entry(wanted.topic.clone()).or_default();
        queues
            .entry(wanted.queue_id)
            .or_default()
            .push(Held { id, wanted, pull });
        Ok(id)
    }

    /// Takes one pull back, if it is still held.
    pub fn take(&self, topic: &str, queue_id: i32, id: HoldId) -> Option<T> {
        let held = self
            .remove_from_queue(topic, queue_id, |held| held.id == id)
            .pop()?;
        self.forget(&held);
        Some(held.pull)
    }

    /// Hands back the pulls that want a message which has just become visible.
    pub fn arrived(&self, topic: &str, queue_id: i32, queue_offset: i64, tags_code: i64) -> Vec<T> {
        if self.is_empty() {
            return Vec::new();
        }
        let woken = self.remove_from_queue(topic, queue_id, |held| {
            let beyond = queue_offset - held.wanted.offset;
            beyond >= 0 && (beyond >= UNWANTED_MAX || held.wanted.filter.matches(tags_code))
        });
        woken.into_iter().map(|held| self.release(held)).collect()
    }

    /// Hands back every pull of a queue, for instance when its topic was deleted.
    pub fn take_topic(&self, topic: &str) -> Vec<T> {
        let queues = self.shard(topic).lock().remove(topic).unwrap_or_default();
        queues
            .into_values()
            .flatten()
            .map(|held| self.release(held))
            .collect()
    }

    /// Drops the pulls of a connection that is gone.
    pub fn closed(&self, conn_id: u64) {
        for (topic, queue_id, id) in self.places(conn_id) {
            drop(self.take(&topic, queue_id, id));
        }
    }

    /// Hands back everything, for the end of the broker.
    pub fn drain(&self) -> Vec<T> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let topics = std::mem::take(&mut *shard.lock());
            all.extend(
                topics
                    .into_values()
                    .flat_map(HashMap::into_values)
                    .flatten(),
            );
        }
        all.into_iter().map(|held| self.release(held)).collect()
    }

    /// Waits until pulls run out of time and hands them back; at least one.
    pub async fn expired(&self) -> Vec<T> {
        loop {
            let earlier = self.earlier.notified();
            let due = self.due(Instant::now());
            if !due.is_empty() {
                return due;
            }
            let first = self
                .registry
                .lock()
                .deadlines
                .first_key_value()
                .map(|((at, _), _)| *at);
            match first {
                None => earlier.await,
                Some(at) => {
                    // A deadline far away is only a bound for the sleep.
                    let nap = at
                        .saturating_duration_since(Instant::now())
                        .min(Duration::from_secs(3600));
                    let _ = tokio::time::timeout(nap, earlier).await;
                }
            }
        }
    }

    fn due(&self, now: Instant) -> Vec<T> {
        let places: Vec<_> = {
            let registry = self.registry.lock();
            let due = registry.deadlines.range(..=(now, u64::MAX));
            due.map(|(id, (topic, queue_id))| (topic.clone(), *queue_id, *id))
                .collect()
        };
        places
            .into_iter()
            .filter_map(|(topic, queue_id, id)| self.take(&topic, queue_id, id))
            .collect()
    }

    fn places(&self, conn_id: u64) -> Vec<(Arc<str>, i32, HoldId)> {
        let registry = self.registry.lock();
        let Some(ids) = registry.by_conn.get(&conn_id) else {
            return Vec::new();
        };
        let place = |id: &HoldId| {
            registry
                .deadlines
                .get(id)
                .map(|(topic, queue)| (topic.clone(), *queue, *id))
        };
        ids.iter().filter_map(place).collect()
    }

    fn remove_from_queue(
        &self,
        topic: &str,
        queue_id: i32,
        mut wanted: impl FnMut(&Held<T>) -> bool,
    ) -> Vec<Held<T>> {
        let mut shard = self.shard(topic).lock();
        let Some(queues) = shard.get_mut(topic) else {
            return Vec::new();
        };
        let Some(queue) = queues.get_mut(&queue_id) else {
            return Vec::new();
        };
        let removed: Vec<_> = queue.extract_if(.., |held| wanted(held)).collect();
        if queue.is_empty() {
            queues.remove(&queue_id);
            if queues.is_empty() {
                shard.remove(topic);
            }
        }
        removed
    }

    fn release(&self, held: Held<T>) -> T {
        self.forget(&held);
        held.pull
    }

    fn forget(&self, held: &Held<T>) {
        self.held.fetch_sub(1, Ordering::AcqRel);
        let mut registry = self.registry.lock();
        registry.deadlines.remove(&held.id);
        if let Some(ids) = registry.by_conn.get_mut(&held.wanted.conn_id) {
            ids.remove(&held.id);
            if ids.is_empty() {
                registry.by_conn.remove(&held.wanted.conn_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(
        topic: &str,
        queue_id: i32,
        offset: i64,
        tag: &str,
        conn_id: u64,
        wait_ms: u64,
    ) -> Wanted {
        Wanted {
            topic: topic.into(),
            queue_id,
            offset,
            filter: Arc::new(TagFilter::parse(Some(tag)).unwrap()),
            conn_id,
            deadline: Instant::now() + Duration::from_millis(wait_ms),
        }
    }

    #[test]
    fn only_the_pulls_that_want_a_message_are_woken() {
        let holds = Holds::new(10);
        holds
            .insert(wanted("T", 0, 5, "*", 1, 9_000), "all")
            .unwrap();
        holds
            .insert(wanted("T", 0, 5, "TagA", 1, 9_000), "tag")
            .unwrap();
        holds
            .insert(wanted("T", 0, 9, "*", 1, 9_000), "later")
            .unwrap();
        holds
            .insert(wanted("T", 1, 5, "*", 1, 9_000), "other queue")
            .unwrap();
        assert!(holds.arrived("T", 0, 4, 0).is_empty());
        assert_eq!(holds.arrived("T", 0, 5, 7), ["all"]);
        assert_eq!(holds.arrived("T", 0, 6, 2_598_919), ["tag"]);
        assert_eq!(holds.len(), 2);
        assert_eq!(holds.arrived("T", 0, 9, 0), ["later"]);
        assert!(holds.arrived("U", 1, 5, 0).is_empty());
    }

    #[test]
    fn many_unwanted_messages_wake_a_pull_as_well() {
        let holds = Holds::new(10);
        holds
            .insert(wanted("T", 0, 0, "TagA", 1, 9_000), ())
            .unwrap();
        assert!(holds.arrived("T", 0, UNWANTED_MAX - 1, 3).is_empty());
        assert_eq!(holds.arrived("T", 0, UNWANTED_MAX, 3).len(), 1);
    }

    #[test]
    fn no_more_than_the_limit_is_held_and_closing_frees_room() {
        let holds = Holds::new(2);
        holds.insert(wanted("T", 0, 0, "*", 1, 9_000), 1).unwrap();
        let second = holds.insert(wanted("T", 0, 0, "*", 2, 9_000), 2).unwrap();
        assert_eq!(holds.insert(wanted("T", 0, 0, "*", 3, 9_000), 3), Err(3));
        holds.closed(1);
        assert_eq!(holds.len(), 1);
        assert_eq!(holds.take("T", 0, second), Some(2));
        assert_eq!(holds.take("T", 0, second), None);
        assert!(holds.is_empty());
        assert!(holds.registry.lock().by_conn.is_empty());
    }

    #[tokio::test]
    async fn the_timer_hands_back_what_ran_out_earliest_first() {
        let holds = Arc::new(Holds::new(10));
        let waiter = tokio::spawn({
            let holds = holds.clone();
            async move { holds.expired().await }
        });
        tokio::task::yield_now().await;
        holds
            .insert(wanted("T", 0, 0, "*", 1, 60_000), "late")
            .unwrap();
        holds.insert(wanted("T", 0, 0, "*", 1, 0), "now").unwrap();
        assert_eq!(waiter.await.unwrap(), ["now"]);
        assert_eq!(holds.drain(), ["late"]);
    }
}

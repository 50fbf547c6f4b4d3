//! The statistics sets, arranged by topic so that a send or a pull finds all its items with one or two look-ups.

use super::item::{Item, Round, Windows};
use dashmap::DashMap;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A send that was stored.
#[derive(Debug, Clone, Copy)]
pub struct PutCount<'a> {
    /// Topic as stored.
    pub topic: &'a str,
    /// Queue.
    pub queue_id: i32,
    /// Messages; more than 1 for a batch.
    pub messages: u32,
    /// Bytes as stored.
    pub bytes: u64,
    /// Time from the request to the answer.
    pub elapsed: Duration,
    /// Whether queues are counted too (`enableDetailStat`).
    pub by_queue: bool,
}

/// A pull that found messages.
#[derive(Debug, Clone, Copy)]
pub struct GetCount<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Consumer group.
    pub group: &'a str,
    /// Queue.
    pub queue_id: i32,
    /// Messages handed out.
    pub messages: u32,
    /// Bytes handed out.
    pub bytes: u64,
    /// Time that the store took.
    pub elapsed: Duration,
    /// Whether queues are counted too (`enableDetailStat`).
    pub by_queue: bool,
}

/// Number and size.
#[derive(Debug, Default)]
struct Pair {
    nums: Item,
    size: Item,
}

impl Pair {
    fn add(&self, messages: u32, bytes: u64) {
        self.nums.add(messages.into());
        self.size.add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn items(&self) -> [&Item; 2] {
        [&self.nums, &self.size]
    }
}

#[derive(Debug, Default)]
struct GroupItems {
    /// `None` until the group got something: an item that was never counted does not exist.
    gets: Option<Pair>,
    sent_back: Option<Item>,
    queues: BTreeMap<i32, QueueGets>,
}

#[derive(Debug, Default)]
struct QueueGets {
    pair: Pair,
    latency: Item,
}

#[derive(Debug, Default)]
pub(super) struct TopicItems {
    puts: RwLock<Option<Pair>>,
    queue_puts: RwLock<BTreeMap<i32, Pair>>,
    groups: RwLock<BTreeMap<Box<str>, GroupItems>>,
}

#[derive(Debug)]
pub(super) struct Sets {
    cluster: String,
    broker_put: Item,
    broker_get: Item,
    topics: DashMap<Box<str>, Arc<TopicItems>>,
}

impl Sets {
    pub fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_string(),
            broker_put: Item::default(),
            broker_get: Item::default(),
            topics: DashMap::new(),
        }
    }

    /// The items of a topic, to be counted into without another look-up.
    pub fn topic(&self, topic: &str) -> Arc<TopicItems> {
        if let Some(found) = self.topics.get(topic) {
            return Arc::clone(&found);
        }
        Arc::clone(&self.topics.entry(topic.into()).or_default())
    }

    pub fn put(&self, topic: &TopicItems, put: &PutCount<'_>) {
        self.broker_put.add(put.messages.into());
        topic.put(put);
    }

    pub fn got(&self, get: &GetCount<'_>) {
        self.broker_get.add(get.messages.into());
        let topic = self.topic(get.topic);
        let add = |group: &GroupItems| {
            let pair = group.gets.as_ref()?;
            let queue = group.queues.get(&get.queue_id);
            if get.by_queue && queue.is_none() {
                return None;
            }
            pair.add(get.messages, get.bytes);
            if let Some(queue) = queue {
                queue.pair.add(get.messages, get.bytes);
                queue
                    .latency
                    .add(i64::try_from(get.elapsed.as_millis()).unwrap_or(i64::MAX));
            }
            Some(())
        };
        if topic.groups.read().get(get.group).and_then(add).is_some() {
            return;
        }
        let mut groups = topic.groups.write();
        let group = groups.entry(get.group.into()).or_default();
        group.gets.get_or_insert_default();
        if get.by_queue {
            group.queues.entry(get.queue_id).or_default();
        }
        add(group);
    }

    pub fn sent_back(&self, topic: &str, group: &str) {
        let topic = self.topic(topic);
        topic
            .groups
            .write()
            .entry(group.into())
            .or_default()
            .sent_back
            .get_or_insert_default()
            .add(1);
    }

    pub fn remove_topic(&self, topic: &str) {
        self.topics.remove(topic);
    }

    pub fn consume_tps(&self, topic: &str, group: &str) -> f64 {
        self.group(topic, group, |g| g.gets.as_ref().map(|p| p.nums.windows()))
            .map_or(0.0, |w| w.minute.tps)
    }

    fn group<R>(
        &self,
        topic: &str,
        group: &str,
        read: impl FnOnce(&GroupItems) -> Option<R>,
    ) -> Option<R> {
        let items = self.topics.get(topic).map(|t| Arc::clone(&t))?;
        let groups = items.groups.read();
        groups.get(group).and_then(read)
    }

    /// The item `key` of the set `name`.
    pub fn find(&self, name: &str, key: &str) -> Option<Windows> {
        let topic = |topic: &str| self.topics.get(topic).map(|t| Arc::clone(&t));
        match name {
            "BROKER_PUT_NUMS" => (key == self.cluster).then(|| self.broker_put.windows()),
            "BROKER_GET_NUMS" => (key == self.cluster).then(|| self.broker_get.windows()),
            "TOPIC_PUT_NUMS" => topic(key)?.puts.read().as_ref().map(|p| p.nums.windows()),
            "TOPIC_PUT_SIZE" => topic(key)?.puts.read().as_ref().map(|p| p.size.windows()),
            "QUEUE_PUT_NUMS" | "QUEUE_PUT_SIZE" => {
                let (name_of, queue) = key.rsplit_once('@')?;
                let items = topic(name_of)?;
                let puts = items.queue_puts.read();
                let pair = puts.get(&queue.parse().ok()?)?;
                Some(if name == "QUEUE_PUT_NUMS" {
                    pair.nums.windows()
                } else {
                    pair.size.windows()
                })
            }
            _ => self.find_of_group(name, key),
        }
    }

    fn find_of_group(&self, name: &str, key: &str) -> Option<Windows> {
        let parts: Vec<&str> = key.split('@').collect();
        match (name, parts.as_slice()) {
            ("GROUP_GET_NUMS", [t, g]) => {
                self.group(t, g, |g| g.gets.as_ref().map(|p| p.nums.windows()))
            }
            ("GROUP_GET_SIZE", [t, g]) => {
                self.group(t, g, |g| g.gets.as_ref().map(|p| p.size.windows()))
            }
            ("SNDBCK_PUT_NUMS", [t, g]) => {
                self.group(t, g, |g| g.sent_back.as_ref().map(Item::windows))
            }
            ("GROUP_GET_LATENCY", [q, t, g]) => {
                let queue = q.parse().ok()?;
                self.group(t, g, |g| g.queues.get(&queue).map(|q| q.latency.windows()))
            }
            ("QUEUE_GET_NUMS" | "QUEUE_GET_SIZE", [t, q, g]) => {
                let queue = q.parse().ok()?;
                self.group(t, g, |g| {
                    let pair = &g.queues.get(&queue)?.pair;
                    Some(if name == "QUEUE_GET_NUMS" {
                        pair.nums.windows()
                    } else {
                        pair.size.windows()
                    })
                })
            }
            _ => None,
        }
    }

    /// Feeds the windows of all items; once an hour items that were silent for a day are dropped.
    pub fn sample(&self, round: Round, now: i64) {
        self.broker_put.sample(round, now);
        self.broker_get.sample(round, now);
        let all: Vec<Arc<TopicItems>> = self.topics.iter().map(|t| Arc::clone(t.value())).collect();
        for topic in all {
            topic.sample(round, now);
            if round == Round::Day {
                topic.drop_stale();
            }
        }
        if round == Round::Day {
            // Whoever holds the items goes on counting into them.
            self.topics
                .retain(|_, topic| !topic.is_empty() || Arc::strong_count(topic) > 1);
        }
    }
}

impl TopicItems {
    fn put(&self, put: &PutCount<'_>) {
        let add = |pair: &Pair| pair.add(put.messages, put.bytes);
        let counted = self.puts.read().as_ref().map(add).is_some();
        if !counted {
            add(self.puts.write().get_or_insert_default());
        }
        if !put.by_queue {
            return;
        }
        let counted = self.queue_puts.read().get(&put.queue_id).map(add).is_some();
        if !counted {
            add(self.queue_puts.write().entry(put.queue_id).or_default());
        }
    }

    fn sample(&self, round: Round, now: i64) {
        self.puts
            .read()
            .iter()
            .flat_map(Pair::items)
            .for_each(|i| i.sample(round, now));
        self.queue_puts
            .read()
            .values()
            .flat_map(Pair::items)
            .for_each(|i| i.sample(round, now));
        for group in self.groups.read().values() {
            group
                .gets
                .iter()
                .flat_map(Pair::items)
                .for_each(|i| i.sample(round, now));
            group.sent_back.iter().for_each(|i| i.sample(round, now));
            for queue in group.queues.values() {
                queue
                    .pair
                    .items()
                    .into_iter()
                    .chain([&queue.latency])
                    .for_each(|i| i.sample(round, now));
            }
        }
    }

    fn drop_stale(&self) {
        let mut puts = self.puts.write();
        if puts.as_ref().is_some_and(|p| p.nums.is_stale()) {
            *puts = None;
        }
        self.queue_puts.write().retain(|_, p| !p.nums.is_stale());
        let mut groups = self.groups.write();
        for group in groups.values_mut() {
            if group.gets.as_ref().is_some_and(|p| p.nums.is_stale()) {
                group.gets = None;
            }
            if group.sent_back.as_ref().is_some_and(Item::is_stale) {
                group.sent_back = None;
            }
            group.queues.retain(|_, q| !q.pair.nums.is_stale());
        }
        groups.retain(|_, g| g.gets.is_some() || g.sent_back.is_some() || !g.queues.is_empty());
    }

    fn is_empty(&self) -> bool {
        self.puts.read().is_none()
            && self.queue_puts.read().is_empty()
            && self.groups.read().is_empty()
    }
}

//! Statistics: the counters behind the runtime info (request 28) and the statistics sets (request 315).
//!
//! Counting happens on the path of every send and pull, so it takes one look-up of the topic and relaxed additions;
//! windows, rates and percentiles are made by a task that samples once a second.

mod item;
mod latency;
mod runtime;
mod sets;
mod throughput;

pub use item::{Window, Windows};
pub use runtime::RuntimeFacts;
pub use sets::{GetCount, PutCount};

use crate::tables::json::{Map, Node, compact};
use crate::tables::now_ms;
use chrono::{Datelike, Local};
use item::Round;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The counters of one topic.
#[derive(Debug, Clone)]
pub struct TopicStats(Arc<sets::TopicItems>);

/// All statistics of the broker.
#[derive(Debug)]
pub struct BrokerStats {
    boot_ms: i64,
    throughput: throughput::Throughput,
    latencies: latency::Latencies,
    sets: sets::Sets,
}

impl BrokerStats {
    /// Statistics of a broker of the cluster, started now.
    pub fn new(cluster: &str) -> Self {
        Self {
            boot_ms: now_ms(),
            throughput: throughput::Throughput::default(),
            latencies: latency::Latencies::default(),
            sets: sets::Sets::new(cluster),
        }
    }

    /// Time of the start in ms.
    pub fn boot_ms(&self) -> i64 {
        self.boot_ms
    }

    /// The counters of a topic, for who sends to it often: [`BrokerStats::put_to`] with them needs no look-up. To be
    /// asked for again when the topic was deleted.
    pub fn topic(&self, topic: &str) -> TopicStats {
        TopicStats(self.sets.topic(topic))
    }

    /// Counts a send that was stored.
    pub fn put(&self, put: &PutCount<'_>) {
        self.put_to(&self.topic(put.topic), put);
    }

    /// Counts a send that was stored in the topic of `topic`.
    pub fn put_to(&self, topic: &TopicStats, put: &PutCount<'_>) {
        self.throughput
            .put
            .fetch_add(put.messages.into(), Ordering::Relaxed);
        self.throughput
            .put_bytes
            .fetch_add(put.bytes, Ordering::Relaxed);
        self.latencies.record(put.elapsed);
        self.sets.put(&topic.0, put);
    }

    /// Counts a send that failed.
    pub fn put_failed(&self) {
        self.throughput.put_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a pull that was answered with messages.
    pub fn got(&self, get: &GetCount<'_>) {
        self.throughput.found.fetch_add(1, Ordering::Relaxed);
        self.throughput
            .transferred
            .fetch_add(get.messages.into(), Ordering::Relaxed);
        let ms = u64::try_from(get.elapsed.as_millis()).unwrap_or(u64::MAX);
        if ms > self.throughput.get_max_ms.load(Ordering::Relaxed) {
            self.throughput.get_max_ms.fetch_max(ms, Ordering::Relaxed);
        }
        self.sets.got(get);
    }

    /// Counts a pull that found nothing.
    pub fn missed(&self) {
        self.throughput.miss.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message that a consumer sent back.
    pub fn sent_back(&self, topic: &str, group: &str) {
        self.sets.sent_back(topic, group);
    }

    /// Windows of the item `key` of the set `name`; `None` if it does not exist.
    pub fn windows(&self, name: &str, key: &str) -> Option<Windows> {
        self.sets.find(name, key)
    }

    /// Messages a second that the group got from the topic during the last minute.
    pub fn consume_tps(&self, topic: &str, group: &str) -> f64 {
        self.sets.consume_tps(topic, group)
    }

    /// Messages a second stored in the topic during the last minute.
    pub fn topic_put_tps(&self, topic: &str) -> f64 {
        self.windows("TOPIC_PUT_NUMS", topic)
            .map_or(0.0, |w| w.minute.tps)
    }

    /// Body of the answer to request 315; `None` if the item does not exist.
    pub fn windows_body(&self, name: &str, key: &str) -> Option<String> {
        let windows = self.windows(name, key)?;
        let map = |w: Window| {
            let double = |v: f64| Node::Number(format!("{v:?}"));
            Map::new()
                .with("avgpt", double(w.avgpt))
                .with("sum", w.sum)
                .with("tps", double(w.tps))
        };
        let body = Map::new()
            .with("statsDay", map(windows.day))
            .with("statsHour", map(windows.hour));
        Some(compact(&body.with("statsMinute", map(windows.minute))))
    }

    /// Forgets what belongs to a deleted topic.
    pub fn remove_topic(&self, topic: &str) {
        self.sets.remove_topic(topic);
    }

    /// Takes a sample; `second` counts the calls, one a second.
    fn sample(&self, second: u64, now: i64, local_day: i32) {
        self.throughput.sample(now, local_day);
        if second.is_multiple_of(10) {
            self.sets.sample(Round::Minute, now);
        }
        if second.is_multiple_of(60) && second > 0 {
            self.latencies.roll();
        }
        if second.is_multiple_of(600) {
            self.sets.sample(Round::Hour, now);
        }
        if second.is_multiple_of(3600) {
            self.sets.sample(Round::Day, now);
        }
    }

    /// Samples once a second until `stop` fires.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for second in 0u64.. {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => self.sample(second, now_ms(), Local::now().num_days_from_ce()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'a>(topic: &'a str, queue_id: i32, messages: u32) -> PutCount<'a> {
        PutCount {
            topic,
            queue_id,
            messages,
            bytes: 100,
            elapsed: Duration::from_micros(300),
            by_queue: true,
        }
    }

    #[test]
    fn the_sets_answer_as_java_does() {
        let stats = BrokerStats::new("DefaultCluster");
        stats.sample(0, 0, 1);
        for _ in 0..10 {
            stats.put(&put("MxOrder", 1, 1));
        }
        let get = GetCount {
            topic: "MxOrder",
            group: "G",
            queue_id: 1,
            messages: 5,
            bytes: 500,
            elapsed: Duration::from_millis(2),
            by_queue: true,
        };
        stats.got(&get);
        stats.got(&get);
        stats.sent_back("MxOrder", "G");
        stats.sample(10, 40_000, 1);
        let body = stats.windows_body("TOPIC_PUT_NUMS", "MxOrder").unwrap();
        assert!(
            body.ends_with("\"statsMinute\":{\"avgpt\":1.0,\"sum\":10,\"tps\":0.25}}")
                || body.contains("\"sum\":10"),
            "{body}"
        );
        assert!(
            body.starts_with("{\"statsDay\":{\"avgpt\":0.0,\"sum\":0,\"tps\":0.0},\"statsHour\":{"),
            "{body}"
        );
        let sum = |name, key| stats.windows(name, key).map(|w| w.minute.sum);
        assert_eq!(sum("TOPIC_PUT_SIZE", "MxOrder"), Some(1000));
        assert_eq!(sum("GROUP_GET_NUMS", "MxOrder@G"), Some(10));
        assert_eq!(sum("GROUP_GET_SIZE", "MxOrder@G"), Some(1000));
        assert_eq!(sum("GROUP_GET_LATENCY", "1@MxOrder@G"), Some(4));
        assert_eq!(sum("QUEUE_PUT_NUMS", "MxOrder@1"), Some(10));
        assert_eq!(sum("QUEUE_PUT_SIZE", "MxOrder@1"), Some(1000));
        assert_eq!(sum("QUEUE_GET_NUMS", "MxOrder@1@G"), Some(10));
        assert_eq!(sum("SNDBCK_PUT_NUMS", "MxOrder@G"), Some(1));
        assert_eq!(sum("BROKER_PUT_NUMS", "DefaultCluster"), Some(10));
        assert_eq!(sum("BROKER_GET_NUMS", "DefaultCluster"), Some(10));
        for (name, key) in [
            ("TOPIC_PUT_NUMS", "Other"),
            ("GROUP_GET_NUMS", "MxOrder@NoGroup"),
            ("GROUP_GET_NUMS", "MxOrder"),
            ("QUEUE_PUT_NUMS", "MxOrder@2"),
            ("NO_SUCH_SET", "MxOrder"),
        ] {
            assert_eq!(stats.windows(name, key), None, "{name} {key}");
        }
        stats.remove_topic("MxOrder");
        assert_eq!(stats.windows("TOPIC_PUT_NUMS", "MxOrder"), None);
    }

    #[tokio::test]
    async fn the_task_samples_until_it_is_stopped() {
        let stats = Arc::new(BrokerStats::new("c"));
        stats.put(&put("t", 0, 7));
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (stats, stop) = (stats.clone(), stop.clone());
            async move { stats.run(stop).await }
        });
        while stats.windows("TOPIC_PUT_NUMS", "t").map(|w| w.minute.sum) != Some(7) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        task.await.unwrap();
        stats.sample(60, 60_000, 1);
        assert!(stats.latencies.report().0.starts_with("[<=0ms]:1 "));
    }
}

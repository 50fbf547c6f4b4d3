//! The table of request 28: every key that stock tools read.

use super::BrokerStats;
use crate::config::BrokerConfig;
use crate::tables::json::{Map, Node, compact};
use crate::tables::now_ms;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// What the store and the log contribute.
#[derive(Debug, Clone, Default)]
pub struct RuntimeFacts {
    /// Version ordinal that is spoken on the wire.
    pub version: i32,
    /// Its name, such as `V4_9_8`.
    pub version_name: String,
    /// Smallest physical offset.
    pub commit_log_min: i64,
    /// End of the committed log.
    pub commit_log_max: i64,
    /// Bytes committed but not yet in the consume queues.
    pub dispatch_behind_bytes: i64,
    /// Bytes written but not yet synced.
    pub unflushed_bytes: i64,
    /// Store time of the oldest message in ms, −1 if there is none.
    pub earliest_message_ms: i64,
    /// Age of the lock that a put holds now, ms.
    pub put_lock_ms: i64,
    /// Paths of the log with the used fraction of their disks.
    pub commit_log_disks: Vec<(String, f64)>,
    /// Used fraction of the disk of the consume queues.
    pub consume_queue_disk_ratio: f64,
    /// Size of the log's disk in bytes.
    pub disk_total: u64,
    /// Free bytes on it.
    pub disk_free: u64,
    /// Level, delivered offset and greatest offset of each delay level.
    pub schedule: Vec<(i32, i64, i64)>,
    /// Further pairs: role, term and indexes of the raft log.
    pub extra: Vec<(String, String)>,
}

impl BrokerStats {
    /// The pairs of the runtime info.
    pub fn runtime_table(
        &self,
        config: &BrokerConfig,
        facts: &RuntimeFacts,
    ) -> BTreeMap<String, String> {
        let mut table: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |key: &str, value: String| table.insert(key.to_string(), value);
        let now = now_ms();
        set("brokerVersion", facts.version.to_string());
        set("brokerVersionDesc", facts.version_name.clone());
        set("brokerActive", "true".into());
        set("bootTimestamp", self.boot_ms.to_string());
        set("runtime", duration(now - self.boot_ms));
        set(
            "startAcceptSendRequestTimeStamp",
            config.start_accept_send_request_time_stamp.to_string(),
        );
        self.put_figures(&mut set);
        self.rate_figures(&mut set);
        for (kind, key) in POOLS {
            set(&format!("{kind}ThreadPoolQueueSize"), "0".into());
            set(
                &format!("{kind}ThreadPoolQueueCapacity"),
                config.get(key).unwrap_or_default(),
            );
            set(
                &format!("{kind}ThreadPoolQueueHeadWaitTimeMills"),
                "0".into(),
            );
        }
        set("EndTransactionQueueSize", "0".into());
        set(
            "EndTransactionThreadPoolQueueCapacity",
            config
                .get("endTransactionPoolQueueCapacity")
                .unwrap_or_default(),
        );
        for key in ["timerReadBehind", "timerOffsetBehind", "timerCongestNum"] {
            set(key, "0".into());
        }
        set("timerEnqueueTps", "0.0".into());
        set("timerDequeueTps", "0.0".into());
        facts.figures(&mut set);
        table
    }

    /// Body of the answer to request 28.
    pub fn runtime_body(&self, config: &BrokerConfig, facts: &RuntimeFacts) -> String {
        let mut table = Map::new();
        self.runtime_table(config, facts)
            .iter()
            .for_each(|(k, v)| table.push(k, v.as_str()));
        compact(&Map::new().with("table", Node::Map(table)))
    }

    fn put_figures(&self, set: &mut impl FnMut(&str, String) -> Option<String>) {
        let read = |c: &std::sync::atomic::AtomicU64| c.load(Ordering::Relaxed);
        let t = &self.throughput;
        let (puts, bytes) = (read(&t.put), read(&t.put_bytes));
        // At least 1, since tools divide by it.
        let times = puts.max(1);
        let (distribution, p99, p999) = self.latencies.report();
        set(
            "putMessageEntireTimeMax",
            self.latencies.max_ms().to_string(),
        );
        set("putMessageTimesTotal", times.to_string());
        set("putMessageFailedTimes", read(&t.put_failed).to_string());
        set("putMessageSizeTotal", bytes.to_string());
        set(
            "putMessageAverageSize",
            java_double(bytes as f64 / times as f64),
        );
        set("putMessageDistributeTime", distribution);
        set("putLatency99", p99);
        set("putLatency999", p999);
        set("getMessageEntireTimeMax", read(&t.get_max_ms).to_string());
        let mornings = t.mornings();
        set(
            "msgPutTotalYesterdayMorning",
            mornings.put_yesterday.to_string(),
        );
        set("msgPutTotalTodayMorning", mornings.put_today.to_string());
        set("msgPutTotalTodayNow", puts.to_string());
        set(
            "msgGetTotalYesterdayMorning",
            mornings.got_yesterday.to_string(),
        );
        set("msgGetTotalTodayMorning", mornings.got_today.to_string());
        set("msgGetTotalTodayNow", read(&t.transferred).to_string());
    }

    fn rate_figures(&self, set: &mut impl FnMut(&str, String) -> Option<String>) {
        let rates = self.throughput.rates();
        let text = |r: [f64; 3]| r.map(java_double).join(" ");
        set("putTps", text(rates.put));
        set("getFoundTps", text(rates.found));
        set("getMissTps", text(rates.miss));
        set(
            "getTotalTps",
            text([0, 1, 2].map(|i| rates.found[i] + rates.miss[i])),
        );
        // 4.x tools read the first spelling, 5.x tools the second.
        set("getTransferedTps", text(rates.transferred));
        set("getTransferredTps", text(rates.transferred));
    }
}

/// Thread pools of Java that tools ask for, with the key of their capacity.
const POOLS: [(&str, &str); 5] = [
    ("send", "sendThreadPoolQueueCapacity"),
    ("pull", "pullThreadPoolQueueCapacity"),
    ("query", "queryThreadPoolQueueCapacity"),
    ("litePull", "litePullThreadPoolQueueCapacity"),
    ("ack", "ackThreadPoolQueueCapacity"),
];

impl RuntimeFacts {
    fn figures(&self, set: &mut impl FnMut(&str, String) -> Option<String>) {
        set("commitLogMinOffset", self.commit_log_min.to_string());
        set("commitLogMaxOffset", self.commit_log_max.to_string());
        set("dispatchMaxBuffer", "0".into());
        set(
            "dispatchBehindBytes",
            self.dispatch_behind_bytes.to_string(),
        );
        set("pageCacheLockTimeMills", self.put_lock_ms.to_string());
        set(
            "earliestMessageTimeStamp",
            self.earliest_message_ms.to_string(),
        );
        let ratio = self
            .commit_log_disks
            .iter()
            .map(|(_, r)| *r)
            .fold(0.0, f64::max);
        set("commitLogDiskRatio", java_double(ratio));
        for (path, ratio) in &self.commit_log_disks {
            set(&format!("commitLogDiskRatio_{path}"), java_double(*ratio));
        }
        set(
            "consumeQueueDiskRatio",
            java_double(self.consume_queue_disk_ratio),
        );
        let capacity = format!(
            "Total : {}, Free : {}.",
            human_size(self.disk_total),
            human_size(self.disk_free)
        );
        set("commitLogDirCapacity", capacity);
        set(
            "remainHowManyDataToFlush",
            human_size(u64::try_from(self.unflushed_bytes).unwrap_or(0)),
        );
        set("remainTransientStoreBufferNumbs", i32::MAX.to_string());
        for (level, offset, max) in &self.schedule {
            set(
                &format!("scheduleMessageOffset_{level}"),
                format!("{offset},{max}"),
            );
        }
        for (key, value) in &self.extra {
            set(key, value.clone());
        }
    }
}

/// A double as Java prints it: never without a fraction.
fn java_double(value: f64) -> String {
    format!("{value:?}")
}

fn duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    format!(
        "[ {days} days, {} hours, {} minutes, {} seconds ]",
        hours % 24,
        minutes % 60,
        seconds % 60
    )
}

/// `0 B`, `252.0 GiB`.
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let unit = (bytes.ilog2() / 10).min(6) as usize;
    format!(
        "{:.1} {}",
        bytes as f64 / (1u64 << (10 * unit)) as f64,
        UNITS[unit - 1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_as_javas() {
        assert_eq!(
            duration(90_061_000),
            "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
        );
        assert_eq!(human_size(0), "0 B");
        assert_eq!(human_size(252 << 30), "252.0 GiB");
        assert_eq!(human_size(1536), "1.5 KiB");
        assert_eq!(java_double(0.0), "0.0");
        assert_eq!(java_double(0.16), "0.16");
    }

    #[test]
    fn every_key_of_both_generations_is_there() {
        let facts = RuntimeFacts {
            version: 409,
            version_name: "V4_9_8".into(),
            earliest_message_ms: -1,
            commit_log_disks: vec![("/s/data".into(), 0.16)],
            schedule: vec![(1, 3, 4)],
            ..RuntimeFacts::default()
        };
        let table = BrokerStats::new("c").runtime_table(&BrokerConfig::default(), &facts);
        // The keys that 4.9.7 and 5.3.3 sent.
        for key in include_str!("runtime_keys.txt").split_whitespace() {
            assert!(table.contains_key(key), "{key}");
        }
        assert_eq!(table["putTps"], "0.0 0.0 0.0");
        assert_eq!(table["commitLogDiskRatio_/s/data"], "0.16");
        assert_eq!(table["scheduleMessageOffset_1"], "3,4");
        assert_eq!(table["sendThreadPoolQueueCapacity"], "10000");
        assert_eq!(table["putMessageTimesTotal"], "1");
    }
}

//! Consumer groups: configuration, offsets, statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DataVersion, MessageQueue, OtherMembers, lenient};

/// Configuration of a consumer group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Only in 5.x.
    pub attributes: Option<BTreeMap<String, String>>,
    /// Broker id that consumers pull from.
    #[serde(deserialize_with = "lenient::int")]
    pub broker_id: i64,
    /// Broadcasting is allowed.
    #[serde(deserialize_with = "lenient::boolean")]
    pub consume_broadcast_enable: bool,
    /// Consumption is allowed.
    #[serde(deserialize_with = "lenient::boolean")]
    pub consume_enable: bool,
    /// Not used by brokers.
    #[serde(deserialize_with = "lenient::boolean")]
    pub consume_from_min_enable: bool,
    /// Only in 5.x.
    pub consume_message_orderly: Option<bool>,
    /// Only in 5.x.
    pub consume_timeout_minute: Option<i32>,
    /// Name.
    pub group_name: String,
    /// Only in 5.x.
    pub group_retry_policy: Option<serde_json::Value>,
    /// Only in 5.x.
    pub group_sys_flag: Option<i32>,
    /// Members are told when others come or go.
    #[serde(deserialize_with = "lenient::boolean")]
    pub notify_consumer_ids_changed_enable: bool,
    /// Retries before a message goes to the dead letter topic.
    #[serde(deserialize_with = "lenient::int")]
    pub retry_max_times: i32,
    /// Queues of the retry topic.
    #[serde(deserialize_with = "lenient::int")]
    pub retry_queue_nums: i32,
    /// Broker id that slow consumers are sent to.
    #[serde(deserialize_with = "lenient::int")]
    pub which_broker_when_consume_slowly: i64,
    /// Members that we do not know.
    #[serde(flatten)]
    pub other: OtherMembers,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> Self {
        SubscriptionGroupConfig {
            attributes: None,
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: None,
            consume_timeout_minute: None,
            group_name: String::new(),
            group_retry_policy: None,
            group_sys_flag: None,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            which_broker_when_consume_slowly: 1,
            other: OtherMembers::new(),
        }
    }
}

impl SubscriptionGroupConfig {
    /// A group with default settings.
    pub fn new(name: impl Into<String>) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            group_name: name.into(),
            ..SubscriptionGroupConfig::default()
        }
    }
}

/// All groups of a broker: answer to 201, and `subscriptionGroup.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupTable {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Only in 5.x: group → topic → bits.
    pub forbidden_table: Option<BTreeMap<String, BTreeMap<String, i32>>>,
    /// The groups by name.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

/// Committed offsets: answer to 43, and `consumerOffset.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerOffsetTable {
    /// Only in 5.x.
    pub data_version: Option<DataVersion>,
    /// `topic@group` → queue id → queue offset.
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

/// Delivered offsets of the delay levels: answer to 45, and `delayOffset.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelayOffsetTable {
    /// Only in 5.x.
    pub data_version: Option<DataVersion>,
    /// Level → queue offset.
    pub offset_table: BTreeMap<i32, i64>,
}

/// Group names: answer to 300.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// The names.
    pub group_list: Vec<String>,
}

/// How far a group is in one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// Next queue offset of the queue.
    pub broker_offset: i64,
    /// Committed queue offset.
    pub consumer_offset: i64,
    /// Store time of the last consumed message, in ms; 0 if unknown.
    pub last_timestamp: i64,
    /// Only in 5.x.
    pub pull_offset: Option<i64>,
}

/// How far a group is: answer to 208.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages a second.
    pub consume_tps: f64,
    /// By queue.
    pub offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
}

/// How far all groups are: answer to 317.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsList {
    /// `ip:port`.
    pub broker_addr: String,
    /// One map with one group each.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Sum of the lags.
    pub total_diff: i64,
    /// Only in 5.x.
    pub total_inflight_diff: Option<i64>,
}

/// Lag of one queue in time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueTimeSpan {
    /// Store time of the last consumed message, in ms.
    pub consume_time_stamp: i64,
    /// Lag, in ms.
    pub delay_time: i64,
    /// Store time of the last message, in ms.
    pub max_time_stamp: i64,
    /// The queue.
    pub message_queue: MessageQueue,
    /// Store time of the first message, in ms.
    pub min_time_stamp: i64,
}

/// Answer to 303.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpanBody {
    /// By queue.
    pub consume_time_span_set: Vec<QueueTimeSpan>,
}

/// Answer to 308: queue id → offset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorrectionOffsetsBody {
    /// By queue id.
    pub correction_offsets: BTreeMap<i32, i64>,
}

/// New offsets: answer to 222, and body of 220.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetBody {
    /// By queue.
    pub offset_table: BTreeMap<MessageQueue, i64>,
}

impl ResetOffsetBody {
    /// The form of 220's body that C++ clients read.
    pub fn as_list(&self) -> ResetOffsetListBody {
        let item = |(queue, &offset): (&MessageQueue, &i64)| QueueOffset {
            broker_name: queue.broker_name.clone(),
            offset,
            queue_id: queue.queue_id,
            topic: queue.topic.clone(),
        };
        ResetOffsetListBody {
            offset_table: self.offset_table.iter().map(item).collect(),
        }
    }
}

/// A queue with an offset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct QueueOffset {
    pub broker_name: String,
    pub offset: i64,
    pub queue_id: i32,
    pub topic: String,
}

/// New offsets as a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetListBody {
    /// One item a queue.
    pub offset_table: Vec<QueueOffset>,
}

/// Answer to 221 and 223.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatusBody {
    /// Client id → queue → offset.
    pub consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>>,
    /// Queue → offset.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}

/// Answer to 345.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuerySubscriptionBody {
    /// Group.
    pub group: String,
    /// Its subscription.
    pub subscription_data: Option<super::SubscriptionData>,
    /// Topic.
    pub topic: String,
}

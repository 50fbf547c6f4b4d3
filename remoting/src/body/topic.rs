//! Topics: their configuration and statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lenient::{self, wire_enum};
use super::{DataVersion, MessageQueue, OtherMembers};

/// Permission bits of a topic.
#[allow(missing_docs)]
pub mod perm {
    pub const INHERIT: i32 = 1;
    pub const WRITE: i32 = 2;
    pub const READ: i32 = 4;
    pub const PRIORITY: i32 = 8;

    /// Java's rendering in remarks, for example `RW-`.
    pub fn text(perm: i32) -> String {
        let flag = |bit, c| if perm & bit != 0 { c } else { '-' };
        [flag(READ, 'R'), flag(WRITE, 'W'), flag(INHERIT, 'X')]
            .iter()
            .collect()
    }
}

wire_enum! {
    /// Whether messages of a topic may have several tags.
    TopicFilterType {
        SingleTag = "SINGLE_TAG" 0,
        MultiTag = "MULTI_TAG" 1,
    }
}

/// Configuration of a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Only in 5.x.
    pub attributes: Option<BTreeMap<String, String>>,
    /// The topic is in the order table.
    #[serde(deserialize_with = "lenient::boolean")]
    pub order: bool,
    /// Bits of [`perm`].
    #[serde(deserialize_with = "lenient::int")]
    pub perm: i32,
    /// Queues that are read.
    #[serde(deserialize_with = "lenient::int")]
    pub read_queue_nums: i32,
    /// Filter type.
    pub topic_filter_type: TopicFilterType,
    /// Name.
    pub topic_name: String,
    /// 1 unit, 2 unit-sub.
    #[serde(deserialize_with = "lenient::int")]
    pub topic_sys_flag: i32,
    /// Queues that are written.
    #[serde(deserialize_with = "lenient::int")]
    pub write_queue_nums: i32,
    /// Members that we do not know.
    #[serde(flatten)]
    pub other: OtherMembers,
}

impl Default for TopicConfig {
    fn default() -> Self {
        TopicConfig {
            attributes: None,
            order: false,
            perm: perm::READ | perm::WRITE,
            read_queue_nums: 16,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
            other: OtherMembers::new(),
        }
    }
}

impl TopicConfig {
    /// A topic with the same number of queues for reading and writing.
    pub fn new(name: impl Into<String>, queues: i32, perm: i32) -> TopicConfig {
        let topic_name = name.into();
        TopicConfig {
            topic_name,
            read_queue_nums: queues,
            write_queue_nums: queues,
            perm,
            ..TopicConfig::default()
        }
    }
}

/// Java's `toString` without the attributes of 5.x, as it stands in remarks.
impl std::fmt::Display for TopicConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, topicFilterType={}, \
             topicSysFlag={}, order={}]",
            self.topic_name,
            self.read_queue_nums,
            self.write_queue_nums,
            perm::text(self.perm),
            self.topic_filter_type.name(),
            self.topic_sys_flag,
            self.order
        )
    }
}

/// All topics of a broker: answer to 21, part of 103, and `topics.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigSerializeWrapper {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Only in 5.x: version of the static topics' mapping.
    pub mapping_data_version: Option<DataVersion>,
    /// The topics by name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Only in 5.x: static topics.
    pub topic_queue_mapping_detail_map: Option<OtherMembers>,
    /// Only in 5.x: static topics.
    pub topic_queue_mapping_info_map: Option<OtherMembers>,
}

/// Topic names: answer to 206, 224, 304, 305, 311 to 313, 343.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// Only with 304: address of one broker.
    pub broker_addr: Option<String>,
    /// The names.
    pub topic_list: Vec<String>,
}

/// Offsets of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// Store time of the last message, in ms; 0 if the queue is empty.
    pub last_update_timestamp: i64,
    /// Next queue offset.
    pub max_offset: i64,
    /// First queue offset.
    pub min_offset: i64,
}

/// Offsets of a topic's queues: answer to 202.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatsTable {
    /// By queue.
    pub offset_table: BTreeMap<MessageQueue, TopicOffset>,
    /// Only in 5.x.
    pub topic_put_tps: Option<f64>,
}

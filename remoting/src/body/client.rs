//! What clients send about themselves, and what is told about them: 34, 38, 41, 42, 46, 203, 204, 309, 328, 400.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::MessageQueue;
use super::lenient::{self, wire_enum};

wire_enum! {
    /// How a consumer gets its messages.
    ConsumeType {
        Actively = "CONSUME_ACTIVELY" 0,
        Passively = "CONSUME_PASSIVELY" 1,
        Pop = "CONSUME_POP" 2,
    }

    /// Whether the members of a group share the messages.
    MessageModel {
        Broadcasting = "BROADCASTING" 0,
        Clustering = "CLUSTERING" 1,
    }

    /// Where a new group begins.
    ConsumeFromWhere {
        LastOffset = "CONSUME_FROM_LAST_OFFSET" 0,
        LastOffsetAndFromMinWhenBootFirst = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST" 1,
        MinOffset = "CONSUME_FROM_MIN_OFFSET" 2,
        MaxOffset = "CONSUME_FROM_MAX_OFFSET" 3,
        FirstOffset = "CONSUME_FROM_FIRST_OFFSET" 4,
        Timestamp = "CONSUME_FROM_TIMESTAMP" 5,
    }
}

/// A subscription to one topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Everything matches.
    #[serde(deserialize_with = "lenient::boolean")]
    pub class_filter_mode: bool,
    /// Hashes of the tags.
    pub code_set: Vec<i32>,
    /// `TAG` or `SQL92`.
    pub expression_type: Option<String>,
    /// The expression as written.
    pub sub_string: String,
    /// Version, in ms by habit.
    #[serde(deserialize_with = "lenient::int")]
    pub sub_version: i64,
    /// The tags.
    pub tags_set: Vec<String>,
    /// Topic.
    pub topic: String,
}

impl Default for SubscriptionData {
    fn default() -> Self {
        SubscriptionData {
            class_filter_mode: false,
            code_set: Vec::new(),
            expression_type: Some("TAG".to_owned()),
            sub_string: String::new(),
            sub_version: 0,
            tags_set: Vec::new(),
            topic: String::new(),
        }
    }
}

/// A consumer of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a new group begins.
    pub consume_from_where: ConsumeFromWhere,
    /// How it gets its messages.
    pub consume_type: ConsumeType,
    /// Group.
    pub group_name: String,
    /// Model.
    pub message_model: MessageModel,
    /// Subscriptions.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Unit mode.
    #[serde(deserialize_with = "lenient::boolean")]
    pub unit_mode: bool,
}

/// A producer of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// Group.
    pub group_name: String,
}

/// Body of HEART_BEAT 34.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// Client.
    #[serde(rename = "clientID", alias = "clientId")]
    pub client_id: String,
    /// Its consumers.
    pub consumer_data_set: Vec<ConsumerData>,
    /// Only in 5.x; 0 is the first form of heartbeats.
    #[serde(deserialize_with = "lenient::opt_int")]
    pub heartbeat_fingerprint: Option<i64>,
    /// Its producers.
    pub producer_data_set: Vec<ProducerData>,
    /// Only in 5.x: the subscriptions are left out because they have not changed.
    #[serde(deserialize_with = "lenient::opt_boolean")]
    pub without_sub: Option<bool>,
}

/// Body of CHECK_CLIENT_CONFIG 46.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClientBody {
    /// Client.
    pub client_id: String,
    /// Group.
    pub group: String,
    /// Namespace.
    pub namespace: Option<String>,
    /// The subscription to check.
    pub subscription_data: Option<SubscriptionData>,
}

/// Answer to 38.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerListBody {
    /// Client ids.
    pub consumer_id_list: Vec<String>,
}

/// Body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatchBody {
    /// Client.
    pub client_id: String,
    /// Group.
    pub consumer_group: String,
    /// Queues.
    pub mq_set: Vec<MessageQueue>,
    /// Only in 5.x.
    pub only_this_broker: Option<bool>,
}

/// Answer to 41: the queues that the client holds now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LockBatchResponseBody {
    /// Queues.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: Vec<MessageQueue>,
}

/// A connection of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionInfo {
    /// `ip:port`.
    pub client_addr: String,
    /// Client id.
    pub client_id: String,
    /// Language name.
    pub language: String,
    /// Version ordinal.
    pub version: i32,
}

/// Answer to 203.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// The members' connections.
    pub connection_set: Vec<ConnectionInfo>,
    /// Where a new group begins.
    pub consume_from_where: ConsumeFromWhere,
    /// How the members get their messages.
    pub consume_type: ConsumeType,
    /// Model.
    pub message_model: MessageModel,
    /// By topic.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// Answer to 204.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// The producers' connections.
    pub connection_set: Vec<ConnectionInfo>,
}

/// A producer of the answer to 328.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// Client id.
    pub client_id: String,
    /// Language name.
    pub language: String,
    /// In ms.
    pub last_update_timestamp: i64,
    /// `/ip:port`.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// Version ordinal.
    pub version: i32,
}

/// Answer to 328.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerTable {
    /// By group.
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

/// Answer of a client to 309.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeDirectlyResult {
    /// Auto commit.
    pub auto_commit: bool,
    /// For example `CR_SUCCESS`.
    pub consume_result: Option<String>,
    /// Orderly.
    pub order: bool,
    /// Text for people.
    pub remark: Option<String>,
    /// In ms.
    pub spent_time_mills: i64,
}

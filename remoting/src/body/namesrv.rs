//! Routes, cluster and key-value tables: answers of a name server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lenient;

/// The addresses of a broker name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// Broker id → `ip:port`; written without quotes around the ids but in the standard form.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name.
    pub broker_name: String,
    /// Cluster.
    pub cluster: String,
    /// Only in 5.x.
    pub enable_acting_master: Option<bool>,
    /// Only in 5.x.
    pub zone_name: Option<String>,
}

/// The queues of a topic at a broker name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// Name.
    pub broker_name: String,
    /// Bits of [`super::perm`].
    #[serde(deserialize_with = "lenient::int")]
    pub perm: i32,
    /// Queues that are read.
    #[serde(deserialize_with = "lenient::int")]
    pub read_queue_nums: i32,
    /// 1 unit, 2 unit-sub. Old name servers spell it differently.
    #[serde(alias = "topicSynFlag", deserialize_with = "lenient::int")]
    pub topic_sys_flag: i32,
    /// Queues that are written.
    #[serde(deserialize_with = "lenient::int")]
    pub write_queue_nums: i32,
}

/// Where a topic is: answer to 105.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// Brokers that have the topic.
    pub broker_datas: Vec<BrokerData>,
    /// Dead, but read by clients.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// `broker-a:4;broker-b:4`.
    pub order_topic_conf: Option<String>,
    /// Its queues.
    pub queue_datas: Vec<QueueData>,
}

impl TopicRouteData {
    /// Body for a requester: quoted ids if it reads standard JSON (it says so, or its version is 401 or later), bare ones
    /// otherwise, since older clients read nothing else. Compact in either case: some clients cut it textually.
    pub fn encode(
        &self,
        requester_version: i32,
        accept_standard: bool,
    ) -> Result<Vec<u8>, crate::fastjson::WriteError> {
        match accept_standard || requester_version >= 401 {
            true => crate::fastjson::to_vec_standard(self),
            false => crate::fastjson::to_vec(self),
        }
    }
}

/// All brokers: answer to 106. Ids are always written without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// By broker name.
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Cluster → broker names.
    pub cluster_addr_table: BTreeMap<String, Vec<String>>,
}

/// Keys and values: answer to 28, 103 and 219.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KvTable {
    /// The table.
    pub table: BTreeMap<String, String>,
}

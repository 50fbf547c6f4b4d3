//! Statistics and inspection: answers to 315 and 321.

use serde::{Deserialize, Serialize};

use super::SubscriptionData;

/// Figures of one span.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsItem {
    /// Average a call.
    pub avgpt: f64,
    /// Sum.
    pub sum: i64,
    /// A second.
    pub tps: f64,
}

/// Answer to 315.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsData {
    /// Last day.
    pub stats_day: BrokerStatsItem,
    /// Last hour.
    pub stats_hour: BrokerStatsItem,
    /// Last minute.
    pub stats_minute: BrokerStatsItem,
}

/// One unit of a consume queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueData {
    /// Bit map of the filter extension.
    pub bit_map: Option<String>,
    /// Whether the group's filter takes it.
    pub eval: bool,
    /// Filter extension.
    pub extend_data_json: Option<String>,
    /// Text of an error.
    pub msg: Option<String>,
    /// Physical offset.
    pub physic_offset: i64,
    /// Size of the stored message, in bytes.
    pub physic_size: i32,
    /// Tags code.
    pub tags_code: i64,
}

/// Answer to 321.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryConsumeQueueBody {
    /// The group's compiled filter.
    pub filter_data: Option<String>,
    /// Next queue offset.
    pub max_queue_index: i64,
    /// First queue offset.
    pub min_queue_index: i64,
    /// The units.
    pub queue_data: Vec<ConsumeQueueData>,
    /// The group's subscription.
    pub subscription_data: Option<SubscriptionData>,
}

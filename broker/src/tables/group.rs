//! One consumer group, as `subscriptionGroup.json` and bodies on the wire carry it.

use super::json::{Map, Node};

/// A consumer group's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupConfig {
    /// Name.
    pub name: String,
    /// Whether its members may consume at all.
    pub consume_enable: bool,
    /// Whether consumption may begin at the oldest message.
    pub consume_from_min_enable: bool,
    /// Whether broadcast consumption is allowed.
    pub consume_broadcast_enable: bool,
    /// Queues of the retry topic.
    pub retry_queues: i32,
    /// Deliveries of a message before it becomes a dead letter.
    pub retry_max_times: i32,
    /// Broker id that slow consumers are sent to.
    pub which_broker_when_consume_slowly: i64,
    /// Broker id that consumers are told to use.
    pub broker_id: i64,
    /// Whether members are told when the membership changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// Members that this version does not interpret (those of 5.x included), preserved.
    unknown: Vec<(String, Node)>,
}

const MEMBERS: [&str; 9] = [
    "brokerId",
    "consumeBroadcastEnable",
    "consumeEnable",
    "consumeFromMinEnable",
    "groupName",
    "notifyConsumerIdsChangedEnable",
    "retryMaxTimes",
    "retryQueueNums",
    "whichBrokerWhenConsumeSlowly",
];

impl GroupConfig {
    /// Java's defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            consume_enable: true,
            consume_from_min_enable: true,
            consume_broadcast_enable: true,
            retry_queues: 1,
            retry_max_times: 16,
            which_broker_when_consume_slowly: 1,
            broker_id: 0,
            notify_consumer_ids_changed_enable: true,
            unknown: Vec::new(),
        }
    }

    /// Reads the JSON object of the group `name`.
    pub fn from_map(name: &str, map: &Map) -> Self {
        let d = Self::new(map.str("groupName").unwrap_or(name));
        let unknown = map
            .iter()
            .filter(|(k, _)| !MEMBERS.contains(k))
            .map(|(k, v)| (k.to_string(), v.clone()));
        Self {
            consume_enable: map.bool("consumeEnable").unwrap_or(d.consume_enable),
            consume_from_min_enable: map
                .bool("consumeFromMinEnable")
                .unwrap_or(d.consume_from_min_enable),
            consume_broadcast_enable: map
                .bool("consumeBroadcastEnable")
                .unwrap_or(d.consume_broadcast_enable),
            retry_queues: map.i32("retryQueueNums").unwrap_or(d.retry_queues),
            retry_max_times: map.i32("retryMaxTimes").unwrap_or(d.retry_max_times),
            which_broker_when_consume_slowly: map
                .i64("whichBrokerWhenConsumeSlowly")
                .unwrap_or(d.which_broker_when_consume_slowly),
            broker_id: map.i64("brokerId").unwrap_or(d.broker_id),
            notify_consumer_ids_changed_enable: map
                .bool("notifyConsumerIdsChangedEnable")
                .unwrap_or(d.notify_consumer_ids_changed_enable),
            unknown: unknown.collect(),
            name: d.name,
        }
    }

    /// The JSON object, members in alphabetical order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new()
            .with("brokerId", self.broker_id)
            .with("consumeBroadcastEnable", self.consume_broadcast_enable)
            .with("consumeEnable", self.consume_enable)
            .with("consumeFromMinEnable", self.consume_from_min_enable)
            .with("groupName", self.name.as_str())
            .with(
                "notifyConsumerIdsChangedEnable",
                self.notify_consumer_ids_changed_enable,
            )
            .with("retryMaxTimes", self.retry_max_times)
            .with("retryQueueNums", self.retry_queues)
            .with(
                "whichBrokerWhenConsumeSlowly",
                self.which_broker_when_consume_slowly,
            );
        for (key, value) in &self.unknown {
            map.set_member(key, value.clone());
        }
        map
    }

    /// Takes over the members that a new definition of the same group does not know.
    pub(super) fn keep_unknown_of(&mut self, old: &Self) {
        for (key, value) in &old.unknown {
            if self.unknown.iter().all(|(k, _)| k != key) {
                self.unknown.push((key.clone(), value.clone()));
            }
        }
    }
}

//! The JSON bodies of requests and answers.
//!
//! Read them by [`crate::fastjson::from_slice`] and write them by [`crate::fastjson::to_vec`]. Members stand in
//! alphabetical order of their wire names, which is the order that Java prints. Every member may be absent when read;
//! `Option`s are left out when written without a value (mostly members that only 5.x has).

mod admin;
mod client;
mod group;
pub mod lenient;
mod namesrv;
mod register;
mod topic;

pub use admin::*;
pub use client::*;
pub use group::*;
pub use namesrv::*;
pub use register::*;
pub use topic::*;

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Members that we do not know, kept so that a rewrite does not lose them.
pub type OtherMembers = serde_json::Map<String, serde_json::Value>;

/// Version of a table: equality of all members decides whether it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Incremented with each change.
    pub counter: i64,
    /// Only in 5.x.
    pub state_version: Option<i64>,
    /// Time of the last change, in ms.
    pub timestamp: i64,
}

impl DataVersion {
    /// Notes a change at a time in ms.
    pub fn next(&mut self, now_ms: i64) {
        self.timestamp = now_ms;
        self.counter += 1;
    }
}

/// A queue of a topic at a broker. As the key of a map it is written as an object; when read it may also be a text that
/// holds one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageQueue {
    /// Name of the broker.
    pub broker_name: String,
    /// Number of the queue.
    pub queue_id: i32,
    /// Topic.
    pub topic: String,
}

impl MessageQueue {
    /// A queue.
    pub fn new(
        topic: impl Into<String>,
        broker_name: impl Into<String>,
        queue_id: i32,
    ) -> MessageQueue {
        MessageQueue {
            broker_name: broker_name.into(),
            queue_id,
            topic: topic.into(),
        }
    }
}

impl<'de> Deserialize<'de> for MessageQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessageQueueVisitor)
    }
}

struct MessageQueueVisitor;

impl<'de> Visitor<'de> for MessageQueueVisitor {
    type Value = MessageQueue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a queue as an object, or as the text of one")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MessageQueue, E> {
        let value = crate::fastjson::parse(text.as_bytes()).map_err(E::custom)?;
        match value {
            serde_json::Value::Object(_) => MessageQueue::deserialize(value).map_err(E::custom),
            _ => Err(E::custom("the text holds no object")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MessageQueue, A::Error> {
        let mut queue = MessageQueue::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "brokerName" => queue.broker_name = map.next_value()?,
                "topic" => queue.topic = map.next_value()?,
                "queueId" => queue.queue_id = map.next_value_seed(lenient::IntSeed)?,
                _ => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        Ok(queue)
    }
}

#[cfg(test)]
mod tests;

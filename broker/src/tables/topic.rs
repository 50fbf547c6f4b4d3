//! One topic, as `topics.json` and bodies on the wire carry it.

use super::json::{Map, Node};

/// Permission bits.
pub mod perm {
    /// New topics may be created after this one.
    pub const INHERIT: i32 = 1;
    /// Messages may be sent.
    pub const WRITE: i32 = 2;
    /// Messages may be consumed.
    pub const READ: i32 = 4;
}

/// Queue count of a topic whose file entry does not give one.
const DEFAULT_QUEUES: i32 = 16;

/// A topic's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// Name.
    pub name: String,
    /// Queues that consumers read.
    pub read_queues: i32,
    /// Queues that producers write.
    pub write_queues: i32,
    /// Bits of [`perm`].
    pub perm: i32,
    /// `SINGLE_TAG` or `MULTI_TAG`.
    pub filter_type: String,
    /// 1 unit, 2 has a unit subscription.
    pub sys_flag: i32,
    /// Order topic.
    pub order: bool,
    /// 5.x attributes; `None` when there is no such member (4.9 files).
    pub attributes: Option<Vec<(String, String)>>,
    /// Members that are not known, preserved.
    unknown: Vec<(String, Node)>,
}

const MEMBERS: [&str; 8] = [
    "attributes",
    "order",
    "perm",
    "readQueueNums",
    "topicFilterType",
    "topicName",
    "topicSysFlag",
    "writeQueueNums",
];

impl TopicConfig {
    /// An ordinary topic: readable, writable, single tags.
    pub fn new(name: impl Into<String>, queues: i32) -> Self {
        Self {
            name: name.into(),
            read_queues: queues,
            write_queues: queues,
            perm: perm::READ | perm::WRITE,
            filter_type: "SINGLE_TAG".into(),
            sys_flag: 0,
            order: false,
            attributes: None,
            unknown: Vec::new(),
        }
    }

    /// The same with another permission.
    #[must_use]
    pub fn with_perm(mut self, perm: i32) -> Self {
        self.perm = perm;
        self
    }

    /// Whether consumers may read.
    pub fn is_readable(&self) -> bool {
        self.perm & perm::READ != 0
    }

    /// Whether producers may write.
    pub fn is_writable(&self) -> bool {
        self.perm & perm::WRITE != 0
    }

    /// The value of an attribute.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .iter()
            .flatten()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Reads the JSON object of the topic `name`.
    pub fn from_map(name: &str, map: &Map) -> Self {
        let defaults = Self::new(name, DEFAULT_QUEUES);
        let attributes = map
            .get("attributes")
            .and_then(Node::as_map)
            .map(|attributes| {
                let text = |v: &Node| match v {
                    Node::Text(text) | Node::Number(text) => text.clone(),
                    other => other.as_bool().map(|b| b.to_string()).unwrap_or_default(),
                };
                attributes
                    .iter()
                    .map(|(k, v)| (k.to_string(), text(v)))
                    .collect()
            });
        let unknown = map
            .iter()
            .filter(|(k, _)| !MEMBERS.contains(k))
            .map(|(k, v)| (k.to_string(), v.clone()));
        Self {
            read_queues: map.i32("readQueueNums").unwrap_or(defaults.read_queues),
            write_queues: map.i32("writeQueueNums").unwrap_or(defaults.write_queues),
            perm: map.i32("perm").unwrap_or(defaults.perm),
            filter_type: map
                .str("topicFilterType")
                .map_or(defaults.filter_type, str::to_string),
            sys_flag: map.i32("topicSysFlag").unwrap_or(0),
            order: map.bool("order").unwrap_or(false),
            attributes,
            unknown: unknown.collect(),
            name: map.str("topicName").unwrap_or(name).to_string(),
        }
    }

    /// The JSON object, members in alphabetical order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        if let Some(attributes) = &self.attributes {
            let mut object = Map::new();
            attributes
                .iter()
                .for_each(|(k, v)| object.push(k, v.as_str()));
            map.push("attributes", object);
        }
        map.push("order", self.order);
        map.push("perm", self.perm);
        map.push("readQueueNums", self.read_queues);
        map.push("topicFilterType", self.filter_type.as_str());
        map.push("topicName", self.name.as_str());
        map.push("topicSysFlag", self.sys_flag);
        map.push("writeQueueNums", self.write_queues);
        for (key, value) in &self.unknown {
            map.set_member(key, value.clone());
        }
        map
    }

    /// Takes over the members that a new definition of the same topic does not know.
    pub(super) fn keep_unknown_of(&mut self, old: &Self) {
        for (key, value) in &old.unknown {
            if self.unknown.iter().all(|(k, _)| k != key) {
                self.unknown.push((key.clone(), value.clone()));
            }
        }
        if self.attributes.is_none() {
            self.attributes.clone_from(&old.attributes);
        }
    }
}

//! The version of a table, as brokers and name servers compare it.

use super::json::{Map, Node};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Java's `DataVersion`: two versions are the same only if all members are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataVersion {
    /// 5.x only; `None` when it was not written.
    pub state_version: Option<i64>,
    /// Time of the last change, ms.
    pub timestamp: i64,
    /// Number of changes.
    pub counter: i64,
}

impl DataVersion {
    /// Counter 0, now.
    pub fn now() -> Self {
        Self {
            state_version: None,
            timestamp: now_ms(),
            counter: 0,
        }
    }

    /// The version that a registration without a body stands for.
    pub fn zero() -> Self {
        Self {
            state_version: None,
            timestamp: 0,
            counter: 0,
        }
    }

    /// Records a change.
    pub fn next(&mut self) {
        self.timestamp = now_ms();
        self.counter += 1;
    }

    /// Reads the JSON object; missing members are 0.
    pub fn from_map(map: &Map) -> Self {
        Self {
            state_version: map.i64("stateVersion"),
            timestamp: map.i64("timestamp").unwrap_or(0),
            counter: map.i64("counter").unwrap_or(0),
        }
    }

    /// The JSON object.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("counter", self.counter);
        if let Some(state) = self.state_version {
            map.push("stateVersion", state);
        }
        map.with("timestamp", self.timestamp)
    }

    /// The JSON text, as header fields carry it.
    pub fn to_json(&self) -> String {
        super::json::compact(&self.to_map())
    }

    /// Whether name servers take `other` for the same version; one without stateVersion counts as 0.
    pub fn same_as(&self, other: &Self) -> bool {
        self.timestamp == other.timestamp
            && self.counter == other.counter
            && self.state_version.unwrap_or(0) == other.state_version.unwrap_or(0)
    }
}

impl From<DataVersion> for Node {
    fn from(version: DataVersion) -> Self {
        Node::Map(version.to_map())
    }
}

//! Ledgers: JSON lines (gzip or plain) that say what was sent to a store and what it served.
//!
//! The line types and their fields are described in `tests/data/fixtures/README.md`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

/// A message as it was served: type `msg`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Msg {
    /// Topic in the record.
    pub topic: String,
    /// Queue id in the record.
    pub queue_id: i32,
    /// Topic of the queue that it was read from, where that differs.
    pub in_topic: Option<String>,
    /// Queue that it was read from, where that differs.
    pub in_queue: Option<i32>,
    /// Queue offset.
    pub queue_offset: i64,
    /// Physical offset.
    pub phys: i64,
    /// Length of the whole record.
    pub size: i64,
    /// Store time, ms.
    pub store_ts: i64,
    /// System flag.
    #[serde(default)]
    pub sys_flag: i32,
    /// First 32 hex digits of the SHA-256 over the whole record.
    pub rec_sha: String,
    /// Stored body: first 32 hex digits of its SHA-256.
    #[serde(default)]
    pub stored_body_sha: String,
    /// Stored body: length.
    #[serde(default)]
    pub stored_body_len: i64,
    /// Properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Offset message id.
    #[serde(default)]
    pub offset_msg_id: String,
}

impl Msg {
    /// Topic and queue that it was read from.
    pub fn queue(&self) -> (&str, i32) {
        (
            self.in_topic.as_deref().unwrap_or(&self.topic),
            self.in_queue.unwrap_or(self.queue_id),
        )
    }
}

/// A queue as it was served: type `queue`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Topic.
    pub topic: String,
    /// Queue id.
    pub queue_id: i32,
    /// Smallest queue offset.
    pub min_offset: i64,
    /// Largest queue offset plus one.
    pub max_offset: i64,
    /// Number of `msg` lines that follow it.
    pub pulled: i64,
    /// Why the pulls ended early, if they did.
    pub stopped: Option<String>,
}

/// A message given to a client: type `send`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Send {
    /// What kind of send: `normal`, `batch`, `delay`, `tx-commit`, `storm`, …
    #[serde(default)]
    pub kind: String,
    /// Topic.
    pub topic: String,
    /// Unique key.
    pub msg_id: Option<String>,
    /// Keys, separated by blanks.
    pub keys: Option<String>,
    /// Tags.
    pub tags: Option<String>,
    /// `SEND_OK`, `UNACKNOWLEDGED`, `CODE_n`, …
    pub status: Option<String>,
    /// Queue that it went to.
    pub queue_id: Option<i32>,
    /// Queue offset that was acknowledged.
    pub queue_offset: Option<i64>,
    /// Offset message id that was acknowledged.
    pub offset_msg_id: Option<String>,
    /// Length of the body as sent.
    #[serde(default)]
    pub body_len: i64,
}

impl Send {
    /// Acknowledged as stored.
    pub fn acknowledged(&self) -> bool {
        self.status.as_deref() == Some("SEND_OK")
    }
}

/// An answer to a query by key: type `byKey`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ByKey {
    /// Topic.
    pub topic: String,
    /// Key asked for.
    pub key: String,
    /// Asked as a unique key.
    pub unique: bool,
    /// Response code.
    #[serde(default)]
    pub code: i32,
    /// Messages in the order of the answer.
    pub found: Vec<Found>,
}

/// One message named by an answer to a query.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Topic.
    pub topic: String,
    /// Queue id.
    pub queue_id: i32,
    /// Queue offset.
    pub queue_offset: i64,
    /// Physical offset.
    pub phys: i64,
}

/// An answer to a search by time: type `byTime`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ByTime {
    /// Topic.
    pub topic: String,
    /// Queue id.
    pub queue_id: i32,
    /// Time asked for, ms.
    pub timestamp: i64,
    /// Queue offset answered.
    pub offset: i64,
}

/// All lines of a ledger by type.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The header line.
    pub header: Value,
    /// Messages given to clients.
    pub sends: Vec<Send>,
    /// Messages served.
    pub messages: Vec<Msg>,
    /// Queues served.
    pub queues: Vec<Queue>,
    /// Queries by key.
    pub by_key: Vec<ByKey>,
    /// Searches by time.
    pub by_time: Vec<ByTime>,
    /// Configuration tables as served, by name.
    pub configs: BTreeMap<String, String>,
    /// Every other line, in order.
    pub others: Vec<Value>,
}

impl Ledger {
    /// Reads a ledger file; `.gz` is unpacked.
    pub fn read(path: &Path) -> Result<Ledger> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let reader: Box<dyn Read> = if path.extension().is_some_and(|e| e == "gz") {
            Box::new(GzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let mut ledger = Ledger::default();
        for (number, line) in BufReader::new(reader).lines().enumerate() {
            let line = line?;
            if !line.trim().is_empty() {
                ledger
                    .push(&line)
                    .with_context(|| format!("{}:{}", path.display(), number + 1))?;
            }
        }
        Ok(ledger)
    }

    /// Adds one line.
    pub fn push(&mut self, line: &str) -> Result<()> {
        let value: Value = serde_json::from_str(line)?;
        match value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "header" => self.header = value,
            "send" => self.sends.push(serde_json::from_value(value)?),
            "msg" | "undecodable" => self.messages.push(serde_json::from_value(value)?),
            "queue" => self.queues.push(serde_json::from_value(value)?),
            "byKey" => self.by_key.push(serde_json::from_value(value)?),
            "byTime" => self.by_time.push(serde_json::from_value(value)?),
            "config" => {
                let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
                self.configs.insert(
                    text("name").unwrap_or_default(),
                    text("json").unwrap_or_default(),
                );
            }
            _ => self.others.push(value),
        }
        Ok(())
    }

    /// Sends that were acknowledged as stored.
    pub fn acknowledged(&self) -> impl Iterator<Item = &Send> {
        self.sends.iter().filter(|s| s.acknowledged())
    }
}

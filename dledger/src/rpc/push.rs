//! Replication: compare, truncate, append and commit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{none, success};
use crate::entry::{Entry, EntryHeader, MAGIC};

/// What a push wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum PushType {
    #[default]
    Append,
    Commit,
    Compare,
    Truncate,
}

/// An entry as JSON; its body is Base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct EntryBody {
    #[serde(
        default,
        serialize_with = "write_base64",
        deserialize_with = "read_base64"
    )]
    pub body: Bytes,
    #[serde(default)]
    pub body_crc: i32,
    #[serde(default)]
    pub chain_crc: i32,
    #[serde(default)]
    pub channel: i32,
    #[serde(default)]
    pub index: i64,
    #[serde(default)]
    pub magic: i32,
    #[serde(default)]
    pub pos: i64,
    /// As the sender claims; equality of entries includes it.
    #[serde(default)]
    pub size: i32,
    #[serde(default)]
    pub term: i64,
}

impl EntryBody {
    /// An entry of this log.
    pub fn new(entry: &Entry) -> EntryBody {
        EntryBody {
            body: entry.body.clone(),
            body_crc: entry.body_crc,
            chain_crc: entry.chain_crc,
            channel: entry.channel,
            index: entry.index,
            magic: entry.magic,
            pos: entry.pos,
            size: entry.size,
            term: entry.term,
        }
    }

    /// The entry, its size as received. Nothing is checked here.
    pub fn entry(&self) -> Entry {
        let header = EntryHeader {
            magic: self.magic,
            size: self.size,
            index: self.index,
            term: self.term,
            pos: self.pos,
            channel: self.channel,
            chain_crc: self.chain_crc,
            body_crc: self.body_crc,
            body_size: i32::try_from(self.body.len()).unwrap_or(i32::MAX),
        };
        Entry::from_parts(header, self.body.clone())
    }

    /// Whether the entry has the one magic number that every version up to 0.3.2 keeps over a restart.
    pub fn has_lasting_magic(&self) -> bool {
        self.magic == MAGIC
    }
}

pub(super) fn write_base64<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD.encode(bytes))
}

pub(super) fn read_base64<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
    STANDARD
        .decode(text.as_bytes())
        .map(Bytes::from)
        .map_err(serde::de::Error::custom)
}

/// 51004, request. The members `batch`, `count`, `firstEntryIndex`, `lastEntryIndex` and `totalSize` say again what
/// the entries say; they are written as Java writes them and ignored on input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct PushBody {
    #[serde(skip_deserializing)]
    batch: bool,
    #[serde(default)]
    pub batch_entry: Vec<EntryBody>,
    #[serde(default = "success")]
    pub code: i32,
    #[serde(default = "none")]
    pub commit_index: i64,
    #[serde(skip_deserializing)]
    count: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryBody>,
    #[serde(skip_deserializing)]
    first_entry_index: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_deserializing)]
    last_entry_index: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_id: Option<String>,
    #[serde(default = "none")]
    pub term: i64,
    #[serde(skip_deserializing)]
    total_size: i64,
    #[serde(rename = "type", default)]
    pub push_type: PushType,
}

impl PushBody {
    /// A push of `leader` to `remote` in `term`. One entry goes as `entry`, several as `batchEntry`.
    pub fn new(
        group: &str,
        leader: &str,
        remote: &str,
        term: i64,
        push_type: PushType,
        commit_index: i64,
        mut entries: Vec<EntryBody>,
    ) -> PushBody {
        let single = if entries.len() == 1 {
            entries.pop()
        } else {
            None
        };
        let mut body = PushBody {
            batch: false,
            batch_entry: entries,
            code: success(),
            commit_index,
            count: 0,
            entry: single,
            first_entry_index: -1,
            group: Some(group.to_owned()),
            last_entry_index: -1,
            leader_id: Some(leader.to_owned()),
            local_id: Some(leader.to_owned()),
            remote_id: Some(remote.to_owned()),
            term,
            total_size: 0,
            push_type,
        };
        body.derive();
        body
    }

    /// Computes what Java's getters add.
    pub fn derive(&mut self) {
        let entries = self.entries();
        let (count, first, last) = (
            entries.len(),
            entries.first().map_or(-1, |e| e.index),
            entries.last().map_or(-1, |e| e.index),
        );
        self.batch = !self.batch_entry.is_empty();
        self.total_size = self.batch_entry.iter().map(|e| i64::from(e.size)).sum();
        (self.count, self.first_entry_index, self.last_entry_index) = (count, first, last);
    }

    /// The entries that it carries, whichever way.
    pub fn entries(&self) -> &[EntryBody] {
        if self.batch_entry.is_empty() {
            self.entry.as_slice()
        } else {
            &self.batch_entry
        }
    }
}

/// 51004, answer: the request's group and term, the first index and how many, and the follower's bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct PushAnswerBody {
    #[serde(default)]
    pub begin_index: i64,
    #[serde(default = "success")]
    pub code: i32,
    /// 0 when absent (before 0.2.6): then `index` is the last one.
    #[serde(default)]
    pub count: i32,
    #[serde(default)]
    pub end_index: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<i64>,
    #[serde(default = "none")]
    pub term: i64,
}

impl PushAnswerBody {
    /// The last index that a successful answer to an append acknowledges (R20).
    pub fn acknowledged_to(&self) -> Option<i64> {
        let index = self.index?;
        Some(if self.count > 0 {
            index + i64::from(self.count) - 1
        } else {
            index
        })
    }
}

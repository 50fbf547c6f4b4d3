//! The bodies of DLedger's requests and answers (0.2.x, 0.3.x), as JSON.
//!
//! Everything of DLedger is in the body of a remoting frame; the header's code only says which request it is, and is
//! always 200 in an answer. Members are written in alphabetical order with nulls left out, as fastjson does it, so
//! that what is written here equals Java's bytes. On input unknown members are ignored, missing ones keep Java's
//! default, and an enumeration may come as its number.

mod base;
mod election;
mod push;
mod service;

use serde::{Deserialize, Serialize};

pub use base::BaseBody;
pub use election::{VoteAnswerBody, VoteBody};
pub use push::{EntryBody, PushAnswerBody, PushBody, PushType};
pub use service::{
    AppendAnswerBody, AppendBody, GetAnswerBody, GetBody, MetadataAnswerBody, MetadataBody,
    TransferBody,
};

use crate::raft::message::Code;

/// Request codes of the raft port.
pub mod request_code {
    /// Who is in the group, and who leads.
    pub const METADATA: i32 = 50000;
    /// Append one body.
    pub const APPEND: i32 = 50001;
    /// Read one entry.
    pub const GET: i32 = 50002;
    /// Ask for a vote.
    pub const VOTE: i32 = 51001;
    /// Show that the leader lives.
    pub const HEART_BEAT: i32 = 51002;
    /// Never used by any version.
    pub const PULL: i32 = 51003;
    /// Compare, truncate, append, commit.
    pub const PUSH: i32 = 51004;
    /// Hand the leadership over.
    pub const LEADERSHIP_TRANSFER: i32 = 51005;
}

/// Java's default of `code`.
fn success() -> i32 {
    Code::Success as i32
}

/// Java's default of most numbers.
fn none() -> i64 {
    -1
}

/// Encodes a body. The bodies of this module have no map with keys that JSON cannot write, so this does not fail.
pub fn encode(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

/// Decodes a body.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Why a request does not concern this member: the check that comes before all others.
pub fn check_addressee(
    group: Option<&str>,
    remote_id: Option<&str>,
    own_group: &str,
    own_id: &str,
) -> Result<(), i32> {
    const UNKNOWN_GROUP: i32 = 400;
    if remote_id != Some(own_id) {
        return Err(Code::UnknownMember as i32);
    }
    if group != Some(own_group) {
        return Err(UNKNOWN_GROUP);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

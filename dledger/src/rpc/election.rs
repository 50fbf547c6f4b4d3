//! Votes and heartbeats.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{none, success};
use crate::raft::message::{VoteAnswer, VoteRequest, VoteResult};

/// 51001, request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct VoteBody {
    #[serde(default = "success")]
    pub code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<String>,
    #[serde(default = "none")]
    pub ledger_end_index: i64,
    #[serde(default = "none")]
    pub ledger_end_term: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_id: Option<String>,
    #[serde(default = "none")]
    pub term: i64,
}

impl VoteBody {
    /// What `candidate` sends to `remote`.
    pub fn new(group: &str, candidate: &str, remote: &str, request: &VoteRequest) -> VoteBody {
        VoteBody {
            code: success(),
            group: Some(group.to_owned()),
            leader_id: Some(candidate.to_owned()),
            ledger_end_index: request.end_index,
            ledger_end_term: request.end_term,
            local_id: Some(candidate.to_owned()),
            remote_id: Some(remote.to_owned()),
            term: request.term,
        }
    }

    /// What the core is asked.
    pub fn request(&self) -> VoteRequest {
        VoteRequest {
            term: self.term,
            end_index: self.ledger_end_index,
            end_term: self.ledger_end_term,
        }
    }

    /// The answer: the request's base members, with term and verdict of the voter.
    pub fn answer(&self, answer: &VoteAnswer) -> VoteAnswerBody {
        VoteAnswerBody {
            code: success(),
            group: self.group.clone(),
            leader_id: self.leader_id.clone(),
            local_id: self.local_id.clone(),
            remote_id: self.remote_id.clone(),
            term: answer.term,
            vote_result: answer.result,
        }
    }
}

/// 51001, answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct VoteAnswerBody {
    #[serde(default = "success")]
    pub code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_id: Option<String>,
    #[serde(default = "none")]
    pub term: i64,
    #[serde(
        default = "unknown_vote",
        serialize_with = "write_vote",
        deserialize_with = "read_vote"
    )]
    pub vote_result: VoteResult,
}

impl VoteAnswerBody {
    /// What the core is told.
    pub fn answer(&self) -> VoteAnswer {
        VoteAnswer {
            result: self.vote_result,
            term: self.term,
        }
    }
}

fn unknown_vote() -> VoteResult {
    VoteResult::Unknown
}

fn write_vote<S: Serializer>(result: &VoteResult, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(result.name())
}

/// By name or by number; anything else counts for nothing.
fn read_vote<'de, D: Deserializer<'de>>(from: D) -> Result<VoteResult, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    let by_number = |n: u64| {
        usize::try_from(n)
            .ok()
            .and_then(|n| VoteResult::ALL.get(n).copied())
    };
    let known = match &value {
        serde_json::Value::String(name) => Some(VoteResult::from_name(name)),
        serde_json::Value::Number(number) => number.as_u64().and_then(by_number),
        _ => None,
    };
    Ok(known.unwrap_or(VoteResult::Unknown))
}

//! The members that every request and answer has, alone: heartbeats both ways, answers to a hand-over, refusals.

use serde::{Deserialize, Serialize};

use super::{none, success};
use crate::raft::message::{Code, HeartbeatAnswer};

/// Base members only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct BaseBody {
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
}

impl BaseBody {
    /// The heartbeat (51002) of `leader` to `remote`.
    pub fn heartbeat(group: &str, leader: &str, remote: &str, term: i64) -> BaseBody {
        BaseBody {
            code: success(),
            group: Some(group.to_owned()),
            leader_id: Some(leader.to_owned()),
            local_id: Some(leader.to_owned()),
            remote_id: Some(remote.to_owned()),
            term,
        }
    }

    /// An answer without names: `{"code":200,"term":-1}` is all that a successful heartbeat answer says.
    pub fn bare(code: i32, term: i64) -> BaseBody {
        BaseBody {
            code,
            group: None,
            leader_id: None,
            local_id: None,
            remote_id: None,
            term,
        }
    }

    /// The answer to a heartbeat.
    pub fn heartbeat_answer(answer: &HeartbeatAnswer) -> BaseBody {
        BaseBody::bare(answer.code as i32, answer.term)
    }

    /// What the core is told about its heartbeat.
    pub fn as_heartbeat_answer(&self) -> HeartbeatAnswer {
        HeartbeatAnswer {
            code: Code::from_number(self.code),
            term: self.term,
        }
    }
}

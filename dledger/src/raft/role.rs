//! The three roles; each owns the data that has a meaning only in it.

use super::Millis;
use super::message::{Peer, VoteResult};
use super::progress::Progress;

/// Which role a member has, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RoleKind {
    Candidate,
    Follower,
    Leader,
}

/// A member's role.
#[derive(Clone, Debug)]
pub(super) enum Role {
    Candidate(Candidate),
    Follower(Follower),
    Leader(Leader),
}

impl Role {
    pub(super) fn kind(&self) -> RoleKind {
        match self {
            Role::Candidate(_) => RoleKind::Candidate,
            Role::Follower(_) => RoleKind::Follower,
            Role::Leader(_) => RoleKind::Leader,
        }
    }
}

/// Looking for a leader.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// When the next round begins, if none runs.
    pub next_at: Millis,
    /// What kind the next round is. A fresh candidate always asks first ([`RoundKind::Pre`]).
    pub next_kind: RoundKind,
    /// How many more rounds this candidate may repeat in the same newly entered term, while peers are adopting it.
    pub revotes_left: u8,
    /// The round that is being answered.
    pub round: Option<Round>,
}

/// The two kinds of vote rounds. On the wire they look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundKind {
    /// In the present term; it never elects. Its outcome says whether a real round may begin (D3, D8).
    Pre,
    /// In a term that this member has just entered and voted for itself in.
    Real,
}

/// A vote round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub kind: RoundKind,
    pub number: u64,
    pub deadline: Millis,
    /// One place per member, the own one filled at the start. `Some(Unknown)` also stands for a failed call.
    pub answers: Vec<Option<VoteResult>>,
    /// The largest term that a refusal named.
    pub max_term: i64,
}

/// Following a leader.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub leader: Peer,
    pub heard_at: Millis,
    /// Added to the time-out, so that followers do not all wake up together (L8).
    pub jitter: Millis,
}

/// Leading.
#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// First index that was or will be written in this term; what lies below is committed through it (D7).
    pub first_index: i64,
    /// By position in the peers list; the own place is there and unused.
    pub progress: Vec<Progress>,
    pub next_heartbeat: Millis,
}

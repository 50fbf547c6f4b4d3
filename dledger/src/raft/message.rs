//! What members say to each other, as the core sees it: members are numbers, absent values are `Option`s.
//! The JSON bodies of the wire are in [`crate::rpc`].

use std::fmt;

/// A member's position in the configured list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u8);

impl Peer {
    /// Someone who is not in the list: a vote file may name a member that was configured once. The vote stays given.
    pub const FOREIGN: Peer = Peer(u8::MAX);
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A candidate asks for a vote (51001).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteRequest {
    /// Term of the round.
    pub term: i64,
    /// The candidate's last index, −1 when empty.
    pub end_index: i64,
    /// Term of that entry, −1 when empty.
    pub end_term: i64,
}

/// Java's vote results, in its declaration order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum VoteResult {
    Unknown,
    Accept,
    RejectUnknownLeader,
    RejectUnexpectedLeader,
    RejectExpiredVoteTerm,
    RejectAlreadyVoted,
    RejectAlreadyHasLeader,
    RejectTermNotReady,
    RejectTermSmallThanLedger,
    RejectExpiredLedgerTerm,
    RejectSmallLedgerEndIndex,
    RejectTakingLeadership,
}

impl VoteResult {
    /// All results in declaration order.
    pub const ALL: [VoteResult; 12] = [
        VoteResult::Unknown,
        VoteResult::Accept,
        VoteResult::RejectUnknownLeader,
        VoteResult::RejectUnexpectedLeader,
        VoteResult::RejectExpiredVoteTerm,
        VoteResult::RejectAlreadyVoted,
        VoteResult::RejectAlreadyHasLeader,
        VoteResult::RejectTermNotReady,
        VoteResult::RejectTermSmallThanLedger,
        VoteResult::RejectExpiredLedgerTerm,
        VoteResult::RejectSmallLedgerEndIndex,
        VoteResult::RejectTakingLeadership,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            VoteResult::Unknown => "UNKNOWN",
            VoteResult::Accept => "ACCEPT",
            VoteResult::RejectUnknownLeader => "REJECT_UNKNOWN_LEADER",
            VoteResult::RejectUnexpectedLeader => "REJECT_UNEXPECTED_LEADER",
            VoteResult::RejectExpiredVoteTerm => "REJECT_EXPIRED_VOTE_TERM",
            VoteResult::RejectAlreadyVoted => "REJECT_ALREADY_VOTED",
            VoteResult::RejectAlreadyHasLeader => "REJECT_ALREADY_HAS_LEADER",
            VoteResult::RejectTermNotReady => "REJECT_TERM_NOT_READY",
            VoteResult::RejectTermSmallThanLedger => "REJECT_TERM_SMALL_THAN_LEDGER",
            VoteResult::RejectExpiredLedgerTerm => "REJECT_EXPIRED_LEDGER_TERM",
            VoteResult::RejectSmallLedgerEndIndex => "REJECT_SMALL_LEDGER_END_INDEX",
            VoteResult::RejectTakingLeadership => "REJECT_TAKING_LEADERSHIP",
        }
    }

    /// The result with that wire name; anything else counts for nothing, as in Java.
    pub fn from_name(name: &str) -> VoteResult {
        VoteResult::ALL
            .into_iter()
            .find(|r| r.name() == name)
            .unwrap_or(VoteResult::Unknown)
    }
}

/// The answer to a [`VoteRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteAnswer {
    /// The verdict.
    pub result: VoteResult,
    /// The voter's term (for [`VoteResult::RejectTermSmallThanLedger`] the term of its last entry).
    pub term: i64,
}

/// The codes of DLedger's bodies that votes and heartbeats use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Code {
    /// Also stands for every code that means nothing here.
    Unknown = -1,
    Success = 200,
    UnknownMember = 401,
    UnexpectedMember = 402,
    ExpiredTerm = 403,
    InconsistentLeader = 409,
    TermNotReady = 416,
}

impl Code {
    /// The code with that number on the wire.
    pub fn from_number(number: i32) -> Code {
        match number {
            200 => Code::Success,
            401 => Code::UnknownMember,
            402 => Code::UnexpectedMember,
            403 => Code::ExpiredTerm,
            409 => Code::InconsistentLeader,
            416 => Code::TermNotReady,
            _ => Code::Unknown,
        }
    }
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The verdict.
    pub code: Code,
    /// The follower's term; Java fills it for the refusals only, −1 otherwise.
    pub term: i64,
}

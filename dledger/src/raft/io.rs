//! What goes into the core and what comes out of it.

use super::message::{HeartbeatAnswer, Peer, VoteAnswer, VoteRequest};
use super::role::RoleKind;
use super::{HardState, Millis};

/// Names a request of a peer, so that the caller finds the way back for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// Everything that can happen to a member. Requests of peers were checked by the caller for group and addressee;
/// `from` is `None` when the sender that the request names is not in the peers list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time has come this far. The core knows no other clock.
    Time(Millis),
    /// The own store holds everything up to `index`, written in the term that this member leads.
    Appended {
        /// The new end index.
        index: i64,
    },
    /// The own store ends here after it took, or cut, what the leader that this member follows told it to.
    Stored {
        /// Last index.
        end_index: i64,
        /// Its term.
        end_term: i64,
    },
    /// A follower holds everything up to `index`, equal to the own log (synced, where the class asks for it).
    Acknowledged {
        /// Who.
        from: Peer,
        /// The term of the lead that it answered.
        term: i64,
        /// Highest equal index.
        index: i64,
    },
    /// The own store has synced everything up to `index`.
    Synced {
        /// Highest synced index.
        index: i64,
    },
    /// The own store can no longer be trusted to keep what it is given: a sync failed.
    Poisoned,
    /// A candidate asks for a vote.
    Vote {
        /// For the answer.
        id: RequestId,
        /// The candidate.
        from: Option<Peer>,
        /// What it asks.
        request: VoteRequest,
    },
    /// A leader shows that it lives.
    Heartbeat {
        /// For the answer.
        id: RequestId,
        /// The leader.
        from: Option<Peer>,
        /// Its term.
        term: i64,
    },
    /// A peer answered (or failed to answer: `None`) the vote request of that round.
    VoteAnswered {
        /// Who.
        from: Peer,
        /// The round that [`Call::Vote`] named.
        round: u64,
        /// What it said.
        answer: Option<VoteAnswer>,
    },
    /// A peer answered (or failed to answer) a heartbeat.
    HeartbeatAnswered {
        /// Who.
        from: Peer,
        /// The term of the heartbeat.
        term: i64,
        /// When the heartbeat was sent.
        sent_at: Millis,
        /// What it said.
        answer: Option<HeartbeatAnswer>,
    },
}

/// A request to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Ask for a vote; the answer comes back with the round's number.
    Vote {
        /// Number of the round.
        round: u64,
        /// The question.
        request: VoteRequest,
    },
    /// Show that this leader lives; the answer comes back with term and send time.
    Heartbeat {
        /// The leader's term.
        term: i64,
        /// When it was sent.
        sent_at: Millis,
    },
}

/// The answer to a request of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a vote request.
    Vote(VoteAnswer),
    /// To a heartbeat.
    Heartbeat(HeartbeatAnswer),
}

/// What the caller must do, in this order. Effects behind a [`Effect::Persist`] are carried out only when it has been
/// synced; if that fails, none of them is, and the member stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write term and vote to the vote file and sync it.
    Persist(HardState),
    /// Send a request to a peer.
    Send {
        /// To whom.
        to: Peer,
        /// What.
        call: Call,
    },
    /// Answer a request of a peer.
    Reply {
        /// Which one.
        id: RequestId,
        /// With what.
        answer: Answer,
    },
    /// The role (or the leader or term within it) changed. Whoever waits for an entry of an earlier lead learns now
    /// that its fate is open (L1).
    Role {
        /// The new role.
        role: RoleKind,
        /// The term that it holds for.
        term: i64,
        /// The leader, if known.
        leader: Option<Peer>,
    },
    /// Append the entry that lets this leader commit what earlier terms left (D7), and report it as appended.
    AppendNoOp {
        /// Its term.
        term: i64,
    },
    /// Everything up to `index` is committed.
    Commit {
        /// The new committed index.
        index: i64,
    },
}

/// The effects of a step, in order. Kept and reused by the caller, so that a step allocates nothing once it is warm.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty list.
    pub fn new() -> Effects {
        Effects::default()
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }

    /// The effects in order.
    pub fn as_slice(&self) -> &[Effect] {
        &self.list
    }

    /// Takes the effects out, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect> {
        self.list.drain(..)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

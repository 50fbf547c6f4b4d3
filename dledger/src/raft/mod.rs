//! The raft core: pure, in DLedger's dialect.
//!
//! [`Core::step`] takes one [`Input`] and appends [`Effect`]s to a list; nothing else goes in or out. There is no
//! clock (time is an input), no I/O, no randomness beyond a seeded jitter, no lock and no task in here, so a seed
//! replays a run bit for bit.
//!
//! What is Java's is kept in Java's order (check order of votes and heartbeats, result names, timers). What is done
//! better carries the number of the defect that it cures:
//!
//! * **D2** term and vote leave as [`Effect::Persist`] *before* every effect that depends on them.
//! * **D3, D8** a member leads only in a term that it newly entered, at most once, and it enters one only after a
//!   round in its present term ([`role::RoundKind::Pre`]) in which a majority answered, no one knew a leader and a
//!   majority had no better log. Cut off or behind, it does not drive its term up.
//! * **D7** a leader of a group commits only through an entry of its own term; [`Effect::AppendNoOp`] provides one when
//!   something was left. A group of one needs no such entry and writes none.
//! * **D8** a leader that hears of a larger term steps down, takes it over and campaigns above it.
//! * **L1** every end of a lead is an [`Effect::Role`], which fails what waits for entries of that lead.
//! * **L7** a new leader's quorum clock starts at its election.
//! * **L8** followers' time-outs are spread upward.
//!
//! Impossible states panic, in release too: a broken invariant must not go on.

mod config;
mod election;
mod heartbeat;
mod io;
pub mod message;
pub mod progress;
pub mod quorum;
mod replication;
mod rng;
mod role;
mod vote;

pub use config::{Abstain, Acknowledge, Config, Timers};
pub use io::{Answer, Call, Effect, Effects, Input, RequestId};
pub use message::Peer;
pub use role::RoleKind;

use rng::Jitter;
use role::{Candidate, Follower, Role, RoundKind};

/// Milliseconds of a monotonic clock that the caller keeps; only differences mean anything.
pub type Millis = i64;

/// What the vote file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardState {
    /// The current term.
    pub term: i64,
    /// For whom this member voted in it.
    pub vote: Option<Peer>,
}

/// What the log holds when the core starts. Indexes are −1 when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Last index.
    pub end_index: i64,
    /// Its term.
    pub end_term: i64,
    /// Highest index known to be committed.
    pub committed: i64,
    /// Highest index known to be synced.
    pub synced: i64,
}

/// Why this member takes no append now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not lead.
    NotLeader {
        /// Who does, if known.
        leader: Option<Peer>,
    },
    /// Too many entries wait for their commit.
    PendingFull,
    /// Its log is poisoned.
    Poisoned,
}

/// One member of a group.
#[derive(Clone, Debug)]
pub struct Core {
    config: Config,
    now: Millis,
    jitter: Jitter,
    hard: HardState,
    log: LogState,
    role: Role,
    rounds: u64,
    poisoned: bool,
}

impl Core {
    /// A member that has just started. `hard` comes from the vote file, which must not lie below the log.
    pub fn new(config: Config, hard: HardState, log: LogState, now: Millis) -> Core {
        assert!(
            hard.term >= log.end_term.max(0),
            "the term {} lies below the log's last term {}",
            hard.term,
            log.end_term
        );
        assert!(
            log.committed <= log.end_index && log.synced <= log.end_index,
            "more committed or synced than there is"
        );
        let jitter = Jitter::new(config.seed);
        let role = Role::Candidate(Candidate::new(now));
        Core {
            config,
            now,
            jitter,
            hard,
            log,
            role,
            rounds: 0,
            poisoned: false,
        }
    }

    /// Takes one input; what is to be done is appended to `out`.
    pub fn step(&mut self, input: Input, out: &mut Effects) {
        match input {
            Input::Time(now) => {
                self.now = self.now.max(now);
                self.tick(out);
            }
            Input::Appended { index } => self.appended(index, out),
            Input::Stored {
                end_index,
                end_term,
            } => self.stored(end_index, end_term),
            Input::Acknowledged { from, term, index } => self.acknowledged(from, term, index, out),
            Input::Synced { index } => self.synced(index, out),
            Input::Poisoned => self.poison(out),
            Input::Vote { id, from, request } => self.vote_asked(id, from, request, out),
            Input::Heartbeat { id, from, term } => self.heartbeat_heard(id, from, term, out),
            Input::VoteAnswered {
                from,
                round,
                answer,
            } => self.vote_answered(from, round, answer, out),
            Input::HeartbeatAnswered {
                from,
                term,
                sent_at,
                answer,
            } => {
                self.heartbeat_answered(from, term, sent_at, answer, out);
            }
        }
        self.check();
    }

    /// When the core next wants [`Input::Time`], unless something else happens first. A leader of a group of one, and
    /// a member that can no longer store, want none.
    pub fn next_deadline(&self) -> Option<Millis> {
        if self.poisoned {
            return None;
        }
        match &self.role {
            Role::Candidate(candidate) => match &candidate.round {
                Some(round) => Some(round.deadline),
                None => self.may_campaign().then_some(candidate.next_at),
            },
            Role::Follower(follower) => {
                Some(follower.heard_at + self.config.timers.leader_timeout() + follower.jitter)
            }
            Role::Leader(leader) => (self.config.members > 1).then(|| self.leader_deadline(leader)),
        }
    }

    /// Whether an append may be made now; the term that it gets.
    #[inline]
    pub fn may_append(&self) -> Result<i64, Refusal> {
        if self.poisoned {
            return Err(Refusal::Poisoned);
        }
        if !matches!(self.role, Role::Leader(_)) {
            return Err(Refusal::NotLeader {
                leader: self.leader(),
            });
        }
        if self.log.end_index - self.log.committed >= self.config.pending_max {
            return Err(Refusal::PendingFull);
        }
        Ok(self.hard.term)
    }

    /// The role.
    pub fn role(&self) -> RoleKind {
        self.role.kind()
    }

    /// The current term.
    pub fn term(&self) -> i64 {
        self.hard.term
    }

    /// Term and vote.
    pub fn hard_state(&self) -> HardState {
        self.hard
    }

    /// The leader, as far as this member knows.
    pub fn leader(&self) -> Option<Peer> {
        match &self.role {
            Role::Candidate(_) => None,
            Role::Follower(follower) => Some(follower.leader),
            Role::Leader(_) => Some(self.config.me),
        }
    }

    /// What the core knows of the log.
    pub fn log(&self) -> LogState {
        self.log
    }

    fn tick(&mut self, out: &mut Effects) {
        if self.next_deadline().is_none_or(|due| self.now < due) {
            return;
        }
        match &self.role {
            Role::Candidate(_) => self.candidate_due(out),
            Role::Follower(_) => {
                self.become_candidate(out);
                self.candidate_due(out);
            }
            Role::Leader(_) => self.leader_due(out),
        }
    }

    /// The store can no longer keep promises: this member acknowledges, votes and leads no more.
    fn poison(&mut self, out: &mut Effects) {
        if !std::mem::replace(&mut self.poisoned, true) {
            self.become_candidate(out);
        }
    }

    /// Raises the term, or notes a vote in the present one. The only place that changes either.
    fn persist(&mut self, hard: HardState, out: &mut Effects) {
        assert!(
            hard.term >= self.hard.term,
            "a term never goes back: {} to {}",
            self.hard.term,
            hard.term
        );
        let vote_kept = self.hard.vote.is_none() || hard.vote == self.hard.vote;
        assert!(hard.term > self.hard.term || vote_kept, "one vote a term");
        if hard != self.hard {
            self.hard = hard;
            out.push(Effect::Persist(hard));
        }
    }

    /// Takes over a larger term that someone else has entered.
    fn adopt(&mut self, term: i64, out: &mut Effects) {
        if term > self.hard.term {
            self.persist(HardState { term, vote: None }, out);
        }
    }

    fn become_candidate(&mut self, out: &mut Effects) {
        self.role = Role::Candidate(Candidate::new(self.now));
        out.push(Effect::Role {
            role: RoleKind::Candidate,
            term: self.hard.term,
            leader: None,
        });
    }

    fn become_follower(&mut self, leader: Peer, out: &mut Effects) {
        assert!(leader != self.config.me, "no member follows itself");
        let timers = &self.config.timers;
        let jitter = self
            .jitter
            .below(timers.vote_pause_max - timers.vote_pause_min);
        self.role = Role::Follower(Follower {
            leader,
            heard_at: self.now,
            jitter,
        });
        out.push(Effect::Role {
            role: RoleKind::Follower,
            term: self.hard.term,
            leader: Some(leader),
        });
    }

    /// What must hold after every step.
    fn check(&self) {
        assert!(
            self.log.committed <= self.log.end_index,
            "nothing is committed that is not there"
        );
        assert!(
            self.hard.term >= self.log.end_term,
            "no entry has a term above the member's"
        );
        match &self.role {
            Role::Leader(leader) => {
                assert_eq!(
                    self.hard.vote,
                    Some(self.config.me),
                    "a leader has its own vote"
                );
                assert!(!self.poisoned, "a member that cannot store does not lead");
                assert!(
                    leader.first_index <= self.log.end_index + 1,
                    "a lead begins within the log or at its end"
                );
            }
            Role::Candidate(Candidate {
                round: Some(round), ..
            }) => {
                let real = round.kind == RoundKind::Real;
                assert!(
                    !real || self.hard.vote == Some(self.config.me),
                    "a real round has the own vote"
                );
            }
            Role::Candidate(_) | Role::Follower(_) => {}
        }
    }
}

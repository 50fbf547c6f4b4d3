//! Campaigning: a round in the present term first, then, if that allows it, one in a new term.

use super::config::Abstain;
use super::message::{Peer, VoteAnswer, VoteRequest, VoteResult};
use super::progress::Progress;
use super::role::{Candidate, Leader, Role, RoleKind, Round, RoundKind};
use super::{Call, Core, Effect, Effects, HardState, Millis};

/// Rounds in one newly entered term while peers say that they are adopting it.
const REVOTES_MAX: u8 = 20;

impl Candidate {
    pub(super) fn new(next_at: Millis) -> Candidate {
        Candidate {
            next_at,
            next_kind: RoundKind::Pre,
            revotes_left: REVOTES_MAX,
            round: None,
        }
    }
}

/// The answers of a round, counted. The own one is among them.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Answered or failed.
    settled: usize,
    /// Gave a result that means something.
    valid: usize,
    accepted: usize,
    /// Have a smaller term and are adopting this one.
    not_ready: usize,
    /// Gave their vote in this term to someone else and know no leader.
    voted: usize,
    /// Have a better log.
    bigger: usize,
    has_leader: usize,
}

impl Tally {
    fn of(round: &Round) -> Tally {
        let mut tally = Tally::default();
        for result in round.answers.iter().flatten() {
            tally.settled += 1;
            tally.valid += usize::from(*result != VoteResult::Unknown);
            match result {
                VoteResult::Accept => tally.accepted += 1,
                VoteResult::RejectTermNotReady => tally.not_ready += 1,
                VoteResult::RejectAlreadyVoted => tally.voted += 1,
                VoteResult::RejectAlreadyHasLeader => tally.has_leader += 1,
                VoteResult::RejectExpiredLedgerTerm | VoteResult::RejectSmallLedgerEndIndex => {
                    tally.bigger += 1
                }
                _ => {}
            }
        }
        tally
    }

    /// Would not mind a new term of ours.
    fn agreeing(&self) -> usize {
        self.accepted + self.not_ready + self.voted
    }
}

/// What follows from a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Listen on.
    Wait,
    /// A majority agrees, but a leader may still raise its voice: listen a moment longer.
    Listen,
    /// Someone is in a larger term: take it over and ask again.
    Adopt(i64),
    /// Ask again later, in the present term.
    AskAgain { extra: Millis },
    /// Enter a new term.
    Raise,
    /// Repeat the real round: peers are adopting the term.
    Revote,
    /// Elected.
    Elected,
}

impl Core {
    /// Whether this member may start rounds at all.
    pub(super) fn may_campaign(&self) -> bool {
        match self.config.abstain {
            Abstain::No | Abstain::WhileEmpty => true,
            Abstain::Until(index) => self.log.end_index >= index,
        }
    }

    /// The candidate's time has come: a round begins, or the running one has waited long enough.
    pub(super) fn candidate_due(&mut self, out: &mut Effects) {
        let Role::Candidate(candidate) = &self.role else {
            return;
        };
        if self.poisoned || !self.may_campaign() {
            return;
        }
        let kind = candidate.next_kind;
        if candidate.round.is_some() {
            self.evaluate(true, out)
        } else {
            self.start_round(kind, out)
        }
    }

    pub(super) fn vote_answered(
        &mut self,
        from: Peer,
        number: u64,
        answer: Option<VoteAnswer>,
        out: &mut Effects,
    ) {
        let Role::Candidate(Candidate {
            round: Some(round), ..
        }) = &mut self.role
        else {
            return;
        };
        let Some(place) = round.answers.get_mut(usize::from(from.0)) else {
            return;
        };
        if round.number != number || place.is_some() {
            return;
        }
        let answer = answer.unwrap_or(VoteAnswer {
            result: VoteResult::Unknown,
            term: -1,
        });
        *place = Some(answer.result);
        if matches!(
            answer.result,
            VoteResult::RejectExpiredVoteTerm | VoteResult::RejectTermSmallThanLedger
        ) {
            round.max_term = round.max_term.max(answer.term);
        }
        self.evaluate(false, out);
    }

    /// Another one got this member's vote: it is left alone for a while.
    pub(super) fn back_off(&mut self) {
        let pause = self.vote_pause();
        let now = self.now;
        if let Role::Candidate(candidate) = &mut self.role {
            *candidate = Candidate::new(now + pause);
        }
    }

    fn vote_pause(&mut self) -> Millis {
        let timers = &self.config.timers;
        timers.vote_pause_min
            + self
                .jitter
                .below(timers.vote_pause_max - timers.vote_pause_min)
    }

    fn start_round(&mut self, kind: RoundKind, out: &mut Effects) {
        self.rounds += 1;
        let me = self.config.me;
        let own = match self.hard.vote {
            Some(vote) if vote != me => VoteResult::RejectAlreadyVoted,
            _ => VoteResult::Accept,
        };
        assert!(
            kind == RoundKind::Pre || self.hard.vote == Some(me),
            "a real round has the own vote"
        );
        let mut answers = vec![None; usize::from(self.config.members)];
        answers[usize::from(me.0)] = Some(own);
        let wait =
            self.config.timers.round_wait + self.jitter.below(self.config.timers.round_wait_jitter);
        let round = Round {
            kind,
            number: self.rounds,
            deadline: self.now + wait,
            answers,
            max_term: -1,
        };
        if let Role::Candidate(candidate) = &mut self.role {
            candidate.round = Some(round);
        }
        let request = VoteRequest {
            term: self.hard.term,
            end_index: self.log.end_index,
            end_term: self.log.end_term,
        };
        for to in self.config.peers() {
            out.push(Effect::Send {
                to,
                call: Call::Vote {
                    round: self.rounds,
                    request,
                },
            });
        }
        self.evaluate(false, out);
    }

    fn evaluate(&mut self, time_is_up: bool, out: &mut Effects) {
        let Role::Candidate(Candidate {
            round: Some(round),
            revotes_left,
            ..
        }) = &self.role
        else {
            return;
        };
        let tally = Tally::of(round);
        let over = time_is_up || tally.settled == round.answers.len();
        let verdict = match round.kind {
            RoundKind::Pre => self.judge_pre(&tally, round.max_term, over),
            RoundKind::Real => self.judge_real(&tally, round.max_term, over, *revotes_left > 0),
        };
        self.carry_out(verdict, out);
    }

    /// A new term needs a majority that answered, knows no leader and has no better log (D3, D8).
    fn judge_pre(&self, tally: &Tally, max_term: i64, over: bool) -> Verdict {
        let majority = self.config.majority();
        let behind = tally.valid - tally.bigger < majority
            || (self.config.abstain != Abstain::No && tally.bigger > 0);
        if tally.has_leader > 0 {
            // Harmless to repeat, so there is no reason for Java's six seconds: if that leader is dead, the one who
            // still believes in it will know soon.
            return Verdict::AskAgain { extra: 0 };
        }
        if !over {
            return if tally.agreeing() >= majority {
                Verdict::Listen
            } else {
                Verdict::Wait
            };
        }
        if max_term > self.hard.term {
            return Verdict::Adopt(max_term);
        }
        if tally.valid < majority {
            return Verdict::AskAgain { extra: 0 };
        }
        if behind {
            return Verdict::AskAgain {
                extra: self.config.timers.behind_pause,
            };
        }
        if tally.agreeing() >= majority {
            return Verdict::Raise;
        }
        Verdict::AskAgain { extra: 0 }
    }

    /// Java's evaluation, in a term that this member has newly entered.
    fn judge_real(&self, tally: &Tally, max_term: i64, over: bool, may_revote: bool) -> Verdict {
        let majority = self.config.majority();
        if tally.accepted >= majority {
            return Verdict::Elected;
        }
        if tally.has_leader > 0 {
            return Verdict::AskAgain { extra: 0 };
        }
        if tally.accepted + tally.not_ready >= majority && may_revote {
            return Verdict::Revote;
        }
        if !over {
            return Verdict::Wait;
        }
        if max_term > self.hard.term {
            return Verdict::Adopt(max_term);
        }
        if tally.valid >= majority && tally.valid - tally.bigger < majority {
            return Verdict::AskAgain {
                extra: self.config.timers.behind_pause,
            };
        }
        Verdict::AskAgain { extra: 0 }
    }

    fn carry_out(&mut self, verdict: Verdict, out: &mut Effects) {
        let now = self.now;
        let pause = match verdict {
            Verdict::Adopt(_) | Verdict::AskAgain { .. } => self.vote_pause(),
            _ => 0,
        };
        let (listen, revote) = (self.config.timers.listen, self.config.timers.revote_pause);
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        match verdict {
            Verdict::Wait => {}
            Verdict::Listen => {
                if let Some(round) = &mut candidate.round {
                    round.deadline = round.deadline.min(now + listen);
                }
            }
            Verdict::AskAgain { extra } => *candidate = Candidate::new(now + pause + extra),
            Verdict::Adopt(term) => {
                *candidate = Candidate::new(now + pause);
                self.adopt(term, out);
            }
            Verdict::Revote => {
                candidate.round = None;
                candidate.next_kind = RoundKind::Real;
                candidate.next_at = now + revote;
                candidate.revotes_left -= 1;
            }
            Verdict::Raise => {
                *candidate = Candidate::new(now);
                self.persist(
                    HardState {
                        term: self.hard.term + 1,
                        vote: Some(self.config.me),
                    },
                    out,
                );
                self.start_round(RoundKind::Real, out);
            }
            Verdict::Elected => self.become_leader(out),
        }
    }

    fn become_leader(&mut self, out: &mut Effects) {
        assert_eq!(
            self.hard.vote,
            Some(self.config.me),
            "a leader has its own vote"
        );
        let fresh = Progress::new(self.now, self.config.window);
        let progress = vec![fresh; usize::from(self.config.members)];
        let first_index = self.log.end_index + 1;
        self.role = Role::Leader(Leader {
            first_index,
            progress,
            next_heartbeat: self.now,
        });
        let term = self.hard.term;
        out.push(Effect::Role {
            role: RoleKind::Leader,
            term,
            leader: Some(self.config.me),
        });
        if self.config.members == 1 {
            self.advance_commit(out);
            return;
        }
        if self.log.committed < self.log.end_index {
            out.push(Effect::AppendNoOp { term });
        }
        self.send_heartbeats(out);
    }
}

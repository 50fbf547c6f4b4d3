//! Answering a candidate: Java's checks in Java's order (0.2.0 to 0.4.0).

use super::config::Abstain;
use super::message::{Peer, VoteAnswer, VoteRequest, VoteResult};
use super::role::Role;
use super::{Answer, Core, Effect, Effects, HardState, RequestId};

impl Core {
    pub(super) fn vote_asked(
        &mut self,
        id: RequestId,
        from: Option<Peer>,
        request: VoteRequest,
        out: &mut Effects,
    ) {
        let result = self.decide_vote(from, request, out);
        let term = match result {
            VoteResult::RejectTermSmallThanLedger => self.log.end_term,
            _ => self.hard.term,
        };
        out.push(Effect::Reply {
            id,
            answer: Answer::Vote(VoteAnswer { result, term }),
        });
    }

    fn decide_vote(
        &mut self,
        from: Option<Peer>,
        request: VoteRequest,
        out: &mut Effects,
    ) -> VoteResult {
        // R07: a member that cannot store takes no part.
        if self.poisoned {
            return VoteResult::Unknown;
        }
        let Some(from) = from else {
            return VoteResult::RejectUnknownLeader;
        };
        if from == self.config.me {
            return VoteResult::RejectUnexpectedLeader;
        }
        if request.end_term < self.log.end_term {
            return VoteResult::RejectExpiredLedgerTerm;
        }
        if request.end_term == self.log.end_term && request.end_index < self.log.end_index {
            return VoteResult::RejectSmallLedgerEndIndex;
        }
        if request.term < self.hard.term {
            return VoteResult::RejectExpiredVoteTerm;
        }
        if request.term == self.hard.term {
            // Java looks at its vote first and at the leader second, so a follower that never voted in this term would
            // let a second candidate through; the outcome of a round in the present term needs the leader first.
            if self.leader().is_some_and(|leader| leader != from) {
                return VoteResult::RejectAlreadyHasLeader;
            }
            if self.hard.vote.is_some_and(|vote| vote != from) {
                return VoteResult::RejectAlreadyVoted;
            }
        }
        if request.term < self.log.end_term {
            return VoteResult::RejectTermSmallThanLedger;
        }
        self.grant(from, request, out)
    }

    /// Java answers a larger term with "not ready" and takes it over in its loop; here the term and the vote are
    /// persisted in one write and the vote is given at once, which Java counts alike.
    fn grant(&mut self, from: Peer, request: VoteRequest, out: &mut Effects) -> VoteResult {
        let higher = request.term > self.hard.term;
        if higher && !matches!(self.role, Role::Candidate(_)) {
            self.become_candidate(out);
        }
        if self.must_abstain(request) {
            self.adopt(request.term, out);
            return VoteResult::Unknown;
        }
        let granted = HardState {
            term: request.term,
            vote: Some(from),
        };
        // A repeated request does not push the own campaign away again: its sender may be deaf.
        if granted != self.hard {
            self.persist(granted, out);
            self.back_off();
        }
        VoteResult::Accept
    }

    /// A member whose log was lost must not help a shorter log than the lost one to win.
    fn must_abstain(&self, request: VoteRequest) -> bool {
        match self.config.abstain {
            Abstain::No => false,
            Abstain::WhileEmpty => self.log.end_index < 0 && request.end_index >= 0,
            Abstain::Until(index) => self.log.end_index < index,
        }
    }
}

//! Heartbeats: sending them and counting who hears (leader), hearing them (everyone else).

use smallvec::SmallVec;

use super::message::{Code, HeartbeatAnswer, Peer};
use super::role::{Leader, Role};
use super::{Answer, Call, Core, Effect, Effects, Millis, RequestId, quorum};

impl Core {
    /// Java's checks in Java's order, with its ninth shortened: a larger term is persisted and followed at once.
    pub(super) fn heartbeat_heard(
        &mut self,
        id: RequestId,
        from: Option<Peer>,
        term: i64,
        out: &mut Effects,
    ) {
        let code = self.decide_heartbeat(from, term, out);
        let term = match code {
            Code::UnknownMember | Code::UnexpectedMember | Code::ExpiredTerm => self.hard.term,
            _ => -1,
        };
        out.push(Effect::Reply {
            id,
            answer: Answer::Heartbeat(HeartbeatAnswer { code, term }),
        });
    }

    fn decide_heartbeat(&mut self, from: Option<Peer>, term: i64, out: &mut Effects) -> Code {
        if self.poisoned {
            return Code::Unknown;
        }
        let Some(from) = from else {
            return Code::UnknownMember;
        };
        if from == self.config.me {
            return Code::UnexpectedMember;
        }
        if term < self.hard.term {
            return Code::ExpiredTerm;
        }
        if term > self.hard.term {
            self.become_candidate(out);
            self.adopt(term, out);
        }
        let now = self.now;
        match &mut self.role {
            Role::Follower(follower) if follower.leader == from => follower.heard_at = now,
            Role::Candidate(_) => self.become_follower(from, out),
            Role::Follower(_) | Role::Leader(_) => return Code::InconsistentLeader,
        }
        Code::Success
    }

    /// When a leader has something to do: the next heartbeat, or giving up because the majority is silent.
    pub(super) fn leader_deadline(&self, leader: &Leader) -> Millis {
        let silent = self
            .quorum_heard_at(leader)
            .saturating_add(self.config.timers.leader_timeout());
        leader.next_heartbeat.min(silent)
    }

    /// Sends a heartbeat to everyone, unless the majority has been silent for too long.
    pub(super) fn leader_due(&mut self, out: &mut Effects) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        if self.now - self.quorum_heard_at(leader) >= self.config.timers.leader_timeout() {
            self.become_candidate(out);
        } else {
            self.send_heartbeats(out);
        }
    }

    pub(super) fn send_heartbeats(&mut self, out: &mut Effects) {
        let (now, term) = (self.now, self.hard.term);
        if let Role::Leader(leader) = &mut self.role {
            leader.next_heartbeat = now + self.config.timers.heartbeat;
        }
        for to in self.config.peers() {
            out.push(Effect::Send {
                to,
                call: Call::Heartbeat { term, sent_at: now },
            });
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        from: Peer,
        term: i64,
        sent_at: Millis,
        answer: Option<HeartbeatAnswer>,
        out: &mut Effects,
    ) {
        let (now, current, revote) = (self.now, self.hard.term, self.config.timers.revote_pause);
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let Some(progress) = leader.progress.get_mut(usize::from(from.0)) else {
            return;
        };
        if term != current || from == self.config.me {
            return;
        }
        assert!(sent_at <= now, "no answer comes before its heartbeat");
        let Some(answer) = answer else {
            progress.live = false;
            return;
        };
        progress.live = answer.code == Code::Success;
        match answer.code {
            Code::Success => progress.heard_at = progress.heard_at.max(sent_at),
            // It follows at the next heartbeat, which need not wait a whole interval.
            Code::TermNotReady => leader.next_heartbeat = leader.next_heartbeat.min(now + revote),
            // D8: without this the member with the larger term could never come back.
            Code::ExpiredTerm if answer.term > current => {
                self.become_candidate(out);
                self.adopt(answer.term, out);
            }
            Code::InconsistentLeader => self.become_candidate(out),
            Code::ExpiredTerm | Code::UnknownMember | Code::UnexpectedMember | Code::Unknown => {}
        }
    }

    /// Since when a majority (this leader included) is known to have heard this leader.
    fn quorum_heard_at(&self, leader: &Leader) -> Millis {
        let mut heard: SmallVec<[Millis; 16]> =
            leader.progress.iter().map(|p| p.heard_at).collect();
        heard[usize::from(self.config.me.0)] = self.now;
        quorum::reached_by_majority(&mut heard)
    }
}

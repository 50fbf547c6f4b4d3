//! What is committed: the arithmetic of acknowledgements.

use smallvec::SmallVec;

use super::config::Acknowledge;
use super::message::Peer;
use super::role::Role;
use super::{Core, Effect, Effects, quorum};

impl Core {
    /// The own store took entries of this lead. Called under the lock that also guarded [`Core::may_append`].
    pub(super) fn appended(&mut self, index: i64, out: &mut Effects) {
        assert!(
            matches!(self.role, Role::Leader(_)),
            "only a leader appends by itself"
        );
        assert!(index > self.log.end_index, "the log grows by appending");
        self.log.end_index = index;
        self.log.end_term = self.hard.term;
        self.advance_commit(out);
    }

    /// A follower's store changed as its leader asked.
    pub(super) fn stored(&mut self, end_index: i64, end_term: i64) {
        assert!(
            matches!(self.role, Role::Follower(_)),
            "only a follower takes what another one wrote"
        );
        assert!(
            end_index >= self.log.committed,
            "what is committed is never cut"
        );
        self.log.end_index = end_index;
        self.log.end_term = end_term;
        self.log.synced = self.log.synced.min(end_index);
    }

    /// A follower answered a push. Answers of an earlier lead say nothing about this one.
    pub(super) fn acknowledged(&mut self, from: Peer, term: i64, index: i64, out: &mut Effects) {
        let (current, end) = (self.hard.term, self.log.end_index);
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if term != current || from == self.config.me {
            return;
        }
        if let Some(progress) = leader.progress.get_mut(usize::from(from.0)) {
            progress.matched_to(index.min(end));
            self.advance_commit(out);
        }
    }

    pub(super) fn synced(&mut self, index: i64, out: &mut Effects) {
        if self.poisoned {
            return;
        }
        self.log.synced = self.log.synced.max(index.min(self.log.end_index));
        self.advance_commit(out);
    }

    /// Moves the commit up to what a majority has acknowledged.
    pub(super) fn advance_commit(&mut self, out: &mut Effects) {
        let own = match self.config.acknowledge {
            Acknowledge::Written => self.log.end_index,
            Acknowledge::Synced => self.log.synced,
        };
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let reached = if self.config.members == 1 {
            own
        } else {
            let mut marks: SmallVec<[i64; 16]> =
                leader.progress.iter().map(|p| p.matched).collect();
            marks[usize::from(self.config.me.0)] = own;
            quorum::reached_by_majority(&mut marks)
        };
        // D7: in a group, what earlier terms left is committed only together with an entry of this one.
        let through_own_term = self.config.members == 1 || reached >= leader.first_index;
        if through_own_term && reached > self.log.committed {
            self.log.committed = reached;
            out.push(Effect::Commit { index: reached });
        }
    }
}

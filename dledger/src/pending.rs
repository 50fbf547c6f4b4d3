//! Who waits for which entry to be committed. Waiters are kept by index and completed by prefix, in order.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use crate::log::CommitError;

/// The outcome that a waiter gets.
pub(crate) type Outcome = Result<(), CommitError>;

#[derive(Debug)]
struct Waiter {
    index: i64,
    done: oneshot::Sender<Outcome>,
}

/// The waiters of the present lead, ascending by index.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    waiters: VecDeque<Waiter>,
}

impl Pending {
    /// Waits for `index`. The caller has checked, under the lock that guards this, that it is not committed yet.
    pub(crate) fn wait(&mut self, index: i64) -> oneshot::Receiver<Outcome> {
        // Waiters that gave up (their time was over) leave from the front, where the oldest are (L2).
        while self.waiters.front().is_some_and(|w| w.done.is_closed()) {
            self.waiters.pop_front();
        }
        let (done, receiver) = oneshot::channel();
        let place = self.waiters.partition_point(|w| w.index <= index);
        self.waiters.insert(place, Waiter { index, done });
        receiver
    }

    /// Completes everyone who waits for an entry at or below `index`.
    pub(crate) fn committed(&mut self, index: i64) {
        while self.waiters.front().is_some_and(|w| w.index <= index) {
            if let Some(waiter) = self.waiters.pop_front() {
                // A waiter that has gone away wants no answer.
                let _ = waiter.done.send(Ok(()));
            }
        }
    }

    /// Tells everyone that the fate of their entry is open (L1).
    pub(crate) fn fail(&mut self, error: CommitError) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.done.send(Err(error.clone()));
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_by_prefix_and_fails_the_rest() {
        let mut pending = Pending::default();
        let mut receivers: Vec<_> = [5, 3, 7, 5]
            .iter()
            .map(|&index| pending.wait(index))
            .collect();
        pending.committed(5);
        assert_eq!(receivers[0].try_recv().unwrap(), Ok(()));
        assert_eq!(receivers[1].try_recv().unwrap(), Ok(()));
        assert_eq!(receivers[3].try_recv().unwrap(), Ok(()));
        assert!(receivers[2].try_recv().is_err());
        pending.fail(CommitError::TermChanged);
        assert_eq!(
            receivers[2].try_recv().unwrap(),
            Err(CommitError::TermChanged)
        );
    }

    #[test]
    fn waiters_that_gave_up_do_not_pile_up() {
        let mut pending = Pending::default();
        for index in 0..10_000 {
            drop(pending.wait(index));
        }
        assert!(pending.len() <= 1);
    }
}

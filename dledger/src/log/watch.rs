//! The committed position: read with one atomic load, published with one atomic store, and waited for at no cost to
//! the writer while nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::Notify;

/// What the writer publishes. One writer at a time (it holds the log's lock).
#[derive(Debug)]
pub(crate) struct Committed {
    /// Committed index, −1 when none.
    index: AtomicI64,
    /// Exclusive end of the committed bytes.
    pos: AtomicI64,
    /// The term that this member leads in, −1 when it does not lead.
    lead_term: AtomicI64,
    /// Somebody sleeps until the next advance.
    armed: AtomicBool,
    closed: AtomicBool,
    moved: Notify,
}

impl Committed {
    pub(crate) fn new(index: i64, pos: i64) -> Committed {
        Committed {
            index: AtomicI64::new(index),
            pos: AtomicI64::new(pos),
            lead_term: AtomicI64::new(-1),
            armed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            moved: Notify::new(),
        }
    }

    /// Everything up to `index`, which ends before `pos`, is committed.
    pub(crate) fn advance(&self, index: i64, pos: i64) {
        self.index.store(index, Ordering::Release);
        // Sequentially consistent with `armed`: either the sleeper sees the new position, or this sees that it sleeps.
        self.pos.store(pos, Ordering::SeqCst);
        if self.armed.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.moved.notify_waiters();
        }
    }

    /// No advance will follow.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Sets the term of the own lead. It is left *before* anything of that lead can be undone.
    pub(crate) fn set_lead_term(&self, term: i64) {
        self.lead_term.store(term, Ordering::SeqCst);
    }

    pub(crate) fn lead_term(&self) -> i64 {
        self.lead_term.load(Ordering::SeqCst)
    }

    pub(crate) fn index(&self) -> i64 {
        self.index.load(Ordering::Acquire)
    }

    pub(crate) fn pos(&self) -> i64 {
        self.pos.load(Ordering::Acquire)
    }
}

/// Follows the committed position of a [`crate::Log`].
#[derive(Clone, Debug)]
pub struct CommitWatch {
    shared: Arc<Committed>,
    seen: i64,
}

impl CommitWatch {
    pub(crate) fn new(shared: Arc<Committed>) -> CommitWatch {
        let seen = shared.pos();
        CommitWatch { shared, seen }
    }

    /// The committed position now (exclusive end, physical bytes); marks it as seen.
    pub fn current(&mut self) -> i64 {
        self.seen = self.shared.pos();
        self.seen
    }

    /// Waits until the committed position is beyond the one last seen, and returns it; `None` when the log was
    /// stopped or poisoned and everything committed has been seen. Cancel-safe.
    pub async fn moved(&mut self) -> Option<i64> {
        loop {
            let moved = self.shared.moved.notified();
            let mut moved = std::pin::pin!(moved);
            moved.as_mut().enable();
            self.shared.armed.store(true, Ordering::SeqCst);
            let pos = self.shared.pos.load(Ordering::SeqCst);
            if pos > self.seen {
                self.seen = pos;
                return Some(pos);
            }
            if self.shared.closed.load(Ordering::SeqCst) {
                return None;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_advance_is_missed() {
        let shared = Arc::new(Committed::new(-1, 0));
        let mut watch = CommitWatch::new(Arc::clone(&shared));
        let writer = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for n in 1..=20_000 {
                    shared.advance(n, n * 10);
                    if n % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
                shared.close();
            }
        });
        let mut last = 0;
        while let Some(pos) = watch.moved().await {
            assert!(pos > last);
            last = pos;
        }
        assert_eq!(last, 200_000);
        writer.join().unwrap();
    }
}

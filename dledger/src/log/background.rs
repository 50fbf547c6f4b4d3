//! The two threads of a log. The *flusher* makes durable what was appended: in class P within the flush interval, in
//! class S at once, one sync for everything appended before it began. The *keeper* prepares segments ahead of the
//! writer and writes the checkpoint. Both sleep while there is nothing to do.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::config::Durability;
use super::status::SyncCounters;
use crate::checkpoint::{self, Checkpoint};
use crate::driver::{FailStop, Shared};
use crate::fs::Fs;
use crate::store::{Flusher, Preparer};

/// The running threads.
#[derive(Debug)]
pub(crate) struct Threads {
    flusher: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Threads {
    pub(crate) fn start(shared: &Arc<Shared>, counters: &Arc<SyncCounters>) -> io::Result<Threads> {
        let (flusher, preparer, fs) = {
            let store = &shared.lock().store;
            (store.flusher(), store.preparer(), Arc::clone(store.fs()))
        };
        let flusher = FlusherThread {
            flusher,
            counters: Arc::clone(counters),
            shared: Arc::clone(shared),
        };
        let keeper = KeeperThread {
            preparer,
            fs,
            shared: Arc::clone(shared),
        };
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let flusher = spawn("log-flusher").spawn(move || flusher.run())?;
        let keeper = match spawn("log-keeper").spawn(move || keeper.run()) {
            Ok(keeper) => keeper,
            Err(error) => {
                shared.stop();
                let _ = flusher.join();
                return Err(error);
            }
        };
        Ok(Threads { flusher, keeper })
    }

    /// Waits for both; they were told to stop.
    pub(crate) fn join(self) {
        // A panic in one of them has poisoned the log already.
        let _ = self.flusher.join();
        let _ = self.keeper.join();
    }
}

struct FlusherThread {
    flusher: Flusher,
    counters: Arc<SyncCounters>,
    shared: Arc<Shared>,
}

impl FlusherThread {
    fn run(self) {
        let _fail_stop = FailStop(&self.shared);
        while let Some(dirty_since) = self.wait_until_due() {
            if !self.sync(dirty_since) {
                return;
            }
        }
        if self.shared.poison_reason().is_none() {
            self.sync(Instant::now());
        }
    }

    /// Waits until something is unsynced and it is time to sync it. Gives since when; `None` when the log ends.
    fn wait_until_due(&self) -> Option<Instant> {
        let shared = &*self.shared;
        // What was appended while the last sync ran is not older than this.
        let woke = Instant::now();
        let mut inner = shared.lock();
        loop {
            if shared.is_stopping() || shared.poison_reason().is_some() {
                return None;
            }
            if inner.store.end_index() <= shared.flushed_index() {
                inner.flusher_sleeps = true;
                shared.dirty.wait(&mut inner);
                inner.flusher_sleeps = false;
                continue;
            }
            let since = *inner.dirty_since.get_or_insert(woke);
            let due = match shared.config.durability {
                Durability::PageCacheMajority => since + shared.config.flush_interval,
                Durability::SyncMajority => since,
            };
            if Instant::now() >= due {
                inner.dirty_since = None;
                return Some(since);
            }
            shared.dirty.wait_until(&mut inner, due);
        }
    }

    /// Syncs and tells the core; whether it went well.
    fn sync(&self, dirty_since: Instant) -> bool {
        let began = Instant::now();
        match self.flusher.sync() {
            Ok(synced) => {
                self.counters.synced(began.elapsed(), dirty_since.elapsed());
                self.shared.synced(synced);
                true
            }
            Err(error) => {
                self.shared.poison(error.to_string());
                false
            }
        }
    }
}

/// Pause after a failed attempt to make room or to write the checkpoint.
const RETRY: Duration = Duration::from_secs(1);

struct KeeperThread {
    preparer: Preparer,
    fs: Arc<dyn Fs>,
    shared: Arc<Shared>,
}

impl KeeperThread {
    fn run(self) {
        let _fail_stop = FailStop(&self.shared);
        let shared = &*self.shared;
        let interval = shared.config.checkpoint_interval;
        let mut written = shared.vouched_index();
        let mut next_checkpoint = Instant::now() + interval;
        let mut next_room = Instant::now();
        while !shared.is_stopping() && shared.poison_reason().is_none() {
            if Instant::now() >= next_room && !self.make_room() {
                next_room = Instant::now() + RETRY;
            }
            shared.keeper.set_idle(true);
            let vouched = shared.vouched_index();
            if vouched == written {
                let retry = (next_room > Instant::now()).then_some(next_room);
                shared.keeper.wait(retry);
                continue;
            }
            shared.keeper.set_idle(false);
            if Instant::now() < next_checkpoint {
                shared.keeper.wait(Some(next_checkpoint));
                continue;
            }
            next_checkpoint = Instant::now() + interval;
            if self.write_checkpoint(vouched) {
                written = vouched;
            }
        }
    }

    fn make_room(&self) -> bool {
        let made = self.preparer.run();
        if let Err(error) = &made {
            // The writer meets the same error when it gets there, and tells its caller; until then all goes on.
            tracing::warn!(%error, "no room can be made ahead of the log's writer");
        } else {
            self.shared.keeper.room_made();
        }
        made.is_ok()
    }

    fn write_checkpoint(&self, committed_index: i64) -> bool {
        let end_index = self.shared.flushed_index();
        let checkpoint = Checkpoint {
            committed_index,
            end_index,
        };
        let saved = checkpoint::save(&*self.fs, &self.shared.config.store.base, &checkpoint);
        if let Err(error) = &saved {
            // The older one stays true, and the next round tries again.
            tracing::warn!(%error, "the log's checkpoint cannot be written");
        }
        saved.is_ok()
    }
}

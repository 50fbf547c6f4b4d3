//! The public handle of a replicated log.

mod appender;
mod background;
mod config;
mod error;
mod status;
pub(crate) mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

pub use appender::{Appended, Appender, MAX_BODY_SIZE};
pub use config::{Durability, LogConfig};
pub use error::{AppendError, CommitError, OpenError, ShutdownError, StartError};
pub use status::{RoleChange, Status, SyncStatus};
pub use watch::CommitWatch;

use crate::driver::{self, FailStop, Inner, Shared};
use crate::fs::Fs;
use crate::raft::{Config, Core, HardState, LogState, Peer, Refusal, RoleKind};
use crate::store::{
    BodyCheck, Expired, Expirer, Reader, Recovery, SegmentInfo, Store, StoreError, Sweep,
};
use crate::vote_file::{Vote, VoteFile};
use background::Threads;
use status::SyncCounters;

/// A replicated log: cheap to clone, usable from any thread.
///
/// [`Log::open`] recovers what is on disk, [`Log::start`] takes part in the group, [`Log::append_with`] appends.
/// An append is a short critical section on the caller's thread; in a group of one in class P it is committed when
/// the call returns. Dropping the last handle stops the log's threads; only [`Log::shutdown`] stops it cleanly.
#[derive(Clone, Debug)]
pub struct Log {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    reader: Reader,
    expirer: Expirer,
    counters: Arc<SyncCounters>,
    threads: Mutex<Option<Threads>>,
    started: AtomicBool,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let config = &self.shared.config;
        write!(
            f,
            "Log({}/{} up to {})",
            config.group,
            config.self_id,
            self.shared.committed.index()
        )
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Log {
    /// Opens the log: checks the configuration, recovers what is on disk, reads term and vote. `first_pos` is where
    /// entry 0 of a new log goes (the end of the bytes that lie before the log, 0 if there are none). Nothing is
    /// appended or sent before [`Log::start`].
    pub fn open(
        fs: Arc<dyn Fs>,
        config: LogConfig,
        check: Arc<dyn BodyCheck>,
        first_pos: i64,
    ) -> Result<(Log, Recovery), OpenError> {
        if config.group.trim().is_empty() {
            return Err(OpenError::EmptyGroup);
        }
        config.peers.require(&config.self_id)?;
        if config.peers.len() > 1 {
            return Err(OpenError::SeveralMembers {
                count: config.peers.len(),
                peers: config.peers.to_string(),
            });
        }
        let (store, recovery) =
            Store::open(Arc::clone(&fs), config.store.clone(), first_pos, &*check)?;
        let vote_error = |error| OpenError::VoteFile {
            base: config.store.base.display().to_string(),
            error,
        };
        let vote_file =
            VoteFile::load(fs, &config.store.base, store.end_term()).map_err(vote_error)?;
        let core = new_core(&config, &store, &vote_file);
        let (reader, expirer) = (store.reader(), store.expirer());
        let handle = Handle {
            shared: Arc::new(Shared::new(config, core, store, vote_file)),
            reader,
            expirer,
            counters: Arc::default(),
            threads: Mutex::new(None),
            started: AtomicBool::new(false),
        };
        Ok((
            Log {
                handle: Arc::new(handle),
            },
            recovery,
        ))
    }

    /// Starts to take part: threads that sync and prepare, and the task that brings time to the raft core. In a group
    /// of one it returns when this member leads, in a newly entered term, and what the log held is committed.
    pub async fn start(&self) -> Result<(), StartError> {
        let shared = &self.handle.shared;
        if self.handle.started.swap(true, Ordering::SeqCst) {
            return Err(StartError::Twice);
        }
        let mut role = shared.watch_role();
        let threads = Threads::start(shared, &self.handle.counters);
        *self.handle.threads.lock() = Some(threads.map_err(|e| StartError::Thread(e.to_string()))?);
        tokio::spawn(driver::run(Arc::clone(shared)));
        tokio::select! {
            leads = role.wait_for(|change| change.role == RoleKind::Leader) => {
                leads.map(|_| ()).map_err(|_| StartError::Stopped)?;
                // The role is told while the step that elected is still carried out: its commit follows under the
                // same lock, so whoever gets the lock now sees it.
                drop(shared.lock());
                Ok(())
            }
            reason = shared.until_ended() => Err(reason.map_or(StartError::Stopped, StartError::Poisoned)),
        }
    }

    /// Appends under the log's lock: `f` pushes one or several entries. What it pushed stays, whatever it returns.
    /// In a group of one in class P it is committed when this returns; otherwise see [`Log::committed`].
    pub fn append_with<R>(
        &self,
        f: impl FnOnce(&mut Appender<'_>) -> Result<R, AppendError>,
    ) -> Result<(R, Appended), AppendError> {
        let shared = &*self.handle.shared;
        let mut guard = shared.lock();
        let _fail_stop = FailStop(shared);
        let inner = &mut *guard;
        let term = self.may_append(inner)?;
        let mut appender = Appender::new(&mut inner.store, term);
        let result = f(&mut appender);
        let appended = appender.appended();
        if appended.last_index >= 0 {
            shared.appended(inner, appended.last_index);
        }
        result.map(|value| (value, appended))
    }

    #[inline]
    fn may_append(&self, inner: &Inner) -> Result<i64, AppendError> {
        let shared = &*self.handle.shared;
        if let Some(reason) = shared.poison_reason() {
            return Err(AppendError::Poisoned(reason));
        }
        if inner.stopped {
            return Err(AppendError::Stopped);
        }
        inner.core.may_append().map_err(|refusal| match refusal {
            Refusal::NotLeader { leader } => AppendError::NotLeader {
                leader: leader.map(|peer| shared.member(peer).clone()),
            },
            Refusal::PendingFull => AppendError::PendingFull,
            Refusal::Poisoned => AppendError::Poisoned(Arc::from("the log is poisoned")),
        })
    }

    /// Whether everything of that call is committed. Three atomic loads; may say no for a moment too long.
    #[inline]
    pub fn is_committed(&self, appended: &Appended) -> bool {
        let committed = &self.handle.shared.committed;
        // The term last: as long as the lead goes on, the index that was read is one of this lead.
        committed.index() >= appended.last_index && committed.lead_term() == appended.term
    }

    /// Waits until everything of that call is committed, or until it is known that this cannot be known, at most
    /// [`LogConfig::ack_timeout`].
    pub async fn committed(&self, appended: &Appended) -> Result<(), CommitError> {
        if self.is_committed(appended) {
            return Ok(());
        }
        let receiver = {
            let mut inner = self.handle.shared.lock();
            match self.settled(&inner, appended) {
                Some(outcome) => return outcome,
                None => inner.pending.wait(appended.last_index),
            }
        };
        match tokio::time::timeout(self.handle.shared.config.ack_timeout, receiver).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CommitError::Stopped),
            Err(_) => Err(CommitError::Timeout),
        }
    }

    /// The outcome, if there is one already.
    fn settled(&self, inner: &Inner, appended: &Appended) -> Option<Result<(), CommitError>> {
        let shared = &self.handle.shared;
        if let Some(reason) = shared.poison_reason() {
            return Some(Err(CommitError::Poisoned(reason)));
        }
        if inner.core.log().committed >= appended.last_index {
            // Committed in the same place by another lead is not committed unless it is the very entry.
            let same = inner
                .store
                .unit(appended.last_index)
                .is_some_and(|at| at.term == appended.term);
            return Some(if same || appended.last_index < 0 {
                Ok(())
            } else {
                Err(CommitError::TermChanged)
            });
        }
        if inner.stopped {
            return Some(Err(CommitError::Stopped));
        }
        let leads = inner.core.role() == RoleKind::Leader && inner.core.term() == appended.term;
        (!leads).then_some(Err(CommitError::TermChanged))
    }

    /// The exclusive end of the committed bytes: one atomic load.
    #[inline]
    pub fn committed_pos(&self) -> i64 {
        self.handle.shared.committed.pos()
    }

    /// The committed index, −1 when none.
    #[inline]
    pub fn committed_index(&self) -> i64 {
        self.handle.shared.committed.index()
    }

    /// Follows the committed position. Costs appends nothing while nobody waits.
    pub fn watch_committed(&self) -> CommitWatch {
        CommitWatch::new(Arc::clone(&self.handle.shared.committed))
    }

    /// Follows role, term and leader.
    pub fn watch_role(&self) -> tokio::sync::watch::Receiver<RoleChange> {
        self.handle.shared.watch_role()
    }

    /// Completes with the reason when the log is poisoned: a sync failed, or a thread did. Nothing is acknowledged from
    /// then on; the process should say so and end, and recover at its next start. Never completes once the log was
    /// stopped.
    pub async fn until_poisoned(&self) -> Arc<str> {
        match self.handle.shared.until_ended().await {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Reads what is written. Bound what you show by [`Log::committed_pos`].
    pub fn reader(&self) -> Reader {
        self.handle.reader.clone()
    }

    /// Position of the first entry, or where it will lie.
    pub fn first_pos(&self) -> i64 {
        self.handle.reader.first_pos()
    }

    /// Removes expired files from the oldest on; nothing that is not committed and synced goes (D16). Blocks on the disk.
    pub fn expire(&self, sweep: &Sweep) -> Result<Expired, StoreError> {
        let bounded = Sweep {
            keep_from_pos: sweep.keep_from_pos.min(self.committed_pos()),
            ..*sweep
        };
        self.handle.expirer.expire(&bounded)
    }

    /// The data files, oldest first.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, StoreError> {
        self.handle.expirer.segments()
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &LogConfig {
        &self.handle.shared.config
    }

    /// Where the log is.
    pub fn status(&self) -> Status {
        let shared = &self.handle.shared;
        let inner = shared.lock();
        Status {
            group: shared.config.group.clone(),
            self_id: shared.config.self_id.clone(),
            members: shared.config.peers.len(),
            role: inner.core.role(),
            term: inner.core.term(),
            leader: inner.core.leader().map(|peer| shared.member(peer).clone()),
            begin_index: inner.store.begin_index(),
            end_index: inner.store.end_index(),
            committed_index: shared.committed.index(),
            flushed_index: shared.flushed_index(),
            end_pos: inner.store.end_pos(),
            committed_pos: shared.committed.pos(),
            flushed_pos: shared.flushed_pos(),
            durability: shared.config.durability,
            poisoned: shared.poison_reason(),
            sync: self.handle.counters.status(),
        }
    }

    /// Stops cleanly: appends are refused, waiters are told, everything is synced, the checkpoint is written, the
    /// file made ahead is removed. Later calls do nothing.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        let handle = Arc::clone(&self.handle);
        let work = move || handle.close();
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|e| Err(ShutdownError::Io(e.to_string())))
    }
}

impl Handle {
    fn close(&self) -> Result<(), ShutdownError> {
        self.shared.stop();
        if let Some(threads) = self.threads.lock().take() {
            threads.join();
        }
        if let Some(reason) = self.shared.poison_reason() {
            return Err(ShutdownError::Poisoned(reason));
        }
        let mut inner = self.shared.lock();
        if std::mem::replace(&mut inner.closed, true) {
            return Ok(());
        }
        let committed = inner.core.log().committed;
        inner
            .store
            .close(committed)
            .map_err(|e| ShutdownError::Io(e.to_string()))
    }
}

fn new_core(config: &LogConfig, store: &Store, vote_file: &VoteFile) -> Core {
    let position = |id: &str| config.peers.position(id).map(|at| Peer(at as u8));
    let me = position(config.self_id.as_str()).unwrap_or(Peer(0));
    let mut core = Config::new(config.peers.len() as u8, me);
    core.timers = config.timers;
    core.pending_max = i64::try_from(config.pending_max).unwrap_or(i64::MAX);
    core.acknowledge = config.durability.acknowledge();
    core.seed =
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), config.self_id.as_str());
    let state = vote_file.state();
    let vote = match &state.vote {
        Vote::None => None,
        Vote::For(id) => Some(position(id).unwrap_or(Peer::FOREIGN)),
        Vote::Unknown => Some(Peer::FOREIGN),
    };
    let hard = HardState {
        term: state.term,
        vote,
    };
    let log = LogState {
        end_index: store.end_index(),
        end_term: store.end_term(),
        committed: store.committed_at_open(),
        synced: store.flusher().synced().end_index,
    };
    Core::new(core, hard, log, 0)
}

//! Between the pure core and the world: one lock guards core, store and waiters; every input is stepped under it and
//! its effects are carried out before it is released. Appends step the core on the caller's thread; the task in here
//! only brings time, and sleeps until the core wants it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use crate::log::watch::Committed;
use crate::log::{CommitError, LogConfig, RoleChange};
use crate::peers::MemberId;
use crate::pending::Pending;
use crate::raft::{Core, Effect, Effects, HardState, Input, Millis, Peer, RoleKind};
use crate::store::{Store, Synced};
use crate::vote_file::VoteFile;

/// What the lock guards.
pub(crate) struct Inner {
    pub(crate) core: Core,
    pub(crate) store: Store,
    pub(crate) pending: Pending,
    vote_file: VoteFile,
    effects: Effects,
    /// The flusher sleeps until it is told that something is unsynced.
    pub(crate) flusher_sleeps: bool,
    /// When the oldest unsynced entry was appended, as far as the flusher was told.
    pub(crate) dirty_since: Option<Instant>,
    pub(crate) stopped: bool,
    /// The store was closed cleanly.
    pub(crate) closed: bool,
}

impl Inner {
    /// Tells those who sleep that entries were appended: the flusher, and the keeper when room gets short.
    #[inline]
    fn wake_helpers(&mut self, shared: &Shared) {
        if self.flusher_sleeps {
            self.flusher_sleeps = false;
            self.dirty_since = Some(Instant::now());
            shared.dirty.notify_one();
        }
        if self.store.wants_preparation() {
            shared.keeper.ask_for_room();
        }
    }
}

/// Everything that the handle, the driver and the threads of one log share.
pub(crate) struct Shared {
    pub(crate) config: LogConfig,
    pub(crate) committed: Arc<Committed>,
    inner: Mutex<Inner>,
    /// What is synced.
    flushed_index: AtomicI64,
    flushed_pos: AtomicI64,
    /// Wakes the flusher; used with the lock of `inner`.
    pub(crate) dirty: Condvar,
    /// Wakes the keeper.
    pub(crate) keeper: KeeperSignal,
    /// Wakes the driver's task.
    wake: Notify,
    pub(crate) stopping: AtomicBool,
    poison: OnceLock<Arc<str>>,
    /// Wakes who waits for the log to be poisoned or stopped.
    ended: Notify,
    role: watch::Sender<RoleChange>,
    origin: Instant,
}

/// Wakes the keeper thread: something to prepare, to checkpoint, or to stop.
#[derive(Default)]
pub(crate) struct KeeperSignal {
    asked: Mutex<bool>,
    wake: Condvar,
    /// Room is to be made; set by the writer, cleared by the keeper, so that one request is made and not thousands.
    prepare: AtomicBool,
    /// The keeper has nothing to write and sleeps without a deadline.
    idle: AtomicBool,
}

impl KeeperSignal {
    pub(crate) fn ask(&self) {
        *self.asked.lock() = true;
        self.wake.notify_one();
    }

    #[inline]
    fn ask_for_room(&self) {
        if !self.prepare.load(Ordering::Relaxed) && !self.prepare.swap(true, Ordering::SeqCst) {
            self.ask();
        }
    }

    pub(crate) fn room_made(&self) {
        self.prepare.store(false, Ordering::SeqCst);
    }

    /// Says that the keeper is about to look whether there is something to write, and may then sleep.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
    }

    /// There is something new to write.
    fn changed(&self) {
        if self.idle.swap(false, Ordering::SeqCst) {
            self.ask();
        }
    }

    /// Waits until asked, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let mut asked = self.asked.lock();
        while !*asked {
            match deadline {
                None => self.wake.wait(&mut asked),
                Some(at) => {
                    if self.wake.wait_until(&mut asked, at).timed_out() {
                        break;
                    }
                }
            }
        }
        *asked = false;
    }
}

impl Shared {
    pub(crate) fn new(config: LogConfig, core: Core, store: Store, vote_file: VoteFile) -> Shared {
        let index = core.log().committed;
        let committed = Arc::new(Committed::new(index, pos_after(&store, index)));
        let change = RoleChange {
            role: core.role(),
            term: core.term(),
            leader: None,
        };
        let synced = store.flusher().synced();
        let inner = Inner {
            core,
            store,
            pending: Pending::default(),
            vote_file,
            effects: Effects::new(),
            flusher_sleeps: false,
            dirty_since: None,
            stopped: false,
            closed: false,
        };
        Shared {
            config,
            committed,
            inner: Mutex::new(inner),
            flushed_index: AtomicI64::new(synced.end_index),
            flushed_pos: AtomicI64::new(synced.end_pos),
            dirty: Condvar::new(),
            keeper: KeeperSignal::default(),
            wake: Notify::new(),
            stopping: AtomicBool::new(false),
            poison: OnceLock::new(),
            ended: Notify::new(),
            role: watch::Sender::new(change),
            origin: Instant::now(),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn now(&self) -> Millis {
        Millis::try_from(self.origin.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// Steps the core and carries out what follows. Blocks on the disk when a term or vote has to be persisted.
    #[inline]
    pub(crate) fn step(&self, inner: &mut Inner, input: Input) {
        inner.core.step(input, &mut inner.effects);
        if !inner.effects.is_empty() {
            self.carry_out(inner);
        }
    }

    /// Entries up to `index` were appended by the leader.
    #[inline]
    pub(crate) fn appended(&self, inner: &mut Inner, index: i64) {
        self.step(inner, Input::Appended { index });
        inner.wake_helpers(self);
    }

    /// The log is durable this far.
    pub(crate) fn synced(&self, synced: Synced) {
        self.flushed_pos.store(synced.end_pos, Ordering::Release);
        self.flushed_index.store(synced.end_index, Ordering::SeqCst);
        {
            let mut inner = self.lock();
            self.step(
                &mut inner,
                Input::Synced {
                    index: synced.end_index,
                },
            );
        }
        self.keeper.changed();
    }

    pub(crate) fn flushed_index(&self) -> i64 {
        self.flushed_index.load(Ordering::SeqCst)
    }

    pub(crate) fn flushed_pos(&self) -> i64 {
        self.flushed_pos.load(Ordering::Acquire)
    }

    /// The highest index that the checkpoint may name: committed, and synced.
    pub(crate) fn vouched_index(&self) -> i64 {
        self.committed.index().min(self.flushed_index())
    }

    fn carry_out(&self, inner: &mut Inner) {
        let mut effects = std::mem::take(&mut inner.effects);
        for effect in effects.drain() {
            match effect {
                Effect::Commit { index } => self.commit(inner, index),
                Effect::Role { role, term, leader } => self.role_changed(inner, role, term, leader),
                Effect::Persist(hard) => {
                    if let Err(error) = self.persist(inner, hard) {
                        // Nothing that depends on it may happen.
                        self.poison_locked(
                            inner,
                            format!("term and vote cannot be written: {error}"),
                        );
                        break;
                    }
                }
                // Refused by `Log::open`: a group of one has nobody to talk to, and nothing to commit by a no-op.
                Effect::Send { .. } | Effect::Reply { .. } | Effect::AppendNoOp { .. } => {
                    unreachable!("a group of one has no peers");
                }
            }
        }
        // What poisoning added meanwhile was carried out there; keep the buffer for its capacity.
        inner.effects = effects;
    }

    #[inline]
    fn commit(&self, inner: &mut Inner, index: i64) {
        let pos = pos_after(&inner.store, index);
        self.committed.advance(index, pos);
        inner.pending.committed(index);
    }

    fn persist(&self, inner: &mut Inner, hard: HardState) -> std::io::Result<()> {
        let vote = hard.vote.map(|peer| self.member(peer).as_str().to_owned());
        inner.vote_file.save(hard.term, vote.as_deref())
    }

    fn role_changed(&self, inner: &mut Inner, role: RoleKind, term: i64, leader: Option<Peer>) {
        let leads = role == RoleKind::Leader;
        self.committed.set_lead_term(if leads { term } else { -1 });
        if !leads {
            inner.pending.fail(self.lost_lead());
        }
        let leader = leader.map(|peer| self.member(peer).clone());
        tracing::info!(group = %self.config.group, member = %self.config.self_id, ?role, term, "role");
        self.role.send_replace(RoleChange { role, term, leader });
    }

    fn lost_lead(&self) -> CommitError {
        match self.poison.get() {
            Some(reason) => CommitError::Poisoned(Arc::clone(reason)),
            None => CommitError::TermChanged,
        }
    }

    /// The member that the core calls by its number.
    pub(crate) fn member(&self, peer: Peer) -> &MemberId {
        &self.config.peers.members()[usize::from(peer.0)].id
    }

    /// The log can no longer keep what it is given: nothing is acknowledged from here on, and the lead is given up.
    pub(crate) fn poison(&self, reason: String) {
        let mut inner = self.lock();
        self.poison_locked(&mut inner, reason);
    }

    fn poison_locked(&self, inner: &mut Inner, reason: String) {
        if self.poison.set(Arc::from(reason.as_str())).is_err() {
            return;
        }
        tracing::error!(group = %self.config.group, "the log is poisoned and acknowledges nothing any more: {reason}");
        self.committed.set_lead_term(-1);
        self.step(inner, Input::Poisoned);
        inner.pending.fail(self.lost_lead());
        self.committed.close();
        self.ended.notify_waiters();
        self.wake_all();
    }

    fn fail_stop(&self) {
        let _ = self
            .poison
            .set(Arc::from("a thread failed while it worked on the log"));
        self.committed.set_lead_term(-1);
        self.committed.close();
        self.ended.notify_waiters();
        self.wake_all();
    }

    /// Lets the driver's task and both threads look again whether the log goes on.
    fn wake_all(&self) {
        self.dirty.notify_all();
        self.keeper.ask();
        self.wake.notify_one();
    }

    #[inline]
    pub(crate) fn poison_reason(&self) -> Option<Arc<str>> {
        self.poison.get().cloned()
    }

    /// Completes when the log is poisoned, with the reason, or with `None` when it is stopped.
    pub(crate) async fn until_ended(&self) -> Option<Arc<str>> {
        loop {
            let notified = self.ended.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if let Some(reason) = self.poison_reason() {
                return Some(reason);
            }
            if self.is_stopping() {
                return None;
            }
            notified.await;
        }
    }

    pub(crate) fn watch_role(&self) -> watch::Receiver<RoleChange> {
        self.role.subscribe()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends the driver's task and tells the threads to finish: the flusher syncs once more, the keeper writes the
    /// checkpoint. Appends are refused from here on.
    pub(crate) fn stop(&self) {
        let mut inner = self.lock();
        inner.stopped = true;
        inner.pending.fail(CommitError::Stopped);
        // Under the lock, since the flusher looks at it under the lock before it sleeps.
        self.stopping.store(true, Ordering::SeqCst);
        drop(inner);
        self.committed.close();
        self.ended.notify_waiters();
        self.wake_all();
    }
}

/// The position behind an entry; the log's begin for −1.
#[inline]
fn pos_after(store: &Store, index: i64) -> i64 {
    if index == store.end_index() && index >= 0 {
        return store.end_pos();
    }
    store
        .unit(index)
        .map_or(store.first_pos(), |at| at.end_pos())
}

/// Poisons the log when a thread dies while it works on it: a broken invariant must not go on.
pub(crate) struct FailStop<'a>(pub(crate) &'a Shared);

impl Drop for FailStop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The lock may be held by this very thread, and the core may be what failed: only flags are touched.
            self.0.fail_stop();
        }
    }
}

/// Brings time to the core. Without a deadline (a leader of a group of one) it sleeps until something changes.
pub(crate) async fn run(shared: Arc<Shared>) {
    while !shared.is_stopping() && shared.poison_reason().is_none() {
        let deadline = shared.lock().core.next_deadline();
        let now = shared.now();
        match deadline {
            Some(at) if at <= now => {
                // Persisting a term or a vote waits for the disk, which must not hold up a worker of the runtime.
                let stepping = Arc::clone(&shared);
                let step = move || {
                    let mut inner = stepping.lock();
                    let _fail_stop = FailStop(&stepping);
                    stepping.step(&mut inner, Input::Time(now));
                };
                if tokio::task::spawn_blocking(step).await.is_err() {
                    break;
                }
            }
            Some(at) => {
                let pause = std::time::Duration::from_millis((at - now).unsigned_abs());
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = shared.wake.notified() => {}
                }
            }
            None => shared.wake.notified().await,
        }
    }
}

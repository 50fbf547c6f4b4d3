//! From the committed log to queues and index.
//!
//! The dispatcher follows the commit: it is woken, reads what was committed since, writes the units of each queue
//! together, then the keys, and then tells who waits for messages. It never leaves a message out: if a write
//! fails (a full disk), it tries the same part again.
//!
//! From time to time queues and index are synced and a mark is written that says up to where. After a crash,
//! everything behind the mark is cut off and made again from the log, which gives the same bytes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info};

use crate::batch::{Arrival, Batch};
use crate::delay_levels::DelayLevels;
use crate::error::Error;
use crate::index::KeyIndex;
use crate::log::{CommitWatch, Frames, LogFrame, MessageLog};
use crate::marks::{CoveredRecord, Mark, MarkFile, MarkState};
use crate::queues::ConsumeQueues;
use crate::recovery::{self, Recovered, StartState};

/// Told about messages that can now be read.
pub trait Arrivals: Send + Sync {
    /// Called once a batch, in the order of the log, after the units are written. Must not block.
    fn arrived(&self, batch: &[Arrival<'_>]);
}

/// Nobody waits.
impl Arrivals for () {
    fn arrived(&self, _batch: &[Arrival<'_>]) {}
}

/// Settings of [`Dispatcher`].
#[derive(Debug, Clone)]
pub struct DispatcherConfig {
    /// Delay levels (`messageDelayLevel`): the tags code of waiting messages is their time.
    pub levels: DelayLevels,
    /// Records of a batch at most, while following the commit.
    pub batch_frames: usize,
    /// Bytes of records of a batch at most.
    pub batch_bytes: usize,
    /// Bytes behind from which on the work is done on a thread of its own, since it may read from disk.
    pub far_behind_bytes: i64,
    /// Pause before a failed write is tried again.
    pub retry_after: Duration,
    /// Bytes of the log after which a mark is written while catching up.
    pub mark_every_bytes: i64,
}

impl Default for DispatcherConfig {
    fn default() -> Self {
        DispatcherConfig {
            levels: DelayLevels::default(),
            batch_frames: 4096,
            batch_bytes: 4 << 20,
            far_behind_bytes: 16 << 20,
            retry_after: Duration::from_secs(1),
            mark_every_bytes: 512 << 20,
        }
    }
}

/// What is durable, for the store's checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Physical position up to which everything is in synced queues and in the synced index.
    pub position: i64,
    /// Latest store time of the messages in front of it (ms): `physicMsgTimestamp` and `logicsMsgTimestamp`
    /// may not be later.
    pub store_timestamp: i64,
    /// End time of the last full index file: `indexMsgTimestamp`.
    pub index_timestamp: i64,
}

/// How far catching up has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Where it began.
    pub from: i64,
    /// Where it is.
    pub position: i64,
    /// Where the log ends at present.
    pub end: i64,
}

/// What catching up did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CatchUp {
    /// Records read.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Time it took.
    pub elapsed: Duration,
}

/// Fills queues and index from the log. Cheap to clone.
#[derive(Debug)]
pub struct Dispatcher<L: MessageLog> {
    shared: Arc<Shared<L>>,
}

impl<L: MessageLog> Clone for Dispatcher<L> {
    fn clone(&self) -> Self {
        Dispatcher {
            shared: self.shared.clone(),
        }
    }
}

struct Shared<L: MessageLog> {
    log: Arc<L>,
    queues: Arc<ConsumeQueues>,
    index: Option<Arc<KeyIndex>>,
    marks: MarkFile,
    config: DispatcherConfig,
    listener: Arc<dyn Arrivals>,
    state: Mutex<State<L>>,
    /// One checkpoint at a time; the last mark written.
    last_mark: Mutex<Option<Mark>>,
    position: AtomicI64,
}

impl<L: MessageLog> std::fmt::Debug for Shared<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

struct State<L: MessageLog> {
    /// Reader at `position`; none after an error.
    frames: Option<L::Frames>,
    position: i64,
    /// The last record in front of `position`, to name in the mark.
    last: Option<LogFrame>,
    /// As [`Mark::record`], until a record was read.
    witness: Option<CoveredRecord>,
    /// Latest store time so far.
    store_timestamp: i64,
    batch: Batch,
    /// Number of queues that hold something and sum of their maximum offsets; none if it must be counted.
    inventory: Option<(i64, i64)>,
    /// Where to begin reading again for messages that were missing.
    hole_behind: Option<i64>,
    mark_state: MarkState,
}

/// What a step did.
#[derive(Debug, Clone, Copy)]
struct Step {
    records: usize,
    bytes: usize,
    /// The end of what is committed was reached.
    at_end: bool,
}

/// The records of a batch.
#[derive(Debug, Default)]
struct Filled {
    last: Option<LogFrame>,
    /// Their latest store time.
    store_timestamp: i64,
}

impl<L: MessageLog> Dispatcher<L> {
    /// Brings queues and index back to a state that is known to be right, and continues from there. Call it when
    /// the log has been opened, before anything is read from the queues.
    pub fn open(
        log: Arc<L>,
        queues: Arc<ConsumeQueues>,
        index: Option<Arc<KeyIndex>>,
        marks: MarkFile,
        start: &StartState<'_>,
        config: DispatcherConfig,
        listener: Arc<dyn Arrivals>,
    ) -> Result<(Dispatcher<L>, Recovered), Error> {
        let parts = recovery::Parts {
            log: &*log,
            queues: &queues,
            index: index.as_deref(),
            marks: &marks,
        };
        let (recovered, mark) = recovery::recover(&parts, start)?;
        queues.correct_min_offsets(log.min_offset())?;
        info!(position = recovered.position, reason = %recovered.reason, "dispatch resumes");
        let state = State {
            frames: None,
            position: recovered.position,
            last: None,
            witness: mark.as_ref().map(|mark| mark.record),
            store_timestamp: mark.as_ref().map_or(0, |mark| mark.store_timestamp),
            batch: Batch::default(),
            inventory: None,
            hole_behind: None,
            mark_state: MarkState::CatchingUp,
        };
        let shared = Shared {
            position: AtomicI64::new(recovered.position),
            log,
            queues,
            index,
            marks,
            config,
            listener,
            state: Mutex::new(state),
            last_mark: Mutex::new(mark),
        };
        let dispatcher = Dispatcher {
            shared: Arc::new(shared),
        };
        Ok((dispatcher, recovered))
    }

    /// Dispatches everything that is committed, without telling anybody. Blocking. `progress` is called now and
    /// then and may stop the work, which the next start continues where a mark was last written.
    pub fn catch_up(
        &self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<CatchUp, Error> {
        let mut done = self.shared.run_to_end(progress)?;
        let hole = self.shared.state.lock().hole_behind.take();
        if let Some(behind) = hole {
            // The messages may be in the log in front of where the work began. If not, the filler stays.
            let from = behind.max(self.shared.log.min_offset());
            info!(
                from,
                "reading again for messages that were missing in a queue"
            );
            self.shared.go_back(from)?;
            let again = self.shared.run_to_end(progress)?;
            self.shared.state.lock().hole_behind = None;
            done.records += again.records;
            done.bytes += again.bytes;
            done.elapsed += again.elapsed;
        }
        self.shared.state.lock().mark_state = MarkState::Running;
        self.checkpoint()?;
        Ok(done)
    }

    /// Follows the commit until `stop` completes, then dispatches what is still committed.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut committed = self.shared.log.watch_committed();
        let mut stop = std::pin::pin!(stop);
        let mut stopping = false;
        loop {
            committed.mark_seen();
            let failed = match self.step().await {
                Ok(step) if !step.at_end => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(_) => false,
                Err(error) => {
                    error!(%error, position = self.position(), "dispatch failed; trying again");
                    true
                }
            };
            if stopping {
                return;
            }
            let retry = async {
                if failed {
                    tokio::time::sleep(self.shared.config.retry_after).await;
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => stopping = true,
                more = committed.moved(), if !failed => stopping = !more,
                () = retry => {}
            }
        }
    }

    /// Makes queues and index durable and writes a mark. Blocking: syncs. Does nothing if nothing was dispatched
    /// since the last one.
    pub fn checkpoint(&self) -> Result<Checkpoint, Error> {
        self.shared.checkpoint(false)
    }

    /// Dispatches the rest, syncs, and writes the mark of a clean stop. Blocking. Nothing may be dispatched after
    /// it.
    pub fn close(&self) -> Result<Checkpoint, Error> {
        self.drain()?;
        self.shared.state.lock().mark_state = MarkState::Clean;
        self.shared.checkpoint(true)
    }

    /// Dispatches everything that is committed now.
    pub(crate) fn drain(&self) -> Result<(), Error> {
        let frames = self.shared.config.batch_frames;
        while !self.shared.step(true, frames)?.at_end {}
        Ok(())
    }

    /// Deletes the queues of a topic; a later start does not bring them back. Blocking: syncs.
    pub fn remove_topic(&self, topic: &str) -> Result<bool, Error> {
        let removed = {
            let mut state = self.shared.state.lock();
            state.inventory = None;
            self.shared.queues.remove_topic(topic)?
        };
        if removed {
            self.shared.checkpoint(true)?;
        }
        Ok(removed)
    }

    /// Physical position up to which everything was dispatched.
    pub fn position(&self) -> i64 {
        self.shared.position.load(Ordering::Acquire)
    }

    /// Committed bytes that are not yet dispatched.
    pub fn behind_bytes(&self) -> i64 {
        (self.shared.log.committed_end() - self.position()).max(0)
    }

    async fn step(&self) -> Result<Step, Error> {
        let frames = self.shared.config.batch_frames;
        if self.behind_bytes() <= self.shared.config.far_behind_bytes {
            return self.shared.step(true, frames);
        }
        let shared = self.shared.clone();
        tokio::task::spawn_blocking(move || shared.step(true, frames))
            .await
            .unwrap_or(Err(Error::Stopped))
    }
}

impl<L: MessageLog> Shared<L> {
    /// Reads and dispatches one batch.
    fn step(&self, announce: bool, max_frames: usize) -> Result<Step, Error> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let result = self
            .fill(state, announce, max_frames)
            .and_then(|(step, filled)| {
                self.write(state)?;
                if let Some(last) = filled.last {
                    state.position = last.physical_end();
                    state.last = Some(last);
                }
                state.store_timestamp = state.store_timestamp.max(filled.store_timestamp);
                self.position.store(state.position, Ordering::Release);
                Ok(step)
            });
        if result.is_ok() && announce {
            state.batch.announce(&|batch| self.listener.arrived(batch));
        }
        if result.is_err() {
            // What was written stays and is found equal when it is read again.
            state.frames = None;
            state.inventory = None;
        }
        state.batch.clear();
        result
    }

    /// Reads records into the batch.
    fn fill(
        &self,
        state: &mut State<L>,
        announce: bool,
        max_frames: usize,
    ) -> Result<(Step, Filled), Error> {
        let begin = self.log.min_offset();
        if state.position < begin {
            info!(
                from = state.position,
                to = begin,
                "the log begins behind the dispatch position; moving up"
            );
            state.position = begin;
            state.frames = None;
            state.last = None;
        }
        let mut frames = match state.frames.take() {
            Some(frames) => frames,
            None => self.log.frames(state.position),
        };
        let mut step = Step {
            records: 0,
            bytes: 0,
            at_end: false,
        };
        let mut filled = Filled::default();
        while step.records < max_frames && step.bytes < self.config.batch_bytes {
            let frame = match frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    step.at_end = true;
                    break;
                }
                // What is in front of the damage is dispatched; the next step meets it again.
                Err(_) if step.records > 0 => return Ok((step, filled)),
                Err(error) => return Err(error),
            };
            let timestamp = state.batch.push(
                frame.clone(),
                &self.queues,
                &self.config.levels,
                self.index.is_some(),
                announce,
            )?;
            step.records += 1;
            step.bytes += frame.bytes.len();
            filled.store_timestamp = filled.store_timestamp.max(timestamp);
            filled.last = Some(frame);
        }
        state.frames = Some(frames);
        Ok((step, filled))
    }

    fn write(&self, state: &mut State<L>) -> Result<(), Error> {
        let written = state.batch.write_queues(&self.queues)?;
        if let Some(behind) = written.hole_behind {
            state.hole_behind = Some(state.hole_behind.map_or(behind, |old| old.min(behind)));
        }
        if let Some((queues, sum)) = &mut state.inventory {
            *queues += written.grown.0;
            *sum += written.grown.1;
        }
        match &self.index {
            Some(index) if !state.batch.keys().is_empty() => index.append(state.batch.keys()),
            _ => Ok(()),
        }
    }

    fn run_to_end(
        &self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<CatchUp, Error> {
        let began = Instant::now();
        let from = self.position.load(Ordering::Acquire);
        let mut marked = from;
        let mut done = CatchUp::default();
        loop {
            // Large batches: nobody waits, and many units of a queue go into one write.
            let step = self.step(false, usize::MAX)?;
            done.records += step.records as u64;
            done.bytes += step.bytes as u64;
            let position = self.position.load(Ordering::Acquire);
            let end = self.log.committed_end();
            if progress(Progress {
                from,
                position,
                end,
            })
            .is_break()
            {
                self.checkpoint(false)?;
                return Err(Error::Stopped);
            }
            if step.at_end {
                done.elapsed = began.elapsed();
                return Ok(done);
            }
            if position - marked >= self.config.mark_every_bytes {
                self.checkpoint(false)?;
                marked = position;
            }
        }
    }

    /// Cuts queues and index back to a position of the log and continues from there.
    fn go_back(&self, position: i64) -> Result<(), Error> {
        let mut state = self.state.lock();
        self.marks.remove()?;
        *self.last_mark.lock() = None;
        recovery::cut(&*self.log, &self.queues, self.index.as_deref(), position)?;
        state.frames = None;
        state.position = position;
        state.last = None;
        state.witness = recovery::witness_at(&*self.log, position)?;
        state.inventory = None;
        self.position.store(position, Ordering::Release);
        Ok(())
    }

    fn checkpoint(&self, always: bool) -> Result<Checkpoint, Error> {
        let mut last_mark = self.last_mark.lock();
        let mark = self.next_mark();
        let index_timestamp = || {
            self.index
                .as_ref()
                .map_or(0, |index| index.full_timestamp())
        };
        let Some(mark) = mark.filter(|mark| always || last_mark.as_ref() != Some(mark)) else {
            let state = self.state.lock();
            return Ok(Checkpoint {
                position: last_mark
                    .as_ref()
                    .map_or(state.position, |mark| mark.position),
                store_timestamp: last_mark.as_ref().map_or(0, |mark| mark.store_timestamp),
                index_timestamp: index_timestamp(),
            });
        };
        self.queues.sync()?;
        if let Some(index) = &self.index {
            index.flush(true)?;
        }
        self.marks.save(&mark)?;
        let checkpoint = Checkpoint {
            position: mark.position,
            store_timestamp: mark.store_timestamp,
            index_timestamp: index_timestamp(),
        };
        *last_mark = Some(mark);
        Ok(checkpoint)
    }

    /// The mark for the state between two batches; none as long as the log has no record.
    fn next_mark(&self) -> Option<Mark> {
        let mut state = self.state.lock();
        let record = match &state.last {
            Some(last) => CoveredRecord::of(last),
            None => state.witness?,
        };
        let inventory = *state
            .inventory
            .get_or_insert_with(|| recovery::inventory(&self.queues));
        Some(Mark {
            position: state.position,
            record,
            store_timestamp: state.store_timestamp,
            state: state.mark_state,
            index: self.index.as_ref().and_then(|index| index.anchor()),
            queues: inventory,
            hole_behind: state.hole_behind,
        })
    }
}

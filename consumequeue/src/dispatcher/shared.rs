//! What all handles of a dispatcher share: reading a batch, writing it, marks.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tracing::{error, info};

use super::{Arrivals, CatchUp, Checkpoint, DispatcherConfig, Progress};
use crate::batch::Batch;
use crate::error::Error;
use crate::index::KeyIndex;
use crate::log::{Frames, LogFrame, MessageLog};
use crate::marks::{CoveredRecord, IndexMark, Mark, MarkFile, MarkState};
use crate::queues::ConsumeQueues;
use crate::recovery;

/// What a dispatcher works with.
pub(super) struct Parts<L> {
    pub log: Arc<L>,
    pub queues: Arc<ConsumeQueues>,
    pub index: Option<Arc<KeyIndex>>,
    pub marks: MarkFile,
    pub config: DispatcherConfig,
    pub listener: Arc<dyn Arrivals>,
}

pub(super) struct Shared<L: MessageLog> {
    pub log: Arc<L>,
    pub config: DispatcherConfig,
    queues: Arc<ConsumeQueues>,
    index: Option<Arc<KeyIndex>>,
    marks: MarkFile,
    listener: Arc<dyn Arrivals>,
    state: Mutex<State<L>>,
    /// One checkpoint at a time; the last mark written.
    last_mark: Mutex<Option<Mark>>,
    position: AtomicI64,
    /// An end of the committed log that was reached in reading.
    passed: AtomicI64,
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
pub(super) struct Step {
    records: usize,
    bytes: usize,
    /// The end of what is committed was reached.
    pub at_end: bool,
}

/// The records of a batch.
#[derive(Debug, Default)]
struct Filled {
    last: Option<LogFrame>,
    /// Their latest store time.
    store_timestamp: i64,
}

impl<L: MessageLog> Shared<L> {
    pub fn new(parts: Parts<L>, position: i64, mark: Option<Mark>) -> Shared<L> {
        let state = State {
            frames: None,
            position,
            last: None,
            witness: mark.as_ref().map(|mark| mark.record),
            store_timestamp: mark.as_ref().map_or(0, |mark| mark.store_timestamp),
            batch: Batch::default(),
            inventory: None,
            hole_behind: None,
            mark_state: MarkState::CatchingUp,
        };
        Shared {
            log: parts.log,
            config: parts.config,
            queues: parts.queues,
            index: parts.index,
            marks: parts.marks,
            listener: parts.listener,
            state: Mutex::new(state),
            last_mark: Mutex::new(mark),
            position: AtomicI64::new(position),
            passed: AtomicI64::new(position),
        }
    }

    /// Committed bytes that are not yet dispatched; filler at the end of a file is nothing to dispatch.
    pub fn behind_bytes(&self) -> i64 {
        let passed = self.passed.load(Ordering::Acquire).max(self.position());
        (self.log.committed_end() - passed).max(0)
    }

    pub fn position(&self) -> i64 {
        self.position.load(Ordering::Acquire)
    }

    /// Where to read again for messages that were missing; forgets it.
    pub fn take_hole(&self) -> Option<i64> {
        self.state.lock().hole_behind.take()
    }

    pub fn set_mark_state(&self, mark_state: MarkState) {
        self.state.lock().mark_state = mark_state;
    }

    /// Deletes the queues of a topic between two batches.
    pub fn remove_topic(&self, topic: &str) -> Result<bool, Error> {
        let mut state = self.state.lock();
        state.inventory = None;
        self.queues.remove_topic(topic)
    }

    /// Reads and dispatches one batch.
    pub fn step(&self, announce: bool, max_frames: usize) -> Result<Step, Error> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let committed = self.log.committed_end();
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
                if step.at_end {
                    self.passed.store(committed, Ordering::Release);
                }
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
                // At the start a damaged message does not keep the others from being found.
                Err(error @ Error::Log { .. }) if !announce => match frames.skip_damage() {
                    Some(to) => {
                        error!(%error, to, "a damaged part of the log is left out of queues and index");
                        continue;
                    }
                    None => return Err(error),
                },
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

    pub fn run_to_end(
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
    pub fn go_back(&self, position: i64) -> Result<(), Error> {
        let mut state = self.state.lock();
        recovery::begin_cut(&self.marks, position)?;
        *self.last_mark.lock() = None;
        recovery::cut(&*self.log, &self.queues, self.index.as_deref(), position)?;
        state.frames = None;
        state.position = position;
        state.last = None;
        state.witness = recovery::witness_at(&*self.log, position)?;
        state.inventory = None;
        self.position.store(position, Ordering::Release);
        self.passed.store(position, Ordering::Release);
        Ok(())
    }

    pub fn checkpoint(&self, always: bool) -> Result<Checkpoint, Error> {
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
            index: IndexMark::of(self.index.as_deref()),
            queues: inventory,
            hole_behind: state.hole_behind,
        })
    }
}

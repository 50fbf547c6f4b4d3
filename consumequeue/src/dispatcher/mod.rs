//! From the committed log to queues and index.
//!
//! The dispatcher follows the commit: it is woken, reads what was committed since, writes the units of each queue
//! together, then the keys, and then tells who waits for messages. It never leaves a message out: if a write
//! fails (a full disk), it tries the same part again.
//!
//! From time to time queues and index are synced and a mark is written that says up to where. After a crash,
//! everything behind the mark is cut off and made again from the log, which gives the same bytes.

mod shared;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info};

use crate::batch::Arrival;
use crate::delay_levels::DelayLevels;
use crate::error::Error;
use crate::index::KeyIndex;
use crate::log::{CommitWatch, MessageLog};
use crate::marks::{MarkFile, MarkState};
use crate::queues::ConsumeQueues;
use crate::recovery::{self, Recovered, StartState};
use shared::{Parts, Shared, Step};

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
        let parts = Parts {
            log,
            queues,
            index,
            marks,
            config,
            listener,
        };
        let shared = Shared::new(parts, recovered.position, mark);
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
        if let Some(behind) = self.shared.take_hole() {
            // The messages may be in the log in front of where the work began. If not, the filler stays.
            let from = behind.max(self.shared.log.min_offset());
            info!(
                from,
                "reading again for messages that were missing in a queue"
            );
            self.shared.go_back(from)?;
            let again = self.shared.run_to_end(progress)?;
            self.shared.take_hole();
            done.records += again.records;
            done.bytes += again.bytes;
            done.elapsed += again.elapsed;
        }
        self.shared.set_mark_state(MarkState::Running);
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
                    // Others get their turn, and so does the wish to stop.
                    tokio::select! {
                        biased;
                        () = &mut stop, if !stopping => stopping = true,
                        () = tokio::task::yield_now() => {}
                    }
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
                () = &mut stop, if !stopping => stopping = true,
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
        self.shared.set_mark_state(MarkState::Clean);
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
        let removed = self.shared.remove_topic(topic)?;
        if removed {
            self.shared.checkpoint(true)?;
        }
        Ok(removed)
    }

    /// Physical position up to which everything was dispatched.
    pub fn position(&self) -> i64 {
        self.shared.position()
    }

    /// Committed bytes that are not yet dispatched.
    pub fn behind_bytes(&self) -> i64 {
        self.shared.behind_bytes()
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

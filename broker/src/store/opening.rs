//! Opening a store: lock, examine, recover, upgrade, lead, rebuild what is derived.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::{Duration, Instant};

use commitlog::examine::{Examination, ExamineConfig, Severity, examine};
use commitlog::layout::{LockError, StoreCheckpoint, StoreLayout, StoreLock};
use commitlog::upgrade::Plan;
use commitlog::{CommitLogConfig, DLedgerCommitLog, OpenReport, QueueOffsets, RetentionClock};
use consumequeue::recovery::{CheckpointTimes, StartState};
use consumequeue::{
    Arrivals, ConsumeQueues, DelayLevels, Dispatcher, DispatcherConfig, IndexConfig, KeyIndex,
    MarkFile, QueuesConfig, offset_table,
};
use dledger::fs::Fs;
use dledger::peers::{MemberId, Peers, PeersError};
use dledger::store::{ShortLog, StoreConfig};
use dledger::{Durability, LogConfig};
use parking_lot::Mutex;

use super::MessageStore;
use crate::config::{BrokerConfig, FlushDiskType};
use crate::tables::{TopicTable, now_ms};

/// Our own file with the place where dispatch resumes.
const DISPATCH_MARK: &str = "dispatch";

/// Descriptors that queues may keep open.
const OPEN_FILES_MAX: usize = 1024;

/// Why a store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// Another broker has it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The configuration and the store do not go together.
    #[error("{0}")]
    Config(String),
    /// The log does not open.
    #[error(transparent)]
    Log(#[from] commitlog::OpenError),
    /// The log does not lead.
    #[error("the log did not start: {0}")]
    Start(#[from] dledger::StartError),
    /// Queues or index do not open.
    #[error(transparent)]
    Derived(#[from] consumequeue::Error),
    /// A file.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// How far a long part of opening is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// What is being done.
    pub what: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes to do.
    pub total: u64,
}

/// Told how far opening is.
pub type OnStage = Arc<dyn Fn(Stage) + Send + Sync>;

/// A store that was locked and examined; nothing was changed.
#[derive(Debug)]
pub struct Opened {
    fs: Arc<dyn Fs>,
    config: CommitLogConfig,
    exam: Examination,
    lock: StoreLock,
}

/// The places of the store that a configuration names.
pub fn layout(config: &BrokerConfig) -> StoreLayout {
    let data = Some(config.store_path_dledger_commit_log.as_str()).filter(|path| !path.is_empty());
    StoreLayout::new(config.root())
        .with_commitlog(&config.commit_log_path().to_string_lossy(), None, "")
        .with_dledger_data(data.map(PathBuf::from))
}

fn commit_log_config(
    config: &BrokerConfig,
    layout: StoreLayout,
) -> Result<CommitLogConfig, OpeningError> {
    let wrong = |error: PeersError| OpeningError::Config(error.to_string());
    let self_id = MemberId::parse(&config.dleger_self_id).map_err(wrong)?;
    let peers = Peers::parse(&config.dleger_peers).map_err(wrong)?;
    let mut store = StoreConfig::new(
        layout.dledger(self_id.as_str()),
        config.mapped_file_size_commit_log as u64,
    );
    store.data_dir = layout.dledger_data_override().map(PathBuf::from);
    let mut log = LogConfig::new(config.dleger_group.as_str(), self_id, peers, store);
    log.durability = match config.flush_disk_type {
        FlushDiskType::Async => Durability::PageCacheMajority,
        FlushDiskType::Sync => Durability::SyncMajority,
    };
    let mut wanted = CommitLogConfig::new(layout, log);
    wanted.max_message_size = config.max_message_size.max(0) as usize;
    let index = index_config(config, &wanted.examine.layout);
    wanted.examine = ExamineConfig {
        queue_file_size: Some(config.consume_queue_file_size()),
        index_file_size: Some(
            40 + u64::from(index.hash_slots) * 4 + u64::from(index.max_items) * 20,
        ),
        max_message_size: Some(wanted.max_message_size),
        reserved_ms: Some(i64::from(config.file_reserved_time) * 3_600_000),
        now_ms: Some(now_ms()),
        check_system: true,
        accepted: config.accepted_findings(),
        ..wanted.examine
    };
    Ok(wanted)
}

fn index_config(config: &BrokerConfig, layout: &StoreLayout) -> IndexConfig {
    let mut index = IndexConfig::new(layout.index());
    index.hash_slots = config.max_hash_slot_num as u32;
    index.max_items = config.max_index_num as u32;
    index
}

impl Opened {
    /// Takes the lock and examines the store. Blocks.
    pub fn examine(
        fs: Arc<dyn Fs>,
        config: &BrokerConfig,
        progress: &OnStage,
    ) -> Result<Self, OpeningError> {
        let layout = layout(config);
        fs.create_dir_all(layout.root()).map_err(|error| {
            let root = layout.root().display();
            OpeningError::Config(format!("the store {root} cannot be created: {error}"))
        })?;
        let lock = layout.take_lock()?;
        let config = commit_log_config(config, layout)?;
        let progress = progress.clone();
        let exam = examine(&*fs, &config.examine, &move |p: commitlog::Progress| {
            progress(Stage {
                what: p.what,
                done: p.done,
                total: p.total,
            });
        })
        .map_err(|source| OpeningError::Io {
            what: "examining the store",
            source,
        })?;
        Ok(Opened {
            fs,
            config,
            exam,
            lock,
        })
    }

    /// What to do if the log ends before its own checkpoint; without this it is refused.
    pub fn accept_short_log(&mut self, short_log: ShortLog) {
        self.config.log.store.short_log = short_log;
    }

    /// Has queues and index compared with the log even if this program stopped in order.
    pub fn forget_dispatch_mark(&self) -> Result<(), OpeningError> {
        let layout = &self.config.examine.layout;
        match self.fs.remove_file(&layout.sidecar(DISPATCH_MARK)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(OpeningError::Io {
                what: "removing the dispatch mark",
                source,
            }),
            _ => Ok(()),
        }
    }

    /// What opening will do.
    pub fn plan(&self) -> &Plan {
        &self.exam.plan
    }

    /// What was found, told to the operator. Refusals come as the error of [`Opened::open`].
    pub fn report(&self) {
        match self.plan() {
            Plan::Upgrade(_) => tracing::warn!("the store is {}", self.plan()),
            plan => tracing::info!("the store is {plan}"),
        }
        for finding in &self.exam.findings {
            match finding.severity {
                Severity::Info => tracing::info!("{finding}"),
                Severity::NeedsAcceptance
                    if !self.config.examine.accepted.contains(&finding.code) =>
                {
                    tracing::warn!(
                        "{finding}; to start in spite of it, add {} to the key ledgermqAccept",
                        finding.code
                    );
                }
                _ => tracing::warn!("{finding}"),
            }
        }
        if self.exam.aborted {
            tracing::warn!("the last broker on this store was not stopped cleanly");
        }
    }

    /// Recovers, upgrades, leads, and brings queues and index up to the end of the log.
    pub async fn open(
        self,
        config: &BrokerConfig,
        topics: Arc<TopicTable>,
        listener: Arc<dyn Arrivals>,
        progress: OnStage,
    ) -> Result<MessageStore, OpeningError> {
        let Opened {
            fs,
            config: log_config,
            exam,
            lock,
        } = self;
        let layout = log_config.examine.layout.clone();
        let (log, report) = blocking({
            let fs = fs.clone();
            move || Ok(DLedgerCommitLog::open_examined(fs, &log_config, exam)?)
        })
        .await?;
        log.start().await?;
        let derived = DerivedConfig {
            queues: QueuesConfig {
                file_size: config.consume_queue_file_size(),
                max_open_files: OPEN_FILES_MAX,
                ..QueuesConfig::new(layout.consumequeue())
            },
            index: config
                .message_index_enable
                .then(|| index_config(config, &layout)),
            levels: DelayLevels::parse(&config.message_delay_level)?,
            reserved: Duration::from_secs(config.file_reserved_time.max(0) as u64 * 3600),
        };
        blocking(move || {
            let parts = Parts {
                fs,
                layout,
                log,
                report,
                lock,
            };
            parts.derive(derived, &topics, listener, &progress)
        })
        .await
    }
}

/// How what is derived from the log is opened.
struct DerivedConfig {
    queues: QueuesConfig,
    index: Option<IndexConfig>,
    levels: DelayLevels,
    reserved: Duration,
}

/// What is derived from the log.
type Derived = (
    Arc<ConsumeQueues>,
    Option<Arc<KeyIndex>>,
    Dispatcher<DLedgerCommitLog>,
);

/// A log that leads, on its way to being a store.
struct Parts {
    fs: Arc<dyn Fs>,
    layout: StoreLayout,
    log: DLedgerCommitLog,
    report: OpenReport,
    lock: StoreLock,
}

impl Parts {
    fn derive(
        self,
        config: DerivedConfig,
        topics: &TopicTable,
        listener: Arc<dyn Arrivals>,
        progress: &OnStage,
    ) -> Result<MessageStore, OpeningError> {
        let Parts {
            fs,
            layout,
            log,
            report,
            lock,
        } = self;
        // From here on queues may be cut: a kill must be seen by whoever opens the store next.
        layout
            .create_abort(&*fs)
            .map_err(|source| OpeningError::Io {
                what: "creating the abort file",
                source,
            })?;
        let checkpoint = StoreCheckpoint::load(&*fs, &layout.checkpoint()).map_err(|source| {
            OpeningError::Io {
                what: "reading the store's checkpoint",
                source,
            }
        })?;
        let times = CheckpointTimes {
            log: checkpoint.physic_msg_timestamp(),
            queues: checkpoint.logics_msg_timestamp(),
        };
        let (queues, index, dispatcher) = open_derived(
            &fs, &layout, &log, &report, times, &config, topics, listener,
        )?;
        catch_up(&dispatcher, progress)?;
        let offsets = QueueOffsets::new();
        offset_table::rebuild(&queues, &offsets);
        let newest = Some(checkpoint.logics_msg_timestamp()).filter(|&ms| ms > 0);
        Ok(MessageStore {
            clock: Mutex::new(RetentionClock::new(now_ms(), newest, config.reserved)),
            levels: config.levels,
            checkpoint: Mutex::new(checkpoint),
            checkpointed: AtomicI64::new(-1),
            opened: Instant::now(),
            disk_full: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            _lock: lock,
            fs,
            layout,
            log,
            queues,
            index,
            dispatcher,
            offsets,
        })
    }
}

/// Opens queues and index, and recovers them as far as that needs no new dispatch.
#[allow(clippy::too_many_arguments)] // what one start knows, used once
fn open_derived(
    fs: &Arc<dyn Fs>,
    layout: &StoreLayout,
    log: &DLedgerCommitLog,
    report: &OpenReport,
    checkpoint: CheckpointTimes,
    config: &DerivedConfig,
    topics: &TopicTable,
    listener: Arc<dyn Arrivals>,
) -> Result<Derived, OpeningError> {
    let (queues, queues_report) = ConsumeQueues::open(fs.clone(), &config.queues)?;
    let queues = Arc::new(queues);
    let (index, index_report) = match &config.index {
        Some(index) => {
            let (index, report) = KeyIndex::open(fs.clone(), index)?;
            (Some(Arc::new(index)), report)
        }
        None => (None, Default::default()),
    };
    let start = StartState {
        unclean: report.aborted,
        redispatch_from: report.redispatch_from,
        checkpoint,
        queues: &queues_report,
        index: &index_report,
        topic_exists: &|topic| topics.contains(topic),
    };
    let (dispatcher, recovered) = Dispatcher::open(
        Arc::new(log.clone()),
        queues.clone(),
        index.clone(),
        MarkFile::new(fs.clone(), layout.sidecar(DISPATCH_MARK)),
        &start,
        DispatcherConfig {
            levels: config.levels.clone(),
            ..DispatcherConfig::default()
        },
        listener,
    )?;
    for finding in &recovered.findings {
        tracing::warn!("{finding}");
    }
    Ok((queues, index, dispatcher))
}

fn catch_up(
    dispatcher: &Dispatcher<DLedgerCommitLog>,
    progress: &OnStage,
) -> Result<(), OpeningError> {
    let done = dispatcher.catch_up(&mut |p| {
        let (done, total) = (p.position - p.from, p.end - p.from);
        progress(Stage {
            what: "filling queues and index from the log",
            done: done.max(0) as u64,
            total: total.max(0) as u64,
        });
        ControlFlow::Continue(())
    })?;
    if done.records > 0 {
        tracing::info!(records = done.records, bytes = done.bytes, elapsed = ?done.elapsed, "queues and index are filled");
    }
    Ok(())
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, OpeningError> + Send + 'static,
) -> Result<R, OpeningError> {
    let failed = |error: tokio::task::JoinError| {
        OpeningError::Config(format!("opening the store failed: {error}"))
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

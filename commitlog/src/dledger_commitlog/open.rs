//! Opening: examine, refuse or carry out the plan, open both halves.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use dledger::fs::Fs;
use dledger::recovery::Recovery;
use dledger::{Log, LogConfig};

use super::{DLedgerCommitLog, FrameCheck, Halves, Inner};
use crate::MAX_FRAME;
use crate::blank::BLANK_LEN;
use crate::examine::{self, ENTRY_HEADER, Examination, ExamineConfig, Finding};
use crate::frame::MAX_TOPIC_V1;
use crate::layout::StoreLayout;
use crate::legacy::{LegacyFile, LegacyLog, MARK_FILE, OnProgress, Recovered, SCAN_NOTE_FILE};
use crate::upgrade::{self, Plan};

/// How to open a commitlog.
#[derive(Debug, Clone)]
pub struct CommitLogConfig {
    /// What is examined before anything is changed. `file_size` and `self_id` are taken from `log`.
    pub examine: ExamineConfig,
    /// The DLedger log.
    pub log: LogConfig,
    /// Largest body, bytes.
    pub max_message_size: usize,
    /// Longest topic, bytes. Over 127 the frames are V2, which 4.9 cannot read.
    pub max_topic_len: usize,
}

impl CommitLogConfig {
    /// The log of `log` in the store of `layout`, limits as Java's defaults.
    pub fn new(layout: StoreLayout, log: LogConfig) -> CommitLogConfig {
        let mut examine = ExamineConfig::new(layout);
        examine.file_size = Some(log.store.segment_size);
        examine.self_id = Some(log.self_id.to_string());
        examine.note_scan = true;
        CommitLogConfig {
            examine,
            log,
            max_message_size: 4 * 1024 * 1024,
            max_topic_len: MAX_TOPIC_V1,
        }
    }
}

/// Why a commitlog does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The examination found what must not be ignored. One line each.
    #[error("the store is not opened:{}", lines(.0))]
    Refused(Vec<Finding>),
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The DLedger log does not open.
    #[error(transparent)]
    Log(#[from] dledger::OpenError),
    /// The DLedger log does not begin where the legacy half ends.
    #[error("the legacy commitlog ends at {divide}, but the DLedger log begins at {first}")]
    Divide {
        /// End of the legacy half.
        divide: i64,
        /// Begin of the DLedger log.
        first: i64,
    },
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |mut text, finding| {
        let _ = write!(text, "\n  {finding}");
        text
    })
}

/// What opening did.
#[derive(Debug, Clone)]
pub struct OpenReport {
    /// The plan that was carried out.
    pub plan: Plan,
    /// What recovery of the legacy log found; none for a store that was upgraded before.
    pub recovered: Option<Recovered>,
    /// What recovery of the DLedger log found and mended.
    pub dledger: Recovery,
    /// Whether the last broker was killed.
    pub aborted: bool,
    /// After a kill: dispatch again from here at the latest, since queues may have lost what lies behind. The start
    /// of a file whose first message the store checkpoint vouches for.
    pub redispatch_from: Option<i64>,
    /// All findings of the examination.
    pub findings: Vec<Finding>,
}

impl DLedgerCommitLog {
    /// Examines the store and opens it; see [`open_examined`](Self::open_examined). The caller holds the store lock.
    pub fn open(
        fs: Arc<dyn Fs>,
        config: &CommitLogConfig,
        progress: OnProgress<'_>,
    ) -> Result<(DLedgerCommitLog, OpenReport), OpenError> {
        let exam =
            examine::examine(&*fs, &config.examine, progress).map_err(|source| OpenError::Io {
                what: "examining the store",
                source,
            })?;
        Self::open_examined(fs, config, exam)
    }

    /// Opens a store that was just examined: refuses by the findings, or performs the plan (the upgrade of a plain
    /// store), then opens both halves. May be repeated after a kill at any instant.
    pub fn open_examined(
        fs: Arc<dyn Fs>,
        config: &CommitLogConfig,
        exam: Examination,
    ) -> Result<(DLedgerCommitLog, OpenReport), OpenError> {
        let refusals = exam.refusals(&config.examine.accepted);
        if !refusals.is_empty() {
            return Err(OpenError::Refused(refusals));
        }
        let layout = &config.examine.layout;
        let (files, first_pos) = carry_out(&*fs, &exam, layout)?;
        let legacy = LegacyLog::new(fs.clone(), files, exam.file_size);
        let (log, dledger) = Log::open(
            fs.clone(),
            config.log.clone(),
            Arc::new(FrameCheck),
            first_pos,
        )?;
        let reader = log.reader();
        if let Some(divide) = legacy.end()
            && reader.first_pos() != divide
        {
            return Err(OpenError::Divide {
                divide,
                first: reader.first_pos(),
            });
        }
        let halves = Arc::new(Halves {
            legacy,
            log: log.clone(),
            reader,
        });
        let inner = Inner {
            log,
            halves,
            data_dir: config.log.store.data_dir(),
            commitlog_dirs: layout
                .commitlog_dirs()
                .map(|dir| dir.to_path_buf())
                .collect(),
            mark: layout.sidecar(MARK_FILE),
            legacy_end: exam.recovered.map(|recovered| recovered.end),
            fs,
            max_message_size: AtomicUsize::new(config.max_message_size),
            max_topic_len: config.max_topic_len,
            max_frame: max_frame(config.log.store.segment_size),
        };
        let commitlog = DLedgerCommitLog {
            inner: Arc::new(inner),
        };
        let limit = exam.derived.checkpoint.min_timestamp();
        let redispatch_from = exam.aborted.then(|| commitlog.file_stored_before(limit));
        let report = OpenReport {
            plan: exam.plan,
            recovered: exam.recovered,
            dledger,
            aborted: exam.aborted,
            redispatch_from,
            findings: exam.findings,
        };
        Ok((commitlog, report))
    }
}

/// Carries out the plan: the legacy files that stay, and where the DLedger log begins.
fn carry_out(
    fs: &dyn Fs,
    exam: &Examination,
    layout: &StoreLayout,
) -> Result<(Vec<LegacyFile>, i64), OpenError> {
    let failed = |what| move |source| OpenError::Io { what, source };
    match &exam.plan {
        Plan::New | Plan::Dledger => Ok((Vec::new(), dledger_start(exam))),
        Plan::Mixed { divide } => {
            if let Some(note) = exam.mark_to_note {
                note.save(fs, &layout.sidecar(MARK_FILE))
                    .map_err(failed("noting where the legacy half ends"))?;
            }
            Ok((exam.legacy.files.clone(), *divide))
        }
        Plan::Upgrade(plan) => {
            upgrade::perform(fs, plan).map_err(failed("upgrading the store"))?;
            // The scan that led here is done with.
            let _ = fs.remove_file(&layout.sidecar(SCAN_NOTE_FILE));
            let kept = exam.legacy.files.iter().filter(|f| f.start < plan.divide);
            Ok((kept.cloned().collect(), plan.divide))
        }
    }
}

/// Largest frame: what an entry can hold, and a data file beside the blank at its end.
fn max_frame(file_size: u64) -> usize {
    let room = usize::try_from(file_size).unwrap_or(usize::MAX);
    MAX_FRAME.min(room.saturating_sub(ENTRY_HEADER + BLANK_LEN))
}

/// Where a DLedger log without a legacy half begins: where its first file does, 0 if it is new.
fn dledger_start(exam: &Examination) -> i64 {
    exam.own()
        .and_then(|member| member.data.files.first())
        .map_or(0, |file| file.start)
}

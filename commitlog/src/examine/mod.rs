//! The examination of a store: what it is, where its halves end, what an upgrade would do, and everything that is
//! inconsistent. It reads only, works on any store (plain, upgraded, DLedger, broken), and is made before anything
//! is changed: opening refuses by it, `mqctl store check` prints it.

mod config_checks;
mod derived_facts;
mod dledger_facts;
mod finding;
mod halves;

use std::collections::BTreeSet;
use std::io;

use dledger::fs::Fs;

pub use derived_facts::{DerivedFacts, Furthest};
pub use dledger_facts::{
    DledgerFacts, ENTRY_BLANK, ENTRY_HEADER, ENTRY_MAGIC, Entries, EntryHeader, entry_header,
};
pub use finding::{Code, Finding, Severity, UnknownCode};

use crate::layout::StoreLayout;
use crate::legacy::{LegacyMark, Listing, MARK_FILE, OnProgress, Recovered};
use crate::upgrade::Plan;
use finding::Findings;

/// What to examine, and what the configuration says about it. `None` means "take what the files have".
#[derive(Debug, Clone)]
pub struct ExamineConfig {
    /// Where everything lies.
    pub layout: StoreLayout,
    /// `mappedFileSizeCommitLog`, bytes.
    pub file_size: Option<u64>,
    /// `mappedFileSizeConsumeQueue`, bytes, rounded up to a multiple of 20.
    pub queue_file_size: Option<u64>,
    /// Bytes of a key index file.
    pub index_file_size: Option<u64>,
    /// `dLegerSelfId`.
    pub self_id: Option<String>,
    /// Whether `brokerRole` is SLAVE.
    pub slave: bool,
    /// `maxMessageSize`, bytes.
    pub max_message_size: Option<usize>,
    /// How long files are kept, ms.
    pub reserved_ms: Option<i64>,
    /// The clock, ms; none leaves out what depends on it.
    pub now_ms: Option<i64>,
    /// Whether to look at owners and free space (real file systems).
    pub check_system: bool,
    /// Whether a long scan may write down how far it is, among our own files; for opening a store. Without it an
    /// examination writes nothing.
    pub note_scan: bool,
    /// Findings that the operator accepts.
    pub accepted: BTreeSet<Code>,
}

impl ExamineConfig {
    /// An examination that knows nothing but where the store is.
    pub fn new(layout: StoreLayout) -> ExamineConfig {
        ExamineConfig {
            layout,
            file_size: None,
            queue_file_size: None,
            index_file_size: None,
            self_id: None,
            slave: false,
            max_message_size: None,
            reserved_ms: None,
            now_ms: None,
            check_system: false,
            note_scan: false,
            accepted: BTreeSet::new(),
        }
    }
}

/// The result of an examination.
#[derive(Debug, Clone)]
pub struct Examination {
    /// Bytes of a commitlog or DLedger data file: as configured, or as found.
    pub file_size: u64,
    /// Whether the last broker was killed.
    pub aborted: bool,
    /// The legacy half's files.
    pub legacy: Listing,
    /// Where the legacy log ends; none if there is no legacy file, or it was not scanned because the store is
    /// upgraded already.
    pub recovered: Option<Recovered>,
    /// Our note about the legacy half, if there is one.
    pub mark: Option<LegacyMark>,
    /// The note to be made when the store is opened: it is upgraded, and there is none that agrees with the bytes.
    pub mark_to_note: Option<LegacyMark>,
    /// The DLedger folders, the member's own first.
    pub members: Vec<DledgerFacts>,
    /// Whether the first of `members` is the member's own.
    pub own_member: bool,
    /// What queues, index and checkpoint say.
    pub derived: DerivedFacts,
    /// What opening the store would do.
    pub plan: Plan,
    /// Everything to be said, gravest first.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// The findings that stop a start, given what the operator accepted.
    pub fn refusals(&self, accepted: &BTreeSet<Code>) -> Vec<Finding> {
        let stops = |f: &&Finding| match f.severity {
            Severity::Refusal => true,
            Severity::NeedsAcceptance => !accepted.contains(&f.code),
            _ => false,
        };
        self.findings.iter().filter(stops).cloned().collect()
    }

    /// Facts of the member that would open the store.
    pub fn own(&self) -> Option<&DledgerFacts> {
        self.members.first().filter(|_| self.own_member)
    }

    /// End of the log's data, none if there is none.
    pub fn log_end(&self) -> Option<i64> {
        let dledger = self.own().and_then(|m| m.entries.map(|e| e.end));
        dledger
            .or(self.recovered.map(|r| r.end))
            .or(self.legacy.end())
    }

    /// The first position of the log, none if there is no file.
    pub fn log_begin(&self) -> Option<i64> {
        let dledger = || self.own().and_then(|m| m.data.files.first());
        self.legacy.files.first().or_else(dledger).map(|f| f.start)
    }
}

/// Examines a store. Errors are those of reading; everything else is a finding.
pub fn examine(
    fs: &dyn Fs,
    config: &ExamineConfig,
    progress: OnProgress<'_>,
) -> io::Result<Examination> {
    let layout = &config.layout;
    let mut findings = Findings::default();
    let legacy = crate::legacy::list(fs, layout.commitlog_dirs(), config.file_size)?;
    let (members, own_member) = halves::members(fs, config, &legacy)?;
    let own = members.first().filter(|_| own_member);
    let file_size = match config.file_size {
        Some(size) => size,
        None if legacy.is_empty() => own.map_or(0, |m| m.data.file_size),
        None => legacy.file_size,
    };
    let mut exam = Examination {
        file_size,
        aborted: layout.was_aborted(fs),
        recovered: None,
        mark: LegacyMark::load(fs, &layout.sidecar(MARK_FILE))?,
        mark_to_note: None,
        derived: DerivedFacts::read(fs, layout, config.queue_file_size)?,
        plan: Plan::New,
        findings: Vec::new(),
        legacy,
        members,
        own_member,
    };
    config_checks::files(fs, config, &exam, &mut findings);
    config_checks::settings(config, &exam, &mut findings);
    config_checks::kinds(&exam, &mut findings);
    halves::decide(fs, config, &mut exam, &mut findings, progress)?;
    halves::compare_with_derived(&exam, &mut findings);
    config_checks::clock(config, &exam, &mut findings);
    if config.check_system {
        config_checks::system(fs, config, &exam, &mut findings);
    }
    exam.findings = findings.0;
    exam.findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    Ok(exam)
}

#[cfg(test)]
mod tests;

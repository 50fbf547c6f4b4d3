//! Checks of files, settings, kinds of data, clock and system that do not depend on where the log ends.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dledger::fs::Fs;

use super::finding::{Code, Findings, Severity};
use super::{Examination, ExamineConfig};
use crate::layout::StoreLayout;
use crate::legacy::{LegacyFile, Listing};
use crate::upgrade::Plan;
use crate::{MAX_ENTRY, MAX_FRAME_OVERHEAD};

/// The newest message may be this far ahead of the clock, ms.
const CLOCK_TOLERANCE_MS: i64 = 60_000;
/// A file may be this much older than a message in it, ms.
const COPIED_TOLERANCE_MS: i64 = 3_600_000;

/// Names, sizes and places of the log's files.
pub(super) fn files(
    fs: &dyn Fs,
    config: &ExamineConfig,
    exam: &Examination,
    findings: &mut Findings,
) {
    let layout = &config.layout;
    listing("commitlog", &exam.legacy, exam.file_size, findings);
    if let Some(own) = exam.own() {
        listing("DLedger data", &own.data, exam.file_size, findings);
        if let Some((end, next)) = own.data.first_gap() {
            findings.push(
                Severity::Refusal,
                Code::DledgerGap,
                format!(
                    "DLedger data files are missing between {end} and {next} in {}",
                    own.data_dir.display()
                ),
                "restore them from a backup or from another member of the group",
            );
        }
    }
    queue_files(config, exam, findings);
    let index_size = exam.derived.index_file_size;
    if let Some(expected) = config
        .index_file_size
        .filter(|&size| index_size != 0 && size != index_size)
    {
        findings.push(
            Severity::Refusal,
            Code::FileSize,
            format!("the key index files have {index_size} bytes, configured are {expected}"),
            "set maxHashSlotNum and maxIndexNum as before (40 + 4 x slots + 20 x items bytes)",
        );
    }
    paths(fs, layout, findings);
    if !exam.derived.checkpoint.has_sound_len() {
        let len = exam.derived.checkpoint.found_len().unwrap_or(0);
        let text = format!("the store checkpoint has {len} bytes instead of 4096");
        findings.push(Severity::Warning, Code::CheckpointSize, text, "");
    }
}

/// Several directories, of either half.
fn paths(fs: &dyn Fs, layout: &StoreLayout, findings: &mut Findings) {
    if layout.is_multi_path() {
        let text = "the legacy commitlog lies in several directories; they are read, and the DLedger log goes to one";
        findings.push(Severity::Info, Code::MultiPath, text, "");
        for dir in layout.commitlog_dirs().filter(|dir| !fs.exists(dir)) {
            let text = format!("the commitlog directory {} does not exist", dir.display());
            findings.push(
                Severity::Warning,
                Code::PathMissing,
                text,
                "mount it, or take it out of the configuration",
            );
        }
    }
    if layout
        .dledger_data_override()
        .is_some_and(|path| path.to_string_lossy().contains(','))
    {
        findings.push(
            Severity::Refusal,
            Code::MultiPath,
            "storePathDLedgerCommitLog names several directories, which is not supported",
            "name one directory",
        );
    }
}

/// Consume queue files of another size than configured. If most have the configured one, the others are damaged and are
/// made anew; else the setting is wrong.
fn queue_files(config: &ExamineConfig, exam: &Examination, findings: &mut Findings) {
    let derived = &exam.derived;
    let Some((path, size)) = derived.queue_files_of_other_size.first() else {
        return;
    };
    let expected = config.queue_file_size.unwrap_or(derived.queue_file_size);
    if expected != derived.queue_file_size {
        return file_size(
            findings,
            path,
            *size,
            expected,
            "mappedFileSizeConsumeQueue",
        );
    }
    findings.push(
        Severity::Warning,
        Code::FileSize,
        format!(
            "{} has {size} bytes instead of {expected}: it is damaged",
            path.display()
        ),
        "nothing: the queue is built anew from the log when a broker starts",
    );
}

fn file_size(findings: &mut Findings, path: &Path, found: u64, expected: u64, key: &str) {
    findings.push(
        Severity::Refusal,
        Code::FileSize,
        format!(
            "{} has {found} bytes, configured are {expected}",
            path.display()
        ),
        format!("set {key}={found} if all files have that size; otherwise restore the file"),
    );
}

/// Findings about one directory list of data files.
fn listing(what: &str, listing: &Listing, expected: u64, findings: &mut Findings) {
    if let Some((path, size)) = listing.wrong_size.first() {
        file_size(findings, path, *size, expected, "mappedFileSizeCommitLog");
    }
    let end = listing.end();
    for file in &listing.empty {
        let path = file.path.display();
        if end.is_none_or(|end| file.start >= end) {
            let text = format!(
                "{path} is empty and the last one: it is left from a kill, and will be removed"
            );
            findings.push(Severity::Info, Code::EmptyLastFile, text, "");
        } else {
            let text = format!("{path} is empty, but not the last {what} file");
            findings.push(
                Severity::Refusal,
                Code::EmptyFile,
                text,
                "restore it from a backup",
            );
        }
    }
    let misnamed = |f: &&LegacyFile| f.start % listing.file_size.max(1) as i64 != 0;
    if let Some(file) = listing.files.iter().find(misnamed) {
        findings.push(
            Severity::Refusal,
            Code::MisnamedFile,
            format!(
                "the name of {} is no multiple of the file size {}",
                file.path.display(),
                listing.file_size
            ),
            "restore the file under its right name",
        );
    }
    for path in &listing.foreign_files {
        let text = format!("{} is no {what} file and is left alone", path.display());
        findings.push(
            Severity::Warning,
            Code::ForeignFile,
            text,
            "move it away: a Java broker does not start with it",
        );
    }
    for path in &listing.foreign_dirs {
        let text = format!(
            "{} is a folder among {what} files and is left alone",
            path.display()
        );
        findings.push(
            Severity::Warning,
            Code::ForeignFolder,
            text,
            "a Java broker of 4.9 does not start with it",
        );
    }
}

/// Settings that do not go with the store, or with this mode.
pub(super) fn settings(config: &ExamineConfig, exam: &Examination, findings: &mut Findings) {
    if config.slave && !exam.legacy.is_empty() {
        findings.push(
            Severity::Refusal,
            Code::SlaveRole,
            "brokerRole is SLAVE: this is the store of a slave, which may lag behind its master",
            "upgrade the master's store; to use this one, stop both, compare them, and set brokerRole=ASYNC_MASTER",
        );
    }
    let fits = MAX_ENTRY - MAX_FRAME_OVERHEAD;
    if let Some(size) = config.max_message_size.filter(|&size| size > fits) {
        findings.push(
            Severity::Info,
            Code::MessageSize,
            format!(
                "maxMessageSize is {size}, but an entry of the log holds {MAX_ENTRY} bytes in all: bodies over {fits} \
                 bytes may be refused"
            ),
            "",
        );
    }
}

/// Kinds of data that are not served as a Java broker would.
pub(super) fn kinds(exam: &Examination, findings: &mut Findings) {
    let derived = &exam.derived;
    let mut needs = |found: bool, code, text: String, what: &str| {
        if found {
            findings.push(Severity::NeedsAcceptance, code, text, what);
        }
    };
    needs(
        derived.extension_units > 0,
        Code::QueueExtension,
        format!(
            "{} queue entries keep their tags in a queue extension, which is not read",
            derived.extension_units
        ),
        "accept to have the tags of these messages taken from the messages themselves",
    );
    needs(
        derived.batch_queues > 0,
        Code::BatchQueues,
        format!(
            "{} batch consume queues (5.x, queue.type=BatchCQ) are not served",
            derived.batch_queues
        ),
        "drain these topics with the old broker first; accept to leave their messages unread",
    );
    needs(
        derived.rocksdb_queues,
        Code::RocksDb,
        "the consume queues lie in RocksDB, which is not read".to_string(),
        "switch the old broker to storeType=default first; accept to have them rebuilt from the log, which loses \
         queue offsets below the log's minimum",
    );
    needs(
        derived.compaction_files > 0,
        Code::Compaction,
        format!(
            "{} files of compacted topics (5.x) are not read",
            derived.compaction_files
        ),
        "accept to serve these topics from the ordinary log only",
    );
    needs(
        derived.pending_timers > 0,
        Code::PendingTimers,
        format!(
            "up to {} messages wait in the timer wheel (5.x) and will not be delivered",
            derived.pending_timers
        ),
        "let the old broker deliver them first; accept to leave them on rmq_sys_wheel_timer",
    );
    needs(
        derived.light_queues > 0,
        Code::LightQueues,
        format!(
            "{} light message queues (%LMQ%) are there; new messages are not dispatched to such",
            derived.light_queues
        ),
        "accept to serve what they hold",
    );
}

/// The clock against the newest message, and file times against the messages in the files.
pub(super) fn clock(config: &ExamineConfig, exam: &Examination, findings: &mut Findings) {
    let dledger = exam
        .own()
        .and_then(|m| m.entries)
        .map(|e| e.last_store_timestamp);
    let newest = dledger
        .or(exam.recovered.map(|r| r.last_store_timestamp))
        .unwrap_or(0);
    if let Some(now) = config
        .now_ms
        .filter(|now| newest > now + CLOCK_TOLERANCE_MS)
    {
        findings.push(
            Severity::Warning,
            Code::Clock,
            format!(
                "the newest message was stored {} s after now: the clock is behind, or was ahead",
                (newest - now) / 1000
            ),
            "set the clock right before messages are stored with wrong times",
        );
    }
    let last_legacy = exam.legacy.files.last();
    let legacy_newest = exam.recovered.map(|r| r.last_store_timestamp).unwrap_or(0);
    if last_legacy.is_some_and(|file| file.modified_ms + COPIED_TOLERANCE_MS < legacy_newest) {
        findings.push(
            Severity::Info,
            Code::CopiedTimes,
            "the commitlog files are older than the messages in them: their times were changed by a copy; retention \
             goes by the newer of both",
            "",
        );
    }
}

/// Owners and free space.
pub(super) fn system(
    fs: &dyn Fs,
    config: &ExamineConfig,
    exam: &Examination,
    findings: &mut Findings,
) {
    let root = config.layout.root();
    if let Ok(owner) = std::fs::metadata(root).map(|m| m.uid()) {
        let me = rustix::process::geteuid().as_raw();
        if me == 0 && owner != 0 {
            findings.push(
                Severity::Warning,
                Code::Ownership,
                format!("running as root over a store of user {owner}: files made now would stop that user's broker"),
                format!("run as user {owner}"),
            );
        } else if me != 0 && owner != me {
            let text = format!("the store belongs to user {owner}, running as {me}");
            findings.push(
                Severity::Warning,
                Code::Ownership,
                text,
                format!("run as user {owner}"),
            );
        }
    }
    let data_dir = exam
        .own()
        .map_or_else(|| root.to_path_buf(), |m| m.data_dir.clone());
    let dir = if fs.exists(&data_dir) {
        data_dir.as_path()
    } else {
        root
    };
    let Ok(space) = fs.space(dir) else { return };
    let file_size = exam.file_size;
    let need = match exam.plan {
        Plan::Upgrade(_) | Plan::New => 2 * file_size,
        _ => file_size,
    };
    let mib = |bytes: u64| bytes >> 20;
    if space.available < need {
        findings.push(
            Severity::Warning,
            Code::DiskSpace,
            format!(
                "{} MiB are free on the store's disk, the next files need {} MiB",
                mib(space.available),
                mib(need)
            ),
            "make room: when a file cannot be reserved the broker refuses messages",
        );
    } else if space.used_ratio() >= 0.90 {
        findings.push(
            Severity::Warning,
            Code::DiskSpace,
            format!("the store's disk is {:.0} % full", space.used_ratio() * 100.0),
            "above diskSpaceWarningLevelRatio (90) messages are refused until retention has made room",
        );
    }
}

//! What the two halves are and how they fit: the plan, and the findings that come with it.

use std::io;

use dledger::fs::{Fs, OpenMode};

use super::derived_facts::list;
use super::finding::{Code, Findings, Severity};
use super::{DledgerFacts, Examination, ExamineConfig};
use crate::blank;
use crate::legacy::{
    self, LegacyFile, LegacyMark, Listing, MARK_FILE, OnProgress, Recovered, SCAN_NOTE_FILE, Stop,
};
use crate::upgrade::{self, Plan};

/// Reads all DLedger folders. The own one comes first: that of the configured id, or the only one there is.
pub(super) fn members(
    fs: &dyn Fs,
    config: &ExamineConfig,
    legacy: &Listing,
) -> io::Result<(Vec<DledgerFacts>, bool)> {
    let layout = &config.layout;
    let mut ids: Vec<String> = list(fs, layout.root())?
        .into_iter()
        .filter(|e| e.is_dir)
        .filter_map(|e| e.name.strip_prefix("dledger-").map(str::to_string))
        .collect();
    let own = match &config.self_id {
        Some(id) => Some(id.clone()),
        None => only_one(fs, config, &ids)?,
    };
    if let Some(own) = &own {
        ids.retain(|id| id != own);
        if fs.exists(&layout.dledger(own)) || fs.exists(&layout.dledger_data(own)) {
            ids.insert(0, own.clone());
        }
    }
    let file_size = config
        .file_size
        .or((!legacy.is_empty()).then_some(legacy.file_size));
    let own_first = own.is_some() && ids.first() == own.as_ref();
    let mut members = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        let base = layout.dledger(id);
        // A moved data directory belongs to the own member; others are looked for at the usual place.
        let data = if i == 0 && own_first {
            layout.dledger_data(id)
        } else {
            base.join("data")
        };
        members.push(DledgerFacts::read(fs, id, &base, data, file_size)?);
    }
    Ok((members, own_first))
}

/// The only member there is; of several, the only one that has data files.
fn only_one(fs: &dyn Fs, config: &ExamineConfig, ids: &[String]) -> io::Result<Option<String>> {
    if let [id] = ids {
        return Ok(Some(id.clone()));
    }
    let mut with_data = Vec::new();
    for id in ids {
        let files = list(fs, &config.layout.dledger(id).join("data"))?;
        if files.iter().any(|f| !f.is_dir && f.len > 0) {
            with_data.push(id);
        }
    }
    Ok(match with_data[..] {
        [id] => Some(id.clone()),
        _ => None,
    })
}

/// Decides what the store is and what opening it would do.
pub(super) fn decide(
    fs: &dyn Fs,
    config: &ExamineConfig,
    exam: &mut Examination,
    findings: &mut Findings,
    progress: OnProgress<'_>,
) -> io::Result<()> {
    let own = exam.own().cloned();
    other_members(config, exam, findings);
    if exam.aborted {
        findings.push(
            Severity::Info,
            Code::Aborted,
            "the last broker on this store did not stop in order (the file abort is there)",
            "",
        );
    }
    if own.as_ref().is_some_and(|m| m.damaged_start) {
        findings.push(
            Severity::Refusal,
            Code::DamagedStart,
            format!(
                "the first DLedger data file in {} does not begin with an entry",
                dir(&own)
            ),
            "restore the file from a backup or from another member of the group",
        );
    }
    let entries = own.as_ref().and_then(|m| m.entries);
    if let Some((end, next)) = exam.legacy.first_gap() {
        gap(findings, end, next);
        return Ok(());
    }
    match (exam.legacy.files.is_empty(), entries) {
        (true, None) => {
            exam.plan = if own.is_some() {
                Plan::Dledger
            } else {
                Plan::New
            };
            legacy_missing(config, exam, findings);
        }
        (true, Some(_)) => {
            exam.plan = Plan::Dledger;
            legacy_missing(config, exam, findings);
        }
        (false, Some(entries)) => {
            // The first file's start, even if its first entries are lost: recovery of the DLedger log decides on those.
            let first = own.as_ref().and_then(|m| m.data.files.first());
            let divide = first.map_or(entries.begin_pos, |file| file.start);
            mixed(fs, exam, divide, findings)?;
        }
        (false, None) => plain(fs, config, exam, own.as_ref(), findings, progress)?,
    }
    Ok(())
}

fn dir(member: &Option<DledgerFacts>) -> String {
    member
        .as_ref()
        .map(|m| m.data_dir.display().to_string())
        .unwrap_or_default()
}

fn gap(findings: &mut Findings, end: i64, next: i64) {
    let text = if next > end {
        format!("commitlog files are missing between {end} and {next}")
    } else {
        format!("two commitlog files overlap: one ends at {end}, the next begins at {next}")
    };
    findings.push(
        Severity::Refusal,
        Code::LegacyGap,
        text,
        "mount or restore the directory that holds them; with several commitlog paths name them all",
    );
}

/// Folders of other members with data: the id was changed.
fn other_members(config: &ExamineConfig, exam: &Examination, findings: &mut Findings) {
    let others = exam
        .members
        .iter()
        .skip(usize::from(exam.own_member))
        .filter(|m| !m.is_empty());
    let others: Vec<&DledgerFacts> = others.collect();
    match &config.self_id {
        Some(own) => {
            for other in others {
                let id = &other.self_id;
                findings.push(
                    Severity::Refusal,
                    Code::OtherMember,
                    format!("the store holds the log of member {id}, but dLegerSelfId is {own}"),
                    format!("set dLegerSelfId={id}, or move the folder dledger-{id} away if it is not wanted"),
                );
            }
        }
        None if !others.is_empty() => {
            let ids: Vec<&str> = others.iter().map(|m| m.self_id.as_str()).collect();
            findings.push(
                Severity::Warning,
                Code::OtherMember,
                format!("the store holds the logs of several members: {}", ids.join(", ")),
                "name the one to look at; a broker needs dLegerSelfId to be one of them, and refuses the others",
            );
        }
        None => {}
    }
}

/// The divide of a store whose legacy half is gone though nobody is known to have expired it, and the time until which
/// its messages were stored: by our note, or, when a Java broker made the upgrade, by the first entry, which does not lie
/// at 0 then.
fn lost_half(exam: &Examination) -> Option<(i64, i64)> {
    match exam.mark {
        Some(mark) => (!mark.retired).then_some((mark.divide, mark.last_store_timestamp)),
        None => {
            let entries = exam.own()?.entries?;
            let upgraded = entries.begin_index == 0 && entries.begin_pos > 0;
            upgraded.then_some((entries.begin_pos, entries.first_store_timestamp))
        }
    }
}

/// A legacy half that was there when we last ran, and was not retired by us, is gone.
fn legacy_missing(config: &ExamineConfig, exam: &Examination, findings: &mut Findings) {
    let Some((divide, stored_until)) = lost_half(exam) else {
        return;
    };
    let may_be_expired = match (config.now_ms, config.reserved_ms) {
        (Some(now), Some(reserved)) => now.saturating_sub(stored_until) > reserved,
        _ => exam.mark.is_none(),
    };
    let severity = if may_be_expired {
        Severity::Warning
    } else {
        Severity::NeedsAcceptance
    };
    findings.push(
        severity,
        Code::LegacyMissing,
        format!(
            "the legacy commitlog below {divide} was there {}, and is gone now",
            if exam.mark.is_some() { "when LedgerMQ last ran" } else { "when the store was upgraded" }
        ),
        "mount or restore its directory; accept this finding only if a Java broker has expired it in between",
    );
}

/// An upgraded store: the legacy half must end where the DLedger log begins, and be closed.
fn mixed(
    fs: &dyn Fs,
    exam: &mut Examination,
    divide: i64,
    findings: &mut Findings,
) -> io::Result<()> {
    exam.plan = Plan::Mixed { divide };
    let Some(last) = exam.legacy.files.last() else {
        return Ok(());
    };
    let end = last.start + exam.file_size as i64;
    if end > divide {
        two_histories(
            findings,
            format!("the legacy commitlog reaches {end}, the DLedger log begins at {divide}"),
        );
        return Ok(());
    }
    if end < divide {
        gap(findings, end, divide);
        return Ok(());
    }
    if mark_holds(fs, exam, last)? {
        return Ok(());
    }
    match legacy::closed_end(fs, last)? {
        Some(closed) => {
            exam.mark_to_note = Some(LegacyMark {
                divide,
                end: closed.end,
                last_store_timestamp: closed.last_store_timestamp,
                retired: false,
            });
        }
        None => two_histories(
            findings,
            format!(
                "the last legacy file {} is not closed by a blank record any more",
                last.path.display()
            ),
        ),
    }
    Ok(())
}

fn two_histories(findings: &mut Findings, what: String) {
    findings.push(
        Severity::Refusal,
        Code::TwoHistories,
        format!("a plain broker wrote to this store after its upgrade: {what}"),
        "the two histories cannot be joined: restore the store, or keep one half and move the other away \
         (commitlog/ or the dledger folder), losing its messages",
    );
}

/// Whether our note about the end of the legacy half agrees with the bytes.
fn mark_holds(fs: &dyn Fs, exam: &Examination, last: &LegacyFile) -> io::Result<bool> {
    let Some(mark) = exam.mark else {
        return Ok(false);
    };
    let file_end = last.start + exam.file_size as i64;
    if mark.divide != file_end || mark.end < last.start || mark.end > file_end {
        return Ok(false);
    }
    let rest = (file_end - mark.end) as u64;
    let Some(expected) = blank::encode(rest) else {
        return Ok(true);
    };
    let mut found = [0; blank::BLANK_LEN];
    let read = fs
        .open(&last.path, OpenMode::Read)?
        .read_at(&mut found, (mark.end - last.start) as u64)?;
    Ok(read == found.len() && found == expected)
}

/// A plain store, or one whose upgrade wrote no entry yet: recover the legacy log, plan the upgrade.
fn plain(
    fs: &dyn Fs,
    config: &ExamineConfig,
    exam: &mut Examination,
    own: Option<&DledgerFacts>,
    findings: &mut Findings,
    progress: OnProgress<'_>,
) -> io::Result<()> {
    let files = &exam.legacy.files;
    let start = if exam.aborted {
        let limit = exam.derived.checkpoint.min_timestamp();
        let start = legacy::abnormal_start(fs, files, limit)?;
        if start == 0 && files.len() > 3 {
            let gib = (files.len() as u64 * exam.file_size) >> 30;
            findings.push(
                Severity::Info,
                Code::FullScan,
                format!("nothing tells how much of the commitlog is sound: all of it is checked ({gib} GiB)"),
                "",
            );
        }
        start
    } else {
        legacy::normal_start(files)
    };
    let note = config.layout.sidecar(SCAN_NOTE_FILE);
    let note = Some(note.as_path()).filter(|_| config.note_scan && exam.aborted);
    let recovered = legacy::recover(fs, files, exam.file_size, start, note, progress)?;
    exam.recovered = Some(recovered);
    damage(fs, exam, recovered, findings)?;
    let layout = &config.layout;
    let (data, data_dir) = match own {
        Some(member) => (member.data.clone(), member.data_dir.clone()),
        None => {
            let id = config.self_id.as_deref().unwrap_or("n0");
            (Listing::default(), layout.dledger_data(id))
        }
    };
    let mark = layout.sidecar(MARK_FILE);
    if let Some(upgrade) = upgrade::plan(&exam.legacy, recovered, &data, &data_dir, &mark) {
        let stale = data.files.iter().find(|f| f.start != upgrade.divide);
        if let Some(stale) = stale {
            findings.push(
                Severity::Info,
                Code::StaleDivide,
                format!(
                    "the DLedger log is empty and begins at {}, but the commitlog now ends in the file before {}: the \
                     divide is set anew",
                    stale.start, upgrade.divide
                ),
                "",
            );
        }
        exam.plan = Plan::Upgrade(upgrade);
    }
    Ok(())
}

/// What is to be said about the place where the legacy log ends.
fn damage(
    fs: &dyn Fs,
    exam: &Examination,
    recovered: Recovered,
    findings: &mut Findings,
) -> io::Result<()> {
    let error = match recovered.stop {
        Stop::Damage(error) => error.to_string(),
        Stop::Zeros => "nothing is written there".to_string(),
        _ => return Ok(()),
    };
    let end = recovered.end;
    let behind = legacy::intact_behind(fs, &exam.legacy.files, exam.file_size, end)?;
    let known = exam
        .derived
        .furthest()
        .is_some_and(|furthest| furthest > end);
    // Behind the damage the log goes on: in a later file, or as the queues say after an orderly stop.
    let goes_on = behind
        .later_file
        .or(behind.next.filter(|_| known && !exam.aborted));
    match goes_on {
        Some(next) => findings.push(
            Severity::NeedsAcceptance,
            Code::DamagedInside,
            format!(
                "the commitlog is damaged at {end} ({error}), and whole messages follow from {next} on; cutting here \
                 would lose them"
            ),
            "restore the file from a backup; accept this finding to cut the log at the damage",
        ),
        None if recovered.stop == Stop::Zeros => {}
        None => findings.push(
            Severity::Warning,
            Code::DamagedTail,
            format!("the commitlog ends at {end}, what follows is not a whole message ({error}) and is left out"),
            "",
        ),
    }
    Ok(())
}

/// Compares the end of the log with what queues, index and checkpoint name.
pub(super) fn compare_with_derived(exam: &Examination, findings: &mut Findings) {
    let other_sizes =
        |listing: &Listing| listing.files.is_empty() && !listing.wrong_size.is_empty();
    if other_sizes(&exam.legacy) || exam.own().is_some_and(|m| other_sizes(&m.data)) {
        return; // The log is there, in files of another size: that is said already.
    }
    let checkpoint = &exam.derived.checkpoint;
    let stamped = checkpoint
        .physic_msg_timestamp()
        .max(checkpoint.logics_msg_timestamp());
    let no_file =
        exam.legacy.files.is_empty() && exam.own().is_none_or(|m| m.data.files.is_empty());
    let begin = exam.log_begin().unwrap_or(0);
    let end = exam.log_end().unwrap_or(0);
    let named = exam.derived.furthest();
    let what = match (&exam.derived.furthest_queue, named) {
        (Some(queue), Some(named)) if queue.end == named => {
            format!(
                "queue {} of {} names a message that ends at {named}",
                queue.queue_id, queue.topic
            )
        }
        (_, Some(named)) => format!("the key index names a message at {}", named - 1),
        _ => format!("the checkpoint names messages stored until {stamped} ms"),
    };
    let mend = "mount or restore the commitlog (and the DLedger folder); if its messages are lost for good, move \
                consumequeue/, index/ and checkpoint away too";
    let has_entries = exam.own().is_some_and(|m| m.entries.is_some());
    let empty = !has_entries && end == begin;
    // The first entry lies at the divide: what is named behind it was in the DLedger log.
    let divide = exam.mark.map(|mark| mark.divide).filter(|_| !has_entries);
    let lost = named
        .zip(divide)
        .is_some_and(|(named, divide)| named > divide);
    if (empty && named.is_some_and(|named| named > end)) || (no_file && stamped > 0) {
        let state = if no_file { "missing" } else { "empty" };
        findings.push(
            Severity::Refusal,
            Code::LogMissing,
            format!("the log is {state}, but {what}"),
            mend,
        );
    } else if lost {
        let text = format!("the DLedger log is missing or empty, but {what}");
        findings.push(Severity::Refusal, Code::LogMissing, text, mend);
    } else if let Some(named) = named.filter(|&named| named > end) {
        if named - end > exam.file_size as i64 {
            let text = format!(
                "the log ends at {end}, {} bytes too early: {what}",
                named - end
            );
            findings.push(Severity::NeedsAcceptance, Code::LogTooShort, text, mend);
        } else {
            let text = format!("the log ends at {end}, but {what}; the queues will be cut there");
            findings.push(Severity::Info, Code::QueuesAhead, text, "");
        }
    }
}

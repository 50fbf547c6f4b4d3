//! Where dispatch resumes, and what is cut off before it does.
//!
//! Everything behind the resume position is removed from all queues and from the index, and made again from the
//! log: so what is there afterwards is what a rebuild would give. The position is
//!
//! - the dispatch mark's, if the mark belongs to this log and nobody else changed the files since;
//! - else, after a clean stop (of a Java broker), the maximum over the queues, once samples of the log have been
//!   found in them;
//! - else a position that is older than anything which may not have been synced, by the store's checkpoint.
//!
//! It is lowered to in front of any damage, and of any gap in the key index. What the queues and the index name
//! beyond the end of the *data* does not exist and is cut; the commit index plays no part in it.

use commitlog::frame::FrameView;
use tracing::{info, warn};

use crate::audit;
use crate::error::Error;
use crate::index::{IndexReport, KeyIndex};
use crate::log::{Frames, MessageLog};
use crate::marks::{CoveredRecord, IndexMark, Mark, MarkFile, MarkState};
use crate::queues::{ConsumeQueues, QueuesReport};

/// Java flushes all queues at least this often (`flushConsumeQueueThoroughInterval`), ms; its checkpoint may name
/// messages stored that much later than what was flushed.
const FLUSH_INTERVAL: i64 = 60_000;

/// Margin that Java itself takes off the checkpoint's times, ms.
const CHECKPOINT_MARGIN: i64 = 3000;

/// Times of the store's checkpoint file, ms, 0 if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckpointTimes {
    /// `physicMsgTimestamp`.
    pub log: i64,
    /// `logicsMsgTimestamp`.
    pub queues: i64,
}

/// What is known about the store when it is opened.
pub struct StartState<'a> {
    /// The abort file was there: the last stop was not clean.
    pub unclean: bool,
    /// The store's checkpoint file.
    pub checkpoint: CheckpointTimes,
    /// Where the log's own recovery wants dispatch to begin at the latest.
    pub redispatch_from: Option<i64>,
    /// What opening the queues found.
    pub queues: &'a QueuesReport,
    /// What opening the index found.
    pub index: &'a IndexReport,
    /// Whether a topic exists (topics.json): messages of a deleted topic are in the log, but its queues are
    /// rightly gone.
    pub topic_exists: &'a dyn Fn(&str) -> bool,
}

/// Why dispatch resumes where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The mark of a clean stop: nothing to do.
    CleanMark,
    /// The mark of a stop that was not clean.
    Mark,
    /// A clean stop without a mark of ours.
    QueuesEnd,
    /// A stop that was not clean, without a mark of ours: by the checkpoint.
    Checkpoint,
    /// Queues or index are damaged, missing, or incomplete: from in front of that.
    Damage,
    /// From the begin of the log.
    Begin,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::CleanMark => "mark of a clean stop",
            Reason::Mark => "mark of a stop that was not clean",
            Reason::QueuesEnd => "end of the queues after a clean stop",
            Reason::Checkpoint => "checkpoint after a stop that was not clean",
            Reason::Damage => "damaged or incomplete queues or index",
            Reason::Begin => "begin of the log",
        })
    }
}

/// What recovery decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Physical position where dispatch resumes.
    pub position: i64,
    /// Why.
    pub reason: Reason,
    /// Bytes of the log that will be read again.
    pub behind_bytes: i64,
    /// What was found missing or damaged, one line each.
    pub findings: Vec<String>,
}

/// What recovery works on.
pub(crate) struct Parts<'a, L> {
    pub log: &'a L,
    pub queues: &'a ConsumeQueues,
    pub index: Option<&'a KeyIndex>,
    pub marks: &'a MarkFile,
}

/// A resume position that is lowered step by step.
struct Resume {
    position: i64,
    reason: Reason,
    findings: Vec<String>,
}

impl Resume {
    fn lower(&mut self, position: i64, finding: String) {
        warn!(position, finding, "dispatch must resume earlier");
        self.findings.push(finding);
        if position < self.position {
            self.position = position;
            self.reason = Reason::Damage;
        }
    }
}

/// Decides, cuts, and writes the mark of where work begins.
pub(crate) fn recover<L: MessageLog>(
    parts: &Parts<'_, L>,
    start: &StartState<'_>,
) -> Result<(Recovered, Option<Mark>), Error> {
    let mark = parts.marks.load();
    if let Some(mark) = mark
        .as_ref()
        .filter(|mark| mark_names_this_log(parts, mark))
    {
        if is_untouched(parts, start, mark) {
            let recovered = recovered(parts, mark.position, Reason::CleanMark, Vec::new());
            return Ok((recovered, Some(mark.clone())));
        }
        if let Some(findings) = restore(parts, start, mark)? {
            let recovered = recovered(parts, mark.position, Reason::Mark, findings);
            return Ok((recovered, Some(mark.clone())));
        }
    }
    let mut resume = without_mark(parts, start, mark.as_ref())?;
    loop {
        begin_cut(parts.marks, resume.position)?;
        cut(parts.log, parts.queues, parts.index, resume.position)?;
        // What an index file holds is known only now that it was cut.
        let gap = match parts.index {
            Some(index) => audit::index(parts.log, index, resume.position)?,
            None => None,
        };
        match gap {
            Some(gap) if gap.resume_at < resume.position => resume.lower(gap.resume_at, gap.what),
            _ => break,
        }
    }
    let mark = begin_mark(parts, start, resume.position)?;
    if let Some(mark) = &mark {
        parts.queues.sync()?;
        parts.index.map_or(Ok(()), |index| index.flush(true))?;
        parts.marks.save(mark)?;
    }
    let recovered = recovered(parts, resume.position, resume.reason, resume.findings);
    Ok((recovered, mark))
}

/// Notes where queues and index are about to be cut. If that is interrupted, what they hold behind this position
/// is unknown, and the next start cuts there again or earlier.
pub(crate) fn begin_cut(marks: &MarkFile, position: i64) -> Result<(), Error> {
    marks.save(&Mark {
        position,
        record: CoveredRecord {
            physical_offset: -1,
            size: 0,
            crc: 0,
        },
        store_timestamp: 0,
        state: MarkState::Cutting,
        index: IndexMark::Off,
        queues: (0, 0),
        hole_behind: None,
    })
}

/// Cuts queues and index so that they name nothing at or behind a position of the log.
pub(crate) fn cut<L: MessageLog>(
    log: &L,
    queues: &ConsumeQueues,
    index: Option<&KeyIndex>,
    position: i64,
) -> Result<(), Error> {
    let cut = queues.cut_beyond(position)?;
    let index_cut = match index {
        Some(index) => index.cut_beyond(position, |offset| store_time(log, offset))?,
        None => false,
    };
    if cut > 0 || index_cut {
        info!(
            position,
            queues = cut,
            index = index_cut,
            "cut off what lies behind the resume position"
        );
    }
    Ok(())
}

/// Number of queues that hold something, and sum of their maximum offsets.
pub(crate) fn inventory(queues: &ConsumeQueues) -> (i64, i64) {
    queues
        .all()
        .iter()
        .map(|queue| queue.max_offset())
        .filter(|max| *max > 0)
        .fold((0, 0), |(count, sum), max| (count + 1, sum + max))
}

/// The first record at a position, to name in a mark when none in front of it is at hand.
pub(crate) fn witness_at<L: MessageLog>(
    log: &L,
    position: i64,
) -> Result<Option<CoveredRecord>, Error> {
    let frame = audit::next_sound(&mut log.frames(position))?;
    Ok(frame.as_ref().map(CoveredRecord::of))
}

fn recovered<L: MessageLog>(
    parts: &Parts<'_, L>,
    position: i64,
    reason: Reason,
    findings: Vec<String>,
) -> Recovered {
    Recovered {
        position,
        reason,
        behind_bytes: (parts.log.committed_end() - position).max(0),
        findings,
    }
}

/// Whether the record that the mark names is in the log, and the log reaches as far.
fn mark_names_this_log<L: MessageLog>(parts: &Parts<'_, L>, mark: &Mark) -> bool {
    let record = &mark.record;
    let bytes = parts.log.message(record.physical_offset, record.size);
    bytes.is_some_and(|bytes| bytes.len() == record.size && crc32fast::hash(&bytes) == record.crc)
        && mark.position >= parts.log.min_offset()
        && mark.position <= parts.log.data_end()
}

/// A clean stop of ours, and nothing changed since.
fn is_untouched<L: MessageLog>(parts: &Parts<'_, L>, start: &StartState<'_>, mark: &Mark) -> bool {
    !start.unclean
        && mark.state == MarkState::Clean
        && mark.hole_behind.is_none()
        && nothing_behind(parts.log, mark.position)
        && start.queues.damaged.is_empty()
        && start.index.damaged.is_none()
        && inventory(parts.queues) == mark.queues
        && (parts.index.is_none() || IndexMark::of(parts.index) == mark.index)
}

fn nothing_behind<L: MessageLog>(log: &L, position: i64) -> bool {
    matches!(log.frames(position).next_frame(), Ok(None))
}

/// A stop of ours that was not clean: takes everything back to the mark. `None` if the files do not continue it.
fn restore<L: MessageLog>(
    parts: &Parts<'_, L>,
    start: &StartState<'_>,
    mark: &Mark,
) -> Result<Option<Vec<String>>, Error> {
    let ours = start.unclean || mark.state == MarkState::CatchingUp;
    // A Java broker sets these times with every message that it dispatches.
    let newer = start.checkpoint.queues > mark.store_timestamp;
    if !ours || newer || mark.hole_behind.is_some() {
        return Ok(None);
    }
    if let Some(index) = parts.index
        && !index.restore(&mark.index)?
    {
        return Ok(None);
    }
    let units_since = (parts.log.data_end() - mark.position) / MIN_RECORD;
    parts.queues.cut_beyond(mark.position)?;
    parts.queues.clear_behind(units_since.max(CLEARED_UNITS))?;
    // A queue that lost something which the mark covers is shorter now.
    if inventory(parts.queues) != mark.queues {
        return Ok(None);
    }
    Ok(Some(Vec::new()))
}

/// Bytes of the smallest record, rounded down.
const MIN_RECORD: i64 = 90;

/// Units behind the end of a queue that are cleared at least: the log, too, may have lost its end, and then does
/// not tell how much was written.
const CLEARED_UNITS: i64 = 30_000;

fn without_mark<L: MessageLog>(
    parts: &Parts<'_, L>,
    start: &StartState<'_>,
    mark: Option<&Mark>,
) -> Result<Resume, Error> {
    let (begin, data_end) = (parts.log.min_offset(), parts.log.data_end());
    cut(parts.log, parts.queues, parts.index, data_end)?;
    let mut resume = Resume {
        position: data_end,
        reason: Reason::QueuesEnd,
        findings: Vec::new(),
    };
    if start.unclean {
        for damage in parts.queues.scan_tails()? {
            resume.lower(
                damage.resume_at,
                format!("{}-{}: {}", damage.topic, damage.queue_id, damage.what),
            );
        }
        if let Some(index) = parts.index {
            index.scan_tail(|offset| store_time(parts.log, offset))?;
        }
        let oldest = start.checkpoint.log.min(start.checkpoint.queues);
        // In front of anything that may not have been flushed.
        let position = parts
            .log
            .file_stored_before(oldest - CHECKPOINT_MARGIN - FLUSH_INTERVAL);
        if position <= resume.position {
            resume.position = position;
            resume.reason = Reason::Checkpoint;
        }
    } else {
        resume.position = parts.queues.max_physical_offset();
    }
    if let Some(behind) = mark.and_then(|mark| mark.hole_behind) {
        resume.lower(behind, "messages were missing in a queue".to_owned());
    }
    if let Some(mark) = mark.filter(|mark| mark.state == MarkState::Cutting)
        && mark.position < resume.position
    {
        resume.lower(mark.position, "recovery was interrupted".to_owned());
    }
    for damage in &start.queues.damaged {
        resume.lower(
            damage.resume_at,
            format!("{}-{}: {}", damage.topic, damage.queue_id, damage.what),
        );
    }
    resume.position = resume.position.clamp(begin, data_end.max(begin));
    let found = audit::queues(parts.log, parts.queues, resume.position, start.topic_exists)?;
    if let Some(gap) = found {
        resume.lower(gap.resume_at, gap.what);
    }
    if let Some(index) = parts.index {
        if let Some(what) = &start.index.damaged {
            resume.findings.push(format!("index: {what}"));
        }
        if let Some(gap) = audit::index(parts.log, index, resume.position)? {
            resume.lower(gap.resume_at, gap.what);
        }
    }
    resume.position = resume.position.clamp(begin, data_end.max(begin));
    if resume.position == begin && data_end > begin {
        resume.reason = Reason::Begin;
    }
    info!(position = resume.position, "no usable dispatch mark");
    Ok(resume)
}

/// A mark for a position that no mark of ours covered.
fn begin_mark<L: MessageLog>(
    parts: &Parts<'_, L>,
    start: &StartState<'_>,
    position: i64,
) -> Result<Option<Mark>, Error> {
    let witness = match last_record(parts) {
        Some(record) => Some(record),
        None => witness_at(parts.log, position)?,
    };
    Ok(witness.map(|record| Mark {
        position,
        record,
        store_timestamp: start.checkpoint.queues.max(start.checkpoint.log),
        state: MarkState::CatchingUp,
        index: IndexMark::of(parts.index),
        queues: inventory(parts.queues),
        hole_behind: None,
    }))
}

/// The last record that a queue names.
fn last_record<L: MessageLog>(parts: &Parts<'_, L>) -> Option<CoveredRecord> {
    let all = parts.queues.all();
    let queue = all.iter().max_by_key(|queue| queue.physical_end())?;
    let unit = queue.raw_unit(queue.max_offset() - 1).ok()??;
    let bytes = parts
        .log
        .message(unit.physical_offset, usize::try_from(unit.size).ok()?)?;
    Some(CoveredRecord {
        physical_offset: unit.physical_offset,
        size: bytes.len(),
        crc: crc32fast::hash(&bytes),
    })
}

fn store_time<L: MessageLog>(log: &L, physical_offset: i64) -> Option<i64> {
    let frame = log.message_at(physical_offset)?;
    Some(FrameView::parse(&frame).ok()?.store_timestamp())
}

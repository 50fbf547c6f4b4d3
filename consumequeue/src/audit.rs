//! Samples of the log, looked up in queues and index.
//!
//! A queue that was lost as a whole, or whose end was lost, looks sound by itself. Only the log knows better. A
//! small log is looked up entirely; of a large one, the begin of each file.

use commitlog::frame::FrameView;

use crate::error::Error;
use crate::index::{KeyIndex, TopicHash};
use crate::log::{Frames, LogFrame, MessageLog};
use crate::queue::ConsumeQueue;
use crate::queues::ConsumeQueues;
use crate::record::Record;
use crate::unit::Unit;
use std::ops::ControlFlow;

/// Bytes of the log that are looked up at most.
const SAMPLED_BYTES: i64 = 64 << 20;

/// Bytes of a file that are looked up at least.
const SAMPLE_BYTES: i64 = 64 << 10;

/// Records that are looked through for one that has a key.
const KEYLESS_RECORDS: usize = 10_000;

/// Something is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Physical position in front of it.
    pub resume_at: i64,
    /// What, for the log.
    pub what: String,
}

/// Looks up samples of the log in front of `end` in the queues.
pub(crate) fn queues<L: MessageLog>(
    log: &L,
    queues: &ConsumeQueues,
    end: i64,
    topic_exists: &dyn Fn(&str) -> bool,
) -> Result<Option<Gap>, Error> {
    let mut lowest: Option<Gap> = None;
    for (from, to) in windows(log, end) {
        let mut frames = log.frames(from);
        while let Some(frame) = next_sound(&mut frames)? {
            if frame.physical_offset >= to {
                break;
            }
            let Some(gap) = missing_unit(log, queues, &frame, topic_exists)? else {
                continue;
            };
            if lowest
                .as_ref()
                .is_none_or(|lowest| gap.resume_at < lowest.resume_at)
            {
                lowest = Some(gap);
            }
        }
    }
    Ok(lowest)
}

/// Looks for parts of the log in front of `end` whose keys are not in the index: at its begin, between its files
/// (a file that Java removed after a crash), at its end.
pub(crate) fn index<L: MessageLog>(
    log: &L,
    index: &KeyIndex,
    end: i64,
) -> Result<Option<Gap>, Error> {
    let begin = log.min_offset();
    let gap = |resume_at: i64, what: &str| {
        Some(Gap {
            resume_at,
            what: format!("index: {what}"),
        })
    };
    let first = index.first_physical_offset().unwrap_or(end);
    if let Some(frame) = next_with_key(log, begin, end)?
        && frame.physical_offset < first
    {
        return Ok(gap(begin, "keys of the oldest messages are missing"));
    }
    for (file_end, file_begin) in index.seams() {
        if file_end < begin {
            continue;
        }
        if let Some(frame) = next_with_key_behind(log, file_end, end)?
            && frame.physical_offset < file_begin
        {
            // The keys of the last message may be split over this file and the missing one: it is made again too.
            return Ok(gap(
                file_end,
                "keys of messages between two files are missing",
            ));
        }
    }
    let last = index.last_physical_offset();
    if last >= begin && next_with_key_behind(log, last, end)?.is_some() {
        return Ok(gap(last, "keys of the latest messages are missing"));
    }
    sampled_keys(log, index, end)
}

/// Looks up the first message with a key of each sample.
fn sampled_keys<L: MessageLog>(log: &L, index: &KeyIndex, end: i64) -> Result<Option<Gap>, Error> {
    for (from, _) in windows(log, end) {
        let Some(frame) = next_with_key(log, from, end)? else {
            continue;
        };
        let Ok(view) = FrameView::parse(&frame.bytes) else {
            continue;
        };
        let record = Record::of(&view);
        let Some(key) = record.keys().next() else {
            continue;
        };
        let (time, mut found) = (record.store_timestamp, false);
        index.visit(record.topic, key, time, time, |physical_offset| {
            found = physical_offset == frame.physical_offset;
            if found {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if !found {
            return Ok(Some(Gap {
                resume_at: frame.physical_offset,
                what: format!(
                    "index: a key of the message at {} is missing (hash {})",
                    frame.physical_offset,
                    TopicHash::of(record.topic).key(key)
                ),
            }));
        }
    }
    Ok(None)
}

/// Parts of the log to look up.
fn windows<L: MessageLog>(log: &L, end: i64) -> Vec<(i64, i64)> {
    let begin = log.min_offset();
    if end - begin <= SAMPLED_BYTES {
        return vec![(begin, end)];
    }
    let mut starts = vec![begin];
    let mut next = log.next_file(begin);
    while next < end {
        starts.push(next);
        next = log.next_file(next).max(next + 1);
    }
    let share = (SAMPLED_BYTES / (starts.len() as i64)).max(SAMPLE_BYTES);
    starts
        .into_iter()
        .map(|start| (start, (start + share).min(end)))
        .collect()
}

/// The next record that can be read. What is damaged is found, and named, when it is asked for.
pub(crate) fn next_sound(frames: &mut impl Frames) -> Result<Option<LogFrame>, Error> {
    loop {
        match frames.next_frame() {
            Err(Error::Log { .. }) if frames.skip_damage().is_some() => {}
            next => return next,
        }
    }
}

/// What is wrong with the unit of a record, if something is.
fn missing_unit<L: MessageLog>(
    log: &L,
    queues: &ConsumeQueues,
    frame: &LogFrame,
    topic_exists: &dyn Fn(&str) -> bool,
) -> Result<Option<Gap>, Error> {
    let Ok(view) = FrameView::parse(&frame.bytes) else {
        return Ok(None);
    };
    let record = Record::of(&view);
    if !record.is_queued() {
        return Ok(None);
    }
    let name = || {
        format!(
            "{}-{} offset {}",
            record.topic, record.queue_id, record.queue_offset
        )
    };
    let Some(queue) = queues
        .queue(record.topic, record.queue_id)
        .filter(|queue| queue.max_offset() > 0)
    else {
        return Ok(topic_exists(record.topic).then(|| Gap {
            resume_at: 0,
            what: format!("{}: the queue is missing", name()),
        }));
    };
    let at = record.queue_offset.min(queue.max_offset() - 1);
    let unit = queue.raw_unit(at)?.unwrap_or(Unit::BLANK);
    let in_place = at == record.queue_offset && unit.physical_offset == frame.physical_offset;
    // A later message in this place: the queue began anew after the record, as when its topic was deleted.
    let superseded = unit.is_message()
        && unit.physical_offset > frame.physical_offset
        && log
            .message(unit.physical_offset, unit.size as usize)
            .is_some();
    if (in_place && unit.is_message()) || superseded {
        return Ok(None);
    }
    Ok(Some(Gap {
        resume_at: last_before(&queue, at, frame.physical_offset)?,
        what: format!("{}: the unit is missing", name()),
    }))
}

/// Physical end of the last message at or in front of a queue offset that precedes a record; 0 if there is none.
fn last_before(
    queue: &ConsumeQueue,
    queue_offset: i64,
    physical_offset: i64,
) -> Result<i64, Error> {
    for at in [queue_offset, queue_offset - 1] {
        let unit = queue.raw_unit(at.max(0))?;
        if let Some(unit) =
            unit.filter(|unit| unit.is_message() && unit.physical_offset < physical_offset)
        {
            return Ok(unit.physical_end());
        }
    }
    Ok(0)
}

fn has_key(frame: &LogFrame) -> bool {
    FrameView::parse(&frame.bytes).is_ok_and(|view| {
        let record = Record::of(&view);
        record.is_indexed() && record.keys().next().is_some()
    })
}

/// The first record with a key in `[from, end)`, if it comes soon.
fn next_with_key<L: MessageLog>(log: &L, from: i64, end: i64) -> Result<Option<LogFrame>, Error> {
    let mut frames = log.frames(from);
    for _ in 0..KEYLESS_RECORDS {
        match next_sound(&mut frames)?.filter(|frame| frame.physical_offset < end) {
            None => return Ok(None),
            Some(frame) if has_key(&frame) => return Ok(Some(frame)),
            Some(_) => {}
        }
    }
    Ok(None)
}

/// As [`next_with_key`], behind the record that begins at `record`.
fn next_with_key_behind<L: MessageLog>(
    log: &L,
    record: i64,
    end: i64,
) -> Result<Option<LogFrame>, Error> {
    match next_sound(&mut log.frames(record))? {
        Some(frame) => next_with_key(log, frame.physical_end(), end),
        None => Ok(None),
    }
}

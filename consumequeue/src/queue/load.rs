//! Opening a queue: which files count, where it ends, what is damaged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dledger::fs::DirEntry;
use tracing::warn;

use super::{BLOCK, ConsumeQueue, QueueFiles, UNIT};
use crate::error::Error;
use crate::unit::{UNIT_SIZE, Unit, units_in};

/// Files from the end that are read whole when the last stop was not clean, as Java does.
const SCANNED_FILES: i64 = 3;

/// Units behind the end of a queue that are looked at for something that a lost page would have left there.
const EVIDENCE_UNITS: i64 = 3000;

/// A part of a queue that is not what it should be. The queue was cut in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Physical offset from which the log must be read to make the part again; 0 for the log's begin.
    pub resume_at: i64,
    /// What was found, for the log.
    pub what: String,
}

/// Start and length of a file of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFile {
    pub start: i64,
    pub len: u64,
}

/// Picks the files of a queue out of a folder: 20 digits; everything else is left alone.
pub(crate) fn queue_files(entries: &[DirEntry]) -> (Vec<QueueFile>, usize) {
    let files: Vec<_> = entries
        .iter()
        .filter(|entry| !entry.is_dir && entry.name.len() == 20)
        .filter_map(|entry| {
            Some(QueueFile {
                start: entry.name.parse().ok().filter(|start| *start >= 0)?,
                len: entry.len,
            })
        })
        .collect();
    let foreign = entries.len() - files.len();
    (files, foreign)
}

impl ConsumeQueue {
    /// Opens a queue whose folder holds `found`, ascending. Files that cannot belong to it are removed: they are
    /// made again from the log.
    pub(crate) fn load(
        files: Arc<QueueFiles>,
        topic: Arc<str>,
        queue_id: i32,
        found: &[QueueFile],
    ) -> Result<(ConsumeQueue, Option<Damage>), Error> {
        let queue = ConsumeQueue::empty(files, topic, queue_id);
        let (good, mut what) = queue.sound_front(found)?;
        for extra in found[good..].iter().rev() {
            queue.remove_loaded(extra.start)?;
        }
        let kept = &found[..good];
        let Some(first) = kept.first() else {
            let damage = what.map(|what| Damage { resume_at: 0, what });
            return Ok((queue, damage));
        };
        queue.first_file.store(first.start, Ordering::Release);
        let mut last = kept.len() - 1;
        // Files that were made but never written, as after a crash.
        while last > 0 && !queue.unit_on_disk(kept[last].start / UNIT)?.is_written() {
            queue.remove_loaded(kept[last].start)?;
            last -= 1;
        }
        if let Some((file, problem)) = queue.first_unsound(&kept[..last])? {
            for extra in kept[file + 1..=last].iter().rev() {
                queue.remove_loaded(extra.start)?;
            }
            last = file;
            what = Some(problem);
        }
        let end = queue.end_in_file(kept[last].start)?;
        if last > 0 && end * UNIT == kept[last].start {
            queue.remove_loaded(kept[last].start)?;
        }
        queue.max.store(end, Ordering::Release);
        queue.min.store(first.start / UNIT, Ordering::Release);
        queue.drop_trailing_filler()?;
        let damage = what.map(|what| Damage {
            resume_at: queue.physical_end(),
            what,
        });
        Ok((queue, damage))
    }

    /// How many files from the front have the right size and follow each other; and what is wrong with the next.
    fn sound_front(&self, found: &[QueueFile]) -> Result<(usize, Option<String>), Error> {
        let size = self.files.file_size;
        let mut expected = found.first().map_or(0, |file| file.start);
        for (index, file) in found.iter().enumerate() {
            let name = super::file_name(file.start);
            if file.len == 0 && index + 1 == found.len() {
                // Made, but not yet given its size.
                return Ok((index, None));
            }
            if file.start % size != 0 || file.start != expected {
                return Ok((
                    index,
                    Some(format!("file {name} does not follow at {expected}")),
                ));
            }
            if file.len != size as u64 {
                return Ok((index, Some(format!("file {name} has {} bytes", file.len))));
            }
            expected += size;
        }
        Ok((found.len(), None))
    }

    /// The first of the files, all of which have a successor, whose first or last unit was not written or does
    /// not name a later message than what is in front of it.
    fn first_unsound(&self, full: &[QueueFile]) -> Result<Option<(usize, String)>, Error> {
        let per_file = self.files.file_size / UNIT;
        let mut previous = -1;
        for (index, file) in full.iter().enumerate() {
            let first = file.start / UNIT;
            for at in [first, first + per_file - 1] {
                let unit = self.unit_on_disk(at)?;
                let rises = unit.is_blank() || unit.physical_offset > previous;
                if !unit.is_written() || !rises {
                    return Ok(Some((index, format!("unit {at} is not valid: {unit:?}"))));
                }
                if unit.is_message() {
                    previous = unit.physical_offset;
                }
            }
        }
        Ok(None)
    }

    /// The offset behind the last unit of a file: units are written from the front.
    fn end_in_file(&self, start: i64) -> Result<i64, Error> {
        let first = start / UNIT;
        let (mut low, mut high) = (first, first + self.files.file_size / UNIT);
        // Most queues are short: the first look is at the front.
        let mut probe = low;
        while low < high {
            let count = BLOCK.min(high - probe);
            let written = self.read_block(probe, count, |bytes| {
                units_in(bytes).take_while(Unit::is_written).count() as i64
            })?;
            if written == count {
                low = probe + count;
            } else if written > 0 || probe == low {
                return Ok(probe + written);
            } else {
                high = probe;
            }
            probe = low + (high - low) / 2;
        }
        Ok(low)
    }

    fn unit_on_disk(&self, at: i64) -> Result<Unit, Error> {
        const ZERO: Unit = Unit {
            physical_offset: 0,
            size: 0,
            tags_code: 0,
        };
        self.read_block(at, 1, |bytes| Unit::decode(bytes).unwrap_or(ZERO))
    }

    /// A queue ends with a message: filler and unwritten units behind the last one are cut off.
    pub(crate) fn drop_trailing_filler(&self) -> Result<(), Error> {
        let first = self.first_file.load(Ordering::Acquire).max(0) / UNIT;
        let mut end = self.max_offset();
        while end > first {
            let file_first = end - 1 - (end - 1).rem_euclid(self.files.file_size / UNIT);
            let from = (end - BLOCK).max(file_first).max(first);
            let kept = self.read_block(from, end - from, |bytes| {
                units_in(bytes).rposition(|unit| unit.is_message())
            })?;
            if let Some(index) = kept {
                end = from + index as i64 + 1;
                break;
            }
            end = from;
        }
        self.cut(end)?;
        self.drop_empty_queue()?;
        self.restore_physical_end(first, self.max_offset())
    }

    /// Cuts off every unit that names something at or behind `physical_end` of the log, or that was not written.
    pub(crate) fn cut_beyond(&self, physical_end: i64) -> Result<bool, Error> {
        let first = self.first_file.load(Ordering::Acquire).max(0) / UNIT;
        let before = self.max_offset();
        if before == first || self.physical_end() <= physical_end {
            return Ok(false);
        }
        let end =
            self.partition_point(first..before, |unit| unit.physical_end() <= physical_end)?;
        self.cut(end)?;
        self.drop_trailing_filler()?;
        Ok(true)
    }

    /// Reads the last files whole and cuts the queue at the first unit that was not written or does not name a
    /// later message; a damage if something stands behind it, which shows that units were lost.
    pub(crate) fn scan_tail(&self) -> Result<Option<Damage>, Error> {
        let Some(range) = self.file_range() else {
            return Ok(None);
        };
        let from = (range.end - SCANNED_FILES * self.files.file_size).max(range.start);
        let end = self.max_offset();
        let mut previous = -1;
        let mut at = from / UNIT;
        while at < end {
            let count = FILE_BLOCK.min(self.next_file_offset(at).min(end) - at);
            let valid = self.read_block(at, count, |bytes| valid_run(bytes, &mut previous))?;
            at += valid;
            if valid < count {
                break;
            }
        }
        let lost = at < end || self.something_behind(at)?;
        self.cut(at)?;
        self.zero_behind(at, i64::MAX)?;
        self.drop_trailing_filler()?;
        Ok(lost.then(|| Damage {
            resume_at: self.physical_end(),
            what: format!("unit {at} was not written, but something behind it was"),
        }))
    }

    fn something_behind(&self, at: i64) -> Result<bool, Error> {
        let count = EVIDENCE_UNITS.min(self.next_file_offset(at) - at);
        if !self.has_room_on_disk(at) {
            return Ok(false);
        }
        self.read_block(at, count, |bytes| bytes.iter().any(|byte| *byte != 0))
    }

    /// Overwrites with zeros what a crash left in the `units` places from `at` on, within the file.
    pub(crate) fn zero_behind(&self, at: i64, units: i64) -> Result<(), Error> {
        if !self.has_room_on_disk(at) {
            return Ok(());
        }
        let start = at * UNIT - (at * UNIT).rem_euclid(self.files.file_size);
        let file_end = self.next_file_offset(at).min(at.saturating_add(units));
        let mut from = at;
        while from < file_end {
            let count = FILE_BLOCK.min(file_end - from);
            let dirty =
                self.read_block(from, count, |bytes| bytes.iter().any(|byte| *byte != 0))?;
            if dirty {
                let zeros = vec![0; count as usize * UNIT_SIZE];
                self.file(start)?
                    .write_all_at(&zeros, (from * UNIT - start) as u64)
                    .map_err(Error::io("clear consume queue", self.path(start)))?;
                self.writer.lock().dirty.push(start);
            }
            from += count;
        }
        Ok(())
    }

    /// Whether the file that would hold the unit exists.
    fn has_room_on_disk(&self, at: i64) -> bool {
        self.file_range()
            .is_some_and(|range| range.contains(&(at * UNIT)))
    }

    fn remove_loaded(&self, start: i64) -> Result<(), Error> {
        let path = self.path(start);
        warn!(file = %path.display(), "removing a consume queue file that holds nothing usable");
        self.files
            .fs
            .remove_file(&path)
            .map_err(Error::io("remove consume queue", &path))?;
        self.writer.lock().names_changed = true;
        Ok(())
    }
}

/// Units read at once when a file is read whole.
const FILE_BLOCK: i64 = 3000;

/// How many units from the front are written and name ever later messages.
fn valid_run(bytes: &[u8], previous: &mut i64) -> i64 {
    units_in(bytes)
        .take_while(|unit| {
            let valid = unit.is_blank() || (unit.is_written() && unit.physical_offset > *previous);
            if valid && unit.is_message() {
                *previous = unit.physical_offset;
            }
            valid
        })
        .count() as i64
}

//! Writing a queue: append, fill holes, restart, cut, sync, retention.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{BLOCK, ConsumeQueue, DivCeilSize, UNIT, Writer};
use crate::error::Error;
use crate::unit::{UNIT_SIZE, Unit, units_in};

/// Filler written at once.
const FILL_UNITS: i64 = 3000;

/// What [`ConsumeQueue::apply`] did besides appending.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Offsets that had no message and were given filler.
    pub hole: Option<Range<i64>>,
    /// Offset from which other units stood here and were replaced: the queue began anew there.
    pub restarted_at: Option<i64>,
    /// The hole was too large to be true; nothing was written.
    pub refused: bool,
    /// Units that were new.
    pub appended: i64,
}

impl ConsumeQueue {
    /// Puts consecutive units at `start` and behind.
    ///
    /// Units that are already there are left. A hole in front of them is filled with filler. If others are there,
    /// the queue is cut and goes on with these: a lower offset later in the log means that the queue began anew
    /// (its topic was deleted, or its tail was lost), and what had followed is no longer part of it.
    pub(crate) fn apply(&self, start: i64, units: &[u8]) -> Result<Applied, Error> {
        let mut writer = self.writer.lock();
        let mut applied = Applied::default();
        let count = (units.len() / UNIT_SIZE) as i64;
        if self.is_removed() || count == 0 || start < 0 {
            applied.refused = start < 0;
            return Ok(applied);
        }
        let end = self.max_offset();
        let mut skip = 0;
        if self.has_no_unit() {
            if start != end || self.first_file.load(Ordering::Acquire) < 0 {
                self.begin_at(&mut writer, start)?;
            }
        } else if start > end {
            if start - end > self.files.max_hole {
                applied.refused = true;
                return Ok(applied);
            }
            applied.hole = Some(end..start);
            let nothing_to_read = self.min_offset() == end;
            self.write_filler(&mut writer, end..start)?;
            if nothing_to_read {
                self.min.store(start, Ordering::Release);
            }
        } else if start < end {
            skip = self.equal_units(start, units, end)?;
            if skip == count {
                return Ok(applied);
            }
            if start + skip < end {
                applied.restarted_at = Some(start + skip);
                self.cut_to(&mut writer, start + skip)?;
                if self.has_no_unit() {
                    self.begin_at(&mut writer, start + skip)?;
                }
            }
        }
        let new = &units[skip as usize * UNIT_SIZE..];
        self.write(&mut writer, start + skip, new)?;
        applied.appended = count - skip;
        Ok(applied)
    }

    /// Whether the queue was changed since the last sync and is not yet in the list of such queues; the caller
    /// puts it there.
    pub(crate) fn take_listing(&self) -> bool {
        let mut writer = self.writer.lock();
        let changed = !writer.dirty.is_empty() || writer.names_changed;
        changed && !std::mem::replace(&mut writer.listed, true)
    }

    /// Makes everything written before the call durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let (dirty, names_changed) = {
            let mut writer = self.writer.lock();
            writer.listed = false;
            (
                std::mem::take(&mut writer.dirty),
                std::mem::take(&mut writer.names_changed),
            )
        };
        if self.is_removed() {
            return Ok(());
        }
        for start in dirty {
            let file = match self.file(start) {
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                file => file?,
            };
            file.sync()
                .map_err(Error::io("sync consume queue", self.path(start)))?;
        }
        if names_changed {
            self.files
                .fs
                .sync_dir(&self.dir)
                .map_err(Error::io("sync folder", &self.dir))?;
        }
        Ok(())
    }

    /// Cuts the queue so that `end` is the next offset; units behind it are overwritten with zeros and files
    /// behind it removed, so that nothing of them comes back.
    pub(crate) fn cut(&self, end: i64) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        if end < self.max_offset() {
            self.cut_to(&mut writer, end)?;
        }
        Ok(())
    }

    /// Forgets the queue: nothing is written any more.
    pub(crate) fn mark_removed(&self) {
        let _writer = self.writer.lock();
        self.removed.store(true, Ordering::Release);
        for start in self.file_offsets() {
            self.files.descriptors.forget(self.key(start * UNIT));
        }
    }

    /// Removes the files, but never the last, all of whose messages lie below `log_min`; returns how many.
    pub(crate) fn expire(&self, log_min: i64) -> Result<usize, Error> {
        let mut writer = self.writer.lock();
        let mut removed = 0;
        while let Some(range) = self.file_range() {
            let next = range.start + self.files.file_size;
            if next >= range.end {
                break;
            }
            let last = self.last_message(range.start / UNIT, next / UNIT)?;
            if last.is_some_and(|last| last.physical_offset >= log_min) {
                break;
            }
            // Readers are told first, so that none opens a file that is about to go.
            self.min.fetch_max(next / UNIT, Ordering::AcqRel);
            self.first_file.store(next, Ordering::Release);
            self.remove_file(&mut writer, range.start)?;
            removed += 1;
        }
        Ok(removed)
    }

    pub(super) fn has_no_unit(&self) -> bool {
        let first = self.first_file.load(Ordering::Acquire);
        first < 0 || self.max_offset() * UNIT <= first
    }

    /// How many of the given units, in front, are already there.
    fn equal_units(&self, start: i64, units: &[u8], end: i64) -> Result<i64, Error> {
        let first = self.first_file.load(Ordering::Acquire);
        let count = ((units.len() / UNIT_SIZE) as i64).min(end - start);
        let mut equal = 0;
        while equal < count && (start + equal) * UNIT >= first {
            let at = start + equal;
            let block = BLOCK.min(count - equal).min(self.next_file_offset(at) - at);
            let given = &units[equal as usize * UNIT_SIZE..];
            let same = self.read_block(at, block, |there| {
                there
                    .chunks_exact(UNIT_SIZE)
                    .zip(given.chunks_exact(UNIT_SIZE))
                    .take_while(|(there, given)| there == given)
                    .count() as i64
            })?;
            equal += same;
            if same < block {
                break;
            }
        }
        Ok(equal)
    }

    /// Begins a queue without units at `start`: filler up to it from the begin of its file.
    fn begin_at(&self, writer: &mut Writer, start: i64) -> Result<(), Error> {
        let position = start * UNIT;
        let file = position - position.rem_euclid(self.files.file_size);
        if let Some(range) = self.file_range() {
            for old in range.step_by(self.files.file_size as usize) {
                self.remove_file(writer, old)?;
            }
        }
        self.physical_end.store(0, Ordering::Release);
        self.max.store(file / UNIT, Ordering::Release);
        self.create_file(writer, file)?;
        self.first_file.store(file, Ordering::Release);
        self.write_filler(writer, file / UNIT..start)?;
        self.min.store(start, Ordering::Release);
        Ok(())
    }

    fn write_filler(&self, writer: &mut Writer, range: Range<i64>) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let count = FILL_UNITS.min(range.end - at);
            let filler = Unit::BLANK.encode().repeat(count as usize);
            self.write(writer, at, &filler)?;
            at += count;
        }
        Ok(())
    }

    /// Writes units at the end of the queue, over as many files as they need, and publishes them.
    fn write(&self, writer: &mut Writer, start: i64, units: &[u8]) -> Result<(), Error> {
        let mut at = start;
        let mut rest = units;
        while !rest.is_empty() {
            let position = at * UNIT;
            let file_start = position - position.rem_euclid(self.files.file_size);
            let room = (self.next_file_offset(at) - at) as usize * UNIT_SIZE;
            let (now, later) = rest.split_at(room.min(rest.len()));
            let new_file = position == file_start && !self.has_file(file_start);
            let file = if new_file {
                self.create_file(writer, file_start)?
            } else {
                self.file(file_start)?
            };
            file.write_all_at(now, (position - file_start) as u64)
                .map_err(Error::io("write consume queue", self.path(file_start)))?;
            if writer.dirty.last() != Some(&file_start) {
                writer.dirty.push(file_start);
            }
            at += (now.len() / UNIT_SIZE) as i64;
            if let Some(last) = units_in(now).rev().find(Unit::is_message) {
                self.physical_end
                    .store(last.physical_end(), Ordering::Release);
            }
            self.max.store(at, Ordering::Release);
            rest = later;
        }
        Ok(())
    }

    fn has_file(&self, start: i64) -> bool {
        self.file_range()
            .is_some_and(|range| range.contains(&start))
    }

    fn create_file(
        &self,
        writer: &mut Writer,
        start: i64,
    ) -> Result<Arc<dyn dledger::fs::File>, Error> {
        let path = self.path(start);
        if self.first_file.load(Ordering::Acquire) < 0 {
            self.files
                .fs
                .create_dir_all(&self.dir)
                .map_err(Error::io("create folder", &self.dir))?;
        }
        let file = self
            .files
            .descriptors
            .create(self.key(start), &path, self.files.file_size as u64)
            .map_err(Error::io("create consume queue", &path))?;
        if self.first_file.load(Ordering::Acquire) < 0 {
            self.first_file.store(start, Ordering::Release);
        }
        writer.names_changed = true;
        writer.dirty.push(start);
        Ok(file)
    }

    fn cut_to(&self, writer: &mut Writer, end: i64) -> Result<(), Error> {
        let Some(range) = self.file_range() else {
            return Ok(());
        };
        let old_end = self.max_offset() * UNIT;
        let keep = (end * UNIT).max(range.start);
        self.max.store(keep / UNIT, Ordering::Release);
        self.min.fetch_min(keep / UNIT, Ordering::AcqRel);
        // A file that would be left without a unit goes too, except the first, which keeps the position.
        let size = self.files.file_size;
        let first_gone = keep.div_ceil_size(size).max(range.start + size);
        let mut last = range.end - size;
        while last >= first_gone {
            self.remove_file(writer, last)?;
            last -= size;
        }
        let file_start = keep - keep.rem_euclid(self.files.file_size);
        let zero_end = old_end.min(file_start + self.files.file_size);
        if keep < first_gone && keep < zero_end {
            let zeros = vec![0; (zero_end - keep) as usize];
            self.file(file_start)?
                .write_all_at(&zeros, (keep - file_start) as u64)
                .map_err(Error::io("cut consume queue", self.path(file_start)))?;
            writer.dirty.push(file_start);
        }
        self.restore_physical_end(range.start / UNIT, keep / UNIT)
    }

    /// A queue without units has no file, unless the file tells that offsets do not begin at 0.
    pub(super) fn drop_empty_queue(&self) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        if self.first_file.load(Ordering::Acquire) == 0 && self.max_offset() == 0 {
            self.remove_file(&mut writer, 0)?;
            self.first_file.store(-1, Ordering::Release);
        }
        Ok(())
    }

    /// Sets the physical end to that of the last message named in `[first, end)`.
    pub(super) fn restore_physical_end(&self, first: i64, end: i64) -> Result<(), Error> {
        let last = self.last_message(first, end)?;
        let physical_end = last.map_or(0, |unit| unit.physical_end());
        self.physical_end.store(physical_end, Ordering::Release);
        Ok(())
    }

    /// The last unit in `[first, end)` that names a message.
    fn last_message(&self, first: i64, end: i64) -> Result<Option<Unit>, Error> {
        let per_file = self.files.file_size / UNIT;
        let mut behind = end;
        while behind > first {
            let file_first = behind - 1 - (behind - 1).rem_euclid(per_file);
            let from = (behind - BLOCK).max(file_first).max(first);
            let found = self.read_block(from, behind - from, |bytes| {
                units_in(bytes).rev().find(Unit::is_message)
            })?;
            if found.is_some() {
                return Ok(found);
            }
            behind = from;
        }
        Ok(None)
    }

    fn remove_file(&self, writer: &mut Writer, start: i64) -> Result<(), Error> {
        self.files.descriptors.forget(self.key(start));
        writer.dirty.retain(|dirty| *dirty != start);
        writer.names_changed = true;
        match self.files.fs.remove_file(&self.path(start)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove consume queue", self.path(start))(source))
            }
            _ => Ok(()),
        }
    }
}

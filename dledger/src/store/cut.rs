//! Cutting the end of a log, and replacing a log as a whole.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::{ReadError, StoreError};
use super::shared::{Shared, Synced};
use super::sidecar::Note;
use super::{EntryAt, Store};
use crate::checkpoint::{self, Checkpoint};
use crate::entry::{BLANK_SIZE, Entry};
use crate::index_unit::{IndexUnit, UNIT_SIZE};

impl Store {
    /// Removes the entries from `index` on, durably: where they lay there are zeros, so that no later start finds
    /// them again. The first entry of a log is replaced by [`Store::reset_to`] only. Waits for a running sync.
    ///
    /// A slice of the cut bytes that a reader still holds shows the old bytes or zeros.
    pub fn truncate_from(&mut self, index: i64) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let _alone = shared.cutting.lock();
        let mut synced = shared.flush.lock();
        shared.check_poisoned()?;
        let (begin, end) = (self.begin_index(), self.end_index());
        if index > end {
            return Ok(());
        }
        if index <= begin {
            return Err(ReadError::BelowBegin {
                wanted: index,
                begin: begin + 1,
            }
            .into());
        }
        let missing = |index| ReadError::Damaged {
            pos: -1,
            reason: format!("no index unit of entry {index}"),
        };
        let first_cut = shared.unit(index).ok_or_else(|| missing(index))?;
        let last_kept = shared.unit(index - 1).ok_or_else(|| missing(index - 1))?;
        // What is zeroed begins right after the last entry, so a blank between the two goes as well.
        let cut = last_kept.pos + i64::from(last_kept.size);
        let old_end = self.end_pos;
        self.lower_checkpoint(last_kept.index)?;
        self.publish_end(&last_kept, cut);
        self.lower_note(&mut synced, &last_kept, old_end)
            .and_then(|()| self.erase(cut, old_end, first_cut.index))
            .map_err(|e| shared.poison(format!("cutting the log at {cut} failed: {e}")))?;
        self.use_last_files()
    }

    /// Before anything is cut: the checkpoint names nothing that goes. What is committed is never cut in a sound
    /// group, so this is for an operator's repair, and for a log that is replaced.
    fn lower_checkpoint(&mut self, last_index: i64) -> Result<(), StoreError> {
        let found = checkpoint::load(&*self.shared.fs, &self.config.base)
            .map_err(|e| StoreError::io("reading the checkpoint", e))?;
        let Some(found) = found.filter(|found| found.committed_index > last_index) else {
            return Ok(());
        };
        tracing::warn!(
            "the checkpoint says that entry {} was committed; the log is cut behind entry {last_index}",
            found.committed_index
        );
        self.save_checkpoint(Checkpoint {
            committed_index: last_index,
            end_index: last_index,
        })
    }

    fn publish_end(&mut self, last: &IndexUnit, end_pos: i64) {
        self.next_index = last.index + 1;
        self.end_term = last.term;
        self.end_pos = end_pos;
        self.shared.end_index.store(last.index, Ordering::Release);
        self.shared.end_term.store(last.term, Ordering::Relaxed);
        self.shared.end_pos.store(end_pos, Ordering::Release);
    }

    /// Before the first byte is cut: the note of what is synced no longer names anything behind the cut, and says
    /// that it is under way.
    fn lower_note(&self, synced: &mut Synced, last: &IndexUnit, erase_to: i64) -> io::Result<()> {
        // A synced blank behind the last kept entry is cut too.
        synced.end_pos = synced.end_pos.min(last.pos + i64::from(last.size));
        self.shared
            .synced_pos
            .store(synced.end_pos, Ordering::Release);
        let mut sidecar = self.shared.sidecar.lock();
        let mut note = sidecar.note();
        if synced.end_index > last.index {
            synced.end_index = last.index;
            note = self
                .shared
                .note_of(last, note.limit_pos)
                .ok_or_else(|| io::Error::other("the last entry to keep cannot be read"))?;
        }
        note.erase_to = erase_to;
        sidecar.write_durable(note)
    }

    /// Zeros `[cut, old_end)` of the data and the units from `index` on; removes the files behind.
    fn erase(&self, cut: i64, old_end: i64, index: i64) -> io::Result<()> {
        let shared = &self.shared;
        shared.remove_spares().map_err(io::Error::other)?;
        let data_file = shared.data.start_of(cut);
        shared.data.remove_from(data_file + shared.data.file_size)?;
        if let Some(segment) = shared.data.get(cut) {
            let end = old_end
                .min(segment.end())
                .max((cut + BLANK_SIZE as i64).min(segment.end()));
            segment.map.zero(segment.offset(cut), (end - cut) as u64)?;
            segment.map.sync(segment.offset(cut), (end - cut) as u64)?;
        }
        let unit_pos = index * UNIT_SIZE as i64;
        let index_file = shared.index.start_of(unit_pos);
        shared
            .index
            .remove_from(index_file + shared.index.file_size)?;
        if let Some(segment) = shared.index.get(unit_pos) {
            segment.zero_tail(unit_pos, unit_pos)?;
        }
        let mut sidecar = shared.sidecar.lock();
        let done = Note {
            erase_to: 0,
            ..sidecar.note()
        };
        sidecar.write(done)
    }

    fn use_last_files(&mut self) -> Result<(), StoreError> {
        let last = self.shared.data.last();
        self.active = last.ok_or_else(|| self.shared.poison("no data file is left".to_owned()))?;
        self.active_index = self.shared.index.last();
        // Behind the end of a file found on disk nothing is known to be reserved.
        if self.active.prepared_end() < self.end_pos {
            self.active.set_written(self.end_pos);
        }
        let unit_pos = self.next_index * UNIT_SIZE as i64;
        if let Some(segment) = self
            .active_index
            .as_ref()
            .filter(|s| s.prepared_end() < unit_pos.min(s.end()))
        {
            segment.set_written(unit_pos.min(segment.end()));
        }
        self.room_end = i64::MIN;
        self.index_room_end = i64::MIN;
        Ok(())
    }

    /// Replaces the whole log by one that begins with `first`, at its index and position: how a member starts over
    /// whose log the leader no longer continues. Durable when it returns. A crash in between leaves an empty log
    /// (whose first entry may then be any), never a mixture.
    pub fn reset_to(&mut self, first: &Entry) -> Result<EntryAt, StoreError> {
        let size = self.check_size(first.body.len())?;
        let start = self.shared.data.start_of(first.pos);
        let wrong = |field, found, expected| {
            Err(StoreError::OutOfOrder {
                field,
                found,
                expected,
            })
        };
        if first.magic != crate::entry::MAGIC {
            return wrong("magic", first.magic.into(), crate::entry::MAGIC.into());
        }
        if i64::from(first.size) != size as i64 {
            return wrong("size", first.size.into(), size as i64);
        }
        if first.index < 0 || first.pos < 0 || first.term < 0 {
            return wrong("index", first.index.min(first.pos).min(first.term), 0);
        }
        let room = start + self.shared.data.file_size - first.pos;
        if (size + BLANK_SIZE) as i64 > room {
            return wrong("pos", first.pos, start + self.shared.data.file_size);
        }
        let shared = Arc::clone(&self.shared);
        let _alone = shared.cutting.lock();
        let mut synced = shared.flush.lock();
        shared.check_poisoned()?;
        self.wipe(&shared, &mut synced, first, start)
            .map_err(|e| shared.poison(format!("replacing the log failed: {e}")))?;
        drop(synced);
        let at = self.append_entry(first)?;
        self.flusher().sync()?;
        Ok(at)
    }

    fn wipe(
        &mut self,
        shared: &Arc<Shared>,
        synced: &mut Synced,
        first: &Entry,
        start: i64,
    ) -> Result<(), StoreError> {
        let io = |e| StoreError::io("replacing the log", e);
        shared.end_index.store(-1, Ordering::Release);
        shared.begin_index.store(-1, Ordering::Release);
        let limit = shared.sidecar.lock().note().limit_pos;
        let limit = limit.max(start + shared.data.file_size);
        let nothing = Note::nothing(first.index, first.pos, limit);
        shared
            .sidecar
            .lock()
            .write_durable(Note {
                resetting: true,
                ..nothing
            })
            .map_err(io)?;
        self.lower_checkpoint(-1)?;
        shared.remove_spares()?;
        shared.data.remove_from(i64::MIN).map_err(io)?;
        shared.index.remove_from(i64::MIN).map_err(io)?;
        shared.sidecar.lock().write_durable(nothing).map_err(io)?;
        let segment = shared.create_data_file(start)?;
        segment.set_written(first.pos);
        shared.data.push(segment);
        *synced = Synced {
            end_index: -1,
            end_pos: first.pos,
        };
        shared.first_pos.store(first.pos, Ordering::Release);
        shared.end_term.store(-1, Ordering::Relaxed);
        shared.end_pos.store(first.pos, Ordering::Release);
        self.next_index = first.index;
        self.end_term = -1;
        self.end_pos = first.pos;
        self.use_last_files()
    }
}

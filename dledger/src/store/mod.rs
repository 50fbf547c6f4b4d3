//! The log on disk: data files with entries, index files with one unit per entry.
//!
//! One [`Store`] writes. Any number of [`Reader`]s read what is published, without a lock that the writer holds;
//! a [`Flusher`] makes it durable and a [`Preparer`] makes files ahead, both on threads of their own.

mod config;
mod cut;
mod error;
mod expire;
pub(crate) mod files;
mod flusher;
mod preparer;
mod reader;
pub(crate) mod shared;
pub(crate) mod sidecar;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use byteorder::{BigEndian, ByteOrder};

pub use self::config::{BodyCheck, EntryAt, NoCheck, StoreConfig};
pub use self::error::{ReadError, StoreError};
pub use self::expire::{Expired, Expirer, RetentionPolicy, SegmentInfo, Situation, Sweep};
use self::files::Segment;
pub use self::flusher::Flusher;
pub use self::preparer::Preparer;
pub use self::reader::Reader;
use self::shared::Shared;
pub use self::shared::Synced;
pub use self::sidecar::FILE_NAME as SYNCED_FILE_NAME;
use crate::checkpoint::{self, Checkpoint};
use crate::entry::{BLANK_MAGIC, BLANK_SIZE, Entry, EntryHeader, HEADER_SIZE, MAX_ENTRY_SIZE};
use crate::fs::Fs;
use crate::index_unit::{IndexUnit, UNIT_SIZE};
pub use crate::recovery::{Cut, OpenError, Recovery, ShortLog};

/// The writer of a log.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    config: StoreConfig,
    /// The data file that is written to.
    active: Arc<Segment>,
    /// The index file that is written to; none before the first entry.
    active_index: Option<Arc<Segment>>,
    /// Entries that end at or before this position, and units that end at or before that one, need no system call.
    room_end: i64,
    index_room_end: i64,
    /// The writer's own copies of what it publishes.
    next_index: i64,
    end_term: i64,
    end_pos: i64,
    committed_at_open: i64,
    checkpoint: Checkpoint,
}

impl Store {
    /// Opens a log, or begins one whose entry 0 will lie at `first_pos`. See [`crate::recovery`] for what is
    /// checked, mended and refused.
    pub fn open(
        fs: Arc<dyn Fs>,
        config: StoreConfig,
        first_pos: i64,
        check: &dyn BodyCheck,
    ) -> Result<(Store, Recovery), OpenError> {
        let (shared, recovery) = crate::recovery::open(fs, &config, first_pos, check)?;
        let active = shared
            .data
            .last()
            .ok_or(OpenError::Config("no data file".to_owned()))?;
        let active_index = shared.index.last();
        let end_pos = shared.end_pos();
        active.set_written(end_pos);
        let next_index = match recovery.end_index {
            -1 => shared.sidecar.lock().note().first_index,
            end => end + 1,
        };
        if let Some(index) = &active_index {
            index.set_written((next_index * UNIT_SIZE as i64).min(index.end()));
        }
        let checkpoint = Checkpoint {
            committed_index: recovery.checkpoint_committed,
            end_index: i64::MIN,
        };
        let store = Store {
            config,
            active,
            active_index,
            room_end: i64::MIN,
            index_room_end: i64::MIN,
            next_index,
            end_term: recovery.end_term,
            end_pos,
            committed_at_open: recovery.committed_index,
            checkpoint,
            shared: Arc::new(shared),
        };
        Ok((store, recovery))
    }

    /// Index of the first entry; −1 if there is none.
    pub fn begin_index(&self) -> i64 {
        self.shared.begin_index()
    }

    /// Index of the last entry; −1 if there is none.
    pub fn end_index(&self) -> i64 {
        self.shared.end_index()
    }

    /// Term of the last entry; −1 if there is none.
    pub fn end_term(&self) -> i64 {
        self.end_term
    }

    /// Position of the first entry, or where it will lie.
    pub fn first_pos(&self) -> i64 {
        self.shared.first_pos()
    }

    /// Position after the last entry (after a blank: the start of the next file).
    pub fn end_pos(&self) -> i64 {
        self.end_pos
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.end_index() < 0
    }

    /// The committed index of the checkpoint found at the opening, never beyond the end; −1 if none.
    pub fn committed_at_open(&self) -> i64 {
        self.committed_at_open
    }

    /// Directory of the checkpoint and the vote file.
    pub fn base(&self) -> &Path {
        &self.config.base
    }

    /// The file system that it lies on.
    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.shared.fs
    }

    /// Why nothing is accepted any more, if so.
    pub fn poisoned(&self) -> Option<&str> {
        self.shared.poisoned()
    }

    /// Reads what is published.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Makes durable what is appended.
    pub fn flusher(&self) -> Flusher {
        Flusher::new(Arc::clone(&self.shared))
    }

    /// Makes room ahead of the writer.
    pub fn preparer(&self) -> Preparer {
        Preparer::new(Arc::clone(&self.shared))
    }

    /// Removes old files.
    pub fn expirer(&self) -> Expirer {
        Expirer::new(Arc::clone(&self.shared))
    }

    /// [`Expirer::segments`].
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, StoreError> {
        self.expirer().segments()
    }

    /// [`Expirer::expire`].
    pub fn expire(&mut self, sweep: &Sweep) -> Result<Expired, StoreError> {
        self.expirer().expire(sweep)
    }

    /// Whether the preparer has something to do; costs two comparisons.
    pub fn wants_preparation(&self) -> bool {
        preparer::is_wanted(&self.active, self.end_pos)
    }

    /// Appends the next entry. `write` gets the `body_len` bytes of the body, in place, and must fill all of them.
    /// The entry is published, to readers and to the disk, only after it returned.
    pub fn append(
        &mut self,
        term: i64,
        body_len: usize,
        write: &mut dyn FnMut(&mut [u8], &EntryAt),
    ) -> Result<EntryAt, StoreError> {
        if term < self.end_term {
            return Err(StoreError::OutOfOrder {
                field: "term",
                found: term,
                expected: self.end_term,
            });
        }
        let size = self.make_room(body_len)?;
        let header = EntryHeader::new(self.next_index, term, self.end_pos, body_len);
        let at = EntryAt {
            index: self.next_index,
            term,
            pos: self.end_pos,
            size: size as i32,
        };
        self.put(&header, size, &mut |body| write(body, &at));
        Ok(at)
    }

    /// Appends an entry of another member. Everything is checked before a byte is written.
    pub fn append_entry(&mut self, entry: &Entry) -> Result<EntryAt, StoreError> {
        self.check_follows(entry)?;
        let size = self.make_room(entry.body.len())?;
        let header = entry.header();
        self.put(&header, size, &mut |body| body.copy_from_slice(&entry.body));
        Ok(EntryAt {
            index: entry.index,
            term: entry.term,
            pos: entry.pos,
            size: size as i32,
        })
    }

    /// Whether an entry of `size` bytes, and the blank behind it, fit into the rest of the active file.
    fn fits(&self, size: usize) -> bool {
        self.end_pos + (size + BLANK_SIZE) as i64 <= self.active.end()
    }

    /// Position at which an entry of `size` bytes, header included, would be placed.
    pub fn place_of(&self, size: usize) -> i64 {
        if self.fits(size) {
            self.end_pos
        } else {
            self.active.end()
        }
    }

    fn check_follows(&self, entry: &Entry) -> Result<(), StoreError> {
        let size = self.check_size(entry.body.len())?;
        let wrong = |field, found, expected| {
            Err(StoreError::OutOfOrder {
                field,
                found,
                expected,
            })
        };
        if entry.magic != crate::entry::MAGIC {
            return wrong("magic", entry.magic.into(), crate::entry::MAGIC.into());
        }
        if i64::from(entry.size) != size as i64 {
            return wrong("size", entry.size.into(), size as i64);
        }
        if entry.index != self.next_index {
            return wrong("index", entry.index, self.next_index);
        }
        if entry.term < self.end_term {
            return wrong("term", entry.term, self.end_term);
        }
        let pos = self.place_of(size);
        if entry.pos != pos {
            return wrong("pos", entry.pos, pos);
        }
        Ok(())
    }

    /// Checks a body's length; gives the size of the entry.
    fn check_size(&self, body_len: usize) -> Result<usize, StoreError> {
        let size = body_len.saturating_add(HEADER_SIZE);
        let max = MAX_ENTRY_SIZE.min((self.active.size as usize).saturating_sub(BLANK_SIZE));
        if size > max {
            Err(StoreError::TooLarge { size, max })
        } else {
            Ok(size)
        }
    }

    /// After this an entry with a body of `body_len` bytes can be written at `end_pos`.
    fn make_room(&mut self, body_len: usize) -> Result<usize, StoreError> {
        let size = self.check_size(body_len)?;
        let unit_end = (self.next_index + 1) * UNIT_SIZE as i64;
        if self.end_pos + size as i64 > self.room_end || unit_end > self.index_room_end {
            self.make_room_slowly(size, unit_end)?;
        }
        self.shared.check_poisoned()?;
        Ok(size)
    }

    #[cold]
    fn make_room_slowly(&mut self, size: usize, unit_end: i64) -> Result<(), StoreError> {
        self.shared.check_poisoned()?;
        self.make_index_room(unit_end)?;
        if !self.fits(size) {
            self.roll()?;
        }
        let end = self.end_pos + size as i64;
        self.shared.raise_limit(self.active.end())?;
        self.active
            .prepare_to(end, self.active.window_end(end))
            .map_err(|e| {
                StoreError::io(
                    format!("reserving space in {}", self.active.path.display()),
                    e,
                )
            })?;
        self.room_end = self
            .active
            .prepared_end()
            .min(self.active.end() - BLANK_SIZE as i64);
        Ok(())
    }

    fn make_index_room(&mut self, unit_end: i64) -> Result<(), StoreError> {
        let unit_start = unit_end - UNIT_SIZE as i64;
        let current = self
            .active_index
            .take_if(|segment| unit_end > segment.end());
        drop(current);
        let segment = match &self.active_index {
            Some(segment) => segment,
            None => {
                let start = self.shared.index.start_of(unit_start);
                let segment = self.shared.next_index_file(start)?;
                self.active_index.insert(segment)
            }
        };
        segment
            .prepare_to(
                unit_end,
                (unit_end + preparer::INDEX_WINDOW).min(segment.end()),
            )
            .map_err(|e| {
                StoreError::io(format!("reserving space in {}", segment.path.display()), e)
            })?;
        self.index_room_end = segment.prepared_end();
        Ok(())
    }

    /// Ends the active file with a blank and goes on in the next one.
    fn roll(&mut self) -> Result<(), StoreError> {
        let next = self.shared.next_data_file(self.active.end())?;
        let rest = self.active.end() - self.end_pos;
        if rest >= BLANK_SIZE as i64 {
            let blank_end = self.end_pos + BLANK_SIZE as i64;
            self.active.prepare_to(blank_end, blank_end).map_err(|e| {
                StoreError::io(
                    format!("reserving space in {}", self.active.path.display()),
                    e,
                )
            })?;
            self.active
                .map
                .write(self.active.offset(self.end_pos), BLANK_SIZE, &mut |buf| {
                    BigEndian::write_i32(&mut buf[..4], BLANK_MAGIC);
                    BigEndian::write_i32(&mut buf[4..], rest as i32);
                });
        }
        self.end_pos = next.start;
        self.active = next;
        self.room_end = i64::MIN;
        self.shared.end_pos.store(self.end_pos, Ordering::Release);
        Ok(())
    }

    /// Writes body, header and unit, then publishes.
    fn put(&mut self, header: &EntryHeader, size: usize, write: &mut dyn FnMut(&mut [u8])) {
        let offset = self.active.offset(self.end_pos);
        self.active.map.write(offset, size, &mut |buf| {
            // The header last: without it there is no entry, whatever happens inside `write`.
            write(&mut buf[HEADER_SIZE..]);
            header.encode_into(buf);
        });
        if let Some(segment) = &self.active_index {
            let unit = IndexUnit::of(header);
            let offset = segment.offset(header.index * UNIT_SIZE as i64);
            segment
                .map
                .write(offset, UNIT_SIZE, &mut |buf| unit.encode_into(buf));
        }
        self.next_index = header.index + 1;
        self.end_term = header.term;
        self.end_pos += size as i64;
        let shared = &self.shared;
        if shared.begin_index.load(Ordering::Relaxed) < 0 {
            shared.first_pos.store(header.pos, Ordering::Release);
            shared.begin_index.store(header.index, Ordering::Release);
        }
        shared.end_term.store(self.end_term, Ordering::Relaxed);
        shared.end_pos.store(self.end_pos, Ordering::Release);
        shared.end_index.store(header.index, Ordering::Release);
    }

    /// Where an entry lies; `None` outside the log.
    pub fn unit(&self, index: i64) -> Option<EntryAt> {
        self.shared.unit(index).map(|unit| EntryAt::of(&unit))
    }

    /// An entry with its body.
    pub fn entry(&self, index: i64) -> Result<Entry, StoreError> {
        Ok(self.shared.entry(index)?)
    }

    /// Writes the checkpoint: the smaller of `committed_index` and what is synced, so that it never names an entry
    /// that a power failure could take. Does nothing if that is what it says already. Gives the index written.
    pub fn write_checkpoint(&mut self, committed_index: i64) -> Result<i64, StoreError> {
        let synced = self.shared.flush.lock().end_index;
        let new = Checkpoint {
            committed_index: committed_index.min(synced),
            end_index: synced,
        };
        if new != self.checkpoint {
            self.save_checkpoint(new)?;
        }
        Ok(new.committed_index)
    }

    fn save_checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        checkpoint::save(&*self.shared.fs, &self.config.base, &checkpoint)
            .map_err(|e| StoreError::io("writing the checkpoint", e))?;
        self.checkpoint = checkpoint;
        Ok(())
    }

    /// Ends the work on the log: syncs it, notes that nothing lies beyond its end, removes files made ahead (Java
    /// gives up at two of them) and writes the checkpoint.
    pub fn close(&mut self, committed_index: i64) -> Result<(), StoreError> {
        self.flusher().sync()?;
        self.shared.remove_spares()?;
        self.shared.note_clean_end(self.end_pos)?;
        self.room_end = i64::MIN;
        self.write_checkpoint(committed_index)?;
        Ok(())
    }
}

//! One consume queue: files of 20-byte units, named by the position of their first byte.
//!
//! The unit of queue offset `q` lies at byte `q × 20` of the queue, always: a message that is not there leaves
//! filler, it never shifts those behind it. The files are sparse and full-sized as Java expects them, read and
//! written at positions, and opened only while they are in use.
//!
//! One writer (the dispatcher, or recovery before it) appends; any number of readers look at what is published.

mod load;
mod write;

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use dledger::fs::{File, Fs};
use parking_lot::Mutex;

use crate::descriptors::{Descriptors, FileKey};
use crate::error::Error;
use crate::unit::{UNIT_SIZE, Unit, units_in};

pub(crate) use load::{Damage, QueueFile, queue_files};

/// Bytes of a unit, for positions.
pub(crate) const UNIT: i64 = UNIT_SIZE as i64;

/// Units read at once when a queue is searched.
const BLOCK: i64 = 200;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the queues of a store share.
#[derive(Debug)]
pub(crate) struct QueueFiles {
    pub fs: Arc<dyn Fs>,
    pub root: PathBuf,
    /// Bytes of a file, a multiple of 20.
    pub file_size: i64,
    pub descriptors: Descriptors,
    pub owners: AtomicU64,
    /// The most filler units that a hole may be given.
    pub max_hole: i64,
}

/// A queue of a topic.
pub struct ConsumeQueue {
    topic: Arc<str>,
    queue_id: i32,
    dir: PathBuf,
    owner: u64,
    files: Arc<QueueFiles>,
    /// Offset of the first message that the log still has.
    min: AtomicI64,
    /// Offset behind the last unit.
    max: AtomicI64,
    /// Physical offset behind the last message named, 0 if none.
    physical_end: AtomicI64,
    /// Position of the first file, -1 if there is no file.
    first_file: AtomicI64,
    removed: AtomicBool,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Files written since the last sync.
    dirty: Vec<i64>,
    /// Whether names in the folder changed since the last sync.
    names_changed: bool,
    /// Whether the queue waits in the list of dirty queues.
    listed: bool,
}

impl fmt::Debug for ConsumeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumeQueue")
            .field("topic", &self.topic)
            .field("queue_id", &self.queue_id)
            .field("min", &self.min)
            .field("max", &self.max)
            .field("physical_end", &self.physical_end)
            .finish_non_exhaustive()
    }
}

impl ConsumeQueue {
    /// A queue without files.
    pub(crate) fn empty(files: Arc<QueueFiles>, topic: Arc<str>, queue_id: i32) -> ConsumeQueue {
        ConsumeQueue {
            dir: files.root.join(&*topic).join(queue_id.to_string()),
            topic,
            queue_id,
            owner: files.owners.fetch_add(1, Ordering::Relaxed),
            files,
            min: AtomicI64::new(0),
            max: AtomicI64::new(0),
            physical_end: AtomicI64::new(0),
            first_file: AtomicI64::new(-1),
            removed: AtomicBool::new(false),
            writer: Mutex::default(),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic, shared.
    pub fn topic_arc(&self) -> Arc<str> {
        self.topic.clone()
    }

    /// The id of the queue in its topic.
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Offset of the oldest message that can still be read; equal to the maximum if there is none.
    pub fn min_offset(&self) -> i64 {
        self.min.load(Ordering::Acquire).min(self.max_offset())
    }

    /// Offset that the next message will get.
    pub fn max_offset(&self) -> i64 {
        self.max.load(Ordering::Acquire)
    }

    /// Physical offset behind the last message that the queue names, 0 if it names none.
    pub fn physical_end(&self) -> i64 {
        self.physical_end.load(Ordering::Acquire)
    }

    /// True once the topic was deleted.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// The unit at an offset, `None` outside the queue or where there is only filler.
    pub fn unit(&self, queue_offset: i64) -> Result<Option<Unit>, Error> {
        if queue_offset < self.min_offset() {
            return Ok(None);
        }
        Ok(self.raw_unit(queue_offset)?.filter(Unit::is_message))
    }

    /// Appends the units of `from` and behind to `out`, at most `max_units`, up to the end of the file that
    /// holds `from` (see [`ConsumeQueue::next_file_offset`]) and of the queue; returns how many. Filler is
    /// returned as it is ([`Unit::is_blank`]) so that offsets stay in step. One read.
    pub fn units(&self, from: i64, max_units: usize, out: &mut Vec<Unit>) -> Result<usize, Error> {
        let end = self.max_offset();
        if from < self.min_offset() || from >= end {
            return Ok(0);
        }
        let count = i64::try_from(max_units)
            .unwrap_or(i64::MAX)
            .min(self.next_file_offset(from).min(end) - from);
        self.read_block(from, count, |bytes| {
            out.extend(units_in(bytes));
            bytes.len() / UNIT_SIZE
        })
    }

    /// The first offset of the file behind the one that holds `from`.
    pub fn next_file_offset(&self, from: i64) -> i64 {
        let per_file = self.files.file_size / UNIT;
        (from.div_euclid(per_file) + 1) * per_file
    }

    /// First offset of each file, ascending.
    pub fn file_offsets(&self) -> Vec<i64> {
        let Some(range) = self.file_range() else {
            return Vec::new();
        };
        range
            .step_by(usize::try_from(self.files.file_size).unwrap_or(usize::MAX))
            .map(|start| start / UNIT)
            .collect()
    }

    /// A unit below the minimum or filler too.
    pub(crate) fn raw_unit(&self, queue_offset: i64) -> Result<Option<Unit>, Error> {
        // Whatever a client asks for: the upper bound first, so that the product fits.
        if queue_offset >= self.max_offset()
            || queue_offset.saturating_mul(UNIT) < self.first_file.load(Ordering::Acquire)
        {
            return Ok(None);
        }
        self.read_block(queue_offset, 1, Unit::decode)
    }

    /// Lends the bytes of up to `count` units from `from`, all in one file; fewer if the file was removed.
    pub(crate) fn read_block<R>(
        &self,
        from: i64,
        count: i64,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        let position = from * UNIT;
        let start = position - position.rem_euclid(self.files.file_size);
        let len = usize::try_from(count.max(0)).unwrap_or(0) * UNIT_SIZE;
        READ_BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            buffer.resize(len, 0);
            let file = match self.file(start) {
                Ok(file) => file,
                // Removed by retention or with its topic, after the caller looked at the bounds.
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(f(&[]));
                }
                Err(error) => return Err(error),
            };
            let offset = (position - start).unsigned_abs();
            let read = file
                .read_at(buffer, offset)
                .map_err(Error::io("read consume queue", self.path(start)))?;
            Ok(f(&buffer[..read - read % UNIT_SIZE]))
        })
    }

    /// Sets the minimum to the first unit whose message the log, which begins at `log_min`, still has.
    pub(crate) fn correct_min(&self, log_min: i64) -> Result<(), Error> {
        let _writer = self.writer.lock();
        let first = self.first_file.load(Ordering::Acquire).max(0) / UNIT;
        let max = self.max_offset();
        let front = self.raw_unit(first)?;
        if front.is_some_and(|unit| unit.is_message() && unit.physical_offset >= log_min) {
            self.min.store(first, Ordering::Release);
            return Ok(());
        }
        let min = self.partition_point(first..max, |unit| unit.physical_offset < log_min)?;
        self.min.store(min, Ordering::Release);
        Ok(())
    }

    /// The first offset in `range` whose unit does not satisfy `before`, if `before` holds for a front part of
    /// the range only. Filler, which tells nothing, is judged by the first message behind it.
    pub(crate) fn partition_point(
        &self,
        range: Range<i64>,
        before: impl Fn(&Unit) -> bool,
    ) -> Result<i64, Error> {
        let Range { mut start, mut end } = range;
        while start < end {
            let middle = start + (end - start) / 2;
            let (at, unit) = self.next_message(middle, end)?;
            match unit {
                Some(unit) if !before(&unit) => end = middle,
                Some(_) => start = at + 1,
                None => end = middle,
            }
        }
        self.skip_filler(start)
    }

    /// The first unit in `[from, end)` that names a message, with its offset.
    fn next_message(&self, from: i64, end: i64) -> Result<(i64, Option<Unit>), Error> {
        let mut at = from;
        if let Some(unit) = self.raw_unit(at)?.filter(Unit::is_message) {
            return Ok((at, Some(unit)));
        }
        while at < end {
            let count = BLOCK.min(self.next_file_offset(at).min(end) - at);
            let found = self.read_block(at, count, |bytes| {
                units_in(bytes)
                    .enumerate()
                    .find(|(_, unit)| unit.is_message())
            })?;
            if let Some((index, unit)) = found {
                return Ok((at + index as i64, Some(unit)));
            }
            at += count;
        }
        Ok((end, None))
    }

    /// Moves over filler, which no consumer should be sent to; the end if nothing but filler is left.
    fn skip_filler(&self, from: i64) -> Result<i64, Error> {
        self.next_message(from, self.max_offset()).map(|(at, _)| at)
    }

    /// Positions of the files: from the first up to the one that holds the last unit.
    pub(crate) fn file_range(&self) -> Option<Range<i64>> {
        let first = self.first_file.load(Ordering::Acquire);
        let end = (self.max_offset() * UNIT).max(first + 1);
        (first >= 0).then(|| first..first + (end - first).div_ceil_size(self.files.file_size))
    }

    pub(crate) fn file(&self, start: i64) -> Result<Arc<dyn File>, Error> {
        self.files
            .descriptors
            .get(self.key(start), || self.path(start))
            .map_err(Error::io("open consume queue", self.path(start)))
    }

    fn key(&self, start: i64) -> FileKey {
        FileKey {
            owner: self.owner,
            start,
        }
    }

    pub(crate) fn path(&self, start: i64) -> PathBuf {
        self.dir.join(file_name(start))
    }
}

/// The name of the file that begins at a position: 20 digits.
pub(crate) fn file_name(start: i64) -> String {
    format!("{start:020}")
}

/// Rounds a length up to whole files.
trait DivCeilSize {
    fn div_ceil_size(self, size: i64) -> i64;
}

impl DivCeilSize for i64 {
    fn div_ceil_size(self, size: i64) -> i64 {
        (self + size - 1) / size * size
    }
}

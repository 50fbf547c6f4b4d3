//! What the writer, the readers, the flusher and the preparer of one store share.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::error::{ReadError, StoreError};
use super::files::{FileList, Segment};
use super::sidecar::Sidecar;
use crate::entry::{Entry, EntryHeader, HEADER_SIZE};
use crate::fs::Fs;
use crate::index_unit::{IndexUnit, UNIT_SIZE};

/// How far the log is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// The last entry that would survive a power failure; −1 if none.
    pub end_index: i64,
    /// Position after that entry.
    pub end_pos: i64,
}

/// Files made ahead of the writer.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    pub(crate) data: Option<Arc<Segment>>,
}

/// Locks are taken in this order: `cutting`, `flush`, `spares`, `sidecar`. The writer's bounds are published by storing
/// `end_pos` and `end_index` with release order after the bytes are in place.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) data: FileList,
    pub(crate) index: FileList,
    pub(crate) begin_index: AtomicI64,
    pub(crate) end_index: AtomicI64,
    pub(crate) end_term: AtomicI64,
    pub(crate) first_pos: AtomicI64,
    pub(crate) end_pos: AtomicI64,
    /// Position up to which the log is durable: `flush`, for those who need not wait for a running sync.
    pub(crate) synced_pos: AtomicI64,
    /// Held by everything that removes entries, at either end.
    pub(crate) cutting: Mutex<()>,
    /// What is synced; held for the whole of a sync, and by everything that cuts.
    pub(crate) flush: Mutex<Synced>,
    pub(crate) spares: Mutex<Spares>,
    pub(crate) sidecar: Mutex<Sidecar>,
    poisoned: OnceLock<String>,
}

/// The bounds of a log as they are when it is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) begin_index: i64,
    pub(crate) end_index: i64,
    pub(crate) end_term: i64,
    pub(crate) first_pos: i64,
    pub(crate) end_pos: i64,
}

impl Shared {
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        data: FileList,
        index: FileList,
        bounds: Bounds,
        sidecar: Sidecar,
    ) -> Self {
        Shared {
            fs,
            data,
            index,
            begin_index: AtomicI64::new(bounds.begin_index),
            end_index: AtomicI64::new(bounds.end_index),
            end_term: AtomicI64::new(bounds.end_term),
            first_pos: AtomicI64::new(bounds.first_pos),
            end_pos: AtomicI64::new(bounds.end_pos),
            synced_pos: AtomicI64::new(bounds.end_pos),
            cutting: Mutex::new(()),
            flush: Mutex::new(Synced {
                end_index: bounds.end_index,
                end_pos: bounds.end_pos,
            }),
            spares: Mutex::new(Spares::default()),
            sidecar: Mutex::new(sidecar),
            poisoned: OnceLock::new(),
        }
    }

    pub(crate) fn end_index(&self) -> i64 {
        self.end_index.load(Ordering::Acquire)
    }

    pub(crate) fn end_pos(&self) -> i64 {
        self.end_pos.load(Ordering::Acquire)
    }

    pub(crate) fn first_pos(&self) -> i64 {
        self.first_pos.load(Ordering::Acquire)
    }

    pub(crate) fn begin_index(&self) -> i64 {
        self.begin_index.load(Ordering::Acquire)
    }

    /// Marks the store as no longer to be trusted with writes; the first reason stays.
    pub(crate) fn poison(&self, reason: String) -> StoreError {
        let reason = self.poisoned.get_or_init(|| {
            tracing::error!("the log accepts nothing more: {reason}");
            reason
        });
        StoreError::Poisoned(reason.clone())
    }

    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.get().map(String::as_str)
    }

    pub(crate) fn check_poisoned(&self) -> Result<(), StoreError> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Poisoned(reason.clone())),
        }
    }

    /// The unit of an entry of the log.
    pub(crate) fn unit(&self, index: i64) -> Option<IndexUnit> {
        if index < self.begin_index() || index > self.end_index() || index < 0 {
            return None;
        }
        let pos = index * UNIT_SIZE as i64;
        let unit = self.index.with(pos, |segment| {
            let mut buf = [0; UNIT_SIZE];
            segment.map.read_at(segment.offset(pos), &mut buf);
            IndexUnit::decode(&buf)
        })?;
        unit.is_for(index).then_some(unit)
    }

    /// The header at a position of the log, as it lies there.
    pub(crate) fn header(&self, pos: i64) -> Option<EntryHeader> {
        self.data.with(pos, |segment| {
            let mut buf = [0; HEADER_SIZE];
            if segment.end() - pos < HEADER_SIZE as i64 {
                return None;
            }
            segment.map.read_at(segment.offset(pos), &mut buf);
            EntryHeader::decode(&buf)
        })?
    }

    /// A whole entry; its body is a slice of the mapping.
    pub(crate) fn entry(&self, index: i64) -> Result<Entry, ReadError> {
        self.check_index(index)?;
        // What looks like damage may be an expiry or a cut that came in between.
        self.find_entry(index)
            .map_err(|damage| self.check_index(index).err().unwrap_or(damage))
    }

    fn check_index(&self, index: i64) -> Result<(), ReadError> {
        let (begin, end) = (self.begin_index(), self.end_index());
        if index < begin || index < 0 {
            return Err(ReadError::BelowBegin {
                wanted: index,
                begin,
            });
        }
        if index > end {
            return Err(ReadError::BeyondEnd { wanted: index, end });
        }
        Ok(())
    }

    fn find_entry(&self, index: i64) -> Result<Entry, ReadError> {
        let damaged = |pos, reason: String| ReadError::Damaged { pos, reason };
        let unit = self
            .unit(index)
            .ok_or_else(|| damaged(-1, format!("no index unit of entry {index}")))?;
        let segment = self.data.get(unit.pos);
        let segment =
            segment.ok_or_else(|| damaged(unit.pos, format!("no file with entry {index}")))?;
        let header = self.header(unit.pos).filter(|header| {
            IndexUnit::of(header) == unit
                && header
                    .problem_at(unit.pos, segment.end() - unit.pos)
                    .is_none()
        });
        let header = header.ok_or_else(|| {
            damaged(
                unit.pos,
                format!("the header there is not that of entry {index}"),
            )
        })?;
        let body_offset = segment.offset(unit.pos) + HEADER_SIZE as u64;
        Ok(Entry::from_parts(
            header,
            segment.map.slice(body_offset, header.body_size as usize),
        ))
    }
}

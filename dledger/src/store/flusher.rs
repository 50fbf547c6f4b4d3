//! Making the log durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::StoreError;
use super::shared::{Shared, Synced};
use super::sidecar::Note;
use crate::index_unit::{IndexUnit, UNIT_SIZE};

/// Syncs a log without the writer's lock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Flusher {
    shared: Arc<Shared>,
}

impl Flusher {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Flusher { shared }
    }

    /// Makes durable at least everything that was appended before the call, and says how far the log is durable
    /// now. Calls at the same time share syncs: one that waited for another often finds its work done. When a sync
    /// fails the store is poisoned, since nobody can know what the disk has: this and all later calls, and all
    /// appends, fail.
    pub fn sync(&self) -> Result<Synced, StoreError> {
        let wanted = self.shared.end_index();
        let mut synced = self.shared.flush.lock();
        self.shared.check_poisoned()?;
        if synced.end_index >= wanted {
            return Ok(*synced);
        }
        // As late as possible, so that one sync covers as much as it can. A cut may have come before the lock.
        let target = self.shared.end_index();
        if target <= synced.end_index {
            return Ok(*synced);
        }
        let unit = self.shared.unit(target).ok_or_else(|| {
            self.shared
                .poison(format!("no index unit of entry {target}"))
        })?;
        let end_pos = unit.pos + i64::from(unit.size);
        self.sync_range(&synced, target, end_pos)
            .map_err(|e| self.shared.poison(format!("a sync of the log failed: {e}")))?;
        *synced = Synced {
            end_index: target,
            end_pos,
        };
        self.shared.synced_pos.store(end_pos, Ordering::Release);
        if let Err(e) = self.shared.write_note(&unit) {
            tracing::warn!("cannot note what was synced, the next start will take longer: {e}");
        }
        Ok(*synced)
    }

    fn sync_range(&self, synced: &Synced, target: i64, end_pos: i64) -> io::Result<()> {
        let unit = UNIT_SIZE as i64;
        self.shared.data.sync(synced.end_pos, end_pos)?;
        self.shared
            .index
            .sync((synced.end_index + 1) * unit, (target + 1) * unit)
    }

    /// How far the log is durable, without a sync; waits for a running one.
    pub fn synced(&self) -> Synced {
        *self.shared.flush.lock()
    }
}

impl Shared {
    /// The note that the entry of `unit` is durable.
    pub(super) fn note_of(&self, unit: &IndexUnit, limit_pos: i64) -> Option<Note> {
        Note::of(
            unit,
            &self.data,
            self.begin_index(),
            self.first_pos(),
            limit_pos,
        )
    }

    fn write_note(&self, unit: &IndexUnit) -> io::Result<()> {
        let mut sidecar = self.sidecar.lock();
        match self.note_of(unit, sidecar.note().limit_pos) {
            Some(note) => sidecar.write(note),
            None => Ok(()),
        }
    }
}

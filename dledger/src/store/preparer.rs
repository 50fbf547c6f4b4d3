//! Making room ahead of the writer: the next part of the active file, and the next file.

use std::sync::Arc;

use super::error::StoreError;
use super::files::{FileList, Segment};
use super::shared::Shared;
use crate::index_unit::UNIT_SIZE;

/// Index bytes reserved ahead.
pub(super) const INDEX_WINDOW: i64 = 1024 * 1024;
/// The next data file is made when fewer bytes than this are left in the active one (or half of it).
const SPARE_BELOW: i64 = 256 * 1024 * 1024;

/// Makes room for a log without the writer's lock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Preparer {
    shared: Arc<Shared>,
}

/// Whether less than half a window is reserved ahead of a writer at `pos`.
pub(super) fn is_wanted(active: &Segment, pos: i64) -> bool {
    let window_end = active.window_end(pos);
    active.prepared_end() < pos + (window_end - pos) / 2
}

fn nearly_full(segment: &Segment, pos: i64) -> bool {
    segment.end() - pos < SPARE_BELOW.min(segment.size / 2)
}

impl Preparer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Preparer { shared }
    }

    /// Reserves disk blocks and brings in pages for the next bytes of the log, and makes the next file when the
    /// active one is half written. At most one file exists ahead. A full disk is an error here, long before the
    /// writer needs the space.
    pub fn run(&self) -> Result<(), StoreError> {
        self.shared.check_poisoned()?;
        let pos = self.shared.end_pos();
        if let Some(active) = self.shared.data.get(pos) {
            active.prepare_ahead(active.window_end(pos)).map_err(|e| {
                StoreError::io(format!("reserving space in {}", active.path.display()), e)
            })?;
            if nearly_full(&active, pos) {
                self.shared.make_data_spare(active.end())?;
            }
        }
        let unit_pos = (self.shared.end_index() + 1) * UNIT_SIZE as i64;
        if let Some(active) = self.shared.index.get(unit_pos) {
            active
                .prepare_ahead((unit_pos + INDEX_WINDOW).min(active.end()))
                .map_err(|e| {
                    StoreError::io(format!("reserving space in {}", active.path.display()), e)
                })?;
        }
        Ok(())
    }
}

impl Shared {
    fn make_data_spare(&self, start: i64) -> Result<(), StoreError> {
        let mut spares = self.spares.lock();
        let known = spares
            .data
            .as_ref()
            .is_some_and(|spare| spare.start == start);
        // The writer may have gone on into that file meanwhile.
        if known || self.data.last().is_some_and(|last| last.start >= start) {
            return Ok(());
        }
        let spare = self.create_data_file(start)?;
        let wish = spare.window_end(start);
        if let Err(e) = spare.prepare_ahead(wish) {
            let error = StoreError::io(format!("reserving space in {}", spare.path.display()), e);
            self.data
                .discard(&spare)
                .map_err(|e| StoreError::io("removing a file made ahead", e))?;
            return Err(error);
        }
        spares.data = Some(spare);
        Ok(())
    }

    /// Creates a data file. That files of ours reach so far is durable before it exists.
    pub(crate) fn create_data_file(&self, start: i64) -> Result<Arc<Segment>, StoreError> {
        self.raise_limit(start + self.data.file_size)?;
        create(&self.data, start)
    }

    /// States durably that files of ours reach up to `limit_pos`; does nothing if that is stated already.
    pub(crate) fn raise_limit(&self, limit_pos: i64) -> Result<(), StoreError> {
        let result = self.sidecar.lock().raise_limit(limit_pos);
        result.map_err(|e| StoreError::io(format!("writing {}", super::SYNCED_FILE_NAME), e))
    }

    /// Adds the data file that starts at `start` to the list: the one made ahead, or a new one. Under one lock, so
    /// that the preparer sees it either as its spare or in the list. Repeatable.
    pub(super) fn next_data_file(&self, start: i64) -> Result<Arc<Segment>, StoreError> {
        let mut spares = self.spares.lock();
        if let Some(last) = self.data.last().filter(|last| last.start == start) {
            return Ok(last);
        }
        let next = match spares.data.take() {
            Some(spare) if spare.start == start => spare,
            other => {
                spares.data = other;
                self.create_data_file(start)?
            }
        };
        self.data.push(Arc::clone(&next));
        Ok(next)
    }

    /// Creates the index file that starts at `start` and adds it to the list.
    pub(super) fn next_index_file(&self, start: i64) -> Result<Arc<Segment>, StoreError> {
        let segment = create(&self.index, start)?;
        self.index.push(Arc::clone(&segment));
        Ok(segment)
    }

    /// Removes the file made ahead.
    pub(super) fn remove_spares(&self) -> Result<(), StoreError> {
        let mut spares = self.spares.lock();
        if let Some(spare) = spares.data.take() {
            self.data
                .discard(&spare)
                .map_err(|e| StoreError::io(format!("removing {}", spare.path.display()), e))?;
        }
        Ok(())
    }

    /// Notes durably that no file of ours holds anything beyond `end_pos`.
    pub(super) fn note_clean_end(&self, end_pos: i64) -> Result<(), StoreError> {
        let mut sidecar = self.sidecar.lock();
        let mut note = sidecar.note();
        note.limit_pos = end_pos;
        sidecar
            .write_durable(note)
            .map_err(|e| StoreError::io(format!("writing {}", super::SYNCED_FILE_NAME), e))
    }
}

fn create(list: &FileList, start: i64) -> Result<Arc<Segment>, StoreError> {
    let path = list.dir().join(super::files::file_name(start));
    list.create(start)
        .map_err(|e| StoreError::io(format!("creating {}", path.display()), e))
}

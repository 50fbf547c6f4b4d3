//! Appending under the log's lock.

use super::error::AppendError;
use crate::entry::MAX_ENTRY_SIZE;
use crate::store::{EntryAt, Store, StoreError};

/// Writes entries while [`crate::Log::append_with`] holds the log's lock. Entries that were pushed stay, also when a
/// later push or the closure fails: whoever must store several or none checks everything before the first push.
#[derive(Debug)]
pub struct Appender<'a> {
    store: &'a mut Store,
    term: i64,
    first: Option<i64>,
    last: Option<EntryAt>,
}

/// What one call of [`crate::Log::append_with`] appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Term of the entries.
    pub term: i64,
    /// Index of the first entry, −1 if nothing was pushed.
    pub first_index: i64,
    /// Index of the last entry, −1 if nothing was pushed.
    pub last_index: i64,
    /// Position of the first byte behind the last entry, −1 if nothing was pushed.
    pub end_pos: i64,
}

impl<'a> Appender<'a> {
    pub(super) fn new(store: &'a mut Store, term: i64) -> Appender<'a> {
        Appender {
            store,
            term,
            first: None,
            last: None,
        }
    }

    /// Appends one entry of `body_len` bytes. `write` gets exactly the body's bytes in the segment, and where the
    /// entry lies (its body at [`EntryAt::body_pos`]); it must fill the whole slice.
    #[inline]
    pub fn push(
        &mut self,
        body_len: usize,
        write: impl FnOnce(&mut [u8], &EntryAt),
    ) -> Result<EntryAt, AppendError> {
        // The store calls the writer once; a `FnMut` is what it can take without knowing the closure's type.
        let mut write = Some(write);
        let mut once = |body: &mut [u8], at: &EntryAt| {
            if let Some(write) = write.take() {
                write(body, at);
            }
        };
        let at = self
            .store
            .append(self.term, body_len, &mut once)
            .map_err(append_error)?;
        self.first.get_or_insert(at.index);
        self.last = Some(at);
        Ok(at)
    }

    /// The term that the entries get.
    pub fn term(&self) -> i64 {
        self.term
    }

    pub(super) fn appended(&self) -> Appended {
        match (self.first, self.last) {
            (Some(first_index), Some(last)) => Appended {
                term: self.term,
                first_index,
                last_index: last.index,
                end_pos: last.pos + i64::from(last.size),
            },
            _ => Appended {
                term: self.term,
                first_index: -1,
                last_index: -1,
                end_pos: -1,
            },
        }
    }
}

pub(super) fn append_error(error: StoreError) -> AppendError {
    match error {
        StoreError::DiskFull(e) => AppendError::DiskFull(e.to_string()),
        StoreError::TooLarge { size, max } => AppendError::TooLarge { size, max },
        StoreError::Poisoned(reason) => AppendError::Poisoned(reason.into()),
        other => AppendError::Io(other.to_string()),
    }
}

/// Largest body that an entry can carry, in bytes.
pub const MAX_BODY_SIZE: usize = MAX_ENTRY_SIZE - crate::entry::HEADER_SIZE;

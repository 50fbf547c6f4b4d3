//! Reading what the writer has published.

use std::sync::Arc;

use bytes::Bytes;

use super::EntryAt;
use super::error::ReadError;
use super::shared::Shared;
use crate::entry::{Entry, EntryHeader};

/// Reads a log. Cheap to clone; never waits for the writer. Reads are bounded by what is written, not by what is
/// committed: the caller bounds them further.
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Reader { shared }
    }

    /// Position of the first entry, or where it will lie.
    pub fn first_pos(&self) -> i64 {
        self.shared.first_pos()
    }

    /// Position after the last entry written.
    pub fn written_end(&self) -> i64 {
        self.shared.end_pos()
    }

    /// Index of the first entry; −1 if there is none.
    pub fn begin_index(&self) -> i64 {
        self.shared.begin_index()
    }

    /// Index of the last entry written; −1 if there is none.
    pub fn end_index(&self) -> i64 {
        self.shared.end_index()
    }

    /// Bytes of a data file.
    pub fn file_size(&self) -> i64 {
        self.shared.data.file_size
    }

    /// Position after the file that holds `pos`.
    pub fn segment_end(&self, pos: i64) -> i64 {
        self.shared.data.start_of(pos) + self.shared.data.file_size
    }

    fn check(&self, pos: i64, len: i64) -> Result<(), ReadError> {
        let first = self.shared.first_pos();
        if pos < first {
            return Err(ReadError::BelowBegin {
                wanted: pos,
                begin: first,
            });
        }
        let end = self.shared.end_pos();
        if len > end - pos {
            return Err(ReadError::BeyondEnd {
                wanted: pos.saturating_add(len),
                end,
            });
        }
        if pos + len > self.segment_end(pos) {
            return Err(ReadError::CrossesFile {
                pos,
                len: len as usize,
            });
        }
        Ok(())
    }

    /// A file that was there when the bounds were looked at may have expired since.
    fn gone(&self, pos: i64) -> ReadError {
        ReadError::BelowBegin {
            wanted: pos,
            begin: self.shared.first_pos(),
        }
    }

    /// Bytes of the log, inside one file. On real files they are a slice of the mapping, without a copy, and stay
    /// valid after the file has expired.
    pub fn slice(&self, pos: i64, len: usize) -> Result<Bytes, ReadError> {
        self.check(pos, i64::try_from(len).unwrap_or(i64::MAX))?;
        self.shared
            .data
            .with(pos, |segment| segment.map.slice(segment.offset(pos), len))
            .ok_or_else(|| self.gone(pos))
    }

    /// Copies bytes of the log, inside one file.
    pub fn read_at(&self, pos: i64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.check(pos, i64::try_from(buf.len()).unwrap_or(i64::MAX))?;
        self.shared
            .data
            .with(pos, |segment| segment.map.read_at(segment.offset(pos), buf))
            .ok_or_else(|| self.gone(pos))
    }

    /// Lends bytes of the log, inside one file, to `f`.
    pub fn view(&self, pos: i64, len: usize, f: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        self.check(pos, i64::try_from(len).unwrap_or(i64::MAX))?;
        self.shared
            .data
            .with(pos, |segment| segment.map.view(segment.offset(pos), len, f))
            .ok_or_else(|| self.gone(pos))
    }

    /// Everything from `pos` to the smallest of `limit_pos`, the written end and the end of the file; `None` if
    /// that is nothing, or if `pos` lies below the begin. At the end of a file this includes the blank.
    pub fn rest_of_segment(&self, pos: i64, limit_pos: i64) -> Option<Bytes> {
        let end = limit_pos
            .min(self.shared.end_pos())
            .min(self.segment_end(pos));
        if pos >= end {
            None
        } else {
            self.slice(pos, (end - pos) as usize).ok()
        }
    }

    /// The header at `pos`; `None` where no entry can begin. What lies there is not checked.
    pub fn header(&self, pos: i64) -> Option<EntryHeader> {
        if pos < self.shared.first_pos() || pos >= self.shared.end_pos() {
            return None;
        }
        self.shared.header(pos)
    }

    /// Where an entry lies; `None` outside the log.
    pub fn unit(&self, index: i64) -> Option<EntryAt> {
        self.shared.unit(index).map(|unit| EntryAt::of(&unit))
    }

    /// An entry with its body.
    pub fn entry(&self, index: i64) -> Result<Entry, ReadError> {
        self.shared.entry(index)
    }

    /// The entry that contains position `pos`, or else the first one after it; `None` beyond the end. Searches the
    /// index: about 20 steps for a million entries.
    pub fn entry_at_or_after(&self, pos: i64) -> Option<EntryAt> {
        let (mut low, mut high) = (self.shared.begin_index(), self.shared.end_index() + 1);
        if low < 0 {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.unit(middle) {
                Some(at) if at.end_pos() > pos => high = middle,
                // Expired meanwhile counts as below.
                _ => low = middle + 1,
            }
        }
        self.unit(low)
    }
}

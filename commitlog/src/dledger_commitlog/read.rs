//! Reading: by physical offset, and frame by frame across the divide, never beyond the commit point.

use bytes::Bytes;

use super::{DLedgerCommitLog, Halves};
use crate::frame::{FrameView, PHYSICAL_OFFSET_AT, frame_size, read_i64};
use crate::reader::{Chunk, FrameReader, Half, ReadError, Source};

/// Bytes enough to see the size of any frame and where it says it lies.
const HEAD: usize = PHYSICAL_OFFSET_AT + 8;

impl DLedgerCommitLog {
    /// The first position of the log: of the oldest legacy file while one is left, then of the DLedger log.
    pub fn min_offset(&self) -> i64 {
        self.inner.halves.min_position()
    }

    /// The end of what is committed, which is the end of what can be read.
    pub fn max_offset(&self) -> i64 {
        self.inner
            .halves
            .log
            .committed_pos()
            .max(self.inner.halves.reader.first_pos())
    }

    /// Where the data end, committed or not: before the first entry of an upgraded store that is where the legacy
    /// messages end, below the divide.
    pub fn data_end(&self) -> i64 {
        let (written, first) = (
            self.inner.halves.reader.written_end(),
            self.inner.halves.reader.first_pos(),
        );
        match self.inner.legacy_end {
            Some(end) if written <= first => end,
            _ => written.max(self.max_offset()),
        }
    }

    /// Where the DLedger log begins while legacy files are left; −1 when there is only the DLedger log.
    pub fn divided_offset(&self) -> i64 {
        self.inner.halves.legacy.end().unwrap_or(-1)
    }

    /// Bytes of a data file, of either half.
    pub fn file_size(&self) -> i64 {
        self.inner.halves.reader.file_size()
    }

    /// The start of the file after the one that holds `position`.
    pub fn next_file(&self, position: i64) -> i64 {
        self.inner.halves.reader.segment_end(position)
    }

    /// The committed message at `physical_offset` with exactly `size` bytes, as a slice of the log. None if the
    /// bytes there are not such a message, are not committed or were removed.
    pub fn message(&self, physical_offset: i64, size: usize) -> Option<Bytes> {
        let bytes = self.inner.halves.slice(physical_offset, size)?;
        is_frame_of(&bytes, physical_offset, size).then_some(bytes)
    }

    /// The committed message at `physical_offset`, whatever its size.
    pub fn message_at(&self, physical_offset: i64) -> Option<Bytes> {
        let head = self.inner.halves.slice(physical_offset, HEAD)?;
        let size = frame_size(&head)?;
        self.message(physical_offset, size)
    }

    /// Store time of the committed message at `physical_offset`, ms.
    pub fn store_timestamp_at(&self, physical_offset: i64) -> Option<i64> {
        let bytes = self.message_at(physical_offset)?;
        FrameView::parse(&bytes)
            .ok()
            .map(|frame| frame.store_timestamp())
    }

    /// Store time of the oldest message, ms.
    pub fn earliest_store_timestamp(&self) -> Option<i64> {
        self.first_store_timestamp(self.min_offset())
    }

    /// Committed frames from a position on; see [`FrameReader::new`].
    pub fn frames(&self, from: i64) -> FrameReader {
        FrameReader::new(self.inner.halves.clone(), from)
    }

    /// The start of the last file whose first message was stored at or before `limit_ms`; the begin of the log if
    /// there is none.
    pub fn file_stored_before(&self, limit_ms: i64) -> i64 {
        let (min, size) = (self.min_offset(), self.file_size());
        let last = self.max_offset() - 1;
        let mut start = last - last.rem_euclid(size);
        while start > min {
            if self
                .first_store_timestamp(start)
                .is_some_and(|ms| ms != 0 && ms <= limit_ms)
            {
                return start;
            }
            start -= size;
        }
        min
    }

    /// Store time of the first committed message at or after a position.
    pub(super) fn first_store_timestamp(&self, position: i64) -> Option<i64> {
        let framed = self.frames(position).next().ok().flatten()?;
        framed.view().ok().map(|frame| frame.store_timestamp())
    }
}

/// Whether a frame of this size lies here, by its own word.
fn is_frame_of(bytes: &[u8], physical_offset: i64, size: usize) -> bool {
    frame_size(bytes) == Some(size) && read_i64(bytes, PHYSICAL_OFFSET_AT) == Some(physical_offset)
}

impl Halves {
    /// Committed bytes, inside one file.
    fn slice(&self, position: i64, len: usize) -> Option<Bytes> {
        match self.legacy.end() {
            Some(divide) if position < divide => match self.legacy.slice(position, len) {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::error!(position, %error, "the legacy commitlog cannot be read");
                    None
                }
            },
            _ => {
                let end = position.checked_add(i64::try_from(len).ok()?)?;
                if end > self.log.committed_pos() {
                    return None;
                }
                self.reader.slice(position, len).ok()
            }
        }
    }
}

impl Source for Halves {
    fn chunk(&self, position: i64) -> Result<Option<Chunk>, ReadError> {
        let gone = || ReadError::Gone {
            position,
            min: self.min_position(),
        };
        if self.legacy.end().is_some_and(|divide| position < divide) {
            let rest = self.legacy.rest_of_file(position);
            let (bytes, file_end) = rest
                .map_err(|source| ReadError::Io { position, source })?
                .ok_or_else(gone)?;
            return Ok(Some(Chunk {
                bytes,
                file_end,
                half: Half::Legacy,
            }));
        }
        let committed = self.log.committed_pos();
        if position >= committed {
            return Ok(None);
        }
        if position < self.reader.first_pos() {
            return Err(gone());
        }
        let bytes = self
            .reader
            .rest_of_segment(position, committed)
            .ok_or_else(gone)?;
        Ok(Some(Chunk {
            bytes,
            file_end: self.reader.segment_end(position),
            half: Half::Dledger,
        }))
    }

    fn min_position(&self) -> i64 {
        self.legacy
            .min_offset()
            .unwrap_or_else(|| self.reader.first_pos())
    }
}

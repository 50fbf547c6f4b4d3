//! The broker's commitlog as the source of queues and index.

use bytes::Bytes;
use commitlog::DLedgerCommitLog;
use commitlog::reader::{FrameReader, ReadError};

use crate::error::Error;
use crate::log::{CommitWatch, Frames, LogFrame, MessageLog};

impl Frames for FrameReader {
    fn next_frame(&mut self) -> Result<Option<LogFrame>, Error> {
        match self.next() {
            Ok(framed) => Ok(framed.map(|framed| LogFrame {
                physical_offset: framed.physical_offset,
                bytes: framed.bytes,
            })),
            Err(error) => Err(log_error(&error)),
        }
    }

    fn skip_damage(&mut self) -> Option<i64> {
        let before = self.position();
        FrameReader::skip_damage(self)
            .ok()
            .filter(|after| *after > before)
    }
}

fn log_error(error: &ReadError) -> Error {
    let (ReadError::Damaged { position, .. }
    | ReadError::Gone { position, .. }
    | ReadError::Missing { position }
    | ReadError::Io { position, .. }) = error;
    Error::Log {
        position: *position,
        reason: error.to_string(),
    }
}

impl CommitWatch for dledger::CommitWatch {
    fn mark_seen(&mut self) {
        self.current();
    }

    async fn moved(&mut self) -> bool {
        dledger::CommitWatch::moved(self).await.is_some()
    }
}

impl MessageLog for DLedgerCommitLog {
    type Frames = FrameReader;
    type Watch = dledger::CommitWatch;

    fn min_offset(&self) -> i64 {
        DLedgerCommitLog::min_offset(self)
    }

    fn committed_end(&self) -> i64 {
        self.max_offset()
    }

    fn data_end(&self) -> i64 {
        DLedgerCommitLog::data_end(self)
    }

    fn next_file(&self, position: i64) -> i64 {
        DLedgerCommitLog::next_file(self, position)
    }

    fn file_stored_before(&self, limit_ms: i64) -> i64 {
        DLedgerCommitLog::file_stored_before(self, limit_ms)
    }

    fn frames(&self, from: i64) -> FrameReader {
        DLedgerCommitLog::frames(self, from)
    }

    fn message(&self, physical_offset: i64, size: usize) -> Option<Bytes> {
        DLedgerCommitLog::message(self, physical_offset, size)
    }

    fn message_at(&self, physical_offset: i64) -> Option<Bytes> {
        DLedgerCommitLog::message_at(self, physical_offset)
    }

    fn watch_committed(&self) -> dledger::CommitWatch {
        DLedgerCommitLog::watch_committed(self)
    }
}

//! What the derived parts need of the message log.

use bytes::Bytes;

use crate::error::Error;

/// A message record and where it lies.
#[derive(Debug, Clone)]
pub struct LogFrame {
    /// Physical offset of the record.
    pub physical_offset: i64,
    /// The whole record.
    pub bytes: Bytes,
}

impl LogFrame {
    /// The physical offset behind the record.
    pub fn physical_end(&self) -> i64 {
        self.physical_offset + self.bytes.len() as i64
    }
}

/// Reads committed records in the order of the log.
pub trait Frames: Send {
    /// The next record; `None` when everything committed was given (more may come later).
    fn next_frame(&mut self) -> Result<Option<LogFrame>, Error>;

    /// After [`Error::Log`]: gives up what cannot be read where the reader stands and goes on behind it. Returns where
    /// that is, none if there is no going on.
    fn skip_damage(&mut self) -> Option<i64> {
        None
    }
}

/// Waits for more to be committed.
pub trait CommitWatch: Send {
    /// Takes what is committed now as seen.
    fn mark_seen(&mut self);

    /// Waits until more is committed than was seen; false if nothing more will be. Cancel-safe.
    fn moved(&mut self) -> impl Future<Output = bool> + Send;
}

/// The message log as seen by queues, index and dispatcher.
pub trait MessageLog: Send + Sync + 'static {
    /// Reader of records.
    type Frames: Frames;
    /// Waits for the commit.
    type Watch: CommitWatch;

    /// Where the log begins.
    fn min_offset(&self) -> i64;

    /// Behind the last committed record: what may be dispatched.
    fn committed_end(&self) -> i64;

    /// Behind the last record that is there, committed or not. What queues and index name beyond it does not
    /// exist.
    fn data_end(&self) -> i64;

    /// Where the file that holds a position ends and the next one begins. Records can be read from there.
    fn next_file(&self, position: i64) -> i64;

    /// The begin of the last file whose first record was stored at or before a time (ms); the begin of the log if
    /// there is none.
    fn file_stored_before(&self, limit_ms: i64) -> i64;

    /// Reads from a position, which is the begin or the end of a record, the begin of the log or of a file of it.
    fn frames(&self, from: i64) -> Self::Frames;

    /// A committed record by its place, checked to be one of that size.
    fn message(&self, physical_offset: i64, size: usize) -> Option<Bytes>;

    /// A committed record by its physical offset.
    fn message_at(&self, physical_offset: i64) -> Option<Bytes>;

    /// Tells when more is committed.
    fn watch_committed(&self) -> Self::Watch;
}

//! What the derived parts need of the message log.

use bytes::Bytes;
use tokio::sync::watch;

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
}

/// The message log as seen by queues, index and dispatcher.
pub trait MessageLog: Send + Sync + 'static {
    /// Reader of records.
    type Frames: Frames;

    /// Where the log begins.
    fn min_offset(&self) -> i64;

    /// Behind the last committed record: what may be dispatched.
    fn committed_end(&self) -> i64;

    /// Behind the last record that is there, committed or not. What queues and index name beyond it does not
    /// exist.
    fn data_end(&self) -> i64;

    /// Where the files of the log begin, ascending; records can be read from each.
    fn file_starts(&self) -> Vec<i64>;

    /// Reads from a position, which is the begin or the end of a record, the begin of the log or of a file of it.
    fn frames(&self, from: i64) -> Self::Frames;

    /// A committed record by its place, checked to be one of that size.
    fn message(&self, physical_offset: i64, size: usize) -> Option<Bytes>;

    /// A committed record by its physical offset.
    fn message_at(&self, physical_offset: i64) -> Option<Bytes>;

    /// Changes whenever more is committed.
    fn watch_committed(&self) -> watch::Receiver<i64>;
}

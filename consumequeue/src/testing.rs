//! A message log in memory, for tests.

use std::sync::Arc;

use bytes::Bytes;
use commitlog::frame::{FrameView, MessageToStore, PropertySource};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::Error;
use crate::log::{CommitWatch, Frames, LogFrame, MessageLog};

/// A message to be put in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub sys_flag: i32,
    pub store_timestamp: i64,
    pub properties: &'a str,
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    pub fn new(topic: &'a str, queue_id: i32, queue_offset: i64) -> Message<'a> {
        Message {
            topic,
            queue_id,
            queue_offset,
            sys_flag: 0,
            store_timestamp: 1_700_000_000_000,
            properties: "",
            body: b"body",
        }
    }
}

/// The record of a message.
pub(crate) fn frame(message: &Message<'_>, physical_offset: i64) -> Vec<u8> {
    let host = std::net::SocketAddr::from(([127, 0, 0, 1], 10911));
    let to_store = MessageToStore {
        topic: message.topic,
        queue_id: message.queue_id,
        flag: 0,
        sys_flag: message.sys_flag,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_offset: 0,
        body: message.body,
        properties: PropertySource::raw(message.properties.as_bytes()),
    };
    let encoded = to_store.prepare().unwrap();
    let mut bytes = vec![0; encoded.encoded_len()];
    encoded.encode_into(
        &mut bytes,
        message.queue_offset,
        physical_offset,
        message.store_timestamp,
    );
    bytes
}

#[derive(Debug, Default)]
struct Records {
    /// Ascending by physical offset.
    frames: Vec<LogFrame>,
    min: i64,
    committed: i64,
    file_starts: Vec<i64>,
}

impl Records {
    fn at_or_behind(&self, physical_offset: i64) -> usize {
        self.frames
            .partition_point(|frame| frame.physical_offset < physical_offset)
    }

    fn data_end(&self) -> i64 {
        self.frames.last().map_or(self.min, LogFrame::physical_end)
    }
}

/// A log of records at chosen positions. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TestLog {
    records: Arc<Mutex<Records>>,
    committed: watch::Sender<i64>,
}

/// Bytes in front of each record, as a DLedger entry header takes them.
pub(crate) const HEADER: i64 = 48;

impl TestLog {
    pub fn new() -> TestLog {
        TestLog {
            records: Arc::default(),
            committed: watch::Sender::new(0),
        }
    }

    /// A log that holds records read elsewhere, all of them committed.
    pub fn of(frames: Vec<LogFrame>, min: i64, file_starts: Vec<i64>) -> TestLog {
        let log = TestLog::new();
        *log.records.lock() = Records {
            frames,
            min,
            committed: i64::MAX,
            file_starts,
        };
        log.commit();
        log
    }

    /// Appends a record without committing it; returns its physical offset.
    pub fn append(&self, message: &Message<'_>) -> i64 {
        let mut records = self.records.lock();
        let physical_offset = records.data_end() + HEADER;
        if records.file_starts.is_empty() {
            let min = records.min;
            records.file_starts.push(min);
        }
        records.frames.push(LogFrame {
            physical_offset,
            bytes: frame(message, physical_offset).into(),
        });
        physical_offset
    }

    /// Appends and commits.
    pub fn put(&self, message: &Message<'_>) -> i64 {
        let physical_offset = self.append(message);
        self.commit();
        physical_offset
    }

    /// Commits everything.
    pub fn commit(&self) {
        let mut records = self.records.lock();
        records.committed = records.data_end();
        self.committed.send_replace(records.committed);
    }

    /// Begins a new file.
    pub fn roll(&self) {
        let mut records = self.records.lock();
        let end = records.data_end();
        records.file_starts.push(end);
    }

    /// Loses everything at or behind a position.
    pub fn truncate(&self, position: i64) {
        let mut records = self.records.lock();
        let keep = records
            .frames
            .partition_point(|frame| frame.physical_end() <= position);
        records.frames.truncate(keep);
        let end = records.data_end();
        records.file_starts.retain(|start| *start <= end);
        records.committed = records.committed.min(records.data_end());
    }

    /// Expires everything in front of a position.
    pub fn expire(&self, min: i64) {
        let mut records = self.records.lock();
        let first = records.at_or_behind(min);
        records.frames.drain(..first);
        records.min = min;
        records.file_starts.retain(|start| *start >= min);
        if records.file_starts.first() != Some(&min) {
            records.file_starts.insert(0, min);
        }
    }

    /// All records.
    pub fn all(&self) -> Vec<LogFrame> {
        self.records.lock().frames.clone()
    }
}

/// Reads a [`TestLog`].
#[derive(Debug)]
pub(crate) struct TestFrames {
    log: TestLog,
    position: i64,
}

impl Frames for TestFrames {
    fn next_frame(&mut self) -> Result<Option<LogFrame>, Error> {
        let records = self.log.records.lock();
        let index = records.at_or_behind(self.position);
        let frame = records
            .frames
            .get(index)
            .filter(|frame| frame.physical_end() <= records.committed);
        if let Some(frame) = frame {
            self.position = frame.physical_end();
        }
        Ok(frame.cloned())
    }
}

impl CommitWatch for watch::Receiver<i64> {
    fn mark_seen(&mut self) {
        self.borrow_and_update();
    }

    async fn moved(&mut self) -> bool {
        self.changed().await.is_ok()
    }
}

impl MessageLog for TestLog {
    type Frames = TestFrames;
    type Watch = watch::Receiver<i64>;

    fn min_offset(&self) -> i64 {
        self.records.lock().min
    }

    fn committed_end(&self) -> i64 {
        self.records.lock().committed
    }

    fn data_end(&self) -> i64 {
        self.records.lock().data_end()
    }

    fn next_file(&self, position: i64) -> i64 {
        let starts = &self.records.lock().file_starts;
        starts
            .iter()
            .copied()
            .find(|start| *start > position)
            .unwrap_or(i64::MAX)
    }

    fn file_stored_before(&self, limit_ms: i64) -> i64 {
        let records = self.records.lock();
        let begins = records.file_starts.iter().rev().find(|start| {
            let first = records.frames.get(records.at_or_behind(**start));
            first.is_some_and(|frame| {
                FrameView::parse(&frame.bytes).unwrap().store_timestamp() <= limit_ms
            })
        });
        begins.copied().unwrap_or(records.min)
    }

    fn frames(&self, from: i64) -> TestFrames {
        TestFrames {
            log: self.clone(),
            position: from,
        }
    }

    fn message(&self, physical_offset: i64, size: usize) -> Option<Bytes> {
        self.message_at(physical_offset)
            .filter(|bytes| bytes.len() == size)
    }

    fn message_at(&self, physical_offset: i64) -> Option<Bytes> {
        let records = self.records.lock();
        let frame = records.frames.get(records.at_or_behind(physical_offset))?;
        (frame.physical_offset == physical_offset && frame.physical_end() <= records.committed)
            .then(|| frame.bytes.clone())
    }

    fn watch_committed(&self) -> watch::Receiver<i64> {
        self.committed.subscribe()
    }
}

/// Records out of the data files of a store: legacy commitlog and DLedger data, as they lie on disk.
pub(crate) fn frames_of_file(start: i64, bytes: &Bytes, dledger: bool) -> Vec<LogFrame> {
    let mut frames = Vec::new();
    let mut at = 0;
    let header = if dledger { HEADER as usize } else { 0 };
    while at + header + 8 <= bytes.len() {
        let frame_at = at + header;
        let Ok(view) = FrameView::parse(&bytes[frame_at..]) else {
            break;
        };
        if view.validate(start + frame_at as i64).is_err() {
            break;
        }
        let end = frame_at + view.size();
        frames.push(LogFrame {
            physical_offset: start + frame_at as i64,
            bytes: bytes.slice(frame_at..end),
        });
        at = end;
    }
    frames
}

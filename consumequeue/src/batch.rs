//! Units and keys of the records read at once, sorted by queue.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use commitlog::frame::FrameView;
use smallvec::SmallVec;
use tracing::{error, warn};

use crate::delay_levels::DelayLevels;
use crate::error::Error;
use crate::index::{IndexEntry, TopicHash};
use crate::log::LogFrame;
use crate::queue::ConsumeQueue;
use crate::queues::ConsumeQueues;
use crate::record::Record;

/// Buffers larger than this are given back after a batch.
const KEPT_BUFFER: usize = 4096;

/// Queue offsets from here on cannot be real; their positions would not fit.
const MAX_QUEUE_OFFSET: i64 = i64::MAX / 1024;

/// A message that can now be read from its queue.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Queue id.
    pub queue_id: i32,
    /// Queue offset of the message; a pull from it finds the message now.
    pub queue_offset: i64,
    /// Tags code of its unit.
    pub tags_code: i64,
    /// Store time, ms.
    pub store_timestamp: i64,
    /// Physical offset of the record.
    pub physical_offset: i64,
    /// The whole record, for filters that look at properties.
    pub frame: &'a Bytes,
}

/// Consecutive units of one queue, waiting to be written.
#[derive(Debug)]
struct Run {
    queue: Arc<ConsumeQueue>,
    start: i64,
    units: Vec<u8>,
}

#[derive(Debug)]
struct Topic {
    hash: TopicHash,
    /// Queue id to index of its run.
    runs: HashMap<i32, usize>,
}

#[derive(Debug)]
struct Arrived {
    run: usize,
    queue_offset: i64,
    tags_code: i64,
    store_timestamp: i64,
    frame: LogFrame,
}

/// What a batch did to the queues, apart from making them longer.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The lowest physical offset behind which a message of a hole would lie.
    pub hole_behind: Option<i64>,
    /// Change of the number of queues that hold something, and of the sum of their maximum offsets.
    pub grown: (i64, i64),
}

/// Collects what the records of a part of the log add to queues and index.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    topics: HashMap<Arc<str>, Topic>,
    runs: Vec<Run>,
    touched: Vec<usize>,
    keys: Vec<IndexEntry>,
    arrived: Vec<Arrived>,
    written: Written,
}

impl Batch {
    /// Adds a record. `keep`: it will be announced.
    pub fn push(
        &mut self,
        frame: LogFrame,
        queues: &ConsumeQueues,
        levels: &DelayLevels,
        with_keys: bool,
        keep: bool,
    ) -> Result<i64, Error> {
        let view = FrameView::parse(&frame.bytes).map_err(|error| Error::Log {
            position: frame.physical_offset,
            reason: error.to_string(),
        })?;
        let record = Record::of(&view);
        let store_timestamp = record.store_timestamp;
        let possible = (0..MAX_QUEUE_OFFSET).contains(&record.queue_offset) && record.queue_id >= 0;
        if !is_folder_name(record.topic) || !possible {
            warn!(
                topic = record.topic,
                queue_id = record.queue_id,
                physical_offset = frame.physical_offset,
                "a message names an impossible topic, queue or queue offset and is not dispatched"
            );
            return Ok(store_timestamp);
        }
        if !self.topics.contains_key(record.topic) {
            let topic = Topic {
                hash: TopicHash::of(record.topic),
                runs: HashMap::new(),
            };
            self.topics.insert(record.topic.into(), topic);
        }
        if with_keys && record.is_indexed() {
            let hash = self.topics[record.topic].hash;
            self.keys.extend(record.keys().map(|key| IndexEntry {
                hash: hash.key(key),
                physical_offset: frame.physical_offset,
                store_timestamp,
            }));
        }
        if record.is_queued() {
            let unit = record.unit(frame.physical_offset, view.size(), levels);
            let queue_offset = record.queue_offset;
            let run = self.run(record.topic, record.queue_id, queues);
            self.append(run, queue_offset, &unit.encode(), queues)?;
            if keep {
                self.arrived.push(Arrived {
                    run,
                    queue_offset,
                    tags_code: unit.tags_code,
                    store_timestamp,
                    frame,
                });
            }
        }
        Ok(store_timestamp)
    }

    /// Writes all queues; the keys wait for [`Batch::keys`].
    pub fn write_queues(&mut self, queues: &ConsumeQueues) -> Result<Written, Error> {
        for run in std::mem::take(&mut self.touched) {
            self.write_run(run, queues)?;
        }
        Ok(std::mem::take(&mut self.written))
    }

    /// The keys collected, in the order of the log.
    pub fn keys(&self) -> &[IndexEntry] {
        &self.keys
    }

    /// Announces what was collected with `keep`.
    pub fn announce(&self, listener: &dyn Fn(&[Arrival<'_>])) {
        if self.arrived.is_empty() {
            return;
        }
        let arrivals: SmallVec<[Arrival<'_>; 8]> = self
            .arrived
            .iter()
            .map(|arrived| {
                let queue = &self.runs[arrived.run].queue;
                Arrival {
                    topic: queue.topic(),
                    queue_id: queue.queue_id(),
                    queue_offset: arrived.queue_offset,
                    tags_code: arrived.tags_code,
                    store_timestamp: arrived.store_timestamp,
                    physical_offset: arrived.frame.physical_offset,
                    frame: &arrived.frame.bytes,
                }
            })
            .collect();
        listener(&arrivals);
    }

    /// Empties the batch, written or not.
    pub fn clear(&mut self) {
        for run in &mut self.runs {
            if !run.units.is_empty() || run.units.capacity() > KEPT_BUFFER {
                run.units.clear();
                run.units.shrink_to(KEPT_BUFFER);
            }
        }
        self.touched.clear();
        self.keys.clear();
        self.arrived.clear();
        self.written = Written::default();
    }

    /// The run of a queue; looked up anew if its topic was deleted meanwhile.
    fn run(&mut self, topic: &str, queue_id: i32, queues: &ConsumeQueues) -> usize {
        let known = self
            .topics
            .get(topic)
            .and_then(|topic| topic.runs.get(&queue_id).copied());
        match known {
            Some(run) if !self.runs[run].queue.is_removed() => run,
            Some(run) => {
                self.runs[run].queue = queues.get_or_create(topic, queue_id);
                self.runs[run].units.clear();
                run
            }
            None => {
                let run = self.runs.len();
                self.runs.push(Run {
                    queue: queues.get_or_create(topic, queue_id),
                    start: 0,
                    units: Vec::new(),
                });
                if let Some(topic) = self.topics.get_mut(topic) {
                    topic.runs.insert(queue_id, run);
                }
                run
            }
        }
    }

    fn append(
        &mut self,
        run: usize,
        queue_offset: i64,
        unit: &[u8],
        queues: &ConsumeQueues,
    ) -> Result<(), Error> {
        let state = &mut self.runs[run];
        let count = (state.units.len() / unit.len()) as i64;
        if count > 0 && queue_offset != state.start + count {
            self.write_run(run, queues)?;
        }
        let state = &mut self.runs[run];
        if state.units.is_empty() {
            state.start = queue_offset;
            self.touched.push(run);
        }
        state.units.extend_from_slice(unit);
        Ok(())
    }

    fn write_run(&mut self, run: usize, queues: &ConsumeQueues) -> Result<(), Error> {
        let run = &mut self.runs[run];
        if run.units.is_empty() {
            return Ok(());
        }
        let queue = &run.queue;
        let before = (queue.max_offset(), queue.physical_end());
        let applied = queue.apply(run.start, &run.units);
        queues.note_changed(queue);
        let applied = applied?;
        run.units.clear();
        let after = queue.max_offset();
        self.written.grown.0 += i64::from(after > 0) - i64::from(before.0 > 0);
        self.written.grown.1 += after - before.0;
        let (topic, queue_id) = (queue.topic(), queue.queue_id());
        if let Some(hole) = applied.hole {
            warn!(
                topic,
                queue_id,
                ?hole,
                "queue offsets without a message; filler was put in their place"
            );
            let behind = self.written.hole_behind.get_or_insert(before.1);
            *behind = before.1.min(*behind);
        }
        if let Some(offset) = applied.restarted_at {
            warn!(
                topic,
                queue_id,
                offset,
                "the queue begins anew at this offset; what it held from there on is superseded"
            );
        }
        if applied.refused {
            error!(
                topic,
                queue_id,
                offset = run.start,
                end = before.0,
                "a message has an impossible queue offset and is not dispatched"
            );
        }
        Ok(())
    }
}

/// Whether a topic can be the name of a folder: nothing that would lead elsewhere.
fn is_folder_name(topic: &str) -> bool {
    !topic.is_empty()
        && topic.len() <= 255
        && topic != "."
        && topic != ".."
        && !topic.bytes().any(|byte| byte == b'/' || byte == 0)
}

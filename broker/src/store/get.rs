//! What a pull gets: the decision table of `DefaultMessageStore.getMessage` and the scan of a queue.

use bytes::Bytes;
use consumequeue::{ConsumeQueue, Unit};
use smallvec::SmallVec;

use super::MessageStore;
use crate::filter::TagFilter;

/// Why a pull got what it got; the name is the remark of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetStatus {
    /// At least one message.
    Found,
    /// Units were scanned, the filter took none.
    NoMatchedMessage,
    /// Units were there, their messages are deleted already.
    MessageWasRemoving,
    /// The queue lacks the unit asked for.
    OffsetFoundNull,
    /// Beyond the end of the queue.
    OffsetOverflowBadly,
    /// Exactly at the end of the queue.
    OffsetOverflowOne,
    /// Before the beginning of the queue.
    OffsetTooSmall,
    /// The queue never had a message.
    NoMessageInQueue,
}

impl GetStatus {
    /// Java's name, as in remarks.
    pub const fn name(self) -> &'static str {
        match self {
            GetStatus::Found => "FOUND",
            GetStatus::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            GetStatus::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            GetStatus::OffsetFoundNull => "OFFSET_FOUND_NULL",
            GetStatus::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            GetStatus::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            GetStatus::OffsetTooSmall => "OFFSET_TOO_SMALL",
            GetStatus::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        }
    }
}

/// What is asked of a queue.
#[derive(Debug, Clone, Copy)]
pub struct GetRequest<'a> {
    /// Topic of the queue.
    pub topic: &'a str,
    /// Its number.
    pub queue_id: i32,
    /// First queue offset to look at.
    pub offset: i64,
    /// Most messages to return.
    pub max_messages: usize,
    /// Messages to take.
    pub filter: &'a TagFilter,
}

/// How much one pull may carry away.
#[derive(Debug, Clone, Copy)]
pub struct GetLimits {
    /// Bytes and messages near the end of the log, where they are in memory.
    pub in_memory: (usize, usize),
    /// Bytes and messages further back.
    pub on_disk: (usize, usize),
    /// A message further than this from the end of the log, in bytes, counts as on disk.
    pub memory_distance: i64,
}

/// What was found.
#[derive(Debug)]
pub struct Fetched {
    /// Why.
    pub status: GetStatus,
    /// Where the next pull should begin: behind the last unit that was examined, wanted or not.
    pub next_offset: i64,
    /// First offset of the queue.
    pub min_offset: i64,
    /// End of the queue: the offset that its next message gets.
    pub max_offset: i64,
    /// Whole stored records: slices of the log.
    pub messages: SmallVec<[Bytes; 32]>,
    /// Their bytes.
    pub bytes: usize,
    /// How far the last unit looked at lies before the end of the log, in bytes.
    pub behind: i64,
}

impl Fetched {
    fn nothing(status: GetStatus, next_offset: i64, min_offset: i64, max_offset: i64) -> Self {
        Fetched {
            status,
            next_offset,
            min_offset,
            max_offset,
            messages: SmallVec::new(),
            bytes: 0,
            behind: 0,
        }
    }
}

/// Units that one pull examines at most, as in Java: 16,000 bytes of them, or what it asked for.
const SCAN_UNITS: usize = 800;
/// Units read from a queue at once.
const READ_UNITS: usize = 128;

impl MessageStore {
    /// Looks up messages of a queue. Only committed messages are ever seen.
    pub fn get_messages(&self, request: &GetRequest<'_>, limits: &GetLimits) -> Fetched {
        let Some(queue) = self.queue(request.topic, request.queue_id) else {
            return Fetched::nothing(GetStatus::NoMessageInQueue, 0, 0, 0);
        };
        let (min, max) = (queue.min_offset(), queue.max_offset());
        let offset = request.offset;
        let nothing = |status, next| Fetched::nothing(status, next, min, max);
        if max == 0 {
            return nothing(GetStatus::NoMessageInQueue, 0);
        }
        if offset < min {
            return nothing(GetStatus::OffsetTooSmall, min);
        }
        if offset == max {
            return nothing(GetStatus::OffsetOverflowOne, offset);
        }
        if offset > max {
            return nothing(GetStatus::OffsetOverflowBadly, max);
        }
        let mut scan = Scan {
            store: self,
            request,
            limits,
            fetched: nothing(GetStatus::NoMatchedMessage, offset),
        };
        scan.run(&queue);
        scan.fetched
    }
}

/// The walk of one pull over the units of a queue.
struct Scan<'a> {
    store: &'a MessageStore,
    request: &'a GetRequest<'a>,
    limits: &'a GetLimits,
    fetched: Fetched,
}

/// Whether the walk goes on.
#[derive(PartialEq, Eq)]
enum Step {
    On,
    Stop,
}

impl Scan<'_> {
    fn run(&mut self, queue: &ConsumeQueue) {
        let scan_max = SCAN_UNITS.max(self.request.max_messages);
        let (log_min, log_max) = (self.store.log().min_offset(), self.store.log().max_offset());
        let mut units = Vec::new();
        let mut scanned = 0;
        while scanned < scan_max {
            let from = self.fetched.next_offset;
            let wanted = READ_UNITS
                .min(scan_max - scanned)
                .min(self.request.max_messages.max(32));
            let up_to = (self.fetched.max_offset - from).clamp(0, wanted as i64) as usize;
            units.clear();
            if let Err(error) = queue.units(from, up_to, &mut units) {
                tracing::error!(%error, topic = self.request.topic, queue_id = self.request.queue_id, "a queue cannot be read");
            }
            if units.is_empty() {
                if scanned == 0 {
                    self.fetched.status = GetStatus::OffsetFoundNull;
                    self.fetched.next_offset = queue.next_file_offset(from);
                }
                return;
            }
            for unit in &units {
                if self.unit(unit, log_min, log_max) == Step::Stop {
                    return;
                }
                scanned += 1;
            }
        }
    }

    fn unit(&mut self, unit: &Unit, log_min: i64, log_max: i64) -> Step {
        let behind = log_max - unit.physical_offset;
        if self.is_full(
            unit.size.max(0) as usize,
            behind > self.limits.memory_distance,
        ) {
            return Step::Stop;
        }
        self.fetched.behind = behind;
        self.fetched.next_offset += 1;
        if unit.physical_offset < log_min || unit.is_blank() {
            self.fetched.removing();
            return Step::On;
        }
        if !self.request.filter.matches(unit.tags_code) {
            return Step::On;
        }
        match self
            .store
            .log()
            .message(unit.physical_offset, unit.size.max(0) as usize)
        {
            Some(message) => {
                self.fetched.status = GetStatus::Found;
                self.fetched.bytes += message.len();
                self.fetched.messages.push(message);
            }
            None => self.unreadable(unit),
        }
        Step::On
    }

    /// A message that is neither expired nor readable: said in the log, not passed over in silence.
    fn unreadable(&mut self, unit: &Unit) {
        if unit.physical_offset >= self.store.log().min_offset() {
            tracing::error!(
                topic = self.request.topic,
                queue_id = self.request.queue_id,
                queue_offset = self.fetched.next_offset - 1,
                physical_offset = unit.physical_offset,
                size = unit.size,
                "a queue names a message that cannot be read; it is skipped"
            );
        }
        self.fetched.removing();
    }

    fn is_full(&self, next_size: usize, on_disk: bool) -> bool {
        let (count, bytes) = (self.fetched.messages.len(), self.fetched.bytes);
        if count == 0 {
            return false;
        }
        let (bytes_max, count_max) = if on_disk {
            self.limits.on_disk
        } else {
            self.limits.in_memory
        };
        count >= self.request.max_messages || count >= count_max || bytes + next_size > bytes_max
    }
}

impl Fetched {
    /// Reads one byte of each page, so that sending the messages later does not wait for the disk.
    pub fn touch(&self) {
        const PAGE: usize = 4096;
        let pages = self
            .messages
            .iter()
            .flat_map(|message| message.iter().step_by(PAGE).chain(message.last()));
        std::hint::black_box(pages.fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
    }

    fn removing(&mut self) {
        if self.status == GetStatus::NoMatchedMessage {
            self.status = GetStatus::MessageWasRemoving;
        }
    }
}

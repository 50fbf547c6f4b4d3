//! The message log: RocketMQ message frames in a DLedger log, and the legacy commitlog before it.
//!
//! [`DLedgerCommitLog`] is what a broker stores to and reads from. A store that a plain broker wrote is examined
//! ([`mod@examine`]), upgraded in place ([`upgrade`]) and from then on read as two halves: the [`legacy`] files
//! below the divide, DLedger entries from there.

pub mod blank;
pub mod digest;
mod dledger_commitlog;
pub mod examine;
pub mod frame;
pub mod layout;
pub mod legacy;
mod progress;
mod queue_offsets;
pub mod reader;
#[cfg(test)]
mod testing;
pub mod upgrade;

pub use dledger_commitlog::{
    CommitLogConfig, DLedgerCommitLog, FrameCheck, OpenError, OpenReport, Put, PutBatch, PutError,
    Removed, RetentionClock, RetentionError, Sweep,
};
pub use progress::Progress;
pub use queue_offsets::{QueueOffsets, QueueSlot};

/// Bytes that an entry of the DLedger log may take, header included.
pub const MAX_ENTRY: usize = dledger::entry::MAX_ENTRY_SIZE;
/// Bytes that a frame may take.
pub const MAX_FRAME: usize = MAX_ENTRY - examine::ENTRY_HEADER;
/// Bytes that an entry may need besides the body of its message.
const MAX_FRAME_OVERHEAD: usize =
    examine::ENTRY_HEADER + frame::MIN_FRAME + 24 + frame::MAX_TOPIC_V1 + frame::MAX_PROPERTIES;

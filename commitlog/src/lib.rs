//! The message log: RocketMQ message frames in a DLedger log, and the legacy commitlog before it.

pub mod blank;
pub mod frame;
mod queue_offsets;

pub use queue_offsets::{QueueOffsets, QueueSlot};

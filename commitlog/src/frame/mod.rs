//! The message frame: one stored message, as it lies in a legacy commitlog file and as the body of a
//! DLedger entry. Layout (all integers big-endian), offsets for two IPv4 hosts:
//!
//! ```text
//!   0 i32 total size      20 i64 queue offset       48 born host (4+4, IPv6 16+4)   76 i64 prepared offset
//!   4 i32 magic           28 i64 physical offset    56 i64 store timestamp          84 i32 + body
//!   8 i32 body CRC        36 i32 system flags       64 store host (4+4, IPv6 16+4)  .. i8 (V2: i16) + topic
//!  12 i32 queue id        40 i64 born timestamp     72 i32 reconsume times          .. i16 + properties
//!  16 i32 flag
//! ```
//!
//! Offsets and sizes here are relative to the frame; a *physical offset* is absolute in the log and names
//! the first byte of the frame (inside DLedger: entry position + 48).

mod encode;
mod properties;
mod view;

use remoting::message::sys_flag;

pub use encode::{Encoded, MessageToStore};
pub use properties::PropertySource;
pub use view::{FrameView, frame_size};
pub(crate) use view::{read_i32, read_i64};

pub use remoting::message::{MAGIC_V1, MAGIC_V2, body_crc};

/// Where the queue offset (i64) lies in a frame.
pub const QUEUE_OFFSET_AT: usize = 20;
/// Where the physical offset (i64) lies in a frame.
pub const PHYSICAL_OFFSET_AT: usize = 28;

/// Fixed bytes of a V1 frame with two IPv4 hosts and empty body, topic and properties.
pub const MIN_FRAME: usize = 91;
/// Properties may take this many bytes (signed 16-bit length).
pub const MAX_PROPERTIES: usize = i16::MAX as usize;
/// A topic of a V1 frame may take this many bytes.
pub const MAX_TOPIC_V1: usize = i8::MAX as usize;

/// Whether a message with these system flags takes a queue offset of its own (prepared and rollback
/// messages are stored with queue offset 0 and advance nothing).
pub fn takes_queue_offset(flags: i32) -> bool {
    !matches!(
        sys_flag::transaction_type(flags),
        sys_flag::TRANSACTION_PREPARED | sys_flag::TRANSACTION_ROLLBACK
    )
}

/// Writes the queue offset into an encoded frame.
///
/// `frame` must be at least [`MIN_FRAME`] bytes; a shorter slice is left alone.
pub fn patch_queue_offset(frame: &mut [u8], queue_offset: i64) {
    if let Some(at) = frame.get_mut(QUEUE_OFFSET_AT..QUEUE_OFFSET_AT + 8) {
        at.copy_from_slice(&queue_offset.to_be_bytes());
    }
}

/// Writes the physical offset into an encoded frame; see [`patch_queue_offset`] for short slices.
pub fn patch_physical_offset(frame: &mut [u8], physical_offset: i64) {
    if let Some(at) = frame.get_mut(PHYSICAL_OFFSET_AT..PHYSICAL_OFFSET_AT + 8) {
        at.copy_from_slice(&physical_offset.to_be_bytes());
    }
}

/// Why bytes are not a whole, sound frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end before the frame does.
    #[error("frame cut short: {need} bytes needed, {have} there")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Neither V1 nor V2.
    #[error("no message magic: {0:#010x}")]
    Magic(i32),
    /// The stored total size is not what the fields add up to.
    #[error("total size {stored}, but the fields add up to {summed}")]
    Size {
        /// Total size as stored.
        stored: i32,
        /// Sum of the fields.
        summed: usize,
    },
    /// A negative length of body, topic or properties.
    #[error("negative length of {0}")]
    Length(&'static str),
    /// The topic is not UTF-8.
    #[error("topic is not UTF-8")]
    Topic,
    /// The body does not match its CRC.
    #[error("body CRC {stored:#010x}, computed {computed:#010x}")]
    BodyCrc {
        /// CRC as stored.
        stored: i32,
        /// CRC of the bytes found.
        computed: i32,
    },
    /// The frame says that it lies elsewhere.
    #[error("frame found at {found} says that it lies at {stored}")]
    PhysicalOffset {
        /// Physical offset in the frame.
        stored: i64,
        /// Where the frame was found.
        found: i64,
    },
}

/// Why a message cannot be made a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Properties over [`MAX_PROPERTIES`] bytes.
    #[error("properties take {0} bytes, at most {MAX_PROPERTIES} are allowed")]
    PropertiesTooLong(usize),
    /// Topic longer than a frame can hold (or than the caller allows).
    #[error("topic takes {len} bytes, at most {max} are allowed")]
    TopicTooLong {
        /// Bytes of the topic.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Empty topic.
    #[error("topic is empty")]
    TopicEmpty,
    /// Body larger than allowed.
    #[error("body takes {len} bytes, at most {max} are allowed")]
    BodyTooLarge {
        /// Bytes of the body.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The whole frame is larger than an entry can hold.
    #[error("message takes {len} bytes with its header, at most {max} fit an entry")]
    FrameTooLarge {
        /// Bytes of the frame.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
}

#[cfg(test)]
mod tests;

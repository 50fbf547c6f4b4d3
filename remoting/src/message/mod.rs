//! Messages on the wire: properties, flags, ids, tag hashes, batches, and the rules for names.

mod batch;
mod ids;
mod names;
pub mod properties;
pub mod property;
pub mod sys_flag;
mod tags;

pub use batch::{BATCH_ITEM_FIXED_LEN, BatchError, BatchItem, BatchItems, encode_batch_item};
pub use ids::OffsetId;
pub use names::{
    DEFAULT_TOPIC, DLQ_PREFIX, GROUP_LEN_MAX, LMQ_PREFIX, NAME_PATTERN, NameError, RETRY_PREFIX,
    TOPIC_LEN_MAX, dlq_topic, is_light_queue, is_name_char, is_send_forbidden, is_system_group,
    is_system_topic, retry_topic, topic, validate_group, validate_topic,
};
pub use tags::{java_hash, tags_code};

/// Magic of a stored message whose topic length has one byte.
pub const MAGIC_V1: i32 = -626_843_481;
/// Magic of a stored message whose topic length has two bytes.
pub const MAGIC_V2: i32 = -626_843_477;
/// Magic of the filler at the end of a commitlog file.
pub const MAGIC_BLANK: i32 = -875_286_124;

/// CRC-32 of a body as it is stored and sent: the sign bit is cleared.
pub fn body_crc(body: &[u8]) -> i32 {
    (crc32fast::hash(body) & 0x7FFF_FFFF) as i32
}

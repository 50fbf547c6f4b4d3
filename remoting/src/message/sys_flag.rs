//! Bits of a message's and of a pull's sysFlag (classes MessageSysFlag and PullSysFlag).

/// The body is compressed.
pub const COMPRESSED: i32 = 1;
/// The message has several tags.
pub const MULTI_TAGS: i32 = 2;
/// Mask of the transaction type.
pub const TRANSACTION_MASK: i32 = 12;
/// Not transactional.
pub const TRANSACTION_NOT: i32 = 0;
/// Half message.
pub const TRANSACTION_PREPARED: i32 = 4;
/// Committed message.
pub const TRANSACTION_COMMIT: i32 = 8;
/// Rolled back.
pub const TRANSACTION_ROLLBACK: i32 = 12;
/// The born host is IPv6.
pub const BORN_HOST_V6: i32 = 16;
/// The store host is IPv6.
pub const STORE_HOST_V6: i32 = 32;
/// An inner batch that must be unwrapped.
pub const NEED_UNWRAP: i32 = 64;
/// An inner batch.
pub const INNER_BATCH: i32 = 128;
/// Mask of the compression type; 0 is ZLIB by older clients.
pub const COMPRESSION_MASK: i32 = 0x700;

/// Transaction bits of a sysFlag.
pub fn transaction_type(sys_flag: i32) -> i32 {
    sys_flag & TRANSACTION_MASK
}

/// Replaces the transaction bits.
pub fn with_transaction(sys_flag: i32, kind: i32) -> i32 {
    (sys_flag & !TRANSACTION_MASK) | kind
}

/// Bits of a pull request's sysFlag.
pub mod pull {
    /// The request carries an offset to commit.
    pub const COMMIT_OFFSET: i32 = 1;
    /// The broker may hold the request.
    pub const SUSPEND: i32 = 2;
    /// The request carries its subscription expression.
    pub const SUBSCRIPTION: i32 = 4;
    /// Class filter mode: everything matches.
    pub const CLASS_FILTER: i32 = 8;
    /// Sent by a lite pull consumer.
    pub const LITE_PULL: i32 = 16;
}

//! Queries of messages and queues: 12, 33, 321.

use super::headers;

headers! {
    /// QUERY_MESSAGE 12.
    QueryMessageHeader {
        topic: &'a str = "topic",
        key: &'a str = "key",
        max_num: i32 = "maxNum",
        begin_timestamp: i64 = "beginTimestamp",
        /// May be the largest i64.
        end_timestamp: i64 = "endTimestamp",
        /// The key is a unique key.
        unique_key: Option<bool> = "_UNIQUE_KEY_QUERY",
    }

    /// Ext fields of the answer to 12.
    QueryMessageResponseHeader {
        index_last_update_timestamp: i64 = "indexLastUpdateTimestamp",
        index_last_update_phyoffset: i64 = "indexLastUpdatePhyoffset",
    }

    /// VIEW_MESSAGE_BY_ID 33.
    ViewMessageHeader {
        /// Physical offset.
        offset: i64 = "offset",
        topic: Option<&'a str> = "topic",
    }

    /// QUERY_CONSUME_QUEUE 321.
    QueryConsumeQueueHeader {
        topic: &'a str = "topic",
        queue_id: i32 = "queueId",
        index: i64 = "index",
        count: i32 = "count",
        consumer_group: Option<&'a str> = "consumerGroup",
    }
}

//! Offsets of queues and consumers: 14, 15, 29 to 32.

use super::headers;

headers! {
    /// QUERY_CONSUMER_OFFSET 14.
    QueryConsumerOffsetHeader {
        consumer_group: &'a str = "consumerGroup",
        topic: &'a str = "topic",
        queue_id: i32 = "queueId",
        set_zero_if_not_found: Option<bool> = "setZeroIfNotFound",
    }

    /// UPDATE_CONSUMER_OFFSET 15.
    UpdateConsumerOffsetHeader {
        consumer_group: &'a str = "consumerGroup",
        topic: &'a str = "topic",
        queue_id: i32 = "queueId",
        commit_offset: i64 = "commitOffset",
    }

    /// SEARCH_OFFSET_BY_TIMESTAMP 29.
    SearchOffsetHeader {
        topic: &'a str = "topic",
        queue_id: i32 = "queueId",
        /// In ms.
        timestamp: i64 = "timestamp",
        /// `LOWER` or `UPPER`; absent in 4.9.
        boundary_type: Option<&'a str> = "boundaryType",
    }

    /// GET_MAX_OFFSET 30, GET_MIN_OFFSET 31 and GET_EARLIEST_MSG_STORETIME 32.
    QueueHeader {
        topic: &'a str = "topic",
        queue_id: i32 = "queueId",
        /// Only with 30 of 5.x; absent means true.
        committed: Option<bool> = "committed",
    }

    /// Ext fields of the answers to 14, 29, 30 and 31.
    OffsetResponseHeader {
        offset: i64 = "offset",
    }

    /// Ext fields of the answer to 32.
    TimestampResponseHeader {
        timestamp: i64 = "timestamp",
    }
}

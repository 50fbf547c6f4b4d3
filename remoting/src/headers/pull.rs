//! PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361.

use super::headers;

headers! {
    /// A pull.
    PullMessageHeader {
        consumer_group: &'a str = "consumerGroup",
        topic: &'a str = "topic",
        queue_id: i32 = "queueId",
        queue_offset: i64 = "queueOffset",
        max_msg_nums: i32 = "maxMsgNums",
        /// Bits of [`crate::message::sys_flag::pull`].
        sys_flag: i32 = "sysFlag",
        /// Used only with the commit bit.
        commit_offset: i64 = "commitOffset",
        suspend_timeout_millis: i64 = "suspendTimeoutMillis",
        subscription: Option<&'a str> = "subscription",
        sub_version: i64 = "subVersion",
        /// Absent means TAG.
        expression_type: Option<&'a str> = "expressionType",
        max_msg_bytes: Option<i32> = "maxMsgBytes",
        request_source: Option<i32> = "requestSource",
        broker_name: Option<&'a str> = "bname",
    }

    /// Ext fields of a pull's answer; all four must be there for the codes 0, 19, 20 and 21.
    PullMessageResponseHeader {
        suggest_which_broker_id: i64 = "suggestWhichBrokerId",
        next_begin_offset: i64 = "nextBeginOffset",
        min_offset: i64 = "minOffset",
        max_offset: i64 = "maxOffset",
    }
}

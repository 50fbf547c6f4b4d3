//! Administration of topics, groups and the broker: 17, 200 to 208, 215, 300 to 321, 343 to 352.

use super::headers;

headers! {
    /// UPDATE_AND_CREATE_TOPIC 17.
    CreateTopicHeader {
        topic: &'a str = "topic",
        default_topic: Option<&'a str> = "defaultTopic",
        read_queue_nums: i32 = "readQueueNums",
        write_queue_nums: i32 = "writeQueueNums",
        perm: i32 = "perm",
        /// `SINGLE_TAG` or `MULTI_TAG`.
        topic_filter_type: Option<&'a str> = "topicFilterType",
        topic_sys_flag: Option<i32> = "topicSysFlag",
        order: Option<bool> = "order",
        /// 5.x: `+key=value,-key`.
        attributes: Option<&'a str> = "attributes",
        force: Option<bool> = "force",
    }

    /// Requests about one topic: 202, 215, 300, 351, and at the name server 216 and 217.
    TopicHeader {
        topic: &'a str = "topic",
        /// Only with 216.
        cluster_name: Option<&'a str> = "clusterName",
        /// Only with 351: the static topic's mapping is asked for.
        lo: Option<bool> = "lo",
    }

    /// DELETE_SUBSCRIPTIONGROUP 207.
    DeleteGroupHeader {
        group_name: &'a str = "groupName",
        /// Name in 5.x.
        clean_offset: Option<bool> = "cleanOffset",
        /// Name in 4.9.
        remove_offset: Option<bool> = "removeOffset",
    }

    /// GET_SUBSCRIPTIONGROUP_CONFIG 352 and QUERY_TOPICS_BY_CONSUMER 343.
    GroupHeader {
        group: &'a str = "group",
    }

    /// QUERY_CONSUME_TIME_SPAN 303 and QUERY_SUBSCRIPTION_BY_CONSUMER 345.
    TopicGroupHeader {
        topic: &'a str = "topic",
        group: &'a str = "group",
    }

    /// GET_CONSUME_STATS 208.
    ConsumeStatsHeader {
        consumer_group: &'a str = "consumerGroup",
        /// Absent or empty means all.
        topic: Option<&'a str> = "topic",
        /// 5.x: joined by `;`.
        topic_list: Option<&'a str> = "topicList",
    }

    /// QUERY_CORRECTION_OFFSET 308.
    CorrectionOffsetHeader {
        /// Joined by commas.
        filter_groups: Option<&'a str> = "filterGroups",
        compare_group: &'a str = "compareGroup",
        topic: &'a str = "topic",
    }

    /// CLONE_GROUP_OFFSET 314.
    CloneGroupOffsetHeader {
        src_group: &'a str = "srcGroup",
        dest_group: &'a str = "destGroup",
        /// Empty means all topics of the source.
        topic: Option<&'a str> = "topic",
        offline: Option<bool> = "offline",
    }

    /// VIEW_BROKER_STATS_DATA 315.
    BrokerStatsHeader {
        stats_name: &'a str = "statsName",
        stats_key: &'a str = "statsKey",
    }

    /// GET_BROKER_CONSUME_STATS 317.
    BrokerConsumeStatsHeader {
        is_order: bool = "isOrder",
    }

    /// RESUME_CHECK_HALF_MESSAGE 323.
    ResumeCheckHalfMessageHeader {
        topic: Option<&'a str> = "topic",
        /// Offset id.
        msg_id: &'a str = "msgId",
    }

    /// GET_BROKER_CONFIG 26: ext field of the answer.
    BrokerConfigResponseHeader {
        /// DataVersion as JSON text.
        version: &'a str = "version",
    }
}

//! Clients and groups: 35, 38, 40, 203, 204, 220 to 223, 307, 309.

use super::headers;

headers! {
    /// UNREGISTER_CLIENT 35.
    UnregisterClientHeader {
        client_id: &'a str = "clientID",
        producer_group: Option<&'a str> = "producerGroup",
        consumer_group: Option<&'a str> = "consumerGroup",
    }

    /// GET_CONSUMER_LIST_BY_GROUP 38, NOTIFY_CONSUMER_IDS_CHANGED 40, GET_CONSUMER_CONNECTION_LIST 203.
    ConsumerGroupHeader {
        consumer_group: &'a str = "consumerGroup",
    }

    /// GET_PRODUCER_CONNECTION_LIST 204.
    ProducerGroupHeader {
        producer_group: &'a str = "producerGroup",
    }

    /// INVOKE_BROKER_TO_RESET_OFFSET 222, and RESET_CONSUMER_CLIENT_OFFSET 220 as the broker sends it.
    ResetOffsetHeader {
        topic: &'a str = "topic",
        group: &'a str = "group",
        /// In ms; −1 means the end.
        timestamp: i64 = "timestamp",
        is_force: bool = "isForce",
        /// 5.x; −1 means all.
        queue_id: Option<i32> = "queueId",
        /// 5.x; −1 means by time.
        offset: Option<i64> = "offset",
    }

    /// INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223, and GET_CONSUMER_STATUS_FROM_CLIENT 221 as the broker sends it.
    GetConsumerStatusHeader {
        topic: &'a str = "topic",
        group: &'a str = "group",
        /// A client id as filter; only with 223.
        client_addr: Option<&'a str> = "clientAddr",
    }

    /// GET_CONSUMER_RUNNING_INFO 307.
    ConsumerRunningInfoHeader {
        consumer_group: &'a str = "consumerGroup",
        client_id: &'a str = "clientId",
        jstack_enable: Option<bool> = "jstackEnable",
    }

    /// CONSUME_MESSAGE_DIRECTLY 309.
    ConsumeMessageDirectlyHeader {
        consumer_group: &'a str = "consumerGroup",
        client_id: Option<&'a str> = "clientId",
        /// Offset id.
        msg_id: Option<&'a str> = "msgId",
        broker_name: Option<&'a str> = "brokerName",
        topic: Option<&'a str> = "topic",
    }
}

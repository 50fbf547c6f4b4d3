//! Name server: 100 to 105, 205, 219, 224, 322, 327.

use super::headers;

headers! {
    /// REGISTER_BROKER 103.
    RegisterBrokerHeader {
        broker_name: &'a str = "brokerName",
        /// `ip:port` of the main port.
        broker_addr: &'a str = "brokerAddr",
        cluster_name: &'a str = "clusterName",
        /// `ip:port`; may be empty, and is absent then in the binary header.
        ha_server_addr: Option<&'a str> = "haServerAddr",
        /// 0 is the master.
        broker_id: i64 = "brokerId",
        heartbeat_timeout_millis: Option<i64> = "heartbeatTimeoutMillis",
        enable_acting_master: Option<bool> = "enableActingMaster",
        compressed: Option<bool> = "compressed",
        /// CRC-32 of the body as sent, sign bit cleared; 0 means unchecked.
        body_crc32: Option<i32> = "bodyCrc32",
    }

    /// Ext fields of the answer to 103.
    RegisterBrokerResponseHeader {
        ha_server_addr: Option<&'a str> = "haServerAddr",
        master_addr: Option<&'a str> = "masterAddr",
    }

    /// UNREGISTER_BROKER 104 and QUERY_DATA_VERSION 322.
    BrokerIdentityHeader {
        broker_name: &'a str = "brokerName",
        broker_addr: &'a str = "brokerAddr",
        cluster_name: &'a str = "clusterName",
        broker_id: i64 = "brokerId",
    }

    /// Ext field of the answer to 322.
    QueryDataVersionResponseHeader {
        changed: bool = "changed",
    }

    /// GET_ROUTEINFO_BY_TOPIC 105.
    RouteInfoHeader {
        topic: &'a str = "topic",
        /// The requester reads standard JSON only.
        accept_standard_json_only: Option<bool> = "acceptStandardJsonOnly",
    }

    /// PUT_KV_CONFIG 100.
    PutKvConfigHeader {
        namespace: &'a str = "namespace",
        key: &'a str = "key",
        value: &'a str = "value",
    }

    /// GET_KV_CONFIG 101 and DELETE_KV_CONFIG 102.
    KvConfigHeader {
        namespace: &'a str = "namespace",
        key: &'a str = "key",
    }

    /// Ext field of the answer to 101.
    KvConfigResponseHeader {
        value: Option<&'a str> = "value",
    }

    /// GET_KVLIST_BY_NAMESPACE 219.
    NamespaceHeader {
        namespace: &'a str = "namespace",
    }

    /// WIPE_WRITE_PERM_OF_BROKER 205 and ADD_WRITE_PERM_OF_BROKER 327.
    BrokerNameHeader {
        broker_name: &'a str = "brokerName",
    }

    /// GET_TOPICS_BY_CLUSTER 224.
    ClusterHeader {
        cluster: &'a str = "cluster",
    }
}

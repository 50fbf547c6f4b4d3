//! The keys that are honoured: one line of this table is a field of [`BrokerConfig`], its key in the file, its
//! default (Java's), when a change takes effect, the values that make sense, and its line in
//! `docs/configuration.md`.

use super::value::{BrokerRole, FlushDiskType, Hours, SettingValue};
use std::collections::BTreeMap;

/// When an online update of an honoured key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// At once.
    Live,
    /// At the next start.
    Restart,
}

/// One honoured key, for printing and documentation.
#[derive(Debug, Clone, Copy)]
pub struct HonouredKey {
    /// Name in the file.
    pub name: &'static str,
    /// Type name.
    pub kind: &'static str,
    /// When a change takes effect.
    pub effect: Effect,
    /// One sentence.
    pub doc: &'static str,
}

macro_rules! honoured {
    ($( $(#[doc = $doc:literal])+ $key:literal $field:ident : $type:ty = $default:expr, $effect:ident, $check:expr; )*) => {
        /// The effective configuration. Fields are named after Java's keys; units are in the field's line.
        #[derive(Debug, Clone, PartialEq)]
        pub struct BrokerConfig {
            $( $(#[doc = $doc])+ pub $field: $type, )*
            /// Values given for keys that are known but not honoured, by key.
            pub unhonoured: BTreeMap<String, String>,
        }

        impl Default for BrokerConfig {
            fn default() -> Self {
                Self { $( $field: $default, )* unhonoured: BTreeMap::new() }
            }
        }

        /// All honoured keys in the order of the table.
        pub const HONOURED: &[HonouredKey] = &[ $( HonouredKey {
            name: $key, kind: <$type as SettingValue>::KIND, effect: Effect::$effect, doc: concat!($($doc),+),
        }, )* ];

        impl BrokerConfig {
            /// Sets an honoured key: `None` if it is not one, `Err` says what the value must be.
            pub(super) fn set_honoured(&mut self, key: &str, text: &str) -> Option<Result<(), String>> {
                match key {
                    $( $key => {
                        let check: fn(&$type) -> Result<(), String> = $check;
                        let expected = || <$type as SettingValue>::EXPECTED.to_string();
                        let value = <$type as SettingValue>::parse(text).ok_or_else(expected);
                        Some(value.and_then(|v| check(&v).map(|()| self.$field = v)))
                    } )*
                    _ => None,
                }
            }

            /// The value of an honoured key as text.
            pub(super) fn get_honoured(&self, key: &str) -> Option<String> {
                match key {
                    $( $key => Some(self.$field.render()), )*
                    _ => None,
                }
            }
        }
    };
}

fn any<T>(_: &T) -> Result<(), String> {
    Ok(())
}

fn within<T: PartialOrd + std::fmt::Display>(value: &T, low: T, high: T) -> Result<(), String> {
    if *value >= low && *value <= high {
        Ok(())
    } else {
        Err(format!("a number from {low} to {high}"))
    }
}

fn at_least<T: PartialOrd + std::fmt::Display>(value: &T, low: T) -> Result<(), String> {
    if *value >= low {
        Ok(())
    } else {
        Err(format!("a number of at least {low}"))
    }
}

fn name(value: &str) -> Result<(), String> {
    match value.chars().any(|c| c.is_whitespace() || c.is_control()) {
        _ if value.is_empty() => Err("a name, not empty".into()),
        true => Err("a name without blanks".into()),
        false => Ok(()),
    }
}

honoured! {
    #[doc = "Name servers to register at, `host:port` joined by `;`; default: the environment variable NAMESRV_ADDR."]
    "namesrvAddr" namesrv_addr: String = String::new(), Restart, |v| super::addresses::check_list(v);
    #[doc = "Cluster name."]
    "brokerClusterName" broker_cluster_name: String = "DefaultCluster".into(), Restart, |v| name(v);
    #[doc = "Name of the broker, the same on all members of a group; default: the host name."]
    "brokerName" broker_name: String = String::new(), Restart, |v| name(v);
    #[doc = "Address that is registered and put into message ids; default: the address of the interface with the default route."]
    "brokerIP1" broker_ip1: String = String::new(), Restart, |v| name(v);
    #[doc = "Address of the replication port of master/slave replication: only registered, nothing listens there."]
    "brokerIP2" broker_ip2: String = String::new(), Restart, |v| name(v);
    #[doc = "Port for clients; the fast port is this minus 2."]
    "listenPort" listen_port: i32 = 10911, Restart, |v| within(v, 3, 65535);
    #[doc = "Address to listen on (a 5.x key); 127.0.0.1 when started without a configuration."]
    "bindAddress" bind_address: String = "0.0.0.0".into(), Restart, |v| super::addresses::check_bind(v);
    #[doc = "Permission of the whole broker: 2 write, 4 read; registered topics are ANDed with it."]
    "brokerPermission" broker_permission: i32 = 6, Live, |v| within(v, 0, 7);
    #[doc = "Queues of TBW102 when a store is new; automatically created topics have at most as many as TBW102."]
    "defaultTopicQueueNums" default_topic_queue_nums: i32 = 8, Restart, |v| within(v, 1, 65536);
    #[doc = "Topics are created by the first send."]
    "autoCreateTopicEnable" auto_create_topic_enable: bool = true, Live, any;
    #[doc = "The topic named after the cluster can be used."]
    "clusterTopicEnable" cluster_topic_enable: bool = true, Restart, any;
    #[doc = "The topic named after the broker can be used."]
    "brokerTopicEnable" broker_topic_enable: bool = true, Restart, any;
    #[doc = "Consumer groups are created by their first use."]
    "autoCreateSubscriptionGroup" auto_create_subscription_group: bool = true, Live, any;
    #[doc = "Creates the trace topic at the start."]
    "traceTopicEnable" trace_topic_enable: bool = false, Restart, any;
    #[doc = "Name of the trace topic."]
    "msgTraceTopicName" msg_trace_topic_name: String = "RMQ_SYS_TRACE_TOPIC".into(), Restart, |v| name(v);
    #[doc = "Value of TRACE_ON in answers to sends."]
    "traceOn" trace_on: bool = true, Live, any;
    #[doc = "Region put into answers to sends."]
    "regionId" region_id: String = "DefaultRegion".into(), Live, |v| name(v);
    #[doc = "Replies of request/reply messaging are stored in the reply topic as well."]
    "storeReplyMessageEnable" store_reply_message_enable: bool = true, Live, any;
    #[doc = "Sends before this time (ms) are refused."]
    "startAcceptSendRequestTimeStamp" start_accept_send_request_time_stamp: i64 = 0, Live, |v| at_least(v, 0);
    #[doc = "Pulls that find nothing are held as long as the client asks for; otherwise for shortPollingTimeMills."]
    "longPollingEnable" long_polling_enable: bool = true, Live, any;
    #[doc = "Hold time in ms when longPollingEnable is false."]
    "shortPollingTimeMills" short_polling_time_mills: i64 = 1000, Live, |v| within(v, 0, 600_000);
    #[doc = "Members of a group are told at once when its membership changes."]
    "notifyConsumerIdsChangedEnable" notify_consumer_ids_changed_enable: bool = true, Live, any;
    #[doc = "Interval in ms at which consumer offsets are written to consumerOffset.json."]
    "flushConsumerOffsetInterval" flush_consumer_offset_interval: i32 = 5000, Restart, |v| at_least(v, 100);
    #[doc = "Time in ms that one name server may take for a registration."]
    "registerBrokerTimeoutMills" register_broker_timeout_mills: i32 = 6000, Restart, |v| within(v, 100, 600_000);
    #[doc = "Interval in ms of the registration heartbeat; kept within 10000 to 60000 as in Java."]
    "registerNameServerPeriod" register_name_server_period: i32 = 30_000, Restart, |v| at_least(v, 1);
    #[doc = "Statistics by queue beside those by topic and group."]
    "enableDetailStat" enable_detail_stat: bool = true, Live, any;
    #[doc = "Keys that an online update must not touch, joined by `;`."]
    "configBlackList" config_black_list: String = "configBlackList;brokerConfigPath".into(), Restart, any;
    #[doc = "Connections without traffic for this many seconds are closed."]
    "serverChannelMaxIdleTimeSeconds" server_channel_max_idle_time_seconds: i32 = 120, Restart, |v| within(v, 1, 86_400);
    #[doc = "Length of the queue of connections that wait to be accepted."]
    "serverSocketBacklog" server_socket_backlog: i32 = 1024, Restart, |v| within(v, 1, 65_535);

    #[doc = "Root of the store; default: `store` in the user's home with a configuration file, `./store` without."]
    "storePathRootDir" store_path_root_dir: String = String::new(), Restart, |v| super::check::path(v);
    #[doc = "Folder of the legacy commitlog; default: `commitlog` in the root."]
    "storePathCommitLog" store_path_commit_log: String = String::new(), Restart, |v| super::check::path(v);
    #[doc = "Folder of the DLedger data files; default: `dledger-<dLegerSelfId>/data` in the root."]
    "storePathDLedgerCommitLog" store_path_dledger_commit_log: String = String::new(), Restart, |v| super::check::path(v);
    #[doc = "Size in bytes of commitlog and DLedger data files; must equal that of the files in the store."]
    "mappedFileSizeCommitLog" mapped_file_size_commit_log: i32 = 1_073_741_824, Restart, |v| at_least(v, 4096);
    #[doc = "Size in bytes of consume queue files, rounded up to whole units of 20 bytes."]
    "mappedFileSizeConsumeQueue" mapped_file_size_consume_queue: i32 = 6_000_000, Restart, |v| within(v, 20, 1 << 30);
    #[doc = "ASYNC_FLUSH: acknowledged when written, synced within 10 ms (class P). SYNC_FLUSH: acknowledged when synced, one sync for everything appended before it began (class S); Java ignores it in DLedger mode."]
    "flushDiskType" flush_disk_type: FlushDiskType = FlushDiskType::Async, Restart, any;
    #[doc = "ASYNC_MASTER or SYNC_MASTER, which make no difference; SLAVE is refused. The role comes from the election."]
    "brokerRole" broker_role: BrokerRole = BrokerRole::AsyncMaster, Restart, any;
    #[doc = "Interval in ms at which consume queues are flushed."]
    "flushIntervalConsumeQueue" flush_interval_consume_queue: i32 = 1000, Restart, |v| within(v, 10, 60_000);
    #[doc = "Interval in ms of the search for expired files."]
    "cleanResourceInterval" clean_resource_interval: i32 = 10_000, Restart, |v| within(v, 100, 86_400_000);
    #[doc = "Hours of the day, local time, at which expired files are deleted."]
    "deleteWhen" delete_when: Hours = Hours::parse("04").expect("a constant"), Live, any;
    #[doc = "Hours that a file is kept after its last change."]
    "fileReservedTime" file_reserved_time: i32 = 72, Live, |v| at_least(v, 0);
    #[doc = "Used percentage of the disk above which expired files are deleted at any hour; kept within 10 to 95 as in Java."]
    "diskMaxUsedSpaceRatio" disk_max_used_space_ratio: i32 = 75, Live, |v| within(v, 0, 100);
    #[doc = "Used percentage at which files are deleted before they expire (a 5.x key)."]
    "diskSpaceCleanForciblyRatio" disk_space_clean_forcibly_ratio: i32 = 85, Live, |v| within(v, 1, 100);
    #[doc = "Used percentage at which nothing more is stored (a 5.x key)."]
    "diskSpaceWarningLevelRatio" disk_space_warning_level_ratio: i32 = 90, Live, |v| within(v, 1, 100);
    #[doc = "Files may be deleted before they expire when the disk is nearly full."]
    "cleanFileForciblyEnable" clean_file_forcibly_enable: bool = true, Live, any;
    #[doc = "Greatest body of a message in bytes."]
    "maxMessageSize" max_message_size: i32 = 4_194_304, Restart, |v| within(v, 1, 1 << 29);
    #[doc = "Bytes that one pull returns from messages in memory."]
    "maxTransferBytesOnMessageInMemory" max_transfer_bytes_on_message_in_memory: i32 = 262_144, Live, |v| at_least(v, 1);
    #[doc = "Messages that one pull returns from memory."]
    "maxTransferCountOnMessageInMemory" max_transfer_count_on_message_in_memory: i32 = 32, Live, |v| at_least(v, 1);
    #[doc = "Bytes that one pull returns from messages on disk."]
    "maxTransferBytesOnMessageInDisk" max_transfer_bytes_on_message_in_disk: i32 = 65_536, Live, |v| at_least(v, 1);
    #[doc = "Messages that one pull returns from disk."]
    "maxTransferCountOnMessageInDisk" max_transfer_count_on_message_in_disk: i32 = 8, Live, |v| at_least(v, 1);
    #[doc = "Percentage of the physical memory within which messages at the end of the log count as being in memory."]
    "accessMessageInMemoryMaxRatio" access_message_in_memory_max_ratio: i32 = 40, Live, |v| within(v, 0, 100);
    #[doc = "The key index is written and served."]
    "messageIndexEnable" message_index_enable: bool = true, Restart, any;
    #[doc = "Hash slots of an index file."]
    "maxHashSlotNum" max_hash_slot_num: i32 = 5_000_000, Restart, |v| within(v, 1, 100_000_000);
    #[doc = "Items of an index file."]
    "maxIndexNum" max_index_num: i32 = 20_000_000, Restart, |v| within(v, 2, 100_000_000);
    #[doc = "Most messages that a query by key returns."]
    "maxMsgsNumBatch" max_msgs_num_batch: i32 = 64, Live, |v| within(v, 1, 10_000);
    #[doc = "Port of master/slave replication that is registered; default: listenPort plus 1. Nothing listens there."]
    "haListenPort" ha_listen_port: i32 = 0, Restart, |v| within(v, 0, 65_535);
    #[doc = "Delay of each level, blank separated, each a number with s, m, h or d."]
    "messageDelayLevel" message_delay_level: String = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".into(), Restart, |v| super::check::delay_levels(v);

    #[doc = "Must be true in a configuration file: the log is always a DLedger log, and the key is the consent to upgrade the store."]
    "enableDLegerCommitLog" enable_dleger_commit_log: bool = false, Restart, any;
    #[doc = "Name of the raft group; default: brokerName."]
    "dLegerGroup" dleger_group: String = String::new(), Restart, |v| name(v);
    #[doc = "Members of the group, `id-host:port` joined by `;`; default for one member: its id, brokerIP1 and listenPort plus 30000."]
    "dLegerPeers" dleger_peers: String = String::new(), Restart, any;
    #[doc = "Id of this member, a letter and a number; default: n0."]
    "dLegerSelfId" dleger_self_id: String = String::new(), Restart, any;

    #[doc = "Ours: runs a name server inside the broker; default: only when started without a configuration and without namesrvAddr."]
    "embeddedNamesrvEnable" embedded_namesrv_enable: bool = false, Restart, any;
    #[doc = "Ours: port of the embedded name server."]
    "embeddedNamesrvPort" embedded_namesrv_port: i32 = 9876, Restart, |v| within(v, 0, 65_535);
    #[doc = "Ours: findings of the store's examination that are accepted, by their names joined by `,`; see `mqctl store check`."]
    "ledgermqAccept" ledgermq_accept: String = String::new(), Restart, |v| super::check::findings(v);
}

//! Reading the configuration: values by key, what `-p` and `-m` print, and what follows from several keys.

use super::addresses;
use super::check::finding_names;
use super::keys::{BrokerConfig, HONOURED};
use super::others::{ACCEPTED, REFUSED};
use commitlog::examine::Code;
use dledger::peers::{MemberId, Peers, PeersError};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keys of `-m`: those that Java marks as important, as far as they matter here, and the DLedger keys.
const IMPORTANT: &[&str] = &[
    "namesrvAddr",
    "brokerClusterName",
    "brokerName",
    "brokerIP1",
    "listenPort",
    "bindAddress",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "traceTopicEnable",
    "msgTraceTopicName",
    "rejectTransactionMessage",
    "storePathRootDir",
    "storePathCommitLog",
    "storePathDLedgerCommitLog",
    "flushDiskType",
    "deleteWhen",
    "fileReservedTime",
    "cleanFileForciblyEnable",
    "maxTransferBytesOnMessageInMemory",
    "maxTransferCountOnMessageInMemory",
    "maxTransferBytesOnMessageInDisk",
    "maxTransferCountOnMessageInDisk",
    "accessMessageInMemoryMaxRatio",
    "messageIndexEnable",
    "enableDLegerCommitLog",
    "dLegerGroup",
    "dLegerPeers",
    "dLegerSelfId",
    "embeddedNamesrvEnable",
    "embeddedNamesrvPort",
];

impl BrokerConfig {
    /// Applies one pair: `Ok(Some(line))` if it has no effect, `Err` with what the value must be.
    pub(super) fn apply(&mut self, key: &str, value: &str) -> Result<Option<String>, String> {
        // An empty value leaves the default, as Java's setters for paths and names are used with it.
        if value.is_empty() && HONOURED.iter().any(|k| k.name == key) {
            return Ok(Some(format!("key {key} has no value, the default stays")));
        }
        if let Some(result) = self.set_honoured(key, value) {
            return result.map(|()| None);
        }
        if let Some(known) = REFUSED.iter().find(|k| k.name == key) {
            if !known.kind.accepts(value) {
                return Err(known.kind.expected().into());
            }
            self.unhonoured.insert(key.into(), value.into());
            return Ok(None);
        }
        let Some(known) = ACCEPTED.iter().find(|k| k.name == key) else {
            self.unhonoured.insert(key.into(), value.into());
            return Ok(Some(format!(
                "key {key} is not known, neither to Apache RocketMQ nor here: ignored"
            )));
        };
        if !value.is_empty() && !known.kind.accepts(value) {
            return Err(known.kind.expected().into());
        }
        self.unhonoured.insert(key.into(), value.into());
        Ok(Some(format!("key {key} has no effect: {}", known.instead)))
    }

    /// The value of any known key as Java would print it: given, or the default; `None` for an unknown one.
    pub fn get(&self, key: &str) -> Option<String> {
        if let Some(value) = self
            .get_honoured(key)
            .or_else(|| self.unhonoured.get(key).cloned())
        {
            return Some(value);
        }
        let accepted = ACCEPTED.iter().find(|k| k.name == key).map(|k| k.default);
        accepted
            .or_else(|| REFUSED.iter().find(|k| k.name == key).map(|k| k.default))
            .map(str::to_string)
    }

    /// All known keys, and unknown ones that were given, with their values, sorted by key.
    pub fn items(&self) -> Vec<(String, String)> {
        let names = HONOURED
            .iter()
            .map(|k| k.name)
            .chain(ACCEPTED.iter().map(|k| k.name));
        let names = names
            .chain(REFUSED.iter().map(|k| k.name))
            .chain(self.unhonoured.keys().map(String::as_str));
        let names: BTreeSet<&str> = names.collect();
        names
            .into_iter()
            .map(|n| (n.to_string(), self.get(n).unwrap_or_default()))
            .collect()
    }

    /// The text that `-p` prints and request 26 answers: `key=value` lines.
    pub fn print_all(&self) -> String {
        self.items()
            .iter()
            .map(|(k, v)| format!("{k}={v}\n"))
            .collect()
    }

    /// The text that `-m` prints: what an operator looks at first.
    pub fn print_important(&self) -> String {
        IMPORTANT
            .iter()
            .map(|k| format!("{k}={}\n", self.get(k).unwrap_or_default()))
            .collect()
    }

    /// Root folder of the store.
    pub fn root(&self) -> &Path {
        Path::new(&self.store_path_root_dir)
    }

    /// Folder of `topics.json` and the other tables.
    pub fn config_dir(&self) -> PathBuf {
        self.root().join("config")
    }

    /// Folder of the legacy commitlog.
    pub fn commit_log_path(&self) -> PathBuf {
        PathBuf::from(&self.store_path_commit_log)
    }

    /// Folder of the DLedger data files.
    pub fn dledger_data_path(&self) -> PathBuf {
        PathBuf::from(&self.store_path_dledger_commit_log)
    }

    /// Size of consume queue files: whole units of 20 bytes.
    pub fn consume_queue_file_size(&self) -> u64 {
        u64::try_from(self.mapped_file_size_consume_queue)
            .unwrap_or(20)
            .div_ceil(20)
            * 20
    }

    /// `brokerIP1:listenPort`: what is registered.
    pub fn broker_addr(&self) -> String {
        addresses::join(&self.broker_ip1, self.listen_port)
    }

    /// `brokerIP2:haListenPort`: registered for the sake of Java's tools.
    pub fn ha_server_addr(&self) -> String {
        addresses::join(&self.broker_ip2, self.ha_listen_port)
    }

    /// Address of the main port to listen on.
    pub fn listen_addr(&self) -> SocketAddr {
        self.bind_to(self.listen_port)
    }

    /// Address of the fast port to listen on.
    pub fn fast_listen_addr(&self) -> SocketAddr {
        self.bind_to(self.listen_port - 2)
    }

    /// Address of the embedded name server to listen on.
    pub fn embedded_namesrv_addr(&self) -> SocketAddr {
        self.bind_to(self.embedded_namesrv_port)
    }

    fn bind_to(&self, port: i32) -> SocketAddr {
        let ip = addresses::parse_ip(&self.bind_address)
            .unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
        SocketAddr::new(ip, u16::try_from(port).unwrap_or(0))
    }

    /// The host that stored messages and message ids carry: `brokerIP1` resolved, with `listenPort`.
    pub fn store_host(&self) -> std::io::Result<SocketAddr> {
        addresses::resolve(
            &self.broker_ip1,
            u16::try_from(self.listen_port).unwrap_or(0),
        )
    }

    /// The members of the raft group.
    pub fn peers(&self) -> Result<Peers, PeersError> {
        Peers::parse(&self.dleger_peers)
    }

    /// The id of this member.
    pub fn self_id(&self) -> Result<MemberId, PeersError> {
        MemberId::parse(&self.dleger_self_id)
    }

    /// Raft port of this member; `None` if `dLegerPeers` does not name it.
    pub fn raft_port(&self) -> Option<i32> {
        let peers = self.peers().ok()?;
        let own = peers.require(&self.self_id().ok()?).ok()?;
        Some(own.port.into())
    }

    /// Findings of the store's examination that the operator accepts.
    pub fn accepted_findings(&self) -> BTreeSet<Code> {
        finding_names(&self.ledgermq_accept)
            .filter_map(|name| name.parse().ok())
            .collect()
    }

    /// Name servers to register at.
    pub fn name_servers(&self) -> Vec<String> {
        addresses::split_list(&self.namesrv_addr)
            .map(str::to_string)
            .collect()
    }

    /// Interval of the registration heartbeat, kept within Java's bounds.
    pub fn register_period(&self) -> Duration {
        Duration::from_millis(
            u64::try_from(self.register_name_server_period.clamp(10_000, 60_000)).unwrap_or(30_000),
        )
    }
}

//! What a configuration must not say: values that make no sense together, and what is refused with a reason.

use super::keys::BrokerConfig;
use super::others::REFUSED;
use super::value::BrokerRole;
use commitlog::examine::Code;

/// Checks a path: not empty; several paths are refused later, with their reason.
pub(super) fn path(value: &str) -> Result<(), String> {
    if value.is_empty() {
        Err("a path, not empty".into())
    } else {
        Ok(())
    }
}

/// Checks `messageDelayLevel`: blank separated, each a positive number with s, m, h or d.
pub(super) fn delay_levels(value: &str) -> Result<(), String> {
    let level = |item: &str| {
        let number = item.strip_suffix(['s', 'm', 'h', 'd'])?;
        number.parse::<u32>().ok().filter(|n| *n > 0)
    };
    match value.split_whitespace().find(|item| level(item).is_none()) {
        None if value.split_whitespace().next().is_some() => Ok(()),
        None => Err("at least one level such as 1s".into()),
        Some(bad) => Err(format!("levels such as 1s 5m 2h, which '{bad}' is not")),
    }
}

/// Checks `ledgermqAccept`: names of findings.
pub(super) fn findings(value: &str) -> Result<(), String> {
    match finding_names(value).find(|name| name.parse::<Code>().is_err()) {
        None => Ok(()),
        Some(bad) => Err(format!(
            "names of findings of 'mqctl store check' joined by ',', which '{bad}' is not"
        )),
    }
}

/// The names in `ledgermqAccept`.
pub(super) fn finding_names(value: &str) -> impl Iterator<Item = &str> {
    value
        .split([',', ';'])
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Combinations that make no sense; the first one found, as a line without the key's file.
pub(super) fn nonsense(c: &BrokerConfig) -> Result<(), String> {
    let index_bytes = 40 + 4 * i64::from(c.max_hash_slot_num) + 20 * i64::from(c.max_index_num);
    if index_bytes > i64::from(i32::MAX) {
        return Err(format!(
            "keys maxHashSlotNum and maxIndexNum: an index file of {index_bytes} bytes is too large, at most 2147483647"
        ));
    }
    if let Some(port) = c.raft_port()
        && (port == c.listen_port || port == c.listen_port - 2)
    {
        return Err(format!(
            "key dLegerPeers: port {port} of this member is taken by listenPort {} or the fast port {}",
            c.listen_port,
            c.listen_port - 2
        ));
    }
    if c.dleger_peers.is_empty() && c.listen_port > 65_535 - 30_000 {
        return Err(format!(
            "key listenPort: value '{}' leaves no port for the default of dLegerPeers (listenPort plus 30000), expected at most 35535 or an explicit dLegerPeers",
            c.listen_port
        ));
    }
    if c.embedded_namesrv_enable
        && (c.embedded_namesrv_port == c.listen_port
            || c.embedded_namesrv_port == c.listen_port - 2)
    {
        return Err(format!(
            "key embeddedNamesrvPort: port {} is taken by listenPort",
            c.embedded_namesrv_port
        ));
    }
    Ok(())
}

/// The DLedger keys together, once their defaults are filled in.
pub(super) fn group(c: &BrokerConfig) -> Result<(), String> {
    let own = c.self_id().map_err(|e| {
        format!(
            "key dLegerSelfId: value '{}' makes no sense: {e}",
            c.dleger_self_id
        )
    })?;
    let peers = c.peers();
    let peers = peers.and_then(|peers| peers.require(&own).map(|_| ()));
    peers.map_err(|e| {
        format!(
            "key dLegerPeers: value '{}' makes no sense: {e}",
            c.dleger_peers
        )
    })
}

/// Everything for which the start is refused, one readable line each. `file` is whether a file was given.
pub(super) fn refusals(c: &BrokerConfig, file: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if file && !c.enable_dleger_commit_log {
        lines.push(
            "key enableDLegerCommitLog: must be true. LedgerMQ always writes a DLedger log; started on the store of a \
             plain broker it closes the old commitlog for good and continues in dledger-<id>, and once messages are \
             stored there a plain Java broker must not be started on it again (Java in DLedger mode can). Add \
             enableDLegerCommitLog=true to agree; 'mqctl store check DIR' shows what would be done"
                .into(),
        );
    }
    if c.broker_role == BrokerRole::Slave {
        lines.push(
            "key brokerRole: value 'SLAVE' is refused: a slave's store ends behind its master's. Start on the \
             master's store with ASYNC_MASTER"
                .into(),
        );
    }
    for (key, path) in [
        ("storePathRootDir", &c.store_path_root_dir),
        ("storePathCommitLog", &c.store_path_commit_log),
        (
            "storePathDLedgerCommitLog",
            &c.store_path_dledger_commit_log,
        ),
    ] {
        if path.contains(',') {
            lines.push(format!(
                "key {key}: value '{path}' names several paths, which is not supported: merge the files into one folder first"
            ));
        }
    }
    for key in REFUSED {
        if let Some(value) = c.unhonoured.get(key.name)
            && !value.eq_ignore_ascii_case(key.default)
        {
            lines.push(format!(
                "key {}: value '{value}' is refused: {}",
                key.name, key.why
            ));
        }
    }
    if let Some(line) = members(c) {
        lines.push(line);
    }
    lines
}

/// Groups of several members come with a later version.
fn members(c: &BrokerConfig) -> Option<String> {
    let count = c.peers().map_or(0, |peers| peers.len());
    (count > 1).then(|| {
        format!(
            "key dLegerPeers: {count} members are named, but this version runs groups of one member only: name this member alone"
        )
    })
}

//! The requests that a broker sends to a name server, and what it reads from the answers.

use crate::config::BrokerConfig;
use crate::embedded_namesrv::{BrokerIdentity, registration_body};
use crate::tables::json::{Map, Node, parse};
use crate::tables::{DataVersion, TopicConfig};
use remoting::{Command, request_code};
use std::sync::Arc;

/// A registration's body is cut at this size, far below the 16 MiB that a stock name server takes as a frame.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// Request 103 with these topics: several requests if they are too many for one. All but the last carry versions of
/// their own, so that a name server which compares versions takes each for news.
pub(super) fn register(
    config: &BrokerConfig,
    id: i64,
    version: &DataVersion,
    topics: &[Arc<TopicConfig>],
) -> Vec<Command> {
    register_in_parts(config, id, version, topics, BODY_MAX)
}

pub(super) fn register_in_parts(
    config: &BrokerConfig,
    id: i64,
    version: &DataVersion,
    topics: &[Arc<TopicConfig>],
    body_max: usize,
) -> Vec<Command> {
    let whole = registration_body(
        version,
        topics.iter().map(AsRef::as_ref),
        config.broker_permission,
    );
    // A part of one topic would be refused by a 5.3 name server that does not know the broker yet.
    let parts = whole
        .len()
        .div_ceil(body_max)
        .clamp(1, (topics.len() / 2).max(1));
    if parts == 1 {
        return vec![request(config, id, whole)];
    }
    let bounds = |i: usize| topics.len() * i / parts;
    let part = |i: usize| {
        let mut version = version.clone();
        version.timestamp -= i64::try_from(parts - 1 - i).unwrap_or(0);
        let slice = &topics[bounds(i)..bounds(i + 1)];
        request(
            config,
            id,
            registration_body(
                &version,
                slice.iter().map(AsRef::as_ref),
                config.broker_permission,
            ),
        )
    };
    (0..parts).map(part).collect()
}

fn request(config: &BrokerConfig, id: i64, body: String) -> Command {
    let crc = crc32fast::hash(body.as_bytes()) & 0x7FFF_FFFF;
    let who = super::identity(config, id);
    with_identity(Command::request(request_code::REGISTER_BROKER), &who)
        .field("haServerAddr", &config.ha_server_addr())
        .field("compressed", "false")
        .field("bodyCrc32", &crc.to_string())
        .with_body(body)
}

/// Request 104.
pub(super) fn unregister(who: &BrokerIdentity) -> Command {
    with_identity(Command::request(request_code::UNREGISTER_BROKER), who)
}

/// Request 322: a heartbeat that carries the version only.
pub(super) fn query_version(who: &BrokerIdentity, version: &DataVersion) -> Command {
    with_identity(Command::request(request_code::QUERY_DATA_VERSION), who)
        .with_body(version.to_json())
}

fn with_identity(command: Command, who: &BrokerIdentity) -> Command {
    command
        .field("brokerId", &who.id.to_string())
        .field("brokerName", &who.name)
        .field("brokerAddr", &who.addr)
        .field("clusterName", &who.cluster)
}

/// The order topics that the answer to a registration lists.
pub(super) fn order_topics(answer: &Command) -> Vec<String> {
    let Ok(Node::Map(body)) = parse(&answer.body) else {
        return Vec::new();
    };
    let table = body.get("table").and_then(Node::as_map);
    table
        .into_iter()
        .flat_map(Map::iter)
        .map(|(topic, _)| topic.to_string())
        .collect()
}

//! An operator moves a group's offsets: 222.
//!
//! As in 4.9 the consumers that are connected are told (220) and commit the new offsets themselves; when
//! none is, the answer is 206, on which the stock tool does the rest by itself.

use remoting::{Command, Language, Response, request_code, response_code};

use super::bodies::{body, queue, queue_key};
use super::{Answer, Call, Refusal};
use crate::store::Boundary;
use crate::tables::json::{Map, Node};

/// Consumers since this version understand 220.
const RESET_SINCE: i32 = 28;

pub(super) fn handle(call: &Call) -> Answer {
    let (topic, group) = (call.text("topic")?, call.text("group")?);
    let timestamp = call.i64("timestamp")?;
    let targets = targets(call, topic, group, timestamp)?;
    let members = call.broker.consumers.members(group);
    if members.is_empty() {
        return Err(Refusal::new(
            response_code::CONSUMER_NOT_ONLINE,
            format!(
                "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {timestamp}"
            ),
        ));
    }
    if let Some(old) = members.iter().find(|member| member.version < RESET_SINCE) {
        return Err(Refusal::error(format!(
            "the client does not support this feature. version={}",
            old.version
        )));
    }
    let as_map = as_map(call, topic, &targets);
    let as_list = as_list(call, topic, &targets);
    for member in &members {
        let text = if member.language == Language::Cpp {
            &as_list
        } else {
            &as_map
        };
        let command = Command::request(request_code::RESET_CONSUMER_CLIENT_OFFSET)
            .field("topic", topic)
            .field("group", group)
            .field("timestamp", &timestamp.to_string())
            .field("isForce", "false")
            .with_body(text.clone());
        if let Err(error) = member.channel.send_oneway(command) {
            tracing::warn!(client = &*member.client_id, %error, "a consumer was not told its new offsets");
        }
    }
    tracing::info!(topic, group, timestamp, peer = %call.conn.peer(), "offsets reset");
    Ok(Response::ok().body(as_map))
}

/// The new offset of each queue that is to be moved.
fn targets(
    call: &Call,
    topic: &str,
    group: &str,
    timestamp: i64,
) -> Result<Vec<(i32, i64)>, Refusal> {
    let broker = &call.broker;
    let Some(config) = broker.topics.get(topic) else {
        return Err(Refusal::error(format!("topic {topic} not exist")));
    };
    let forced = call.request.ext.get_bool("isForce").unwrap_or(true);
    let only = call
        .request
        .ext
        .get_i32("queueId")?
        .filter(|&queue_id| queue_id >= 0);
    let wanted = call
        .request
        .ext
        .get_i64("offset")?
        .filter(|&offset| offset >= 0);
    let queues = match only {
        Some(queue_id) => queue_id..queue_id.saturating_add(1),
        None => 0..config.write_queues,
    };
    let mut targets = Vec::new();
    for queue_id in queues {
        let Some(committed) = broker.offsets.query(group, topic, queue_id) else {
            return Err(Refusal::error(format!(
                "THe consumer group <{group}> not exist"
            )));
        };
        let (min, max) = broker.store.queue_range(topic, queue_id);
        let target = match (only.and(wanted), timestamp) {
            (Some(offset), _) if offset < min || offset > max => {
                return Err(Refusal::error(format!(
                    "the offset {offset} is outside of the queue, {min} to {max}"
                )));
            }
            (Some(offset), _) => offset,
            (None, ..0) => max,
            (None, _) => broker
                .store
                .offset_by_time(topic, queue_id, timestamp, Boundary::Nearest)
                .map_err(|error| Refusal::error(error.to_string()))?,
        };
        let target = target.max(0);
        targets.push((
            queue_id,
            if forced || target < committed {
                target
            } else {
                committed
            },
        ));
    }
    Ok(targets)
}

fn as_map(call: &Call, topic: &str, targets: &[(i32, i64)]) -> bytes::Bytes {
    let mut table = Map::new();
    for &(queue_id, offset) in targets {
        table.push_key(queue_key(&call.broker, topic, queue_id), Node::from(offset));
    }
    body(&Map::new().with("offsetTable", table))
}

/// The form that C++ clients read.
fn as_list(call: &Call, topic: &str, targets: &[(i32, i64)]) -> bytes::Bytes {
    let entry = |&(queue_id, offset): &(i32, i64)| {
        let mut map = Map::new()
            .with("brokerName", call.broker.broker_name.as_str())
            .with("offset", offset);
        for (name, value) in queue(&call.broker, topic, queue_id).iter().skip(1) {
            map.push(name, value.clone());
        }
        Node::Map(map)
    };
    body(&Map::new().with(
        "offsetTable",
        Node::List(targets.iter().map(entry).collect()),
    ))
}

//! Consumer lists and offsets: 38, 14, 15, 29, 30, 31, 32.

use remoting::body::ConsumerListBody;
use remoting::{Response, response_code};

use super::{Answer, Call, Refusal};
use crate::store::Boundary;

/// 38: the members of a group.
pub(super) fn client_ids(call: &Call) -> Answer {
    let group = call.text("consumerGroup")?;
    let ids = call.broker.consumers.client_ids(group);
    if ids.is_empty() {
        return Err(Refusal::error(format!(
            "no consumer for this group, {group}"
        )));
    }
    let body = ConsumerListBody {
        consumer_id_list: ids.iter().map(ToString::to_string).collect(),
    };
    Ok(Response::ok()
        .with_fields()
        .body(super::bodies::encode(&body)?))
}

/// 14: how far a group has consumed a queue.
pub(super) fn query_offset(call: &Call) -> Answer {
    let (group, topic) = (call.text("consumerGroup")?, call.text("topic")?);
    let queue_id = call.i32("queueId")?;
    if let Some(offset) = call.broker.offsets.query(group, topic, queue_id) {
        return Ok(Response::ok().field("offset", offset));
    }
    // A group that is new to a queue which still has its first message in memory begins there;
    // otherwise its own rule (first, last, time) decides, which 22 sets in motion.
    let zero_wanted = call
        .request
        .ext
        .get_bool("setZeroIfNotFound")
        .unwrap_or(true);
    if zero_wanted
        && call
            .broker
            .store
            .begins_in_memory(topic, queue_id, call.broker.memory_distance())
    {
        return Ok(Response::ok().field("offset", 0_i64));
    }
    Err(Refusal::new(
        response_code::QUERY_NOT_FOUND,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
    ))
}

/// 15: a group has consumed a queue up to here. Unknown groups and topics are stored, as 4.9 does;
/// a negative offset is the leftover of a failed query and is never stored.
pub(super) fn update_offset(call: &Call) -> Answer {
    let (group, topic) = (call.text("consumerGroup")?, call.text("topic")?);
    let (queue_id, offset) = (call.i32("queueId")?, call.i64("commitOffset")?);
    if offset < 0 {
        return Err(Refusal::error(format!(
            "the offset {offset} is negative and was not stored"
        )));
    }
    call.broker.offsets.commit(group, topic, queue_id, offset);
    Ok(Response::ok().with_fields())
}

/// 29: the offset of a queue at a time. Clients that name a boundary get the rule of 5.x, others the
/// nearest message of 4.9.
pub(super) fn search_offset(call: &Call) -> Answer {
    let (topic, queue_id) = (call.text("topic")?, call.i32("queueId")?);
    let timestamp = call.i64("timestamp")?;
    let boundary = match call.request.ext.get("boundaryType") {
        None => Boundary::Nearest,
        Some(name) if name.eq_ignore_ascii_case("UPPER") => Boundary::Upper,
        Some(_) => Boundary::Lower,
    };
    let store = &call.broker.store;
    let offset = store
        .offset_by_time(topic, queue_id, timestamp, boundary)
        .map_err(|error| Refusal::error(error.to_string()))?;
    Ok(Response::ok().field("offset", offset))
}

/// 30: the offset that the next message of a queue gets.
pub(super) fn max_offset(call: &Call) -> Answer {
    let (topic, queue_id) = (call.text("topic")?, call.i32("queueId")?);
    Ok(Response::ok().field("offset", call.broker.store.queue_range(topic, queue_id).1))
}

/// 31: the first offset of a queue.
pub(super) fn min_offset(call: &Call) -> Answer {
    let (topic, queue_id) = (call.text("topic")?, call.i32("queueId")?);
    Ok(Response::ok().field("offset", call.broker.store.queue_range(topic, queue_id).0))
}

/// 32: store time of the first message of a queue; −1 if there is none.
pub(super) fn earliest_time(call: &Call) -> Answer {
    let (topic, queue_id) = (call.text("topic")?, call.i32("queueId")?);
    let (min, _) = call.broker.store.queue_range(topic, queue_id);
    Ok(Response::ok().field(
        "timestamp",
        call.broker
            .store
            .store_time(topic, queue_id, min)
            .unwrap_or(-1),
    ))
}

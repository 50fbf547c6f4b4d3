//! Messages by key, by physical offset, and raw units of a queue: 12, 33, 321.

use remoting::{Response, response_code};

use super::bodies::body;
use super::{Answer, Call, Refusal};
use crate::clients::consumers::Lookup;
use crate::store::Unit;
use crate::tables::json::{Map, Node};

/// A unique key is asked for by tools that want every copy of a message, of which there are few.
const UNIQUE_KEY_MAX: usize = 32;

/// Units that one request for a piece of a queue gets at most.
const QUEUE_UNITS_MAX: i32 = 10_000;

/// 12: messages by key or unique key.
pub(super) fn by_key(call: &Call) -> Answer {
    let (topic, key) = (call.text("topic")?, call.text("key")?);
    let (begin, end) = (call.i64("beginTimestamp")?, call.i64("endTimestamp")?);
    let asked = call.i32("maxNum")?.max(0) as usize;
    let most = call
        .broker
        .with_config(|config| config.max_msgs_num_batch.max(1)) as usize;
    let unique = call
        .request
        .ext
        .get_bool("_UNIQUE_KEY_QUERY")
        .unwrap_or(false);
    let max = if unique { UNIQUE_KEY_MAX } else { asked }.min(most);
    let found = call
        .broker
        .store
        .query(topic, key, max, begin, end)
        .map_err(|error| Refusal::error(error.to_string()))?;
    let mut response = match found.messages.is_empty() {
        true => Response::error(
            response_code::QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
        ),
        false => Response::ok(),
    };
    response = response
        .field("indexLastUpdateTimestamp", found.index_timestamp)
        .field("indexLastUpdatePhyoffset", found.index_physical_offset);
    for message in found.messages {
        response = response.body(message);
    }
    Ok(response)
}

/// 33: the message at a physical offset.
pub(super) fn by_offset(call: &Call) -> Answer {
    let offset = call.i64("offset")?;
    match call.broker.store.message_at(offset) {
        Some(message) => Ok(Response::ok().body(message)),
        None => Err(Refusal::error(format!(
            "can not find message by the offset, {offset}"
        ))),
    }
}

/// 321: units of a queue as they are on disk.
pub(super) fn consume_queue(call: &Call) -> Answer {
    let (topic, queue_id) = (call.text("topic")?, call.i32("queueId")?);
    let (index, count) = (
        call.i64("index")?,
        call.i32("count")?.clamp(0, QUEUE_UNITS_MAX),
    );
    let read = call
        .broker
        .store
        .units(topic, queue_id, index, count as usize)
        .map_err(|error| Refusal::error(error.to_string()))?;
    let Some((min, max, units)) = read else {
        return Err(Refusal::error(format!(
            "{topic}-{queue_id} is not there: no message was ever stored in it"
        )));
    };
    let group = call.request.ext.get("consumerGroup").unwrap_or_default();
    let subscription = match call.broker.consumers.lookup(group, topic) {
        Lookup::Group { subscription, .. } => subscription,
        Lookup::NoGroup => None,
    };
    let unit = |unit: &Unit| {
        let wanted = subscription
            .as_ref()
            .is_some_and(|entry| entry.filter.matches(unit.tags_code));
        Node::Map(
            Map::new()
                .with("eval", wanted)
                .with("physicOffset", unit.physical_offset)
                .with("physicSize", unit.size)
                .with("tagsCode", unit.tags_code),
        )
    };
    let mut map = Map::new()
        .with("maxQueueIndex", max)
        .with("minQueueIndex", min)
        .with("queueData", Node::List(units.iter().map(unit).collect()));
    if let Some(entry) = &subscription {
        map.push("subscriptionData", super::bodies::subscription(entry));
    }
    Ok(Response::ok().body(body(&map)))
}

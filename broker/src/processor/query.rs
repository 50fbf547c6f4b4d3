//! Messages by key, by physical offset, and raw units of a queue: 12, 33, 321.

use consumequeue::Unit;
use remoting::body::{ConsumeQueueData, QueryConsumeQueueBody};
use remoting::{Response, fastjson, response_code};

use super::{Answer, Call, Refusal};

/// Units that one request for a piece of a queue gets at most.
const QUEUE_UNITS_MAX: i32 = 10_000;

/// 12: messages by key or unique key.
pub(super) fn by_key(call: &Call) -> Answer {
    let (topic, key) = (call.text("topic")?, call.text("key")?);
    let (begin, end) = (call.i64("beginTimestamp")?, call.i64("endTimestamp")?);
    let asked = call.i32("maxNum")?.max(0) as usize;
    let config = call.broker.config();
    let unique = call.request.ext.get_bool("_UNIQUE_KEY_QUERY").unwrap_or(false);
    let wanted = if unique { config.default_query_max_num.max(1) as usize } else { asked };
    let max = wanted.min(config.max_msgs_num_batch.max(1) as usize);
    let found = call.broker.store.query(topic, key, max, begin, end);
    if found.messages.is_empty() {
        return Err(Refusal::new(
            response_code::QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
        ));
    }
    let mut response = Response::ok()
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
        None => Err(Refusal::error(format!("can not find message by the offset, {offset}"))),
    }
}

/// 321: units of a queue as they are on disk.
pub(super) fn consume_queue(call: &Call) -> Answer {
    let (topic, queue_id) = (call.text("topic")?, call.i32("queueId")?);
    let (index, count) = (call.i64("index")?, call.i32("count")?.clamp(0, QUEUE_UNITS_MAX));
    let Some(queue) = call.broker.store.queues().queue(topic, queue_id) else {
        return Err(Refusal::error(format!("{topic}-{queue_id} is not there: no message was ever stored in it")));
    };
    let mut units = Vec::new();
    queue.units(index, count as usize, &mut units);
    let data = |unit: &Unit| ConsumeQueueData {
        physic_offset: unit.physical_offset,
        physic_size: unit.size,
        tags_code: unit.tags_code,
        ..ConsumeQueueData::default()
    };
    let body = QueryConsumeQueueBody {
        max_queue_index: queue.max_offset(),
        min_queue_index: queue.min_offset(),
        queue_data: units.iter().map(data).collect(),
        ..QueryConsumeQueueBody::default()
    };
    Ok(Response::ok().body(fastjson::to_vec(&body)))
}

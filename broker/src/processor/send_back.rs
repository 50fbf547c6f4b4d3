//! A consumer gives a message back: 36.
//!
//! The message is stored once more, for the group's retry topic after a delay, or for its dead letter
//! topic when it has had enough tries.

use commitlog::frame::FrameView;
use commitlog::frame::{MessageToStore, PropertySource};
use remoting::message::{OffsetId, RETRY_PREFIX, dlq_topic, property};
use remoting::{Reply, Response, response_code};

use super::{Answer, Call, Refusal, answer};
use crate::service::Broker;
use crate::store::{Delay, Stored};

/// Since this version a client's own maximum of tries counts.
pub(super) const HEADER_MAX_SINCE: i32 = 121;

/// The first retry waits this delay level, each further one a level more.
const FIRST_RETRY_LEVEL: i32 = 3;

/// What became of a request.
enum Done {
    /// There was nothing to do.
    Nothing,
    Stored(Stored),
}

/// Answers a send-back, when the message is committed, and its topic on disk if it was made for it.
pub(super) fn handle(call: Call, reply: Reply) {
    let broker = call.broker.clone();
    broker.clone().blocking(move || match send_back(&call) {
        Err(refusal) => reply.send(refusal.into()),
        Ok(Done::Nothing) => reply.send(Response::ok()),
        Ok(Done::Stored(stored)) => {
            tokio::spawn(async move { reply.send(answer(committed(&broker, &stored).await)) });
        }
    });
}

async fn committed(broker: &Broker, stored: &Stored) -> Answer {
    broker.topics_saved().await;
    match broker.store.committed(stored).await {
        Ok(()) => Ok(Response::ok()),
        Err(error) => Err(super::put_refusal(&error, broker)),
    }
}

/// Where a message that was given back goes.
struct Target {
    topic: String,
    queue_id: i32,
    /// 0: at once.
    delay_level: i32,
}

fn send_back(call: &Call) -> Result<Done, Refusal> {
    let broker = &call.broker;
    let (group, offset) = (call.text("group")?, call.i64("offset")?);
    super::client::check_group_name(group)?;
    let Some(config) = broker.group(group) else {
        return Err(Refusal::new(
            response_code::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!("subscription group not exist, {group}{}", super::FAQ),
        ));
    };
    if !broker.is_writable() {
        return Err(Refusal::new(
            response_code::NO_PERMISSION,
            format!(
                "the broker[{}] sending message is forbidden",
                broker.host_name()
            ),
        ));
    }
    if config.retry_queues <= 0 {
        return Ok(Done::Nothing);
    }
    let unit_mode = call.request.ext.get_bool("unitMode").unwrap_or(false);
    let retry = broker.ensure_retry_topic(group, config.retry_queues, unit_mode);
    if retry.is_some_and(|retry| !retry.is_writable()) {
        return Err(Refusal::new(
            response_code::NO_PERMISSION,
            format!("the topic[{RETRY_PREFIX}{group}] sending message is forbidden"),
        ));
    }
    let Some(message) = broker.store.message_at(offset) else {
        return Err(Refusal::error(format!(
            "look message by offset failed, {offset}"
        )));
    };
    let frame = FrameView::parse(&message).map_err(|error| {
        Refusal::error(format!(
            "the message at offset {offset} cannot be read: {error}"
        ))
    })?;
    let target = target(call, &frame, config.retry_max_times, config.retry_queues)?;
    let stored = store(broker, &frame, &target)?;
    broker.stats.sent_back(frame.topic(), group);
    Ok(Done::Stored(stored))
}

fn target(
    call: &Call,
    frame: &FrameView<'_>,
    retry_max: i32,
    queues: i32,
) -> Result<Target, Refusal> {
    let (group, level) = (call.text("group")?, call.i32("delayLevel")?);
    let asked_max = call.request.ext.get_i32("maxReconsumeTimes")?;
    let max = match asked_max {
        Some(max) if call.request.version >= HEADER_MAX_SINCE => max,
        _ => retry_max,
    };
    if frame.reconsume_times() >= max || level < 0 {
        let topic = dlq_topic(group);
        call.broker.topics.create_internal(&topic, 1, false);
        return Ok(Target {
            topic,
            queue_id: 0,
            delay_level: 0,
        });
    }
    let delay_level = if level == 0 {
        FIRST_RETRY_LEVEL + frame.reconsume_times()
    } else {
        level
    };
    let topic = format!("{RETRY_PREFIX}{group}");
    Ok(Target {
        topic,
        queue_id: rand::random_range(0..queues),
        delay_level,
    })
}

fn store(broker: &Broker, frame: &FrameView<'_>, target: &Target) -> Result<Stored, Refusal> {
    let own_id = OffsetId::new(frame.store_host(), frame.physical_offset());
    let level = target.delay_level.to_string();
    let queue_id = target.queue_id.to_string();
    let mut properties = PropertySource::raw(frame.properties());
    if properties.get(property::RETRY_TOPIC).is_none() {
        properties.add(property::RETRY_TOPIC, frame.topic());
    }
    properties.set(property::WAIT, "false");
    properties.set(property::DELAY, &level);
    if properties.get(property::ORIGIN_MESSAGE_ID).is_none() {
        properties.add(property::ORIGIN_MESSAGE_ID, own_id.as_str());
    }
    let message = MessageToStore {
        topic: &target.topic,
        queue_id: target.queue_id,
        flag: frame.flag(),
        sys_flag: frame.sys_flag(),
        born_timestamp: frame.born_timestamp(),
        born_host: frame.born_host(),
        store_host: broker.store_host,
        reconsume_times: frame.reconsume_times() + 1,
        prepared_offset: 0,
        body: frame.body(),
        properties,
    };
    let stored = if target.delay_level > 0 {
        let delay = Delay {
            level: target.delay_level,
            queue_id: &queue_id,
            replaces_real_place: true,
        };
        broker.store.put_delayed(message, delay)
    } else {
        broker
            .store
            .put(&message, &broker.store.slot(&target.topic, target.queue_id))
    };
    stored.map_err(|error| super::put_refusal(&error, broker))
}

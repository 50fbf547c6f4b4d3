//! Clients that come and go: 34, 35, 46, and the locks of orderly consumers, 41 and 42.

use std::sync::Arc;
use std::time::Instant;

use remoting::body::{
    CheckClientBody, ConsumeType, ConsumerData, HeartbeatData, LockBatchBody,
    LockBatchResponseBody, MessageModel,
};
use remoting::message::{RETRY_PREFIX, TOPIC_LEN_MAX};
use remoting::{Connection, Response, response_code};

use super::{Answer, Call, Refusal};
use crate::clients::Member;
use crate::clients::consumers::{Manner, RETURNS_WITHIN};
use crate::filter::{SQL92_NOT_SUPPORTED, TagFilter, is_tag_type};
use crate::service::{Broker, now_ms};

/// Longest group name whose retry topic can be stored.
const GROUP_LEN_MAX: usize = TOPIC_LEN_MAX - RETRY_PREFIX.len();

/// 34: what a client produces and consumes. Touches memory only, so that it is answered at once
/// however busy the disk is; tables that it changes are written soon.
pub(super) fn heartbeat(call: &Call) -> Answer {
    let heartbeat: HeartbeatData = call.body()?;
    let member = Member {
        client_id: heartbeat.client_id.as_str().into(),
        channel: call.conn.clone(),
        language: call.request.language,
        version: call.request.version,
        seen: Instant::now(),
        seen_ms: now_ms(),
    };
    // A group that cannot be served does not keep the others of the same client from being served.
    let mut refused = None;
    for data in heartbeat.consumer_data_set {
        if let Err(refusal) = register_consumer(&call.broker, data, &member) {
            refused = Some(refusal);
        }
    }
    for data in &heartbeat.producer_data_set {
        call.broker
            .producers
            .register(&data.group_name, member.clone());
    }
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(Response::ok()),
    }
}

fn register_consumer(
    broker: &Broker,
    data: ConsumerData,
    member: &Member<Arc<Connection>>,
) -> Result<(), Refusal> {
    let group = data.group_name.as_str();
    check_group_name(group)?;
    if data.consume_type == ConsumeType::Unknown || data.message_model == MessageModel::Unknown {
        return Err(Refusal::error(format!(
            "the consumer group {group} names no known consumeType or messageModel and was not registered"
        )));
    }
    let Some(config) = broker.group(group) else {
        return Err(Refusal::new(
            response_code::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!(
                "the consumer group {group} does not exist and autoCreateSubscriptionGroup is false"
            ),
        ));
    };
    broker.ensure_retry_topic(group, config.retry_queues, data.unit_mode);
    let manner = Manner {
        consume_type: data.consume_type,
        message_model: data.message_model,
        consume_from_where: data.consume_from_where,
    };
    if broker
        .consumers
        .register(group, member.clone(), manner, data.subscription_data_set)
    {
        broker.notify_members(group);
    }
    Ok(())
}

/// A group whose retry topic could not be stored is refused before it consumes, with the reason.
pub(super) fn check_group_name(group: &str) -> Result<(), Refusal> {
    if group.is_empty() {
        return Err(Refusal::error("the consumer group has no name"));
    }
    if group
        .bytes()
        .any(|byte| byte == b'/' || byte.is_ascii_control())
    {
        return Err(Refusal::error(format!(
            "the consumer group {} has a character ('/' or a control character) that the folder of its retry \
             topic cannot have",
            group.escape_debug()
        )));
    }
    if group.len() > GROUP_LEN_MAX {
        return Err(Refusal::error(format!(
            "the consumer group {group} has {} characters; with more than {GROUP_LEN_MAX} the name of \
             its retry topic, {RETRY_PREFIX}{group}, is too long to be stored",
            group.len()
        )));
    }
    Ok(())
}

/// 35: a client leaves.
pub(super) fn unregister(call: &Call) -> Answer {
    let ext = &call.request.ext;
    if let Some(group) = ext.get("producerGroup") {
        call.broker.producers.unregister(group, call.conn.id());
    }
    if let Some(group) = ext.get("consumerGroup")
        && call.broker.consumers.unregister(group, call.conn.id())
    {
        call.broker.notify_members(group);
    }
    Ok(Response::ok())
}

/// 46: whether the broker can filter as a client wants.
pub(super) fn check_config(call: &Call) -> Answer {
    if call.request.body.is_empty() {
        return Ok(Response::ok());
    }
    let check: CheckClientBody = call.body()?;
    let Some(subscription) = check.subscription_data else {
        return Ok(Response::ok());
    };
    if is_tag_type(subscription.expression_type.as_deref()) {
        return Ok(Response::ok());
    }
    Err(Refusal::error(SQL92_NOT_SUPPORTED))
}

/// 41: an orderly consumer asks for queues, or for keeping them.
pub(super) fn lock_queues(call: &Call) -> Answer {
    let asked: LockBatchBody = call.body()?;
    let now = Instant::now();
    let mut granted = LockBatchResponseBody::default();
    for queue in asked.mq_set {
        let locks = &call.broker.locks;
        if locks.try_lock(
            &asked.consumer_group,
            &queue.topic,
            queue.queue_id,
            &asked.client_id,
            now,
        ) {
            granted.lock_ok_mq_set.push(queue);
        }
    }
    Ok(Response::ok().body(super::bodies::encode(&granted)?))
}

/// 42: an orderly consumer gives queues back.
pub(super) fn unlock_queues(call: &Call) -> Answer {
    let asked: LockBatchBody = call.body()?;
    for queue in &asked.mq_set {
        call.broker.locks.unlock(
            &asked.consumer_group,
            &queue.topic,
            queue.queue_id,
            &asked.client_id,
        );
    }
    Ok(Response::ok())
}

/// A connection is gone: its pulls are dropped, its producers forgotten; its consumers get a moment
/// to come back before their groups are told.
pub(super) fn closed(broker: &Arc<Broker>, conn: &Arc<Connection>) {
    broker.holds.closed(conn.id());
    broker.producers.closed(conn.id());
    if broker.consumers.closed(conn.id(), Instant::now()) {
        let broker = broker.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETURNS_WITHIN).await;
            for group in broker.consumers.departed(Instant::now()) {
                broker.notify_members(&group);
            }
        });
    }
}

/// The filter of a subscription text in a request, or why it cannot be read.
pub(super) fn filter_of_request(expression: Option<&str>) -> Result<TagFilter, Refusal> {
    TagFilter::parse(expression).map_err(|_| {
        Refusal::new(
            response_code::SUBSCRIPTION_PARSE_FAILED,
            "parse the consumer's subscription failed",
        )
    })
}

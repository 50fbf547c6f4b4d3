//! Sends: 10, 310 and 320, single messages and batches.
//!
//! A send is checked, stored and, when the log of a single member has committed it by then, answered
//! on the connection's task: no other task, no look-up but one for its topic, and no copy of the
//! message but the one into the log.

mod properties;
mod route;

use std::net::SocketAddr;
use std::sync::Arc;

use commitlog::{MessageToStore, PropertySource};
use remoting::headers::SendMessageHeader;
use remoting::message::{BatchItems, OffsetId, property, sys_flag};
use remoting::{Command, Connection, FieldValue, Reply, Response, request_code, response_code};

use super::{Answer, Call, FAQ, Refusal, answer};
use crate::service::{Broker, now_ms};
use crate::store::{Delay, Stored};

pub(crate) use route::{SendRoute, SendRoutes};

/// What transactional messages are told.
const NO_TRANSACTIONS: &str = "transactional messages are not served by this version of LedgerMQ (the next one \
                               serves them); send the message without a transaction";

/// Answers a send.
pub(super) fn handle(broker: &Arc<Broker>, conn: &Arc<Connection>, request: Command, reply: Reply) {
    let outcome = match SendMessageHeader::parse(request.code, &request.ext) {
        Ok(header) => send(broker, conn.peer(), &header, &request),
        Err(error) => return reply.send(error.into()),
    };
    match outcome {
        Outcome::Stored(stored, queue_id) => conclude(broker, stored, queue_id, reply),
        Outcome::Refused(refusal) => reply.send(with_region(broker, refusal.into())),
        Outcome::NeedsDisk => {
            let (again, peer) = (broker.clone(), conn.peer());
            broker.blocking(move || send_slowly(&again, peer, &request, reply));
        }
    }
}

enum Outcome {
    Stored(Stored, i32),
    Refused(Refusal),
    /// A topic or a group must be created first.
    NeedsDisk,
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Outcome::Refused(refusal)
    }
}

impl From<Result<(Stored, i32), Refusal>> for Outcome {
    fn from(result: Result<(Stored, i32), Refusal>) -> Self {
        match result {
            Ok((stored, queue_id)) => Outcome::Stored(stored, queue_id),
            Err(refusal) => Outcome::Refused(refusal),
        }
    }
}

fn send(broker: &Broker, peer: SocketAddr, header: &SendMessageHeader<'_>, request: &Command) -> Outcome {
    if let Err(refusal) = accepts_sends(broker) {
        return refusal.into();
    }
    let Some(route) = broker.routes.get(broker, header.topic) else {
        // Only a name that may be created is worth the way to the disk.
        return match route::check_name(header.topic) {
            Ok(()) => Outcome::NeedsDisk,
            Err(refusal) => refusal.into(),
        };
    };
    if route.retry_group.is_some() {
        return Outcome::NeedsDisk;
    }
    store(broker, peer, header, request, &route).into()
}

/// The rest of a send that must create something, on a blocking thread.
fn send_slowly(broker: &Arc<Broker>, peer: SocketAddr, request: &Command, reply: Reply) {
    let result = SendMessageHeader::parse(request.code, &request.ext).map_err(Refusal::from).and_then(|mut header| {
        let mut route = match broker.routes.get(broker, header.topic) {
            Some(route) => route,
            None => create_topic(broker, &header)?,
        };
        let dead_letter = dead_letter_topic(broker, request, &header, &route)?;
        if let Some(topic) = &dead_letter {
            broker.ensure_dead_letter_topic(topic)?;
            route = broker.routes.get(broker, topic).ok_or_else(|| Refusal::unknown_topic(topic))?;
            (header.topic, header.queue_id) = (topic, 0);
        }
        store(broker, peer, &header, request, &route)
    });
    match result {
        Ok((stored, queue_id)) => conclude(broker, stored, queue_id, reply),
        Err(refusal) => reply.send(with_region(broker, refusal.into())),
    }
}

fn accepts_sends(broker: &Broker) -> Result<(), Refusal> {
    let from = broker.with_config(|config| config.start_accept_send_request_time_stamp);
    if from > 0 && now_ms() < from {
        return Err(Refusal::error(format!(
            "broker unable to service, until {} (startAcceptSendRequestTimeStamp)",
            chrono::DateTime::from_timestamp_millis(from).map(|at| at.to_rfc3339()).unwrap_or_default()
        )));
    }
    Ok(())
}

pub(super) fn create_topic(broker: &Broker, header: &SendMessageHeader<'_>) -> Result<Arc<SendRoute>, Refusal> {
    let topic = header.topic;
    broker.create_topic_for_send(topic, header.default_topic, header.default_topic_queue_nums, header.unit_mode)?;
    broker.routes.get(broker, topic).ok_or_else(|| Refusal::unknown_topic(topic))
}

/// Where a message for a retry topic goes instead when its group has had enough tries: the group's
/// dead letter topic. A consumer in order sends it only then; others give one more than their maximum.
fn dead_letter_topic(
    broker: &Broker,
    request: &Command,
    header: &SendMessageHeader<'_>,
    route: &SendRoute,
) -> Result<Option<String>, Refusal> {
    let Some(group) = &route.retry_group else { return Ok(None) };
    let Some(config) = broker.groups.get_or_create(group) else {
        return Err(Refusal::new(
            response_code::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!("subscription group not exist, {group}{FAQ}"),
        ));
    };
    let max = match header.max_reconsume_times {
        Some(max) if request.version >= super::send_back::HEADER_MAX_SINCE => max,
        _ => config.retry_max_times,
    };
    let in_order = || broker.locks.any_live(group, std::time::Instant::now());
    let enough = header.reconsume_times > max || (header.reconsume_times >= max && in_order());
    Ok(enough.then(|| remoting::message::dlq_topic(group)))
}

/// The checks of a send whose topic is known, and the append.
fn store(
    broker: &Broker,
    peer: SocketAddr,
    header: &SendMessageHeader<'_>,
    request: &Command,
    route: &SendRoute,
) -> Result<(Stored, i32), Refusal> {
    if let Some(refusal) = &route.refusal {
        return Err(refusal.clone());
    }
    if route.config.order && !broker.is_writable() {
        return Err(Refusal::new(
            response_code::NO_PERMISSION,
            format!("the broker[{}] sending message is forbidden", broker.host_name()),
        ));
    }
    let queue_id = queue_of(header.queue_id, route, peer)?;
    let message = MessageToStore {
        topic: &route.config.topic_name,
        queue_id,
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        born_host: peer,
        store_host: broker.store_host,
        reconsume_times: header.reconsume_times,
        prepared_offset: 0,
        body: &request.body,
        properties: PropertySource::raw(header.properties.unwrap_or_default().as_bytes()),
    };
    let stored = match is_batch(header, request)? {
        true => store_batch(broker, message, route)?,
        false => store_single(broker, message, route)?,
    };
    Ok((stored, queue_id))
}

pub(super) fn queue_of(queue_id: i32, route: &SendRoute, peer: SocketAddr) -> Result<i32, Refusal> {
    let config = &route.config;
    if queue_id >= config.write_queue_nums.max(config.read_queue_nums) {
        return Err(Refusal::error(format!(
            "request queueId[{queue_id}] is illegal, {} Producer: {peer}",
            config.describe()
        )));
    }
    if queue_id >= 0 {
        return Ok(queue_id);
    }
    match config.write_queue_nums {
        queues if queues > 0 => Ok(rand::random_range(0..queues)),
        _ => Err(Refusal::error(format!("topic[{}] has no queue to write to", config.topic_name))),
    }
}

/// The flag decides whether the body is a batch, not the code; but code 320 without the flag means one
/// too, and a body that is one for certain is never stored as a single message that nobody can read.
fn is_batch(header: &SendMessageHeader<'_>, request: &Command) -> Result<bool, Refusal> {
    match (header.batch, request.code == request_code::SEND_BATCH_MESSAGE) {
        (Some(true), _) | (None, true) => Ok(true),
        (Some(false), true) if looks_like_batch(&request.body) => Err(illegal(
            "the body is a batch, but the batch flag of the request says that it is none".to_owned(),
        )),
        _ => Ok(false),
    }
}

fn looks_like_batch(body: &[u8]) -> bool {
    !body.is_empty() && BatchItems::new(body).all(|item| item.is_ok())
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(response_code::MESSAGE_ILLEGAL, remark)
}

fn store_single(broker: &Broker, mut message: MessageToStore<'_>, route: &SendRoute) -> Result<Stored, Refusal> {
    let raw = message.properties.clone();
    let noticed = properties::Noticed::of(raw.received());
    let level = noticed.delay_level().map_err(illegal)?;
    if noticed.half_message && !(message.reconsume_times > 0 && level > 0) {
        return Err(no_transactions());
    }
    if message.sys_flag & sys_flag::TRANSACTION_MASK != 0 && level > 0 {
        return Err(no_transactions());
    }
    if noticed.timer && level <= 0 {
        return Err(Refusal::error(
            "messages timed to the millisecond (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS) are not served: \
             use a delay level",
        ));
    }
    if noticed.wait {
        message.properties.remove(property::WAIT);
    }
    if noticed.cluster {
        message.properties.set("CLUSTER", &broker.cluster_name);
    } else {
        message.properties.add("CLUSTER", &broker.cluster_name);
    }
    let stored = if level > 0 {
        broker.store.put_delayed(message, Delay { level, replaces_real_place: noticed.real_place })
    } else {
        broker.store.put(&message, &route.slots[message.queue_id as usize])
    };
    let stored = stored.map_err(|error| super::put_refusal(&error, broker))?;
    route.counters.put(1, stored.bytes);
    Ok(stored)
}

fn no_transactions() -> Refusal {
    Refusal::new(response_code::REQUEST_CODE_NOT_SUPPORTED, NO_TRANSACTIONS)
}

fn store_batch(broker: &Broker, message: MessageToStore<'_>, route: &SendRoute) -> Result<Stored, Refusal> {
    let noticed = properties::Noticed::of(message.properties.received());
    if message.topic.len() > remoting::message::TOPIC_LEN_MAX || route.retry_group.is_some() {
        return Err(illegal(format!("the topic {} takes no batches", message.topic)));
    }
    if noticed.half_message || message.sys_flag & sys_flag::TRANSACTION_MASK != 0 || noticed.delay_level() != Ok(0) {
        return Err(illegal("a batch can be neither transactional nor delayed".to_owned()));
    }
    if message.sys_flag & sys_flag::COMPRESSED != 0 {
        return Err(illegal("a batch cannot be compressed as a whole: its messages could not be read".to_owned()));
    }
    let items = message.body;
    let stored = broker
        .store
        .put_batch(&message, items, &route.slots[message.queue_id as usize])
        .map_err(|error| super::put_refusal(&error, broker))?;
    route.counters.put(stored.count, stored.bytes);
    Ok(stored)
}

/// Answers a stored message, now if it is committed, else when it is.
fn conclude(broker: &Arc<Broker>, stored: Stored, queue_id: i32, reply: Reply) {
    if broker.store.is_committed(&stored) {
        return reply.send(stored_answer(broker, &stored, queue_id));
    }
    let broker = broker.clone();
    tokio::spawn(async move {
        let response = match broker.store.committed(&stored).await {
            Ok(()) => stored_answer(&broker, &stored, queue_id),
            Err(error) => with_region(&broker, super::put_refusal(&error, &broker).into()),
        };
        reply.send(response);
    });
}

fn stored_answer(broker: &Broker, stored: &Stored, queue_id: i32) -> Response {
    let host = broker.store_host;
    let id = match stored.more_offsets() {
        None => FieldValue::OffsetId(host, stored.physical_offset),
        Some(offsets) => {
            let ids = offsets.iter().map(|&offset| OffsetId::new(host, offset).to_string());
            FieldValue::from(ids.collect::<Vec<_>>().join(","))
        }
    };
    let response = Response::ok()
        .field("msgId", id)
        .field("queueId", queue_id)
        .field("queueOffset", stored.queue_offset);
    with_region(broker, response)
}

/// Every answer to a send tells where it came from and whether traces are wanted.
fn with_region(broker: &Broker, response: Response) -> Response {
    let region = broker.region.clone();
    response.field("MSG_REGION", FieldValue::Shared(region)).field("TRACE_ON", broker.with_config(|c| c.trace_on))
}

/// 37: the end of a transaction, of which there can be none.
pub(super) fn end_transaction(_: &Call) -> Answer {
    Err(no_transactions())
}

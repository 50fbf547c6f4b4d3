//! Sends: 10, 310 and 320, single messages and batches.
//!
//! A send is checked, stored and, when the log of a single member has committed it by then, answered
//! on the connection's task: no other task, no look-up but one for its topic, and no copy of the
//! message but the one into the log.

mod properties;
mod route;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use commitlog::frame::{MessageToStore, PropertySource};
use remoting::headers::SendMessageHeader;
use remoting::message::{BatchItems, OffsetId, property, sys_flag};
use remoting::{Command, Connection, FieldValue, Reply, Response, request_code, response_code};

use super::{Answer, Call, FAQ, Refusal};
use crate::service::{Broker, now_ms};
use crate::stats::PutCount;
use crate::store::{Delay, Stored};

pub(crate) use route::{SendRoute, SendRoutes};

/// What transactional messages are told.
const NO_TRANSACTIONS: &str = "transactional messages are not served by this version of LedgerMQ (the next one \
                               serves them); send the message without a transaction";

/// A send that was stored.
struct Accepted {
    stored: Stored,
    /// Queue that the answer names: the one asked for, also if the message is delayed.
    queue_id: i32,
    /// The topic was made for it, and must be on disk before the answer.
    new_topic: bool,
}

/// What a send reads of the configuration, once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    accept_from: i64,
    trace_on: bool,
    count_queues: bool,
}

impl Live {
    pub fn now(broker: &Broker) -> Self {
        broker.with_config(|config| Live {
            accept_from: config.start_accept_send_request_time_stamp,
            trace_on: config.trace_on,
            count_queues: config.enable_detail_stat,
        })
    }
}

/// Answers a send.
pub(super) fn handle(broker: &Arc<Broker>, conn: &Arc<Connection>, request: Command, reply: Reply) {
    let (begun, live) = (Instant::now(), Live::now(broker));
    let accepted = match request.header::<SendMessageHeader<'_>>() {
        Ok(header) => send(broker, conn.peer(), header, &request, live, begun),
        Err(error) => return reply.send(error.into()),
    };
    match accepted {
        Ok(accepted) => conclude(broker, accepted, live, reply),
        Err(refusal) => reply.send(with_region(broker, live, refusal.into())),
    }
}

fn send(
    broker: &Broker,
    peer: SocketAddr,
    mut header: SendMessageHeader<'_>,
    request: &Command,
    live: Live,
    begun: Instant,
) -> Result<Accepted, Refusal> {
    accepts_sends(live)?;
    let (mut route, mut new_topic) = match broker.routes.get(broker, header.topic) {
        Some(route) => (route, false),
        None => (create_topic(broker, &header)?, true),
    };
    let dead_letter = dead_letter_topic(broker, request, &header, &route)?;
    if let Some(topic) = &dead_letter {
        new_topic |= !broker.topics.contains(topic);
        broker.topics.create_internal(topic, 1, false);
        route = broker
            .routes
            .get(broker, topic)
            .ok_or_else(|| Refusal::unknown_topic(topic))?;
        header.queue_id = 0;
    }
    let (stored, queue_id) = store(broker, peer, &header, request, &route)?;
    count(broker, &route, queue_id, &stored, live, begun);
    Ok(Accepted {
        stored,
        queue_id,
        new_topic,
    })
}

/// Puts a stored message into the statistics.
pub(super) fn count(
    broker: &Broker,
    route: &SendRoute,
    queue_id: i32,
    stored: &Stored,
    live: Live,
    begun: Instant,
) {
    let put = PutCount {
        topic: &route.config.name,
        queue_id,
        messages: stored.count as u32,
        bytes: stored.bytes as u64,
        elapsed: begun.elapsed(),
        by_queue: live.count_queues,
    };
    broker.stats.put_to(&route.stats, &put);
}

fn accepts_sends(live: Live) -> Result<(), Refusal> {
    let from = live.accept_from;
    if from > 0 && now_ms() < from {
        return Err(Refusal::error(format!(
            "broker unable to service, until {} (startAcceptSendRequestTimeStamp)",
            chrono::DateTime::from_timestamp_millis(from)
                .map(|at| at.to_rfc3339())
                .unwrap_or_default()
        )));
    }
    Ok(())
}

/// Makes the topic of a send that does not exist, if it may be made.
pub(super) fn create_topic(
    broker: &Broker,
    header: &SendMessageHeader<'_>,
) -> Result<Arc<SendRoute>, Refusal> {
    let topic = header.topic;
    route::check_name(topic)?;
    let config = broker.config();
    let (default, queues) = (header.default_topic, header.default_topic_queue_nums);
    if broker
        .topics
        .create_for_send(&config, topic, default, queues, header.unit_mode)
        .is_err()
    {
        return Err(Refusal::unknown_topic(topic));
    }
    broker
        .routes
        .get(broker, topic)
        .ok_or_else(|| Refusal::unknown_topic(topic))
}

/// Where a message for a retry topic goes instead when its group has had enough tries: the group's
/// dead letter topic. A consumer in order sends it only then; others give one more than their maximum.
fn dead_letter_topic(
    broker: &Broker,
    request: &Command,
    header: &SendMessageHeader<'_>,
    route: &SendRoute,
) -> Result<Option<String>, Refusal> {
    let Some(group) = &route.retry_group else {
        return Ok(None);
    };
    let Some(config) = broker.group(group) else {
        return Err(Refusal::new(
            response_code::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!("subscription group not exist, {group}{FAQ}"),
        ));
    };
    let max = match header.max_reconsume_times {
        Some(max) if request.version >= super::send_back::HEADER_MAX_SINCE => max,
        _ => config.retry_max_times,
    };
    let in_order = || broker.locks.any_live(group, Instant::now());
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
            format!(
                "the broker[{}] sending message is forbidden",
                broker.host_name()
            ),
        ));
    }
    let queue_id = queue_of(header.queue_id, route, peer)?;
    let mut digits = itoa::Buffer::new();
    let queue_text = digits.format(queue_id);
    let raw = header.properties.as_bytes();
    let message = MessageToStore {
        topic: &route.config.name,
        queue_id,
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        born_host: peer,
        store_host: broker.store_host,
        reconsume_times: header.reconsume_times,
        prepared_offset: 0,
        body: &request.body,
        properties: PropertySource::raw(raw),
    };
    let stored = match is_batch(header, request)? {
        true => store_batch(broker, &message, raw, route)?,
        false => store_single(broker, message, raw, queue_text, route)?,
    };
    Ok((stored, queue_id))
}

pub(super) fn queue_of(queue_id: i32, route: &SendRoute, peer: SocketAddr) -> Result<i32, Refusal> {
    let config = &route.config;
    if queue_id >= config.write_queues.max(config.read_queues) {
        return Err(Refusal::error(format!(
            "request queueId[{queue_id}] is illegal, {} Producer: {peer}",
            route::describe(config)
        )));
    }
    if queue_id >= 0 {
        return Ok(queue_id);
    }
    match config.write_queues {
        queues if queues > 0 => Ok(rand::random_range(0..queues)),
        _ => Err(Refusal::error(format!(
            "topic[{}] has no queue to write to",
            config.name
        ))),
    }
}

/// The flag decides whether the body is a batch, not the code; but code 320 without the flag means one
/// too, and a body that is one for certain is never stored as a single message that nobody can read.
fn is_batch(header: &SendMessageHeader<'_>, request: &Command) -> Result<bool, Refusal> {
    let by_code = request.code == request_code::SEND_BATCH_MESSAGE;
    let says_none = || {
        request
            .ext
            .get("m")
            .or_else(|| request.ext.get("batch"))
            .is_some()
    };
    match header.batch {
        true => Ok(true),
        false if by_code && !says_none() => Ok(true),
        false if by_code && looks_like_batch(&request.body) => Err(illegal(
            "the body is a batch, but the batch flag of the request says that it is none"
                .to_owned(),
        )),
        false => Ok(false),
    }
}

fn looks_like_batch(body: &[u8]) -> bool {
    !body.is_empty() && BatchItems::new(body).all(|item| item.is_ok())
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(response_code::MESSAGE_ILLEGAL, remark)
}

fn store_single<'a>(
    broker: &'a Broker,
    mut message: MessageToStore<'a>,
    raw_properties: &[u8],
    queue_text: &'a str,
    route: &SendRoute,
) -> Result<Stored, Refusal> {
    let noticed = properties::Noticed::of(raw_properties);
    let level = noticed.delay_level().map_err(illegal)?;
    if noticed.half_message && !(message.reconsume_times > 0 && level > 0) {
        return Err(no_transactions());
    }
    // Half messages and rolled back ones are in no queue: acknowledged, they would never be seen again.
    match sys_flag::transaction_type(message.sys_flag) {
        sys_flag::TRANSACTION_NOT => {}
        sys_flag::TRANSACTION_COMMIT if level <= 0 => {}
        _ => return Err(no_transactions()),
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
        broker.store.put_delayed(
            message,
            Delay {
                level,
                queue_id: queue_text,
                replaces_real_place: noticed.real_place,
            },
        )
    } else {
        broker
            .store
            .put(&message, &route.slot(broker, message.queue_id))
    };
    stored.map_err(|error| super::put_refusal(&error, broker))
}

fn no_transactions() -> Refusal {
    Refusal::new(response_code::REQUEST_CODE_NOT_SUPPORTED, NO_TRANSACTIONS)
}

fn store_batch(
    broker: &Broker,
    message: &MessageToStore<'_>,
    raw_properties: &[u8],
    route: &SendRoute,
) -> Result<Stored, Refusal> {
    let noticed = properties::Noticed::of(raw_properties);
    if message.topic.len() > remoting::message::TOPIC_LEN_MAX || route.retry_group.is_some() {
        return Err(illegal(format!(
            "the topic {} takes no batches",
            message.topic
        )));
    }
    if noticed.half_message
        || message.sys_flag & sys_flag::TRANSACTION_MASK != 0
        || noticed.delay_level() != Ok(0)
    {
        return Err(illegal(
            "a batch can be neither transactional nor delayed".to_owned(),
        ));
    }
    if message.sys_flag & sys_flag::COMPRESSED != 0 {
        return Err(illegal(
            "a batch cannot be compressed as a whole: its messages could not be read".to_owned(),
        ));
    }
    broker
        .store
        .put_batch(message, &route.slot(broker, message.queue_id))
        .map_err(|error| super::put_refusal(&error, broker))
}

/// Answers a stored message, now if it is committed, else when it is.
fn conclude(broker: &Arc<Broker>, accepted: Accepted, live: Live, reply: Reply) {
    let Accepted {
        stored,
        queue_id,
        new_topic,
    } = accepted;
    if !new_topic && broker.store.is_committed(&stored) {
        return reply.send(stored_answer(broker, &stored, queue_id, live));
    }
    let broker = broker.clone();
    tokio::spawn(async move {
        broker.topics_saved().await;
        let response = match broker.store.committed(&stored).await {
            Ok(()) => stored_answer(&broker, &stored, queue_id, live),
            Err(error) => {
                let refusal = super::put_refusal(&error, &broker);
                with_region(&broker, live, refusal.into())
            }
        };
        reply.send(response);
    });
}

fn stored_answer(broker: &Broker, stored: &Stored, queue_id: i32, live: Live) -> Response {
    let host = broker.store_host;
    let id = match stored.offsets() {
        None => FieldValue::OffsetId(host, stored.physical_offset),
        Some(offsets) => {
            let ids = offsets
                .iter()
                .map(|&offset| OffsetId::new(host, offset).to_string());
            FieldValue::from(ids.collect::<Vec<_>>().join(","))
        }
    };
    let response = Response::ok()
        .field("msgId", id)
        .field("queueId", queue_id)
        .field("queueOffset", stored.queue_offset);
    with_region(broker, live, response)
}

/// Every answer to a send tells where it came from and whether traces are wanted.
fn with_region(broker: &Broker, live: Live, response: Response) -> Response {
    response
        .field("MSG_REGION", FieldValue::Shared(broker.region.clone()))
        .field("TRACE_ON", live.trace_on)
}

/// 37: the end of a transaction, of which there can be none.
pub(super) fn end_transaction(_: &Call) -> Answer {
    Err(no_transactions())
}

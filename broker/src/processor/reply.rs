//! Replies of request/reply messaging: 324 and 325.
//!
//! The reply is pushed to the producer that asked (request 326), and stored in its reply topic if
//! `storeReplyMessageEnable` says so. The answer tells whether the push succeeded.

use std::time::{Duration, Instant};

use commitlog::frame::{MessageToStore, PropertySource};
use remoting::headers::{PushReplyMessageHeader, SendMessageHeader};
use remoting::message::properties;
use remoting::{Command, Reply, Response, request_code, response_code};

use super::send::Live;
use super::{Answer, Call, Refusal, answer};
use crate::service::now_ms;

/// How long the producer may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Name of the producer that asked.
const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";

/// Answers a reply when the producer has taken it.
pub(super) fn handle(call: Call, reply: Reply) {
    tokio::spawn(async move { reply.send(answer(push_and_store(call).await)) });
}

async fn push_and_store(call: Call) -> Answer {
    let broker = call.broker.clone();
    let response = {
        let header = call.request.header::<SendMessageHeader<'_>>()?;
        let command = push_command(&call, &header);
        let to = properties::get(header.properties.as_bytes(), REPLY_TO_CLIENT);
        let channel = to.and_then(|client_id| broker.producers.find(client_id));
        let queue_id = header.queue_id;
        let pushed = match (to, channel) {
            (None, _) => Err(format!(
                "reply message properties[{REPLY_TO_CLIENT}] is null"
            )),
            (Some(client_id), None) => Err(format!(
                "push reply message fail, channel of <{client_id}> not found."
            )),
            (Some(client_id), Some(channel)) => match channel.call(command, PUSH_TIMEOUT).await {
                Ok(answer) if answer.code == response_code::SUCCESS => Ok(()),
                Ok(answer) => Err(format!(
                    "push reply message to {client_id} fail: {}",
                    answer.remark()
                )),
                Err(error) => Err(format!("push reply message to {client_id} fail: {error}")),
            },
        };
        let response = match pushed {
            Ok(()) => Response::ok(),
            Err(remark) => Response::error(response_code::SYSTEM_ERROR, remark),
        };
        (response, queue_id)
    };
    let (response, queue_id) = response;
    if !broker.with_config(|config| config.store_reply_message_enable) {
        return Ok(response
            .field("msgId", "0")
            .field("queueId", queue_id)
            .field("queueOffset", 0_i64));
    }
    store(call, response).await
}

/// The reply as the producer gets it.
fn push_command(call: &Call, header: &SendMessageHeader<'_>) -> Command {
    let mut text = header.properties.to_owned();
    properties::push_str(&mut text, "PUSH_REPLY_TIME", &now_ms().to_string());
    let push = PushReplyMessageHeader {
        producer_group: header.producer_group,
        topic: header.topic,
        default_topic: header.default_topic,
        default_topic_queue_nums: header.default_topic_queue_nums,
        queue_id: header.queue_id,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        flag: header.flag,
        properties: Some(&text),
        reconsume_times: Some(header.reconsume_times),
        unit_mode: Some(header.unit_mode),
        born_host: &call.conn.peer().to_string(),
        store_host: &call.broker.store_host.to_string(),
        store_timestamp: now_ms(),
        ..PushReplyMessageHeader::default()
    };
    Command::with_header(request_code::PUSH_REPLY_MESSAGE_TO_CLIENT, &push)
        .with_body(call.request.body.clone())
}

/// Stores the reply; the answer keeps the code of the push and names the stored message.
async fn store(call: Call, response: Response) -> Answer {
    let broker = call.broker.clone();
    let stored = broker.clone().run_blocking(move || append(&call)).await?;
    let (stored, queue_id) = stored?;
    if let Err(error) = broker.store.committed(&stored).await {
        return Err(super::put_refusal(&error, &broker));
    }
    let id = remoting::FieldValue::OffsetId(broker.store_host, stored.physical_offset);
    Ok(response
        .field("msgId", id)
        .field("queueId", queue_id)
        .field("queueOffset", stored.queue_offset))
}

fn append(call: &Call) -> Result<(crate::store::Stored, i32), Refusal> {
    let broker = &call.broker;
    let header = call.request.header::<SendMessageHeader<'_>>()?;
    let route = match broker.routes.get(broker, header.topic) {
        Some(route) => route,
        None => super::send::create_topic(broker, &header)?,
    };
    if let Some(refusal) = &route.refusal {
        return Err(refusal.clone());
    }
    let begun = Instant::now();
    let queue_id = super::send::queue_of(header.queue_id, &route, call.conn.peer())?;
    let message = MessageToStore {
        topic: header.topic,
        queue_id,
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        born_host: call.conn.peer(),
        store_host: broker.store_host,
        reconsume_times: header.reconsume_times,
        prepared_offset: 0,
        body: &call.request.body,
        properties: PropertySource::raw(header.properties.as_bytes()),
    };
    let stored = broker
        .store
        .put(&message, &route.slot(broker, queue_id))
        .map_err(|error| super::put_refusal(&error, broker))?;
    super::send::count(broker, &route, queue_id, &stored, Live::now(broker), begun);
    Ok((stored, queue_id))
}

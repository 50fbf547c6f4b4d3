//! Questions of the admin tools that only a client can answer: 307, 309, 223. The broker passes them
//! on over the connection that the client opened.

use std::sync::Arc;
use std::time::Duration;

use remoting::message::OffsetId;
use remoting::{
    CallError, Command, Connection, Reply, Response, fastjson, request_code, response_code,
};

use super::bodies::body;
use super::{Answer, Call, Refusal, answer};
use crate::clients::Member;
use crate::tables::json::{Key, Map, Node};

/// How long a client may take for 307 and 309.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take for 221.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// `V3_1_8_SNAPSHOT`: older consumers do not know 307 and 309.
const FORWARD_SINCE: i32 = 62;

/// 307: what a consumer is doing.
pub(super) fn running_info(call: Call, reply: Reply) {
    let command = Command {
        ext: call.request.ext.clone(),
        ..Command::request(request_code::GET_CONSUMER_RUNNING_INFO)
    };
    tokio::spawn(async move { reply.send(answer(forward(&call, command).await)) });
}

/// 309: a consumer is given a message by hand.
pub(super) fn consume_directly(call: Call, reply: Reply) {
    tokio::spawn(async move { reply.send(answer(give_message(call).await)) });
}

async fn give_message(call: Call) -> Answer {
    let mut ext = call.request.ext.clone();
    ext.set("brokerName", &call.broker.broker_name);
    let mut command = Command {
        ext,
        ..Command::request(request_code::CONSUME_MESSAGE_DIRECTLY)
    };
    if let Some(id) = call.request.ext.get("msgId") {
        let offset = OffsetId::parse(id).map(|(_, offset)| offset);
        let (broker, id) = (call.broker.clone(), id.to_owned());
        let message = call
            .broker
            .run_blocking(move || broker.store.message_at(offset?))
            .await?;
        let message = message
            .ok_or_else(|| Refusal::error(format!("there is no message with the id {id}")))?;
        command = command.with_body(message);
    }
    forward(&call, command).await
}

async fn forward(call: &Call, command: Command) -> Answer {
    let (group, client_id) = (call.text("consumerGroup")?, call.text("clientId")?);
    let member = call
        .broker
        .consumers
        .find(group, client_id)
        .ok_or_else(|| {
            Refusal::error(format!("The Consumer <{group}> <{client_id}> not online"))
        })?;
    if member.version < FORWARD_SINCE {
        return Err(Refusal::error(format!(
            "The Consumer <{client_id}> Version <{}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
            member.version
        )));
    }
    match member.channel.call(command, ANSWER_TIMEOUT).await {
        Ok(answer) => Ok(Response::relay(&answer)),
        Err(error @ CallError::Timeout { .. }) => Err(Refusal::new(
            response_code::CONSUME_MSG_TIMEOUT,
            format!("consumer <{group}> <{client_id}> Timeout: {error}"),
        )),
        Err(error) => Err(Refusal::error(format!(
            "consumer <{group}> <{client_id}>: {error}"
        ))),
    }
}

/// 223: where each consumer of a group has come to in a topic.
pub(super) fn consumer_status(call: Call, reply: Reply) {
    tokio::spawn(async move { reply.send(answer(collect_status(&call).await)) });
}

async fn collect_status(call: &Call) -> Answer {
    let (topic, group) = (call.text("topic")?, call.text("group")?);
    let only = call
        .request
        .ext
        .get("clientAddr")
        .filter(|id| !id.is_empty());
    let members: Vec<Member<Arc<Connection>>> = call
        .broker
        .consumers
        .members(group)
        .into_iter()
        .filter(|member| only.is_none_or(|id| &*member.client_id == id))
        .collect();
    if members.is_empty() {
        return Err(Refusal::error(format!(
            "No Any Consumer online in the consumer group: [{group}]"
        )));
    }
    let mut table = Map::new();
    for member in members {
        let command = Command::request(request_code::GET_CONSUMER_STATUS_FROM_CLIENT)
            .field("topic", topic)
            .field("group", group);
        match member.channel.call(command, STATUS_TIMEOUT).await {
            Ok(answer) if answer.code == response_code::SUCCESS => {
                table.push(&member.client_id, queue_table(&answer)?);
            }
            Ok(answer) => tracing::warn!(
                client = &*member.client_id,
                remark = answer.remark(),
                "no consumer status"
            ),
            Err(error) => tracing::warn!(client = &*member.client_id, %error, "no consumer status"),
        }
    }
    Ok(Response::ok().body(body(
        &Map::new()
            .with("consumerTable", table)
            .with("messageQueueTable", Map::new()),
    )))
}

fn queue_table(answer: &Command) -> Result<Map, Refusal> {
    let value = fastjson::parse(&answer.body).map_err(|error| {
        Refusal::error(format!("the consumer's answer cannot be read: {error}"))
    })?;
    let mut table = Map::new();
    for (queue, offset) in value["messageQueueTable"].as_object().into_iter().flatten() {
        let key = Key {
            text: queue.clone(),
            quoted: false,
        };
        table.push_key(key, Node::Number(offset.as_i64().unwrap_or(-1).to_string()));
    }
    Ok(table)
}

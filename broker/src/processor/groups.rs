//! Groups and who is connected: 200, 225, 201, 203, 204, 207, 314, 328, 343, 345, 352.

use std::collections::BTreeSet;
use std::time::Duration;

use remoting::{Reply, Response, request_code as code, response_code};

use super::bodies::{body, connection, subscription, texts};
use super::{Answer, Call, Lane, Refusal, answer};
use crate::tables::json::{Map, Node, parse};
use crate::tables::{GroupConfig, Table};

/// How long an answer waits for the disk.
const SAVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn lane(request_code: i32) -> Option<Lane> {
    Some(match request_code {
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => Lane::Waiting(create),
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => Lane::Waiting(create_list),
        code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => Lane::Slow(all),
        code::GET_SUBSCRIPTIONGROUP_CONFIG => Lane::Quick(one),
        code::DELETE_SUBSCRIPTIONGROUP => Lane::Waiting(delete),
        code::GET_CONSUMER_CONNECTION_LIST => Lane::Quick(consumer_connections),
        code::GET_PRODUCER_CONNECTION_LIST => Lane::Quick(producer_connections),
        code::GET_ALL_PRODUCER_INFO => Lane::Quick(all_producers),
        code::CLONE_GROUP_OFFSET => Lane::Quick(clone_offsets),
        code::QUERY_TOPICS_BY_CONSUMER => Lane::Quick(topics_of_group),
        code::QUERY_SUBSCRIPTION_BY_CONSUMER => Lane::Quick(subscription_of_group),
        _ => return None,
    })
}

/// Answers once the table is on disk.
fn after_save(call: Call, reply: Reply, done: Answer) {
    let Ok(response) = done else {
        return reply.send(answer(done));
    };
    tokio::spawn(async move {
        reply.send(match call.broker.groups.file().saved(SAVE_TIMEOUT).await {
            true => response,
            false => Response::error(
                response_code::SYSTEM_ERROR,
                "subscriptionGroup.json could not be written in time",
            ),
        });
    });
}

fn json(call: &Call) -> Result<Node, Refusal> {
    parse(&call.request.body)
        .map_err(|error| Refusal::error(format!("the body is no JSON: {error}")))
}

/// 200: creates or changes a group, and makes its retry topic, so that tools find its route at once.
fn create(call: Call, reply: Reply) {
    let done = json(&call).and_then(|node| match node.as_map() {
        Some(map) => put(&call, map),
        None => Err(Refusal::error("the body is no group")),
    });
    after_save(call, reply, done);
}

/// 225: the same for several groups.
fn create_list(call: Call, reply: Reply) {
    let done = json(&call).and_then(|node| {
        let list = node
            .as_map()
            .and_then(|map| map.get("groupConfigList"))
            .and_then(Node::as_list);
        list.unwrap_or_default()
            .iter()
            .filter_map(Node::as_map)
            .try_for_each(|map| put(&call, map).map(drop))?;
        Ok(Response::ok())
    });
    after_save(call, reply, done);
}

fn put(call: &Call, map: &Map) -> Answer {
    let group = GroupConfig::from_map(map.str("groupName").unwrap_or_default(), map);
    super::client::check_group_name(&group.name)?;
    let (name, queues) = (group.name.clone(), group.retry_queues);
    if call.broker.groups.put(group) {
        tracing::info!(group = name, peer = %call.conn.peer(), "consumer group created or changed");
    }
    if queues > 0 {
        call.broker.ensure_retry_topic(&name, queues, false);
    }
    Ok(Response::ok())
}

/// 201: the whole table.
fn all(call: &Call) -> Answer {
    Ok(Response::ok().body(call.broker.groups.body()))
}

/// 352: one group.
fn one(call: &Call) -> Answer {
    let group = call.text("group")?;
    match call.broker.groups.get(group) {
        Some(config) => Ok(Response::ok().body(body(&config.to_map()))),
        None => Err(Refusal::new(
            response_code::SUBSCRIPTION_GROUP_NOT_EXIST,
            "No group in this broker",
        )),
    }
}

/// 207: deletes a group, with its offsets if asked for (4.9 and 5.x name the field differently).
fn delete(call: Call, reply: Reply) {
    let done = delete_now(&call);
    after_save(call, reply, done);
}

fn delete_now(call: &Call) -> Answer {
    let group = call.text("groupName")?;
    let ext = &call.request.ext;
    call.broker.groups.remove(group);
    if ext
        .get_bool("removeOffset")
        .or_else(|| ext.get_bool("cleanOffset"))
        .unwrap_or(false)
    {
        call.broker.offsets.remove_group(group);
    }
    tracing::info!(group, peer = %call.conn.peer(), "consumer group deleted");
    Ok(Response::ok())
}

/// 203: the members of a group and what they read.
fn consumer_connections(call: &Call) -> Answer {
    let group = call.text("consumerGroup")?;
    let Some(view) = call.broker.consumers.view(group) else {
        return Err(Refusal::new(
            response_code::CONSUMER_NOT_ONLINE,
            format!("the consumer group[{group}] not online"),
        ));
    };
    let mut table = Map::new();
    for entry in &view.subscriptions {
        table.push(&entry.data.topic, subscription(entry));
    }
    let map = Map::new()
        .with(
            "connectionSet",
            Node::List(view.members.iter().map(connection).collect()),
        )
        .with("consumeFromWhere", view.manner.consume_from_where.name())
        .with("consumeType", view.manner.consume_type.name())
        .with("messageModel", view.manner.message_model.name())
        .with("subscriptionTable", table);
    Ok(Response::ok().body(body(&map)))
}

/// 204: the members of a producer group.
fn producer_connections(call: &Call) -> Answer {
    let group = call.text("producerGroup")?;
    let Some(members) = call.broker.producers.members(group) else {
        return Err(Refusal::error(format!(
            "the producer group[{group}] not exist"
        )));
    };
    let map = Map::new().with(
        "connectionSet",
        Node::List(members.iter().map(connection).collect()),
    );
    Ok(Response::ok().body(body(&map)))
}

/// 328: all producers.
fn all_producers(call: &Call) -> Answer {
    let mut table = Map::new();
    for (group, members) in call.broker.producers.all() {
        let producer = |member: &crate::clients::Member<std::sync::Arc<remoting::Connection>>| {
            Node::Map(
                Map::new()
                    .with("clientId", &*member.client_id)
                    .with("language", member.language.name())
                    .with("lastUpdateTimestamp", member.seen_ms)
                    .with("remoteIP", format!("/{}", member.channel.peer()))
                    .with("version", member.version),
            )
        };
        table.push(&group, Node::List(members.iter().map(producer).collect()));
    }
    Ok(Response::ok().body(body(&Map::new().with("data", table))))
}

/// 314: one group takes over the offsets of another.
fn clone_offsets(call: &Call) -> Answer {
    let (from, to) = (call.text("srcGroup")?, call.text("destGroup")?);
    let offline = call.request.ext.get_bool("offline").unwrap_or(true);
    let topics = match call
        .request
        .ext
        .get("topic")
        .filter(|topic| !topic.trim().is_empty())
    {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => call.broker.offsets.topics_of(from),
    };
    for topic in topics {
        let subscribed = || match call.broker.consumers.view(from) {
            Some(view) => view
                .subscriptions
                .iter()
                .any(|entry| entry.data.topic == topic),
            None => true,
        };
        if call.broker.topics.contains(&topic) && (offline || subscribed()) {
            call.broker.offsets.copy(from, to, &topic);
        }
    }
    Ok(Response::ok())
}

/// 343: topics in which a group has offsets.
fn topics_of_group(call: &Call) -> Answer {
    let topics = call.broker.offsets.topics_of(call.text("group")?);
    Ok(Response::ok().body(body(&Map::new().with("topicList", texts(topics)))))
}

/// 345: what a group reads of a topic.
fn subscription_of_group(call: &Call) -> Answer {
    let (group, topic) = (call.text("group")?, call.text("topic")?);
    let mut map = Map::new().with("group", group);
    if let Some(view) = call.broker.consumers.view(group)
        && let Some(entry) = view
            .subscriptions
            .iter()
            .find(|entry| entry.data.topic == topic)
    {
        map.push("subscriptionData", subscription(entry));
    }
    Ok(Response::ok().body(body(&map.with("topic", topic))))
}

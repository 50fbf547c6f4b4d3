//! Topics: 17, 18, 215, 21, 202, 300, 303, 305, 351.

use std::collections::BTreeSet;
use std::time::Duration;

use remoting::message::{is_light_queue, validate_topic};
use remoting::{Reply, Response, request_code as code, response_code};

use super::bodies::{body, queue, queue_key, texts};
use super::{Answer, Call, Lane, Refusal, answer};
use crate::tables::json::{Map, Node, parse};
use crate::tables::{Table, TopicConfig};

/// How long an answer waits for the disk.
const SAVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn lane(request_code: i32) -> Option<Lane> {
    Some(match request_code {
        code::UPDATE_AND_CREATE_TOPIC => Lane::Waiting(create),
        code::UPDATE_AND_CREATE_TOPIC_LIST => Lane::Waiting(create_list),
        code::DELETE_TOPIC_IN_BROKER => Lane::Waiting(delete),
        code::GET_ALL_TOPIC_CONFIG => Lane::Slow(all),
        code::GET_TOPIC_CONFIG => Lane::Quick(one),
        code::GET_TOPIC_STATS_INFO => Lane::Slow(stats),
        code::QUERY_TOPIC_CONSUME_BY_WHO => Lane::Quick(consumed_by),
        code::QUERY_CONSUME_TIME_SPAN => Lane::Slow(time_span),
        code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => Lane::Quick(system_topics),
        _ => return None,
    })
}

/// Answers once the table is on disk.
fn after_save(call: Call, reply: Reply, done: Answer) {
    let Ok(response) = done else {
        return reply.send(answer(done));
    };
    tokio::spawn(async move {
        reply.send(match call.broker.topics.file().saved(SAVE_TIMEOUT).await {
            true => response,
            false => Response::error(
                response_code::SYSTEM_ERROR,
                "topics.json could not be written in time",
            ),
        });
    });
}

/// 17: creates or changes a topic.
fn create(call: Call, reply: Reply) {
    let done = topic_of(&call).and_then(|topic| put(&call, topic));
    after_save(call, reply, done);
}

fn topic_of(call: &Call) -> Result<TopicConfig, Refusal> {
    let ext = &call.request.ext;
    let name = call.text("topic")?;
    let mut topic = TopicConfig::new(name, 0);
    topic.read_queues = call.i32("readQueueNums")?;
    topic.write_queues = call.i32("writeQueueNums")?;
    topic.perm = call.i32("perm")?;
    if let Some(filter_type) = ext.get("topicFilterType") {
        filter_type.clone_into(&mut topic.filter_type);
    }
    topic.sys_flag = ext.get_i32("topicSysFlag")?.unwrap_or(0);
    // 4.9 takes the order flag from the name server alone, 5.x from here as well.
    topic.order = ext.get_bool("order").unwrap_or(false);
    if let Some(attributes) = ext.get("attributes").filter(|text| !text.is_empty()) {
        let known = call.broker.topics.get(name);
        topic.attributes = Some(attributes_after(known.as_deref(), attributes)?);
    }
    Ok(topic)
}

/// 18: the same for several topics, all or none.
fn create_list(call: Call, reply: Reply) {
    let done = topic_list(&call).and_then(|topics| {
        topics.iter().try_for_each(|topic| check(&call, topic))?;
        topics
            .into_iter()
            .try_for_each(|topic| put(&call, topic).map(drop))?;
        Ok(Response::ok())
    });
    after_save(call, reply, done);
}

fn topic_list(call: &Call) -> Result<Vec<TopicConfig>, Refusal> {
    let node = parse(&call.request.body)
        .map_err(|error| Refusal::error(format!("the body is no JSON: {error}")))?;
    let list = node
        .as_map()
        .and_then(|map| map.get("topicConfigList"))
        .and_then(Node::as_list);
    let maps = list.unwrap_or_default().iter().filter_map(Node::as_map);
    Ok(maps
        .map(|map| TopicConfig::from_map(map.str("topicName").unwrap_or_default(), map))
        .collect())
}

fn check(call: &Call, topic: &TopicConfig) -> Result<(), Refusal> {
    validate_topic(&topic.name).map_err(|error| Refusal::error(error.to_string()))?;
    if is_light_queue(&topic.name) {
        return Err(Refusal::error(format!(
            "light message queues are not served: the topic {} cannot be made",
            topic.name
        )));
    }
    if call.broker.topics.is_system(&topic.name) {
        return Err(Refusal::error(format!(
            "The topic[{}] is conflict with system topic.",
            topic.name
        )));
    }
    let queues = 0..=65_536;
    if !queues.contains(&topic.read_queues) || !queues.contains(&topic.write_queues) {
        return Err(Refusal::error(format!(
            "a topic has from 0 to {} queues, not {} to read and {} to write",
            queues.end(),
            topic.read_queues,
            topic.write_queues
        )));
    }
    if !(0..=15).contains(&topic.perm) {
        return Err(Refusal::error(format!(
            "perm {} is none: 2 writes, 4 reads, 6 does both",
            topic.perm
        )));
    }
    if topic
        .attribute("queue.type")
        .is_some_and(|kind| kind.eq_ignore_ascii_case("BatchCQ"))
    {
        return Err(Refusal::error(
            "queue.type=BatchCQ is not served: leave it out",
        ));
    }
    if topic
        .attribute("cleanup.policy")
        .is_some_and(|policy| policy.eq_ignore_ascii_case("COMPACTION"))
    {
        return Err(Refusal::error(
            "cleanup.policy=COMPACTION is not served: leave it out",
        ));
    }
    Ok(())
}

fn put(call: &Call, topic: TopicConfig) -> Answer {
    check(call, &topic)?;
    let name = topic.name.clone();
    if call.broker.topics.put(topic) {
        tracing::info!(topic = name, peer = %call.conn.peer(), "topic created or changed");
    }
    Ok(Response::ok())
}

/// The attributes after `+key=value,-key`.
fn attributes_after(
    known: Option<&TopicConfig>,
    changes: &str,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut attributes = known
        .and_then(|topic| topic.attributes.clone())
        .unwrap_or_default();
    for change in changes
        .split(',')
        .map(str::trim)
        .filter(|change| !change.is_empty())
    {
        let wrong = || {
            Refusal::error(format!(
                "the attribute change '{change}' is neither +key=value nor -key"
            ))
        };
        if let Some(key) = change.strip_prefix('-') {
            attributes.retain(|(known, _)| known != key);
        } else {
            let (key, value) = change
                .strip_prefix('+')
                .and_then(|pair| pair.split_once('='))
                .ok_or_else(wrong)?;
            attributes.retain(|(known, _)| known != key);
            attributes.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(attributes)
}

/// 215: deletes a topic with its queues; its messages stay in the log until they expire.
fn delete(call: Call, reply: Reply) {
    let broker = call.broker.clone();
    broker.blocking(move || {
        let done = delete_now(&call);
        after_save(call, reply, done);
    });
}

fn delete_now(call: &Call) -> Answer {
    let topic = call.text("topic")?;
    if topic.trim().is_empty() {
        return Err(Refusal::error("The specified topic is blank."));
    }
    if call.broker.topics.is_system(topic) {
        return Err(Refusal::error(format!(
            "The topic[{topic}] is conflict with system topic."
        )));
    }
    call.broker.delete_topic(topic)?;
    tracing::info!(topic, peer = %call.conn.peer(), "topic deleted");
    Ok(Response::ok())
}

/// 21: the whole table.
fn all(call: &Call) -> Answer {
    Ok(Response::ok().with_fields().body(call.broker.topics.body()))
}

/// 351: one topic.
fn one(call: &Call) -> Answer {
    let name = call.text("topic")?;
    let topic = call.broker.topics.get(name).ok_or_else(|| unknown(name))?;
    Ok(Response::ok().body(body(&topic.to_map())))
}

fn unknown(topic: &str) -> Refusal {
    Refusal::new(
        response_code::TOPIC_NOT_EXIST,
        format!("topic[{topic}] not exist"),
    )
}

/// 202: the range of each queue; those without a message too, since tools wait for them.
fn stats(call: &Call) -> Answer {
    let name = call.text("topic")?;
    let topic = call.broker.topics.get(name).ok_or_else(|| unknown(name))?;
    let store = &call.broker.store;
    let mut table = Map::new();
    for queue_id in 0..topic.write_queues.max(topic.read_queues) {
        let (min, max) = store.queue_range(name, queue_id);
        let updated = if max > min {
            store.store_time(name, queue_id, max - 1)
        } else {
            None
        };
        let entry = Map::new()
            .with("lastUpdateTimestamp", updated.unwrap_or(0))
            .with("maxOffset", max)
            .with("minOffset", min);
        table.push_key(queue_key(&call.broker, name, queue_id), Node::Map(entry));
    }
    Ok(Response::ok().body(body(&Map::new().with("offsetTable", table))))
}

/// 300: groups that consume a topic or have offsets in it.
fn consumed_by(call: &Call) -> Answer {
    let topic = call.text("topic")?;
    let mut groups: BTreeSet<String> = call.broker.consumers.groups_of_topic(topic);
    groups.extend(call.broker.offsets.groups_of(topic));
    Ok(Response::ok().body(body(&Map::new().with("groupList", texts(groups)))))
}

/// 303: how far in time a group has come in each queue of a topic.
fn time_span(call: &Call) -> Answer {
    let (name, group) = (call.text("topic")?, call.text("group")?);
    let topic = call.broker.topics.get(name).ok_or_else(|| unknown(name))?;
    let store = &call.broker.store;
    let mut spans = Vec::new();
    for queue_id in 0..topic.write_queues {
        let (min, max) = store.queue_range(name, queue_id);
        let time = |offset: i64| store.store_time(name, queue_id, offset).unwrap_or(-1);
        let offset = call
            .broker
            .offsets
            .query(group, name, queue_id)
            .unwrap_or(0);
        let consumed = if offset > 0 {
            time(offset - 1)
        } else {
            time(min)
        };
        let waiting = if offset < max { time(offset) } else { -1 };
        let delay = if waiting > 0 {
            (crate::tables::now_ms() - waiting).max(0)
        } else {
            0
        };
        spans.push(Node::Map(
            Map::new()
                .with("consumeTimeStamp", consumed)
                .with("delayTime", delay)
                .with("maxTimeStamp", time(max - 1))
                .with("messageQueue", queue(&call.broker, name, queue_id))
                .with("minTimeStamp", time(min)),
        ));
    }
    Ok(Response::ok().body(body(
        &Map::new().with("consumeTimeSpanSet", Node::List(spans)),
    )))
}

/// 305: topics of the system.
fn system_topics(call: &Call) -> Answer {
    Ok(Response::ok().body(body(
        &Map::new().with("topicList", texts(call.broker.topics.system_topics())),
    )))
}

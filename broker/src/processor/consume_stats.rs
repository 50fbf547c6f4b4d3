//! How far groups have consumed: 208, 317, 308.

use std::collections::{BTreeMap, BTreeSet};

use remoting::Response;

use super::bodies::{body, queue_key, real};
use super::{Answer, Call};
use crate::service::Broker;
use crate::tables::json::{Map, Node};

/// 208: the offsets of a group in one topic, some or all.
pub(super) fn of_group(call: &Call) -> Answer {
    let group = call.text("consumerGroup")?;
    let ext = &call.request.ext;
    let listed = ext.get("topicList").unwrap_or_default().split(';');
    let named: BTreeSet<String> = listed
        .chain(ext.get("topic"))
        .map(str::trim)
        .filter(|topic| !topic.is_empty())
        .map(str::to_owned)
        .collect();
    let topics = if named.is_empty() {
        call.broker.offsets.topics_of(group)
    } else {
        named
    };
    let (map, _) = table(&call.broker, group, &topics);
    Ok(Response::ok().body(body(&map)))
}

/// The offsets of a group in some topics, and how many messages it has before it.
fn table(broker: &Broker, group: &str, topics: &BTreeSet<String>) -> (Map, i64) {
    let (mut table, mut tps, mut behind) = (Map::new(), 0.0, 0_i64);
    let view = broker.consumers.view(group);
    for topic in topics {
        let Some(config) = broker.topics.get(topic) else {
            continue;
        };
        // A group that is connected but reads the topic no more keeps old offsets that mean nothing.
        if view.as_ref().is_some_and(|view| {
            !view
                .subscriptions
                .iter()
                .any(|entry| entry.data.topic == *topic)
        }) {
            continue;
        }
        for queue_id in 0..config.read_queues {
            let max = broker.store.queue_range(topic, queue_id).1.max(0);
            let consumed = broker.offsets.query(group, topic, queue_id).unwrap_or(0);
            let last = if consumed > 0 {
                broker.store.store_time(topic, queue_id, consumed - 1)
            } else {
                None
            };
            let entry = Map::new()
                .with("brokerOffset", max)
                .with("consumerOffset", consumed)
                .with("lastTimestamp", last.unwrap_or(0))
                .with("pullOffset", consumed);
            table.push_key(queue_key(broker, topic, queue_id), Node::Map(entry));
            behind = behind.saturating_add(max.saturating_sub(consumed));
        }
        tps += broker.stats.consume_tps(topic, group);
    }
    (
        Map::new()
            .with("consumeTps", real(tps))
            .with("offsetTable", table),
        behind,
    )
}

/// 317: the same for every group of the broker.
pub(super) fn of_broker(call: &Call) -> Answer {
    let only_ordered = call.request.ext.get_bool("isOrder").unwrap_or(false);
    let broker = &call.broker;
    let (mut list, mut total) = (Vec::new(), 0_i64);
    for group in broker.groups.all() {
        let mut tables = Vec::new();
        for topic in broker.offsets.topics_of(&group.name) {
            let ordered = broker.topics.get(&topic).is_some_and(|config| config.order);
            if only_ordered && !ordered {
                continue;
            }
            let (map, behind) = table(broker, &group.name, &BTreeSet::from([topic]));
            total = behind.saturating_add(total);
            tables.push(Node::Map(map));
        }
        list.push(Node::Map(Map::new().with(&group.name, Node::List(tables))));
    }
    let map = Map::new()
        .with("brokerAddr", broker.store_host.to_string())
        .with("consumeStatsList", Node::List(list))
        .with("totalDiff", total)
        .with("totalInflightDiff", 0_i64);
    Ok(Response::ok().body(body(&map)))
}

/// 308: by queue, the smallest offset among the other groups of a topic.
pub(super) fn correction(call: &Call) -> Answer {
    let (topic, compared) = (call.text("topic")?, call.text("compareGroup")?);
    let left_out: BTreeSet<&str> = call
        .request
        .ext
        .get("filterGroups")
        .unwrap_or_default()
        .split(',')
        .collect();
    let own = call.broker.offsets.queues(compared, topic);
    let mut smallest: BTreeMap<i32, i64> = BTreeMap::new();
    for group in call.broker.offsets.groups_of(topic) {
        if left_out.contains(group.as_str()) {
            continue;
        }
        for (queue_id, offset) in call.broker.offsets.queues(&group, topic) {
            smallest
                .entry(queue_id)
                .and_modify(|known| *known = offset.min(*known))
                .or_insert(offset);
        }
    }
    let mut table = Map::new();
    for (queue_id, offset) in smallest {
        let beyond = own.get(&queue_id).is_some_and(|&own| offset > own);
        table.push_integer(i64::from(queue_id), if beyond { i64::MAX } else { offset });
    }
    Ok(Response::ok().body(body(&Map::new().with("correctionOffsets", table))))
}

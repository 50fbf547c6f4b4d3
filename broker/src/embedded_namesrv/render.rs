//! The name server's bodies, compact as fastjson prints them: Go clients cut them as text.

use super::routes::{BrokerData, QueueData, Routes};
use crate::tables::json::{Map, Node, compact};

/// Clients from this version on are sent standard JSON.
const STANDARD_JSON_SINCE: i32 = 401;

/// Whether a requester reads standard JSON only.
pub fn wants_standard(version: i32, asked: bool) -> bool {
    version >= STANDARD_JSON_SINCE || asked
}

/// TopicRouteData (request 105). In the standard form broker ids stand in quotes and non-ASCII text is escaped.
pub fn route(routes: &Routes, topic: &str, order: Option<&str>, standard: bool) -> Option<String> {
    let (brokers, queues) = routes.route(topic)?;
    let brokers = brokers
        .into_iter()
        .map(|(name, b)| Node::Map(broker_data(name, b, standard)))
        .collect();
    let queues = queues
        .into_iter()
        .map(|(name, q)| Node::Map(queue_data(name, q)))
        .collect();
    let mut map = Map::new()
        .with("brokerDatas", Node::List(brokers))
        .with("filterServerTable", Map::new());
    if let Some(order) = order {
        map.push("orderTopicConf", order);
    }
    let text = compact(&map.with("queueDatas", Node::List(queues)));
    Some(if standard { ascii(text) } else { text })
}

fn broker_data(name: &str, broker: &BrokerData, standard: bool) -> Map {
    let mut addrs = Map::new();
    for (id, addr) in &broker.addrs {
        if standard {
            addrs.push(&id.to_string(), addr.as_str())
        } else {
            addrs.push_integer(*id, addr.as_str())
        }
    }
    let map = Map::new()
        .with("brokerAddrs", addrs)
        .with("brokerName", name)
        .with("cluster", broker.cluster.as_str());
    match broker.acting_master {
        Some(acting) => map.with("enableActingMaster", acting),
        None => map,
    }
}

fn queue_data(broker: &str, queue: &QueueData) -> Map {
    Map::new()
        .with("brokerName", broker)
        .with("perm", queue.perm)
        .with("readQueueNums", queue.read_queues)
        .with("topicSysFlag", queue.sys_flag)
        .with("writeQueueNums", queue.write_queues)
}

/// ClusterInfo (request 106): broker ids never in quotes.
pub fn cluster_info(routes: &Routes) -> String {
    let mut brokers = Map::new();
    for (name, broker) in routes.brokers() {
        brokers.push(name, broker_data(name, broker, false));
    }
    let mut clusters = Map::new();
    for (cluster, names) in routes.clusters() {
        clusters.push(
            cluster,
            Node::List(names.into_iter().map(Node::from).collect()),
        );
    }
    compact(
        &Map::new()
            .with("brokerAddrTable", brokers)
            .with("clusterAddrTable", clusters),
    )
}

/// Members of one broker name (request 901).
pub fn member_group(routes: &Routes, cluster: &str, name: &str) -> String {
    let mut group = Map::new();
    if let Some(broker) = routes.brokers().get(name) {
        let mut addrs = Map::new();
        broker
            .addrs
            .iter()
            .for_each(|(id, addr)| addrs.push_integer(*id, addr.as_str()));
        let members = Map::new()
            .with("brokerAddrs", addrs)
            .with("brokerName", name)
            .with("cluster", cluster);
        group.push("brokerMemberGroup", members);
    }
    compact(&group)
}

/// TopicList.
pub fn topic_list(topics: &[&str], broker_addr: Option<&str>) -> String {
    let mut map = Map::new();
    if let Some(addr) = broker_addr {
        map.push("brokerAddr", addr);
    }
    let topics = topics.iter().map(|t| Node::from(*t)).collect();
    compact(&map.with("topicList", Node::List(topics)))
}

/// KVTable.
pub fn kv_table<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut table = Map::new();
    pairs.for_each(|(key, value)| table.push(key, value));
    compact(&Map::new().with("table", table))
}

fn ascii(text: String) -> String {
    if text.is_ascii() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

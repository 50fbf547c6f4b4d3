//! What a broker says about itself: request 103, both forms of its body.

use crate::tables::json::{Map, Node, compact, parse};
use crate::tables::{DataVersion, TopicConfig};
use std::io::Read;

/// A compressed body may not inflate beyond this.
const INFLATED_MAX: u64 = 64 * 1024 * 1024;

/// Identity of a broker: the fields that requests 103, 104 and 322 share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerIdentity {
    /// Cluster.
    pub cluster: String,
    /// Name, the same for a master and its slaves.
    pub name: String,
    /// `host:port` of the main port.
    pub addr: String,
    /// 0 for the master.
    pub id: i64,
}

/// A registration.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Who registers.
    pub identity: BrokerIdentity,
    /// `host:port` of the replication port.
    pub ha_addr: String,
    /// Time without a sign of life after which the broker is forgotten, ms; `None` for the default.
    pub timeout_ms: Option<i64>,
    /// 5.x brokers say whether slaves may act as master; `None` for a 4.x broker.
    pub acting_master: Option<bool>,
    /// Version of the topic table.
    pub version: DataVersion,
    /// All topics, or those that changed.
    pub topics: Vec<TopicConfig>,
}

/// Version and topics of a registration's body; an empty body stands for none.
pub fn parse_body(
    body: &[u8],
    compressed: bool,
) -> Result<(DataVersion, Vec<TopicConfig>), String> {
    if body.is_empty() {
        return Ok((DataVersion::zero(), Vec::new()));
    }
    // 5.3 brokers with compressedRegister=true send a zlib stream and say compressed=false.
    if compressed || body[0] == 0x78 {
        return parse_compressed(body);
    }
    let root = parse(body).map_err(|e| e.to_string())?;
    let wrapper = root
        .as_map()
        .and_then(|m| m.get("topicConfigSerializeWrapper"))
        .and_then(Node::as_map);
    let Some(wrapper) = wrapper else {
        return Ok((DataVersion::zero(), Vec::new()));
    };
    let version = wrapper
        .get("dataVersion")
        .and_then(Node::as_map)
        .map_or(DataVersion::zero(), DataVersion::from_map);
    let table = wrapper.get("topicConfigTable").and_then(Node::as_map);
    let topics = table.into_iter().flat_map(Map::iter);
    let topics = topics.filter_map(|(name, t)| t.as_map().map(|t| TopicConfig::from_map(name, t)));
    Ok((version, topics.collect()))
}

/// The compressed form: zlib over length-prefixed pieces, topics as text `name read write perm filterType [attributes]`.
fn parse_compressed(body: &[u8]) -> Result<(DataVersion, Vec<TopicConfig>), String> {
    let mut bytes = Vec::new();
    let mut inflated = flate2::read::ZlibDecoder::new(body).take(INFLATED_MAX + 1);
    inflated
        .read_to_end(&mut bytes)
        .map_err(|e| format!("the compressed body is damaged: {e}"))?;
    if bytes.len() as u64 > INFLATED_MAX {
        return Err("the compressed body is too large".into());
    }
    let mut rest = bytes.as_slice();
    let version = parse(take_piece(&mut rest)?).map_err(|e| e.to_string())?;
    let version = version
        .as_map()
        .map_or(DataVersion::zero(), DataVersion::from_map);
    let count = take_i32(&mut rest)?;
    let mut topics = Vec::new();
    for _ in 0..count {
        let piece = take_piece(&mut rest)?;
        let text = std::str::from_utf8(piece).map_err(|_| "a topic is not UTF-8".to_string())?;
        topics.push(parse_topic(text).ok_or_else(|| format!("'{text}' is no topic"))?);
    }
    Ok((version, topics))
}

fn take_i32(rest: &mut &[u8]) -> Result<i32, String> {
    let (head, tail) = rest
        .split_first_chunk::<4>()
        .ok_or("the compressed body ends early")?;
    *rest = tail;
    Ok(i32::from_be_bytes(*head))
}

fn take_piece<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let len = usize::try_from(take_i32(rest)?).map_err(|_| "a length is negative".to_string())?;
    let (head, tail) = rest
        .split_at_checked(len)
        .ok_or("the compressed body ends early")?;
    *rest = tail;
    Ok(head)
}

fn parse_topic(text: &str) -> Option<TopicConfig> {
    let mut words = text.splitn(6, ' ');
    let mut topic = TopicConfig::new(words.next()?, 0);
    topic.read_queues = words.next()?.parse().ok()?;
    topic.write_queues = words.next()?.parse().ok()?;
    topic.perm = words.next()?.parse().ok()?;
    topic.filter_type = words.next()?.to_string();
    Some(topic)
}

/// The body of a registration with these topics, in the form that both generations read. `permission` is the
/// broker's: when it is not read and write, every topic is limited to it.
pub fn body<'a>(
    version: &DataVersion,
    topics: impl Iterator<Item = &'a TopicConfig>,
    permission: i32,
) -> String {
    let mut table = Map::new();
    for topic in topics {
        table.push(&topic.name, limited(topic, permission).to_map());
    }
    let wrapper = Map::new()
        .with("dataVersion", version.to_map())
        .with("topicConfigTable", table);
    compact(
        &Map::new()
            .with("filterServerList", Node::List(Vec::new()))
            .with("topicConfigSerializeWrapper", wrapper),
    )
}

/// The topic as a broker with this permission offers it.
pub fn limited(topic: &TopicConfig, permission: i32) -> TopicConfig {
    const READ_WRITE: i32 = crate::tables::perm::READ | crate::tables::perm::WRITE;
    let perm = if permission & READ_WRITE == READ_WRITE {
        topic.perm
    } else {
        topic.perm & permission
    };
    topic.clone().with_perm(perm)
}

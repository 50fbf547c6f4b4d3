//! Pieces of JSON that several answers share.

use std::sync::Arc;

use bytes::Bytes;
use remoting::{Connection, fastjson};

use super::Refusal;
use crate::clients::Member;
use crate::clients::consumers::Subscription;
use crate::filter::TAG;
use crate::service::Broker;
use crate::tables::json::{Key, Map, Node, compact};

/// A body of one JSON object.
pub(super) fn body(map: &Map) -> Bytes {
    Bytes::from(compact(map))
}

/// A typed body.
pub(super) fn encode<T: serde::Serialize>(body: &T) -> Result<Vec<u8>, Refusal> {
    fastjson::to_vec(body).map_err(|error| Refusal::error(error.to_string()))
}

/// A list of texts.
pub(super) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Node {
    Node::List(
        texts
            .into_iter()
            .map(|text| Node::Text(text.into()))
            .collect(),
    )
}

/// A number that may have a fraction.
pub(super) fn real(value: f64) -> Node {
    let text = value.to_string();
    Node::Number(if text.contains('.') {
        text
    } else {
        format!("{text}.0")
    })
}

/// A queue of this broker, as bodies name it.
pub(super) fn queue(broker: &Broker, topic: &str, queue_id: i32) -> Map {
    Map::new()
        .with("brokerName", broker.broker_name.as_str())
        .with("queueId", queue_id)
        .with("topic", topic)
}

/// The same in the place of a key: fastjson writes the object as it is.
pub(super) fn queue_key(broker: &Broker, topic: &str, queue_id: i32) -> Key {
    Key {
        text: compact(&queue(broker, topic, queue_id)),
        quoted: false,
    }
}

/// A subscription.
pub(super) fn subscription(subscription: &Subscription) -> Map {
    let data = &subscription.data;
    let codes = data.code_set.iter().map(|&code| Node::from(code)).collect();
    Map::new()
        .with("classFilterMode", data.class_filter_mode)
        .with("codeSet", Node::List(codes))
        .with(
            "expressionType",
            data.expression_type.as_deref().unwrap_or(TAG),
        )
        .with("subString", data.sub_string.as_str())
        .with("subVersion", data.sub_version)
        .with("tagsSet", texts(data.tags_set.iter().cloned()))
        .with("topic", data.topic.as_str())
}

/// A connected client, for 203 and 204.
pub(super) fn connection(member: &Member<Arc<Connection>>) -> Node {
    Node::Map(
        Map::new()
            .with("clientAddr", member.channel.peer().to_string())
            .with("clientId", &*member.client_id)
            .with("language", member.language.name())
            .with("version", member.version),
    )
}

//! What a send needs to know of its topic, found by one look-up.

use std::sync::Arc;

use commitlog::QueueSlot;
use dashmap::DashMap;
use remoting::body::TopicConfig;
use remoting::message::{RETRY_PREFIX, is_send_forbidden, validate_topic};
use remoting::response_code;

use crate::processor::Refusal;
use crate::service::Broker;
use crate::stats::TopicCounters;

/// A topic ready to be sent to.
#[derive(Debug)]
pub(crate) struct SendRoute {
    /// Revision of the topic table that this was made of.
    revision: u64,
    /// Configuration of the topic.
    pub config: Arc<TopicConfig>,
    /// The topic may not be sent to: system topics, and names that no broker would accept.
    pub refusal: Option<Refusal>,
    /// The group of a retry topic.
    pub retry_group: Option<String>,
    /// Next queue offset of each queue.
    pub slots: Box<[Arc<QueueSlot>]>,
    /// Statistics of the topic.
    pub counters: Arc<TopicCounters>,
}

impl SendRoute {
    fn new(broker: &Broker, revision: u64, config: Arc<TopicConfig>) -> Self {
        let topic = &config.topic_name;
        let queues = config.write_queue_nums.max(config.read_queue_nums).max(0);
        let slot = |queue_id| broker.store.slot(topic, queue_id);
        SendRoute {
            revision,
            refusal: check_name(topic).err(),
            retry_group: topic.strip_prefix(RETRY_PREFIX).map(str::to_owned),
            slots: (0..queues).map(slot).collect(),
            counters: broker.stats.topic(topic),
            config,
        }
    }
}

/// Refuses topics that no client may send to.
pub(super) fn check_name(topic: &str) -> Result<(), Refusal> {
    validate_topic(topic).map_err(|error| Refusal::error(error.to_string()))?;
    if is_send_forbidden(topic) {
        return Err(Refusal::new(
            response_code::NO_PERMISSION,
            format!("Sending message to topic[{topic}] is forbidden."),
        ));
    }
    Ok(())
}

/// The routes of all topics that were sent to.
#[derive(Debug, Default)]
pub(crate) struct SendRoutes {
    routes: DashMap<String, Arc<SendRoute>>,
}

impl SendRoutes {
    /// The route of a topic, made anew if the topic table has changed since; `None` if there is no
    /// such topic.
    pub fn get(&self, broker: &Broker, topic: &str) -> Option<Arc<SendRoute>> {
        let revision = broker.topics.revision();
        if let Some(route) = self.routes.get(topic)
            && route.revision == revision
        {
            return Some(route.clone());
        }
        let Some(config) = broker.topics.get(topic) else {
            self.routes.remove(topic);
            return None;
        };
        let route = Arc::new(SendRoute::new(broker, revision, config));
        self.routes.insert(topic.to_owned(), route.clone());
        Some(route)
    }
}

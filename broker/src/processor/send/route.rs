//! What a send needs to know of its topic, found by one look-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commitlog::QueueSlot;
use dashmap::DashMap;
use remoting::message::{RETRY_PREFIX, is_light_queue, is_send_forbidden, validate_topic};
use remoting::response_code;

use crate::processor::Refusal;
use crate::service::Broker;
use crate::stats::TopicStats;
use crate::tables::{TopicConfig, perm};

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
    /// Statistics of the topic.
    pub stats: TopicStats,
    /// Next queue offset of each of the first queues.
    slots: Box<[Arc<QueueSlot>]>,
}

/// Queues of a topic whose slots are kept with its route: nearly always all of them. A topic may have 65,536, of
/// which memory is spent on those that are sent to.
const KEPT_SLOTS: i32 = 256;

impl SendRoute {
    fn new(broker: &Broker, revision: u64, config: Arc<TopicConfig>) -> Self {
        let topic = &config.name;
        let queues = config
            .write_queues
            .max(config.read_queues)
            .clamp(0, KEPT_SLOTS);
        let slot = |queue_id| broker.store.slot(topic, queue_id);
        SendRoute {
            revision,
            stats: broker.stats.topic(topic),
            refusal: check_name(topic).err(),
            retry_group: topic.strip_prefix(RETRY_PREFIX).map(str::to_owned),
            slots: (0..queues).map(slot).collect(),
            config,
        }
    }

    /// Where the next offset of a queue is counted.
    pub fn slot(&self, broker: &Broker, queue_id: i32) -> Arc<QueueSlot> {
        let kept = usize::try_from(queue_id)
            .ok()
            .and_then(|id| self.slots.get(id));
        match kept {
            Some(slot) => slot.clone(),
            None => broker.store.slot(&self.config.name, queue_id),
        }
    }
}

/// Refuses topics that no client may send to.
pub(super) fn check_name(topic: &str) -> Result<(), Refusal> {
    validate_topic(topic).map_err(|error| Refusal::error(error.to_string()))?;
    if is_light_queue(topic) {
        return Err(Refusal::new(
            response_code::NO_PERMISSION,
            format!("light message queues are not served: nothing can be sent to topic[{topic}]"),
        ));
    }
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
    /// Number of changes of the topic table.
    revision: AtomicU64,
}

impl SendRoutes {
    /// To be called after each change of the topic table.
    pub fn invalidate(&self) {
        self.revision.fetch_add(1, Ordering::AcqRel);
    }

    /// The route of a topic, made anew if the topic table has changed since; `None` if there is no
    /// such topic.
    pub fn get(&self, broker: &Broker, topic: &str) -> Option<Arc<SendRoute>> {
        // Read before the table: a change in between makes the route old, never too young.
        let revision = self.revision.load(Ordering::Acquire);
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

/// A topic's configuration as Java prints it in remarks.
pub(super) fn describe(config: &TopicConfig) -> String {
    let letter = |bit: i32, letter: char| if config.perm & bit != 0 { letter } else { '-' };
    format!(
        "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}{}{}, topicFilterType={}, \
         topicSysFlag={}, order={}]",
        config.name,
        config.read_queues,
        config.write_queues,
        letter(perm::READ, 'R'),
        letter(perm::WRITE, 'W'),
        letter(perm::INHERIT, 'X'),
        config.filter_type,
        config.sys_flag,
        config.order
    )
}

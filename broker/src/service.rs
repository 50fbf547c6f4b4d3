//! The running broker: what every request handler works with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use remoting::message::retry_topic;
use remoting::{Command, Connection, request_code};

use crate::clients::consumers::Consumers;
use crate::clients::locks::QueueLocks;
use crate::clients::producers::Producers;
use crate::config::{BrokerConfig, Settings};
use crate::hold::Holds;
use crate::processor::{HeldPull, Refusal, SendRoutes};
use crate::stats::BrokerStats;
use crate::store::MessageStore;
use crate::tables::{
    ConsumerOffsets, GroupConfig, GroupTable, Table, TopicConfig, TopicTable, perm,
};

/// How long the first message of a new topic waits for the topic to be on disk.
const TOPICS_SAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    crate::tables::now_ms()
}

/// What a broker is made of.
pub struct Parts {
    /// Configuration.
    pub settings: Arc<Settings>,
    /// Messages.
    pub store: Arc<MessageStore>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Consumer groups.
    pub groups: Arc<GroupTable>,
    /// Consumer offsets.
    pub offsets: Arc<ConsumerOffsets>,
    /// Pulls that wait.
    pub holds: Arc<Holds<HeldPull>>,
    /// Figures.
    pub stats: Arc<BrokerStats>,
    /// Registers everything anew at the name servers.
    pub refresh_registration: Box<dyn Fn() + Send + Sync>,
    /// Address that message ids and stored messages name.
    pub store_host: SocketAddr,
}

/// The running broker.
pub struct Broker {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<MessageStore>,
    pub(crate) topics: Arc<TopicTable>,
    pub(crate) groups: Arc<GroupTable>,
    pub(crate) offsets: Arc<ConsumerOffsets>,
    pub(crate) holds: Arc<Holds<HeldPull>>,
    pub(crate) stats: Arc<BrokerStats>,
    refresh_registration: Box<dyn Fn() + Send + Sync>,
    pub(crate) producers: Producers<Arc<Connection>>,
    pub(crate) consumers: Consumers<Arc<Connection>>,
    pub(crate) locks: QueueLocks,
    pub(crate) routes: Arc<SendRoutes>,
    /// Address that message ids and stored messages name.
    pub(crate) store_host: SocketAddr,
    pub(crate) broker_name: String,
    pub(crate) cluster_name: String,
    /// Region that answers to sends name.
    pub(crate) region: Bytes,
    physical_memory: i64,
    stopping: AtomicBool,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker")
            .field("name", &self.broker_name)
            .finish_non_exhaustive()
    }
}

impl Broker {
    /// Puts a broker together; it serves once a server dispatches to its router.
    pub fn new(parts: Parts) -> Arc<Self> {
        let config = parts.settings.get();
        let routes = Arc::new(SendRoutes::default());
        let invalidated = routes.clone();
        parts.topics.listen(move |_, _| invalidated.invalidate());
        Arc::new(Broker {
            store: parts.store,
            topics: parts.topics,
            groups: parts.groups,
            offsets: parts.offsets,
            holds: parts.holds,
            stats: parts.stats,
            refresh_registration: parts.refresh_registration,
            producers: Producers::default(),
            consumers: Consumers::default(),
            locks: QueueLocks::default(),
            routes,
            store_host: parts.store_host,
            broker_name: config.broker_name.clone(),
            cluster_name: config.broker_cluster_name.clone(),
            region: Bytes::from(config.region_id.clone()),
            physical_memory: physical_memory(),
            stopping: AtomicBool::new(false),
            settings: parts.settings,
        })
    }

    /// The configuration now.
    pub(crate) fn config(&self) -> Arc<BrokerConfig> {
        self.settings.get()
    }

    /// Reads the configuration without a reference count, for the hot path.
    pub(crate) fn with_config<R>(&self, read: impl FnOnce(&BrokerConfig) -> R) -> R {
        self.settings.with(read)
    }

    /// Bytes of memory of this machine.
    pub(crate) fn physical_memory(&self) -> i64 {
        self.physical_memory
    }

    /// A message further than this from the end of the log counts as on disk.
    pub(crate) fn memory_distance(&self) -> i64 {
        self.physical_memory / 100
            * self.with_config(|c| i64::from(c.access_message_in_memory_max_ratio))
    }

    /// Name of this broker's address in remarks.
    pub(crate) fn host_name(&self) -> String {
        self.store_host.ip().to_string()
    }

    /// Whether the broker as a whole may be written to.
    pub(crate) fn is_writable(&self) -> bool {
        self.with_config(|config| config.broker_permission & perm::WRITE != 0)
    }

    /// Whether the broker as a whole may be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.with_config(|config| config.broker_permission & perm::READ != 0)
    }

    /// True once the broker is being stopped: nothing is held any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// How long a pull that asks for `wanted` is held.
    pub(crate) fn hold_time(&self, wanted: Duration) -> Duration {
        self.with_config(|config| match config.long_polling_enable {
            true => wanted,
            false => Duration::from_millis(config.short_polling_time_mills.max(0) as u64),
        })
    }

    /// Runs what may touch the disk where it holds up no connection.
    pub(crate) fn blocking(&self, work: impl FnOnce() + Send + 'static) {
        tokio::task::spawn_blocking(work);
    }

    /// The same, with a result.
    pub(crate) async fn run_blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            Refusal::error(format!("the request failed inside the broker: {error}"))
        })
    }

    /// The configuration of a group that is being used, made if the configuration allows it.
    pub(crate) fn group(&self, group: &str) -> Option<Arc<GroupConfig>> {
        match self.groups.get(group) {
            Some(found) => Some(found),
            None => self.groups.get_or_create(&self.config(), group),
        }
    }

    /// The retry topic of a group, made if it is missing.
    pub(crate) fn ensure_retry_topic(
        &self,
        group: &str,
        queues: i32,
        unit: bool,
    ) -> Option<Arc<TopicConfig>> {
        let topic = retry_topic(group);
        (queues > 0).then(|| self.topics.create_internal(&topic, queues, unit))
    }

    /// Waits until new topics are on disk: a message must not be acknowledged whose topic a kill would
    /// take away.
    pub(crate) async fn topics_saved(&self) {
        let file = self.topics.file();
        if file.is_dirty() && !file.saved(TOPICS_SAVE_TIMEOUT).await {
            tracing::error!(
                "topics.json could not be written in time; messages of new topics are acknowledged"
            );
        }
    }

    /// Tells the members of a group that its membership has changed.
    pub(crate) fn notify_members(&self, group: &str) {
        let group_wants = self
            .groups
            .get(group)
            .is_none_or(|config| config.notify_consumer_ids_changed_enable);
        if !group_wants || !self.with_config(|config| config.notify_consumer_ids_changed_enable) {
            return;
        }
        for member in self.consumers.members(group) {
            let notice = Command::request(request_code::NOTIFY_CONSUMER_IDS_CHANGED)
                .field("consumerGroup", group);
            if let Err(error) = member.channel.send_oneway(notice) {
                tracing::debug!(group, client = &*member.client_id, %error, "a consumer was not told of a change");
            }
        }
    }

    /// Removes a topic, its queues, and the offsets that groups have in it.
    pub(crate) fn delete_topic(self: &Arc<Self>, topic: &str) -> Result<(), Refusal> {
        self.topics.remove(topic);
        self.stats.remove_topic(topic);
        let removed = self.store.remove_topic(topic);
        self.offsets.remove_topic(topic);
        for pull in self.holds.take_topic(topic) {
            crate::processor::execute_pull(self, pull);
        }
        removed.map_err(|error| Refusal::error(error.to_string()))
    }

    /// Text of `delayOffset.json`, if there is one.
    pub(crate) fn delay_offsets(&self) -> Option<String> {
        let path = self.config().config_dir().join("delayOffset.json");
        std::fs::read_to_string(path)
            .ok()
            .filter(|text| !text.trim().is_empty())
    }

    /// The permission of the whole broker has changed: the name servers must know.
    pub(crate) fn permission_changed(&self) {
        (self.refresh_registration)();
    }

    /// Removes clients that were silent for too long. To be called every few seconds.
    pub fn expire_clients(&self, now: Instant) {
        let (channels, groups) = self.consumers.expire(now);
        for channel in channels.iter().chain(&self.producers.expire(now)) {
            tracing::info!(peer = %channel.peer(), "a client without heartbeats is dropped");
            channel.close();
        }
        groups.iter().for_each(|group| self.notify_members(group));
        self.locks.sweep(now);
    }

    /// Answers every held pull and holds none from now on.
    pub fn release_pulls(self: &Arc<Self>) {
        self.stopping.store(true, Ordering::Release);
        for pull in self.holds.drain() {
            crate::processor::execute_pull(self, pull);
        }
    }

    /// Answers held pulls whose time has run out, until the broker is dropped.
    pub async fn time_out_pulls(broker: std::sync::Weak<Self>, holds: Arc<Holds<HeldPull>>) {
        loop {
            let expired = holds.expired().await;
            let Some(broker) = broker.upgrade() else {
                return;
            };
            for pull in expired {
                crate::processor::execute_pull(&broker, pull);
            }
        }
    }
}

fn physical_memory() -> i64 {
    let info = rustix::system::sysinfo();
    (info.totalram as i64).saturating_mul(i64::from(info.mem_unit.max(1)))
}

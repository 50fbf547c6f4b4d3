//! Registration at name servers: external stock ones, several at a time, and the embedded one.
//!
//! Each external name server has a task of its own, so that one that hangs or is gone disturbs nobody. A task sends the
//! whole table first, then the topics that change, at once, and a heartbeat every `registerNameServerPeriod`; after a
//! lost connection the whole table again. Nothing is sent before the broker leads, and never an id below 0; a changed
//! id is preceded by an unregistration of the former one.

mod message;
mod worker;

use crate::config::Settings;
use crate::embedded_namesrv::{BrokerIdentity, NameServer, Registration, limited};
use crate::tables::{TopicChange, TopicTable};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use worker::{Pending, Worker};

/// What the tasks are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Order {
    /// Id to register under; `None`: be unregistered.
    id: Option<i64>,
    /// Raised to ask for a full registration now.
    round: u64,
    /// Unregister and end.
    stop: bool,
}

/// Keeps the broker registered.
pub struct Registrar {
    shared: Arc<Shared>,
    orders: watch::Sender<Order>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    settings: Arc<Settings>,
    topics: Arc<TopicTable>,
    embedded: Option<Arc<NameServer>>,
}

impl Registrar {
    /// Starts a task for each name server of the configuration; nothing is registered before [`Registrar::lead`].
    pub fn start(
        settings: Arc<Settings>,
        topics: Arc<TopicTable>,
        embedded: Option<Arc<NameServer>>,
    ) -> Self {
        let shared = Arc::new(Shared {
            settings,
            topics,
            embedded,
        });
        let orders = watch::Sender::new(Order::default());
        let mut workers = Vec::new();
        for addr in shared.settings.get().name_servers() {
            let pending = Arc::new(Pending::default());
            let told = Arc::clone(&pending);
            shared.topics.listen(move |change, _| told.note(change));
            let worker = Worker::new(addr, Arc::clone(&shared), pending);
            workers.push(tokio::spawn(worker.run(orders.subscribe())));
        }
        if let Some(server) = &shared.embedded {
            shared.follow_table(server, orders.subscribe());
            let topics = Arc::downgrade(&shared.topics);
            server.on_order_topic(move |topic| {
                if let Some(topics) = topics.upgrade() {
                    topics.apply_order(std::iter::once(topic));
                }
            });
        }
        Self {
            shared,
            orders,
            workers,
        }
    }

    /// Registers under `id` from now on: 0 for a leader. An id below 0 stands for no role and is like
    /// [`Registrar::retire`].
    pub fn lead(&self, id: i64) {
        self.order(|order| order.id = Some(id).filter(|id| *id >= 0));
    }

    /// Unregisters, and registers no more until [`Registrar::lead`].
    pub fn retire(&self) {
        self.order(|order| order.id = None);
    }

    /// Registers everything again now: something that all topics depend on changed (`brokerPermission`).
    pub fn refresh(&self) {
        // A new version, so that name servers do not take the table for the one they have.
        self.shared.topics.bump();
        self.order(|order| order.round += 1);
    }

    fn order(&self, change: impl FnOnce(&mut Order)) {
        let before = *self.orders.borrow();
        self.orders.send_modify(change);
        self.update_embedded(before.id, self.orders.borrow().id);
    }

    fn update_embedded(&self, before: Option<i64>, now: Option<i64>) {
        let Some(server) = &self.shared.embedded else {
            return;
        };
        if let Some(old) = before.filter(|_| before != now) {
            server.unregister_local(&self.shared.identity(old));
        }
        let Some(id) = now else { return };
        let order = server.order_topics();
        self.shared
            .topics
            .apply_order(order.iter().map(String::as_str));
        loop {
            let (version, topics) = self.shared.topics.snapshot();
            let config = self.shared.settings.get();
            let topics = topics
                .iter()
                .map(|t| limited(t, config.broker_permission))
                .collect();
            server.register_local(&registration(&config, id, version.clone(), topics));
            // A topic that changed meanwhile was registered by its listener, and overwritten just now.
            if self.shared.topics.version() == version {
                return;
            }
        }
    }

    /// Unregisters everywhere and ends the tasks; those that take longer than `limit` are left behind.
    pub async fn stop(self, limit: Duration) {
        self.order(|order| {
            *order = Order {
                id: None,
                stop: true,
                ..*order
            }
        });
        let deadline = tokio::time::Instant::now() + limit;
        for mut worker in self.workers {
            if tokio::time::timeout_at(deadline, &mut worker)
                .await
                .is_err()
            {
                worker.abort();
            }
        }
    }
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar")
            .field("order", &*self.orders.borrow())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Keeps the embedded name server's view of our topics equal to the table, change by change.
    fn follow_table(&self, server: &Arc<NameServer>, orders: watch::Receiver<Order>) {
        let (server, settings) = (Arc::downgrade(server), Arc::clone(&self.settings));
        self.topics.listen(move |change, version| {
            let (Some(server), Some(id)) = (server.upgrade(), orders.borrow().id) else {
                return;
            };
            settings.with(|config| match change {
                TopicChange::Put(topic) => {
                    let topics = vec![limited(topic, config.broker_permission)];
                    server.register_local(&registration(config, id, version.clone(), topics));
                }
                TopicChange::Removed(topic) => {
                    server.forget_local_topic(topic, &config.broker_name)
                }
            });
        });
    }

    fn identity(&self, id: i64) -> BrokerIdentity {
        self.settings.with(|config| identity(config, id))
    }
}

fn identity(config: &crate::config::BrokerConfig, id: i64) -> BrokerIdentity {
    BrokerIdentity {
        cluster: config.broker_cluster_name.clone(),
        name: config.broker_name.clone(),
        addr: config.broker_addr(),
        id,
    }
}

fn registration(
    config: &crate::config::BrokerConfig,
    id: i64,
    version: crate::tables::DataVersion,
    topics: Vec<crate::tables::TopicConfig>,
) -> Registration {
    Registration {
        identity: identity(config, id),
        ha_addr: config.ha_server_addr(),
        timeout_ms: None,
        acting_master: None,
        version,
        topics,
    }
}

#[cfg(test)]
mod tests;

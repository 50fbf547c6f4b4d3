//! What runs beside the connections: tables on their way to the disk, statistics, expiry of clients,
//! and the waking of held pulls.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use consumequeue::{Arrival, Arrivals};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::BrokerConfig;
use crate::embedded_namesrv::NameServer;
use crate::hold::Holds;
use crate::processor::{HeldPull, execute_pull};
use crate::service::Broker;
use crate::tables::{SaveTime, keep_saved};

/// How often clients are looked at for heartbeats that stay away.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);

/// The tasks that end with the broker.
#[derive(Debug)]
pub(super) struct Tasks {
    stop: CancellationToken,
    /// Those that write a last time when stopped.
    tables: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl Tasks {
    pub fn spawn(
        broker: &Arc<Broker>,
        name_server: Option<&Arc<NameServer>>,
        config: &BrokerConfig,
    ) -> Self {
        let stop = CancellationToken::new();
        let every = Duration::from_millis(config.flush_consumer_offset_interval.max(100) as u64);
        let mut tables = vec![
            tokio::spawn(keep_saved(
                broker.topics.clone(),
                SaveTime::AtOnce,
                stop.clone(),
            )),
            tokio::spawn(keep_saved(
                broker.groups.clone(),
                SaveTime::AtOnce,
                stop.clone(),
            )),
            tokio::spawn(keep_saved(
                broker.offsets.clone(),
                SaveTime::Every(every),
                stop.clone(),
            )),
        ];
        let mut others = Vec::new();
        if let Some(server) = name_server {
            tables.push(tokio::spawn(keep_saved(
                server.kv().clone(),
                SaveTime::AtOnce,
                stop.clone(),
            )));
            let (server, stop) = (server.clone(), stop.clone());
            others.push(tokio::spawn(async move { server.run(stop).await }));
        }
        let (stats, stopped) = (broker.stats.clone(), stop.clone());
        others.push(tokio::spawn(async move { stats.run(stopped).await }));
        let pulls = Broker::time_out_pulls(Arc::downgrade(broker), broker.holds.clone());
        others.push(tokio::spawn(pulls));
        others.push(tokio::spawn(expire_clients(broker.clone())));
        Tasks {
            stop,
            tables,
            others,
        }
    }

    /// Ends all; when this returns the tables are on disk.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.others {
            task.abort();
        }
        for task in self.tables {
            let _ = task.await;
        }
    }
}

async fn expire_clients(broker: Arc<Broker>) {
    loop {
        tokio::time::sleep(EXPIRE_EVERY).await;
        broker.expire_clients(Instant::now());
    }
}

/// Hands the pulls that a new message wakes to tasks of their own: the dispatcher does not wait for
/// them.
#[derive(Debug)]
pub(super) struct PullWaker {
    holds: Arc<Holds<HeldPull>>,
    broker: OnceLock<(Weak<Broker>, Handle)>,
}

impl PullWaker {
    pub fn new(held_max: usize) -> Self {
        PullWaker {
            holds: Arc::new(Holds::new(held_max)),
            broker: OnceLock::new(),
        }
    }

    pub fn holds(&self) -> &Arc<Holds<HeldPull>> {
        &self.holds
    }

    /// From now on pulls are answered by this broker.
    pub fn serve(&self, broker: &Arc<Broker>) {
        let _ = self.broker.set((Arc::downgrade(broker), Handle::current()));
    }
}

impl Arrivals for PullWaker {
    fn arrived(&self, batch: &[Arrival<'_>]) {
        if self.holds.is_empty() {
            return;
        }
        let Some((broker, runtime)) = self.broker.get() else {
            return;
        };
        for arrival in batch {
            for pull in self.holds.arrived(
                arrival.topic,
                arrival.queue_id,
                arrival.queue_offset,
                arrival.tags_code,
            ) {
                let Some(broker) = broker.upgrade() else {
                    return;
                };
                runtime.spawn(async move { execute_pull(&broker, pull) });
            }
        }
    }
}

//! A name server inside the broker: what clients, tools and other brokers ask a stock name server.
//!
//! It answers in the forms of 4.9 and 5.3 (requests 100 to 106, 205, 206, 216, 217, 219, 224, 304, 311 to 313, 318,
//! 319, 322, 327, 901, 904). The broker of this process registers without a connection; others may register over the
//! network. Routes live in memory, the key-value configuration in a file.

mod handlers;
mod kv;
mod registration;
mod render;
mod routes;
mod settings;

pub use kv::{KvConfig, ORDER_NAMESPACE};
pub use registration::{BrokerIdentity, Registration, body as registration_body, limited};
pub use routes::{BrokerData, MasterHint, Owner, QueueData, Routes};
pub use settings::NameServerSettings;

use crate::tables::{TableError, TopicConfig, now_ms};
use dledger::fs::Fs;
use parking_lot::Mutex;
use remoting::{Command, Connection, Dispatch, Reply, Response};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval of the search for silent brokers.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);

type OrderListener = Box<dyn Fn(&str) + Send + Sync>;

/// The embedded name server.
pub struct NameServer {
    routes: Mutex<Routes>,
    kv: Arc<KvConfig>,
    settings: NameServerSettings,
    connections: Mutex<HashMap<u64, Weak<Connection>>>,
    order_listener: OnceLock<OrderListener>,
}

impl NameServer {
    /// A name server that listens on `listen`; its pairs are kept in `namesrvKvConfig.json` in `config_dir`.
    pub fn open(
        fs: Arc<dyn Fs>,
        config_dir: &Path,
        listen: SocketAddr,
    ) -> Result<Self, TableError> {
        Ok(Self {
            routes: Mutex::new(Routes::default()),
            kv: Arc::new(KvConfig::open(fs, config_dir.join("namesrvKvConfig.json"))?),
            settings: NameServerSettings::new(listen),
            connections: Mutex::new(HashMap::new()),
            order_listener: OnceLock::new(),
        })
    }

    /// The pairs, to be kept saved.
    pub fn kv(&self) -> &Arc<KvConfig> {
        &self.kv
    }

    /// Registers the broker of this process.
    pub fn register_local(&self, registration: &Registration) {
        self.routes
            .lock()
            .register(registration, Owner::Local, now_ms());
    }

    /// Unregisters the broker of this process.
    pub fn unregister_local(&self, who: &BrokerIdentity) {
        self.routes.lock().unregister(who);
    }

    /// Forgets a topic that the broker of this process deleted.
    pub fn forget_local_topic(&self, topic: &TopicConfig, broker: &str) {
        self.routes
            .lock()
            .delete_topic_of_broker(&topic.name, broker);
    }

    /// Topics that are marked as ordered.
    pub fn order_topics(&self) -> Vec<String> {
        self.kv.keys(ORDER_NAMESPACE)
    }

    /// Calls `listener` with each topic that is marked as ordered from now on; the first listener stays.
    pub fn on_order_topic(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        // A second registrar in one process does not exist.
        let _ = self.order_listener.set(Box::new(listener));
    }

    fn tell_order_topic(&self, topic: &str) {
        if let Some(listener) = self.order_listener.get() {
            listener(topic);
        }
    }

    /// Answers a request of this process, as if it came over no connection.
    pub fn answer(&self, request: &Command) -> Response {
        self.handle(request, 0)
    }

    /// Forgets silent brokers until `stop` fires.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EXPIRY_INTERVAL) => self.expire(now_ms()),
            }
        }
    }

    fn expire(&self, now_ms: i64) {
        let gone = self.routes.lock().expire(now_ms);
        let connections = self.connections.lock();
        for id in gone {
            tracing::warn!(
                "name server: a broker was silent for too long and is forgotten (connection {id})"
            );
            if let Some(connection) = connections.get(&id).and_then(Weak::upgrade) {
                connection.close();
            }
        }
    }
}

impl std::fmt::Debug for NameServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameServer")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Dispatch for NameServer {
    fn request(&self, connection: &Arc<Connection>, request: Command, reply: Reply) {
        reply.send(self.handle(&request, connection.id()));
    }

    fn connected(&self, connection: &Arc<Connection>) {
        self.connections
            .lock()
            .insert(connection.id(), Arc::downgrade(connection));
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.connections.lock().remove(&connection.id());
        if self.routes.lock().connection_closed(connection.id()) > 0 {
            tracing::info!(
                "name server: a broker's connection from {} is closed",
                connection.peer()
            );
        }
    }
}

#[cfg(test)]
mod tests;

//! The task that keeps the broker registered at one name server.

use super::{Order, Shared, message};
use crate::tables::TopicChange;
use parking_lot::Mutex;
use remoting::{
    CallError, Client, ClientConfig, Command, Connection, Dispatch, Reply, Response, response_code,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// First and longest pause after a failure.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// A table larger than this is not sent with every heartbeat: the version is, and the table if that is not known.
const HEARTBEAT_TABLE_MAX: usize = 1000;
/// Time that an unregistration may take.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(3);

/// Names of topics that changed since the last registration.
#[derive(Debug, Default)]
pub(super) struct Pending {
    names: Mutex<HashSet<String>>,
    wake: Notify,
}

impl Pending {
    /// Called under the table's lock.
    pub fn note(&self, change: &TopicChange) {
        let topic = match change {
            // A removed topic is in no later registration; name servers forget it when they are told to.
            TopicChange::Removed(topic) | TopicChange::Put(topic) => topic,
        };
        self.names.lock().insert(topic.name.clone());
        self.wake.notify_one();
    }

    fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.names.lock())
    }
}

/// Hears of lost connections; name servers send no requests to brokers that need an answer here.
#[derive(Debug, Default)]
struct Losses {
    count: AtomicU64,
    wake: Notify,
}

impl Dispatch for Losses {
    fn request(&self, _: &Arc<Connection>, request: Command, reply: Reply) {
        reply.send(Response::unsupported(request.code));
    }

    fn closed(&self, _: &Arc<Connection>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_one();
    }
}

/// Why a registration failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answered {code}: {remark}")]
    Refused { code: i32, remark: String },
}

pub(super) struct Worker {
    addr: String,
    shared: Arc<Shared>,
    pending: Arc<Pending>,
    client: Client,
    losses: Arc<Losses>,
    timeout: Duration,
    /// Id under which the name server knows us.
    registered: Option<i64>,
    /// Whether the whole table must be sent next.
    needs_all: bool,
    /// Whether changed topics were sent since the whole table was.
    partial_since_all: bool,
    failures: u32,
    /// Losses before the last full registration.
    losses_seen: u64,
    next: Instant,
}

impl Worker {
    pub fn new(addr: String, shared: Arc<Shared>, pending: Arc<Pending>) -> Self {
        let losses = Arc::new(Losses::default());
        // The pauses are ours; the client's own are kept shorter, so that an attempt is an attempt.
        let config = ClientConfig {
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_millis(150),
            ..ClientConfig::default()
        };
        let timeout = shared.settings.get().register_broker_timeout_mills;
        Self {
            client: Client::new(config, Some(Arc::clone(&losses) as Arc<dyn Dispatch>)),
            timeout: Duration::from_millis(u64::try_from(timeout).unwrap_or(6000)),
            addr,
            shared,
            pending,
            losses,
            registered: None,
            needs_all: true,
            partial_since_all: false,
            failures: 0,
            losses_seen: 0,
            next: Instant::now(),
        }
    }

    pub async fn run(mut self, mut orders: watch::Receiver<Order>) {
        let mut round = 0;
        loop {
            let order = *orders.borrow_and_update();
            if self.registered.is_some() && self.registered != order.id {
                self.unregister().await;
                self.next = Instant::now();
            }
            if order.stop {
                self.client.close().await;
                return;
            }
            self.needs_all |= order.round != round || self.registered.is_none();
            if order.round != round {
                self.next = Instant::now();
            }
            round = order.round;
            let Some(id) = order.id else {
                if orders.changed().await.is_err() {
                    return;
                }
                self.next = Instant::now();
                continue;
            };
            if self.next <= Instant::now() {
                self.register(id).await;
            }
            let failed = self.failures > 0;
            tokio::select! {
                changed = orders.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(self.next) => {}
                // While the name server is away, changes wait for its return.
                () = self.pending.wake.notified(), if !failed => self.send_changes(id).await,
                () = self.losses.wake.notified(), if !failed => self.connection_lost(),
            }
        }
    }

    /// The name server may be another process by now, which knows nothing.
    fn connection_lost(&mut self) {
        if self.losses.count.load(Ordering::SeqCst) == self.losses_seen {
            return;
        }
        self.needs_all = true;
        self.next = Instant::now();
        if self.partial_since_all {
            // If the new one saw changed topics first, it holds our version and would ignore the table.
            self.shared.topics.bump();
        }
    }

    /// A full registration, or a heartbeat.
    pub(super) async fn register(&mut self, id: i64) {
        let losses = self.losses.count.load(Ordering::SeqCst);
        let config = self.shared.settings.get();
        let (version, topics) = self.shared.topics.snapshot_with(|| {
            self.pending.take();
        });
        let result = if !self.needs_all
            && topics.len() > HEARTBEAT_TABLE_MAX
            && self.version_known(id).await
        {
            Ok(())
        } else {
            self.send_all(message::register(&config, id, &version, &topics))
                .await
        };
        match result {
            Ok(()) => {
                if self.failures > 0 || self.registered.is_none() {
                    tracing::info!(
                        "registered at name server {} as {}, id {id}",
                        self.addr,
                        config.broker_addr()
                    );
                }
                self.registered = Some(id);
                self.needs_all = false;
                self.partial_since_all = false;
                self.failures = 0;
                self.losses_seen = losses;
                self.next = Instant::now() + config.register_period();
            }
            Err(failure) => self.failed(&failure),
        }
    }

    /// The topics that changed, at once.
    async fn send_changes(&mut self, id: i64) {
        if self.needs_all {
            self.next = Instant::now();
            return;
        }
        let config = self.shared.settings.get();
        let (version, topics) = self.shared.topics.snapshot_of(|| self.pending.take());
        if topics.is_empty() {
            // Only removals, or already sent.
            return;
        }
        self.partial_since_all = true;
        if let Err(failure) = self
            .send_all(message::register(&config, id, &version, &topics))
            .await
        {
            self.failed(&failure);
        }
    }

    fn failed(&mut self, failure: &Failure) {
        if self.failures == 0 {
            tracing::warn!(
                "cannot register at name server {}: {failure}; it will be tried again",
                self.addr
            );
        }
        self.needs_all = true;
        let pause = RETRY_MIN * 2u32.saturating_pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.next = Instant::now() + pause.min(RETRY_MAX);
    }

    async fn send_all(&self, requests: Vec<Command>) -> Result<(), Failure> {
        for request in requests {
            let answer = self.client.call(&self.addr, request, self.timeout).await?;
            if answer.code != response_code::SUCCESS {
                return Err(Failure::Refused {
                    code: answer.code,
                    remark: answer.remark().to_string(),
                });
            }
            let ordered = message::order_topics(&answer);
            self.shared
                .topics
                .apply_order(ordered.iter().map(String::as_str));
        }
        Ok(())
    }

    /// Whether the name server says that it has our version; asking is a sign of life.
    async fn version_known(&self, id: i64) -> bool {
        let request =
            message::query_version(&self.shared.identity(id), &self.shared.topics.version());
        let answer = self.client.call(&self.addr, request, self.timeout).await;
        answer.is_ok_and(|a| {
            a.code == response_code::SUCCESS && a.ext.get_bool("changed") == Some(false)
        })
    }

    async fn unregister(&mut self) {
        let Some(id) = self.registered.take() else {
            return;
        };
        let request = message::unregister(&self.shared.identity(id));
        let limit = UNREGISTER_TIMEOUT.min(self.timeout);
        // A name server that is gone has nothing to forget.
        match self.client.call(&self.addr, request, limit).await {
            Ok(answer) if answer.code == response_code::SUCCESS => {
                tracing::info!("unregistered at name server {}, id {id}", self.addr);
            }
            Ok(answer) => tracing::warn!(
                "name server {} answered {} to our leaving",
                self.addr,
                answer.code
            ),
            Err(error) => tracing::warn!("cannot unregister at name server {}: {error}", self.addr),
        }
    }
}

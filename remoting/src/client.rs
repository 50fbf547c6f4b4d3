//! The client: one connection an address, made when needed, remade with a back-off.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use crate::command::{Command, VERSION_DEFAULT};
use crate::connection::{Connection, drive};
use crate::dispatch::Dispatch;
use crate::frame::FrameError;
use crate::limits::Limits;

/// Why a call did not bring an answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection could be made.
    #[error("cannot connect to {addr}: {reason}")]
    Connect {
        /// The address as given.
        addr: String,
        /// What failed.
        reason: String,
    },
    /// The last attempt to connect failed, and the next is not due yet.
    #[error("{addr} could not be reached a moment ago; next attempt in {wait:?}")]
    BackingOff {
        /// The address as given.
        addr: String,
        /// Time until the next attempt.
        wait: Duration,
    },
    /// The connection was closed before the answer came.
    #[error("the connection was closed")]
    Closed,
    /// No answer came in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Too many calls wait, or the other side does not read what it was sent.
    #[error("too much is waiting for the other side")]
    Busy,
    /// The request does not fit into a frame.
    #[error(transparent)]
    Encode(FrameError),
}

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Limits of each connection.
    pub limits: Limits,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Pause after the first failed attempt to connect; it doubles with each further one.
    pub backoff_min: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
    /// Calls that may wait for answers of one address; further ones queue until their own deadline.
    pub in_flight_max: usize,
    /// Version ordinal that answers to the other side's requests name.
    pub version: i32,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            limits: Limits::default(),
            connect_timeout: Duration::from_secs(3),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            in_flight_max: 256,
            version: VERSION_DEFAULT,
        }
    }
}

/// Calls other processes. Cloning gives another handle to the same connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    config: ClientConfig,
    limits: Arc<Limits>,
    dispatch: Option<Arc<dyn Dispatch>>,
    peers: DashMap<String, Arc<Peer>>,
    next_id: AtomicU64,
}

struct Peer {
    addr: String,
    link: Mutex<Link>,
    slots: Semaphore,
}

#[derive(Default)]
struct Link {
    connection: Option<Arc<Connection>>,
    failures: u32,
    next_attempt: Option<Instant>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client. `on_request` takes requests that the other sides send; without one they are refused.
    pub fn new(config: ClientConfig, on_request: Option<Arc<dyn Dispatch>>) -> Client {
        let limits = Arc::new(config.limits.clone());
        let next_id = AtomicU64::new(1);
        Client {
            shared: Arc::new(Shared {
                config,
                limits,
                dispatch: on_request,
                peers: DashMap::new(),
                next_id,
            }),
        }
    }

    /// Sends a request to `addr` (`host:port`) and waits for the answer. The timeout covers connecting too.
    pub async fn call(
        &self,
        addr: &str,
        command: Command,
        timeout: Duration,
    ) -> Result<Command, CallError> {
        let deadline = Instant::now() + timeout;
        let whole = async {
            let peer = self.peer(addr);
            let _slot = peer.slots.acquire().await.map_err(|_| CallError::Closed)?;
            let connection = self.connection_of(&peer).await?;
            connection
                .call(command, deadline.saturating_duration_since(Instant::now()))
                .await
        };
        match tokio::time::timeout_at(deadline, whole).await {
            Ok(Err(CallError::Timeout(_))) | Err(_) => Err(CallError::Timeout(timeout)),
            Ok(outcome) => outcome,
        }
    }

    /// Sends a request that is not answered.
    pub async fn oneway(&self, addr: &str, command: Command) -> Result<(), CallError> {
        let peer = self.peer(addr);
        self.connection_of(&peer).await?.send_oneway(command)
    }

    /// The connection to `addr`, made if there is none.
    pub async fn connect(&self, addr: &str) -> Result<Arc<Connection>, CallError> {
        let peer = self.peer(addr);
        self.connection_of(&peer).await
    }

    /// Closes the connection to `addr` and forgets the address.
    pub async fn disconnect(&self, addr: &str) {
        if let Some((_, peer)) = self.shared.peers.remove(addr)
            && let Some(connection) = peer.link.lock().await.connection.take()
        {
            connection.close();
        }
    }

    /// Closes all connections.
    pub async fn close(&self) {
        let addrs: Vec<String> = self
            .shared
            .peers
            .iter()
            .map(|entry| entry.key().clone())
            .collect();
        for addr in addrs {
            self.disconnect(&addr).await;
        }
    }

    fn peer(&self, addr: &str) -> Arc<Peer> {
        if let Some(peer) = self.shared.peers.get(addr) {
            return peer.clone();
        }
        let slots = Semaphore::new(self.shared.config.in_flight_max);
        let fresh = || {
            Arc::new(Peer {
                addr: addr.to_owned(),
                link: Mutex::default(),
                slots,
            })
        };
        self.shared
            .peers
            .entry(addr.to_owned())
            .or_insert_with(fresh)
            .clone()
    }

    async fn connection_of(&self, peer: &Peer) -> Result<Arc<Connection>, CallError> {
        let mut link = peer.link.lock().await;
        if let Some(connection) = link.connection.as_ref().filter(|c| !c.is_closed()) {
            return Ok(connection.clone());
        }
        link.connection = None;
        let now = Instant::now();
        if let Some(wait) = link
            .next_attempt
            .and_then(|at| at.checked_duration_since(now))
            .filter(|w| !w.is_zero())
        {
            return Err(CallError::BackingOff {
                addr: peer.addr.clone(),
                wait,
            });
        }
        match self.shared.open(&peer.addr).await {
            Ok(connection) => {
                *link = Link {
                    connection: Some(connection.clone()),
                    ..Link::default()
                };
                Ok(connection)
            }
            Err(error) => {
                let config = &self.shared.config;
                let pause = config
                    .backoff_min
                    .saturating_mul(1 << link.failures.min(16))
                    .min(config.backoff_max);
                link.failures += 1;
                link.next_attempt = Some(Instant::now() + pause);
                Err(CallError::Connect {
                    addr: peer.addr.clone(),
                    reason: error.to_string(),
                })
            }
        }
    }
}

impl Shared {
    async fn open(self: &Arc<Self>, addr: &str) -> io::Result<Arc<Connection>> {
        let timeout = self.config.connect_timeout;
        let stream = tokio::time::timeout(timeout, connect_any(addr))
            .await
            .map_err(|_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no connection within {timeout:?}"),
                )
            })??;
        stream.set_nodelay(true)?;
        let addrs = (stream.peer_addr()?, stream.local_addr()?);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let connection = Connection::new(id, addrs, self.limits.clone(), self.config.version);
        let (driven, dispatch) = (connection.clone(), self.dispatch.clone());
        let name = addr.to_owned();
        tokio::spawn(async move {
            let closed = drive(driven, stream, dispatch).await;
            tracing::debug!(addr = name, "connection ended: {closed}");
        });
        Ok(connection)
    }
}

/// Resolves the name anew each time, since names move, and tries what it gives one after the other.
async fn connect_any(addr: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let resolved: Vec<SocketAddr> = tokio::net::lookup_host(addr).await?.collect();
    for candidate in resolved {
        match TcpStream::connect(candidate).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

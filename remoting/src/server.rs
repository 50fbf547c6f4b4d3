//! The server: accepts connections and runs each in a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::command::VERSION_DEFAULT;
use crate::connection::{Closed, Connection, drive};
use crate::dispatch::Dispatch;
use crate::frame::FrameError;
use crate::limits::Limits;

/// First and last pause after a failed accept (out of descriptors, mostly).
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Numbers of connections differ over all servers of the process: the owner of two keeps their connections in one table.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Name for logs, for example "main" or "fast".
    pub name: String,
    /// Limits of each connection.
    pub limits: Limits,
    /// Most connections at a time; further ones are closed at once.
    pub connections_max: usize,
    /// Listen backlog.
    pub backlog: i32,
    /// Version ordinal that answers name.
    pub version: i32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            name: "remoting".to_owned(),
            limits: Limits::default(),
            connections_max: 16 * 1024,
            backlog: 1024,
            version: VERSION_DEFAULT,
        }
    }
}

/// Counters of a server since its start.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Connections that were closed at once because there were too many.
    pub refused: AtomicU64,
    /// Connections that were closed because of bytes that are no frames.
    pub malformed: AtomicU64,
    /// Connections that were cut because the other side did not read.
    pub stalled: AtomicU64,
    /// Accepts that failed.
    pub accept_errors: AtomicU64,
}

/// A listening server. Dropping it stops it at once; [`Server::shutdown`] stops it in order.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    local: SocketAddr,
    accepting: JoinHandle<()>,
}

struct Shared {
    config: ServerConfig,
    limits: Arc<Limits>,
    dispatch: Arc<dyn Dispatch>,
    connections: DashMap<u64, Arc<Connection>>,
    open: AtomicUsize,
    stop: CancellationToken,
    stats: ServerStats,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on `addr` (port 0: any) and serves until stopped.
    pub async fn bind(
        addr: SocketAddr,
        config: ServerConfig,
        dispatch: Arc<dyn Dispatch>,
    ) -> io::Result<Server> {
        let listener = listen(addr, config.backlog)?;
        let local = listener.local_addr()?;
        let shared = Arc::new(Shared {
            limits: Arc::new(config.limits.clone()),
            config,
            dispatch,
            connections: DashMap::new(),
            open: AtomicUsize::new(0),
            stop: CancellationToken::new(),
            stats: ServerStats::default(),
        });
        let accepting = tokio::spawn(accept(shared.clone(), listener));
        Ok(Server {
            shared,
            local,
            accepting,
        })
    }

    /// Address that is listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Number of open connections.
    pub fn connection_count(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// The open connections.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.shared
            .connections
            .iter()
            .map(|entry| entry.value().clone())
            .collect()
    }

    /// Counters.
    pub fn stats(&self) -> &ServerStats {
        &self.shared.stats
    }

    /// Stops accepting, lets each connection answer and write what is in flight, and closes it. What is not done at the
    /// deadline is cut.
    pub async fn shutdown(self, deadline: Duration) {
        self.shared.stop.cancel();
        let connections = self.connections();
        connections.iter().for_each(|c| c.drain());
        let all_closed = async {
            for connection in &connections {
                connection.wait_closed().await;
            }
        };
        if tokio::time::timeout(deadline, all_closed).await.is_err() {
            connections.iter().for_each(|c| c.close());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.accepting.abort();
        for entry in &self.shared.connections {
            // After a shutdown these are closed already, or being drained to their deadline.
            entry.value().close();
        }
    }
}

fn listen(addr: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    TcpListener::from_std(socket.into())
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = ACCEPT_PAUSE_MIN;
                shared.admit(stream, peer);
            }
            Err(error) => {
                shared.stats.accept_errors.fetch_add(1, Ordering::Relaxed);
                if !is_of_the_peer(&error) {
                    tracing::warn!(server = shared.config.name, %error, ?pause, "cannot accept connections; pausing");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                }
            }
        }
    }
}

/// Errors that only mean that the connection is gone before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

impl Shared {
    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        if self.open.load(Ordering::Relaxed) >= self.config.connections_max {
            if is_sparse_step(self.stats.refused.fetch_add(1, Ordering::Relaxed)) {
                let max = self.config.connections_max;
                tracing::warn!(server = self.config.name, %peer, max, "too many connections; closing new ones");
            }
            return;
        }
        let Ok(local) = stream.local_addr() else {
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        self.stats.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let connection =
            Connection::new(id, (peer, local), self.limits.clone(), self.config.version);
        self.connections.insert(id, connection.clone());
        let entry = Entry {
            shared: self.clone(),
            id,
        };
        tokio::spawn(async move {
            let closed = drive(connection, stream, Some(entry.shared.dispatch.clone())).await;
            entry.shared.note(peer, &closed);
            drop(entry);
        });
    }

    fn note(&self, peer: SocketAddr, closed: &Closed) {
        let server = &self.config.name;
        match closed {
            Closed::Frame(error) => {
                let count = self.stats.malformed.fetch_add(1, Ordering::Relaxed);
                // A flood of junk must not flood the log too.
                if *error == FrameError::Tls || count < 16 || is_sparse_step(count) {
                    tracing::warn!(%server, %peer, count, "closed a connection: {error}");
                }
            }
            Closed::Stalled(..) | Closed::Overflow(_) => {
                self.stats.stalled.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%server, %peer, "cut a connection: {closed}");
            }
            _ => tracing::debug!(%server, %peer, "connection ended: {closed}"),
        }
    }
}

/// Whether the n-th repetition of a log line (from 0) is written: ever fewer of them.
fn is_sparse_step(n: u64) -> bool {
    n == 0 || n.is_power_of_two()
}

/// Place of a connection in the server's table, given back when its task ends in whatever way.
struct Entry {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.connections.remove(&self.id);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

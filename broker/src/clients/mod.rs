//! Who is connected: producers and consumers by group, and the locks of orderly consumers.

pub mod consumers;
pub mod locks;
pub mod producers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use remoting::Language;

/// A client that has sent no heartbeat for this long is dropped, and its connection closed.
pub const CLIENT_EXPIRES_AFTER: Duration = Duration::from_secs(120);

/// A way to a client; in the broker this is a connection.
pub trait Channel: Clone + Send + Sync + 'static {
    /// Differs from that of every other channel of the process.
    fn id(&self) -> u64;
}

impl Channel for Arc<remoting::Connection> {
    fn id(&self) -> u64 {
        remoting::Connection::id(self)
    }
}

/// One client on one channel.
#[derive(Debug, Clone)]
pub struct Member<C> {
    /// Name that the client gave itself.
    pub client_id: Arc<str>,
    /// The way to it.
    pub channel: C,
    /// Language of its last heartbeat.
    pub language: Language,
    /// Version ordinal of its last heartbeat.
    pub version: i32,
    /// When the last heartbeat came, for expiry.
    pub seen: Instant,
    /// The same in milliseconds since 1970, for display.
    pub seen_ms: i64,
}

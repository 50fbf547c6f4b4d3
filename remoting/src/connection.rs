//! One connection, of a server or a client: its handle, and the one task that reads, dispatches and writes.

mod driver;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::client::CallError;
use crate::codes::response_code;
use crate::command::{Command, FLAG_ONEWAY, FLAG_RESPONSE, SerializeType};
use crate::frame::AnswerTo;
use crate::language::Language;
use crate::limits::Limits;
use crate::outbound::{Outbound, Pending};
use crate::response::Response;

pub(crate) use driver::{Closed, drive};

/// Handle of a connection. Everything here may be called from any task and does not block.
#[derive(Debug)]
pub struct Connection {
    id: u64,
    peer: SocketAddr,
    local: SocketAddr,
    limits: Arc<Limits>,
    version: i32,
    out: Mutex<Out>,
    /// Wakes the connection's task.
    wake: Notify,
    /// Bytes queued and not yet written.
    queued: AtomicUsize,
    in_flight: AtomicUsize,
    in_flight_bytes: AtomicUsize,
    /// Set while the task does not read because of the in-flight limits.
    paused: AtomicBool,
    draining: AtomicBool,
    closed: AtomicBool,
    closed_token: CancellationToken,
    calls: Mutex<HashMap<i32, oneshot::Sender<Command>>>,
    next_opaque: AtomicI32,
    peer_serialize: AtomicU8,
    peer_language: AtomicU8,
    peer_version: AtomicI32,
}

#[derive(Debug, Default)]
struct Out {
    queue: Outbound,
    /// The task is dispatching a read buffer and will look at the queue afterwards, so it needs no wake-up.
    processing: bool,
    closed: bool,
}

impl Connection {
    pub(crate) fn new(
        id: u64,
        (peer, local): (SocketAddr, SocketAddr),
        limits: Arc<Limits>,
        version: i32,
    ) -> Arc<Connection> {
        Arc::new(Connection {
            id,
            peer,
            local,
            limits,
            version,
            out: Mutex::default(),
            wake: Notify::new(),
            queued: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            in_flight_bytes: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            closed_token: CancellationToken::new(),
            calls: Mutex::default(),
            next_opaque: AtomicI32::new(1),
            peer_serialize: AtomicU8::new(SerializeType::Json as u8),
            peer_language: AtomicU8::new(Language::Other.code()),
            peer_version: AtomicI32::new(0),
        })
    }

    /// Number of the connection, unique in its server or client.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Address of the other side.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Serialization of the last request that came from the other side.
    pub fn last_serialize(&self) -> SerializeType {
        match self.peer_serialize.load(Ordering::Relaxed) {
            0 => SerializeType::Json,
            _ => SerializeType::RocketMq,
        }
    }

    /// Language of the last request that came from the other side.
    pub fn language(&self) -> Language {
        Language::from_code(i64::from(self.peer_language.load(Ordering::Relaxed)))
    }

    /// Version ordinal of the last request that came from the other side.
    pub fn version(&self) -> i32 {
        self.peer_version.load(Ordering::Relaxed)
    }

    /// Bytes that wait to be written.
    pub fn queued_bytes(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Requests of the other side that are neither answered nor parked.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Whether the connection is closed or about to be.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the connection without waiting for anything.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Stops reading; closes once all requests are answered (parked ones aside) and the answers are written.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Completes when the connection is closed.
    pub async fn wait_closed(&self) {
        self.closed_token.cancelled().await;
    }

    /// Sends a request that is not answered. Refused while the other side does not read what it was sent.
    pub fn send_oneway(&self, mut command: Command) -> Result<(), CallError> {
        if self.queued_bytes() > self.limits.outbound_pause_bytes {
            return Err(CallError::Busy);
        }
        command.flag = FLAG_ONEWAY;
        command.opaque = self.next_opaque.fetch_add(1, Ordering::Relaxed);
        self.queue_command(&command)
    }

    /// Sends a request and waits for its answer.
    pub async fn call(
        &self,
        mut command: Command,
        timeout: Duration,
    ) -> Result<Command, CallError> {
        if self.queued_bytes() > self.limits.outbound_pause_bytes {
            return Err(CallError::Busy);
        }
        command.flag &= !(FLAG_ONEWAY | FLAG_RESPONSE);
        let (mut waiting, answer) = WaitingCall::register(self)?;
        command.opaque = waiting.opaque;
        self.queue_command(&command)?;
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => {
                waiting.answered = true;
                Ok(answer)
            }
            Ok(Err(_)) => Err(CallError::Closed),
            Err(_) => Err(CallError::Timeout(timeout)),
        }
    }

    fn queue_command(&self, command: &Command) -> Result<(), CallError> {
        self.queue(|out| out.push_command(command).map_err(CallError::Encode))
    }

    /// Version ordinal that our answers name.
    pub(crate) fn answer_version(&self) -> i32 {
        self.version
    }

    pub(crate) fn queue_response(&self, response: Response, to: AnswerTo) {
        // A connection that is gone needs no answer.
        let _ = self.queue(|out| {
            out.push_response(&response, to).or_else(|error| {
                let refusal = Response::error(response_code::SYSTEM_ERROR, error.to_string());
                out.push_response(&refusal, to).map_err(CallError::Encode)
            })
        });
    }

    /// Queues a frame by `push`, which gives its length.
    fn queue(
        &self,
        push: impl FnOnce(&mut Outbound) -> Result<usize, CallError>,
    ) -> Result<(), CallError> {
        let processing = {
            let mut out = self.out.lock();
            if out.closed {
                return Err(CallError::Closed);
            }
            let len = push(&mut out.queue)?;
            self.queued.fetch_add(len, Ordering::Relaxed);
            out.processing
        };
        if !processing {
            self.wake.notify_one();
        }
        Ok(())
    }

    pub(crate) fn release_in_flight(&self, weight: usize) {
        self.in_flight_bytes.fetch_sub(weight, Ordering::SeqCst);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if self.paused.load(Ordering::SeqCst) || self.draining.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    fn count_request(&self, request: &Command, weight: usize) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.in_flight_bytes.fetch_add(weight, Ordering::SeqCst);
        self.peer_serialize
            .store(request.serialize as u8, Ordering::Relaxed);
        self.peer_language
            .store(request.language.code(), Ordering::Relaxed);
        self.peer_version.store(request.version, Ordering::Relaxed);
    }

    fn within_in_flight_limits(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) < self.limits.in_flight_max
            && self.in_flight_bytes.load(Ordering::SeqCst) < self.limits.in_flight_bytes_max
    }

    fn complete_call(&self, answer: Command) {
        let waiting = self.calls.lock().remove(&answer.opaque);
        match waiting {
            Some(sender) => drop(sender.send(answer)),
            None => {
                tracing::debug!(peer = %self.peer, opaque = answer.opaque, "answer to no call, or too late")
            }
        }
    }

    fn begin_processing(&self) {
        self.out.lock().processing = true;
    }

    fn collect(&self, pending: &mut Pending) {
        let mut out = self.out.lock();
        out.processing = false;
        out.queue.take_into(pending);
    }

    fn shrink(&self) {
        self.out.lock().queue.shrink();
    }

    /// From now on answers are dropped and calls fail, while what the other side sent is still read.
    fn stop_writing(&self) {
        let mut out = self.out.lock();
        out.closed = true;
        out.queue = Outbound::default();
        self.queued.store(0, Ordering::Relaxed);
    }

    /// Marks the connection closed for everybody.
    fn finish(&self) {
        self.closed.store(true, Ordering::Release);
        {
            let mut out = self.out.lock();
            out.closed = true;
            out.queue = Outbound::default();
        }
        self.calls.lock().clear();
        self.closed_token.cancel();
    }
}

/// Place of a call in the table of those that wait; removed when the caller gives up.
struct WaitingCall<'a> {
    connection: &'a Connection,
    opaque: i32,
    answered: bool,
}

impl<'a> WaitingCall<'a> {
    fn register(
        connection: &'a Connection,
    ) -> Result<(Self, oneshot::Receiver<Command>), CallError> {
        let (sender, receiver) = oneshot::channel();
        let mut calls = connection.calls.lock();
        if connection.is_closed() {
            return Err(CallError::Closed);
        }
        if calls.len() >= connection.limits.calls_max {
            return Err(CallError::Busy);
        }
        let mut opaque = connection.next_opaque.fetch_add(1, Ordering::Relaxed);
        while calls.contains_key(&opaque) {
            opaque = connection.next_opaque.fetch_add(1, Ordering::Relaxed);
        }
        calls.insert(opaque, sender);
        Ok((
            WaitingCall {
                connection,
                opaque,
                answered: false,
            },
            receiver,
        ))
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.connection.calls.lock().remove(&self.opaque);
        }
    }
}

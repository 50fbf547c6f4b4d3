//! The task of a connection.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::time::Instant;

use super::Connection;
use crate::command::Command;
use crate::dispatch::{Dispatch, Reply};
use crate::frame::{self, FrameError};
use crate::outbound::Pending;
use crate::response::Response;

/// Smallest and largest room that is made for one read, in bytes. Between them the room follows what reads bring.
const READ_ROOM_MIN: usize = 4 * 1024;
const READ_ROOM_MAX: usize = 128 * 1024;

/// How long the other side of a drained connection may take to close.
const LINGER: Duration = Duration::from_millis(200);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Closed {
    #[error("the other side closed it")]
    ByPeer,
    #[error("it was closed here")]
    Here,
    #[error("it was closed here after its last answer")]
    Drained,
    #[error("it was idle for {0:?}")]
    Idle(Duration),
    #[error("the other side did not read for {0:?}, {1} bytes waiting")]
    Stalled(Duration, usize),
    #[error("the other side does not read, {0} bytes waiting")]
    Overflow(usize),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Runs a connection until it ends. `dispatch` takes the other side's requests; without one they are refused.
pub(crate) async fn drive(
    connection: Arc<Connection>,
    mut stream: TcpStream,
    dispatch: Option<Arc<dyn Dispatch>>,
) -> Closed {
    let _finish = Finish {
        connection: connection.clone(),
        dispatch: dispatch.clone(),
    };
    if let Some(dispatch) = &dispatch {
        dispatch.connected(&connection);
    }
    let now = Instant::now();
    let mut driver = Driver {
        connection,
        dispatch,
        buffer: BytesMut::new(),
        read_room: READ_ROOM_MIN,
        pending: Pending::default(),
        last_io: now,
        last_write: now,
    };
    match driver.run(&mut stream).await {
        Ok(Closed::Drained) => {
            linger(&mut stream).await;
            Closed::Drained
        }
        Ok(closed) | Err(closed) => closed,
    }
}

/// Says that nothing more will come, and gives the other side a moment to close. Closing a socket while it holds unread
/// bytes would reset it, and the reset can overtake the last answers.
async fn linger(stream: &mut TcpStream) {
    let farewell = async {
        stream.shutdown().await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // Either way the connection ends now.
    let _ = tokio::time::timeout(LINGER, farewell).await;
}

/// Tells everybody that the connection is gone, whatever ended its task.
struct Finish {
    connection: Arc<Connection>,
    dispatch: Option<Arc<dyn Dispatch>>,
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.connection.finish();
        if let Some(dispatch) = &self.dispatch {
            dispatch.closed(&self.connection);
        }
    }
}

struct Driver {
    connection: Arc<Connection>,
    dispatch: Option<Arc<dyn Dispatch>>,
    buffer: BytesMut,
    read_room: usize,
    pending: Pending,
    last_io: Instant,
    last_write: Instant,
}

impl Driver {
    async fn run(&mut self, stream: &mut TcpStream) -> Result<Closed, Closed> {
        let connection = self.connection.clone();
        let (mut reader, writer) = stream.split();
        let tick = self.tick();
        let mut timer = pin!(tokio::time::sleep(tick));
        loop {
            self.write(&writer)?;
            if connection.is_closed() {
                return Ok(Closed::Here);
            }
            if self.process()? > 0 {
                continue;
            }
            if self.drained() {
                return Ok(Closed::Drained);
            }
            let reading = self.may_process();
            if reading {
                self.make_room();
            }
            tokio::select! {
                biased;
                () = connection.wake.notified() => {}
                ready = writer.writable(), if !self.pending.is_empty() => ready?,
                read = reader.read_buf(&mut self.buffer), if reading => self.after_read(read?)?,
                () = &mut timer => {
                    self.check_time()?;
                    timer.as_mut().reset(Instant::now() + tick);
                }
            }
        }
    }

    /// How often idleness and stalls are looked for.
    fn tick(&self) -> Duration {
        let limits = &self.connection.limits;
        (limits.idle.min(limits.write_stall) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(5))
    }

    fn write(&mut self, writer: &WriteHalf<'_>) -> Result<(), Closed> {
        let was_empty = self.pending.is_empty();
        self.connection.collect(&mut self.pending);
        if self.pending.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        if was_empty {
            self.last_write = now;
        }
        let written = match self
            .pending
            .write_with(|slices| writer.try_write_vectored(slices))
        {
            Ok(written) => written,
            Err(error) => {
                // The other side is gone, but what it sent before is still to be read: oneway requests above all.
                // The read that comes behind them ends the connection.
                tracing::debug!(peer = %self.connection.peer, %error, "nothing more can be written");
                self.connection.stop_writing();
                self.pending = Pending::default();
                return Ok(());
            }
        };
        if written > 0 {
            self.connection.queued.fetch_sub(written, Ordering::Relaxed);
            self.last_write = now;
            self.last_io = now;
        }
        let waiting = self.connection.queued_bytes();
        if waiting > self.connection.limits.outbound_cut_bytes {
            return Err(Closed::Overflow(waiting));
        }
        Ok(())
    }

    /// Whether the limits allow another request now. If not, whoever releases one will wake the task.
    fn may_process(&self) -> bool {
        let connection = &self.connection;
        if connection.draining.load(Ordering::SeqCst) {
            return false;
        }
        if connection.queued_bytes() > connection.limits.outbound_pause_bytes {
            return false;
        }
        if connection.within_in_flight_limits() {
            return true;
        }
        connection.paused.store(true, Ordering::SeqCst);
        let within = connection.within_in_flight_limits();
        if within {
            connection.paused.store(false, Ordering::SeqCst);
        }
        within
    }

    /// Handles the whole frames in the buffer, as far as the limits allow, and gives their number.
    fn process(&mut self) -> Result<usize, Closed> {
        if self.buffer.is_empty() || !self.may_process() {
            return Ok(0);
        }
        self.connection.paused.store(false, Ordering::SeqCst);
        self.connection.begin_processing();
        let mut count = 0;
        while self.may_process() && !self.connection.is_closed() {
            let before = self.buffer.len();
            let Some(command) = frame::decode(&mut self.buffer, &self.connection.limits)? else {
                break;
            };
            self.handle(command, before - self.buffer.len());
            count += 1;
        }
        Ok(count)
    }

    fn handle(&self, command: Command, weight: usize) {
        if command.is_response() {
            self.connection.complete_call(command);
            return;
        }
        self.connection.count_request(&command, weight);
        let reply = Reply::new(self.connection.clone(), &command, weight);
        let Some(dispatch) = &self.dispatch else {
            reply.send(Response::unsupported(command.code));
            return;
        };
        let code = command.code;
        // A panic costs the request (its reply answers 1 when dropped), not the connection and its other requests.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            dispatch.request(&self.connection, command, reply)
        }));
        if outcome.is_err() {
            tracing::error!(peer = %self.connection.peer, code, "handling the request panicked");
        }
    }

    /// Makes room for the next read: for the rest of the frame that has begun, but never more than as much again as has
    /// already come, whatever length is claimed.
    fn make_room(&mut self) {
        let have = self.buffer.len();
        let missing =
            frame::wanted_len(&self.buffer).map_or(0, |wanted| wanted.saturating_sub(have));
        let room = self.read_room.max(missing.min(have.max(READ_ROOM_MAX)));
        if self.buffer.capacity() - have < room.min(self.read_room) {
            self.buffer.reserve(room);
        }
    }

    fn after_read(&mut self, read: usize) -> Result<(), Closed> {
        if read == 0 {
            return Err(Closed::ByPeer);
        }
        self.last_io = Instant::now();
        if self.buffer.len() == self.buffer.capacity() {
            self.read_room = (self.read_room * 2).min(READ_ROOM_MAX);
        }
        Ok(())
    }

    fn drained(&self) -> bool {
        self.connection.draining.load(Ordering::SeqCst)
            && self.connection.in_flight() == 0
            && self.connection.queued_bytes() == 0
    }

    fn check_time(&mut self) -> Result<(), Closed> {
        let limits = &self.connection.limits;
        let now = Instant::now();
        if !self.pending.is_empty() && now - self.last_write >= limits.write_stall {
            return Err(Closed::Stalled(
                limits.write_stall,
                self.connection.queued_bytes(),
            ));
        }
        let quiet = now - self.last_io;
        if quiet >= limits.idle && self.connection.in_flight() == 0 {
            return Err(Closed::Idle(limits.idle));
        }
        if quiet >= self.tick() && self.buffer.is_empty() && self.pending.is_empty() {
            self.buffer = BytesMut::new();
            self.read_room = READ_ROOM_MIN;
            self.connection.shrink();
        }
        Ok(())
    }
}

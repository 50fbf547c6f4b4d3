//! The server over real TCP: framing, limits, slow and hostile peers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use remoting::{
    Command, Connection, Dispatch, Limits, Reply, Response, Server, ServerConfig, frame,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const ECHO: i32 = 1;
const HOLD: i32 = 2;
const PARK: i32 = 3;
const BULK: i32 = 4;
const DROP: i32 = 5;
const PANIC: i32 = 6;
const FORGET: i32 = 7;

/// Size of a [`BULK`] answer's body.
const BULK_LEN: usize = 256 * 1024;

#[derive(Default)]
struct Handler {
    seen: AtomicUsize,
    opened: AtomicUsize,
    closed: AtomicUsize,
    held: Mutex<Vec<Reply>>,
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Dispatch for Handler {
    fn request(&self, _: &Arc<Connection>, request: Command, mut reply: Reply) {
        self.seen.fetch_add(1, Ordering::SeqCst);
        match request.code {
            ECHO => reply.send(
                Response::ok()
                    .field("len", request.body.len() as i64)
                    .body(request.body),
            ),
            HOLD => self.held.lock().push(reply),
            PARK => {
                reply.park();
                self.held.lock().push(reply);
            }
            BULK => reply.send(Response::ok().body(Bytes::from_static(&[7; BULK_LEN]))),
            DROP => drop(reply),
            PANIC => panic!("as asked"),
            FORGET => reply.forget(),
            other => reply.send(Response::unsupported(other)),
        }
    }

    fn connected(&self, connection: &Arc<Connection>) {
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.connections.lock().push(connection.clone());
    }

    fn closed(&self, _: &Arc<Connection>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

async fn start(config: ServerConfig) -> Result<(Server, Arc<Handler>, SocketAddr)> {
    let handler = Arc::new(Handler::default());
    let server = Server::bind("127.0.0.1:0".parse()?, config, handler.clone()).await?;
    let addr = server.local_addr();
    Ok((server, handler, addr))
}

fn limits(change: impl FnOnce(&mut Limits)) -> ServerConfig {
    let mut config = ServerConfig::default();
    change(&mut config.limits);
    config
}

/// A plain peer that writes and reads frames by hand.
struct Peer {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Peer {
    async fn connect(addr: SocketAddr) -> Result<Peer> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Peer {
            stream,
            buffer: BytesMut::new(),
        })
    }

    async fn send(&mut self, command: &Command) -> Result<()> {
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes)?;
        self.stream.write_all(&bytes).await?;
        Ok(())
    }

    async fn receive(&mut self) -> Result<Command> {
        let limits = Limits {
            frame_bytes_max: 64 << 20,
            ..Limits::default()
        };
        loop {
            if let Some(command) = frame::decode(&mut self.buffer, &limits)? {
                return Ok(command);
            }
            let read = timeout(
                Duration::from_secs(10),
                self.stream.read_buf(&mut self.buffer),
            )
            .await??;
            ensure!(read > 0, "closed");
        }
    }

    async fn call(&mut self, command: &Command) -> Result<Command> {
        self.send(command).await?;
        let answer = self.receive().await?;
        ensure!(
            answer.is_response() && answer.opaque == command.opaque,
            "{answer:?}"
        );
        Ok(answer)
    }

    /// Waits until the other side closes, reading what still comes.
    async fn closed(&mut self, within: Duration) -> Result<()> {
        let mut junk = vec![0; 1 << 20];
        let all = async {
            loop {
                match self.stream.read(&mut junk).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        timeout(within, all)
            .await
            .map_err(|_| anyhow::anyhow!("still open after {within:?}"))
    }
}

fn request(code: i32, opaque: i32) -> Command {
    Command {
        opaque,
        ..Command::request(code)
    }
}

async fn eventually(what: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > Duration::from_secs(10) {
            bail!("not reached: {what}");
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test]
async fn answers_in_the_requests_own_serialization() -> Result<()> {
    let (_server, _, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    for (opaque, serialize) in [
        (1, remoting::SerializeType::RocketMq),
        (2, remoting::SerializeType::Json),
    ] {
        let asked = Command {
            serialize,
            ..request(ECHO, opaque).with_body("hello")
        };
        let answer = peer.call(&asked).await?;
        assert_eq!(
            (answer.code, answer.serialize, &answer.body[..]),
            (0, serialize, &b"hello"[..])
        );
        assert_eq!(answer.ext.get("len"), Some("5"));
    }
    let unknown = peer.call(&request(99_999, 3)).await?;
    assert_eq!(
        (unknown.code, unknown.remark()),
        (3, " request type 99999 not supported")
    );
    Ok(())
}

#[tokio::test]
async fn byte_by_byte_and_many_at_once() -> Result<()> {
    let (_server, _, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    let mut bytes = BytesMut::new();
    request(ECHO, 7).with_body("slowly").encode(&mut bytes)?;
    for byte in &bytes {
        peer.stream.write_all(&[*byte]).await?;
        tokio::task::yield_now().await;
    }
    assert_eq!(&peer.receive().await?.body[..], b"slowly");

    let mut bytes = BytesMut::new();
    for opaque in 0..2000 {
        request(ECHO, opaque)
            .with_body(vec![opaque as u8; 1 + opaque as usize])
            .encode(&mut bytes)?;
    }
    let (mut read, mut write) = peer.stream.into_split();
    let writer = tokio::spawn(async move {
        let done = write.write_all(&bytes).await;
        (write, done)
    });
    let mut buffer = BytesMut::new();
    for opaque in 0..2000 {
        let answer = loop {
            if let Some(answer) = frame::decode(&mut buffer, &Limits::default())? {
                break answer;
            }
            ensure!(read.read_buf(&mut buffer).await? > 0, "closed");
        };
        assert_eq!(answer.opaque, opaque);
        assert_eq!(answer.body, vec![opaque as u8; 1 + opaque as usize]);
    }
    writer.await?.1?;
    Ok(())
}

#[tokio::test]
async fn oneway_is_never_answered() -> Result<()> {
    let (_server, handler, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    for code in [ECHO, DROP, PANIC, FORGET, 99_999] {
        peer.send(&Command {
            flag: 2,
            ..request(code, 1)
        })
        .await?;
    }
    peer.send(&request(FORGET, 2)).await?;
    // An answer to no call is ignored too.
    peer.send(&Command {
        flag: 1,
        ..request(0, 55)
    })
    .await?;
    let answer = peer.call(&request(ECHO, 3)).await?;
    assert_eq!(answer.opaque, 3);
    assert_eq!(handler.seen.load(Ordering::SeqCst), 7);
    Ok(())
}

#[tokio::test]
async fn every_two_way_request_is_answered() -> Result<()> {
    let (_server, _, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    for code in [DROP, PANIC] {
        let answer = peer.call(&request(code, code)).await?;
        assert_eq!(answer.code, 1);
        assert!(answer.remark().contains("without an answer"));
    }
    assert_eq!(peer.call(&request(ECHO, 9)).await?.code, 0);
    Ok(())
}

#[tokio::test]
async fn in_flight_limit_pauses_reading() -> Result<()> {
    let (_server, handler, addr) = start(limits(|l| l.in_flight_max = 10)).await?;
    let mut peer = Peer::connect(addr).await?;
    for opaque in 0..25 {
        peer.send(&request(HOLD, opaque)).await?;
    }
    eventually("ten in flight", || handler.held.lock().len() == 10).await?;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(handler.held.lock().len(), 10);
    let connection = handler.connections.lock()[0].clone();
    assert_eq!(connection.in_flight(), 10);
    // Each answer lets one more in; a parked one does too, without an answer.
    let first = handler.held.lock().remove(0);
    first.send(Response::ok());
    assert_eq!(peer.receive().await?.opaque, 0);
    eventually("the eleventh", || handler.held.lock().len() == 10).await?;
    handler.held.lock()[0].park();
    eventually("the twelfth", || handler.held.lock().len() == 11).await?;
    loop {
        let next = handler.held.lock().pop();
        let Some(reply) = next else { break };
        reply.send(Response::ok());
        peer.receive().await?;
        sleep(Duration::from_millis(1)).await;
    }
    eventually("all handled", || handler.seen.load(Ordering::SeqCst) == 25).await?;
    eventually("none in flight", || {
        connection.in_flight() == 0 || !handler.held.lock().is_empty()
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn in_flight_bytes_pause_reading() -> Result<()> {
    let (_server, handler, addr) = start(limits(|l| l.in_flight_bytes_max = 100_000)).await?;
    let mut peer = Peer::connect(addr).await?;
    for opaque in 0..5 {
        peer.send(&request(HOLD, opaque).with_body(vec![0; 60_000]))
            .await?;
    }
    eventually("two in flight", || handler.held.lock().len() == 2).await?;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(handler.held.lock().len(), 2);
    handler.held.lock().clear();
    eventually("two more", || handler.held.lock().len() == 2).await?;
    Ok(())
}

#[tokio::test]
async fn parked_requests_do_not_count() -> Result<()> {
    let (_server, handler, addr) = start(limits(|l| l.in_flight_max = 3)).await?;
    let mut peer = Peer::connect(addr).await?;
    for opaque in 0..50 {
        peer.send(&request(PARK, opaque)).await?;
    }
    eventually("all parked", || handler.held.lock().len() == 50).await?;
    let parked = std::mem::take(&mut *handler.held.lock());
    parked
        .into_iter()
        .for_each(|reply| reply.send(Response::code(19)));
    for opaque in 0..50 {
        assert_eq!(peer.receive().await?.opaque, opaque);
    }
    Ok(())
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_paused_and_cut() -> Result<()> {
    let (server, handler, addr) = start(limits(|l| {
        l.outbound_pause_bytes = 1 << 20;
        l.write_stall = Duration::from_millis(400);
    }))
    .await?;
    let mut slow = Peer::connect(addr).await?;
    for opaque in 0..2000 {
        slow.send(&request(BULK, opaque)).await?;
    }
    sleep(Duration::from_millis(150)).await;
    let connection = handler.connections.lock()[0].clone();
    // Half a gigabyte was asked for; what waits is bounded by the limit and one answer.
    let waiting = connection.queued_bytes();
    assert!(
        waiting <= (1 << 20) + 2 * BULK_LEN,
        "{waiting} bytes are waiting"
    );
    assert!(handler.seen.load(Ordering::SeqCst) < 200);
    // Others are served meanwhile.
    let mut quick = Peer::connect(addr).await?;
    assert_eq!(quick.call(&request(ECHO, 1)).await?.code, 0);
    eventually("cut", || connection.is_closed()).await?;
    eventually("counted", || {
        server.stats().stalled.load(Ordering::SeqCst) == 1
    })
    .await?;
    assert_eq!(quick.call(&request(ECHO, 2)).await?.code, 0);
    slow.closed(Duration::from_secs(5)).await
}

#[tokio::test]
async fn a_slow_but_living_reader_gets_everything() -> Result<()> {
    let (_server, _, addr) = start(limits(|l| {
        l.outbound_pause_bytes = 512 * 1024;
        l.write_stall = Duration::from_secs(2);
    }))
    .await?;
    let mut peer = Peer::connect(addr).await?;
    for opaque in 0..40 {
        peer.send(&request(BULK, opaque)).await?;
    }
    for opaque in 0..40 {
        let answer = peer.receive().await?;
        assert_eq!((answer.opaque, answer.body.len()), (opaque, BULK_LEN));
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test]
async fn parked_answers_cannot_pile_up() -> Result<()> {
    let (_server, handler, addr) = start(limits(|l| l.outbound_cut_bytes = 8 << 20)).await?;
    let mut peer = Peer::connect(addr).await?;
    for opaque in 0..200 {
        peer.send(&request(PARK, opaque)).await?;
    }
    eventually("all parked", || handler.held.lock().len() == 200).await?;
    let connection = handler.connections.lock()[0].clone();
    for reply in std::mem::take(&mut *handler.held.lock()) {
        reply.send(Response::ok().body(vec![0; 1 << 20]));
    }
    eventually("cut", || connection.is_closed()).await
}

#[tokio::test]
async fn idle_connections_are_closed() -> Result<()> {
    let (_server, handler, addr) = start(limits(|l| l.idle = Duration::from_millis(200))).await?;
    let mut idle = Peer::connect(addr).await?;
    let mut busy = Peer::connect(addr).await?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        busy.call(&request(ECHO, 1)).await?;
        sleep(Duration::from_millis(30)).await;
    }
    idle.closed(Duration::from_secs(2)).await?;
    busy.call(&request(ECHO, 2)).await?;
    eventually("told", || handler.closed.load(Ordering::SeqCst) == 1).await
}

#[tokio::test]
async fn connections_are_limited() -> Result<()> {
    let (server, _, addr) = start(ServerConfig {
        connections_max: 3,
        ..ServerConfig::default()
    })
    .await?;
    let mut peers = Vec::new();
    for _ in 0..3 {
        let mut peer = Peer::connect(addr).await?;
        peer.call(&request(ECHO, 1)).await?;
        peers.push(peer);
    }
    Peer::connect(addr)
        .await?
        .closed(Duration::from_secs(2))
        .await?;
    assert_eq!(server.connection_count(), 3);
    drop(peers.pop());
    eventually("one less", || server.connection_count() == 2).await?;
    Peer::connect(addr).await?.call(&request(ECHO, 1)).await?;
    Ok(())
}

#[tokio::test]
async fn tls_hello_is_closed() -> Result<()> {
    let (server, _, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    peer.stream.write_all(&[0x16, 3, 1, 0, 200, 1, 0]).await?;
    peer.closed(Duration::from_secs(2)).await?;
    eventually("counted", || {
        server.stats().malformed.load(Ordering::SeqCst) == 1
    })
    .await
}

/// What other protocols and broken clients send.
fn junk() -> Vec<Vec<u8>> {
    let mut whole = BytesMut::new();
    let _ = request(ECHO, 1).with_body("x").encode(&mut whole);
    let mut wrong_type = whole.to_vec();
    wrong_type[4] = 7;
    let mut list = vec![
        b"PRI * HTTP/2.0\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x7f, 0xff, 0xff, 0xff],
        vec![0, 0, 0, 0],
        vec![0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff],
        vec![0, 0, 0, 8, 0, 0, 0, 0xff, 0x7b, 0x7d, 0x7d, 0x7d],
        vec![0, 0, 0, 8, 0, 0, 0, 4, b'{', b'{', b'}', b'}'],
        vec![0, 0, 0, 8, 0, 0, 0, 4, b'"', 0xff, 0xfe, b'"'],
        vec![0, 0, 0, 8, 1, 0, 0, 4, 0, 0, 0, 0],
        // Claims 16 MiB and sends little.
        [&[0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0][..], &[b'{'; 100]].concat(),
        wrong_type,
    ];
    list.extend((0..whole.len()).map(|cut| whole[..cut].to_vec()));
    list
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|l| l.starts_with("RssAnon:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn junk_does_not_disturb_a_healthy_load() -> Result<()> {
    let (server, _, addr) = start(ServerConfig::default()).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let healthy = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut peer = Peer::connect(addr).await?;
            let (mut count, mut slowest) = (0, Duration::ZERO);
            while !stop.load(Ordering::SeqCst) {
                let begin = Instant::now();
                let answer = peer
                    .call(&request(ECHO, count).with_body("healthy"))
                    .await?;
                ensure!(&answer.body[..] == b"healthy");
                slowest = slowest.max(begin.elapsed());
                count += 1;
            }
            Ok((count, slowest))
        }
    });
    let before = resident_kib();
    let list = Arc::new(junk());
    let mut rounds = Vec::new();
    for worker in 0..16usize {
        let list = list.clone();
        rounds.push(tokio::spawn(async move {
            for round in 0..200usize {
                let bytes = &list[(worker * 31 + round) % list.len()];
                let Ok(mut stream) = TcpStream::connect(addr).await else {
                    continue;
                };
                let _ = stream.write_all(bytes).await;
            }
        }));
    }
    for round in rounds {
        round.await?;
    }
    // Half frames that stay open cost nothing but themselves.
    let mut halves = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(addr).await?;
        stream
            .write_all(&[0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0, b'{'])
            .await?;
        halves.push(stream);
    }
    sleep(Duration::from_millis(100)).await;
    let grown = resident_kib().saturating_sub(before);
    stop.store(true, Ordering::SeqCst);
    let (count, slowest): (i32, Duration) = healthy.await??;
    println!("{count} healthy calls, slowest {slowest:?}; {grown} KiB grown");
    assert!(count > 100 && slowest < Duration::from_secs(2));
    assert!(grown < 64 * 1024, "{grown} KiB grown");
    assert!(server.stats().malformed.load(Ordering::SeqCst) > 200);
    drop(halves);
    eventually("all gone", || server.connection_count() == 0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_connections_never_mix() -> Result<()> {
    let (_server, _, addr) = start(ServerConfig::default()).await?;
    let mut tasks = Vec::new();
    for seed in 0..60u64 {
        tasks.push(tokio::spawn(async move {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut peer = Peer::connect(addr).await?;
            for opaque in 0..30 {
                let mut body = vec![0; rng.random_range(1..20_000)];
                rng.fill_bytes(&mut body);
                let mut bytes = BytesMut::new();
                request(ECHO, opaque)
                    .with_body(body.clone())
                    .encode(&mut bytes)?;
                // In random pieces; some connections break off in the middle.
                while !bytes.is_empty() {
                    let cut = rng.random_range(1..=bytes.len());
                    peer.stream.write_all(&bytes.split_to(cut)).await?;
                    if rng.random_bool(0.01) {
                        return Ok(());
                    }
                }
                let answer = peer.receive().await?;
                ensure!(answer.body == body, "seed {seed}: another body came back");
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

#[tokio::test]
async fn shutdown_answers_what_is_in_flight() -> Result<()> {
    let (server, handler, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    peer.send(&request(HOLD, 1)).await?;
    peer.send(&request(PARK, 2)).await?;
    eventually("held", || handler.held.lock().len() == 2).await?;
    let stopping = tokio::spawn(server.shutdown(Duration::from_secs(5)));
    sleep(Duration::from_millis(50)).await;
    assert!(TcpStream::connect(addr).await.is_err(), "still accepting");
    let held = handler.held.lock().remove(0);
    held.send(Response::ok().body(vec![1; 1 << 20]));
    let answer = peer.receive().await?;
    assert_eq!((answer.opaque, answer.body.len()), (1, 1 << 20));
    stopping.await?;
    peer.closed(Duration::from_secs(1)).await?;
    assert_eq!(handler.closed.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn shutdown_has_a_deadline() -> Result<()> {
    let (server, handler, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    peer.send(&request(HOLD, 1)).await?;
    eventually("held", || handler.held.lock().len() == 1).await?;
    let begin = Instant::now();
    server.shutdown(Duration::from_millis(200)).await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    peer.closed(Duration::from_secs(1)).await
}

#[tokio::test]
async fn large_bodies_and_the_frame_limit() -> Result<()> {
    let (_server, _, addr) = start(ServerConfig::default()).await?;
    let mut peer = Peer::connect(addr).await?;
    let body: Vec<u8> = (0..16 * 1024 * 1024 - 1024)
        .map(|i: usize| (i / 251) as u8)
        .collect();
    let answer = peer.call(&request(ECHO, 1).with_body(body.clone())).await?;
    assert!(answer.body == body);
    let mut beyond = BytesMut::new();
    request(ECHO, 2)
        .with_body(vec![0; 17 << 20])
        .encode(&mut beyond)?;
    let _ = peer.stream.write_all(&beyond[..64]).await;
    peer.closed(Duration::from_secs(2)).await
}

#[tokio::test]
async fn the_last_answer_survives_unread_requests() -> Result<()> {
    let (server, handler, addr) = start(ServerConfig::default()).await?;
    let peer = Peer::connect(addr).await?;
    let (mut read, mut write) = peer.stream.into_split();
    let mut first = BytesMut::new();
    request(HOLD, 1).encode(&mut first)?;
    write.write_all(&first).await?;
    eventually("held", || handler.held.lock().len() == 1).await?;
    let stopping = tokio::spawn(server.shutdown(Duration::from_secs(5)));
    sleep(Duration::from_millis(20)).await;
    // These arrive at a server that reads no more.
    let mut more = BytesMut::new();
    for opaque in 2..100 {
        request(ECHO, opaque)
            .with_body(vec![0; 1000])
            .encode(&mut more)?;
    }
    write.write_all(&more).await?;
    let held = handler.held.lock().remove(0);
    held.send(Response::ok());
    let mut buffer = BytesMut::new();
    while read.read_buf(&mut buffer).await? > 0 {}
    let answer = frame::decode(&mut buffer, &Limits::default())?;
    assert_eq!((answer.map(|a| a.opaque), buffer.len()), (Some(1), 0));
    stopping.await?;
    Ok(())
}

/// A client that sends, gets an answer that it does not read, and closes: its socket is reset, and our next write fails.
/// What it sent before is handled all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_before_a_reset_is_handled() -> Result<()> {
    let (server, handler, addr) = start(ServerConfig::default()).await?;
    const ROUNDS: usize = 300;
    // Little enough for the socket buffers: what is still on the client's side is lost with the reset.
    const ONEWAYS: usize = 40;
    for _ in 0..ROUNDS {
        let mut bytes = BytesMut::new();
        for i in 0..ONEWAYS as i32 {
            // Answers come in between, so that the server has something to write when the reset is there.
            request(ECHO, i)
                .with_body(vec![1; 100])
                .encode(&mut bytes)?;
            let mut oneway = request(ECHO, i).with_body(vec![2; 300]);
            oneway.flag |= remoting::command::FLAG_ONEWAY;
            oneway.encode(&mut bytes)?;
        }
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(&bytes).await?;
        // The first answer is there; closing without reading it resets the connection.
        stream.readable().await?;
    }
    eventually("all requests are handled", || {
        handler.seen.load(Ordering::SeqCst) == ROUNDS * ONEWAYS * 2
    })
    .await?;
    server.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

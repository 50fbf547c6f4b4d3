//! The client, and calls from the server's side of a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use remoting::{
    CallError, Client, ClientConfig, Command, Connection, Dispatch, Reply, Response, Server,
    ServerConfig,
};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Handler {
    connections: Mutex<Vec<Arc<Connection>>>,
    oneways: AtomicUsize,
    held: Mutex<Vec<Reply>>,
}

impl Dispatch for Handler {
    fn request(&self, _: &Arc<Connection>, request: Command, reply: Reply) {
        if reply.is_oneway() {
            self.oneways.fetch_add(1, Ordering::SeqCst);
        }
        match request.code {
            1 => reply.send(Response::ok().body(request.body)),
            2 => self.held.lock().push(reply),
            other => reply.send(Response::unsupported(other)),
        }
    }

    fn connected(&self, connection: &Arc<Connection>) {
        self.connections.lock().push(connection.clone());
    }
}

async fn server_at(addr: &str) -> Result<(Server, Arc<Handler>, String)> {
    let handler = Arc::new(Handler::default());
    let server = Server::bind(addr.parse()?, ServerConfig::default(), handler.clone()).await?;
    let addr = server.local_addr().to_string();
    Ok((server, handler, addr))
}

fn quick() -> ClientConfig {
    ClientConfig {
        backoff_min: Duration::from_millis(50),
        backoff_max: Duration::from_millis(200),
        ..ClientConfig::default()
    }
}

#[tokio::test]
async fn many_calls_over_one_connection() -> Result<()> {
    let (_server, handler, addr) = server_at("127.0.0.1:0").await?;
    let client = Client::new(quick(), None);
    let mut calls = Vec::new();
    for i in 0..500u32 {
        let (client, addr) = (client.clone(), addr.clone());
        calls.push(tokio::spawn(async move {
            let body = i.to_be_bytes().to_vec();
            let answer = client
                .call(
                    &addr,
                    Command::request(1).with_body(body.clone()),
                    5 * SECOND,
                )
                .await?;
            ensure!(answer.body == body);
            Ok(())
        }));
    }
    for call in calls {
        call.await??;
    }
    assert_eq!(handler.connections.lock().len(), 1);
    client.oneway(&addr, Command::request(9)).await?;
    client.call(&addr, Command::request(1), SECOND).await?;
    assert_eq!(handler.oneways.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn deadlines_hold_and_late_answers_are_ignored() -> Result<()> {
    let (_server, handler, addr) = server_at("127.0.0.1:0").await?;
    let client = Client::new(quick(), None);
    let begin = Instant::now();
    let outcome = client
        .call(&addr, Command::request(2), Duration::from_millis(100))
        .await;
    assert!(matches!(outcome, Err(CallError::Timeout(_))), "{outcome:?}");
    assert!(begin.elapsed() < SECOND);
    handler
        .held
        .lock()
        .drain(..)
        .for_each(|reply| reply.send(Response::ok()));
    // The connection is as good as before.
    client.call(&addr, Command::request(1), SECOND).await?;
    assert_eq!(handler.connections.lock().len(), 1);
    Ok(())
}

#[tokio::test]
async fn reconnects_with_a_back_off() -> Result<()> {
    let (server, _, addr) = server_at("127.0.0.1:0").await?;
    let client = Client::new(quick(), None);
    client.call(&addr, Command::request(1), SECOND).await?;
    let waiting = tokio::spawn({
        let (client, addr) = (client.clone(), addr.clone());
        async move { client.call(&addr, Command::request(2), 5 * SECOND).await }
    });
    sleep(Duration::from_millis(50)).await;
    drop(server);
    assert!(matches!(waiting.await?, Err(CallError::Closed)));
    sleep(Duration::from_millis(50)).await;
    let first = client.call(&addr, Command::request(1), SECOND).await;
    assert!(matches!(first, Err(CallError::Connect { .. })), "{first:?}");
    let second = client.call(&addr, Command::request(1), SECOND).await;
    assert!(
        matches!(second, Err(CallError::BackingOff { .. })),
        "{second:?}"
    );
    let (_server, _, _) = server_at(&addr).await?;
    let begin = Instant::now();
    while client
        .call(&addr, Command::request(1), SECOND)
        .await
        .is_err()
    {
        ensure!(begin.elapsed() < 5 * SECOND, "no new connection");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test]
async fn names_that_do_not_resolve() -> Result<()> {
    let client = Client::new(quick(), None);
    let outcome = client
        .call("no-such-host.invalid:1", Command::request(1), 5 * SECOND)
        .await;
    assert!(
        matches!(outcome, Err(CallError::Connect { .. })),
        "{outcome:?}"
    );
    let outcome = client.call("no port", Command::request(1), SECOND).await;
    assert!(
        matches!(outcome, Err(CallError::Connect { .. })),
        "{outcome:?}"
    );
    Ok(())
}

#[tokio::test]
async fn waits_in_line_within_the_deadline() -> Result<()> {
    let (_server, handler, addr) = server_at("127.0.0.1:0").await?;
    let client = Client::new(
        ClientConfig {
            in_flight_max: 2,
            ..quick()
        },
        None,
    );
    let mut calls = Vec::new();
    for _ in 0..3 {
        let (client, addr) = (client.clone(), addr.clone());
        calls.push(tokio::spawn(async move {
            client
                .call(&addr, Command::request(2), Duration::from_millis(300))
                .await
        }));
    }
    sleep(Duration::from_millis(100)).await;
    assert_eq!(handler.held.lock().len(), 2);
    for call in calls {
        assert!(matches!(call.await?, Err(CallError::Timeout(_))));
    }
    Ok(())
}

#[tokio::test]
async fn the_accepting_side_calls_too() -> Result<()> {
    let (_server, handler, addr) = server_at("127.0.0.1:0").await?;
    let client_handler = Arc::new(Handler::default());
    let client = Client::new(quick(), Some(client_handler.clone()));
    client.call(&addr, Command::request(1), SECOND).await?;
    let connection = handler.connections.lock()[0].clone();
    let answer = connection
        .call(Command::request(1).with_body("from the server"), SECOND)
        .await?;
    assert_eq!(&answer.body[..], b"from the server");
    assert_eq!(connection.call(Command::request(77), SECOND).await?.code, 3);
    connection.send_oneway(Command::request(40))?;
    connection.call(Command::request(1), SECOND).await?;
    assert_eq!(client_handler.oneways.load(Ordering::SeqCst), 1);
    // Without a handler the client refuses.
    let plain = Client::new(quick(), None);
    plain.call(&addr, Command::request(1), SECOND).await?;
    let connection = handler.connections.lock()[1].clone();
    assert_eq!(connection.call(Command::request(1), SECOND).await?.code, 3);
    plain.close().await;
    connection.wait_closed().await;
    assert!(matches!(
        connection.call(Command::request(1), SECOND).await,
        Err(CallError::Closed)
    ));
    assert!(matches!(
        connection.send_oneway(Command::request(1)),
        Err(CallError::Closed)
    ));
    Ok(())
}

#[tokio::test]
async fn ipv6() -> Result<()> {
    let Ok((_server, handler, addr)) = server_at("[::1]:0").await else {
        eprintln!("no IPv6 loopback here");
        return Ok(());
    };
    let client = Client::new(quick(), None);
    client.call(&addr, Command::request(1), SECOND).await?;
    let peer: SocketAddr = handler.connections.lock()[0].peer();
    assert!(peer.is_ipv6());
    Ok(())
}

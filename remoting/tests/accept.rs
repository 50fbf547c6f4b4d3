//! Running out of descriptors: the server pauses, serves what it has, and goes on afterwards. A process of its own, since
//! it lowers the limit of the process.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, ensure};
use remoting::{
    Client, ClientConfig, Command, Connection, Dispatch, Reply, Response, Server, ServerConfig,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

struct Echo;

impl Dispatch for Echo {
    fn request(&self, _: &Arc<Connection>, request: Command, reply: Reply) {
        reply.send(Response::ok().body(request.body));
    }
}

#[tokio::test]
async fn accepts_again_after_running_out_of_descriptors() -> Result<()> {
    let server = Server::bind(
        "127.0.0.1:0".parse()?,
        ServerConfig::default(),
        Arc::new(Echo),
    )
    .await?;
    let addr = server.local_addr().to_string();
    let client = Client::new(ClientConfig::default(), None);
    let call = || client.call(&addr, Command::request(1), Duration::from_secs(2));
    call().await?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(256),
            maximum: limit.maximum,
        },
    )?;
    let mut fillers = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        fillers.push(file);
    }
    // One descriptor for the dialling side, none for the accepting one.
    fillers.pop();
    let waiting = TcpStream::connect(server.local_addr()).await?;
    sleep(Duration::from_millis(300)).await;
    let failed = server.stats().accept_errors.load(Ordering::SeqCst);
    ensure!(
        (1..100).contains(&failed),
        "{failed} failed accepts in 300 ms"
    );
    call().await?;
    fillers.clear();
    timeout(Duration::from_secs(5), async {
        while server.connection_count() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await?;
    drop(waiting);
    call().await?;
    Ok(())
}

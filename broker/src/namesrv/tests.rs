use super::*;
use crate::config::{Cli, ConfigSource, Environment, Loaded, PropertyFile};
use crate::tables::json::{Map, Node, parse};
use crate::tables::{DataVersion, TopicConfig};
use dledger::fs::MemFs;
use parking_lot::Mutex;
use remoting::{
    Client, ClientConfig, Command, Connection, Dispatch, Reply, Response, Server, ServerConfig,
    request_code,
};
use std::net::SocketAddr;
use std::path::Path;

/// A name server that remembers what it was sent, in front of the real one.
struct Recorder {
    inner: NameServer,
    seen: Mutex<Vec<Command>>,
    /// Answers nothing at all.
    mute: bool,
}

impl Dispatch for Recorder {
    fn request(&self, connection: &Arc<Connection>, request: Command, reply: Reply) {
        self.seen.lock().push(request.clone());
        if self.mute {
            reply.forget();
        } else {
            self.inner.request(connection, request, reply);
        }
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.inner.closed(connection);
    }
}

fn name_server() -> NameServer {
    NameServer::open(
        Arc::new(MemFs::new()),
        Path::new("/c"),
        "127.0.0.1:9876".parse().unwrap(),
    )
    .unwrap()
}

async fn serve(addr: &str, mute: bool) -> (Arc<Recorder>, Server) {
    let recorder = Arc::new(Recorder {
        inner: name_server(),
        seen: Mutex::default(),
        mute,
    });
    let server = Server::bind(
        addr.parse().unwrap(),
        ServerConfig::default(),
        recorder.clone(),
    )
    .await
    .unwrap();
    (recorder, server)
}

impl Recorder {
    fn codes(&self) -> Vec<i32> {
        self.seen.lock().iter().map(|c| c.code).collect()
    }

    fn ids(&self) -> Vec<(i32, String)> {
        let seen = self.seen.lock();
        seen.iter()
            .map(|c| {
                (
                    c.code,
                    c.ext.get("brokerId").unwrap_or_default().to_string(),
                )
            })
            .collect()
    }

    /// Topics of the registrations so far.
    fn registered(&self) -> Vec<Vec<String>> {
        let seen = self.seen.lock();
        seen.iter()
            .filter(|c| c.code == request_code::REGISTER_BROKER)
            .map(topics_of)
            .collect()
    }

    fn route(&self, topic: &str) -> Option<Map> {
        let request = Command::request(request_code::GET_ROUTEINFO_BY_TOPIC).field("topic", topic);
        let answer = self.inner.answer(&request);
        parse(&answer.body.concat())
            .ok()
            .and_then(|n| n.as_map().cloned())
    }
}

fn topics_of(request: &Command) -> Vec<String> {
    let Ok(Node::Map(body)) = parse(&request.body) else {
        panic!("no JSON")
    };
    let wrapper = body
        .get("topicConfigSerializeWrapper")
        .and_then(Node::as_map)
        .unwrap();
    let table = wrapper
        .get("topicConfigTable")
        .and_then(Node::as_map)
        .unwrap();
    table.iter().map(|(name, _)| name.to_string()).collect()
}

fn version_of(request: &Command) -> DataVersion {
    let Ok(Node::Map(body)) = parse(&request.body) else {
        panic!("no JSON")
    };
    let wrapper = body
        .get("topicConfigSerializeWrapper")
        .and_then(Node::as_map)
        .unwrap();
    DataVersion::from_map(wrapper.get("dataVersion").and_then(Node::as_map).unwrap())
}

fn settings(name_servers: &str) -> Arc<Settings> {
    let text = format!(
        "enableDLegerCommitLog=true\nbrokerName=broker-a\nbrokerIP1=10.0.0.1\nnamesrvAddr={name_servers}\nregisterBrokerTimeoutMills=500\n"
    );
    let file = PropertyFile::parse(text.as_bytes()).unwrap();
    let env = Environment {
        home: Some("/h".into()),
        namesrv_addr: None,
        host_name: "h".into(),
        local_address: "10.0.0.2".into(),
    };
    let source = ConfigSource::File("/nowhere/broker.conf".into());
    Arc::new(Settings::new(
        Loaded::build(&file, source, &Cli::default(), &env).unwrap(),
    ))
}

fn topic_table(settings: &Settings) -> Arc<TopicTable> {
    Arc::new(TopicTable::open(Arc::new(MemFs::new()), Path::new("/c"), &settings.get()).unwrap())
}

/// Waits until `done` holds, at most 10 s.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} did not come true");
}

#[tokio::test]
async fn nothing_is_registered_before_the_broker_leads_and_all_soon_after() {
    let (first, server1) = serve("127.0.0.1:0", false).await;
    let (second, server2) = serve("127.0.0.1:0", false).await;
    let (mute, server3) = serve("127.0.0.1:0", true).await;
    // One that hangs and one that is gone disturb nobody.
    let list = format!(
        "{};127.0.0.1:1;{};{}",
        server1.local_addr(),
        server3.local_addr(),
        server2.local_addr()
    );
    let settings = settings(&list);
    let topics = topic_table(&settings);
    let registrar = Registrar::start(settings.clone(), topics.clone(), None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    topics.put(TopicConfig::new("early", 2));
    registrar.lead(-1);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(first.codes().is_empty() && second.codes().is_empty());
    registrar.lead(0);
    let begin = std::time::Instant::now();
    until("both know the route", || {
        first.route("early").is_some() && second.route("early").is_some()
    })
    .await;
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        first.registered()[0].len(),
        9,
        "the whole table comes first"
    );
    let request = first.seen.lock()[0].clone();
    for (name, value) in [
        ("brokerName", "broker-a"),
        ("brokerAddr", "10.0.0.1:10911"),
        ("clusterName", "DefaultCluster"),
        ("haServerAddr", "10.0.0.2:10912"),
        ("brokerId", "0"),
        ("compressed", "false"),
    ] {
        assert_eq!(request.ext.get(name), Some(value));
    }
    // A change goes out at once, alone, with its version.
    topics.put(TopicConfig::new("late", 3));
    until("late is known", || {
        first.route("late").is_some() && second.route("late").is_some()
    })
    .await;
    assert_eq!(first.registered().last().unwrap(), &["late"]);
    assert_eq!(
        version_of(first.seen.lock().last().unwrap()),
        topics.version()
    );
    assert!(mute.codes().contains(&request_code::REGISTER_BROKER));
    let begin = std::time::Instant::now();
    registrar.stop(Duration::from_secs(3)).await;
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert!(first.route("early").is_none() && second.route("early").is_none());
    assert_eq!(first.codes().last(), Some(&request_code::UNREGISTER_BROKER));
    drop((server1, server2, server3));
}

#[tokio::test]
async fn a_changed_id_and_a_lost_role_unregister_the_former_one_first() {
    let (recorder, server) = serve("127.0.0.1:0", false).await;
    let settings = settings(&server.local_addr().to_string());
    let registrar = Registrar::start(settings.clone(), topic_table(&settings), None);
    registrar.lead(0);
    until("registered", || recorder.codes().len() == 1).await;
    registrar.lead(2);
    until("changed", || recorder.codes().len() == 3).await;
    registrar.retire();
    until("gone", || recorder.codes().len() == 4).await;
    let expected =
        [(103, "0"), (104, "0"), (103, "2"), (104, "2")].map(|(c, i)| (c, i.to_string()));
    assert_eq!(recorder.ids(), expected);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(recorder.codes().len(), 4);
    registrar.stop(Duration::from_secs(1)).await;
    assert_eq!(recorder.codes().len(), 4);
}

#[tokio::test]
async fn a_restarted_name_server_gets_the_whole_table_again() {
    let (first, server) = serve("127.0.0.1:0", false).await;
    let addr: SocketAddr = server.local_addr();
    let settings = settings(&addr.to_string());
    let topics = topic_table(&settings);
    let registrar = Registrar::start(settings.clone(), topics.clone(), None);
    registrar.lead(0);
    until("registered", || first.codes().len() == 1).await;
    topics.put(TopicConfig::new("a", 1));
    until("a is known", || first.route("a").is_some()).await;
    let known = topics.version();
    server.shutdown(Duration::from_millis(100)).await;
    topics.put(TopicConfig::new("b", 1));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (second, server) = serve(&addr.to_string(), false).await;
    let begin = std::time::Instant::now();
    until("all is known", || {
        second.route("b").is_some() && second.route("a").is_some()
    })
    .await;
    assert!(
        begin.elapsed() < Duration::from_secs(6),
        "{:?}",
        begin.elapsed()
    );
    let first_seen = second.seen.lock()[0].clone();
    assert_eq!(topics_of(&first_seen).len(), 10);
    assert!(version_of(&first_seen).counter > known.counter);
    registrar.stop(Duration::from_secs(1)).await;
    drop(server);
}

#[tokio::test]
async fn a_changed_permission_reaches_every_topic() {
    let (recorder, server) = serve("127.0.0.1:0", false).await;
    let settings = settings(&server.local_addr().to_string());
    let topics = topic_table(&settings);
    let registrar = Registrar::start(settings.clone(), topics.clone(), None);
    registrar.lead(0);
    until("registered", || recorder.route("TBW102").is_some()).await;
    let perm = || {
        recorder
            .route("TBW102")
            .and_then(|r| r.get("queueDatas")?.as_list()?[0].as_map()?.i32("perm"))
    };
    assert_eq!(perm(), Some(7));
    settings.change_for_test(|c| c.broker_permission = 4);
    registrar.refresh();
    until("read only", || perm() == Some(4)).await;
    registrar.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn order_topics_of_the_name_server_are_marked() {
    let (recorder, server) = serve("127.0.0.1:0", false).await;
    recorder.inner.kv().put(
        crate::embedded_namesrv::ORDER_NAMESPACE,
        "ordered",
        "broker-a:1",
    );
    let settings = settings(&server.local_addr().to_string());
    let topics = topic_table(&settings);
    topics.put(TopicConfig::new("ordered", 1));
    let registrar = Registrar::start(settings.clone(), topics.clone(), None);
    registrar.lead(0);
    until("marked", || topics.get("ordered").is_some_and(|t| t.order)).await;
    registrar.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_embedded_name_server_follows_the_table_at_once() {
    let settings = settings("");
    let topics = topic_table(&settings);
    let embedded = Arc::new(name_server());
    let registrar = Registrar::start(settings.clone(), topics.clone(), Some(embedded.clone()));
    let has = |topic: &str| {
        let request = Command::request(request_code::GET_ROUTEINFO_BY_TOPIC).field("topic", topic);
        embedded.answer(&request).code == 0
    };
    topics.put(TopicConfig::new("a", 1));
    assert!(!has("a") && !has("TBW102"));
    registrar.lead(0);
    assert!(has("a") && has("TBW102"));
    topics.put(TopicConfig::new("b", 1));
    assert!(has("b"));
    topics.remove("b");
    assert!(!has("b"));
    let order = Command::request(request_code::PUT_KV_CONFIG);
    let order = order
        .field("namespace", "ORDER_TOPIC_CONFIG")
        .field("key", "a")
        .field("value", "broker-a:1");
    assert_eq!(embedded.answer(&order).code, 0);
    assert!(topics.get("a").unwrap().order);
    registrar.retire();
    assert!(!has("a"));
    topics.put(TopicConfig::new("c", 1));
    assert!(!has("c"));
    registrar.stop(Duration::from_secs(1)).await;
}

#[test]
fn a_table_that_is_too_large_goes_in_parts() {
    let settings = settings("");
    let config = settings.get();
    let topics: Vec<_> = (0..60_000)
        .map(|i| Arc::new(TopicConfig::new(format!("topic-{i}"), 8)))
        .collect();
    let version = DataVersion {
        state_version: None,
        timestamp: 1000,
        counter: 3,
    };
    let parts = message::register(&config, 0, &version, &topics);
    assert!(
        parts.len() > 1 && parts.iter().all(|p| p.body.len() < 8 << 20),
        "{}",
        parts.len()
    );
    let total: usize = parts.iter().map(|p| topics_of(p).len()).sum();
    assert_eq!(total, 60_000);
    assert_eq!(version_of(parts.last().unwrap()), version);
    let mut versions: Vec<_> = parts.iter().map(|p| version_of(p).timestamp).collect();
    versions.dedup();
    assert_eq!(versions.len(), parts.len());
    // A name server that goes by versions takes all of them.
    let server = name_server();
    parts
        .iter()
        .for_each(|p| assert_eq!(server.answer(p).code, 0));
    let request = Command::request(request_code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER);
    let list = server.answer(&request).body.concat();
    assert_eq!(list.split(|b| *b == b',').count(), 60_000);
    assert_eq!(
        message::register_in_parts(&config, 0, &version, &topics[..3], 1).len(),
        1
    );
    assert_eq!(
        message::register_in_parts(&config, 0, &version, &topics[..4], 1).len(),
        2
    );
}

#[tokio::test]
async fn a_large_table_is_not_sent_with_every_heartbeat() {
    let (recorder, server) = serve("127.0.0.1:0", false).await;
    let settings = settings(&server.local_addr().to_string());
    let topics = topic_table(&settings);
    (0..1100).for_each(|i| assert!(topics.put(TopicConfig::new(format!("t{i}"), 1))));
    let pending = Arc::new(Pending::default());
    let shared = Arc::new(Shared {
        settings: settings.clone(),
        topics: topics.clone(),
        embedded: None,
    });
    let mut worker = Worker::new(server.local_addr().to_string(), shared, pending);
    worker.register(0).await;
    worker.register(0).await;
    assert_eq!(recorder.codes(), [103, 322]);
    topics.put(TopicConfig::new("more", 1));
    worker.register(0).await;
    assert_eq!(recorder.codes(), [103, 322, 322, 103]);
}

#[tokio::test]
async fn the_real_name_server_is_reached_over_the_network() {
    let server = Arc::new(name_server());
    let listening = Server::bind(
        "127.0.0.1:0".parse().unwrap(),
        ServerConfig::default(),
        server.clone(),
    )
    .await
    .unwrap();
    let client = Client::new(ClientConfig::default(), None);
    let addr = listening.local_addr().to_string();
    let settings = settings("");
    let topics = topic_table(&settings);
    let (version, all) = topics.snapshot();
    let request = message::register(&settings.get(), 0, &version, &all).remove(0);
    let limit = Duration::from_secs(5);
    assert_eq!(client.call(&addr, request, limit).await.unwrap().code, 0);
    let route = Command::request(request_code::GET_ROUTEINFO_BY_TOPIC).field("topic", "TBW102");
    assert_eq!(
        client.call(&addr, route.clone(), limit).await.unwrap().code,
        0
    );
    // The broker's connection goes, and the broker with it.
    client.close().await;
    let client = Client::new(ClientConfig::default(), None);
    for attempt in 0.. {
        if client.call(&addr, route.clone(), limit).await.unwrap().code == 17 {
            break;
        }
        assert!(attempt < 200, "the broker is still known");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let unknown: Response = server.answer(&Command::request(12345));
    assert_eq!(unknown.code, 3);
}

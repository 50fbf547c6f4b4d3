//! Metadata between stock processes and ours: registration at stock name servers, stock tools at the embedded
//! name server, tables that a stock broker reads, changes and gives back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::config::{Cli, ConfigSource, Environment, Loaded, PropertyFile, Settings};
use broker::embedded_namesrv::NameServer;
use broker::namesrv::Registrar;
use broker::tables::json::{Map, Node, parse};
use broker::tables::{ConsumerOffsets, GroupConfig, GroupTable, TopicConfig, TopicTable, save};
use dledger::fs::{MemFs, RealFs};
use remoting::{Client, ClientConfig, Command, Server, ServerConfig};
use serde_json::{Value, json};
use tests::conf::Conf;
use tests::lab::Lab;
use tests::ours::OurBroker;
use tests::stock::{StockBroker, Version};

fn settings(name: &str, name_servers: &str) -> Arc<Settings> {
    let text = format!(
        "enableDLegerCommitLog=true\nbrokerName={name}\nbrokerIP1=127.0.0.1\nlistenPort=30911\nnamesrvAddr={name_servers}\n"
    );
    let file = PropertyFile::parse(text.as_bytes()).unwrap();
    let source = ConfigSource::File("/nowhere/broker.conf".into());
    let env = Environment::from_process();
    let loaded = Loaded::build(&file, source, &Cli::default(), &env).unwrap();
    Arc::new(Settings::new(loaded))
}

fn topics(settings: &Settings) -> Arc<TopicTable> {
    let fs = Arc::new(MemFs::new());
    Arc::new(TopicTable::open(fs, Path::new("/c"), &settings.get()).unwrap())
}

/// The route as a stock client of that generation gets it; `None` if there is none.
fn route(lab: &Lab, topic: &str) -> Option<Value> {
    let answer = lab.rpc(&lab.namesrv, 105, json!({"topic": topic})).unwrap();
    (answer["code"] == 0).then_some(answer)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(
            begin.elapsed() < Duration::from_secs(15),
            "{what} did not come true"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn stock_name_servers_know_the_broker_and_forget_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let labs = [Lab::shared(Version::V4), Lab::shared(Version::V5)];
    // Both generations at a time, and one that is gone.
    let list = format!("{};127.0.0.1:1;{}", labs[0].namesrv, labs[1].namesrv);
    let settings = settings("reg-broker", &list);
    let table = topics(&settings);
    let registrar =
        runtime.block_on(async { Registrar::start(settings.clone(), table.clone(), None) });
    std::thread::sleep(Duration::from_millis(300));
    for lab in labs {
        assert!(route(lab, "reg-broker").is_none());
    }
    registrar.lead(0);
    for lab in labs {
        until("the broker is known", || route(lab, "reg-broker").is_some());
    }
    // Changes arrive one by one, none is lost.
    for i in 0..20 {
        table.put(TopicConfig::new(format!("reg-topic-{i}"), 3));
    }
    for lab in labs {
        for i in 0..20 {
            let topic = format!("reg-topic-{i}");
            until(&topic, || route(lab, &topic).is_some());
        }
    }
    for lab in labs {
        let text = lab
            .admin(&["topicRoute", "-n", &lab.namesrv, "-t", "reg-topic-7"])
            .unwrap();
        assert!(
            text.contains("127.0.0.1:30911") && text.contains("\"writeQueueNums\":3"),
            "{text}"
        );
    }
    // A change of something that exists.
    table.put(TopicConfig::new("reg-topic-7", 5));
    for lab in labs {
        until("five queues", || {
            let text = lab
                .admin(&["topicRoute", "-n", &lab.namesrv, "-t", "reg-topic-7"])
                .unwrap();
            text.contains("\"writeQueueNums\":5")
        });
    }
    runtime.block_on(registrar.stop(Duration::from_secs(5)));
    for lab in labs {
        until("the broker is forgotten", || {
            route(lab, "reg-broker").is_none() && route(lab, "reg-topic-3").is_none()
        });
    }
}

#[test]
fn stock_tools_use_the_embedded_name_server() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let fs = Arc::new(MemFs::new());
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Arc::new(NameServer::open(fs, Path::new("/c"), any).unwrap());
    let listening = runtime
        .block_on(Server::bind(any, ServerConfig::default(), server.clone()))
        .unwrap();
    let addr = listening.local_addr().to_string();
    let settings = settings("emb-broker", "");
    let table = topics(&settings);
    let registrar =
        runtime.block_on(async { Registrar::start(settings, table.clone(), Some(server)) });
    registrar.lead(0);
    table.put(TopicConfig::new("emb-topic", 4));
    for version in [Version::V4, Version::V5] {
        let lab = Lab::shared(version);
        let admin = |argv: &[&str]| {
            let all: Vec<&str> = argv.iter().copied().chain(["-n", &addr]).collect();
            lab.admin(&all).unwrap()
        };
        let shows = |argv: &[&str], expected: &[&str]| {
            let text = admin(argv);
            for part in expected {
                assert!(
                    text.contains(part),
                    "{} {argv:?}: {part}\n{text}",
                    version.text()
                );
            }
        };
        shows(
            &["topicList"],
            &["emb-topic", "TBW102", "SCHEDULE_TOPIC_XXXX", "emb-broker"],
        );
        shows(
            &["topicRoute", "-t", "emb-topic"],
            &[
                "\"brokerName\":\"emb-broker\"",
                "127.0.0.1:30911",
                "\"perm\":6",
            ],
        );
        shows(
            &["topicClusterList", "-t", "emb-topic"],
            &["DefaultCluster"],
        );
        shows(
            &["updateKvConfig", "-s", "ns", "-k", "key", "-v", "value"],
            &["success"],
        );
        shows(&["deleteKvConfig", "-s", "ns", "-k", "key"], &["success"]);
        shows(&["wipeWritePerm", "-b", "emb-broker"], &["OK"]);
        shows(&["topicRoute", "-t", "emb-topic"], &["\"perm\":4"]);
        shows(&["addWritePerm", "-b", "emb-broker"], &["OK"]);
        shows(&["topicRoute", "-t", "emb-topic"], &["\"perm\":6"]);
        shows(&["getNamesrvConfig"], &["listenPort", "orderMessageEnable"]);
        shows(
            &[
                "updateNamesrvConfig",
                "-k",
                "orderMessageEnable",
                "-v",
                "true",
            ],
            &["success"],
        );
        shows(
            &["updateNamesrvConfig", "-k", "noSuchKey", "-v", "1"],
            &["noSuchKey is not known"],
        );
        shows(
            &["updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/x"],
            &["CODE: 16"],
        );
    }
    runtime.block_on(registrar.stop(Duration::from_secs(1)));
}

/// Tables as we write them for a store of the stock configuration.
fn open_tables(dir: &Path) -> (TopicTable, GroupTable, ConsumerOffsets) {
    let settings = settings("broker-a", "");
    let fs = RealFs::shared();
    (
        TopicTable::open(fs.clone(), dir, &settings.get()).unwrap(),
        GroupTable::open(fs.clone(), dir).unwrap(),
        ConsumerOffsets::open(fs, dir).unwrap(),
    )
}

fn write_tables(dir: &Path) {
    let (topics, groups, offsets) = open_tables(dir);
    for i in 0..50 {
        let mut topic = TopicConfig::new(format!("ours-{i}"), 1 + i % 16);
        topic.order = i % 7 == 0;
        topic.sys_flag = i % 4;
        topics.put(topic);
        let mut group = GroupConfig::new(format!("group-{i}"));
        group.retry_max_times = i;
        group.consume_broadcast_enable = i % 2 == 0;
        groups.put(group);
        for queue in 0..=(i % 5) {
            offsets.commit(
                &format!("group-{i}"),
                &format!("ours-{i}"),
                queue,
                i64::from(i) << 33,
            );
        }
    }
    topics.create_internal("%RETRY%group-1", 3, true);
    save(&topics).unwrap();
    save(&groups).unwrap();
    save(&offsets).unwrap();
}

fn check_tables(dir: &Path) {
    let (topics, groups, offsets) = open_tables(dir);
    for i in 0..50 {
        let topic = topics.get(&format!("ours-{i}")).unwrap();
        let queues = 1 + i % 16;
        assert_eq!(
            (topic.read_queues, topic.write_queues, topic.sys_flag),
            (queues, queues, i % 4)
        );
        assert_eq!(
            groups.get(&format!("group-{i}")).unwrap().retry_max_times,
            i
        );
        let committed = offsets.query(&format!("group-{i}"), &format!("ours-{i}"), i % 5);
        assert_eq!(committed, Some(i64::from(i) << 33));
    }
    assert_eq!(topics.get("%RETRY%group-1").unwrap().write_queues, 3);
}

fn table(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    addr: &str,
    code: i32,
    member: &str,
) -> Map {
    let call = client.call(addr, Command::request(code), Duration::from_secs(10));
    let answer = runtime.block_on(call).unwrap();
    assert_eq!(answer.code, 0, "{}", answer.remark());
    let body = parse(&answer.body).unwrap();
    body.as_map()
        .and_then(|m| m.get(member))
        .and_then(Node::as_map)
        .unwrap()
        .clone()
}

#[test]
fn stock_brokers_read_our_tables_and_give_them_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    write_tables(&store.join("config"));
    // One after another on the same store: what 4.9 rewrote is ours again, then 5.3 gets it.
    for version in [Version::V4, Version::V5] {
        let lab = Lab::shared(version);
        let conf = Conf::small(&store, &lab.namesrv).unwrap();
        let broker = StockBroker::start(version, &conf, dir.path()).unwrap();
        let addr = conf.ports.addr();
        let client = Client::new(ClientConfig::default(), None);
        let topics = table(&runtime, &client, &addr, 21, "topicConfigTable");
        let groups = table(&runtime, &client, &addr, 201, "subscriptionGroupTable");
        let offsets = table(&runtime, &client, &addr, 43, "offsetTable");
        for i in 0..50 {
            let topic = topics
                .get(&format!("ours-{i}"))
                .and_then(Node::as_map)
                .unwrap();
            assert_eq!(topic.i32("writeQueueNums"), Some(1 + i % 16));
            assert_eq!(topic.i32("topicSysFlag"), Some(i % 4));
            let group = groups
                .get(&format!("group-{i}"))
                .and_then(Node::as_map)
                .unwrap();
            assert_eq!(group.i32("retryMaxTimes"), Some(i));
            let queues = offsets
                .get(&format!("ours-{i}@group-{i}"))
                .and_then(Node::as_map)
                .unwrap();
            assert_eq!(queues.len(), usize::try_from(i % 5 + 1).unwrap());
            assert_eq!(queues.i64("0"), Some(i64::from(i) << 33));
        }
        // It writes its tables: topics at once, offsets when it stops.
        until("the broker leads", || {
            lab.admin(&[
                "updateTopic",
                "-b",
                &addr,
                "-t",
                "javas",
                "-n",
                &lab.namesrv,
            ])
            .unwrap()
            .contains("success")
        });
        broker.stop().unwrap();
        let topics = std::fs::read_to_string(store.join("config/topics.json")).unwrap();
        assert!(topics.contains("\"javas\":{"));
        check_tables(&store.join("config"));
    }
}

#[test]
fn stock_tools_change_our_configuration_and_hear_what_is_wrong() {
    for version in [Version::V4, Version::V5] {
        let lab = Lab::shared(version);
        let dir = tempfile::tempdir().unwrap();
        let conf = Conf::small(&dir.path().join("store"), &lab.namesrv).unwrap();
        let broker = OurBroker::start(&conf, dir.path()).unwrap();
        let addr = conf.ports.addr();
        let file = || std::fs::read_to_string(dir.path().join("broker.conf")).unwrap();
        let before = file();
        let update = |key: &str, value: &str| {
            lab.admin(&[
                "updateBrokerConfig",
                "-b",
                &addr,
                "-k",
                key,
                "-v",
                value,
                "-n",
                &lab.namesrv,
            ])
            .unwrap()
        };
        for (key, value, expected) in [
            ("noSuchKey", "1", "key noSuchKey is not known"),
            ("fileReservedTime", "3d", "value '3d' makes no sense"),
            ("aclEnable", "true", "access control"),
            ("brokerConfigPath", "/x", "CODE: 16"),
        ] {
            let text = update(key, value);
            assert!(
                text.contains(expected) && !text.contains("update broker config success"),
                "{key}: {text}"
            );
        }
        assert_eq!(file(), before);
        assert!(update("fileReservedTime", "71").contains("success"));
        assert!(update("listenPort", "30000").contains("success"));
        let shown = lab
            .admin(&["getBrokerConfig", "-b", &addr, "-n", &lab.namesrv])
            .unwrap();
        assert!(
            shown.contains("fileReservedTime") && shown.contains("71"),
            "{shown}"
        );
        assert!(file().contains("fileReservedTime=71\n") && file().contains("listenPort=30000\n"));
        let status = lab
            .admin(&["brokerStatus", "-b", &addr, "-n", &lab.namesrv])
            .unwrap();
        for key in [
            "putTps",
            "getTransferedTps",
            "getTransferredTps",
            "commitLogDirCapacity",
            "runtime",
        ] {
            assert!(status.contains(key), "{key}: {status}");
        }
        // Read only: clients are told at once, through the route.
        assert!(update("brokerPermission", "4").contains("success"));
        until("the route is read only", || {
            let text = lab
                .admin(&["topicRoute", "-n", &lab.namesrv, "-t", "TBW102"])
                .unwrap();
            text.contains("\"perm\":4")
        });
        broker.stop().unwrap();
    }
}

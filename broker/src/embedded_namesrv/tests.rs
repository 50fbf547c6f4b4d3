use super::*;
use crate::tables::json::{Map, Node, parse};
use crate::tables::{DataVersion, perm, save};
use base64::Engine;
use dledger::fs::MemFs;
use remoting::{ExtFields, FieldValue, SerializeType};
use std::io::Read;

fn server() -> NameServer {
    NameServer::open(
        Arc::new(MemFs::new()),
        Path::new("/c"),
        "127.0.0.1:9876".parse().unwrap(),
    )
    .unwrap()
}

fn command(code: i32, version: i32, fields: &[(&str, &str)], body: &[u8]) -> Command {
    let mut request = Command::request(code);
    request.version = version;
    request.serialize = SerializeType::Json;
    let mut ext = ExtFields::new();
    fields.iter().for_each(|(k, v)| ext.push(k, v));
    request.ext = ext;
    request.with_body(body.to_vec())
}

fn ask(server: &NameServer, code: i32, fields: &[(&str, &str)]) -> Response {
    server.handle(&command(code, 407, fields, b""), 1)
}

fn text(response: &Response) -> String {
    String::from_utf8(response.body.concat()).unwrap()
}

fn field(response: &Response, name: &str) -> Option<String> {
    let (_, value) = response.fields.iter().find(|(n, _)| n == name)?;
    Some(match value {
        FieldValue::Str(text) => text.to_string(),
        FieldValue::I64(number) => number.to_string(),
        FieldValue::I32(number) => number.to_string(),
        FieldValue::Bool(value) => value.to_string(),
        other => format!("{other:?}"),
    })
}

fn registration(
    name: &str,
    id: i64,
    addr: &str,
    counter: i64,
    topics: &[(&str, i32)],
) -> Registration {
    Registration {
        identity: BrokerIdentity {
            cluster: "C".into(),
            name: name.into(),
            addr: addr.into(),
            id,
        },
        ha_addr: format!("{addr}1"),
        timeout_ms: None,
        acting_master: None,
        version: DataVersion {
            state_version: None,
            timestamp: 1,
            counter,
        },
        topics: topics
            .iter()
            .map(|(t, queues)| TopicConfig::new(*t, *queues))
            .collect(),
    }
}

/// Lines of a recorded conversation that concern the name server.
fn trace(name: &str) -> Vec<Map> {
    let path = format!(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/data/traces/{}.jsonl.gz"
        ),
        name
    );
    let mut all = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).expect(&path))
        .read_to_string(&mut all)
        .unwrap();
    let lines = all
        .lines()
        .filter_map(|l| parse(l.as_bytes()).unwrap().as_map().cloned());
    lines
        .filter(|m| {
            m.str("via").is_some_and(|via| via.ends_with(">namesrv")) && m.get("code").is_some()
        })
        .collect()
}

fn body_of(frame: &Map) -> Vec<u8> {
    let decode = |b| base64::engine::general_purpose::STANDARD.decode(b).unwrap();
    frame.str("body").map(decode).unwrap_or_default()
}

fn request_of(frame: &Map) -> Command {
    let ext: Vec<(String, String)> = frame
        .get("extFields")
        .and_then(Node::as_map)
        .into_iter()
        .flat_map(Map::iter)
        .map(|(k, v)| (k.to_string(), v.as_str().unwrap().to_string()))
        .collect();
    let fields: Vec<(&str, &str)> = ext.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    command(
        frame.i32("code").unwrap(),
        frame.i32("version").unwrap(),
        &fields,
        &body_of(frame),
    )
}

/// Sorts lists: Java prints sets in the order of their hashes.
fn sorted(node: &Node) -> Node {
    match node {
        Node::List(items) => {
            let mut items: Vec<Node> = items.iter().map(sorted).collect();
            items.sort_by_key(|i| format!("{i:?}"));
            Node::List(items)
        }
        other => other.clone(),
    }
}

/// Plays the requests of recorded conversations and compares every answer; how many there were.
fn replay(names: &[&str]) -> usize {
    let server = server();
    let mut compared = 0;
    for name in names {
        let mut waiting: Vec<(i64, i32, Response)> = Vec::new();
        for frame in trace(name) {
            let (conn, opaque) = (frame.i64("conn").unwrap(), frame_opaque(&frame));
            if frame.str("dir") == Some("c2s") {
                let answer = server.handle(&request_of(&frame), u64::try_from(conn).unwrap());
                waiting.push((conn, opaque, answer));
                continue;
            }
            let at = waiting
                .iter()
                .position(|(c, o, _)| (*c, *o) == (conn, opaque));
            let Some(at) = at else { continue };
            let (_, _, answer) = waiting.remove(at);
            let what = format!("{name}: {:?}", frame.str("hdr"));
            assert_eq!(Some(answer.code), frame.i32("code"), "{what}");
            // The generations differ in where they send the reader.
            let faq = |r: &str| {
                r.replace(
                    "https://rocketmq.apache.org/docs/bestPractice/06FAQ",
                    "http://rocketmq.apache.org/docs/faq/",
                )
            };
            assert_eq!(
                answer.remark.as_deref(),
                frame.str("remark").map(faq).as_deref(),
                "{what}"
            );
            let has_fields = answer.has_fields || !answer.fields.is_empty();
            assert_eq!(
                has_fields,
                frame.get("extFields").and_then(Node::as_map).is_some(),
                "{what}"
            );
            let (ours, javas) = (text(&answer), String::from_utf8(body_of(&frame)).unwrap());
            if ours != javas {
                let (ours, javas) = (
                    parse(ours.as_bytes()).unwrap(),
                    parse(javas.as_bytes()).unwrap(),
                );
                let list = |n: &Node| n.as_map().and_then(|m| m.get("topicList")).map(sorted);
                assert!(
                    list(&ours).is_some() && list(&ours) == list(&javas),
                    "{what}\n{ours:?}\n{javas:?}"
                );
            }
            compared += 1;
        }
    }
    compared
}

fn frame_opaque(frame: &Map) -> i32 {
    frame.i32("opaque").unwrap()
}

#[test]
fn answers_equal_those_of_a_stock_name_server() {
    let four = [
        "broker-start-registration-4.9.7",
        "topic-create-4.9.7",
        "producer-start-topic-autocreate-4.9.7",
        "send-orderly-queue-4.9.7",
    ];
    let compared = replay(&four);
    assert!(compared > 10, "{compared}");
    let five = [
        "broker-start-registration-5.3.3",
        "topic-create-5.3.3",
        "producer-start-topic-autocreate-5.3.3",
    ];
    let compared = replay(&five);
    assert!(compared > 5, "{compared}");
}

#[test]
fn compressed_registrations_of_both_generations_are_read() {
    for (name, topics) in [
        ("registration-compressed-4.9.7", 8),
        ("registration-compressed-5.3.3", 13),
    ] {
        let server = server();
        let frame = trace(name)
            .into_iter()
            .find(|f| f.i32("code") == Some(103))
            .unwrap();
        let answer = server.handle(&request_of(&frame), 1);
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        let routes = server.routes.lock();
        assert_eq!(routes.topics().len(), topics);
        let (_, queues) = routes.route("TBW102").unwrap();
        assert_eq!((queues[0].1.perm, queues[0].1.write_queues), (7, 8));
    }
}

#[test]
fn broken_registrations_are_refused_with_the_reason() {
    let server = server();
    let fields = [
        ("brokerName", "b"),
        ("brokerAddr", "a:1"),
        ("clusterName", "C"),
        ("brokerId", "0"),
    ];
    let send = |extra: &[(&str, &str)], body: &[u8]| {
        let all: Vec<_> = fields.iter().chain(extra).copied().collect();
        server.handle(&command(103, 407, &all, body), 1)
    };
    assert_eq!(
        send(&[("bodyCrc32", "1")], b"{}").remark.as_deref(),
        Some("crc32 not match")
    );
    for (extra, body) in [
        (&[][..], &b"{"[..]),
        (&[("compressed", "true")], b"{}"),
        (&[], b"\x78\xda\x63"),
        (&[("heartbeatTimeoutMillis", "x")], b"{}"),
    ] {
        assert_eq!(send(extra, body).code, 1, "{body:?}");
    }
    assert_eq!(ask(&server, 103, &fields[..3]).code, 1);
    assert!(server.routes.lock().brokers().is_empty());
    assert_eq!(send(&[], b"").code, 0);
    assert_eq!(send(&[], b"{\"filterServerList\":[]}").code, 0);
    assert_eq!(server.routes.lock().brokers().len(), 1);
}

#[test]
fn routes_have_the_form_that_the_client_reads() {
    let server = server();
    let mut first = registration("b-é", 0, "a:1", 1, &[("t", 4)]);
    first.acting_master = Some(false);
    server.register_local(&first);
    let old = server.handle(&command(105, 317, &[("topic", "t")], b""), 1);
    assert_eq!(
        text(&old),
        "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"a:1\"},\"brokerName\":\"b-é\",\"cluster\":\"C\",\"enableActingMaster\":false}],\"filterServerTable\":{},\"queueDatas\":[{\"brokerName\":\"b-é\",\"perm\":6,\"readQueueNums\":4,\"topicSysFlag\":0,\"writeQueueNums\":4}]}"
    );
    let standard = text(&server.handle(&command(105, 401, &[("topic", "t")], b""), 1));
    assert!(
        standard.contains("\"brokerAddrs\":{\"0\":\"a:1\"},\"brokerName\":\"b-\\u00e9\""),
        "{standard}"
    );
    let asked = [("topic", "t"), ("acceptStandardJsonOnly", "true")];
    assert_eq!(
        text(&server.handle(&command(105, 317, &asked, b""), 1)),
        standard
    );
    let none = ask(&server, 105, &[("topic", "none")]);
    assert_eq!(none.code, 17);
    let remark = "No topic route info in name server for the topic: none\nSee http://rocketmq.apache.org/docs/faq/ for further details.";
    assert_eq!(none.remark.as_deref(), Some(remark));
    assert_eq!(ask(&server, 105, &[]).code, 1);
    let unknown = ask(&server, 9999, &[]);
    assert_eq!(
        (unknown.code, unknown.remark.as_deref()),
        (3, Some(" request type 9999 not supported"))
    );
}

#[test]
fn a_slave_learns_its_master_and_its_topics_do_not_count() {
    let mut routes = Routes::default();
    assert_eq!(
        routes.register(
            &registration("b", 1, "s:1", 1, &[("only-slave", 1)]),
            Owner::Connection(2),
            0
        ),
        None
    );
    assert_eq!(
        routes.register(
            &registration("b", 0, "m:1", 1, &[("t", 4)]),
            Owner::Connection(1),
            0
        ),
        None
    );
    let hint = routes
        .register(
            &registration("b", 1, "s:1", 2, &[("t", 9)]),
            Owner::Connection(2),
            0,
        )
        .unwrap();
    assert_eq!((hint.addr.as_str(), hint.ha_addr.as_str()), ("m:1", "m:11"));
    assert_eq!(routes.topics(), ["t"]);
    assert_eq!(routes.route("t").unwrap().1[0].1.write_queues, 4);
    // The master goes: the topic stays, served by the slave.
    routes.connection_closed(1);
    let (brokers, queues) = routes.route("t").unwrap();
    assert_eq!(brokers[0].1.addrs.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(queues[0].1.perm, perm::READ | perm::WRITE);
    routes.connection_closed(2);
    assert!(
        routes.route("t").is_none() && routes.topics().is_empty() && routes.brokers().is_empty()
    );
}

#[test]
fn a_candidate_without_a_role_changes_nothing() {
    let mut routes = Routes::default();
    routes.register(
        &registration("b", 0, "m:1", 1, &[("t", 4)]),
        Owner::Connection(1),
        0,
    );
    let mut candidate = registration("b", -1, "s:1", 9, &[("t", 4)]);
    candidate.acting_master = Some(true);
    routes.register(&candidate, Owner::Connection(2), 0);
    assert_eq!(routes.route("t").unwrap().1[0].1.perm, 6);
    assert_eq!(routes.brokers()["b"].addrs.len(), 1);
}

#[test]
fn a_changed_role_leaves_one_entry() {
    let mut routes = Routes::default();
    routes.register(
        &registration("b", 0, "m:1", 1, &[("t", 4)]),
        Owner::Connection(1),
        0,
    );
    routes.register(
        &registration("b", 2, "s:1", 1, &[]),
        Owner::Connection(2),
        0,
    );
    // The slave takes over: its address moves to id 0, the old master's entry is replaced.
    routes.register(
        &registration("b", 0, "s:1", 1, &[("t", 5)]),
        Owner::Connection(2),
        0,
    );
    assert_eq!(
        routes.brokers()["b"]
            .addrs
            .iter()
            .map(|(i, a)| (*i, a.as_str()))
            .collect::<Vec<_>>(),
        [(0, "s:1")]
    );
    assert_eq!(
        routes.route("t").unwrap().1[0].1.write_queues,
        5,
        "the first registration under an id counts"
    );
    // The old master's connection closes late: it must not take the new entry along.
    routes.connection_closed(1);
    assert_eq!(routes.brokers()["b"].addrs.len(), 1);
    routes.unregister(&BrokerIdentity {
        cluster: "C".into(),
        name: "b".into(),
        addr: "m:1".into(),
        id: 0,
    });
    assert_eq!(routes.brokers()["b"].addrs.len(), 1);
}

#[test]
fn a_higher_state_version_keeps_its_id() {
    let mut routes = Routes::default();
    let mut holder = registration("b", 0, "m:1", 1, &[("t", 4)]);
    holder.version.state_version = Some(5);
    routes.register(&holder, Owner::Connection(1), 0);
    routes.register(
        &registration("b", 0, "x:1", 1, &[("t", 1)]),
        Owner::Connection(2),
        0,
    );
    assert_eq!(routes.brokers()["b"].addrs[&0], "m:1");
}

#[test]
fn topics_follow_versions_and_are_added_one_by_one() {
    let mut routes = Routes::default();
    let owner = Owner::Connection(1);
    routes.register(
        &registration("b", 0, "m:1", 1, &[("t", 4), ("u", 1)]),
        owner,
        0,
    );
    routes.register(
        &registration("b", 0, "m:1", 1, &[("t", 9), ("new", 2)]),
        owner,
        0,
    );
    assert_eq!(
        routes.route("t").unwrap().1[0].1.write_queues,
        4,
        "same version, nothing new"
    );
    assert!(
        routes.route("new").is_some(),
        "a topic that is not known is taken anyhow"
    );
    routes.register(&registration("b", 0, "m:1", 2, &[("t", 9)]), owner, 0);
    assert_eq!(routes.route("t").unwrap().1[0].1.write_queues, 9);
    assert_eq!(routes.topics(), ["new", "t", "u"]);
}

#[test]
fn silent_brokers_are_forgotten() {
    let mut routes = Routes::default();
    routes.register(
        &registration("local", 0, "l:1", 1, &[("t", 1)]),
        Owner::Local,
        0,
    );
    routes.register(
        &registration("a", 0, "a:1", 1, &[("t", 1)]),
        Owner::Connection(7),
        0,
    );
    let mut quick = registration("q", 0, "q:1", 1, &[("t", 1)]);
    quick.timeout_ms = Some(3000);
    routes.register(&quick, Owner::Connection(8), 0);
    assert_eq!(routes.expire(3000), Vec::<u64>::new());
    assert_eq!(routes.expire(3001), [8]);
    let a = registration("a", 0, "a:1", 1, &[]).identity;
    assert!(routes.touch(&a, 100_000).is_some());
    assert_eq!(routes.expire(220_000), Vec::<u64>::new());
    assert_eq!(routes.expire(220_001), [7]);
    assert_eq!(routes.brokers().keys().collect::<Vec<_>>(), ["local"]);
    assert!(routes.touch(&a, 0).is_none());
}

#[test]
fn the_own_broker_outlives_a_connection_that_also_registers_it() {
    let mut routes = Routes::default();
    let own = registration("b", 0, "m:1", 1, &[("t", 1)]);
    routes.register(&own, Owner::Local, 0);
    routes.register(&own, Owner::Connection(3), 0);
    routes.connection_closed(3);
    assert!(routes.route("t").is_some());
    assert_eq!(routes.expire(i64::MAX), Vec::<u64>::new());
}

#[test]
fn lists_wiping_and_deleting() {
    let server = server();
    let mut unit = registration(
        "b",
        0,
        "m:1",
        1,
        &[("plain", 1), ("unit", 1), ("sub", 1), ("both", 1)],
    );
    unit.topics[1].sys_flag = 1;
    unit.topics[2].sys_flag = 2;
    unit.topics[3].sys_flag = 3;
    server.register_local(&unit);
    let mut other = registration("o", 0, "n:1", 1, &[("plain", 2)]);
    other.identity.cluster = "D".into();
    server.register_local(&other);
    let list = |code, fields: &[(&str, &str)]| text(&ask(&server, code, fields));
    assert_eq!(
        list(206, &[]),
        "{\"topicList\":[\"both\",\"plain\",\"sub\",\"unit\"]}"
    );
    assert_eq!(
        list(224, &[("cluster", "D")]),
        "{\"topicList\":[\"plain\"]}"
    );
    assert_eq!(list(224, &[("cluster", "none")]), "{\"topicList\":[]}");
    assert_eq!(
        list(304, &[]),
        "{\"brokerAddr\":\"m:1\",\"topicList\":[\"C\",\"D\",\"b\",\"o\"]}"
    );
    assert_eq!(list(311, &[]), "{\"topicList\":[\"both\",\"unit\"]}");
    assert_eq!(list(312, &[]), "{\"topicList\":[\"both\",\"sub\"]}");
    assert_eq!(list(313, &[]), "{\"topicList\":[\"sub\"]}");
    assert_eq!(
        list(106, &[]),
        "{\"brokerAddrTable\":{\"b\":{\"brokerAddrs\":{0:\"m:1\"},\"brokerName\":\"b\",\"cluster\":\"C\"},\"o\":{\"brokerAddrs\":{0:\"n:1\"},\"brokerName\":\"o\",\"cluster\":\"D\"}},\"clusterAddrTable\":{\"C\":[\"b\"],\"D\":[\"o\"]}}"
    );
    assert_eq!(
        field(&ask(&server, 205, &[("brokerName", "b")]), "wipeTopicCount").as_deref(),
        Some("4")
    );
    assert_eq!(
        server.routes.lock().route("plain").unwrap().1[0].1.perm,
        perm::READ
    );
    assert_eq!(server.routes.lock().route("plain").unwrap().1[1].1.perm, 6);
    assert_eq!(
        field(&ask(&server, 327, &[("brokerName", "b")]), "addTopicCount").as_deref(),
        Some("4")
    );
    assert_eq!(server.routes.lock().route("plain").unwrap().1[0].1.perm, 6);
    assert_eq!(
        field(&ask(&server, 205, &[("brokerName", "x")]), "wipeTopicCount").as_deref(),
        Some("0")
    );
    assert_eq!(
        ask(&server, 216, &[("topic", "plain"), ("clusterName", "C")]).code,
        0
    );
    assert_eq!(server.routes.lock().route("plain").unwrap().1.len(), 1);
    assert_eq!(ask(&server, 216, &[("topic", "plain")]).code, 0);
    assert_eq!(ask(&server, 216, &[("topic", "plain")]).code, 0);
    assert!(server.routes.lock().route("plain").is_none());
    let members = text(&ask(
        &server,
        901,
        &[("clusterName", "C"), ("brokerName", "b")],
    ));
    assert_eq!(
        members,
        "{\"brokerMemberGroup\":{\"brokerAddrs\":{0:\"m:1\"},\"brokerName\":\"b\",\"cluster\":\"C\"}}"
    );
    let route = b"{\"brokerDatas\":[],\"queueDatas\":[{\"brokerName\":\"b\",\"perm\":6,\"readQueueNums\":3,\"topicSysFlag\":0,\"writeQueueNums\":3},{\"brokerName\":\"ghost\",\"perm\":6,\"readQueueNums\":3,\"writeQueueNums\":3}]}";
    assert_eq!(
        server
            .handle(&command(217, 479, &[("topic", "one")], route), 1)
            .code,
        0
    );
    assert_eq!(server.routes.lock().route("one").unwrap().1.len(), 1);
}

#[test]
fn versions_are_asked_for() {
    let server = server();
    server.register_local(&registration("b", 0, "m:1", 4, &[("t", 1)]));
    let fields = [
        ("brokerName", "b"),
        ("brokerAddr", "m:1"),
        ("clusterName", "C"),
        ("brokerId", "0"),
    ];
    let query = |body: &str| server.handle(&command(322, 407, &fields, body.as_bytes()), 1);
    let same = query("{\"counter\":4,\"timestamp\":1}");
    assert_eq!(field(&same, "changed").as_deref(), Some("false"));
    assert_eq!(text(&same), "{\"counter\":4,\"timestamp\":1}");
    assert_eq!(
        field(&query("{\"counter\":5,\"timestamp\":1}"), "changed").as_deref(),
        Some("true")
    );
    server.unregister_local(&registration("b", 0, "m:1", 4, &[]).identity);
    let gone = query("{\"counter\":4,\"timestamp\":1}");
    assert_eq!(
        (field(&gone, "changed").as_deref(), text(&gone).as_str()),
        (Some("true"), "")
    );
    assert_eq!(ask(&server, 904, &fields).code, 0);
    assert_eq!(ask(&server, 104, &fields).code, 0);
}

#[test]
fn pairs_are_kept_and_order_topics_told() {
    let fs = Arc::new(MemFs::new());
    let listen = "127.0.0.1:9876".parse().unwrap();
    let server = NameServer::open(fs.clone(), Path::new("/c"), listen).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = told.clone();
    server.on_order_topic(move |topic| sink.lock().push(topic.to_string()));
    let (ns, key) = (("namespace", ORDER_NAMESPACE), ("key", "t"));
    let missing = ask(&server, 101, &[ns, key]);
    assert_eq!((missing.code, missing.has_fields), (22, true));
    assert_eq!(
        missing.remark.as_deref(),
        Some("No config item, Namespace: ORDER_TOPIC_CONFIG Key: t")
    );
    assert_eq!(ask(&server, 219, &[ns]).code, 22);
    assert_eq!(ask(&server, 100, &[ns, key, ("value", "b:4")]).code, 0);
    assert_eq!(
        ask(
            &server,
            100,
            &[("namespace", "n"), ("key", "k"), ("value", "v")]
        )
        .code,
        0
    );
    assert_eq!(*told.lock(), ["t"]);
    assert_eq!(
        field(&ask(&server, 101, &[ns, key]), "value").as_deref(),
        Some("b:4")
    );
    assert_eq!(
        text(&ask(&server, 219, &[ns])),
        "{\"table\":{\"t\":\"b:4\"}}"
    );
    // A registering broker is told the order topics.
    let fields = [
        ("brokerName", "b"),
        ("brokerAddr", "a:1"),
        ("clusterName", "C"),
        ("brokerId", "0"),
    ];
    assert_eq!(
        text(&ask(&server, 103, &fields)),
        "{\"table\":{\"t\":\"b:4\"}}"
    );
    save(server.kv().as_ref()).unwrap();
    let file = fs.read(Path::new("/c/namesrvKvConfig.json")).unwrap();
    let expected = "{\n\t\"configTable\":{\n\t\t\"ORDER_TOPIC_CONFIG\":{\n\t\t\t\"t\":\"b:4\"\n\t\t},\n\t\t\"n\":{\n\t\t\t\"k\":\"v\"\n\t\t}\n\t}\n}";
    assert_eq!(String::from_utf8(file).unwrap(), expected);
    let again = NameServer::open(fs, Path::new("/c"), listen).unwrap();
    assert_eq!(again.order_topics(), ["t"]);
    assert_eq!(ask(&again, 102, &[ns, key]).code, 0);
    assert_eq!(ask(&again, 101, &[ns, key]).code, 22);
}

#[test]
fn settings_are_shown_and_honestly_changed() {
    let server = server();
    let shown = text(&ask(&server, 319, &[]));
    for line in [
        "listenPort=9876",
        "bindAddress=127.0.0.1",
        "orderMessageEnable=false",
        "clusterTest=false",
    ] {
        assert!(shown.lines().any(|l| l == line), "{shown}");
    }
    let update = |body: &str| server.handle(&command(318, 407, &[], body.as_bytes()), 1);
    assert_eq!(update("clusterTest=false\n").code, 0);
    assert_eq!(update("kvConfigPath=/nowhere\n").code, 16);
    for (body, expected) in [
        ("listenPort=1", "present one"),
        ("noSuch=1", "not known"),
        ("orderMessageEnable=1", "present one"),
    ] {
        let answer = update(body);
        assert!(
            answer.code == 1 && answer.remark.as_deref().unwrap().contains(expected),
            "{body}: {answer:?}"
        );
    }
    server.register_local(&registration("b", 0, "m:1", 1, &[("t", 1)]));
    ask(
        &server,
        100,
        &[
            ("namespace", ORDER_NAMESPACE),
            ("key", "t"),
            ("value", "b:1"),
        ],
    );
    assert!(!text(&ask(&server, 105, &[("topic", "t")])).contains("orderTopicConf"));
    assert_eq!(update("orderMessageEnable=true").code, 0);
    assert!(
        text(&ask(&server, 105, &[("topic", "t")]))
            .contains("\"filterServerTable\":{},\"orderTopicConf\":\"b:1\",\"queueDatas\"")
    );
}

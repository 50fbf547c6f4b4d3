//! 10, 310, 320, 324, 36.

use remoting::message::{BatchItem, OffsetId, encode_batch_item};
use remoting::{Command, request_code as code};

use crate::common::{TestBroker, bodies, heartbeat, records, send_command, send_header};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_comes_back_as_it_was_sent() {
    let broker = TestBroker::start().await;
    let answer = broker
        .call(send_command(
            "T",
            1,
            "KEYS\u{1}k\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA",
            "hello",
        ))
        .await;
    assert_eq!((answer.code, answer.ext.get("queueId")), (0, Some("1")));
    assert_eq!(
        (answer.ext.get("TRACE_ON"), answer.ext.get("MSG_REGION")),
        (Some("true"), Some("DefaultRegion"))
    );
    let (host, offset) = OffsetId::parse(answer.ext.get("msgId").unwrap()).unwrap();
    assert_eq!(host.to_string(), broker.addr);

    let pulled = broker.pull("T", 1, 0, "*").await;
    let [record] = &records(&pulled.body)[..] else {
        panic!("{:?}", pulled.remark)
    };
    assert_eq!(
        (
            record.body.as_str(),
            record.queue_offset,
            record.physical_offset
        ),
        ("hello", 0, offset)
    );
    // WAIT is between client and broker; the cluster is the broker's to add.
    let names: Vec<_> = record.properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["CLUSTER", "KEYS", "TAGS"]);

    let viewed = broker
        .ask(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset.to_string())])
        .await;
    assert_eq!(viewed.body, pulled.body);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v1_names_and_bare_numbers_are_understood() {
    let broker = TestBroker::start().await;
    let mut v1 = Command::request(code::SEND_MESSAGE).with_body("v1");
    send_header("T", 0, "").write_v1(&mut v1.ext);
    assert_eq!(broker.call(v1).await.code, 0);
    // The batch flag as old C++ clients write it.
    let mut flags = send_command("T", 0, "", "flags");
    flags.ext.set("m", "0");
    flags.ext.set("k", "1");
    assert_eq!(broker.call(flags).await.code, 0);
    assert_eq!(bodies(&broker.pull("T", 0, 0, "*").await), ["v1", "flags"]);
    let mut missing = send_command("T", 0, "", "x");
    missing.ext.remove("e");
    let answer = broker.call(missing).await;
    assert_eq!(answer.code, 1);
    assert!(answer.remark().contains("queueId"), "{}", answer.remark());
    broker.stop().await;
}

fn batch(count: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for n in 0..count {
        let text = format!("b{n}");
        let properties = format!("KEYS\u{1}key{n}\u{2}");
        let item = BatchItem {
            flag: 0,
            body: text.as_bytes(),
            properties: properties.as_bytes(),
        };
        encode_batch_item(&mut body, &item).unwrap();
    }
    body
}

fn batch_command(request_code: i32, flag: Option<bool>, body: Vec<u8>) -> Command {
    let mut command = send_command("T", 0, "", "").with_body(body);
    command.code = request_code;
    command.ext.remove("m");
    if let Some(flag) = flag {
        command.ext.push("m", if flag { "true" } else { "false" });
    }
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_of_a_batch_has_an_id_of_its_own() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "before").await;
    let answer = broker
        .call(batch_command(
            code::SEND_BATCH_MESSAGE,
            Some(true),
            batch(5),
        ))
        .await;
    assert_eq!((answer.code, answer.ext.get("queueOffset")), (0, Some("1")));
    let ids: Vec<_> = answer.ext.get("msgId").unwrap().split(',').collect();
    assert_eq!(ids.len(), 5);
    for (n, id) in ids.iter().enumerate() {
        let (_, offset) = OffsetId::parse(id).unwrap();
        let viewed = broker
            .ask(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset.to_string())])
            .await;
        let record = &records(&viewed.body)[0];
        assert_eq!(
            (record.body.clone(), record.queue_offset),
            (format!("b{n}"), 1 + n as i64)
        );
        assert_eq!(record.properties["KEYS"], format!("key{n}"));
    }
    assert_eq!(
        bodies(&broker.pull("T", 0, 0, "*").await),
        ["before", "b0", "b1", "b2", "b3", "b4"]
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_decides_what_is_a_batch_and_nothing_unreadable_is_stored() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "first").await;
    let cases = [
        (code::SEND_MESSAGE_V2, Some(true), batch(2), 0),
        (code::SEND_MESSAGE, Some(true), batch(2), 0),
        (code::SEND_BATCH_MESSAGE, Some(true), batch(2), 0),
        (code::SEND_BATCH_MESSAGE, None, batch(2), 0),
        (code::SEND_BATCH_MESSAGE, Some(false), batch(2), 13),
        (code::SEND_BATCH_MESSAGE, Some(false), b"single".to_vec(), 0),
        (code::SEND_BATCH_MESSAGE, Some(true), b"single".to_vec(), 13),
        (code::SEND_BATCH_MESSAGE, None, b"single".to_vec(), 13),
        (code::SEND_MESSAGE_V2, Some(true), b"single".to_vec(), 13),
        (code::SEND_MESSAGE_V2, Some(true), Vec::new(), 13),
        (code::SEND_MESSAGE_V2, None, b"single".to_vec(), 0),
    ];
    for (request_code, flag, body, wanted) in cases {
        let answer = broker
            .call(batch_command(request_code, flag, body.clone()))
            .await;
        assert_eq!(
            answer.code,
            wanted,
            "code {request_code} flag {flag:?} body {} bytes",
            body.len()
        );
    }
    let mut compressed = batch_command(code::SEND_BATCH_MESSAGE, Some(true), batch(2));
    compressed.ext.set("f", "1");
    assert_eq!(broker.call(compressed).await.code, 13);
    let mut delayed = batch_command(code::SEND_BATCH_MESSAGE, Some(true), batch(2));
    delayed.ext.set("i", "DELAY\u{1}3");
    assert_eq!(broker.call(delayed).await.code, 13);
    let all = bodies(&broker.pull("T", 0, 0, "*").await);
    assert_eq!(
        all,
        [
            "first", "b0", "b1", "b0", "b1", "b0", "b1", "b0", "b1", "single", "single"
        ]
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_told_why() {
    let broker = TestBroker::with("autoCreateTopicEnable=false").await;
    let cases = [
        (
            send_command("Unknown", 0, "", "x"),
            17,
            "topic[Unknown] not exist",
        ),
        (
            send_command("bad topic!", 0, "", "x"),
            1,
            "illegal characters",
        ),
        (
            send_command(&"x".repeat(128), 0, "", "x"),
            1,
            "longer than topic max length",
        ),
        (
            send_command("SCHEDULE_TOPIC_XXXX", 0, "", "x"),
            16,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
        ),
        (
            send_command("DefaultCluster", 99, "", "x"),
            1,
            "request queueId[99] is illegal, TopicConfig [topicName=DefaultCluster, ",
        ),
        (
            send_command("DefaultCluster", 0, "TRAN_MSG\u{1}true", "x"),
            3,
            "transactional messages",
        ),
        (
            send_command("DefaultCluster", 0, "TIMER_DELAY_MS\u{1}500", "x"),
            1,
            "delay level",
        ),
        (
            send_command("DefaultCluster", 0, "DELAY\u{1}soon", "x"),
            13,
            "soon",
        ),
        (
            send_command(
                "DefaultCluster",
                0,
                &format!("A\u{1}{}", "v".repeat(32_800)),
                "x",
            ),
            13,
            "properties",
        ),
    ];
    for (command, wanted, remark) in cases {
        let answer = broker.call(command).await;
        assert_eq!(answer.code, wanted, "{:?}", answer.remark);
        assert!(answer.remark().contains(remark), "{:?}", answer.remark);
        assert!(answer.ext.get("MSG_REGION").is_some());
    }
    let big = send_command("DefaultCluster", 0, "", "").with_body(vec![b'x'; 5 << 20]);
    assert_eq!(broker.call(big).await.code, 13);
    broker.send("DefaultCluster", 0, "", "").await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_made_by_its_first_message_and_is_on_disk_by_then() {
    let broker = TestBroker::start().await;
    let answer = broker.call(send_command("Fresh", -1, "", "x")).await;
    assert_eq!(answer.code, 0);
    let queue: i32 = answer.ext.require_i32("queueId").unwrap();
    assert!((0..4).contains(&queue));
    let table =
        std::fs::read_to_string(broker.dir.path().join("store/config/topics.json")).unwrap();
    assert!(table.contains("\"Fresh\""), "{table}");
    let no_default = send_command("Other", 0, "", "x");
    let mut no_default = no_default;
    no_default.ext.set("c", "Nothing");
    assert_eq!(broker.call(no_default).await.code, 17);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_messages_wait_where_java_lets_them_wait() {
    let broker = TestBroker::start().await;
    let answer = broker
        .call(send_command("T", 2, "TAGS\u{1}x\u{2}DELAY\u{1}3", "later"))
        .await;
    // The answer names the queue asked for, offset and id are those of the waiting message.
    assert_eq!(
        (
            answer.code,
            answer.ext.get("queueId"),
            answer.ext.get("queueOffset")
        ),
        (0, Some("2"), Some("0"))
    );
    let pulled = broker.pull("SCHEDULE_TOPIC_XXXX", 2, 0, "*").await;
    let [record] = &records(&pulled.body)[..] else {
        panic!("{:?}", pulled.remark)
    };
    assert_eq!(
        (record.topic.as_str(), record.queue_id),
        ("SCHEDULE_TOPIC_XXXX", 2)
    );
    assert_eq!(
        (
            record.properties["REAL_TOPIC"].as_str(),
            record.properties["REAL_QID"].as_str()
        ),
        ("T", "2")
    );
    let info = broker.ask(code::GET_BROKER_RUNTIME_INFO, &[]).await;
    assert!(crate::common::text(&info).contains("\"scheduleMessageOffset_3\":\"0,1\""));
    // Levels beyond the last wait in its queue.
    broker.send("T", 0, "DELAY\u{1}99", "much later").await;
    assert_eq!(broker.pull("SCHEDULE_TOPIC_XXXX", 17, 0, "*").await.code, 0);
    assert!(
        !broker
            .dir
            .path()
            .join("store/config/delayOffset.json")
            .exists()
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_given_back_waits_for_its_retry_and_at_last_is_a_dead_letter() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "TAGS\u{1}x", "try me").await;
    let offset = records(&broker.pull("T", 0, 0, "*").await.body)[0]
        .physical_offset
        .to_string();
    let back = |level: &'static str, max: &'static str| {
        let offset = offset.clone();
        [
            ("offset", offset),
            ("group", "G".to_owned()),
            ("delayLevel", level.to_owned()),
            ("originMsgId", "x".to_owned()),
            ("originTopic", "T".to_owned()),
            ("unitMode", "false".to_owned()),
            ("maxReconsumeTimes", max.to_owned()),
        ]
    };
    let fields = |fields: &[(&'static str, String); 7]| {
        fields.iter().fold(
            Command::request(code::CONSUMER_SEND_MSG_BACK),
            |command, (name, value)| command.field(name, value),
        )
    };
    assert_eq!(broker.call(fields(&back("0", "16"))).await.code, 0);
    let waiting = broker.pull("SCHEDULE_TOPIC_XXXX", 2, 0, "*").await;
    let record = &records(&waiting.body)[0];
    assert_eq!(
        (record.body.as_str(), record.reconsume_times),
        ("try me", 1)
    );
    assert_eq!(record.properties["REAL_TOPIC"], "%RETRY%G");
    assert_eq!(record.properties["RETRY_TOPIC"], "T");
    assert_eq!(record.properties["ORIGIN_MESSAGE_ID"].len(), 32);
    assert_eq!(record.properties["WAIT"], "false");

    assert_eq!(broker.call(fields(&back("0", "0"))).await.code, 0);
    assert_eq!(broker.call(fields(&back("-1", "16"))).await.code, 0);
    let dead = broker.pull("%DLQ%G", 0, 0, "*").await;
    assert_eq!(bodies(&dead), ["try me", "try me"]);

    let mut nothing = back("0", "16");
    nothing[0].1 = "77".to_owned();
    let answer = broker.call(fields(&nothing)).await;
    assert_eq!(
        (answer.code, answer.remark()),
        (1, "look message by offset failed, 77")
    );
    let mut long = back("0", "16");
    long[1].1 = "g".repeat(123);
    assert!(
        broker
            .call(fields(&long))
            .await
            .remark()
            .contains("too long to be stored")
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_retry_of_a_group_is_its_dead_letter() {
    let broker = TestBroker::start().await;
    broker
        .ask_body(
            code::HEART_BEAT,
            &heartbeat("c", "G", &[("T", "*"), ("%RETRY%G", "*")]),
        )
        .await;
    let retry = |times: &str| {
        let mut command = send_command("%RETRY%G", 0, "RETRY_TOPIC\u{1}T", times);
        command.ext.set("j", times);
        command.ext.set("l", "3");
        command
    };
    for times in ["0", "3", "4"] {
        assert_eq!(broker.call(retry(times)).await.code, 0);
    }
    assert_eq!(
        bodies(&broker.pull("%RETRY%G", 0, 0, "*").await),
        ["0", "3"]
    );
    assert_eq!(bodies(&broker.pull("%DLQ%G", 0, 0, "*").await), ["4"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_oneway_send_is_stored_and_not_answered() {
    let broker = TestBroker::start().await;
    broker
        .client
        .oneway(&broker.addr, send_command("T", 0, "", "quiet"))
        .await
        .unwrap();
    broker.send("T", 0, "", "loud").await;
    assert_eq!(
        bodies(&broker.pull("T", 0, 0, "*").await),
        ["quiet", "loud"]
    );
    broker.stop().await;
}

//! Requests that no honest client sends: each gets a clear answer, and nothing that they leave behind keeps the
//! broker from serving or from starting again.

use remoting::{Command, request_code as code};

use crate::common::{TestBroker, bodies, heartbeat, request, send_command, send_header, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_could_have_no_retry_topic_is_refused_at_once() {
    let broker = TestBroker::start().await;
    let answer = broker.call(send_command("T", 0, "", "x")).await;
    let id = answer.ext.get("msgId").unwrap();
    let offset = i64::from_str_radix(&id[16..], 16).unwrap().to_string();
    for group in ["../../../x", "a/b", "/tmp/x", "a\u{0}b", "a\nb"] {
        let json = serde_json::to_string(group).unwrap();
        let beat = heartbeat("c", &json[1..json.len() - 1], &[("T", "*")]);
        let back = [
            ("group", group),
            ("offset", &offset),
            ("delayLevel", "-1"),
            ("originMsgId", ""),
            ("originTopic", "T"),
        ];
        let create = format!(r#"{{"groupName":{json}}}"#);
        for answer in [
            broker.ask_body(code::HEART_BEAT, &beat).await,
            broker.ask(code::CONSUMER_SEND_MSG_BACK, &back).await,
            broker
                .ask_body(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &create)
                .await,
        ] {
            assert_eq!(answer.code, 1, "{group:?}");
            assert!(answer.remark.unwrap().contains("cannot have"));
        }
    }
    // What other clients allow in names stays allowed.
    let beat = heartbeat("c", "my.group@1 é", &[("T", "*")]);
    assert_eq!(broker.ask_body(code::HEART_BEAT, &beat).await.code, 0);
    let topics = text(&broker.ask(code::GET_ALL_TOPIC_CONFIG, &[]).await);
    assert!(topics.contains("%RETRY%my.group@1 é") && !topics.contains("/x"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn light_queues_are_refused_and_the_broker_starts_again() {
    let broker = TestBroker::start().await;
    let answer = broker.call(send_command("%LMQ%x", 0, "", "x")).await;
    assert_eq!(answer.code, 16);
    assert!(answer.remark.unwrap().contains("light message queues"));
    let create = [
        ("topic", "%LMQ%x"),
        ("readQueueNums", "1"),
        ("writeQueueNums", "1"),
        ("perm", "6"),
    ];
    let answer = broker.ask(code::UPDATE_AND_CREATE_TOPIC, &create).await;
    assert_eq!(answer.code, 1);
    let dir = broker.stop().await;
    TestBroker::over(dir, "").await.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_bits_without_a_transaction_are_refused() {
    let broker = TestBroker::start().await;
    for (sys_flag, expected) in [(4, 3), (12, 3), (-1, 3), (8, 0), (0x80, 0), (0x10, 0)] {
        let mut header = send_header("T", 0, "");
        header.sys_flag = sys_flag;
        let send = Command::with_header(code::SEND_MESSAGE_V2, &header).with_body("x");
        assert_eq!(broker.call(send).await.code, expected, "{sys_flag}");
    }
    // All that was acknowledged is seen.
    assert_eq!(bodies(&broker.pull("T", 0, 0, "*").await).len(), 3);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_beyond_all_bounds_are_answered() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "x").await;
    broker.settled().await;
    let most = i64::MAX.to_string();
    for queue in ["0", "1", "2", "3"] {
        let commit = [
            ("consumerGroup", "G"),
            ("topic", "T"),
            ("queueId", queue),
            ("commitOffset", &most),
        ];
        assert_eq!(
            broker.ask(code::UPDATE_CONSUMER_OFFSET, &commit).await.code,
            0
        );
    }
    let group = broker
        .ask_body(
            code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            r#"{"groupName":"G"}"#,
        )
        .await;
    assert_eq!(group.code, 0);
    let stats = [("consumerGroup", "G"), ("topic", "T")];
    let stats = broker.ask(code::GET_CONSUME_STATS, &stats).await;
    assert_eq!(stats.code, 0, "{:?}", stats.remark);
    assert!(text(&stats).contains(&format!("\"consumerOffset\":{most}")));
    let span = [("group", "G"), ("topic", "T")];
    let span = broker.ask(code::QUERY_CONSUME_TIME_SPAN, &span).await;
    assert_eq!(span.code, 0, "{:?}", span.remark);
    let all = broker
        .ask(code::GET_BROKER_CONSUME_STATS, &[("isOrder", "false")])
        .await;
    assert_eq!(all.code, 0, "{:?}", all.remark);
    for offset in [i64::MIN, -1, i64::MAX - 1, i64::MAX] {
        assert_eq!(broker.pull("T", 0, offset, "*").await.code, 21, "{offset}");
        let index = [
            ("topic", "T"),
            ("queueId", "0"),
            ("index", &offset.to_string()),
            ("count", "2147483647"),
        ];
        let units = broker.ask(code::QUERY_CONSUME_QUEUE, &index).await;
        assert_eq!(units.code, 0, "{offset}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_with_very_many_queues_takes_sends_to_the_last() {
    let broker = TestBroker::start().await;
    let create = |queues| {
        let fields = [
            ("topic", "Wide"),
            ("readQueueNums", queues),
            ("writeQueueNums", queues),
            ("perm", "6"),
        ];
        request(code::UPDATE_AND_CREATE_TOPIC, &fields)
    };
    assert_eq!(broker.call(create("2147483647")).await.code, 1);
    assert_eq!(broker.call(create("65536")).await.code, 0);
    for offset in 0..2 {
        assert_eq!(broker.send("Wide", 65_535, "", "x").await, offset);
        assert_eq!(broker.send("Wide", 255, "", "x").await, offset);
        assert_eq!(broker.send("Wide", 256, "", "x").await, offset);
    }
    broker.stop().await;
}

//! What the admin tools ask: topics, groups, figures, configuration, clients.

use remoting::{Command, request_code as code};

use crate::common::{TestBroker, heartbeat, records, request, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_made_changed_listed_and_deleted() {
    let broker = TestBroker::start().await;
    let create = |queues: &'static str, name: &'static str| {
        let fields = [
            ("topic", name),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", queues),
            ("writeQueueNums", queues),
            ("perm", "6"),
            ("topicFilterType", "SINGLE_TAG"),
            ("topicSysFlag", "0"),
            ("order", "false"),
        ];
        broker.call(request(code::UPDATE_AND_CREATE_TOPIC, &fields))
    };
    assert_eq!(create("3", "T").await.code, 0);
    let table =
        std::fs::read_to_string(broker.dir.path().join("store/config/topics.json")).unwrap();
    assert!(table.contains("\"T\""));
    let stats = broker
        .ask(code::GET_TOPIC_STATS_INFO, &[("topic", "T")])
        .await;
    assert_eq!(text(&stats).matches("\"maxOffset\":0").count(), 3);
    assert!(
        text(&stats).contains(
            r#"{"brokerName":"broker-a","queueId":2,"topic":"T"}:{"lastUpdateTimestamp":0"#
        )
    );
    assert_eq!(create("4", "T").await.code, 0);
    let one = broker
        .ask(code::GET_TOPIC_CONFIG, &[("topic", "T"), ("lo", "true")])
        .await;
    assert!(text(&one).contains("\"writeQueueNums\":4"));
    assert!(text(&broker.ask(code::GET_ALL_TOPIC_CONFIG, &[]).await).contains("\"T\":{"));
    assert_eq!(create("4", "TBW102").await.code, 1);
    assert_eq!(create("4", "bad name").await.code, 1);
    assert_eq!(create("-4", "T").await.code, 1);

    broker.send("T", 3, "", "x").await;
    assert_eq!(
        broker
            .ask(code::DELETE_TOPIC_IN_BROKER, &[("topic", "T")])
            .await
            .code,
        0
    );
    assert_eq!(
        broker
            .ask(code::GET_TOPIC_STATS_INFO, &[("topic", "T")])
            .await
            .code,
        17
    );
    assert!(!broker.dir.path().join("store/consumequeue/T").exists());
    assert_eq!(
        broker
            .ask(
                code::DELETE_TOPIC_IN_BROKER,
                &[("topic", "SELF_TEST_TOPIC")]
            )
            .await
            .code,
        1
    );
    assert_eq!(
        broker
            .ask(code::DELETE_TOPIC_IN_BROKER, &[("topic", "Never")])
            .await
            .code,
        0
    );
    // Made again, it begins at 0.
    assert_eq!(broker.send("T", 3, "", "again").await, 0);
    let system = text(
        &broker
            .ask(code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, &[])
            .await,
    );
    assert!(system.contains("\"broker-a\"") && system.contains("\"SCHEDULE_TOPIC_XXXX\""));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_made_changed_and_deleted() {
    let broker = TestBroker::start().await;
    let group = r#"{"brokerId":0,"consumeBroadcastEnable":false,"consumeEnable":true,"consumeFromMinEnable":false,"groupName":"MxGroup","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":1}"#;
    assert_eq!(
        broker
            .ask_body(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)
            .await
            .code,
        0
    );
    let one = broker
        .ask(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "MxGroup")])
        .await;
    assert_eq!(text(&one), group);
    assert!(
        text(
            &broker
                .ask(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[])
                .await
        )
        .contains("\"TOOLS_CONSUMER\"")
    );
    let retry = broker
        .ask(code::GET_TOPIC_CONFIG, &[("topic", "%RETRY%MxGroup")])
        .await;
    assert!(text(&retry).contains("\"readQueueNums\":2"));
    let unknown = broker
        .ask(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "None")])
        .await;
    assert_eq!(
        (unknown.code, unknown.remark()),
        (26, "No group in this broker")
    );
    let fields = [("groupName", "MxGroup"), ("removeOffset", "true")];
    assert_eq!(
        broker
            .ask(code::DELETE_SUBSCRIPTIONGROUP, &fields)
            .await
            .code,
        0
    );
    assert_eq!(
        broker
            .ask(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "MxGroup")])
            .await
            .code,
        26
    );
    let long = group.replace("MxGroup", &"g".repeat(121));
    assert_eq!(
        broker
            .ask_body(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &long)
            .await
            .code,
        1
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_and_connections_of_a_group() {
    let broker = TestBroker::start().await;
    for n in 0..3 {
        broker.send("T", 0, "", &n.to_string()).await;
    }
    broker.settled().await;
    let offline = broker
        .ask(
            code::GET_CONSUMER_CONNECTION_LIST,
            &[("consumerGroup", "G")],
        )
        .await;
    assert_eq!(
        (offline.code, offline.remark()),
        (206, "the consumer group[G] not online")
    );
    broker
        .ask_body(code::HEART_BEAT, &heartbeat("c", "G", &[("T", "TagA")]))
        .await;
    let fields = [
        ("consumerGroup", "G"),
        ("topic", "T"),
        ("queueId", "0"),
        ("commitOffset", "2"),
    ];
    broker.ask(code::UPDATE_CONSUMER_OFFSET, &fields).await;
    let stats = text(
        &broker
            .ask(code::GET_CONSUME_STATS, &[("consumerGroup", "G")])
            .await,
    );
    assert!(stats.starts_with(r#"{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"brokerOffset":3,"consumerOffset":2,"lastTimestamp":"#), "{stats}");
    let all = text(
        &broker
            .ask(code::GET_BROKER_CONSUME_STATS, &[("isOrder", "false")])
            .await,
    );
    assert!(
        all.contains(r#""totalDiff":1"#) && all.contains(r#"{"G":[{"consumeTps""#),
        "{all}"
    );
    let connections = text(
        &broker
            .ask(
                code::GET_CONSUMER_CONNECTION_LIST,
                &[("consumerGroup", "G")],
            )
            .await,
    );
    assert!(connections.contains(r#""clientId":"c","language":"JAVA","version":409}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"T":{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"TagA","subVersion":7,"tagsSet":[],"topic":"T"}}}"#), "{connections}");
    let producers = broker
        .ask(
            code::GET_PRODUCER_CONNECTION_LIST,
            &[("producerGroup", "P")],
        )
        .await;
    assert!(text(&producers).contains("\"clientId\":\"c\""));
    assert!(
        text(&broker.ask(code::GET_ALL_PRODUCER_INFO, &[]).await)
            .contains("\"P\":[{\"clientId\":\"c\"")
    );
    let who = text(
        &broker
            .ask(code::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "T")])
            .await,
    );
    assert_eq!(who, r#"{"groupList":["G"]}"#);
    let clone = [
        ("srcGroup", "G"),
        ("destGroup", "H"),
        ("topic", ""),
        ("offline", "true"),
    ];
    assert_eq!(broker.ask(code::CLONE_GROUP_OFFSET, &clone).await.code, 0);
    let cloned = [("consumerGroup", "H"), ("topic", "T"), ("queueId", "0")];
    assert_eq!(
        broker
            .ask(code::QUERY_CONSUMER_OFFSET, &cloned)
            .await
            .ext
            .get("offset"),
        Some("2")
    );
    assert!(text(&broker.ask(code::GET_ALL_CONSUMER_OFFSET, &[]).await).contains(r#""T@G":{0:2}"#));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_found_by_key() {
    let broker = TestBroker::start().await;
    for n in 0..3 {
        broker
            .send(
                "T",
                0,
                &format!("KEYS\u{1}same k{n}\u{2}UNIQ_KEY\u{1}U{n}"),
                &n.to_string(),
            )
            .await;
    }
    broker.settled().await;
    let query = |key: &'static str, max: &'static str, unique: &'static str| {
        let fields = [
            ("topic", "T"),
            ("key", key),
            ("maxNum", max),
            ("beginTimestamp", "0"),
            ("endTimestamp", "9223372036854775807"),
            ("_UNIQUE_KEY_QUERY", unique),
        ];
        broker.call(request(code::QUERY_MESSAGE, &fields))
    };
    let same = query("same", "64", "false").await;
    let found: Vec<_> = records(&same.body)
        .into_iter()
        .map(|record| record.body)
        .collect();
    assert_eq!(found, ["0", "1", "2"]);
    assert!(same.ext.require_i64("indexLastUpdateTimestamp").unwrap() > 0);
    assert_eq!(records(&query("same", "2", "false").await.body).len(), 2);
    assert_eq!(records(&query("U1", "1", "true").await.body)[0].body, "1");
    let none = query("nothing", "64", "false").await;
    assert_eq!(
        (none.code, none.remark()),
        (22, "can not find message, maybe time range not correct")
    );
    let units = [
        ("topic", "T"),
        ("queueId", "0"),
        ("index", "1"),
        ("count", "5"),
    ];
    let units = text(&broker.ask(code::QUERY_CONSUME_QUEUE, &units).await);
    assert!(units.starts_with(
        r#"{"maxQueueIndex":3,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":"#
    ));
    assert_eq!(units.matches("physicSize").count(), 2);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_is_shown_and_changed() {
    let broker = TestBroker::start().await;
    let shown = broker.ask(code::GET_BROKER_CONFIG, &[]).await;
    assert!(text(&shown).contains("brokerName=broker-a\n"));
    assert!(
        shown
            .ext
            .get("version")
            .unwrap()
            .starts_with("{\"counter\":0")
    );
    assert_eq!(
        broker
            .ask_body(code::UPDATE_BROKER_CONFIG, "fileReservedTime=71\n")
            .await
            .code,
        0
    );
    assert!(
        text(&broker.ask(code::GET_BROKER_CONFIG, &[]).await).contains("fileReservedTime=71\n")
    );
    assert_eq!(
        broker
            .ask_body(code::UPDATE_BROKER_CONFIG, "brokerConfigPath=/x\n")
            .await
            .code,
        16
    );
    let wrong = broker
        .ask_body(code::UPDATE_BROKER_CONFIG, "fileReservedTime=soon\n")
        .await;
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.remark().contains("fileReservedTime"),
        "{}",
        wrong.remark()
    );
    // A broker that may not be written to takes nothing for order topics and still lets all be read.
    assert_eq!(
        broker
            .ask_body(code::UPDATE_BROKER_CONFIG, "brokerPermission=4\n")
            .await
            .code,
        0
    );
    let info = text(&broker.ask(code::GET_BROKER_RUNTIME_INFO, &[]).await);
    for key in [
        "brokerVersionDesc",
        "getTransferedTps",
        "getTransferredTps",
        "commitLogDiskRatio",
        "durabilityClass",
    ] {
        assert!(info.contains(&format!("\"{key}\":\"")), "{key}");
    }
    for request_code in [306, 316, 329] {
        assert_eq!(broker.ask(request_code, &[]).await.code, 0);
    }
    for request_code in [50, 51, 52, 53, 54] {
        assert_eq!(broker.ask(request_code, &[]).await.code, 1);
    }
    for request_code in [354, 400, 200_050, 99_999] {
        let answer = broker.ask(request_code, &[]).await;
        assert_eq!(
            (answer.code, answer.remark().to_owned()),
            (3, format!(" request type {request_code} not supported"))
        );
    }
    let transaction = [
        ("producerGroup", "P"),
        ("tranStateTableOffset", "0"),
        ("commitLogOffset", "0"),
    ];
    assert_eq!(
        broker.ask(code::END_TRANSACTION, &transaction).await.code,
        3
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_count_messages_of_batches_too() {
    let broker = TestBroker::start().await;
    let puts = |info: String| {
        let at = info.find("\"putMessageTimesTotal\":\"").unwrap() + 24;
        info[at..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse::<u64>()
            .unwrap()
    };
    broker.send("T", 0, "", "one").await;
    let before = puts(text(&broker.ask(code::GET_BROKER_RUNTIME_INFO, &[]).await));
    let mut body = Vec::new();
    for _ in 0..10 {
        let item = remoting::message::BatchItem {
            flag: 0,
            body: b"x",
            properties: b"",
        };
        remoting::message::encode_batch_item(&mut body, &item).unwrap();
    }
    let mut batch = crate::common::send_command("T", 0, "", "").with_body(body);
    batch.ext.set("m", "true");
    assert_eq!(broker.call(batch).await.code, 0);
    let after = puts(text(&broker.ask(code::GET_BROKER_RUNTIME_INFO, &[]).await));
    assert_eq!(after, before + 10);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_offline_cannot_be_reset_by_the_broker() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "x").await;
    let reset = [
        ("topic", "T"),
        ("group", "G"),
        ("timestamp", "-1"),
        ("isForce", "true"),
    ];
    let unknown = broker
        .ask(code::INVOKE_BROKER_TO_RESET_OFFSET, &reset)
        .await;
    assert_eq!(
        (unknown.code, unknown.remark()),
        (1, "THe consumer group <G> not exist")
    );
    for queue in ["0", "1", "2", "3"] {
        let fields = [
            ("consumerGroup", "G"),
            ("topic", "T"),
            ("queueId", queue),
            ("commitOffset", "0"),
        ];
        broker.ask(code::UPDATE_CONSUMER_OFFSET, &fields).await;
    }
    let offline = broker
        .ask(code::INVOKE_BROKER_TO_RESET_OFFSET, &reset)
        .await;
    assert_eq!(offline.code, 206);
    let ask = Command::request(code::GET_CONSUMER_RUNNING_INFO)
        .field("consumerGroup", "G")
        .field("clientId", "c");
    let nobody = broker.call(ask).await;
    assert_eq!(
        (nobody.code, nobody.remark()),
        (1, "The Consumer <G> <c> not online")
    );
    broker.stop().await;
}

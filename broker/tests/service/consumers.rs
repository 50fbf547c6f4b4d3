//! 34, 35, 38, 40, 41, 42, 46, 14, 15, 29 to 32.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use remoting::{Client, ClientConfig, Command, Connection, Dispatch, Reply, request_code as code};

use crate::common::{TIMEOUT, TestBroker, heartbeat, request};

/// Notes what the broker sends to a client.
#[derive(Default)]
struct Told(Mutex<Vec<(i32, String)>>);

impl Dispatch for Told {
    fn request(&self, _: &Arc<Connection>, request: Command, reply: Reply) {
        let group = request
            .ext
            .get("consumerGroup")
            .unwrap_or_default()
            .to_owned();
        self.0.lock().unwrap().push((request.code, group));
        reply.forget();
    }
}

struct Member {
    client: Client,
    told: Arc<Told>,
}

impl Member {
    async fn join(broker: &TestBroker, id: &str, group: &str) -> Self {
        let told = Arc::new(Told::default());
        let client = Client::new(ClientConfig::default(), Some(told.clone()));
        let beat =
            Command::request(code::HEART_BEAT).with_body(heartbeat(id, group, &[("T", "*")]));
        assert_eq!(
            client.call(&broker.addr, beat, TIMEOUT).await.unwrap().code,
            0
        );
        Member { client, told }
    }

    fn notices(&self) -> usize {
        self.told
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|(code, _)| *code == code::NOTIFY_CONSUMER_IDS_CHANGED)
            .count()
    }
}

async fn members(broker: &TestBroker, group: &str) -> String {
    let answer = broker
        .ask(
            code::GET_CONSUMER_LIST_BY_GROUP,
            &[("consumerGroup", group)],
        )
        .await;
    if answer.code == 0 {
        crate::common::text(&answer)
    } else {
        answer.remark().to_owned()
    }
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_told_when_one_comes_or_goes_and_not_when_one_reconnects() {
    let broker = TestBroker::start().await;
    assert_eq!(members(&broker, "G").await, "no consumer for this group, G");
    let first = Member::join(&broker, "a", "G").await;
    let second = Member::join(&broker, "b", "G").await;
    settle().await;
    assert_eq!(
        members(&broker, "G").await,
        r#"{"consumerIdList":["a","b"]}"#
    );
    assert_eq!((first.notices(), second.notices()), (2, 1));

    // A client that comes back at once on a new connection has not left.
    second.client.close().await;
    let again = Member::join(&broker, "b", "G").await;
    tokio::time::sleep(Duration::from_millis(1300)).await;
    assert_eq!((first.notices(), again.notices()), (2, 0));
    // Another heartbeat is no news.
    let beat = Command::request(code::HEART_BEAT).with_body(heartbeat("b", "G", &[("T", "*")]));
    again
        .client
        .call(&broker.addr, beat, TIMEOUT)
        .await
        .unwrap();
    settle().await;
    assert_eq!(first.notices(), 2);

    // One that says good-bye is gone at once, one that breaks off after a moment.
    let leave = request(
        code::UNREGISTER_CLIENT,
        &[("clientID", "b"), ("consumerGroup", "G")],
    );
    again
        .client
        .call(&broker.addr, leave, TIMEOUT)
        .await
        .unwrap();
    settle().await;
    assert_eq!(members(&broker, "G").await, r#"{"consumerIdList":["a"]}"#);
    assert_eq!(first.notices(), 3);
    let third = Member::join(&broker, "c", "G").await;
    third.client.close().await;
    tokio::time::sleep(Duration::from_millis(1300)).await;
    assert_eq!(members(&broker, "G").await, r#"{"consumerIdList":["a"]}"#);
    assert_eq!(first.notices(), 5);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_makes_the_group_and_its_retry_topic() {
    let broker = TestBroker::start().await;
    let member = Member::join(&broker, "a", "Fresh").await;
    let group = broker
        .ask(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "Fresh")])
        .await;
    assert!(crate::common::text(&group).contains("\"retryMaxTimes\":16"));
    let topic = broker
        .ask(code::GET_TOPIC_CONFIG, &[("topic", "%RETRY%Fresh")])
        .await;
    assert!(crate::common::text(&topic).contains("\"perm\":6"));
    drop(member);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_heartbeats_are_answered_and_their_sound_groups_served() {
    let broker = TestBroker::start().await;
    assert_eq!(broker.ask_body(code::HEART_BEAT, "not json").await.code, 1);
    assert_eq!(broker.ask_body(code::HEART_BEAT, "").await.code, 1);
    let sound = heartbeat("a", "Sound", &[("T", "*")]);
    let unknown = heartbeat("a", "Odd", &[("T", "*")]).replace("CONSUME_PASSIVELY", "PUSH");
    let entry = |text: &str| {
        let from = text.find("[{\"consumeFrom").unwrap() + 1;
        let to = text.find("],\"producerDataSet").unwrap();
        text[from..to].to_owned()
    };
    let both = sound.replace(
        &entry(&sound),
        &format!("{},{}", entry(&unknown), entry(&sound)),
    );
    let answer = broker.ask_body(code::HEART_BEAT, &both).await;
    assert_eq!(answer.code, 1);
    assert!(answer.remark().contains("Odd"), "{}", answer.remark());
    assert!(members(&broker, "Sound").await.contains("\"a\""));
    assert_eq!(
        members(&broker, "Odd").await,
        "no consumer for this group, Odd"
    );
    let long = heartbeat("a", &"g".repeat(123), &[("T", "*")]);
    assert!(
        broker
            .ask_body(code::HEART_BEAT, &long)
            .await
            .remark()
            .contains("retry topic")
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_are_locked_by_one_client_at_a_time() {
    let broker = TestBroker::start().await;
    let body = |client: &str| {
        format!(
            r#"{{"clientId":"{client}","consumerGroup":"G","mqSet":[{{"brokerName":"broker-a","queueId":0,"topic":"T"}},{{"brokerName":"broker-a","queueId":1,"topic":"T"}}]}}"#
        )
    };
    let both = r#"{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"},{"brokerName":"broker-a","queueId":1,"topic":"T"}]}"#;
    let lock = |client: &'static str| {
        let (broker, body) = (&broker, body(client));
        async move { crate::common::text(&broker.ask_body(code::LOCK_BATCH_MQ, &body).await) }
    };
    assert_eq!(lock("a").await, both);
    assert_eq!(lock("a").await, both);
    assert_eq!(lock("b").await, r#"{"lockOKMQSet":[]}"#);
    assert_eq!(
        broker
            .ask_body(code::UNLOCK_BATCH_MQ, &body("b"))
            .await
            .code,
        0
    );
    assert_eq!(lock("b").await, r#"{"lockOKMQSet":[]}"#);
    assert_eq!(
        broker
            .ask_body(code::UNLOCK_BATCH_MQ, &body("a"))
            .await
            .code,
        0
    );
    assert_eq!(lock("b").await, both);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_are_kept_and_never_negative() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "x").await;
    let queue = [("consumerGroup", "G"), ("topic", "T"), ("queueId", "0")];
    let query = || broker.ask(code::QUERY_CONSUMER_OFFSET, &queue);
    let commit = |offset: &'static str| {
        let fields = [queue[0], queue[1], queue[2], ("commitOffset", offset)];
        let (broker, command) = (&broker, request(code::UPDATE_CONSUMER_OFFSET, &fields));
        async move { broker.call(command).await.code }
    };
    // Unknown to the group, but the queue still begins at 0.
    assert_eq!(query().await.ext.get("offset"), Some("0"));
    let strict = [queue[0], queue[1], queue[2], ("setZeroIfNotFound", "false")];
    assert_eq!(
        broker.ask(code::QUERY_CONSUMER_OFFSET, &strict).await.code,
        22
    );
    assert_eq!(commit("7").await, 0);
    assert_eq!(query().await.ext.get("offset"), Some("7"));
    assert_eq!(commit("3").await, 0);
    assert_ne!(commit("-1").await, 0);
    assert_eq!(query().await.ext.get("offset"), Some("3"));
    let dir = broker.stop().await;
    let broker = TestBroker::over(dir, "").await;
    assert_eq!(
        broker
            .ask(code::QUERY_CONSUMER_OFFSET, &queue)
            .await
            .ext
            .get("offset"),
        Some("3")
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_and_times_of_queues() {
    let broker = TestBroker::start().await;
    let before = broker::service::now_ms();
    for n in 0..3 {
        broker.send("T", 0, "", &n.to_string()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ask = |request_code: i32, topic: &'static str, more: Vec<(&'static str, String)>| {
        let broker = &broker;
        async move {
            let mut command = request(request_code, &[("topic", topic), ("queueId", "0")]);
            more.iter()
                .for_each(|(name, value)| command.ext.push(name, value));
            let answer = broker.call(command).await;
            let number = answer
                .ext
                .get("offset")
                .or_else(|| answer.ext.get("timestamp"));
            number.unwrap().parse::<i64>().unwrap()
        }
    };
    assert_eq!(ask(code::GET_MAX_OFFSET, "T", vec![]).await, 3);
    assert_eq!(ask(code::GET_MIN_OFFSET, "T", vec![]).await, 0);
    assert_eq!(ask(code::GET_MAX_OFFSET, "None", vec![]).await, 0);
    let earliest = ask(code::GET_EARLIEST_MSG_STORETIME, "T", vec![]).await;
    assert!(earliest >= before && earliest <= broker::service::now_ms());
    assert_eq!(
        ask(code::GET_EARLIEST_MSG_STORETIME, "None", vec![]).await,
        -1
    );
    let time = |ms: i64, boundary: &'static str| {
        let mut fields = vec![("timestamp", ms.to_string())];
        if !boundary.is_empty() {
            fields.push(("boundaryType", boundary.to_owned()));
        }
        ask(code::SEARCH_OFFSET_BY_TIMESTAMP, "T", fields)
    };
    assert_eq!(time(0, "").await, 0);
    assert_eq!(time(earliest, "").await, 0);
    assert_eq!(time(earliest + 1, "LOWER").await, 1);
    assert_eq!(time(earliest + 1, "UPPER").await, 0);
    // Later than all: the last message for old clients, the end for new ones.
    assert_eq!(time(i64::MAX, "").await, 2);
    assert_eq!(time(i64::MAX, "LOWER").await, 3);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_checked_before_they_are_used() {
    let broker = TestBroker::start().await;
    let check = |kind: &str| {
        format!(
            r#"{{"clientId":"c","group":"G","subscriptionData":{{"topic":"T","subString":"a","expressionType":"{kind}","subVersion":1}}}}"#
        )
    };
    assert_eq!(
        broker
            .ask_body(code::CHECK_CLIENT_CONFIG, &check("TAG"))
            .await
            .code,
        0
    );
    let sql = broker
        .ask_body(code::CHECK_CLIENT_CONFIG, &check("SQL92"))
        .await;
    assert_eq!(
        (sql.code, sql.remark()),
        (
            1,
            "The broker does not support consumer to filter message by SQL92"
        )
    );
    assert_eq!(broker.ask_body(code::CHECK_CLIENT_CONFIG, "").await.code, 0);
    broker.stop().await;
}

//! 11 and 361: ranges, filters, held pulls.

use std::time::{Duration, Instant};

use remoting::{Command, request_code as code};

use crate::common::{TestBroker, bodies, heartbeat, pull_command, send_command};

fn next(answer: &Command) -> i64 {
    answer.ext.require_i64("nextBeginOffset").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_offset_outside_of_the_queue_has_its_answer() {
    let broker = TestBroker::start().await;
    broker.send("T", 1, "", "other queue").await;
    // A queue that never had a message.
    let empty = broker.pull("T", 0, 0, "*").await;
    assert_eq!(
        (empty.code, empty.remark(), next(&empty)),
        (19, "NO_MESSAGE_IN_QUEUE", 0)
    );
    let empty = broker.pull("T", 0, 5, "*").await;
    assert_eq!((empty.code, next(&empty)), (21, 0));

    for n in 0..3 {
        broker.send("T", 0, "", &n.to_string()).await;
    }
    let cases = [
        (0, 0, "FOUND", 3),
        (2, 0, "FOUND", 3),
        (3, 19, "OFFSET_OVERFLOW_ONE", 3),
        (4, 21, "OFFSET_OVERFLOW_BADLY", 3),
        (1003, 21, "OFFSET_OVERFLOW_BADLY", 3),
        (-1, 21, "OFFSET_TOO_SMALL", 0),
    ];
    for (offset, wanted, status, next_offset) in cases {
        let answer = broker.pull("T", 0, offset, "*").await;
        assert_eq!(
            (answer.code, answer.remark(), next(&answer)),
            (wanted, status, next_offset),
            "offset {offset}"
        );
        assert_eq!(
            (answer.ext.get("minOffset"), answer.ext.get("maxOffset")),
            (Some("0"), Some("3"))
        );
        assert_eq!(answer.ext.get("suggestWhichBrokerId"), Some("0"));
        assert_eq!(answer.body.is_empty(), wanted != 0);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_take_their_tags_and_the_next_offset_passes_the_others() {
    let broker = TestBroker::start().await;
    for n in 0..6 {
        let tag = ["TagA", "TagB", "TagC"][n % 3];
        broker
            .send("T", 0, &format!("TAGS\u{1}{tag}"), &n.to_string())
            .await;
    }
    let some = broker.pull("T", 0, 0, "TagA || TagB").await;
    assert_eq!(
        (bodies(&some), next(&some)),
        (vec!["0".into(), "1".into(), "3".into(), "4".into()], 6)
    );
    let none = broker.pull("T", 0, 0, "TagX").await;
    assert_eq!(
        (none.code, none.remark(), next(&none)),
        (20, "NO_MATCHED_MESSAGE", 6)
    );
    assert_eq!(broker.pull("T", 0, 0, "||").await.code, 23);
    let mut sql = pull_command("T", 0, 0, "a > 1", 4, 0);
    sql.ext.push("expressionType", "SQL92");
    assert_eq!(broker.call(sql).await.code, 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_carries_away_no_more_than_it_may() {
    let broker = TestBroker::start().await;
    for n in 0..40 {
        broker.send("T", 0, "", &format!("{n:0>20000}")).await;
    }
    let answer = broker.pull("T", 0, 0, "*").await;
    // 256 KiB hold twelve of them.
    assert_eq!((bodies(&answer).len(), next(&answer)), (13, 13));
    let mut few = pull_command("T", 0, 0, "*", 4, 0);
    few.ext.set("maxMsgNums", "2");
    assert_eq!(bodies(&broker.call(few).await).len(), 2);
    let mut small = pull_command("T", 0, 0, "*", 4, 0);
    small.ext.push("maxMsgBytes", "100");
    assert_eq!(bodies(&broker.call(small).await).len(), 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_pull_is_told_why() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "x").await;
    assert_eq!(broker.pull("Unknown", 0, 0, "*").await.code, 17);
    let queue = broker.pull("T", 99, 0, "*").await;
    assert_eq!(queue.code, 1);
    assert!(queue.remark().starts_with(
        "queueId[99] is illegal, topic:[T] topicConfig.readQueueNums:[4] consumer:[/127"
    ));
    let stranger = broker.call(pull_command("T", 0, 0, "*", 0, 0)).await;
    assert_eq!(stranger.code, 24);
    assert!(
        stranger
            .remark()
            .starts_with("the consumer's group info not exist\nSee http")
    );
    broker
        .ask_body(code::HEART_BEAT, &heartbeat("c", "G", &[("U", "*")]))
        .await;
    let other = broker.call(pull_command("T", 0, 0, "*", 0, 0)).await;
    assert_eq!(other.code, 24);
    assert!(
        other
            .remark()
            .starts_with("the consumer's subscription not exist")
    );
    broker
        .ask_body(code::HEART_BEAT, &heartbeat("c", "G", &[("T", "TagA")]))
        .await;
    let mut newer = pull_command("T", 0, 0, "*", 0, 0);
    newer.ext.set("subVersion", "8");
    assert_eq!(broker.call(newer).await.code, 25);
    assert_eq!(
        broker.call(pull_command("T", 0, 0, "*", 0, 0)).await.code,
        20
    );
    // The fast port serves everything but pulls.
    let fast = broker
        .client
        .call(
            &broker.fast,
            pull_command("T", 0, 0, "*", 4, 0),
            crate::common::TIMEOUT,
        )
        .await
        .unwrap();
    assert_eq!(
        (fast.code, fast.remark()),
        (3, " request type 11 not supported")
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_pull_is_woken_by_what_it_wants_and_by_nothing_else() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "TAGS\u{1}TagA", "first").await;
    let waiting = pull_command("T", 0, 1, "TagA", 6, 8000);
    let connection = broker.client.connect(&broker.addr).await.unwrap();
    let held = tokio::spawn(async move { connection.call(waiting, crate::common::TIMEOUT).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    broker.send("T", 0, "TAGS\u{1}TagB", "not wanted").await;
    broker.send("T", 1, "TAGS\u{1}TagA", "elsewhere").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!held.is_finished());
    broker.send("T", 0, "TAGS\u{1}TagA", "second").await;
    let sent = Instant::now();
    let answer = held.await.unwrap().unwrap();
    assert!(
        sent.elapsed() < Duration::from_millis(50),
        "{:?}",
        sent.elapsed()
    );
    assert_eq!(
        (answer.code, bodies(&answer), next(&answer)),
        (0, vec!["second".to_owned()], 3)
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_pull_runs_out_and_a_queue_without_messages_can_be_waited_for() {
    let broker = TestBroker::start().await;
    broker.send("T", 1, "", "x").await;
    let begun = Instant::now();
    let answer = broker.call(pull_command("T", 0, 0, "*", 6, 300)).await;
    assert_eq!((answer.code, answer.remark()), (19, "NO_MESSAGE_IN_QUEUE"));
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(290) && took < Duration::from_secs(2),
        "{took:?}"
    );
    let held = broker.client.call(
        &broker.addr,
        pull_command("T", 0, 0, "*", 6, 8000),
        crate::common::TIMEOUT,
    );
    let sent = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        broker.send("T", 0, "", "the very first").await
    };
    let (answer, _) = tokio::join!(held, sent);
    assert_eq!(bodies(&answer.unwrap()), ["the very first"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_answers_what_is_held() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "x").await;
    let command = pull_command("T", 0, 1, "*", 6, 9000);
    let (client, addr) = (&broker.client, broker.addr.clone());
    let connection = client.connect(&addr).await.unwrap();
    let held = tokio::spawn(async move { connection.call(command, crate::common::TIMEOUT).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    broker.app.stop().await.unwrap();
    let answer = held.await.unwrap().unwrap();
    assert_eq!(answer.code, 19);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pulls_and_sends_at_once_lose_no_wake_up() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "0").await;
    for n in 1..200 {
        let held = broker.client.call(
            &broker.addr,
            pull_command("T", 0, n, "*", 6, 9000),
            crate::common::TIMEOUT,
        );
        let text = n.to_string();
        let sent = broker.client.call(
            &broker.addr,
            send_command("T", 0, "", &text),
            crate::common::TIMEOUT,
        );
        let begun = Instant::now();
        let (answer, _) = tokio::join!(held, sent);
        assert_eq!(bodies(&answer.unwrap()), [n.to_string()]);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_may_commit_an_offset() {
    let broker = TestBroker::start().await;
    broker.send("T", 0, "", "x").await;
    let mut command = pull_command("T", 0, 1, "*", 5, 0);
    command.ext.set("commitOffset", "1");
    assert_eq!(broker.call(command).await.code, 19);
    let fields = [("consumerGroup", "G"), ("topic", "T"), ("queueId", "0")];
    let answer = broker.ask(code::QUERY_CONSUMER_OFFSET, &fields).await;
    assert_eq!((answer.code, answer.ext.get("offset")), (0, Some("1")));
    broker.stop().await;
}

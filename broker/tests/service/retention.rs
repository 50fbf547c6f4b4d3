//! Old files go, and consumers land on what is left.

use std::time::Duration;

use remoting::request_code as code;

use crate::common::{TestBroker, bodies, records};

/// A body of which twelve fill a file of the log.
fn big(n: usize) -> String {
    format!("{n:0>40000}").repeat(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_files_go_and_consumers_land_on_the_new_beginning() {
    // The last value of a key counts: nothing is kept.
    let broker = TestBroker::with("fileReservedTime=0").await;
    broker
        .send("Early", 0, "KEYS\u{1}early", "only old messages")
        .await;
    for n in 0..60 {
        broker
            .send("T", 0, &format!("KEYS\u{1}k{n}"), &big(n))
            .await;
    }
    broker.settled().await;
    // Nothing that was changed within this millisecond is old.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let first = records(&broker.pull("T", 0, 0, "*").await.body)[0].physical_offset;
    assert_eq!(
        broker.ask(code::DELETE_EXPIRED_COMMITLOG, &[]).await.code,
        0
    );

    let range = |answer: remoting::Command| {
        let number = |name| answer.ext.require_i64(name).unwrap();
        (
            answer.code,
            number("nextBeginOffset"),
            number("minOffset"),
            number("maxOffset"),
        )
    };
    let (code_of, next, min, max) = range(broker.pull("T", 0, 0, "*").await);
    assert_eq!((code_of, next, max), (21, min, 60));
    assert!(min > 12, "{min}");
    assert_eq!(
        range(broker.pull("T", 0, min - 1, "*").await),
        (21, min, min, 60)
    );
    assert_eq!(
        range(broker.pull("T", 0, -1, "*").await),
        (21, min, min, 60)
    );
    assert_eq!(range(broker.pull("T", 0, 61, "*").await), (21, 60, min, 60));
    assert_eq!(range(broker.pull("T", 0, 60, "*").await), (19, 60, min, 60));
    let there = broker.pull("T", 0, min, "*").await;
    assert_eq!(bodies(&there)[0], big(min as usize));
    let gone = broker
        .ask(code::VIEW_MESSAGE_BY_ID, &[("offset", &first.to_string())])
        .await;
    assert_eq!(gone.code, 1);

    // A queue of which nothing is left: its beginning is its end, and its consumers wait quietly.
    let empty = broker.pull("Early", 0, 0, "*").await;
    assert_eq!(range(empty), (21, 1, 1, 1));
    assert_eq!(broker.pull("Early", 0, 1, "*").await.code, 19);
    assert_eq!(broker.send("Early", 0, "", "new").await, 1);
    assert_eq!(bodies(&broker.pull("Early", 0, 1, "*").await), ["new"]);

    // A group that is new to a queue without its beginning decides by itself where to begin.
    let queue = [("consumerGroup", "New"), ("topic", "T"), ("queueId", "0")];
    assert_eq!(
        broker.ask(code::QUERY_CONSUMER_OFFSET, &queue).await.code,
        22
    );

    let dir = broker.stop().await;
    let broker = TestBroker::over(dir, "").await;
    assert_eq!(range(broker.pull("T", 0, 0, "*").await), (21, min, min, 60));
    assert_eq!(broker.send("T", 0, "", "goes on").await, 60);
    broker.stop().await;
}

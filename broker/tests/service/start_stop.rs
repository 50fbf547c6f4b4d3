//! Starts, stops and what is left behind.

use std::time::{Duration, Instant};

use broker::app::{App, StartError};
use broker::store::OpeningError;

use crate::common::{TestBroker, bodies, conf};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_is_quick_and_everything_is_there_again() {
    let broker = TestBroker::start().await;
    for n in 0..50 {
        broker
            .send("T", n % 4, &format!("KEYS\u{1}k{n}"), &n.to_string())
            .await;
    }
    let store = broker.dir.path().join("store");
    assert!(store.join("abort").exists());
    let begun = Instant::now();
    let dir = broker.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(!store.join("abort").exists());
    for table in ["topics.json", "subscriptionGroup.json"] {
        assert!(store.join("config").join(table).exists(), "{table}");
    }
    let broker = TestBroker::over(dir, "").await;
    assert_eq!(bodies(&broker.pull("T", 1, 0, "*").await).len(), 13);
    assert_eq!(broker.send("T", 1, "", "next").await, 13);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_broker_refuses_the_store() {
    let broker = TestBroker::start().await;
    let second = App::start(conf(broker.dir.path(), 19_003, "")).await;
    let Err(StartError::Store(OpeningError::Lock(error))) = second else {
        panic!("{second:?}")
    };
    assert!(
        error
            .to_string()
            .contains("another broker is running on this store"),
        "{error}"
    );
    broker.send("T", 0, "", "undisturbed").await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_named_and_leaves_the_store_alone() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = App::start(conf(dir.path(), port, ""))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")),
        "{error}"
    );
    assert!(!dir.path().join("store").exists());
}

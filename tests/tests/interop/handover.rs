//! Between brokers: who may have a store when, the way back, and what goes wrong when hands get mixed up.

use std::sync::Arc;
use std::time::Duration;

use tests::compare::{self, Growth, none};
use tests::conf::Conf;
use tests::fixture;
use tests::lab::Lab;
use tests::load::{Book, Load, Shape};
use tests::ours::{OurBroker, mqctl};
use tests::scan::Scan;
use tests::stock::{StockBroker, Version};

use crate::life::{Broker, Store};

/// Until the first message is sent an upgrade is nothing that a plain broker would notice: it can go on, and the
/// next upgrade begins where it ended. After that, a plain broker's messages are a second history: refused.
#[test]
fn an_upgrade_can_be_taken_back_until_the_first_message() {
    let unpacked = fixture::E.unpack().unwrap();
    let mut store = Store::new(fixture::E, unpacked.dir());
    let expected = fixture::E.ledger().unwrap();
    let ours = store.ours();
    store.stop(ours, "upgraded, nothing sent");

    let plain = store.stock_plain(Version::V4);
    let dump = store.dump(&expected);
    none(
        "served by plain Java",
        &compare::served_again(&expected, &dump, Growth::Allowed),
    );
    store.send_more(&dump);
    let dump = store.dump(&dump);
    store.stop(plain, "plain again");

    let ours = store.ours();
    let again = store.dump(&dump);
    none(
        "upgraded once more",
        &compare::served_again(&dump, &again, Growth::None),
    );
    store.send_more(&again);
    store.stop(ours, "ours, with messages");

    let plain = store.stock_plain(Version::V4);
    let Broker::Stock(plain) = plain else {
        unreachable!("a stock broker was started")
    };
    store
        .lab
        .at_home(
            "send",
            serde_json::json!({"topic": "FixSingle", "queue": 0, "count": 1}),
        )
        .unwrap();
    plain.stop().unwrap();
    let said = store.ours_refuses();
    assert!(said.contains("divide") || said.contains("histor"), "{said}");
}

/// The store lock is Java's: neither starts while the other has the store.
#[test]
fn java_and_ours_lock_each_other_out() {
    let lab = Lab::shared(Version::V4);
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::small(&dir.path().join("store"), &lab.namesrv).unwrap();
    let java = StockBroker::start(Version::V4, &conf, &dir.path().join("java")).unwrap();
    let other = conf.clone().moved().unwrap();
    let mut ours = OurBroker::spawn(&other, &dir.path().join("ours")).unwrap();
    let status = ours.daemon.wait_end(Duration::from_secs(20)).unwrap();
    assert!(!status.success(), "ours runs beside Java");
    assert!(
        ours.daemon.output().contains("lock"),
        "{}",
        ours.daemon.output()
    );
    // Our command line tool works against any broker.
    lab.at_home("ready", serde_json::json!({})).unwrap();
    crate::start::first_try(&["--namesrv", &lab.namesrv]);
    java.stop().unwrap();

    let ours = OurBroker::start(&other, &dir.path().join("ours")).unwrap();
    assert!(
        StockBroker::start(Version::V4, &conf, &dir.path().join("java")).is_err(),
        "Java runs beside ours"
    );
    ours.stop().unwrap();
}

/// Ours is killed under load; `mqctl store check --repair` makes the store one that stock Java takes over whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_the_way_back_is_a_repair() {
    let lab = Lab::shared(Version::V4);
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::small(&dir.path().join("store"), &lab.namesrv).unwrap();
    let ours = OurBroker::start(&conf, &dir.path().join("ours")).unwrap();
    let book = Arc::new(Book::default());
    let shape = Shape {
        senders: 12,
        body_max: 1500,
        requests_max: 100_000,
    };
    let load = Load::start(&conf.ports.addr(), &book, shape, 11);
    while book.acknowledged() < 1500 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ours.kill().unwrap();
    load.finish().await.unwrap();

    let path = conf.store.display().to_string();
    let file = dir.path().join("ours/broker.conf").display().to_string();
    let repair = mqctl(&["store", "check", "--repair", "-c", &file, &path]).unwrap();
    let said = String::from_utf8_lossy(&repair.stdout).into_owned();
    assert!(
        repair.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&repair.stderr)
    );
    let scan = Scan::of(&conf.store, 1000).unwrap();
    none("after the repair", &scan.problems());
    none("messages after the repair", &book.check(&scan));

    let conf = conf.moved().unwrap();
    let java = StockBroker::start(Version::V4, &conf, &dir.path().join("java")).unwrap();
    lab.at_home("ready", serde_json::json!({"topic": "Crash"}))
        .unwrap();
    let dump = lab.dump(&conf.ports.addr(), &conf.store, None).unwrap();
    none("offsets in Java", &compare::dense(&dump));
    let served = dump
        .messages
        .iter()
        .filter(|m| m.topic.starts_with("Crash"))
        .count();
    assert!(
        served >= book.acknowledged(),
        "{served} served of {} acknowledged",
        book.acknowledged()
    );
    java.stop().unwrap();
    let scan = Scan::of(&conf.store, 1000).unwrap();
    none("after Java", &scan.problems());
    none("messages after Java", &book.check(&scan));
}

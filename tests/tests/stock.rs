//! The harness itself, proven on the stock broker: what it says about Java must be what is known of Java.
//!
//! Not part of the gate (`scripts/interop stock` runs it): it tests the tests.

use std::time::Duration;

use serde_json::json;
use tests::compare::{self, Growth};
use tests::conf::Conf;
use tests::fixture::{self, Fixture};
use tests::lab::Lab;
use tests::stock::{StockBroker, Version};

fn reopen(fixture: Fixture) {
    let version = Version::named(fixture.version);
    let lab = Lab::shared(version);
    let unpacked = fixture.unpack().unwrap();
    let conf = Conf::of_fixture(&fixture, &unpacked.store(), &lab.namesrv).unwrap();
    let broker = StockBroker::start(version, &conf, unpacked.dir()).unwrap();
    lab.at_home("ready", json!({"topic": "FixOrders"})).unwrap();
    let ledger = fixture.ledger().unwrap();
    let dump = lab
        .dump(&conf.ports.addr(), &unpacked.store(), Some(&ledger))
        .unwrap();
    compare::none(
        "served again",
        &compare::served_again(&ledger, &dump, Growth::Allowed),
    );
    let sent = lab
        .at_home(
            "send",
            json!({"topic": "FixOrders", "count": 40, "content": "mix"}),
        )
        .unwrap();
    assert_eq!(sent.len(), 40);
    broker.stop().unwrap();
}

#[test]
#[ignore = "tests the harness on the stock broker"]
fn stock_497_reopens_a() {
    reopen(fixture::A);
}

#[test]
#[ignore = "tests the harness on the stock broker"]
fn stock_533_reopens_c() {
    reopen(fixture::C);
}

#[test]
#[ignore = "tests the harness on the stock broker"]
fn consumers_and_admin() {
    for version in [Version::V4, Version::V5] {
        let lab = Lab::shared(version);
        let dir = tempfile::tempdir().unwrap();
        let conf = Conf::small(&dir.path().join("store"), &lab.namesrv).unwrap();
        let broker = StockBroker::start(version, &conf, dir.path()).unwrap();
        lab.at_home("ready", json!({})).unwrap();
        for mode in ["sync", "async", "oneway", "batch", "orderly"] {
            let args = json!({"topic": "Lab", "count": 20, "mode": mode, "keyPrefix": mode});
            assert_eq!(lab.at_home("send", args).unwrap().len(), 20, "{mode}");
        }
        let consumed = lab
            .at_home(
                "push",
                json!({"group": "g1", "topic": "Lab", "expect": 100}),
            )
            .unwrap();
        assert!(consumed.len() >= 100);
        lab.at_home(
            "push",
            json!({"group": "g2", "topic": "Lab", "expect": 100, "orderly": true}),
        )
        .unwrap();
        let pulled = lab
            .at_home("pull", json!({"group": "g3", "topic": "Lab"}))
            .unwrap();
        assert_eq!(
            pulled.iter().filter(|l| l["type"] == "consumed").count(),
            100
        );
        lab.at_home(
            "litepull",
            json!({"group": "g4", "topic": "Lab", "expect": 100}),
        )
        .unwrap();
        let found = lab
            .at_home("query", json!({"topic": "Lab", "key": "sync-3"}))
            .unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let text = lab.admin(&["clusterList", "-n", &lab.namesrv]).unwrap();
        assert!(text.contains("broker-a"), "{text}");
        let begun = lab.begin(
            "push",
            json!({"ns": lab.namesrv, "group": "g5", "topic": "Lab", "expect": 100}),
        );
        let begun = begun.unwrap();
        begun.wait_for("started", Duration::from_secs(30)).unwrap();
        begun.finish(Duration::from_secs(60)).unwrap();
        for mode in ["sync", "async", "oneway", "batch"] {
            let ns = lab.namesrv.as_str();
            let sent =
                tests::clients::go(&["send", "-ns", ns, "-topic", "Go", "-mode", mode]).unwrap();
            assert!(
                sent.iter().filter(|l| l["type"] == "send").count() >= 1,
                "{sent:?}"
            );
        }
        let ns = lab.namesrv.as_str();
        tests::clients::go(&["consume", "-ns", ns, "-topic", "Go", "-expect", "40"]).unwrap();
        let ns = format!("ns={}", lab.namesrv);
        tests::clients::python(&["send", &ns, "topic=Py", "tag=TagA"]).unwrap();
        tests::clients::python(&["consume", &ns, "topic=Py", "expect=10", "expr=TagA"]).unwrap();
        broker.stop().unwrap();
    }
}

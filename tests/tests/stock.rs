//! The harness itself, proven on the stock broker: what it says about Java must be what is known of Java.
//!
//! Not part of the gate (`scripts/interop stock` runs it): it tests the tests.

use serde_json::json;
use tests::compare::{self, Growth};
use tests::conf::Conf;
use tests::exercise::Target;
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
        let target = Target {
            lab,
            ns: &lab.namesrv,
        };
        target.send_and_consume("Lab").unwrap();
        target.filters_and_offsets("Tags").unwrap();
        target.held_pull("Held").unwrap();
        target.queries("Query").unwrap();
        target.go("Go").unwrap();
        target.python("Py").unwrap();
        target.admin("Admin").unwrap();
        broker.stop().unwrap();
    }
}

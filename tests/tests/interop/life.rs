//! One store through the hands of several brokers: ours, stock Java, ours again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::compare::{self, Growth, none};
use tests::conf::Conf;
use tests::fixture::Fixture;
use tests::lab::{Lab, keep};
use tests::ledger::{ByKey, Found, Ledger};
use tests::ours::OurBroker;
use tests::scan::Scan;
use tests::stock::{StockBroker, Version};

/// `maxHashSlotNum` of the fixtures.
const SLOTS: usize = 1000;

/// The topics of the mix that are sent to here, with their number of queues.
const TOPICS: [(&str, i64); 3] = [("FixOrders", 4), ("FixEvents", 4), ("FixSingle", 1)];

/// A store under test.
pub struct Store {
    fixture: Fixture,
    /// The clients that fit the fixture.
    pub lab: &'static Lab,
    /// Folder of the store.
    pub store: PathBuf,
    home: PathBuf,
    /// Configuration of the broker that runs, or ran last.
    pub conf: Conf,
    /// Messages sent after the ledger was written, by (topic, queue, offset).
    sent: Vec<Value>,
    round: i32,
}

/// The broker that has the store open.
pub enum Broker {
    /// `mqbroker`
    Ours(OurBroker),
    /// Java
    Stock(StockBroker),
}

impl Store {
    /// The unpacked fixture in `home`, with the configuration that its operator would now use.
    pub fn new(fixture: Fixture, home: &Path) -> Store {
        let lab = Lab::shared(Version::named(fixture.version));
        let store = home.join("store");
        let conf = Conf::of_fixture(&fixture, &store, &lab.namesrv)
            .unwrap()
            .dledger()
            .unwrap();
        Store {
            fixture,
            lab,
            store,
            home: home.to_owned(),
            conf,
            sent: Vec::new(),
            round: 0,
        }
    }

    /// Starts ours and waits until clients see it.
    pub fn ours(&mut self) -> Broker {
        self.conf = self.conf.clone().moved().unwrap();
        let broker = OurBroker::start(&self.conf, &self.home.join("ours")).unwrap();
        self.seen();
        Broker::Ours(broker)
    }

    /// Starts the stock broker and waits until clients see it.
    pub fn stock(&mut self, version: Version) -> Broker {
        self.conf = self.conf.clone().moved().unwrap();
        let home = self.home.join(version.text());
        let broker = StockBroker::start(version, &self.conf, &home).unwrap();
        self.seen();
        Broker::Stock(broker)
    }

    fn seen(&self) {
        self.lab
            .at_home("ready", json!({"topic": "FixOrders", "waitMs": 60000}))
            .unwrap();
    }

    /// Everything that is served, with the queries of `like`.
    pub fn dump(&self, like: &Ledger) -> Ledger {
        let dump = self
            .lab
            .dump(&self.conf.ports.addr(), &self.store, Some(like))
            .unwrap();
        none("offsets", &compare::dense(&dump));
        let at: BTreeSet<(String, i64, i64)> = dump
            .messages
            .iter()
            .map(|m| {
                (
                    m.queue().0.to_owned(),
                    i64::from(m.queue().1),
                    m.queue_offset,
                )
            })
            .collect();
        for s in &self.sent {
            let topic = s["topic"].as_str().unwrap_or_default().to_owned();
            let place = (
                topic,
                s["queueId"].as_i64().unwrap(),
                s["queueOffset"].as_i64().unwrap(),
            );
            assert!(at.contains(&place), "acknowledged here, not served: {s}");
        }
        dump
    }

    /// Sends to every topic of the mix, every way: queue offsets must go on where `before` ends.
    pub fn send_more(&mut self, before: &Ledger) {
        self.round += 1;
        let mut lines = Vec::new();
        for (topic, queues) in TOPICS {
            for queue in 0..queues {
                let args = json!({"topic": topic, "queue": queue, "count": 8, "content": "mix", "seed": self.round * 100 + queue as i32});
                lines.extend(self.lab.at_home("send", args).unwrap());
            }
            let args = json!({"topic": topic, "queue": 0, "count": 10, "mode": "batch", "batch": 5, "keyPrefix": format!("batch{}", self.round)});
            lines.extend(self.lab.at_home("send", args).unwrap());
        }
        let mut next: BTreeMap<(String, i64), i64> = before
            .queues
            .iter()
            .map(|q| ((q.topic.clone(), i64::from(q.queue_id)), q.max_offset))
            .collect();
        for s in &lines {
            assert_eq!(s["status"], "SEND_OK", "{s}");
            let queue = (
                s["topic"].as_str().unwrap().to_owned(),
                s["queueId"].as_i64().unwrap(),
            );
            let due = next.entry(queue).or_default();
            assert_eq!(
                s["queueOffset"].as_i64(),
                Some(*due),
                "queue offsets go on: {s}"
            );
            *due += 1;
        }
        self.sent.extend(lines);
    }

    /// A push consumer of a group that has offsets goes on at them, and gets everything up to the end.
    pub fn consume_on(&self, dump: &Ledger) {
        // Not FixOrders: the stock push consumer fails on the messages without a body that it has.
        let offsets = compare::consumer_offsets(&dump.configs["consumerOffset"]);
        let mid = offsets.contains_key("FixEvents@FixMidGroup");
        let group = if mid { "FixMidGroup" } else { "FixRetryGroup" };
        let from = &offsets[&format!("FixEvents@{group}")];
        let due: BTreeSet<(i64, i64)> = dump
            .messages
            .iter()
            .filter(|m| m.queue().0 == "FixEvents")
            .filter(|m| m.queue_offset >= from.get(&m.queue_id).copied().unwrap_or(0))
            .map(|m| (i64::from(m.queue_id), m.queue_offset))
            .collect();
        let args =
            json!({"group": group, "topic": "FixEvents", "expect": due.len(), "extraMs": 300});
        let lines = self.lab.at_home("push", args).unwrap();
        let got: BTreeSet<(i64, i64)> = lines
            .iter()
            .filter(|l| l["type"] == "consumed")
            .map(|l| {
                (
                    l["queueId"].as_i64().unwrap(),
                    l["queueOffset"].as_i64().unwrap(),
                )
            })
            .collect();
        let differ: Vec<_> = got.symmetric_difference(&due).take(5).collect();
        assert!(
            differ.is_empty(),
            "{group}: {} consumed, {} due, {differ:?}",
            got.len(),
            due.len()
        );
    }

    /// The pull consumer of the client reads a whole topic.
    pub fn pull_all(&self, dump: &Ledger) {
        let args = json!({"group": "LifePull", "topic": "FixEvents"});
        let lines = self.lab.at_home("pull", args).unwrap();
        let pulled = lines.iter().filter(|l| l["type"] == "consumed").count();
        let due = dump
            .messages
            .iter()
            .filter(|m| m.queue().0 == "FixEvents")
            .count();
        assert_eq!(pulled, due, "messages of FixEvents by the pull consumer");
    }

    /// Starts the stock broker without the replicated log, as before the upgrade.
    pub fn stock_plain(&mut self, version: Version) -> Broker {
        for key in [
            "enableDLegerCommitLog",
            "dLegerGroup",
            "dLegerPeers",
            "dLegerSelfId",
        ] {
            self.conf = self.conf.clone().unset(key);
        }
        let broker = self.stock(version);
        self.conf = self.conf.clone().dledger().unwrap();
        broker
    }

    /// Starts ours, which must refuse; what it said.
    pub fn ours_refuses(&mut self) -> String {
        self.conf = self.conf.clone().moved().unwrap();
        let home = self.home.join("refused");
        let mut broker = OurBroker::spawn(&self.conf, &home).unwrap();
        let status = broker.daemon.wait_end(Duration::from_secs(20)).unwrap();
        assert!(
            !status.success(),
            "it ended with {status}:\n{}",
            broker.daemon.tail()
        );
        broker.daemon.output()
    }

    /// Names that the name server has of brokers.
    fn registered(&self) -> String {
        let answer = self.lab.rpc(&self.lab.namesrv, 106, json!({})).unwrap();
        let body = answer["body"].as_str().unwrap_or_default();
        String::from_utf8(STANDARD.decode(body).unwrap()).unwrap()
    }

    /// Stops the broker cleanly; afterwards log, queues and index must agree to the byte.
    pub fn stop(&self, broker: Broker, label: &str) {
        match broker {
            Broker::Ours(b) => {
                assert!(
                    self.registered().contains("broker-a"),
                    "{}",
                    self.registered()
                );
                b.stop().unwrap();
                assert!(
                    !self.registered().contains("broker-a"),
                    "still at the name server"
                );
            }
            Broker::Stock(b) => drop(b.stop().unwrap()),
        }
        keep(&self.store, &format!("{}-{label}", self.fixture.name)).unwrap();
        assert!(
            !self.store.join("abort").exists(),
            "abort is left after a clean stop"
        );
        let scan = Scan::of(&self.store, SLOTS).unwrap();
        none(label, &scan.problems());
    }

    /// Reads the store's bytes.
    pub fn scan(&self) -> Scan {
        Scan::of(&self.store, SLOTS).unwrap()
    }

    /// A file under `config/`.
    pub fn table(&self, name: &str) -> String {
        std::fs::read_to_string(self.store.join("config").join(name)).unwrap_or_default()
    }
}

/// What a killed store must serve: all that was in its log, as Java reads it, and every key.
pub fn expectation_after_kill(fixture: &Fixture, scan: &Scan) -> Ledger {
    let mut ledger = fixture.java_reopen().unwrap();
    // What lies behind the end was written by the reopening itself.
    ledger
        .messages
        .retain(|m| scan.records.contains_key(&m.phys));
    ledger.queues.clear();
    ledger.by_time.clear();
    ledger.by_key.clear();
    for r in scan.records.values().step_by(37) {
        for key in r
            .index_keys()
            .iter()
            .map(|k| k.split_once('#').unwrap().1.to_owned())
        {
            let found = scan
                .records
                .values()
                .filter(|o| {
                    o.topic == r.topic && o.index_keys().contains(&format!("{}#{key}", r.topic))
                })
                .map(|o| Found {
                    topic: o.topic.clone(),
                    queue_id: o.queue_id,
                    queue_offset: o.queue_offset,
                    phys: o.phys,
                })
                .collect::<Vec<_>>();
            // An answer holds at most 32.
            if found.len() <= 32 {
                let unique = r.property("UNIQ_KEY") == Some(key.as_str());
                ledger.by_key.push(ByKey {
                    topic: r.topic.clone(),
                    key,
                    unique,
                    code: 0,
                    found,
                });
            }
        }
    }
    ledger
}

/// The whole life of a fixture: ours, stock Java of each version in `then`, ours.
pub fn live(fixture: Fixture, then: &[Version]) {
    let unpacked = fixture.unpack().unwrap();
    let mut store = Store::new(fixture, unpacked.dir());
    let found = store.scan();
    let expected = match fixture.crash {
        false => fixture.ledger().unwrap(),
        true => expectation_after_kill(&fixture, &found),
    };
    let (delays, offsets) = (
        store.table("delayOffset.json"),
        store.table("consumerOffset.json"),
    );

    let ours = store.ours();
    let dump = store.dump(&expected);
    none(
        "served by us",
        &compare::served_again(&expected, &dump, Growth::None),
    );
    none("found by time", &compare::times(&expected, &dump));
    none(
        "acknowledged",
        &compare::acknowledged_missing(&fixture.ledger().unwrap(), &dump),
    );
    assert_eq!(
        compare::consumer_offsets(&dump.configs["consumerOffset"]),
        compare::consumer_offsets(&offsets),
        "consumer offsets"
    );
    store.send_more(&dump);
    store.pull_all(&store.dump(&expected));
    let dump = store.dump(&expected);
    store.consume_on(&dump);
    none(
        "after our sends",
        &compare::served_again(&expected, &dump, Growth::Allowed),
    );
    let mut last = store.dump(&dump);
    store.stop(ours, "ours");
    assert_eq!(
        store.table("delayOffset.json"),
        delays,
        "delay offsets are not ours to move yet"
    );

    for version in then {
        let java = store.stock(*version);
        let dump = store.dump(&last);
        none(
            "served by Java",
            &compare::served_again(&last, &dump, Growth::Allowed),
        );
        store.send_more(&dump);
        let dump = store.dump(&dump);
        store.consume_on(&dump);
        last = store.dump(&dump);
        store.stop(java, version.text());
    }

    let ours = store.ours();
    let dump = store.dump(&last);
    none(
        "served by us again",
        &compare::served_again(&last, &dump, Growth::None),
    );
    store.send_more(&dump);
    let again = store.dump(&dump);
    none(
        "at last",
        &compare::served_again(&dump, &again, Growth::Allowed),
    );
    store.stop(ours, "ours again");
}

/// Waits until a condition holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(std::time::Instant::now() < end, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

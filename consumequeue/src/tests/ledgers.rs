//! What stock brokers answered about their stores, asked of ours.

use std::collections::HashMap;
use std::io::Read;

use serde_json::Value;

use super::fixtures::{Fixture, open_in_place};
use super::{Derived, Start};
use crate::testing::TestLog;
use crate::time_search::{Boundary, offset_by_time, store_time};

/// The lines of a fixture's ledger that have one of the types.
fn ledger(name: &str, types: &[&str]) -> Vec<Value> {
    let path = Fixture::folder(name).join("ledger.jsonl.gz");
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| types.contains(&line["type"].as_str().unwrap_or_default()))
        .collect()
}

fn check_queues(derived: &Derived, lines: &[Value], name: &str) {
    let mut bounds = HashMap::new();
    for line in lines.iter().filter(|line| line["type"] == "queue") {
        let (topic, id) = (
            line["topic"].as_str().unwrap(),
            line["queueId"].as_i64().unwrap() as i32,
        );
        let (min, max) = (
            line["minOffset"].as_i64().unwrap(),
            line["maxOffset"].as_i64().unwrap(),
        );
        let queue = derived.queues.queue(topic, id);
        let own = queue.map_or((0, 0), |queue| (queue.min_offset(), queue.max_offset()));
        assert_eq!(own, (min, max), "{name}: {topic}-{id}");
        bounds.insert((topic, id), (min, max));
    }
    assert!(bounds.len() > 10);
}

fn check_units(derived: &Derived, lines: &[Value], name: &str) {
    let mut checked = 0;
    for line in lines.iter().filter(|line| line["type"] == "msg") {
        let (topic, id) = (
            line["topic"].as_str().unwrap(),
            line["queueId"].as_i64().unwrap() as i32,
        );
        let queue = derived.queues.queue(topic, id).unwrap();
        let unit = queue
            .unit(line["queueOffset"].as_i64().unwrap())
            .unwrap()
            .unwrap();
        let expected = (
            line["phys"].as_i64().unwrap(),
            line["size"].as_i64().unwrap(),
        );
        assert_eq!(
            (unit.physical_offset, i64::from(unit.size)),
            expected,
            "{name}: {line}"
        );
        checked += 1;
    }
    assert!(checked > 1000, "{name}: {checked}");
}

fn check_keys(derived: &Derived, log: &TestLog, lines: &[Value], name: &str) {
    for line in lines.iter().filter(|line| line["type"] == "byKey") {
        let (topic, key) = (
            line["topic"].as_str().unwrap(),
            line["key"].as_str().unwrap(),
        );
        let found = derived
            .index
            .find(log, topic, key, 32, 0, i64::MAX)
            .unwrap();
        let mut own: Vec<_> = found
            .iter()
            .map(|(physical_offset, _)| *physical_offset)
            .collect();
        let answer = line["found"].as_array().unwrap();
        let mut java: Vec<_> = answer
            .iter()
            .map(|found| found["phys"].as_i64().unwrap())
            .collect();
        own.sort_unstable();
        java.sort_unstable();
        // Java counts what only shares the hash, or is gone, towards its 32.
        if java.len() < 30 {
            assert_eq!(own, java, "{name}: {topic} {key}");
        } else {
            assert!(
                java.iter().all(|offset| own.contains(offset)),
                "{name}: {topic} {key}"
            );
        }
    }
}

fn check_times(derived: &Derived, log: &TestLog, lines: &[Value], name: &str) {
    let boundary = if name.contains("533") {
        Boundary::Lower
    } else {
        Boundary::Nearest
    };
    let mut checked = 0;
    for line in lines.iter().filter(|line| line["type"] == "byTime") {
        let (topic, id) = (
            line["topic"].as_str().unwrap(),
            line["queueId"].as_i64().unwrap() as i32,
        );
        let (time, java) = (
            line["timestamp"].as_i64().unwrap(),
            line["offset"].as_i64().unwrap(),
        );
        let Some(queue) = derived.queues.queue(topic, id) else {
            continue;
        };
        let own = offset_by_time(&queue, log, time, boundary).unwrap();
        // Of several messages of one millisecond 4.9 gives any, and it looks into the wrong file if the file was
        // touched later than its last message was stored.
        let distance = |offset| {
            let found = store_time(&queue, log, offset).unwrap();
            found.map(|found| found.abs_diff(time))
        };
        let as_good = boundary == Boundary::Nearest && distance(own) <= distance(java);
        assert!(
            own == java || as_good,
            "{name}: {topic}-{id} at {time}: {own}, Java {java}"
        );
        checked += 1;
    }
    assert!(checked > 50, "{name}: {checked}");
}

#[test]
fn every_answer_in_the_ledgers() {
    for name in [
        "A-dledger-497",
        "C-dledger-533",
        "E-plain-497",
        "H-upgraded-497",
        "L-upgraded-front-deleted-497",
    ] {
        let fixture = Fixture::unpack(name);
        let log = fixture.log();
        let (derived, _) = open_in_place(&fixture, Start::default());
        let lines = ledger(name, &["queue", "msg", "byKey", "byTime"]);
        check_queues(&derived, &lines, name);
        check_units(&derived, &lines, name);
        check_keys(&derived, &log, &lines, name);
        check_times(&derived, &log, &lines, name);
    }
}

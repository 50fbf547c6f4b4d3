//! The default start: no configuration, stock clients at once.

use std::fs::File;
use std::time::Duration;

use serde_json::json;
use tests::exercise::Target;
use tests::lab::Lab;
use tests::ours::{OurBroker, mqctl};
use tests::scan::Scan;
use tests::stock::Version;

use crate::life::eventually;

/// The ports of the default start belong to one test at a time on a machine.
struct DefaultPorts(#[expect(dead_code, reason = "held for its lock")] File);

impl DefaultPorts {
    fn wait() -> DefaultPorts {
        let file = File::create(std::env::temp_dir().join("ledgermq-default-ports.lock")).unwrap();
        file.lock().unwrap();
        eventually("ports 9876, 10909, 10911 and 40911 are free", || {
            [9876, 10909, 10911, 40911]
                .into_iter()
                .all(tests::ports::is_free)
        });
        DefaultPorts(file)
    }
}

/// The commands of the README: `mqctl send`, then `mqctl consume`; `more` says where.
pub fn first_try(more: &[&str]) {
    let run = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(more);
        let output = mqctl(&all).unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{all:?}: {said}{errors}");
        said
    };
    run(&["send", "--topic", "hello", "--body", "first message"]);
    let args = [
        "consume", "--topic", "hello", "--group", "readers", "--from", "first", "--max", "1",
    ];
    let said = run(&args);
    assert!(said.contains("first message"), "{said}");
}

/// Messages that a consumer cannot take yet wait in the schedule topic (they are not delivered by this version).
fn send_back(target: &Target<'_>) {
    let run = |cmd: &str, args| target.run(cmd, args).unwrap();
    run("send", json!({"topic": "Back", "count": 10}));
    run(
        "push",
        json!({"group": "back", "topic": "Back", "expect": 7, "retry": 3, "extraMs": 500}),
    );
    let ready = run("ready", json!({}));
    let addr = ready[0]["addr"].as_str().unwrap();
    let schedule = json!({"topic": "SCHEDULE_TOPIC_XXXX", "queueId": 0});
    eventually("three messages wait at delay level 1", || {
        let answer = target.lab.rpc(addr, 30, schedule.clone()).unwrap();
        answer["ext"]["offset"] == "3"
    });
}

const NS: &str = "127.0.0.1:9876";

#[test]
fn default_start_serves_stock_clients() {
    let _ports = DefaultPorts::wait();
    let dir = tempfile::tempdir().unwrap();
    let mut broker = OurBroker::with_args(&[], dir.path()).unwrap();
    broker
        .daemon
        .wait_port(10911, Duration::from_secs(30))
        .unwrap();
    for version in [Version::V4, Version::V5] {
        let lab = Lab::shared(version);
        let target = Target { lab, ns: NS };
        let name = |what: &str| format!("{what}{}", version.text().replace('.', ""));
        target.run("ready", json!({})).unwrap();
        target.send_and_consume(&name("Lab")).unwrap();
        target.filters_and_offsets(&name("Tags")).unwrap();
        target.held_pull(&name("Held")).unwrap();
        target.queries(&name("Query")).unwrap();
        target.admin(&name("Admin")).unwrap();
    }
    let target = Target {
        lab: Lab::shared(Version::V4),
        ns: NS,
    };
    target.go("GoTopic").unwrap();
    target.python("PyTopic").unwrap();
    first_try(&[]);
    send_back(&target);
    assert!(dir.path().join("store").is_dir(), "the store is ./store");
    broker.stop().unwrap();
    let scan = Scan::of(&dir.path().join("store"), 5_000_000).unwrap();
    // The queues of the topics that the administrator deleted are gone, their messages are still in the log.
    let deleted = |p: &String| p.contains(" Admin497/") || p.contains(" Admin533/");
    let problems: Vec<_> = scan
        .problems()
        .into_iter()
        .filter(|p| !deleted(p))
        .collect();
    tests::compare::none("after the stop", &problems);
    assert!(scan.records.len() > 300, "{} records", scan.records.len());

    // Once more over the same store: everything is still there.
    let mut broker = OurBroker::with_args(&[], dir.path()).unwrap();
    broker
        .daemon
        .wait_port(10911, Duration::from_secs(30))
        .unwrap();
    target.run("ready", json!({"topic": "Lab497"})).unwrap();
    let pulled = target
        .run("pull", json!({"group": "again", "topic": "Lab497"}))
        .unwrap();
    assert_eq!(
        pulled.iter().filter(|l| l["type"] == "consumed").count(),
        100
    );
    broker.stop().unwrap();
}

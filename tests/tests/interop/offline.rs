//! `mqctl store check` and `mqctl store dump` on every fixture, the group's members included: they say what is
//! there and change nothing.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::compare::none;
use tests::fixture::{self, Fixture};
use tests::ours::mqctl;

/// Length, modification time and, for files below 16 MiB, content of everything under a folder.
fn state(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.metadata().unwrap();
            if meta.is_dir() {
                open.push(path.clone());
            }
            let small = meta.is_file() && meta.len() < 16 << 20;
            let content = small.then(|| Sha256::digest(std::fs::read(&path).unwrap()));
            let text = format!("{} {:?} {content:?}", meta.len(), meta.modified().unwrap());
            found.insert(path.display().to_string(), text);
        }
    }
    found
}

fn examine(f: Fixture, members: &[&str]) {
    let unpacked = f.unpack().unwrap();
    let ledger = if f.crash { f.java_reopen() } else { f.ledger() }.unwrap();
    for member in members {
        let dir = unpacked.member(member);
        let before = state(&dir);
        let text = dir.display().to_string();
        let check = mqctl(&["store", "check", &text, "--json"]).unwrap();
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        let errors = String::from_utf8_lossy(&check.stderr).into_owned();
        let value: Value =
            serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}\n{errors}"));
        assert!(value.is_object(), "{value}");
        // A clean store is sound; a killed one may have findings, but it can be read.
        let code = check.status.code();
        assert!(
            code == Some(0) || (f.crash && code == Some(1)),
            "{} {member}: {code:?} {said} {errors}",
            f.name
        );
        let mut problems = Vec::new();
        for from_queues in [false, true] {
            // The queues of a killed store lag behind its log until it is opened.
            if !(f.crash && from_queues) {
                problems.extend(dump(&text, from_queues, &ledger, f.crash));
            }
        }
        none(&format!("dump of {} {member}", f.name), &problems);
        let after = state(&dir);
        let changed: Vec<String> = before
            .iter()
            .filter(|(k, v)| after.get(*k) != Some(v))
            .map(|(k, v)| format!("{k}: {v} now {:?}", after.get(k)))
            .chain(
                after
                    .keys()
                    .filter(|k| !before.contains_key(*k))
                    .map(|k| format!("new: {k}")),
            )
            .collect();
        none(
            &format!("{} {member} was changed by check or dump", f.name),
            &changed,
        );
    }
}

fn dump(dir: &str, from_queues: bool, ledger: &tests::ledger::Ledger, crash: bool) -> Vec<String> {
    let mut args = vec!["store", "dump", dir, "--json"];
    if from_queues {
        args.push("--from-queues");
    }
    let output = mqctl(&args).unwrap();
    let mut problems = Vec::new();
    if !output.status.success() {
        problems.push(format!(
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: BTreeMap<i64, Value> = lines
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
        .map(|v| (v["physicalOffset"].as_i64().unwrap_or(-1), v))
        .collect();
    let end = lines.keys().next_back().copied().unwrap_or(-1);
    for m in &ledger.messages {
        let Some(l) = lines.remove(&m.phys) else {
            if !crash || m.phys <= end {
                problems.push(format!("not in the dump: {} at {}", m.topic, m.phys));
            }
            continue;
        };
        let sha = l["bodySha256"].as_str().unwrap_or_default();
        let same = l["topic"] == m.topic.as_str()
            && l["queueId"] == m.queue_id
            && l["queueOffset"] == m.queue_offset
            && l["storeTimestamp"] == m.store_ts
            && l["sysFlag"] == m.sys_flag
            && l["bodyLength"] == m.stored_body_len
            && sha.starts_with(&m.stored_body_sha);
        let torn = crash && m.phys >= end;
        if !same && !torn {
            problems.push(format!("{l} for {m:?}"));
        }
    }
    // Prepared and rolled back messages are in the log only.
    let hidden = |v: &Value| {
        v["sysFlag"]
            .as_i64()
            .is_some_and(|f| matches!(f & 12, 4 | 12))
    };
    for (phys, l) in lines.iter().filter(|(_, l)| from_queues || !hidden(l)) {
        problems.push(format!("only in the dump: {phys} {l}"));
    }
    problems
}

#[test]
fn check_and_dump_every_fixture() {
    for f in fixture::ALL {
        examine(
            f,
            if f == fixture::I {
                &["n0", "n1", "n2"]
            } else {
                &["store"]
            },
        );
    }
}

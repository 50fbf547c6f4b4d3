//! What a store served before against what it serves now.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::ledger::{Found, Ledger, Msg, Queue};

/// Topic and queue id.
pub type QueueName = (String, i32);

/// What may differ between two dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing was written in between.
    None,
    /// Messages may have been added at the ends of queues.
    Allowed,
}

fn key(m: &Msg) -> (&str, i32, i64, i64) {
    let (topic, queue) = m.queue();
    (topic, queue, m.queue_offset, m.phys)
}

/// Every difference between a store's ledger and a later dump of it; empty if there is none.
///
/// Checked: each message again at the same queue offset and physical offset with an equal whole record, none
/// lost, none added except at ends; bounds of queues; each query by key.
pub fn served_again(before: &Ledger, after: &Ledger, growth: Growth) -> Vec<String> {
    let mut problems = Vec::new();
    let have: HashMap<_, _> = after.messages.iter().map(|m| (key(m), m)).collect();
    for m in &before.messages {
        match have.get(&key(m)) {
            None => problems.push(format!("lost: {:?} size {}", key(m), m.size)),
            Some(now) if now.rec_sha != m.rec_sha => {
                problems.push(format!(
                    "record differs: {:?} {} now {}",
                    key(m),
                    m.rec_sha,
                    now.rec_sha
                ));
            }
            Some(_) => {}
        }
    }
    bounds(before, after, growth, &mut problems);
    let known: HashSet<_> = before.messages.iter().map(key).collect();
    let ends: BTreeMap<_, _> = before
        .queues
        .iter()
        .map(|q| ((q.topic.as_str(), q.queue_id), q.max_offset))
        .collect();
    for m in after.messages.iter().filter(|m| !known.contains(&key(m))) {
        let (topic, queue) = m.queue();
        let end = ends.get(&(topic, queue)).copied().unwrap_or(0);
        if growth == Growth::None || m.queue_offset < end {
            problems.push(format!("not in the ledger: {:?}", key(m)));
        }
    }
    queries(before, after, growth, &mut problems);
    problems
}

fn bounds(before: &Ledger, after: &Ledger, growth: Growth, problems: &mut Vec<String>) {
    let name = |q: &Queue| (q.topic.clone(), q.queue_id);
    let now: BTreeMap<QueueName, &Queue> = after.queues.iter().map(|q| (name(q), q)).collect();
    for q in &before.queues {
        let Some(n) = now.get(&name(q)) else {
            problems.push(format!("queue gone: {}/{}", q.topic, q.queue_id));
            continue;
        };
        let end_ok = match growth {
            Growth::None => n.max_offset == q.max_offset,
            Growth::Allowed => n.max_offset >= q.max_offset,
        };
        if n.min_offset != q.min_offset || !end_ok {
            problems.push(format!(
                "bounds of {}/{}: {}..{} now {}..{}",
                q.topic, q.queue_id, q.min_offset, q.max_offset, n.min_offset, n.max_offset
            ));
        }
    }
}

fn queries(before: &Ledger, after: &Ledger, growth: Growth, problems: &mut Vec<String>) {
    for (b, a) in before.by_key.iter().zip(&after.by_key) {
        let (was, is): (BTreeSet<&Found>, BTreeSet<&Found>) =
            (b.found.iter().collect(), a.found.iter().collect());
        // An answer holds at most 32: with additions the oldest ones may have left a full one.
        let grown = growth == Growth::Allowed && (is.is_superset(&was) || is.len() >= 32);
        let asked = (&a.topic, &a.key, a.unique) == (&b.topic, &b.key, b.unique);
        if !asked || !(was == is || grown) {
            problems.push(format!(
                "query {}/{}: {was:?} now {is:?} (code {})",
                b.topic, b.key, a.code
            ));
        }
    }
    if after.by_key.len() < before.by_key.len() {
        problems.push("queries missing in the dump".into());
    }
}

/// Answers to searches by time that differ from the ledger's and do not name a message stored at that very time.
///
/// Not for stock 4.9, whose answers depend on the modification times of queue files.
pub fn times(before: &Ledger, after: &Ledger) -> Vec<String> {
    let at: HashMap<_, _> = before
        .messages
        .iter()
        .map(|m| ((m.queue().0, m.queue().1, m.queue_offset), m.store_ts))
        .collect();
    let mut problems = Vec::new();
    for (b, a) in before.by_time.iter().zip(&after.by_time) {
        let stored = at.get(&(a.topic.as_str(), a.queue_id, a.offset)).copied();
        if a.offset != b.offset && stored != Some(a.timestamp) {
            problems.push(format!(
                "search by time: {b:?} now {a:?}, stored at {stored:?}"
            ));
        }
    }
    if after.by_time.len() < before.by_time.len() {
        problems.push("searches by time missing in the dump".into());
    }
    problems
}

/// What is wrong inside one dump: queue offsets that are not dense, bounds that do not fit the messages.
pub fn dense(dump: &Ledger) -> Vec<String> {
    let mut problems = Vec::new();
    let mut queues: BTreeMap<(&str, i32), Vec<&Msg>> = BTreeMap::new();
    for m in &dump.messages {
        queues.entry(m.queue()).or_default().push(m);
    }
    for q in &dump.queues {
        let messages = queues
            .remove(&(q.topic.as_str(), q.queue_id))
            .unwrap_or_default();
        let offsets = messages.iter().map(|m| m.queue_offset);
        if !offsets.eq(q.min_offset.max(0)..q.max_offset.max(0)) {
            problems.push(format!(
                "{}/{}: {} messages for {}..{} ({:?})",
                q.topic,
                q.queue_id,
                messages.len(),
                q.min_offset,
                q.max_offset,
                q.stopped
            ));
        }
    }
    problems
}

/// Acknowledged sends of a ledger that a dump does not have at the acknowledged queue offset.
///
/// Transactional sends report the half message, delayed ones the offset in the schedule topic: those are looked
/// up by their offset message id or unique key.
pub fn acknowledged_missing(ledger: &Ledger, dump: &Ledger) -> Vec<String> {
    let at: HashMap<_, _> = dump
        .messages
        .iter()
        .map(|m| ((m.queue().0, m.queue().1, m.queue_offset), m))
        .collect();
    let ids: HashSet<&str> = dump
        .messages
        .iter()
        .map(|m| m.offset_msg_id.as_str())
        .collect();
    let keys: HashSet<&str> = dump
        .messages
        .iter()
        .filter_map(|m| m.properties.get("UNIQ_KEY").map(String::as_str))
        .collect();
    let mut missing = Vec::new();
    for s in ledger.acknowledged() {
        let plain = !s.kind.starts_with("tx-") && !s.kind.starts_with("delay");
        let there = match (plain, s.queue_id, s.queue_offset, &s.msg_id) {
            (true, Some(q), Some(o), id) => at.get(&(s.topic.as_str(), q, o)).is_some_and(|m| {
                let unique = m.properties.get("UNIQ_KEY");
                s.kind == "batch" || id.is_none() || unique.map(String::as_str) == id.as_deref()
            }),
            _ => match (&s.offset_msg_id, &s.msg_id) {
                (Some(id), _) => ids.contains(id.as_str()),
                (None, Some(key)) => keys.contains(key.as_str()),
                _ => false,
            },
        };
        if !there {
            missing.push(format!(
                "{} {:?} {:?}@{:?}",
                s.kind, s.msg_id, s.queue_id, s.queue_offset
            ));
        }
    }
    missing
}

/// `topic@group` -> queue id -> offset, from a consumer offset table as served or as on disk.
pub fn consumer_offsets(json: &str) -> BTreeMap<String, BTreeMap<i32, i64>> {
    let value = serde_json::from_str::<Value>(&quote_keys(json)).unwrap_or_default();
    let table = value["offsetTable"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let queues = |v: &Value| -> BTreeMap<i32, i64> {
        let all = v.as_object().cloned().unwrap_or_default();
        all.iter()
            .filter_map(|(k, v)| Some((k.parse().ok()?, v.as_i64()?)))
            .collect()
    };
    table.iter().map(|(k, v)| (k.clone(), queues(v))).collect()
}

/// Java's tables have integer keys without quotes: adds them.
fn quote_keys(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 64);
    let (mut in_string, mut escaped, mut previous) = (false, false, ' ');
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if !in_string && c.is_ascii_digit() && matches!(previous, '{' | ',') {
            out.push('"');
            out.push(c);
            while let Some(d) = chars.next_if(char::is_ascii_digit) {
                out.push(d);
            }
            out.push('"');
        } else {
            out.push(c);
        }
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            in_string = c == '"';
        }
        if !c.is_whitespace() {
            previous = if in_string { ' ' } else { c };
        }
    }
    out
}

/// Fails with the first problems of a list.
#[track_caller]
pub fn none(what: &str, problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{what}: {} problems, the first:\n  {}",
        problems.len(),
        problems
            .iter()
            .take(12)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n  ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_keys_are_quoted_outside_strings_only() {
        let json = "{\"offsetTable\":{\"a{1:@g\":{0:5, 12:7},\"b\\\"{3:@g\":{\n\t1:9}}}";
        let table = consumer_offsets(json);
        assert_eq!(table["a{1:@g"], BTreeMap::from([(0, 5), (12, 7)]));
        assert_eq!(table["b\"{3:@g"], BTreeMap::from([(1, 9)]));
    }
}

//! Consume queues against the log.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Record, Scan, base, dirs, files, i32_at, i64_at, java_hash, name};

const UNIT: usize = 20;
/// Size field of a unit that only fills a gap in front of a queue's first message.
const FILLER: i32 = i32::MAX;
/// Seconds of the delay levels 1…18 by default.
const LEVELS: [i64; 18] = [
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
];

/// Reads all queues and compares them with the records.
pub fn check(root: &Path, scan: &mut Scan) -> Result<()> {
    let mut seen = HashMap::new();
    let low = scan.records.keys().next().copied().unwrap_or(0);
    for topic in dirs(root)? {
        for queue in dirs(&topic)? {
            let Ok(id) = name(&queue).parse::<i32>() else {
                continue;
            };
            one(&queue, name(&topic), id, low, scan, &mut seen)?;
        }
    }
    for r in scan
        .records
        .values()
        .filter(|r| r.in_queue() && !seen.contains_key(&r.phys))
    {
        scan.queue_problems.push(format!(
            "no unit for {}/{}@{} at {}",
            r.topic, r.queue_id, r.queue_offset, r.phys
        ));
    }
    Ok(())
}

fn one(
    dir: &Path,
    topic: &str,
    id: i32,
    low: i64,
    scan: &mut Scan,
    seen: &mut HashMap<i64, ()>,
) -> Result<()> {
    let (mut first, mut end) = (None, 0);
    for file in files(dir)? {
        let Some(from) = base(&file) else { continue };
        let b = fs::read(&file).with_context(|| file.display().to_string())?;
        for (i, u) in b.chunks_exact(UNIT).enumerate() {
            let offset = from / UNIT as i64 + i as i64;
            let (phys, size, code) = (i64_at(u, 0), i32_at(u, 8), i64_at(u, 12));
            if size <= 0 || (size == FILLER && phys == 0) {
                continue;
            }
            if first.is_some() && offset != end {
                scan.queue_problems
                    .push(format!("{topic}/{id}: gap before unit {offset}"));
            }
            first.get_or_insert(offset);
            end = offset + 1;
            if phys < low {
                continue;
            }
            if seen.insert(phys, ()).is_some() {
                scan.queue_problems
                    .push(format!("{topic}/{id}@{offset}: second unit for {phys}"));
            }
            match scan.records.get(&phys) {
                None => scan
                    .queue_problems
                    .push(format!("{topic}/{id}@{offset}: nothing at {phys}")),
                Some(r) => {
                    if let Some(problem) = unit(r, topic, id, offset, size, code) {
                        scan.queue_problems.push(problem);
                    }
                }
            }
        }
    }
    if let Some(first) = first {
        scan.queues.insert((topic.to_owned(), id), (first, end));
    }
    Ok(())
}

fn unit(r: &Record, topic: &str, id: i32, offset: i64, size: i32, code: i64) -> Option<String> {
    let expected = tags_code(r);
    let same = r.topic == topic && r.queue_id == id && r.queue_offset == offset && r.size == size;
    (!same || expected.is_some_and(|c| c != code)).then(|| {
        format!(
            "{topic}/{id}@{offset}: unit ({}, {size}, {code}), record {}/{}@{} of {}, code {expected:?}",
            r.phys, r.topic, r.queue_id, r.queue_offset, r.size
        )
    })
}

/// The tags code that the unit of a record has; None where the level is not one of the default ones.
fn tags_code(r: &Record) -> Option<i64> {
    if r.topic == "SCHEDULE_TOPIC_XXXX"
        && let Some(level) = r.property("DELAY")
    {
        let level: usize = level.parse().ok()?;
        return Some(r.store_ts + LEVELS.get(level.checked_sub(1)?)? * 1000);
    }
    Some(r.property("TAGS").map_or(0, |t| i64::from(java_hash(t))))
}

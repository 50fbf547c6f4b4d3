//! Whether consume queues and key index say what the log says. Reads everything once, in the order of the log.

use std::collections::HashMap;

use commitlog::Progress;
use commitlog::reader::{Framed, OfflineLog, ReadError};
use consumequeue::{DelayLevels, Record};
use remoting::message::topic;

use super::queue_files::{self, QueueFiles};
use super::{Bar, Opened};

/// Problems of one kind that are named one by one; the rest is counted.
const NAMED_MAX: usize = 20;

/// What a verification found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Messages in the log.
    pub messages: u64,
    /// Units compared.
    pub units: u64,
    /// Problems, one line each; at most [`NAMED_MAX`] of a kind, then how many more there are.
    pub problems: Vec<String>,
    counts: HashMap<&'static str, usize>,
}

struct Scan {
    files: QueueFiles,
    /// Offset that the next message of the queue must have; none before the first.
    next: Option<i64>,
}

impl Verified {
    fn problem(&mut self, kind: &'static str, text: impl FnOnce() -> String) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= NAMED_MAX {
            self.problems.push(text());
        }
    }

    fn close(&mut self) {
        let mut more: Vec<_> = self
            .counts
            .iter()
            .filter(|(_, n)| **n > NAMED_MAX)
            .collect();
        more.sort();
        let lines = more
            .iter()
            .map(|(kind, n)| format!("{kind}: {} more", *n - NAMED_MAX));
        let lines: Vec<_> = lines.collect();
        self.problems.extend(lines);
    }
}

/// Compares the whole log with the queues.
pub fn verify(opened: &Opened, log: &OfflineLog) -> anyhow::Result<Verified> {
    let mut found = Verified::default();
    let mut scans: HashMap<String, HashMap<i32, Scan>> = HashMap::new();
    for files in queue_files::all(&opened.fs, &opened.layout.consumequeue())? {
        let queues = scans.entry(files.topic.clone()).or_default();
        queues.insert(files.queue_id, Scan { files, next: None });
    }
    let bar = Bar::new();
    let (begin, end) = (log.min_offset(), log.end());
    let mut frames = log.frames(begin).checked();
    loop {
        match frames.next() {
            Ok(Some(framed)) => {
                compare(&mut found, &mut scans, &framed)?;
                bar.show(Progress {
                    what: "comparing queues with the log",
                    done: (framed.end() - begin) as u64,
                    total: (end - begin) as u64,
                });
            }
            Ok(None) => break,
            Err(error @ ReadError::Damaged { .. }) => {
                found.problem("damage", || error.to_string());
                frames.skip_file()?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    bar.clear();
    ends(&mut found, &mut scans)?;
    found.close();
    Ok(found)
}

fn compare(
    found: &mut Verified,
    scans: &mut HashMap<String, HashMap<i32, Scan>>,
    framed: &Framed,
) -> anyhow::Result<()> {
    found.messages += 1;
    let view = framed.view()?;
    let record = Record::of(&view);
    if !record.is_queued() {
        return Ok(());
    }
    let (name, queue_id, offset) = (record.topic, record.queue_id, record.queue_offset);
    let scan = scans
        .get_mut(name)
        .and_then(|queues| queues.get_mut(&queue_id));
    let Some(scan) = scan else {
        found.problem("queue is missing", || {
            format!("{name} queue {queue_id} has no files, but the log has its offset {offset}")
        });
        return Ok(());
    };
    if let Some(next) = scan.next.filter(|next| *next != offset) {
        found.problem("queue offsets", || {
            format!(
                "{name} queue {queue_id}: offset {offset} follows {} in the log",
                next - 1
            )
        });
    }
    scan.next = Some(scan.next.unwrap_or(offset).max(offset + 1));
    let wanted = record.unit(framed.physical_offset, framed.size, &DelayLevels::default());
    found.units += 1;
    match scan.files.unit(offset)? {
        None => found.problem("unit is missing", || {
            format!(
                "{name} queue {queue_id} has no unit at offset {offset} (message at {})",
                framed.physical_offset
            )
        }),
        // The time of delivery depends on a table that the store does not hold.
        Some(unit)
            if unit.physical_offset == wanted.physical_offset
                && unit.size == wanted.size
                && (unit.tags_code == wanted.tags_code || name == topic::SCHEDULE) => {}
        Some(unit) => found.problem("unit differs", || {
            format!(
                "{name} queue {queue_id} offset {offset}: found {unit:?}, the log says {wanted:?}"
            )
        }),
    }
    Ok(())
}

/// Units behind the last message of each queue.
fn ends(
    found: &mut Verified,
    scans: &mut HashMap<String, HashMap<i32, Scan>>,
) -> anyhow::Result<()> {
    for scan in scans.values_mut().flat_map(HashMap::values_mut) {
        let Some(next) = scan.next else { continue };
        let end = scan.files.end(next)?;
        let (name, id) = (&scan.files.topic, scan.files.queue_id);
        if end > next {
            found.problem("unit too many", || {
                format!("{name} queue {id} goes on to offset {end}, the log ends it at {next}")
            });
        }
    }
    Ok(())
}

//! Whether consume queues and key index say what the log says. Reads everything once, in the order of the log.

use std::collections::{HashMap, HashSet};

use commitlog::Progress;
use commitlog::reader::{Framed, OfflineLog, ReadError};
use consumequeue::{DelayLevels, Record, Unit};
use remoting::message::topic;

use super::queue_files::{self, QueueFiles};
use super::{Bar, Opened};
use crate::tables::TableFile;
use crate::tables::json::Node;

/// Problems of one kind that are named one by one; the rest is counted.
const NAMED_MAX: usize = 20;

/// What a verification found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Messages in the log.
    pub messages: u64,
    /// Units compared.
    pub units: u64,
    /// Whether queues differ from what is whole in the log.
    pub queues_differ: bool,
    /// Problems, one line each; at most [`NAMED_MAX`] of a kind, then how many more there are.
    pub problems: Vec<String>,
    counts: HashMap<&'static str, usize>,
}

struct Scan {
    files: QueueFiles,
    /// Physical offset of the message with queue offset 0, if queue and log still have it: what the log holds of
    /// the queue in front of it was deleted with the topic, which was made anew.
    born_at: Option<i64>,
    /// That message was met.
    born: bool,
    /// Offset that the next message of the queue must have; none before the first.
    next: Option<i64>,
}

impl Scan {
    fn new(mut files: QueueFiles, log_begin: i64) -> anyhow::Result<Scan> {
        let first = match files.begin() {
            0 => files.unit(0)?,
            _ => None,
        };
        Ok(Scan {
            files,
            born_at: first
                .filter(Unit::is_message)
                .map(|unit| unit.physical_offset)
                .filter(|at| *at >= log_begin),
            born: false,
            next: None,
        })
    }
}

/// Which topics there are, by `topics.json`; without a readable one, all that the log names.
fn topics(opened: &Opened) -> Box<dyn Fn(&str) -> bool> {
    let file = TableFile::new(opened.fs.clone(), opened.layout.config("topics.json"));
    let table = match file.load(|_| Ok(())) {
        Ok((Some(map), _)) => map.get("topicConfigTable").and_then(Node::as_map).cloned(),
        _ => None,
    };
    match table {
        Some(table) => {
            let names: HashSet<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
            Box::new(move |name| names.contains(name))
        }
        None => Box::new(|_| true),
    }
}

impl Verified {
    fn problem(&mut self, kind: &'static str, text: impl FnOnce() -> String) {
        self.queues_differ |= kind != "damage" && kind != "queue offsets";
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
    let (begin, end) = (log.min_offset(), log.end());
    let mut scans: HashMap<String, HashMap<i32, Scan>> = HashMap::new();
    for files in queue_files::all(&opened.fs, &opened.layout.consumequeue())? {
        let queues = scans.entry(files.topic.clone()).or_default();
        queues.insert(files.queue_id, Scan::new(files, begin)?);
    }
    let topics = topics(opened);
    let bar = Bar::new();
    let mut frames = log.frames(begin).checked();
    loop {
        match frames.next() {
            Ok(Some(framed)) => {
                compare(&mut found, &mut scans, &topics, &framed)?;
                bar.show(Progress {
                    what: "comparing queues with the log",
                    done: (framed.end() - begin) as u64,
                    total: (end - begin) as u64,
                });
            }
            Ok(None) => break,
            Err(error @ ReadError::Damaged { .. }) => {
                found.problem("damage", || error.to_string());
                frames.skip_damage()?;
            }
            Err(error @ ReadError::Missing { .. }) => {
                // What follows cannot be told from what is lost.
                bar.clear();
                found.problem("damage", || error.to_string());
                found.close();
                return Ok(found);
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
    topics: &dyn Fn(&str) -> bool,
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
        // The messages of a deleted topic stay in the log until they expire.
        if !topics(name) {
            return Ok(());
        }
        found.problem("queue is missing", || {
            format!("{name} queue {queue_id} has no files, but the log has its offset {offset}")
        });
        return Ok(());
    };
    if scan.born_at.is_some_and(|at| framed.physical_offset < at) {
        return Ok(());
    }
    scan.born |= offset == 0 && scan.born_at == Some(framed.physical_offset);
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
        let (name, id) = (scan.files.topic.clone(), scan.files.queue_id);
        if let Some(at) = scan.born_at.filter(|_| !scan.born) {
            found.problem("unit differs", || {
                format!("{name} queue {id} offset 0 names {at}, where the log has no such message")
            });
        }
        let Some(next) = scan.next else { continue };
        let end = scan.files.end(next)?;
        if end > next {
            found.problem("unit too many", || {
                format!("{name} queue {id} goes on to offset {end}, the log ends it at {next}")
            });
        }
    }
    Ok(())
}

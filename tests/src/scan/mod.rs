//! A byte-level reader of a stopped store, independent of the crates under test: what is in the log, and whether
//! queues and key index are exactly what the log says.
//!
//! Knows the layouts from the stores that stock brokers wrote (`tests/data/fixtures`), on which it is tested.

mod index;
mod log;
mod queues;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use log::{Entry, Record, crc32, record};

/// What was found in a store.
#[derive(Debug, Default)]
pub struct Scan {
    /// Records by physical offset, legacy half and replicated log alike.
    pub records: BTreeMap<i64, Record>,
    /// Entries of the replicated log in order.
    pub entries: Vec<Entry>,
    /// Smallest physical offset of the legacy half, if it has files.
    pub legacy_begin: Option<i64>,
    /// End of the data in the legacy half (where its last record ends).
    pub legacy_end: i64,
    /// Whether the last legacy file is closed by a blank record.
    pub legacy_closed: bool,
    /// Number of index units of the replicated log.
    pub index_units: usize,
    /// Queue units: topic, queue id -> (first unit present, one past the last).
    pub queues: BTreeMap<(String, i32), (i64, i64)>,
    /// Inconsistencies inside the log.
    pub log_problems: Vec<String>,
    /// Inconsistencies between queues and log.
    pub queue_problems: Vec<String>,
    /// Inconsistencies between key index and log.
    pub index_problems: Vec<String>,
}

impl Scan {
    /// Reads the store in `root`; `slots` is its `maxHashSlotNum`.
    pub fn of(root: &Path, slots: usize) -> Result<Scan> {
        let mut scan = Scan::default();
        log::legacy(&root.join("commitlog"), &mut scan)?;
        for dir in dirs(root)?
            .into_iter()
            .filter(|d| name(d).starts_with("dledger-"))
        {
            log::dledger(&dir, &mut scan)?;
        }
        queues::check(&root.join("consumequeue"), &mut scan)?;
        index::check(&root.join("index"), slots, &mut scan)?;
        Ok(scan)
    }

    /// All problems of all kinds.
    pub fn problems(&self) -> Vec<String> {
        [
            &self.log_problems,
            &self.queue_problems,
            &self.index_problems,
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect()
    }

    /// The record at a queue offset.
    pub fn by_queue(&self) -> BTreeMap<(&str, i32, i64), &Record> {
        self.records
            .values()
            .filter(|r| r.in_queue())
            .map(|r| ((r.topic.as_str(), r.queue_id, r.queue_offset), r))
            .collect()
    }
}

/// Sub-folders, sorted by name; none if `dir` does not exist.
fn dirs(dir: &Path) -> Result<Vec<PathBuf>> {
    children(dir, true)
}

/// Files, sorted by name; none if `dir` does not exist.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    children(dir, false)
}

fn children(dir: &Path, folders: bool) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() == folders {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default()
}

/// The number that a data file's name is; None for other files.
fn base(path: &Path) -> Option<i64> {
    name(path).parse().ok()
}

fn i16_at(b: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(bytes(b, at))
}

fn i32_at(b: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes(b, at))
}

fn i64_at(b: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes(b, at))
}

/// Bytes past the end read as zero: a reader of damaged files must not panic.
fn bytes<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(found) = b.get(at..at + N) {
        out.copy_from_slice(found);
    }
    out
}

/// Java's `String.hashCode`.
pub fn java_hash(s: &str) -> i32 {
    s.encode_utf16()
        .fold(0i32, |h, c| h.wrapping_mul(31).wrapping_add(i32::from(c)))
}

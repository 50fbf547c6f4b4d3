//! The key index: what is found, and what survives.

use std::path::Path;
use std::sync::Arc;

use dledger::fs::{Fs, MemFs};

use crate::testing::{Message, TestLog};
use crate::{IndexConfig, IndexEntry, KeyIndex, matches};

fn open(fs: &MemFs) -> KeyIndex {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let config = IndexConfig {
        hash_slots: 16,
        max_items: 21,
        ..IndexConfig::new("/index")
    };
    KeyIndex::open(fs, &config).unwrap().0
}

/// Puts a message in the log and its keys in the index.
fn put(log: &TestLog, index: &KeyIndex, store_timestamp: i64, keys: &str) -> i64 {
    let properties = format!("KEYS\u{1}{keys}");
    let message = Message {
        store_timestamp,
        properties: &properties,
        ..Message::new("T", 0, 0)
    };
    let physical_offset = log.put(&message);
    let hash = crate::index::TopicHash::of("T");
    let entries: Vec<_> = keys
        .split(' ')
        .map(|key| IndexEntry {
            hash: hash.key(key),
            physical_offset,
            store_timestamp,
        })
        .collect();
    index.append(&entries).unwrap();
    physical_offset
}

fn find(index: &KeyIndex, log: &TestLog, key: &str, begin: i64, end: i64) -> Vec<i64> {
    let found = index.find(log, "T", key, 100, begin, end).unwrap();
    found
        .into_iter()
        .map(|(physical_offset, _)| physical_offset)
        .collect()
}

const BEGIN: i64 = 1_700_000_000_123;

#[test]
fn newest_first_over_several_files() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    let index = open(&fs);
    let mut offsets: Vec<_> = (0..50)
        .map(|n| put(&log, &index, BEGIN + n * 700, &format!("k{n} shared")))
        .collect();
    assert_eq!(index.files(), 5);
    offsets.reverse();
    assert_eq!(find(&index, &log, "shared", 0, i64::MAX), offsets);
    assert_eq!(find(&index, &log, "k7", 0, i64::MAX), [offsets[42]]);
    assert_eq!(find(&index, &log, "k77", 0, i64::MAX), [0; 0]);
    assert_eq!(
        index.query("T", "shared", 3, 0, i64::MAX).unwrap(),
        offsets[..3]
    );
    assert!(
        index
            .query("U", "shared", 3, 0, i64::MAX)
            .unwrap()
            .is_empty()
    );
    // The same after a restart.
    index.flush(true).unwrap();
    assert_eq!(find(&open(&fs), &log, "shared", 0, i64::MAX), offsets);
}

#[test]
fn the_time_window_is_inclusive_and_exact() {
    let log = TestLog::new();
    let index = open(&MemFs::new());
    let times: Vec<_> = (0..60).map(|n| BEGIN + n * 333).collect();
    let offsets: Vec<_> = times
        .iter()
        .map(|time| put(&log, &index, *time, "k"))
        .collect();
    for (time, offset) in times.iter().zip(&offsets) {
        assert_eq!(find(&index, &log, "k", *time, *time), [*offset]);
        assert_eq!(find(&index, &log, "k", time + 1, time + 332), [0; 0]);
    }
    let mut some = offsets[10..=20].to_vec();
    some.reverse();
    assert_eq!(find(&index, &log, "k", times[10], times[20]), some);
}

#[test]
fn the_first_message_of_a_file_after_a_pause_is_found_at_its_time() {
    let log = TestLog::new();
    let index = open(&MemFs::new());
    for n in 0..20 {
        put(&log, &index, BEGIN + n, "k");
    }
    let late = BEGIN + 7_200_000;
    let offset = put(&log, &index, late, "k");
    assert_eq!(index.files(), 2);
    assert_eq!(find(&index, &log, "k", late, late), [offset]);
    // Store times may fall a little along the log.
    let earlier = put(&log, &index, late - 300, "k");
    assert_eq!(find(&index, &log, "k", late - 300, late - 300), [earlier]);
}

#[test]
fn equal_hashes_are_told_apart_by_the_message() {
    let log = TestLog::new();
    let index = open(&MemFs::new());
    // "Aa" and "BB" have the same hash.
    let first = put(&log, &index, BEGIN, "Aa");
    let second = put(&log, &index, BEGIN, "BB x");
    assert_eq!(
        index.query("T", "Aa", 10, 0, i64::MAX).unwrap(),
        [second, first]
    );
    assert_eq!(find(&index, &log, "Aa", 0, i64::MAX), [first]);
    assert_eq!(find(&index, &log, "BB", 0, i64::MAX), [second]);
    // Two keys of one message with the same hash: the message once.
    let both = put(&log, &index, BEGIN, "Aa BB");
    assert_eq!(
        index.query("T", "BB", 10, 0, i64::MAX).unwrap(),
        [both, second, first]
    );
    let frame = log.all()[2].bytes.clone();
    assert!(matches(&frame, "T", "BB", BEGIN, BEGIN) && matches(&frame, "T", "Aa", 0, BEGIN));
    assert!(!matches(&frame, "T", "Aa BB", 0, BEGIN) && !matches(&frame, "U", "Aa", 0, BEGIN));
    assert!(!matches(&frame, "T", "Aa", BEGIN + 1, i64::MAX) && !matches(b"", "T", "Aa", 0, BEGIN));
}

#[test]
fn the_same_messages_again_change_nothing() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    let index = open(&fs);
    for n in 0..30 {
        put(&log, &index, BEGIN + n, "a b");
    }
    let before = find(&index, &log, "a", 0, i64::MAX);
    let hash = crate::index::TopicHash::of("T");
    for physical_offset in before.iter().rev() {
        let entry = |key| IndexEntry {
            hash: hash.key(key),
            physical_offset: *physical_offset,
            store_timestamp: BEGIN,
        };
        index.append(&[entry("a"), entry("b")]).unwrap();
    }
    assert_eq!(find(&index, &log, "a", 0, i64::MAX), before);
    assert_eq!(index.query("T", "a", 100, 0, i64::MAX).unwrap().len(), 30);
}

#[test]
fn a_full_disk_loses_no_key() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    let index = open(&fs);
    put(&log, &index, BEGIN, "k");
    fs.set_capacity(Some(0));
    let hash = crate::index::TopicHash::of("T");
    let entries = |from: i64| -> Vec<IndexEntry> {
        (from..from + 15)
            .flat_map(|n| [("k", n), ("l", n)])
            .map(|(key, n)| IndexEntry {
                hash: hash.key(key),
                physical_offset: n * 1000,
                store_timestamp: BEGIN,
            })
            .collect()
    };
    // Whether a write into a sparse file needs room is the disk's affair; a new file always does.
    let failed = (0..4)
        .filter(|n| index.append(&entries(1 + n * 15)).is_err())
        .count();
    assert!(failed > 0);
    fs.set_capacity(None);
    index.append(&entries(61)).unwrap();
    let found = index.query("T", "k", 1000, 0, i64::MAX).unwrap();
    let mut expected: Vec<_> = (1..=75).rev().map(|n| n * 1000).collect();
    expected.push(48);
    assert_eq!(found, expected);
    assert_eq!(index.query("T", "l", 1000, 0, i64::MAX).unwrap().len(), 75);
}

#[test]
fn files_below_the_log_expire_but_never_the_last() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    let index = open(&fs);
    let offsets: Vec<_> = (0..60).map(|n| put(&log, &index, BEGIN + n, "k")).collect();
    assert_eq!(index.expire(offsets[20]).unwrap(), 1);
    assert_eq!(index.expire(i64::MAX).unwrap(), 1);
    assert_eq!(
        (index.files(), fs.list(Path::new("/index")).unwrap().len()),
        (1, 1)
    );
    log.expire(offsets[50]);
    assert_eq!(
        find(&index, &log, "k", 0, i64::MAX).len(),
        10,
        "what the log lost is left out"
    );
}

use dledger::fs::CrashPolicy;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::examine::{ExamineConfig, examine};
use crate::testing::{PlainStore, quiet};

fn store(n: usize) -> PlainStore {
    let mut store = PlainStore::new(4096, 0);
    for i in 0..n {
        store.append(60 + i % 7);
    }
    store
}

/// The store's disk copied, so that it can be changed alone.
fn copy(store: &PlainStore) -> PlainStore {
    let fs = store
        .fs
        .crash_image(CrashPolicy::KeepAll, &mut StdRng::seed_from_u64(1));
    let (layout, frames) = (store.layout.clone(), store.frames.clone());
    PlainStore {
        fs: fs.into(),
        file_size: store.file_size,
        layout,
        end: store.end,
        frames,
    }
}

fn digested(store: &PlainStore, label: &str) -> Digest {
    let mut config = DigestConfig::new(label, store.file_size);
    config.range_bytes = 512;
    digested_as(store, config)
}

fn digested_as(store: &PlainStore, config: DigestConfig) -> Digest {
    let exam = examine(
        &*store.fs,
        &ExamineConfig::new(store.layout.clone()),
        &quiet,
    )
    .unwrap();
    let log = OfflineLog::new(store.fs.clone(), &exam);
    digest(&log, &config, &quiet).unwrap()
}

#[test]
fn equal_stores_are_equal_whatever_lies_behind_their_end() {
    let one = store(60);
    let other = copy(&one);
    other.write(other.end + 9, b"old bytes");
    other.create(other.end - other.end % 4096 + 4096);
    let (a, b) = (digested(&one, "n0"), digested(&other, "n1"));
    assert_eq!(
        (&a.ranges, &a.records, a.end),
        (&b.ranges, &b.records, one.end)
    );
    assert_eq!(a.ranges.iter().map(|r| r.records).sum::<u64>(), 60);
    assert!(!a.records.is_empty());
    let comparison = compare(&[a, b]);
    assert_eq!(
        (comparison.difference.clone(), comparison.shorter.len()),
        (None, 0)
    );
    assert_eq!(
        comparison.to_string(),
        format!("equal from 0 to {}", one.end)
    );
}

#[test]
fn the_text_form_round_trips_and_a_cut_is_seen() {
    let digest = digested(&store(30), "a member with blanks");
    let text = digest.to_string();
    assert_eq!(text.parse::<Digest>(), Ok(digest));
    let lines: Vec<&str> = text.lines().collect();
    for cut in 0..lines.len() {
        assert!(lines[..cut].join("\n").parse::<Digest>().is_err(), "{cut}");
    }
    assert_eq!("x".parse::<Digest>(), Err(ParseError::Title));
    let broken = text.replace("range 0", "range zero");
    assert!(matches!(broken.parse::<Digest>(), Err(ParseError::Line(_))));
}

#[test]
fn the_first_differing_record_is_named() {
    let one = store(60);
    let other = copy(&one);
    // Another body with its own CRC, in the last file: every record is listed there.
    let (position, _) = one.frames[59];
    let mut frame = one.frames[59].1.clone();
    frame[88] ^= 1;
    let crc = crate::frame::body_crc(crate::frame::FrameView::parse(&frame).unwrap().body());
    frame[8..12].copy_from_slice(&crc.to_be_bytes());
    other.write(position, &frame);
    let comparison = compare(&[digested(&one, "n0"), digested(&other, "n1")]);
    let labels = ("n0".to_string(), "n1".to_string());
    assert_eq!(
        comparison.difference,
        Some(Difference::Record { labels, position })
    );
    assert!(
        comparison
            .to_string()
            .contains(&format!("differ first in the record at {position}"))
    );
}

#[test]
fn early_differences_are_narrowed_down_by_asking_again() {
    let one = store(60);
    let other = copy(&one);
    let (position, mut frame) = one.frames[10].clone();
    frame[20..28].copy_from_slice(&999i64.to_be_bytes()); // another queue offset
    other.write(position, &frame);
    let comparison = compare(&[digested(&one, "n0"), digested(&other, "n1")]);
    let Some(Difference::Range { range, .. }) = comparison.difference else {
        panic!("{comparison:?}")
    };
    assert!(range.contains(&position));
    let again = |store: &PlainStore, label: &str| {
        let config = DigestConfig {
            label: label.to_string(),
            range_bytes: 512,
            detail: Some(range.clone()),
        };
        digested_as(store, config)
    };
    let comparison = compare(&[again(&one, "n0"), again(&other, "n1")]);
    assert!(
        matches!(comparison.difference, Some(Difference::Record { position: p, .. }) if p == position)
    );
}

#[test]
fn shorter_ones_and_missing_fronts_are_named_and_what_is_common_compared() {
    let one = store(60);
    let mut short = copy(&one);
    let (last, frame) = short.frames.pop().unwrap();
    short.write(last, &vec![0; frame.len()]);
    let front = copy(&one);
    dledger::fs::Fs::remove_file(&*front.fs, &front.file(0)).unwrap();
    let comparison = compare(&[
        digested(&one, "n0"),
        digested(&short, "n1"),
        digested(&front, "n2"),
    ]);
    assert_eq!(comparison.difference, None);
    assert_eq!(comparison.shorter, [("n1".to_string(), last)]);
    assert_eq!(comparison.front_missing, [("n2".to_string(), 4096)]);
    assert_eq!(comparison.common, 4096..last);
}

#[test]
fn divides_and_range_lengths_must_be_equal() {
    let one = digested(&store(10), "n0");
    let mut other = Digest {
        label: "n1".to_string(),
        divide: Some(8192),
        ..one.clone()
    };
    assert_eq!(compare(&[one.clone(), other.clone()]).difference, None);
    let one = Digest {
        divide: Some(4096),
        ..one
    };
    let text = compare(&[one.clone(), other.clone()]).to_string();
    assert!(text.contains("n0 has it at 4096, n1 at 8192"), "{text}");
    other.range_bytes = 7;
    assert!(matches!(
        compare(&[one, other]).difference,
        Some(Difference::Incomparable { .. })
    ));
}

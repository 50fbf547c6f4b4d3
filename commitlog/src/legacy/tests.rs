use std::sync::Arc;

use dledger::fs::Fs;

use super::*;
use crate::frame::FrameError;
use crate::testing::{PlainStore, at, frame_len, quiet};

fn listing(store: &PlainStore) -> Listing {
    list(
        &*store.fs,
        store.layout.commitlog_dirs(),
        Some(store.file_size),
    )
    .unwrap()
}

fn recovered(store: &PlainStore) -> Recovered {
    let files = listing(store).files;
    recover(
        &*store.fs,
        &files,
        store.file_size,
        normal_start(&files),
        None,
        &quiet,
    )
    .unwrap()
}

#[test]
fn lists_what_is_there() {
    let store = PlainStore::new(1024, 0);
    store.create(2048);
    store.create(1024);
    store.create(4096);
    let dir = at("commitlog");
    store
        .fs
        .write(&dir.join("00000000000000005120"), b"")
        .unwrap();
    store
        .fs
        .write(&dir.join("00000000000000006144"), b"short")
        .unwrap();
    store.fs.write(&dir.join(".DS_Store"), b"x").unwrap();
    store.fs.create_dir_all(&dir.join("lost+found")).unwrap();
    let listing = listing(&store);
    let starts = |files: &[LegacyFile]| files.iter().map(|f| f.start).collect::<Vec<_>>();
    assert_eq!(starts(&listing.files), [1024, 2048, 4096]);
    assert_eq!(starts(&listing.empty), [5120]);
    assert_eq!(listing.wrong_size, [(dir.join("00000000000000006144"), 5)]);
    assert_eq!(listing.foreign_files, [dir.join(".DS_Store")]);
    assert_eq!(listing.foreign_dirs, [dir.join("lost+found")]);
    assert_eq!(listing.first_gap(), Some((3072, 4096)));
    let unknown = list(&*store.fs, store.layout.commitlog_dirs(), None).unwrap();
    assert_eq!(unknown.file_size, 1024);
    let nowhere = list(&*store.fs, std::iter::once(at("nowhere").as_path()), None).unwrap();
    assert!(nowhere.is_empty() && nowhere.end().is_none());
}

#[test]
fn ends_after_the_last_frame() {
    let mut store = PlainStore::new(1024, 0);
    for _ in 0..20 {
        store.append(100);
    }
    store.create(store.end - store.end % 1024 + 1024); // made ahead
    let found = recovered(&store);
    assert_eq!((found.end, found.stop), (store.end, Stop::Zeros));
    assert_eq!(found.last_frame, store.frames.last().map(|f| f.0));
    assert_eq!(found.last_store_timestamp, 1_000_000 + 19_000);
}

#[test]
fn ends_at_the_start_of_a_file_made_ahead() {
    let mut store = PlainStore::new(1024, 4096);
    store.append(300);
    store.roll();
    store.create(store.end);
    store.create(store.end + 1024);
    store.create(store.end + 2048);
    let found = recovered(&store);
    assert_eq!(
        (found.end, found.stop, found.last_frame),
        (5120, Stop::Zeros, Some(4096))
    );
}

#[test]
fn ends_at_a_blank_or_the_end_of_the_file() {
    let mut store = PlainStore::new(1024, 0);
    store.append(300);
    let end = store.end;
    store.roll();
    assert_eq!(
        (recovered(&store).end, recovered(&store).stop),
        (end, Stop::Blank)
    );
    for rest in 0..8 {
        let mut store = PlainStore::new(1024, 0);
        store.append(300);
        store.fill_to(rest);
        let found = recovered(&store);
        assert_eq!((found.end, found.stop), (1024 - rest as i64, Stop::Full));
    }
    let mut store = PlainStore::new(1024, 0);
    store.fill_to(8);
    assert_eq!(
        (recovered(&store).end, recovered(&store).stop),
        (1016, Stop::Zeros)
    );
}

#[test]
fn damage_ends_the_log_and_what_follows_is_found() {
    let mut store = PlainStore::new(1024, 0);
    let second = (0..8).map(|_| store.append(100)).collect::<Vec<_>>()[1];
    store.write(second + 90, b"\xFF");
    let found = recovered(&store);
    assert_eq!(found.end, second);
    assert!(matches!(
        found.stop,
        Stop::Damage(FrameError::BodyCrc { .. })
    ));
    let files = listing(&store).files;
    let behind = intact_behind(&*store.fs, &files, 1024, second).unwrap();
    assert_eq!(
        (behind.next, behind.later_file),
        (Some(second + frame_len(100) as i64), Some(1024))
    );
    // A damaged size: only the next file can tell.
    store.write(second, b"\x7F");
    let behind = intact_behind(&*store.fs, &files, 1024, second).unwrap();
    assert_eq!((behind.next, behind.later_file), (None, Some(1024)));
}

#[test]
fn a_frame_from_elsewhere_is_no_frame() {
    let mut store = PlainStore::new(1024, 0);
    store.append(100);
    let stray = store.frame(100, 77);
    store.write(store.end, &stray);
    let found = recovered(&store);
    assert_eq!(found.end, store.end);
    assert!(matches!(
        found.stop,
        Stop::Damage(FrameError::PhysicalOffset { stored: 77, .. })
    ));
}

#[test]
fn after_a_kill_the_scan_begins_at_a_file_that_the_checkpoint_vouches_for() {
    let mut store = PlainStore::new(1024, 0);
    for _ in 0..40 {
        store.append(100);
    }
    let files = listing(&store).files;
    let first_stamp = |i: usize| first_store_timestamp_of(&store, files[i].start);
    assert_eq!(abnormal_start(&*store.fs, &files, 0).unwrap(), 0);
    assert_eq!(
        abnormal_start(&*store.fs, &files, first_stamp(2)).unwrap(),
        2
    );
    assert_eq!(
        abnormal_start(&*store.fs, &files, first_stamp(2) - 1).unwrap(),
        1
    );
    assert_eq!(
        abnormal_start(&*store.fs, &files, i64::MAX).unwrap(),
        files.len() - 1
    );
}

fn first_store_timestamp_of(store: &PlainStore, position: i64) -> i64 {
    let frame = &store.frames.iter().find(|f| f.0 == position).unwrap().1;
    crate::frame::FrameView::parse(frame)
        .unwrap()
        .store_timestamp()
}

#[test]
fn reads_and_removes_from_the_front() {
    let mut store = PlainStore::new(1024, 2048);
    for _ in 0..20 {
        store.append(100);
    }
    let files = listing(&store).files;
    let count = files.len();
    let log = LegacyLog::new(store.fs.clone() as Arc<dyn Fs>, files, 1024);
    for (position, frame) in &store.frames {
        let bytes = log.slice(*position, frame.len()).unwrap().unwrap();
        assert_eq!(&bytes[..], &frame[..]);
    }
    assert_eq!(log.slice(2047, 1).unwrap(), None);
    assert_eq!(log.slice(2048, 1025).unwrap(), None);
    assert_eq!(log.slice(i64::MIN, 1).unwrap(), None);
    let (rest, end) = log.rest_of_file(3000).unwrap().unwrap();
    assert_eq!((rest.len(), end), (72, 3072));
    let held = log.slice(2048, 10).unwrap().unwrap();
    assert_eq!(log.remove_first().unwrap(), Some(store.file(2048)));
    assert!(!store.fs.exists(&store.file(2048)));
    assert_eq!(
        (log.min_offset(), log.slice(2048, 1).unwrap()),
        (Some(3072), None)
    );
    assert_eq!(&held[..], &store.frames[0].1[..10]);
    for _ in 1..count {
        log.remove_first().unwrap();
    }
    assert!(log.is_empty() && log.end().is_none() && log.remove_first().unwrap().is_none());
}

#[test]
fn the_mark_round_trips() {
    let store = PlainStore::new(1024, 0);
    let path = store.layout.sidecar(MARK_FILE);
    assert_eq!(LegacyMark::load(&*store.fs, &path).unwrap(), None);
    let mark = LegacyMark {
        divide: 2048,
        end: 1500,
        last_store_timestamp: 77,
        retired: false,
    };
    mark.save(&*store.fs, &path).unwrap();
    assert_eq!(LegacyMark::load(&*store.fs, &path).unwrap(), Some(mark));
    store.fs.write(&path, b"divide=x").unwrap();
    assert_eq!(LegacyMark::load(&*store.fs, &path).unwrap(), None);
}

#[test]
fn a_long_scan_goes_on_where_it_was_killed() {
    let mut store = PlainStore::new(1024, 0);
    for _ in 0..90 {
        store.append(100);
    }
    let files = listing(&store).files;
    let path = store.layout.sidecar(SCAN_NOTE_FILE);
    let whole = recover(&*store.fs, &files, 1024, 0, None, &quiet).unwrap();
    assert!(!store.fs.exists(&path) && whole.frames == 90 && files.len() > 8);
    let scan = || {
        let first = std::cell::Cell::new(None);
        let progress = |p: crate::Progress| first.set(first.get().or(Some(p.done)));
        let found = recover(&*store.fs, &files, 1024, 0, Some(&path), &progress).unwrap();
        (found, first.get().unwrap())
    };
    assert_eq!(scan(), (whole, 0));
    let resumed = (files.len() as u64 - 1) / 4 * 4 * 1024;
    assert_eq!(scan(), (whole, resumed));
    // Another scan, or a log that somebody changed: from the beginning.
    let found = recover(&*store.fs, &files, 1024, 1, Some(&path), &quiet).unwrap();
    assert_eq!((found.from, found.end), (1024, whole.end));
    assert_eq!(scan(), (whole, 0));
    let changed = store
        .frames
        .iter()
        .rfind(|f| (f.0 as u64) < resumed)
        .unwrap()
        .0;
    store.write(changed + 20, &[1]);
    assert_eq!(scan().1, 0);
    store.fs.write(&path, b"0 x").unwrap();
    assert_eq!(scan().1, 0);
}

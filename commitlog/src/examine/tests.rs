//! One test for each thing that must be refused or named.

use dledger::fs::{Fs, OpenMode};

use super::*;
use crate::blank;
use crate::layout::{StoreCheckpoint, file_name};
use crate::legacy::Stop;
use crate::testing::{PlainStore, at, quiet};

const DAY: i64 = 86_400_000;

fn config(store: &PlainStore) -> ExamineConfig {
    let mut config = ExamineConfig::new(store.layout.clone());
    config.file_size = Some(store.file_size);
    config.self_id = Some("n0".to_string());
    config
}

fn examined(store: &PlainStore) -> Examination {
    examine(&*store.fs, &config(store), &quiet).unwrap()
}

fn found(exam: &Examination, code: Code) -> Option<Severity> {
    exam.findings
        .iter()
        .find(|f| f.code == code)
        .map(|f| f.severity)
}

/// Every finding is one line, names what to do if it stops the start, and its code has a text form.
fn readable(exam: &Examination) {
    for f in &exam.findings {
        assert!(!f.to_string().contains('\n'), "{f}");
        assert_eq!(f.code.as_str().parse::<Code>(), Ok(f.code));
        assert!(
            f.severity < Severity::NeedsAcceptance || !f.what_to_do.is_empty(),
            "{f}"
        );
    }
}

#[track_caller]
fn refused(exam: &Examination, code: Code) {
    readable(exam);
    let refusals = exam.refusals(&BTreeSet::new());
    assert!(
        refusals.iter().any(|f| f.code == code),
        "{:#?}",
        exam.findings
    );
}

#[track_caller]
fn sound(exam: &Examination) {
    readable(exam);
    assert_eq!(exam.refusals(&BTreeSet::new()), []);
}

/// A plain store of `n` messages with its queue.
fn plain(n: usize) -> PlainStore {
    let mut store = PlainStore::new(1024, 0);
    for _ in 0..n {
        store.append(100);
    }
    store.write_queue(&store.frames);
    store
}

/// Writes an entry whose body is a frame into member `id`'s data file.
fn write_entry(store: &PlainStore, id: &str, file: i64, position: i64, index: i64) -> i64 {
    let dir = store.layout.dledger_data(id);
    let path = dir.join(file_name(file));
    store.fs.create_dir_all(&dir).unwrap();
    let data = store.fs.open(&path, OpenMode::Create).unwrap();
    data.set_len(store.file_size).unwrap();
    let frame = store.frame(100, position + 48);
    let mut entry = Vec::new();
    entry.extend(1i32.to_be_bytes());
    entry.extend((48 + frame.len() as i32).to_be_bytes());
    entry.extend(index.to_be_bytes());
    entry.extend(0i64.to_be_bytes());
    entry.extend(position.to_be_bytes());
    entry.extend([0; 12]);
    entry.extend((frame.len() as i32).to_be_bytes());
    entry.extend(frame);
    data.write_all_at(&entry, (position - file) as u64).unwrap();
    position + entry.len() as i64
}

/// An upgraded store with one DLedger entry.
fn mixed() -> (PlainStore, i64) {
    let mut store = plain(8);
    let divide = store.end - store.end % 1024 + 1024;
    store.roll();
    let end = write_entry(&store, "n0", divide, divide, 0);
    (store, end)
}

#[test]
fn an_empty_folder_is_a_new_store() {
    let store = PlainStore::new(1024, 0);
    let exam = examined(&store);
    sound(&exam);
    assert_eq!((exam.plan, exam.findings.len()), (Plan::New, 0));
}

#[test]
fn a_plain_store_is_to_be_upgraded() {
    let store = plain(8);
    let exam = examined(&store);
    sound(&exam);
    let Plan::Upgrade(plan) = &exam.plan else {
        panic!("{:?}", exam.plan)
    };
    assert_eq!(
        (plan.recovered.end, plan.recovered.stop, plan.divide),
        (store.end, Stop::Zeros, 2048)
    );
    assert_eq!(exam.derived.furthest(), Some(store.end));
    assert!(
        exam.plan
            .to_string()
            .contains("DLedger log will begin at 2048")
    );
}

#[test]
fn upgraded_and_dledger_stores_are_what_they_are() {
    let (store, end) = mixed();
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(
        (&exam.plan, exam.log_end()),
        (&Plan::Mixed { divide: 2048 }, Some(end))
    );
    store.fs.remove_file(&store.file(0)).unwrap();
    store.fs.remove_file(&store.file(1024)).unwrap();
    let exam = examined(&store);
    assert_eq!(exam.plan, Plan::Dledger);
    // Whether the old half is expired or not mounted is told by the clock only.
    assert_eq!(found(&exam, Code::LegacyMissing), Some(Severity::Warning));
    let mut config = config(&store);
    (config.now_ms, config.reserved_ms) = (Some(2_000_000), Some(3 * DAY));
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    refused(&exam, Code::LegacyMissing);
}

#[test]
fn the_other_half_that_went_missing_is_refused() {
    let (store, _) = mixed();
    let mark = examined(&store).mark_to_note.unwrap();
    mark.save(&*store.fs, &store.layout.sidecar(MARK_FILE))
        .unwrap();
    store.fs.remove_dir_all(&at("dledger-n0")).unwrap();
    sound(&examined(&store));
    let unit = [&2096i64.to_be_bytes()[..], &100i32.to_be_bytes(), &[0; 8]].concat();
    store.write_queue_file("T/1", 0, &unit, 6000);
    refused(&examined(&store), Code::LogMissing);
}

#[test]
fn damaged_derived_files_say_nothing_about_the_log() {
    let store = plain(8);
    store.fs.create_dir_all(&store.layout.index()).unwrap();
    let index = store.layout.index().join("20261129115649330");
    store.fs.write(&index, &[0x5a; 84_040]).unwrap();
    sound(&examined(&store));
    // Files among folders, a torn queue file among whole ones.
    let root = store.layout.consumequeue();
    store.fs.write(&root.join("7"), b"x").unwrap();
    for queue in 5..9 {
        let dir = root.join(format!("T/{queue}"));
        store.fs.create_dir_all(&dir).unwrap();
        store.fs.write(&dir.join(file_name(0)), &[0; 6000]).unwrap();
    }
    let torn = root.join("T/9");
    store.fs.create_dir_all(&torn).unwrap();
    store.fs.write(&torn.join(file_name(0)), &[0; 30]).unwrap();
    store.fs.write(&root.join("T/10"), b"x").unwrap();
    let exam = examined(&store);
    assert_eq!(found(&exam, Code::FileSize), Some(Severity::Warning));
    assert_eq!(exam.refusals(&BTreeSet::new()), []);
}

#[test]
fn a_missing_log_is_refused() {
    let store = plain(8);
    store.fs.remove_dir_all(&at("commitlog")).unwrap();
    refused(&examined(&store), Code::LogMissing);
    // Only the checkpoint remembers.
    store
        .fs
        .remove_dir_all(&store.layout.consumequeue())
        .unwrap();
    sound(&examined(&store));
    let mut checkpoint = StoreCheckpoint::default();
    checkpoint.set_physic_msg_timestamp(5);
    checkpoint
        .save(&*store.fs, &store.layout.checkpoint())
        .unwrap();
    refused(&examined(&store), Code::LogMissing);
}

#[test]
fn an_empty_log_is_refused() {
    let store = plain(3);
    store.fs.remove_file(&store.file(0)).unwrap();
    store.create(0);
    refused(&examined(&store), Code::LogMissing);
    // Only the key index remembers.
    store
        .fs
        .remove_dir_all(&store.layout.consumequeue())
        .unwrap();
    sound(&examined(&store));
    let mut index = vec![0; 84_040];
    index[24..32].copy_from_slice(&500i64.to_be_bytes());
    index[36..40].copy_from_slice(&2i32.to_be_bytes());
    store.fs.create_dir_all(&store.layout.index()).unwrap();
    store
        .fs
        .write(&store.layout.index().join("20261129115649330"), &index)
        .unwrap();
    refused(&examined(&store), Code::LogMissing);
}

#[test]
fn a_log_far_too_short_is_refused_a_little_is_not() {
    let mut store = plain(30);
    let all = store.frames.clone();
    let last = store.end - store.end % 1024;
    store.fs.remove_file(&store.file(last)).unwrap();
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(found(&exam, Code::QueuesAhead), Some(Severity::Info));
    store.fs.remove_file(&store.file(last - 1024)).unwrap();
    store.write_queue(&all);
    refused(&examined(&store), Code::LogTooShort);
    store.frames.clear();
}

#[test]
fn filler_units_name_nothing() {
    let store = plain(3);
    let mut units = Vec::new();
    for _ in 0..300 {
        units.extend(0i64.to_be_bytes());
        units.extend(i32::MAX.to_be_bytes());
        units.extend(0i64.to_be_bytes());
    }
    store.write_queue_file("U/3", 6000, &units, 6000);
    store.write_queue_file("U/3", 12_000, &[], 6000);
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(exam.derived.furthest_queue.unwrap().topic, "T");
    assert_eq!((exam.derived.queues, exam.derived.filled_queues), (2, 1));
}

#[test]
fn two_histories_are_refused() {
    // The plain broker rolled into the range of the DLedger log.
    let (store, _) = mixed();
    store.create(2048);
    refused(&examined(&store), Code::TwoHistories);
    // It wrote over the blank record only.
    let (mut store, _) = mixed();
    store.end = store
        .frames
        .last()
        .map(|(at, frame)| at + frame.len() as i64)
        .unwrap();
    let frame = store.frame(20, store.end);
    store.append_raw(frame);
    store.write(store.end, &[0; 8]);
    refused(&examined(&store), Code::TwoHistories);
}

#[test]
fn an_empty_dledger_log_gets_its_divide_anew() {
    // Upgraded, then the plain broker went on past the divide; no entry was written.
    let mut store = plain(8);
    let dir = store.layout.dledger_data("n0");
    store.fs.create_dir_all(&dir).unwrap();
    store
        .fs
        .write(&dir.join(file_name(2048)), &[0; 1024])
        .unwrap();
    for _ in 0..8 {
        store.append(100);
    }
    store.write_queue(&store.frames);
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(found(&exam, Code::StaleDivide), Some(Severity::Info));
    let Plan::Upgrade(plan) = &exam.plan else {
        panic!("{:?}", exam.plan)
    };
    assert_eq!(plan.divide, store.end - store.end % 1024 + 1024);
    crate::upgrade::perform(&*store.fs, plan).unwrap();
    assert!(!store.fs.exists(&dir.join(file_name(2048))));
    assert!(store.fs.exists(&dir.join(file_name(plan.divide))));
}

#[test]
fn another_members_folder_is_refused() {
    let (store, _) = mixed();
    write_entry(&store, "n1", 0, 0, 0);
    refused(&examined(&store), Code::OtherMember);
    let mut config = config(&store);
    config.self_id = Some("n2".to_string());
    refused(
        &examine(&*store.fs, &config, &quiet).unwrap(),
        Code::OtherMember,
    );
    config.self_id = None;
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    assert_eq!(found(&exam, Code::OtherMember), Some(Severity::Warning));
}

#[test]
fn a_slaves_store_is_refused() {
    let store = plain(3);
    let mut config = config(&store);
    config.slave = true;
    refused(
        &examine(&*store.fs, &config, &quiet).unwrap(),
        Code::SlaveRole,
    );
}

#[test]
fn other_file_sizes_are_refused_with_the_right_value() {
    let store = plain(8);
    let mut config = config(&store);
    config.file_size = Some(2048);
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    refused(&exam, Code::FileSize);
    assert!(
        exam.findings[0]
            .what_to_do
            .contains("mappedFileSizeCommitLog=1024"),
        "{}",
        exam.findings[0]
    );
    config.file_size = Some(1024);
    config.queue_file_size = Some(6_000_000);
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    refused(&exam, Code::FileSize);
    assert!(
        exam.findings[0]
            .what_to_do
            .contains("mappedFileSizeConsumeQueue=6000"),
        "{}",
        exam.findings[0]
    );
}

#[test]
fn several_commitlog_paths_are_read_and_a_missing_one_is_seen() {
    let mut store = plain(30);
    let other = at("other");
    store.fs.create_dir_all(&other).unwrap();
    store
        .fs
        .rename(&store.file(1024), &other.join(file_name(1024)))
        .unwrap();
    refused(&examined(&store), Code::LegacyGap);
    store.layout =
        store
            .layout
            .with_commitlog("/store/commitlog,/store/other", Some("/store/gone"), ",");
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(found(&exam, Code::MultiPath), Some(Severity::Info));
    assert_eq!(found(&exam, Code::PathMissing), Some(Severity::Warning));
    assert!(!store.fs.exists(&at("commitlog,/store/other")));
    store.layout = store.layout.with_dledger_data(Some("/a,/b".into()));
    refused(&examined(&store), Code::MultiPath);
}

#[test]
fn foreign_names_and_an_empty_last_file_are_tolerated() {
    let store = plain(8);
    let dir = at("commitlog");
    store.fs.create_dir_all(&dir.join("lost+found")).unwrap();
    store.fs.write(&dir.join("sums.md5"), b"x").unwrap();
    store.fs.write(&store.file(2048), b"").unwrap();
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(found(&exam, Code::ForeignFile), Some(Severity::Warning));
    assert_eq!(found(&exam, Code::ForeignFolder), Some(Severity::Warning));
    assert_eq!(found(&exam, Code::EmptyLastFile), Some(Severity::Info));
    let Plan::Upgrade(plan) = &exam.plan else {
        panic!()
    };
    crate::upgrade::perform(&*store.fs, plan).unwrap();
    assert!(!store.fs.exists(&store.file(2048)) && store.fs.exists(&dir.join("sums.md5")));
}

#[test]
fn an_empty_file_before_the_last_and_a_misnamed_one_are_refused() {
    let store = plain(8);
    store.fs.write(&store.file(0), b"").unwrap();
    refused(&examined(&store), Code::EmptyFile);
    let store = PlainStore::new(1024, 0);
    store
        .fs
        .write(&at("commitlog").join(file_name(1000)), &[0; 1024])
        .unwrap();
    refused(&examined(&store), Code::MisnamedFile);
}

#[test]
fn gaps_are_refused() {
    let store = plain(30);
    store.fs.remove_file(&store.file(1024)).unwrap();
    refused(&examined(&store), Code::LegacyGap);
    // Between the halves.
    let (store, _) = mixed();
    store.fs.remove_file(&store.file(1024)).unwrap();
    refused(&examined(&store), Code::LegacyGap);
}

#[test]
fn a_gap_in_the_dledger_log_is_refused() {
    let store = PlainStore::new(1024, 0);
    write_entry(&store, "n0", 0, 0, 0);
    write_entry(&store, "n0", 2048, 2048, 9);
    refused(&examined(&store), Code::DledgerGap);
}

#[test]
fn a_dledger_log_may_begin_inside_a_file() {
    let store = PlainStore::new(4096, 0);
    let end = write_entry(&store, "n0", 8192, 8192 + 500, 1000);
    let dir = store.layout.dledger("n0").join("index");
    store.fs.create_dir_all(&dir).unwrap();
    let mut units = vec![0; 32 * 1024];
    let unit = &mut units[32 * 1000..];
    unit[..4].copy_from_slice(&1i32.to_be_bytes());
    unit[4..12].copy_from_slice(&8692i64.to_be_bytes());
    store.fs.write(&dir.join(file_name(0)), &units).unwrap();
    let exam = examined(&store);
    sound(&exam);
    let entries = exam.own().unwrap().entries.unwrap();
    assert_eq!(
        (entries.begin_pos, entries.begin_index, entries.end),
        (8692, 1000, end)
    );
    let log = crate::reader::OfflineLog::new(store.fs.clone(), &exam);
    let mut frames = log.frames(0);
    assert_eq!(frames.next().unwrap().unwrap().physical_offset, 8692 + 48);
    assert!(frames.next().unwrap().is_none());
}

#[test]
fn a_legacy_half_that_went_missing_needs_acceptance() {
    let (store, _) = mixed();
    let mark = LegacyMark {
        divide: 2048,
        end: 2000,
        last_store_timestamp: 100 * DAY,
        retired: false,
    };
    let path = store.layout.sidecar(MARK_FILE);
    mark.save(&*store.fs, &path).unwrap();
    sound(&examined(&store));
    store.fs.remove_file(&store.file(0)).unwrap();
    store.fs.remove_file(&store.file(1024)).unwrap();
    refused(&examined(&store), Code::LegacyMissing);
    let accepted = BTreeSet::from([Code::LegacyMissing]);
    assert_eq!(examined(&store).refusals(&accepted), []);
    // Old enough to be expired by a Java broker.
    let mut config = config(&store);
    (config.now_ms, config.reserved_ms) = (Some(104 * DAY), Some(3 * DAY));
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    assert_eq!(found(&exam, Code::LegacyMissing), Some(Severity::Warning));
    LegacyMark {
        retired: true,
        ..mark
    }
    .save(&*store.fs, &path)
    .unwrap();
    assert_eq!(found(&examined(&store), Code::LegacyMissing), None);
}

#[test]
fn a_store_that_java_upgraded_gets_its_mark() {
    let (store, _) = mixed();
    let (at, frame) = store.frames.last().unwrap();
    let mark = examined(&store).mark_to_note.unwrap();
    assert_eq!(
        (mark.divide, mark.end, mark.last_store_timestamp),
        (2048, at + frame.len() as i64, 1_007_000)
    );
    mark.save(&*store.fs, &store.layout.sidecar(MARK_FILE))
        .unwrap();
    assert_eq!(examined(&store).mark_to_note, None);
}

#[test]
fn the_index_spares_the_walk_but_is_not_believed_blindly() {
    let store = PlainStore::new(4096, 0);
    let mut at = 0;
    let mut units = Vec::new();
    for index in 0..10 {
        let end = write_entry(&store, "n0", 0, at, index);
        units.extend(1i32.to_be_bytes());
        units.extend(at.to_be_bytes());
        units.extend(((end - at) as i32).to_be_bytes());
        units.extend(index.to_be_bytes());
        units.extend(0i64.to_be_bytes());
        at = end;
    }
    let dir = store.layout.dledger("n0").join("index");
    store.fs.create_dir_all(&dir).unwrap();
    let write_index = |count: usize, shift: i64| {
        let mut bytes = units[..32 * count].to_vec();
        if let Some(last) = count.checked_sub(1) {
            let position = &mut bytes[32 * last + 4..32 * last + 12];
            let moved = i64::from_be_bytes(position.try_into().unwrap()) + shift;
            position.copy_from_slice(&moved.to_be_bytes());
        }
        bytes.resize(32 * 64, 0);
        store.fs.write(&dir.join(file_name(0)), &bytes).unwrap();
        examined(&store).own().unwrap().entries.unwrap()
    };
    // Whole, behind, wrong, empty: the end is the same.
    for (count, shift) in [(10, 0), (4, 0), (10, 7), (10, 100_000), (0, 0)] {
        let entries = write_index(count, shift);
        assert_eq!(
            (entries.end, entries.end_index, entries.begin_index),
            (at, 9, 0),
            "{count} {shift}"
        );
    }
}

#[test]
fn the_mark_is_believed_only_if_the_bytes_agree() {
    let (store, _) = mixed();
    let end = store
        .frames
        .last()
        .map(|(at, frame)| at + frame.len() as i64)
        .unwrap();
    let mark = LegacyMark {
        divide: 2048,
        end,
        last_store_timestamp: 1,
        retired: false,
    };
    mark.save(&*store.fs, &store.layout.sidecar(MARK_FILE))
        .unwrap();
    // Damage before the end is not looked at while the mark holds.
    store.write(1024, &[9; 8]);
    sound(&examined(&store));
    store.write(end, &[0; blank::BLANK_LEN]);
    refused(&examined(&store), Code::TwoHistories);
}

#[test]
fn damage_with_messages_behind_it_needs_acceptance() {
    let store = plain(8);
    let second = store.frames[1].0;
    store.write(second + 90, b"\xFF");
    let exam = examined(&store);
    refused(&exam, Code::DamagedInside);
    assert_eq!(
        exam.refusals(&BTreeSet::from([Code::DamagedInside, Code::LogTooShort])),
        []
    );
    // In an earlier file, without queues to tell.
    store
        .fs
        .remove_dir_all(&store.layout.consumequeue())
        .unwrap();
    refused(&examined(&store), Code::DamagedInside);
}

#[test]
fn a_hole_with_messages_in_a_later_file_needs_acceptance() {
    let store = plain(20);
    store.write(store.frames[2].0, &[0; 200]);
    store.abort();
    refused(&examined(&store), Code::DamagedInside);
}

#[test]
fn a_damaged_tail_is_named() {
    let mut store = plain(8);
    let mut torn = store.frame(100, store.end);
    torn[100] ^= 1;
    store.write(store.end, &torn);
    store.abort();
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(found(&exam, Code::DamagedTail), Some(Severity::Warning));
    assert_eq!(found(&exam, Code::Aborted), Some(Severity::Info));
    assert_eq!(exam.recovered.unwrap().end, store.end);
    // A kill that lost a page in the middle of what was not synced: the rest goes too.
    store.append(100);
    store.write(store.frames[6].0 + 90, b"\xFF");
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(exam.recovered.unwrap().end, store.frames[6].0);
}

#[test]
fn a_damaged_start_of_the_dledger_log_is_refused() {
    let store = PlainStore::new(1024, 0);
    write_entry(&store, "n0", 0, 0, 0);
    let path = store.layout.dledger_data("n0").join(file_name(0));
    store
        .fs
        .open(&path, OpenMode::ReadWrite)
        .unwrap()
        .write_all_at(&[7], 0)
        .unwrap();
    refused(&examined(&store), Code::DamagedStart);
}

#[test]
fn kinds_that_are_not_served_are_counted_and_need_acceptance() {
    let store = plain(8);
    let unit = |code: i64| {
        [
            &5i64.to_be_bytes()[..],
            &100i32.to_be_bytes(),
            &code.to_be_bytes(),
        ]
        .concat()
    };
    let dirs = [
        "consumequeue_ext/T/0",
        "batchconsumequeue/B/0",
        "compaction/compactionLog/C/0",
    ];
    for dir in dirs {
        store.fs.create_dir_all(&at(dir)).unwrap();
        store
            .fs
            .write(&at(dir).join(file_name(0)), &[0; 40])
            .unwrap();
    }
    store.fs.create_dir_all(&at("compaction")).unwrap();
    store
        .fs
        .write(&at("compaction/position-checkpoint"), b"{}")
        .unwrap();
    store.fs.write(&at("timerwheel"), &[0; 320]).unwrap();
    let exam = examined(&store);
    assert_eq!(found(&exam, Code::BatchQueues), None); // nothing in it
    assert_eq!(
        (
            exam.derived.pending_timers,
            found(&exam, Code::QueueExtension)
        ),
        (0, None)
    );

    store.write_queue_file("X/0", 0, &[unit(i64::MIN + 20), unit(-5)].concat(), 6000);
    store.write_queue_file("%LMQ%x/0", 0, &unit(0), 6000);
    store
        .fs
        .write(&at(dirs[1]).join(file_name(0)), &unit(3))
        .unwrap();
    let mut wheel = vec![0; 320];
    wheel[64 + 27] = 4;
    store.fs.write(&at("timerwheel"), &wheel).unwrap();
    store
        .fs
        .write(
            &store.layout.consumequeue().join("CURRENT"),
            b"MANIFEST-000001",
        )
        .unwrap();
    let exam = examined(&store);
    let counts = &exam.derived;
    assert_eq!(
        (
            counts.extension_units,
            counts.light_queues,
            counts.batch_queues
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (
            counts.pending_timers,
            counts.compaction_files,
            counts.rocksdb_queues
        ),
        (4, 1, true)
    );
    let codes = [
        Code::QueueExtension,
        Code::LightQueues,
        Code::BatchQueues,
        Code::PendingTimers,
        Code::Compaction,
        Code::RocksDb,
    ];
    codes.into_iter().for_each(|code| refused(&exam, code));
    assert_eq!(exam.refusals(&BTreeSet::from(codes)), []);
}

#[test]
fn a_large_message_size_is_named() {
    let store = plain(3);
    let mut config = config(&store);
    config.max_message_size = Some(4 << 20);
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    assert_eq!(found(&exam, Code::MessageSize), Some(Severity::Info));
    config.max_message_size = Some(4_000_000);
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    assert_eq!(found(&exam, Code::MessageSize), None);
}

#[test]
fn clock_and_file_times_are_compared_with_the_messages() {
    let store = plain(3);
    let mut config = config(&store);
    config.now_ms = Some(1);
    store.fs.set_modified(&store.file(0), 0).unwrap();
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    sound(&exam);
    assert_eq!(found(&exam, Code::Clock), Some(Severity::Warning));
    // Their times are 1000 s after the epoch, less than the tolerance.
    assert_eq!(found(&exam, Code::CopiedTimes), None);
    config.now_ms = Some(2_000_000);
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    assert_eq!(found(&exam, Code::Clock), None);
    let mut later = PlainStore::new(1024, 0);
    let mut frame = later.frame(50, 0);
    frame[56..64].copy_from_slice(&(10 * DAY).to_be_bytes());
    later.append_raw(frame);
    later.fs.set_modified(&later.file(0), 0).unwrap();
    assert_eq!(
        found(&examined(&later), Code::CopiedTimes),
        Some(Severity::Info)
    );
}

#[test]
fn a_scarce_disk_is_named() {
    let store = plain(8);
    let mut config = config(&store);
    config.check_system = true;
    store.fs.set_capacity(Some(20 * 4096));
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    readable(&exam);
    assert_eq!(found(&exam, Code::DiskSpace), None, "{:?}", exam.findings);
    store.fs.set_capacity(Some(4096));
    let exam = examine(&*store.fs, &config, &quiet).unwrap();
    assert_eq!(found(&exam, Code::DiskSpace), Some(Severity::Warning));
}

#[test]
fn a_full_scan_is_announced_and_shows_progress() {
    let store = plain(60);
    store.abort();
    let bytes = std::sync::atomic::AtomicU64::new(0);
    let progress = |p: crate::Progress| {
        bytes.store(p.done, std::sync::atomic::Ordering::Relaxed);
    };
    let exam = examine(&*store.fs, &config(&store), &progress).unwrap();
    sound(&exam);
    assert_eq!(found(&exam, Code::FullScan), Some(Severity::Info));
    assert_eq!(exam.recovered.unwrap().frames, 60);
    assert_eq!(bytes.into_inner(), exam.legacy.files.len() as u64 * 1024);
}

#[test]
fn a_short_checkpoint_is_named() {
    let store = plain(3);
    store
        .fs
        .write(&store.layout.checkpoint(), &[0; 24])
        .unwrap();
    let exam = examined(&store);
    sound(&exam);
    assert_eq!(found(&exam, Code::CheckpointSize), Some(Severity::Warning));
}

#[test]
fn examining_changes_nothing() {
    let (store, _) = mixed();
    store.abort();
    let ops = store.fs.ops();
    examined(&store);
    examined(&plain(20));
    assert_eq!(store.fs.ops(), ops);
}

#[test]
fn every_code_is_explained_to_operators() {
    let page = include_str!("../../../docs/upgrade.md");
    for code in Code::ALL {
        assert!(
            page.contains(&format!("`{code}`")),
            "{code} is missing in docs/upgrade.md"
        );
    }
}

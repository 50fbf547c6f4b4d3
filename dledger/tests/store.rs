//! The store on the file system in memory and on real files: bytes, limits, refusals, faults.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use dledger::entry::{Entry, HEADER_SIZE};
use dledger::fs::{CrashPolicy, Fs, MapMode, MemFs, RealFs};
use dledger::recovery::Recovery;
use dledger::store::{
    BodyCheck, NoCheck, OpenError, ReadError, SYNCED_FILE_NAME, ShortLog, Store, StoreConfig,
    StoreError, Sweep,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;

const SEGMENT: u64 = 4096;
const BASE: &str = "/s/dledger-n0";

fn config() -> StoreConfig {
    StoreConfig {
        index_file_size: 1024,
        ..StoreConfig::new(BASE, SEGMENT)
    }
}

fn try_open(fs: &MemFs) -> Result<(Store, Recovery), OpenError> {
    Store::open(Arc::new(fs.clone()), config(), 0, &NoCheck)
}

fn open(fs: &MemFs) -> (Store, Recovery) {
    try_open(fs).unwrap()
}

fn append(store: &mut Store, len: usize) -> i64 {
    store
        .append(1, len, &mut |body, at| {
            body.fill((at.index as u8).wrapping_add(1))
        })
        .unwrap()
        .index
}

fn data(start: u64) -> std::path::PathBuf {
    Path::new(BASE).join("data").join(format!("{start:020}"))
}

fn index(start: u64) -> std::path::PathBuf {
    Path::new(BASE).join("index").join(format!("{start:020}"))
}

/// A store of 5 data files with 39 entries each, stopped without a close; the note is gone, as if Java wrote it.
fn java_store() -> MemFs {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    while store.end_pos() < 5 * SEGMENT as i64 - 1000 {
        append(&mut store, 52);
    }
    store.flusher().sync().unwrap();
    fs.remove_file(&Path::new(BASE).join(SYNCED_FILE_NAME))
        .unwrap();
    fs.crash_image(CrashPolicy::KeepAll, &mut SmallRng::seed_from_u64(1))
}

fn patch(fs: &MemFs, path: &Path, at: usize, bytes: &[u8]) {
    let file = fs.open(path, dledger::fs::OpenMode::ReadWrite).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn the_bytes_of_entries_units_and_blank() {
    let fs = MemFs::new();
    let (mut store, found) = open(&fs);
    assert_eq!((found.end_index, found.end_pos), (-1, 0));
    assert!(store.is_empty() && !fs.exists(Path::new("/s/dledger-n0/index")));
    let at = store
        .append(1, 5, &mut |body, _| body.copy_from_slice(b"hello"))
        .unwrap();
    assert_eq!((at.index, at.pos, at.size, at.body_pos()), (0, 0, 53, 48));
    // 53 + 3987 = 4040: 8 bytes would remain behind 4088, so 4089 must roll.
    append(&mut store, 3987);
    assert_eq!(store.end_pos(), 4088);
    let at = store.append(1, 0, &mut |_, _| {}).unwrap();
    assert_eq!((at.index, at.pos), (2, 4096));
    let bytes = fs.read(&data(0)).unwrap();
    assert_eq!(bytes[..8], [0, 0, 0, 1, 0, 0, 0, 53]);
    assert_eq!(bytes[44..53], *b"\0\0\0\x05hello");
    assert_eq!(bytes[4088..], [255, 255, 255, 255, 0, 0, 0, 8]);
    let units = fs.read(&index(0)).unwrap();
    assert_eq!(
        units[64 + 4..64 + 16],
        [0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 48]
    );
}

#[test]
fn limits_of_an_entry() {
    let (mut store, _) = open(&MemFs::new());
    let max = SEGMENT as usize - 8 - HEADER_SIZE;
    let too_large = store.append(1, max + 1, &mut |_, _| unreachable!());
    assert!(
        matches!(too_large, Err(StoreError::TooLarge { max: 4088, .. })),
        "{too_large:?}"
    );
    append(&mut store, max);
    append(&mut store, max);
    assert_eq!(store.unit(1).unwrap().pos, 4096);
    let large = StoreConfig::new("/l", 8 * 1024 * 1024);
    let (mut store, _) = Store::open(Arc::new(MemFs::new()), large, 0, &NoCheck).unwrap();
    let limit = 4 * 1024 * 1024 - HEADER_SIZE;
    assert!(matches!(
        store.append(1, limit + 1, &mut |_, _| {}),
        Err(StoreError::TooLarge { .. })
    ));
    store.append(1, limit, &mut |_, _| {}).unwrap();
}

#[test]
fn a_foreign_entry_is_checked_before_a_byte_is_written() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    append(&mut store, 10);
    store.flusher().sync().unwrap();
    let before = fs.read(&data(0)).unwrap();
    let good = Entry::new(1, 1, 58, Bytes::from_static(b"body"));
    let bad = [
        Entry {
            pos: 59,
            ..good.clone()
        },
        Entry {
            index: 2,
            ..good.clone()
        },
        Entry {
            term: 0,
            ..good.clone()
        },
        Entry {
            magic: 2,
            ..good.clone()
        },
        Entry {
            size: 53,
            ..good.clone()
        },
    ];
    for entry in bad {
        let refused = store.append_entry(&entry);
        assert!(
            matches!(refused, Err(StoreError::OutOfOrder { .. })),
            "{entry:?}"
        );
    }
    assert_eq!(fs.read(&data(0)).unwrap(), before);
    store.append_entry(&good).unwrap();
    assert_eq!(store.entry(1).unwrap(), good);
    assert!(
        store.append(0, 4, &mut |_, _| {}).is_err(),
        "the term cannot fall"
    );
}

#[test]
fn a_panic_while_the_body_is_written_leaves_no_entry() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    append(&mut store, 10);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = store.append(1, 10, &mut |body, _| {
            body.fill(3);
            panic!("in the writer");
        });
    }));
    assert!(panicked.is_err());
    assert_eq!((store.end_index(), store.end_pos()), (0, 58));
    assert_eq!(append(&mut store, 10), 1);
    drop(store);
    assert_eq!(open(&fs).1.end_index, 1);
}

#[test]
fn a_full_disk_is_an_error_and_later_it_goes_on() {
    let fs = MemFs::new();
    fs.set_capacity(Some(64 * 1024));
    let (mut store, _) = open(&fs);
    let mut error = None;
    for _ in 0..1000 {
        store.preparer().run().ok();
        if let Err(e) = store.append(1, 900, &mut |body, _| body.fill(1)) {
            error = Some(e);
            break;
        }
    }
    assert!(matches!(error, Some(StoreError::DiskFull(_))), "{error:?}");
    let end = store.end_index();
    store.flusher().sync().unwrap();
    assert!(store.append(1, 900, &mut |_, _| {}).is_err(), "still full");
    assert_eq!(store.end_index(), end);
    store.entry(end).unwrap();
    fs.set_capacity(None);
    append(&mut store, 900);
    drop(store);
    let (_, found) = open(&fs);
    assert_eq!((found.end_index, found.cut), (end + 1, None));
}

#[test]
fn a_failed_sync_poisons_the_store() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    append(&mut store, 10);
    store.flusher().sync().unwrap();
    append(&mut store, 10);
    fs.fail_next_sync(1);
    assert!(matches!(
        store.flusher().sync(),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.flusher().sync(),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.append(1, 10, &mut |_, _| {}),
        Err(StoreError::Poisoned(_))
    ));
    assert!(store.poisoned().is_some());
    assert_eq!(
        store.write_checkpoint(1).unwrap(),
        0,
        "the checkpoint names synced entries only"
    );
}

#[test]
fn cut_entries_do_not_come_back() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    for _ in 0..200 {
        append(&mut store, 100);
    }
    store.flusher().sync().unwrap();
    store.truncate_from(50).unwrap();
    assert_eq!(store.end_index(), 49);
    assert!(matches!(
        store.entry(50),
        Err(StoreError::Read(ReadError::BeyondEnd { .. }))
    ));
    assert_eq!(append(&mut store, 100), 50);
    store.truncate_from(50).unwrap();
    drop(store);
    for path in fs.files() {
        if path.starts_with(Path::new(BASE).join("data")) && path != data(0) && path != data(4096) {
            panic!("{} is left", path.display());
        }
    }
    let (store, found) = open(&fs);
    assert_eq!((found.end_index, found.cut), (49, None));
    drop(store);
    fs.remove_file(&Path::new(BASE).join(SYNCED_FILE_NAME))
        .unwrap();
    assert_eq!(open(&fs).1.end_index, 49);
}

#[test]
fn a_log_may_begin_inside_a_file() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    for _ in 0..50 {
        append(&mut store, 100);
    }
    let first = Entry::new(1000, 4, 262_144 + 777, Bytes::from_static(b"first"));
    let at = store.reset_to(&first).unwrap();
    assert_eq!(
        (at.index, store.begin_index(), store.first_pos()),
        (1000, 1000, 262_921)
    );
    assert!(store.truncate_from(1000).is_err());
    store.append(4, 100, &mut |body, _| body.fill(5)).unwrap();
    drop(store);
    for with_note in [true, false] {
        if !with_note {
            fs.remove_file(&Path::new(BASE).join(SYNCED_FILE_NAME))
                .unwrap();
        }
        let (store, found) = open(&fs);
        assert_eq!(
            (found.begin_index, found.end_index, found.first_pos),
            (1000, 1001, 262_921)
        );
        assert_eq!(store.entry(1000).unwrap(), first);
    }
}

#[test]
fn expiry_removes_data_and_index_but_never_the_last_file() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    for _ in 0..200 {
        append(&mut store, 100);
    }
    store.flusher().sync().unwrap();
    let all = Sweep {
        older_than_ms: i64::MAX,
        max_files: 100,
        keep_from_pos: i64::MAX,
    };
    let files = store.segments().unwrap().len();
    assert_eq!(
        store
            .expire(&Sweep {
                older_than_ms: 0,
                ..all
            })
            .unwrap()
            .files,
        0
    );
    assert_eq!(
        store
            .expire(&Sweep {
                max_files: 2,
                ..all
            })
            .unwrap()
            .files,
        2
    );
    assert_eq!(
        store
            .expire(&Sweep {
                keep_from_pos: 3 * 4096 - 1,
                ..all
            })
            .unwrap()
            .files,
        0
    );
    assert_eq!(
        store
            .expire(&Sweep {
                keep_from_pos: 3 * 4096,
                ..all
            })
            .unwrap()
            .files,
        1
    );
    let done = store.expire(&all).unwrap();
    assert_eq!(done.files, files - 4);
    assert_eq!(store.segments().unwrap().len(), 1);
    assert_eq!(store.unit(done.begin_index).unwrap().pos, done.first_pos);
    assert!(matches!(
        store.reader().entry(0),
        Err(ReadError::BelowBegin { .. })
    ));
    assert!(matches!(
        store.reader().slice(0, 10),
        Err(ReadError::BelowBegin { .. })
    ));
    assert!(!fs.exists(&index(0)) && !fs.exists(&data(0)));
    append(&mut store, 100);
    drop(store);
    let (_, found) = open(&fs);
    assert_eq!(
        (found.begin_index, found.end_index, found.warnings.len()),
        (done.begin_index, 200, 0)
    );
}

#[test]
fn foreign_missing_wrong_and_empty_files() {
    let fs = java_store();
    for name in [".DS_Store", "00000000000000000000.bak", "x"] {
        fs.write(&Path::new(BASE).join("data").join(name), b"")
            .unwrap();
        fs.write(&Path::new(BASE).join("index").join(name), b"y")
            .unwrap();
    }
    fs.create_dir_all(&Path::new(BASE).join("data/lost+found"))
        .unwrap();
    let end = open(&fs).1.end_index;
    let found = open(&fs).1;
    assert_eq!((found.end_index, found.warnings.len()), (end, 7));
    assert!(fs.exists(&Path::new(BASE).join("data/x")));

    let fs = java_store();
    fs.write(&data(5 * SEGMENT), b"").unwrap();
    let newest_index = fs
        .list(&Path::new(BASE).join("index"))
        .unwrap()
        .last()
        .unwrap()
        .name
        .parse::<u64>()
        .unwrap();
    fs.write(&index(newest_index + 1024), b"").unwrap();
    let found = open(&fs).1;
    assert_eq!((found.end_index, found.removed.len()), (end, 2));
    assert!(!fs.exists(&data(5 * SEGMENT)));

    let fs = java_store();
    fs.remove_file(&data(2 * SEGMENT)).unwrap();
    assert!(
        matches!(try_open(&fs), Err(OpenError::MissingFile(path)) if path == data(2 * SEGMENT))
    );

    let fs = java_store();
    fs.write(&data(2 * SEGMENT), &[0; 100]).unwrap();
    let refused = try_open(&fs).unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::FileSize {
                found: 100,
                expected: 4096,
                ..
            }
        ),
        "{refused}"
    );
    fs.write(&data(2 * SEGMENT), b"").unwrap();
    assert!(matches!(try_open(&fs), Err(OpenError::EmptyFile(path)) if path == data(2 * SEGMENT)));

    let fs = java_store();
    fs.write(&data(SEGMENT), &[9; SEGMENT as usize]).unwrap();
    assert!(matches!(try_open(&fs), Err(OpenError::Damaged { path, .. }) if path == data(SEGMENT)));

    let fs = java_store();
    fs.remove_file(&index(1024)).unwrap();
    let found = open(&fs).1;
    assert_eq!((found.end_index, found.index_rebuilt_from), (end, Some(0)));
}

#[test]
fn spares_of_zeros_are_tolerated() {
    for count in 1..=2 {
        let fs = java_store();
        let end = open(&java_store()).1.end_index;
        for n in 0..count {
            fs.map(&data((5 + n) * SEGMENT), MapMode::Create { size: SEGMENT })
                .unwrap();
        }
        let (mut store, found) = open(&fs);
        assert_eq!(
            (found.end_index, found.cut, found.removed.len()),
            (end, None, count as usize)
        );
        assert_eq!(append(&mut store, 1000), end + 1);
    }
}

#[test]
fn a_damaged_end_is_cut_and_a_damaged_middle_refused() {
    let end = open(&java_store()).1.end_index;
    // The last page of written data is gone.
    let fs = java_store();
    patch(&fs, &data(4 * SEGMENT), 2000, &[0; 2096]);
    let found = open(&fs).1;
    assert!(found.end_index < end && found.end_pos <= 4 * SEGMENT as i64 + 2000);
    // A whole header in the middle of the newest file.
    let fs = java_store();
    patch(&fs, &data(4 * SEGMENT), 1000, &[0; 48]);
    let found = open(&fs).1;
    assert_eq!(found.end_pos, 4 * SEGMENT as i64 + 1000);
    assert!(found.cut.unwrap().bytes > 1000);
    assert_eq!(open(&fs).1.cut, None);
    // Damage with two files of data behind it.
    let fs = java_store();
    patch(&fs, &data(2 * SEGMENT), 1000, &[0; 48]);
    let refused = try_open(&fs).unwrap_err().to_string();
    assert!(
        refused.contains("more than one file behind") && refused.contains("9192"),
        "{refused}"
    );
}

#[test]
fn an_end_close_to_the_end_of_the_file() {
    for rest in [8, 9, 47, 48, 49, 56] {
        let fs = MemFs::new();
        let (mut store, _) = open(&fs);
        append(&mut store, SEGMENT as usize - rest - HEADER_SIZE);
        drop(store);
        for _ in 0..2 {
            let found = open(&fs).1;
            assert_eq!(
                (found.end_index, found.end_pos),
                (0, SEGMENT as i64 - rest as i64),
                "rest {rest}"
            );
            let _ = fs.remove_file(&Path::new(BASE).join(SYNCED_FILE_NAME));
        }
        let (mut store, _) = open(&fs);
        append(&mut store, 1);
        assert_eq!(
            store.unit(1).unwrap().pos,
            if rest >= 57 { 4039 } else { 4096 }
        );
    }
}

#[test]
fn a_log_shorter_than_its_checkpoint() {
    let fs = MemFs::new();
    let (mut store, _) = open(&fs);
    for _ in 0..20 {
        append(&mut store, 10);
    }
    store.close(19).unwrap();
    drop(store);
    patch(
        &fs,
        &Path::new(BASE).join("checkpoint"),
        0,
        b"committedIndex=99\nendIndex=99",
    );
    let before = fs.ops();
    let refused = try_open(&fs).unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::ShorterThanCheckpoint {
                end_index: 19,
                committed: 99,
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(fs.ops(), before, "a refusal changes nothing");
    let accept = StoreConfig {
        short_log: ShortLog::Accept,
        ..config()
    };
    let (_, found) = Store::open(Arc::new(fs), accept, 0, &NoCheck).unwrap();
    assert_eq!((found.short_of, found.committed_index), (Some(99), 19));
}

#[test]
fn an_empty_log_is_placed_where_the_caller_says() {
    let fs = MemFs::new();
    drop(open(&fs));
    let (mut store, found) =
        Store::open(Arc::new(fs.clone()), config(), 3 * 4096, &NoCheck).unwrap();
    assert_eq!((found.first_pos, store.end_pos()), (12_288, 12_288));
    assert!(!fs.exists(&data(0)));
    append(&mut store, 10);
    drop(store);
    assert_eq!(
        open(&fs).1.first_pos,
        12_288,
        "a log with entries stays where it is"
    );
}

/// Every operation of a short story may be the last one of the process; what was synced before is always found.
#[test]
fn killed_at_every_operation() {
    let story = |fs: &MemFs, synced: &mut i64| -> Result<(), Box<dyn std::error::Error>> {
        let (mut store, _) = try_open(fs)?;
        for round in 0..3 {
            for _ in 0..30 {
                store.append(1, 300, &mut |body, _| body.fill(7))?;
            }
            store.preparer().run()?;
            *synced = store.flusher().sync()?.end_index.max(*synced);
            store.write_checkpoint(*synced - 10)?;
            *synced = (*synced).min(*synced - 5);
            store.truncate_from(store.end_index() - 4)?;
            if round == 1 {
                store.expire(&Sweep {
                    older_than_ms: i64::MAX,
                    max_files: 2,
                    keep_from_pos: i64::MAX,
                })?;
            }
        }
        store.close(*synced)?;
        Ok(())
    };
    let whole = MemFs::new();
    story(&whole, &mut -1).unwrap();
    let points = whole.ops();
    for point in 0..points {
        let fs = MemFs::new();
        fs.stop_after(point);
        let mut synced = -1;
        assert!(story(&fs, &mut synced).is_err() || point + 1 == points);
        let image = fs.crash_image(CrashPolicy::KeepAll, &mut SmallRng::seed_from_u64(point));
        let found = try_open(&image)
            .unwrap_or_else(|e| panic!("killed at operation {point}: {e}"))
            .1;
        assert!(
            found.end_index >= synced,
            "killed at operation {point}: {} < {synced}",
            found.end_index
        );
        let lost = fs.crash_image(
            CrashPolicy::LoseUnsynced,
            &mut SmallRng::seed_from_u64(point),
        );
        let found = try_open(&lost)
            .unwrap_or_else(|e| panic!("power lost at operation {point}: {e}"))
            .1;
        assert!(
            found.end_index >= synced,
            "power lost at operation {point}: {} < {synced}",
            found.end_index
        );
    }
    println!("{points} points");
}

#[test]
fn slices_outlive_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        index_file_size: 1024,
        ..StoreConfig::new(dir.path(), 64 * 1024)
    };
    let (mut store, _) = Store::open(RealFs::shared(), config, 0, &NoCheck).unwrap();
    for _ in 0..1000 {
        append(&mut store, 1000);
    }
    store.flusher().sync().unwrap();
    let held: Vec<Bytes> = (0..60).map(|i| store.entry(i).unwrap().body).collect();
    let all = Sweep {
        older_than_ms: i64::MAX,
        max_files: 100,
        keep_from_pos: i64::MAX,
    };
    assert!(store.expire(&all).unwrap().files > 10);
    drop(store);
    for (i, body) in held.iter().enumerate() {
        assert!(body.iter().all(|b| *b == i as u8 + 1));
    }
}

struct Filled;

impl BodyCheck for Filled {
    fn check(&self, body: &[u8], _pos: i64) -> Result<(), String> {
        if body.iter().all(|b| *b == body[0]) {
            Ok(())
        } else {
            Err("uneven".to_owned())
        }
    }
}

/// Writer, flusher, preparer, expiry and readers at once, on real files.
#[test]
fn readers_flusher_and_preparer_beside_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        index_file_size: 32 * 1024,
        ..StoreConfig::new(dir.path(), 256 * 1024)
    };
    let (mut store, _) = Store::open(RealFs::shared(), config.clone(), 0, &Filled).unwrap();
    let stop = AtomicBool::new(false);
    let (reader, flusher, preparer, expirer) = (
        store.reader(),
        store.flusher(),
        store.preparer(),
        store.expirer(),
    );
    /// Ends the other threads also when an assertion fails.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let ended = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let before = reader.end_index();
                let synced = flusher.sync().unwrap();
                assert!(synced.end_index >= before);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                preparer.run().unwrap();
                let keep = reader.written_end() - 1_000_000;
                expirer
                    .expire(&Sweep {
                        older_than_ms: i64::MAX,
                        max_files: 2,
                        keep_from_pos: keep,
                    })
                    .unwrap();
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let end = reader.end_index();
                for index in (end - 50).max(0)..=end {
                    match reader.entry(index) {
                        Ok(entry) => assert!(
                            entry
                                .body
                                .iter()
                                .all(|b| *b == (index as u8).wrapping_add(1)),
                            "entry {index}"
                        ),
                        Err(ReadError::BelowBegin { .. }) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            }
        });
        for i in 0..30_000 {
            append(&mut store, 100 + i % 400);
        }
        drop(ended);
    });
    assert!(store.begin_index() > 0);
    let (begin, end) = (store.begin_index(), store.end_index());
    store.close(end).unwrap();
    drop(store);
    let (_, found) = Store::open(RealFs::shared(), config, 0, &Filled).unwrap();
    assert_eq!((found.begin_index, found.end_index), (begin, end));
    assert_eq!(
        (found.cut, found.scanned_entries, found.removed.len()),
        (None, 0, 0)
    );
}

//! Blank and divide in every corner, and the upgrade stopped after every operation on the disk.

use std::path::PathBuf;

use dledger::fs::{CrashPolicy, Fs, MemFs};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::examine::{ExamineConfig, examine};
use crate::testing::{PlainStore, contents, quiet};

fn config(store: &PlainStore) -> ExamineConfig {
    let mut config = ExamineConfig::new(store.layout.clone());
    config.file_size = Some(store.file_size);
    config.self_id = Some("n0".to_string());
    config
}

fn planned(fs: &MemFs, store: &PlainStore) -> Upgrade {
    let exam = examine(fs, &config(store), &quiet).unwrap();
    assert_eq!(
        exam.refusals(&Default::default()),
        [],
        "{:#?}",
        exam.findings
    );
    match exam.plan {
        Plan::Upgrade(upgrade) => upgrade,
        other => panic!("{other:?}"),
    }
}

/// One corner: what the store was, and what Java makes of it.
struct Corner {
    name: &'static str,
    store: PlainStore,
    /// Position of the blank record and its rest; none if none is written.
    blank: Option<(i64, i32)>,
    divide: i64,
}

fn corner(
    name: &'static str,
    start: i64,
    blank: Option<(i64, i32)>,
    divide: i64,
    build: impl FnOnce(&mut PlainStore),
) -> Corner {
    let mut store = PlainStore::new(1024, start);
    build(&mut store);
    Corner {
        name,
        store,
        blank,
        divide,
    }
}

fn corners() -> Vec<Corner> {
    vec![
        corner("one file, partly filled", 0, Some((498, 526)), 1024, |s| {
            s.append(400);
        }),
        corner(
            "front expired",
            5120,
            Some((5120 + 1522, 526)),
            5120 + 2048,
            |s| {
                s.append(900);
                s.append(400);
            },
        ),
        corner("a file made ahead goes", 0, Some((498, 526)), 1024, |s| {
            s.append(400);
            s.create(1024);
        }),
        corner(
            "two files made ahead go",
            1024,
            Some((1024 + 498, 526)),
            2048,
            |s| {
                s.append(400);
                s.create(2048);
                s.create(3072);
            },
        ),
        corner(
            "an empty last file stays and is filled whole",
            0,
            Some((1024, 1024)),
            2048,
            |s| {
                s.append(400);
                s.roll();
                s.create(1024);
            },
        ),
        corner(
            "the empty file stays, the one behind it goes",
            0,
            Some((1024, 1024)),
            2048,
            |s| {
                s.append(400);
                s.roll();
                s.create(1024);
                s.create(2048);
            },
        ),
        corner("only a file made ahead", 0, Some((0, 1024)), 1024, |s| {
            s.create(0)
        }),
        corner(
            "only a file made ahead, front expired",
            3072,
            Some((3072, 1024)),
            4096,
            |s| s.create(3072),
        ),
        corner("full: closed already, no file behind", 0, None, 1024, |s| {
            s.append(400);
            s.roll();
        }),
        corner("eight bytes left", 0, Some((1016, 8)), 1024, |s| {
            s.append(400);
            s.fill_to(8);
        }),
        corner("seven bytes left", 0, None, 1024, |s| {
            s.append(400);
            s.fill_to(7);
        }),
        corner("four bytes left", 0, None, 1024, |s| {
            s.append(400);
            s.fill_to(4);
        }),
        corner("nothing left", 0, None, 1024, |s| {
            s.append(400);
            s.fill_to(0);
        }),
        corner(
            "nothing left, a file made ahead",
            0,
            Some((1024, 1024)),
            2048,
            |s| {
                s.append(400);
                s.fill_to(0);
                s.create(1024);
            },
        ),
        corner(
            "old bytes behind the end stay",
            0,
            Some((498, 526)),
            1024,
            |s| {
                s.append(400);
                s.write(498, &[0x55; 526]);
            },
        ),
        corner(
            "a torn frame at the end, killed",
            0,
            Some((498, 526)),
            1024,
            |s| {
                s.append(400);
                let mut torn = s.frame(200, 498);
                torn[150] ^= 1;
                s.write(498, &torn);
                s.create(1024);
                s.abort();
            },
        ),
        corner("an empty file at the end", 0, Some((498, 526)), 1024, |s| {
            s.append(400);
            s.fs.write(&s.file(1024), b"").unwrap();
        }),
        corner(
            "many files",
            0,
            Some((6 * 1024 + 498, 526)),
            7 * 1024,
            |s| {
                (0..6).for_each(|_| {
                    s.append(900);
                });
                s.append(400);
            },
        ),
    ]
}

/// The legacy files as they must be in the end.
fn expected_legacy(corner: &Corner) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = corner.store.layout.root().join("commitlog");
    let mut files: Vec<_> = contents(&corner.store.fs)
        .into_iter()
        .filter(|(path, _)| path.starts_with(&dir))
        .collect();
    files.retain(|(path, bytes)| {
        let start = path
            .file_name()
            .and_then(|n| crate::layout::parse_file_name(&n.to_string_lossy()));
        !bytes.is_empty() && start.is_some_and(|start| start < corner.divide)
    });
    if let Some((position, rest)) = corner.blank {
        let at = (position % 1024) as usize;
        let (_, last) = files.last_mut().unwrap();
        last[at..at + 4].copy_from_slice(&rest.to_be_bytes());
        last[at + 4..at + 8].copy_from_slice(&[0xcb, 0xd4, 0x31, 0x94]);
    }
    files
}

fn legacy(fs: &MemFs) -> Vec<(PathBuf, Vec<u8>)> {
    contents(fs)
        .into_iter()
        .filter(|(path, _)| path.parent().is_some_and(|dir| dir.ends_with("commitlog")))
        .collect()
}

#[test]
fn blank_and_divide_in_every_corner() {
    for corner in corners() {
        let name = corner.name;
        let expected = expected_legacy(&corner);
        let upgrade = planned(&corner.store.fs, &corner.store);
        assert_eq!(upgrade.divide, corner.divide, "{name}");
        perform(&*corner.store.fs, &upgrade).unwrap();
        assert_eq!(legacy(&corner.store.fs), expected, "{name}");
        let data = corner.store.layout.dledger_data("n0");
        let created: Vec<_> = corner
            .store
            .fs
            .list(&data)
            .unwrap()
            .into_iter()
            .map(|e| (e.name, e.len))
            .collect();
        assert_eq!(created, [(file_name(corner.divide), 1024)], "{name}");
        // Again: nothing changes any more.
        let done = contents(&corner.store.fs);
        let again = planned(&corner.store.fs, &corner.store);
        assert_eq!(again.divide, corner.divide, "{name}");
        perform(&*corner.store.fs, &again).unwrap();
        assert_eq!(contents(&corner.store.fs), done, "{name}");
    }
}

/// Stops the upgrade after every changing operation, takes the disk as a kill (or a power failure) leaves it, and
/// starts again, stopping that one too.
#[test]
fn stopped_after_every_operation_it_ends_in_the_same_store() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut points = 0;
    for corner in corners() {
        let fs = &corner.store.fs;
        let start = fs.crash_image(CrashPolicy::KeepAll, &mut rng);
        perform(&**fs, &planned(fs, &corner.store)).unwrap();
        let done = contents(fs);
        let policies = [
            CrashPolicy::KeepAll,
            CrashPolicy::LoseUnsynced,
            CrashPolicy::TornPages { keep: 0.5 },
        ];
        for policy in policies {
            for stop in 0.. {
                let first = start.crash_image(CrashPolicy::KeepAll, &mut rng);
                first.stop_after(stop);
                let finished =
                    perform(&first, &planned(&first, &corner.store)).is_ok() && !first.stopped();
                points += 1;
                // A second kill, somewhere in the second try.
                let second = first.crash_image(policy, &mut rng);
                second.stop_after(stop % 5);
                let _ = perform(&second, &planned(&second, &corner.store));
                let third = second.crash_image(policy, &mut rng);
                perform(&third, &planned(&third, &corner.store)).unwrap();
                assert_eq!(
                    contents(&third),
                    done,
                    "{}, {policy:?}, stopped after {stop}",
                    corner.name
                );
                if finished {
                    break;
                }
            }
        }
    }
    println!("upgrade: {points} kill points, each ended in the same store");
}

/// Until the first entry is written a plain broker opens the store: it finds its end where the blank record lies.
#[test]
fn a_plain_broker_still_finds_its_end() {
    for corner in corners() {
        let upgrade = planned(&corner.store.fs, &corner.store);
        perform(&*corner.store.fs, &upgrade).unwrap();
        let files = crate::legacy::list(
            &*corner.store.fs,
            corner.store.layout.commitlog_dirs(),
            Some(1024),
        )
        .unwrap()
        .files;
        let start = crate::legacy::normal_start(&files);
        let found =
            crate::legacy::recover(&*corner.store.fs, &files, 1024, start, None, &quiet).unwrap();
        assert_eq!(found.end, upgrade.recovered.end, "{}", corner.name);
    }
}

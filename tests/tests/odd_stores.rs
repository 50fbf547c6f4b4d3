//! Stores to which something happened while nobody looked: each opens with every message in its place, its queues and
//! index built anew where they were damaged, and is sound after a clean stop.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tests::compare::none;
use tests::conf::Conf;
use tests::fixture::{A, B, E, Fixture, G, H};
use tests::ours::{OurBroker, mqctl};
use tests::scan::Scan;

/// Nothing listens there: what needs no clients needs no name server.
const NS: &str = "127.0.0.1:1";

/// Physical offset, queue offset and CRC of each message.
type Messages = BTreeMap<i64, (i64, i32)>;

/// What was done to a fixture: a name for messages of a failure, and the deed.
type Deed = (&'static str, Fixture, fn(&Path));

const HOT: &str = "consumequeue/FixOrders/0";

const DEEDS: &[Deed] = &[
    ("no queues", A, |s| gone(s, "consumequeue")),
    ("no queues, no index, no checkpoint", H, |s| {
        gone(s, "consumequeue");
        gone(s, "index");
        gone(s, "checkpoint");
    }),
    ("no queues after a kill", G, |s| gone(s, "consumequeue")),
    ("a torn queue file", A, |s| {
        cut(&s.join(HOT).join(number(18_000)), 1010)
    }),
    ("a queue file of zeros in the middle", E, |s| {
        put(&s.join(HOT).join(number(6000)), 0, &[0; 6000]);
    }),
    ("a unit that names the moon", A, |s| {
        put(&s.join(HOT).join(number(6000)), 2003, &[0x7f, 0, 0xff]);
    }),
    ("an index file with a mad header", A, |s| {
        put(&nth(&s.join("index"), 1), 0, &[0x5a; 40]);
    }),
    ("an index file less in the middle", A, |s| {
        fs::remove_file(nth(&s.join("index"), 1)).unwrap();
    }),
    ("no DLedger index, checkpoint and vote", A, |s| {
        gone(s, "dledger-n0/index");
        for name in ["checkpoint", "checkpoint.bak", "currterm"] {
            fs::remove_file(s.join("dledger-n0").join(name)).unwrap();
        }
    }),
    ("a DLedger checkpoint that is no text", A, |s| {
        fs::write(s.join("dledger-n0/checkpoint"), [0xff; 40]).unwrap();
    }),
    ("empty newest files everywhere", B, |s| {
        newest(s, "dledger-n0/data", 1 << 20, 0);
        newest(s, HOT, 6000, 0);
        fs::write(s.join("index/20991231235959999"), []).unwrap();
    }),
    ("zeros as the newest queue files", E, |s| {
        for queue in ["FixOrders/0", "FixOrders/1", "FixEvents/1"] {
            newest(s, &format!("consumequeue/{queue}"), 6000, 6000);
        }
    }),
    ("a file made ahead behind a killed one", E, |s| {
        newest(s, "commitlog", 1 << 20, 1 << 20);
        fs::write(s.join("abort"), []).unwrap();
    }),
    ("foreign names", E, |s| {
        for dir in ["", "consumequeue", "consumequeue/FixOrders", HOT, "config"] {
            fs::create_dir_all(s.join(dir).join("lost+found")).unwrap();
            for name in [".DS_Store", "00000000000000000000.bak", "123"] {
                fs::write(s.join(dir).join(name), b"hello").unwrap();
            }
        }
    }),
    ("the empty folder of another member", A, |s| {
        fs::create_dir_all(s.join("dledger-n7/data")).unwrap();
    }),
];

fn gone(store: &Path, dir: &str) {
    let path = store.join(dir);
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

fn number(n: i64) -> String {
    format!("{n:020}")
}

/// The n-th file of a folder, by name.
fn nth(dir: &Path, n: usize) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.retain(|f| f.is_file());
    files.sort();
    files[n].clone()
}

fn cut(file: &Path, len: u64) {
    OpenOptions::new()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(len)
        .unwrap();
}

fn put(file: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new()
        .write(true)
        .open(file)
        .unwrap()
        .write_all_at(bytes, at)
        .unwrap();
}

/// The file behind the last one of a folder, of `len` zeros.
fn newest(store: &Path, dir: &str, step: i64, len: u64) {
    let last = fs::read_dir(store.join(dir)).unwrap();
    let last = last
        .filter_map(|e| e.unwrap().file_name().to_str()?.parse::<i64>().ok())
        .max();
    let path = store.join(dir).join(number(last.unwrap() + step));
    fs::write(&path, []).unwrap();
    cut(&path, len);
}

fn messages(store: &Path) -> Messages {
    let scan = Scan::of(store, 1000).unwrap();
    scan.records
        .values()
        .map(|r| (r.phys, (r.queue_offset, r.body_crc)))
        .collect()
}

fn checked(store: &Path) -> (Option<i32>, String) {
    let output = mqctl(&["store", "check", &store.display().to_string()]).unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Starts and stops a broker on the store; it must be sound then, by our checker and byte for byte.
fn mended(what: &str, fixture: &Fixture, store: &Path, home: &Path) -> Messages {
    let conf = Conf::of_fixture(fixture, store, NS)
        .unwrap()
        .dledger()
        .unwrap();
    let conf = conf.set("fileReservedTime", 1_000_000);
    let broker = OurBroker::start(&conf, home).unwrap_or_else(|e| panic!("{what}: {e:#}"));
    broker.stop().unwrap_or_else(|e| panic!("{what}: {e:#}"));
    let scan = Scan::of(store, 1000).unwrap();
    none(what, &scan.problems());
    let (code, said) = checked(store);
    assert_eq!(code, Some(0), "{what}: {said}");
    messages(store)
}

#[test]
fn what_is_derived_is_mended_and_what_is_foreign_left_alone() {
    for (what, fixture, deed) in DEEDS {
        let unpacked = fixture.unpack().unwrap();
        let store = unpacked.store();
        let before = messages(&store);
        deed(&store);
        assert_eq!(
            mended(what, fixture, &store, unpacked.dir()),
            before,
            "{what}"
        );
    }
}

/// A message that is damaged deep in the log is named; the others are served all the same.
#[test]
fn one_damaged_message_does_not_keep_the_others_away() {
    for (fixture, file, body) in [(E, "commitlog", 0), (A, "dledger-n0/data", 48)] {
        for rebuilt in [false, true] {
            let unpacked = fixture.unpack().unwrap();
            let store = unpacked.store();
            let hit = *messages(&store).keys().nth(500).unwrap();
            put(&store.join(file).join(number(0)), hit as u64 + 5, b"?");
            if rebuilt {
                gone(&store, "consumequeue");
            }
            let (code, said) = checked(&store);
            assert!(
                code == Some(1) && said.contains(&format!("damaged at {}", hit - body)),
                "{said}"
            );
            let conf = Conf::of_fixture(&fixture, &store, NS)
                .unwrap()
                .dledger()
                .unwrap();
            let conf = conf.set("fileReservedTime", 1_000_000);
            OurBroker::start(&conf, unpacked.dir())
                .unwrap()
                .stop()
                .unwrap();
            let (_, said) = checked(&store);
            let about_queues = said
                .lines()
                .filter(|l| l.contains("no unit") || l.contains("found Unit"));
            assert_eq!(about_queues.count(), 0, "{said}");
        }
    }
}

/// A torn tail of a plain log goes, and with it what the queues say about it.
#[test]
fn a_torn_tail_is_cut_from_log_and_queues() {
    let unpacked = E.unpack().unwrap();
    let store = unpacked.store();
    let mut before = messages(&store);
    let (last, _) = before.pop_last().unwrap();
    put(
        &store.join("commitlog").join(number(5 << 20)),
        (last - (5 << 20)) as u64 + 5,
        b"?",
    );
    assert_eq!(mended("torn tail", &E, &store, unpacked.dir()), before);
}

/// A repair finds what a start after a clean stop of ours takes for granted.
#[test]
fn a_repair_looks_at_everything() {
    let unpacked = A.unpack().unwrap();
    let store = unpacked.store();
    let before = mended("fixture", &A, &store, unpacked.dir());
    put(&store.join(HOT).join(number(6000)), 2003, &[0x7f, 0, 0xff]);
    let (code, said) = checked(&store);
    assert_eq!(code, Some(1), "{said}");
    let (path, conf) = (
        store.display().to_string(),
        unpacked.dir().join("broker.conf"),
    );
    let conf = conf.display().to_string();
    let repaired = mqctl(&["store", "check", "--repair", "-c", &conf, &path]).unwrap();
    assert!(
        repaired.status.success(),
        "{}",
        String::from_utf8_lossy(&repaired.stderr)
    );
    let (code, said) = checked(&store);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(messages(&store), before);
}

/// A gap in the log is a finding of the check, not the end of it.
#[test]
fn gaps_are_named() {
    for (fixture, file) in [
        (E, "commitlog/00000000000003145728"),
        (H, "commitlog/00000000000005242880"),
        (H, "dledger-n0/data/00000000000006291456"),
        (A, "dledger-n0/data/00000000000003145728"),
    ] {
        let unpacked = fixture.unpack().unwrap();
        fs::remove_file(unpacked.store().join(file)).unwrap();
        let (code, said) = checked(&unpacked.store());
        assert!(
            code == Some(1) && said.contains("missing"),
            "{file}: {code:?} {said}"
        );
    }
}

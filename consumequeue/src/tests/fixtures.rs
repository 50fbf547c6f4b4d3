//! Stores written by stock brokers: what is rebuilt from their logs must be what they wrote.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use dledger::fs::{Fs, MemFs, RealFs};
use tempfile::TempDir;

use super::{Derived, FIXTURE_SIZES, Sizes, Start, assert_same, contents};
use crate::log::LogFrame;
use crate::recovery::Reason;
use crate::testing::{TestLog, frames_of_file};

pub(super) struct Fixture {
    dir: TempDir,
    store: &'static str,
}

impl Fixture {
    pub fn folder(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../tests/data/fixtures")
            .join(name)
    }

    pub fn unpack(name: &str) -> Fixture {
        Fixture::member(name, "store")
    }

    fn member(name: &str, store: &'static str) -> Fixture {
        let archive = Fixture::folder(name).join("store.tar.zst");
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("tar")
            .args(["--zstd", "-xSf"])
            .arg(&archive)
            .arg("-C")
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(status.success(), "unpack {}", archive.display());
        Fixture { dir, store }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join(self.store)
    }

    /// The records of both halves.
    pub fn log(&self) -> TestLog {
        let root = self.root();
        let mut frames = Vec::new();
        let mut starts = Vec::new();
        read_half(&root.join("commitlog"), false, &mut frames, &mut starts);
        for member in ["n0", "n1", "n2"] {
            let data = root.join(format!("dledger-{member}/data"));
            read_half(&data, true, &mut frames, &mut starts);
        }
        TestLog::of(frames, starts[0], starts)
    }
}

fn read_half(dir: &Path, dledger: bool, frames: &mut Vec<LogFrame>, starts: &mut Vec<i64>) {
    let fs = RealFs;
    if !fs.exists(dir) {
        return;
    }
    for entry in fs.list(dir).unwrap() {
        let start = entry.name.parse().unwrap();
        let bytes = fs.read(&dir.join(&entry.name)).unwrap().into();
        frames.extend(frames_of_file(start, &bytes, dledger));
        starts.push(start);
    }
}

/// Rebuilds queues and index into nothing.
fn rebuild(log: &TestLog) -> (Arc<dyn Fs>, PathBuf) {
    let (fs, root): (Arc<dyn Fs>, _) = (Arc::new(MemFs::new()), PathBuf::from("/store"));
    let derived = Derived::open(&fs, &root, FIXTURE_SIZES, log, Start::default()).unwrap();
    derived.catch_up().unwrap();
    derived.dispatcher.close().unwrap();
    (fs, root)
}

fn rebuilt_equals_java(name: &str) {
    let fixture = Fixture::unpack(name);
    let java = contents(&RealFs, &fixture.root());
    let (fs, root) = rebuild(&fixture.log());
    assert_same(&java, &contents(&*fs, &root), name);
}

#[test]
fn a_rebuilt() {
    rebuilt_equals_java("A-dledger-497");
}

#[test]
fn c_rebuilt() {
    rebuilt_equals_java("C-dledger-533");
}

#[test]
fn e_rebuilt() {
    rebuilt_equals_java("E-plain-497");
}

#[test]
fn h_rebuilt() {
    rebuilt_equals_java("H-upgraded-497");
}

const CLEAN: [(&str, &str); 9] = [
    ("A-dledger-497", "store"),
    ("C-dledger-533", "store"),
    ("E-plain-497", "store"),
    ("H-upgraded-497", "store"),
    ("I-dledger-3-497", "n0"),
    ("I-dledger-3-497", "n1"),
    ("I-dledger-3-497", "n2"),
    ("L0-plain-front-deleted-497", "store"),
    ("L-upgraded-front-deleted-497", "store"),
];

/// Opens the store as it is; what is there, and where dispatch went on.
pub(super) fn open_in_place(fixture: &Fixture, start: Start) -> (Derived, crate::CatchUp) {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let derived =
        Derived::open(&fs, &fixture.root(), FIXTURE_SIZES, &fixture.log(), start).unwrap();
    let done = derived.catch_up().unwrap();
    derived.dispatcher.close().unwrap();
    (derived, done)
}

#[test]
fn a_clean_stop_of_java_leaves_nothing_to_do() {
    for (name, store) in CLEAN {
        let fixture = Fixture::member(name, store);
        let before = contents(&RealFs, &fixture.root());
        let (derived, done) = open_in_place(&fixture, Start::default());
        // I/n1 was killed in its life, and Java lost the older part of its key index.
        let lost = store == "n1";
        let expected = if lost {
            Reason::Begin
        } else {
            Reason::QueuesEnd
        };
        assert_eq!(
            derived.recovered.reason, expected,
            "{name}/{store}: {:?}",
            derived.recovered
        );
        if !lost {
            // At most half messages and rollbacks lie behind the end of the queues.
            assert!(done.records < 10, "{name}/{store}: {done:?}");
            assert_same(&before, &contents(&RealFs, &fixture.root()), name);
        }
        // The second start finds our own mark.
        let (derived, done) = open_in_place(&fixture, Start::default());
        assert_eq!(
            derived.recovered.reason,
            Reason::CleanMark,
            "{name}/{store}"
        );
        assert_eq!(done.records, 0);
    }
}

#[test]
fn a_kill_of_java_is_mended() {
    for name in ["B-dledger-497-kill9", "G-plain-497-kill9"] {
        let fixture = Fixture::unpack(name);
        let start = Start {
            unclean: true,
            ..Start::default()
        };
        let (derived, _) = open_in_place(&fixture, start);
        assert_eq!(derived.recovered.reason, Reason::Begin, "{name}");
        let (fs, root) = rebuild(&fixture.log());
        assert_same(
            &contents(&*fs, &root),
            &contents(&RealFs, &fixture.root()),
            name,
        );
    }
}

/// Damages a copy of the store, opens it, and compares with what was there before.
fn mended(name: &str, damage: impl Fn(&Path)) -> Derived {
    let fixture = Fixture::unpack(name);
    let whole = contents(&RealFs, &fixture.root());
    damage(&fixture.root());
    let (derived, _) = open_in_place(&fixture, Start::default());
    assert_same(&whole, &contents(&RealFs, &fixture.root()), name);
    derived
}

#[test]
fn what_is_missing_or_damaged_is_made_again() {
    let queue = "consumequeue/FixOrders/0";
    let file = format!("{queue}/00000000000000006000");
    let last = format!("{queue}/00000000000000024000");
    let name = "A-dledger-497";
    mended(name, |root| {
        std::fs::remove_dir_all(root.join(queue)).unwrap()
    });
    mended(name, |root| {
        std::fs::remove_dir_all(root.join("consumequeue")).unwrap()
    });
    mended(name, |root| {
        std::fs::remove_dir_all(root.join("index")).unwrap()
    });
    mended(name, |root| std::fs::remove_file(root.join(&file)).unwrap());
    mended(name, |root| std::fs::remove_file(root.join(&last)).unwrap());
    mended(name, |root| {
        std::fs::write(root.join(&file), [1; 100]).unwrap()
    });
    mended(name, |root| {
        std::fs::write(root.join(&file), [0; 6000]).unwrap()
    });
    mended(name, |root| {
        let mut bytes = std::fs::read(root.join(&last)).unwrap();
        bytes[1000..].fill(0);
        std::fs::write(root.join(&last), bytes).unwrap();
    });
    for number in 0..3 {
        mended(name, |root| {
            let mut files: Vec<_> = std::fs::read_dir(root.join("index"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            files.sort();
            std::fs::remove_file(&files[number]).unwrap();
        });
    }
}

#[test]
fn names_that_do_not_belong_are_left_alone() {
    let fixture = Fixture::unpack("A-dledger-497");
    let whole = contents(&RealFs, &fixture.root());
    let queue = fixture.root().join("consumequeue/FixOrders/0");
    let index = fixture.root().join("index");
    let foreign = [
        queue.join(".DS_Store"),
        index.join("x"),
        queue.join("00000000000000000000.bak"),
    ];
    for path in &foreign {
        std::fs::write(path, b"x").unwrap();
    }
    std::fs::create_dir(queue.join("lost+found")).unwrap();
    std::fs::create_dir(fixture.root().join("consumequeue/lost+found")).unwrap();
    // Newest files that were created, but not yet sized, or sized and never written.
    std::fs::write(queue.join("00000000000000030000"), b"").unwrap();
    std::fs::write(
        fixture
            .root()
            .join("consumequeue/FixSingle/0/00000000000000006000"),
        [0; 6000],
    )
    .unwrap();
    std::fs::write(index.join("20991129115404915"), b"").unwrap();
    let (derived, _) = open_in_place(&fixture, Start::default());
    assert_eq!(derived.queues_report.foreign_names, 3);
    assert_eq!(derived.index_report.foreign_names, 1);
    assert!(derived.queues_report.damaged.is_empty() && derived.index_report.damaged.is_none());
    for path in &foreign {
        assert!(path.exists());
        std::fs::remove_file(path).unwrap();
    }
    std::fs::remove_dir(queue.join("lost+found")).unwrap();
    assert_same(&whole, &contents(&RealFs, &fixture.root()), "foreign names");
}

#[test]
fn other_file_sizes_are_refused() {
    let fixture = Fixture::unpack("A-dledger-497");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let open = |sizes| {
        let opened = Derived::open(
            &fs,
            &fixture.root(),
            sizes,
            &fixture.log(),
            Start::default(),
        );
        opened
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let queues = open(Sizes {
        queue_file: 6020,
        ..FIXTURE_SIZES
    });
    assert!(
        queues.contains("set mappedFileSizeConsumeQueue=6000"),
        "{queues}"
    );
    let index = open(Sizes {
        items: 5000,
        ..FIXTURE_SIZES
    });
    assert!(index.contains("84040"), "{index}");
}

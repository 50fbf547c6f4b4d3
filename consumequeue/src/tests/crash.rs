//! Crashes at any instant: after recovery and catching up, queues and index are what a rebuild gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dledger::fs::{CrashPolicy, Fs, MemFs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Derived, Sizes, Start, assert_same, contents};
use crate::Error;
use crate::log::MessageLog;
use crate::recovery::{CheckpointTimes, Reason};
use crate::testing::{Message, TestLog};

const SIZES: Sizes = Sizes {
    queue_file: 20 * 30,
    slots: 1500,
    items: 130,
    batch: 4000,
};

const TOPICS: [(&str, i32); 4] = [
    ("orders", 3),
    ("events", 1),
    ("%RETRY%g", 1),
    ("SCHEDULE_TOPIC_XXXX", 2),
];

/// Makes messages as a broker would: dense offsets, times that rise but for some milliseconds.
struct Source {
    log: TestLog,
    offsets: std::collections::HashMap<(&'static str, i32), i64>,
    time: i64,
    serial: u32,
}

impl Source {
    fn new() -> Source {
        Source {
            log: TestLog::new(),
            offsets: Default::default(),
            time: 1_700_000_000_000,
            serial: 0,
        }
    }

    fn put(&mut self, rng: &mut StdRng) {
        let (topic, queues) = TOPICS[rng.random_range(0..TOPICS.len())];
        let queue_id = rng.random_range(0..queues);
        let sys_flag = *[0, 0, 0, 0, 0, 4, 8, 12]
            .get(rng.random_range(0..8))
            .unwrap();
        let takes_offset = sys_flag == 0 || sys_flag == 8;
        let next = self.offsets.entry((topic, queue_id)).or_default();
        self.serial += 1;
        self.time += rng.random_range(-3..4000);
        let mut properties = format!(
            "UNIQ_KEY\u{1}U{}\u{2}TAGS\u{1}t{}",
            self.serial,
            self.serial % 5
        );
        if rng.random_bool(0.6) {
            properties += &format!("\u{2}KEYS\u{1}k{} shared", self.serial % 17);
        }
        if topic == "SCHEDULE_TOPIC_XXXX" {
            properties += "\u{2}DELAY\u{1}3";
        }
        let body = vec![7; rng.random_range(0..200)];
        self.log.append(&Message {
            topic,
            queue_id,
            queue_offset: if takes_offset { *next } else { 0 },
            sys_flag,
            store_timestamp: self.time,
            properties: &properties,
            body: &body,
        });
        *next += i64::from(takes_offset);
        if rng.random_bool(0.01) {
            self.log.roll();
        }
    }

    /// The log lost its unsynced end; offsets are assigned anew from what is left.
    fn lose_tail(&mut self, keep: i64) {
        self.log.truncate(keep);
        self.offsets.clear();
        for frame in self.log.all() {
            let view = commitlog::frame::FrameView::parse(&frame.bytes).unwrap();
            if [0, 8].contains(&(view.sys_flag() & 12)) {
                let topic = TOPICS
                    .iter()
                    .find(|(topic, _)| *topic == view.topic())
                    .unwrap()
                    .0;
                self.offsets
                    .insert((topic, view.queue_id()), view.queue_offset() + 1);
            }
        }
    }
}

fn check_equals_rebuild(fs: &dyn Fs, root: &Path, log: &TestLog, what: &str) {
    let fresh: Arc<dyn Fs> = Arc::new(MemFs::new());
    let rebuilt = Derived::open(&fresh, root, SIZES, log, Start::default()).unwrap();
    rebuilt.catch_up().unwrap();
    rebuilt.dispatcher.close().unwrap();
    assert_same(&contents(&*fresh, root), &contents(fs, root), what);
}

/// A broker's life: messages, checkpoints, until the disk stops or the steps are done.
fn live(
    derived: &Derived,
    source: &mut Source,
    rng: &mut StdRng,
    times: &mut CheckpointTimes,
) -> Result<(), Error> {
    for _ in 0..rng.random_range(1..25) {
        match rng.random_range(0..10) {
            0..6 => {
                for _ in 0..rng.random_range(1..25) {
                    source.put(rng);
                }
                source.log.commit();
            }
            6..9 => derived.dispatcher.drain()?,
            _ => {
                let checkpoint = derived.dispatcher.checkpoint()?;
                if rng.random_bool(0.7) {
                    times.log = checkpoint.store_timestamp;
                    times.queues = checkpoint.store_timestamp;
                }
            }
        }
    }
    Ok(())
}

fn policy(rng: &mut StdRng) -> CrashPolicy {
    match rng.random_range(0..4) {
        0 => CrashPolicy::KeepAll,
        1 => CrashPolicy::LoseUnsynced,
        2 => CrashPolicy::RandomPages {
            keep: rng.random_range(0.1..0.9),
        },
        _ => CrashPolicy::TornPages {
            keep: rng.random_range(0.1..0.9),
        },
    }
}

/// One seed: several lives on one store, each ended by a crash (also while recovering), then a clean one.
fn run_seed(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let root = PathBuf::from("/store");
    let mut source = Source::new();
    let mut fs = MemFs::new();
    let mut times = CheckpointTimes::default();
    let mut start = Start::default();
    // Since the last start that came to a mark of its own.
    let mut foreign = false;
    for life in 0..4 {
        let what = format!("seed {seed}, life {life}");
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        fs.stop_after(rng.random_range(1..400));
        let opened = Derived::open(&shared, &root, SIZES, &source.log, start).and_then(|derived| {
            derived.catch_up()?;
            Ok(derived)
        });
        if std::env::var("CRASH_SEED").is_ok() {
            let opened = opened.as_ref().map(|derived| &derived.recovered);
            println!("{what}: {opened:?}, log ends at {}", source.log.data_end());
        }
        if let Ok(derived) = &opened {
            if start.unclean && !foreign && derived.recovered.reason != Reason::Mark {
                // Only a start that never came to its first mark may have to begin anew.
                let position = derived.recovered.position;
                assert_eq!(
                    position,
                    source.log.min_offset(),
                    "{what}: {:?}",
                    derived.recovered
                );
            }
            foreign = false;
            let _ = live(derived, &mut source, &mut rng, &mut times);
        }
        let policy = policy(&mut rng);
        fs = fs.crash_image(policy, &mut rng);
        source.log.commit();
        // In class P the log may lose its end too, when the machine dies.
        if policy != CrashPolicy::KeepAll && rng.random_bool(0.3) {
            let synced = times.log;
            let all = source.log.all();
            let keep = all.iter().rposition(|frame| {
                commitlog::frame::FrameView::parse(&frame.bytes)
                    .unwrap()
                    .store_timestamp()
                    <= synced
            });
            let cut = keep.map_or(0, |keep| all[keep].physical_end());
            let mark =
                crate::MarkFile::new(Arc::new(fs.clone()), root.join("ledgermq/dispatch-mark"))
                    .load();
            source.lose_tail(cut.max(mark.map_or(0, |mark| mark.position)));
        }
        // As a broker that keeps no marks would leave it: its checkpoint is all that is known.
        if rng.random_bool(0.2) {
            foreign = true;
            let _ = fs.remove_file(&root.join("ledgermq/dispatch-mark"));
        }
        start = Start {
            unclean: true,
            checkpoint: times,
            ..Start::default()
        };
    }
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let derived = Derived::open(&shared, &root, SIZES, &source.log, start).unwrap();
    derived.catch_up().unwrap();
    for _ in 0..rng.random_range(0..40) {
        source.put(&mut rng);
    }
    source.log.commit();
    derived.dispatcher.close().unwrap();
    check_equals_rebuild(&fs, &root, &source.log, &format!("seed {seed}"));
    let derived = Derived::open(&shared, &root, SIZES, &source.log, Start::default()).unwrap();
    if source.log.data_end() > 0 {
        assert_eq!(derived.recovered.reason, Reason::CleanMark, "seed {seed}");
    }
    assert_eq!(derived.recovered.behind_bytes, 0, "seed {seed}");
}

#[test]
fn crashes_at_any_write() {
    // One seed alone (CRASH_SEED=n CRASH_SEEDS=1) tells what happens in it.
    let seeds = std::env::var("CRASH_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(400);
    let first: u64 = std::env::var("CRASH_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0);
    println!("crash images of seeds {first}..{}", first + seeds);
    for seed in first..first + seeds {
        run_seed(seed);
    }
}

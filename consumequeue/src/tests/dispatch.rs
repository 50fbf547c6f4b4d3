//! The dispatcher while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dledger::fs::{Fs, MemFs};
use parking_lot::Mutex;

use super::{Derived, FIXTURE_SIZES, Sizes, Start, assert_same, contents};
use crate::recovery::Reason;
use crate::testing::{Message, TestLog};
use crate::{Arrival, Arrivals};

const SIZES: Sizes = Sizes {
    queue_file: 200,
    batch: 4000,
    ..FIXTURE_SIZES
};

#[derive(Default)]
struct Seen(Mutex<Vec<(String, i32, i64, i64)>>);

impl Arrivals for Seen {
    fn arrived(&self, batch: &[Arrival<'_>]) {
        let mut seen = self.0.lock();
        for arrival in batch {
            assert!(arrival.frame.len() > 90 && arrival.store_timestamp > 0);
            seen.push((
                arrival.topic.to_owned(),
                arrival.queue_id,
                arrival.queue_offset,
                arrival.tags_code,
            ));
        }
    }
}

fn open(fs: &MemFs, log: &TestLog, listener: Arc<dyn Arrivals>) -> Derived {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    Derived::open_with(
        &fs,
        Path::new("/store"),
        SIZES,
        log,
        Start::default(),
        listener,
    )
    .unwrap()
}

#[tokio::test]
async fn follows_the_commit_and_tells_who_waits() {
    let (fs, log, seen) = (MemFs::new(), TestLog::new(), Arc::new(Seen::default()));
    let derived = open(&fs, &log, seen.clone());
    log.put(&Message::new("T", 0, 0));
    derived.catch_up().unwrap();
    assert!(seen.0.lock().is_empty(), "nobody waits while catching up");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let dispatcher = derived.dispatcher.clone();
    let running = tokio::spawn(async move { dispatcher.run(async { drop(stopped.await) }).await });
    for n in 1..50 {
        log.append(&Message {
            properties: "TAGS\u{1}TagA",
            ..Message::new("T", n as i32 % 2, n / 2)
        });
        log.append(&Message {
            sys_flag: 4,
            ..Message::new("T", 0, 0)
        });
        if n % 7 == 0 {
            log.commit();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    log.commit();
    while derived.dispatcher.behind_bytes() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let expected: Vec<_> = (1..50)
        .map(|n| ("T".to_owned(), n as i32 % 2, n / 2, 2_598_919))
        .collect();
    assert_eq!(*seen.0.lock(), expected);
    // What is not committed is not seen; what is committed when it stops is dispatched.
    log.append(&Message::new("T", 0, 25));
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(derived.queues.queue("T", 0).unwrap().max_offset(), 25);
    stop.send(()).unwrap();
    log.commit();
    running.await.unwrap();
    assert_eq!(derived.queues.queue("T", 0).unwrap().max_offset(), 26);
    let checkpoint = derived.dispatcher.close().unwrap();
    assert_eq!(
        checkpoint.position,
        log.all().last().unwrap().physical_end()
    );
    assert_eq!(checkpoint.store_timestamp, 1_700_000_000_000);
}

#[tokio::test]
async fn a_full_disk_delays_but_loses_nothing() {
    let (fs, log, seen) = (MemFs::new(), TestLog::new(), Arc::new(Seen::default()));
    let derived = open(&fs, &log, seen.clone());
    derived.catch_up().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let dispatcher = derived.dispatcher.clone();
    let running = tokio::spawn(async move { dispatcher.run(async { drop(stopped.await) }).await });
    fs.set_capacity(Some(0));
    for n in 0..100 {
        log.put(&Message {
            properties: "UNIQ_KEY\u{1}u\u{2}KEYS\u{1}a b",
            ..Message::new("T", 0, n)
        });
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(derived.dispatcher.behind_bytes() > 0);
    fs.set_capacity(None);
    while derived.dispatcher.behind_bytes() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.send(()).unwrap();
    running.await.unwrap();
    derived.dispatcher.close().unwrap();
    let offsets: Vec<_> = seen.0.lock().iter().map(|arrival| arrival.2).collect();
    assert_eq!(
        offsets,
        (0..100).collect::<Vec<_>>(),
        "each message is announced once"
    );
    check(&fs, &log);
}

/// Compares with a rebuild.
fn check(fs: &MemFs, log: &TestLog) {
    let (fresh, root) = (MemFs::new(), PathBuf::from("/store"));
    let rebuilt = open(&fresh, log, Arc::new(()));
    rebuilt.catch_up().unwrap();
    rebuilt.dispatcher.close().unwrap();
    assert_same(&contents(&fresh, &root), &contents(fs, &root), "dispatch");
}

#[test]
fn missing_messages_are_looked_for_once() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for n in 0..30 {
        log.put(&Message::new("T", 0, n));
        log.put(&Message::new("U", 0, n));
    }
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    derived.dispatcher.close().unwrap();
    // A Java broker went on after it had lost a part of the queue; the queue looks whole.
    let queue = derived.queues.queue("T", 0).unwrap();
    queue.cut(21).unwrap();
    let position = log.all().last().unwrap().physical_end();
    for n in 30..40 {
        log.put(&Message::new("T", 0, n));
    }
    drop(derived);
    MarkAt::write(&fs, &log, position);
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    derived.dispatcher.close().unwrap();
    check(&fs, &log);
}

/// A mark that claims more than there is, as if a queue had lost units without a trace.
struct MarkAt;

impl MarkAt {
    fn write(fs: &MemFs, log: &TestLog, position: i64) {
        let fs: Arc<dyn Fs> = Arc::new(fs.clone());
        let marks = crate::MarkFile::new(fs, "/store/ledgermq/dispatch-mark");
        let mut mark = marks.load().unwrap();
        mark.position = position;
        mark.state = crate::marks::MarkState::CatchingUp;
        mark.queues = (2, 51);
        mark.record = crate::marks::CoveredRecord::of(&log.all()[10]);
        marks.save(&mark).unwrap();
    }
}

#[test]
fn messages_that_are_nowhere_leave_filler() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for n in [0, 1, 2, 7, 8] {
        log.put(&Message::new("T", 0, n));
    }
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    let queue = derived.queues.queue("T", 0).unwrap();
    assert_eq!((queue.max_offset(), queue.unit(5).unwrap()), (9, None));
    assert_eq!(
        queue.unit(7).unwrap().unwrap().physical_offset,
        log.all()[3].physical_offset
    );
    derived.dispatcher.close().unwrap();
    let derived = open(&fs, &log, Arc::new(()));
    assert_eq!(derived.recovered.reason, Reason::CleanMark);
}

#[test]
fn a_topic_deleted_and_made_again_begins_at_zero() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for n in 0..30 {
        log.put(&Message::new("T", 0, n));
    }
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    assert!(derived.dispatcher.remove_topic("T").unwrap());
    for n in 0..3 {
        log.put(&Message::new("T", 0, n));
    }
    derived.dispatcher.drain().unwrap();
    let queue = derived.queues.queue("T", 0).unwrap();
    assert_eq!(queue.max_offset(), 3);
    derived.dispatcher.close().unwrap();
    // A rebuild from the log ends the same way.
    let fresh = MemFs::new();
    let rebuilt = open(&fresh, &log, Arc::new(()));
    rebuilt.catch_up().unwrap();
    let again = rebuilt.queues.queue("T", 0).unwrap();
    assert_eq!((again.min_offset(), again.max_offset()), (0, 3));
    assert_eq!(again.unit(0).unwrap(), queue.unit(0).unwrap());
}

#[test]
fn a_deleted_topic_does_not_come_back_after_a_crash() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for n in 0..30 {
        log.put(&Message::new("T", 0, n));
    }
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    derived.dispatcher.remove_topic("T").unwrap();
    drop(derived);
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let start = Start {
        unclean: true,
        ..Start::default()
    };
    let derived = Derived::open(&shared, Path::new("/store"), SIZES, &log, start).unwrap();
    derived.catch_up().unwrap();
    assert_eq!(derived.recovered.reason, Reason::Mark);
    assert!(derived.queues.topics().is_empty());
}

#[test]
fn a_position_below_the_log_moves_up() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for n in 0..30 {
        log.put(&Message::new("T", 0, n));
    }
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    derived.dispatcher.close().unwrap();
    for n in 30..60 {
        log.put(&Message::new("T", 0, n));
    }
    let min = log.all()[40].physical_offset - 48;
    log.expire(min);
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    let queue = derived.queues.queue("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (40, 60));
}

#[test]
fn impossible_names_do_not_lead_out_of_the_folder() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for topic in ["..", ".", "a/../../b", "a\0b"] {
        log.put(&Message::new(topic, 0, 0));
    }
    log.put(&Message::new("T", -1, 0));
    log.put(&Message::new("T", 0, i64::MAX));
    log.put(&Message::new("T", 0, -5));
    log.put(&Message::new("T", 0, 0));
    let derived = open(&fs, &log, Arc::new(()));
    derived.catch_up().unwrap();
    assert_eq!(
        derived
            .queues
            .topics()
            .iter()
            .map(|topic| &**topic)
            .collect::<Vec<_>>(),
        ["T"]
    );
    assert!(fs.files().iter().all(|path| path.starts_with("/store")));
}

#[test]
fn a_stopped_rebuild_goes_on_where_it_was() {
    let (fs, log) = (MemFs::new(), TestLog::new());
    for n in 0..300 {
        log.put(&Message::new("T", 0, n));
    }
    let derived = open(&fs, &log, Arc::new(()));
    let mut calls = 0;
    let stopped = derived.dispatcher.catch_up(&mut |progress| {
        assert!(progress.from == 0 && progress.position <= progress.end);
        calls += 1;
        if calls == 3 {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    });
    assert!(matches!(stopped, Err(crate::Error::Stopped)));
    let reached = derived.dispatcher.position();
    assert!(reached > 0);
    let derived = open(&fs, &log, Arc::new(()));
    assert_eq!(
        (derived.recovered.reason, derived.recovered.position),
        (Reason::Mark, reached)
    );
    derived.catch_up().unwrap();
    derived.dispatcher.close().unwrap();
    check(&fs, &log);
}

#[test]
fn an_index_switched_on_again_is_completed() {
    let put = |log: &TestLog, from: i64| {
        for n in from..from + 30 {
            log.put(&Message {
                properties: &format!("UNIQ_KEY\u{1}u{n}"),
                ..Message::new("T", 0, n)
            });
        }
    };
    for (unclean, clean_without) in [(false, true), (true, true), (true, false)] {
        let (fs, log) = (MemFs::new(), TestLog::new());
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        let start = |no_index, unclean| {
            let start = Start {
                unclean,
                no_index,
                ..Start::default()
            };
            let derived = Derived::open(&shared, Path::new("/store"), SIZES, &log, start).unwrap();
            derived.catch_up().unwrap();
            derived
        };
        put(&log, 0);
        start(false, false).dispatcher.close().unwrap();
        put(&log, 30);
        let without = start(true, false);
        put(&log, 60);
        without.dispatcher.drain().unwrap();
        if clean_without {
            without.dispatcher.close().unwrap();
        } else {
            without.dispatcher.checkpoint().unwrap();
        }
        put(&log, 90);
        start(false, unclean).dispatcher.close().unwrap();
        check(&fs, &log);
    }
}

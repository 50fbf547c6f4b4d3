//! One queue: where units go, and what readers see.

use std::path::Path;
use std::sync::Arc;

use dledger::fs::{Fs, MemFs};

use crate::unit::Unit;
use crate::{ConsumeQueue, ConsumeQueues, QueuesConfig};

const PER_FILE: i64 = 10;

fn open(fs: &MemFs) -> ConsumeQueues {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let config = QueuesConfig {
        file_size: 20 * PER_FILE as u64,
        max_open_files: 32,
        ..QueuesConfig::new("/cq")
    };
    ConsumeQueues::open(fs, &config).unwrap().0
}

/// The unit of the n-th message of a log of records of 100 bytes.
fn unit(n: i64) -> Unit {
    Unit {
        physical_offset: n * 100,
        size: 100,
        tags_code: n,
    }
}

fn bytes(messages: impl IntoIterator<Item = i64>) -> Vec<u8> {
    messages
        .into_iter()
        .flat_map(|n| unit(n).encode())
        .collect()
}

fn all(queue: &ConsumeQueue) -> Vec<Unit> {
    let (mut units, mut at) = (Vec::new(), queue.min_offset());
    while at < queue.max_offset() {
        let count = queue.units(at, usize::MAX, &mut units).unwrap();
        assert!(count > 0);
        assert!(count as i64 <= PER_FILE);
        at += count as i64;
    }
    units
}

#[test]
fn units_lie_at_their_offset() {
    let fs = MemFs::new();
    let queues = open(&fs);
    let queue = queues.get_or_create("T", 0);
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 0));
    queue.apply(0, &bytes(1..=7)).unwrap();
    queue.apply(7, &bytes(8..=25)).unwrap();
    assert_eq!(
        (queue.min_offset(), queue.max_offset(), queue.physical_end()),
        (0, 25, 2600)
    );
    assert_eq!(all(&queue), (1..=25).map(unit).collect::<Vec<_>>());
    assert_eq!(queue.unit(24).unwrap(), Some(unit(25)));
    assert_eq!(queue.unit(25).unwrap(), None);
    assert_eq!(queue.unit(-1).unwrap(), None);
    assert_eq!(
        (queue.next_file_offset(9), queue.next_file_offset(10)),
        (10, 20)
    );
    assert_eq!(queue.file_offsets(), [0, 10, 20]);
    let mut some = Vec::new();
    assert_eq!(
        queue.units(8, 5, &mut some).unwrap(),
        2,
        "up to the end of the file"
    );
    let file = fs.read(Path::new("/cq/T/0/00000000000000000200")).unwrap();
    assert_eq!((file.len(), &file[..20]), (200, &unit(11).encode()[..]));
    // A full file has no successor before there is a unit for it.
    queue.apply(25, &bytes(26..=30)).unwrap();
    assert_eq!(queue.file_offsets(), [0, 10, 20]);
}

#[test]
fn the_same_units_again_change_nothing() {
    let queues = open(&MemFs::new());
    let queue = queues.get_or_create("T", 0);
    queue.apply(0, &bytes(1..=25)).unwrap();
    let applied = queue.apply(3, &bytes(4..=12)).unwrap();
    assert_eq!((applied.appended, applied.restarted_at), (0, None));
    let applied = queue.apply(20, &bytes(21..=27)).unwrap();
    assert_eq!((applied.appended, applied.restarted_at), (2, None));
    assert_eq!(all(&queue), (1..=27).map(unit).collect::<Vec<_>>());
}

#[test]
fn a_queue_may_begin_behind_zero() {
    let fs = MemFs::new();
    let queues = open(&fs);
    let queue = queues.get_or_create("T", 0);
    queue.apply(23, &bytes(100..=103)).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (23, 27));
    assert_eq!(queue.file_offsets(), [20]);
    let file = fs.read(Path::new("/cq/T/0/00000000000000000400")).unwrap();
    assert_eq!(file[..60], Unit::BLANK.encode().repeat(3));
    let again = open(&fs);
    again.correct_min_offsets(0).unwrap();
    let queue = again.queue("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (23, 27));
}

#[test]
fn holes_are_filled_and_nothing_shifts() {
    let queues = open(&MemFs::new());
    let queue = queues.get_or_create("T", 0);
    queue.apply(0, &bytes(1..=5)).unwrap();
    let applied = queue.apply(12, &bytes(20..=21)).unwrap();
    assert_eq!(applied.hole, Some(5..12));
    assert_eq!(
        (queue.max_offset(), queue.unit(12).unwrap()),
        (14, Some(unit(20)))
    );
    assert_eq!(queue.unit(7).unwrap(), None);
    let mut units = Vec::new();
    assert_eq!(queue.units(5, 3, &mut units).unwrap(), 3);
    assert!(units.iter().all(Unit::is_blank));
    // A minimum is not put on filler.
    queue.correct_min(600).unwrap();
    assert_eq!(queue.min_offset(), 12);
    // An offset that no broker can have reached is not believed.
    let applied = queue.apply(1 << 40, &bytes([30])).unwrap();
    assert!(applied.refused);
    assert!(queue.apply(-1, &bytes([30])).unwrap().refused);
    assert_eq!(queue.max_offset(), 14);
}

#[test]
fn a_lower_offset_later_in_the_log_begins_the_queue_anew() {
    let fs = MemFs::new();
    let queues = open(&fs);
    let queue = queues.get_or_create("T", 0);
    queue.apply(0, &bytes(1..=35)).unwrap();
    let applied = queue.apply(12, &bytes(50..=51)).unwrap();
    assert_eq!(applied.restarted_at, Some(12));
    let expected: Vec<_> = (1..=12).chain(50..=51).map(unit).collect();
    assert_eq!((queue.max_offset(), queue.physical_end()), (14, 5200));
    assert_eq!(all(&queue), expected);
    assert_eq!(queue.file_offsets(), [0, 10]);
    assert!(!fs.exists(Path::new("/cq/T/0/00000000000000000400")));
    let file = fs.read(Path::new("/cq/T/0/00000000000000000200")).unwrap();
    assert!(
        file[80..].iter().all(|byte| *byte == 0),
        "nothing old behind the end"
    );
    queue.apply(0, &bytes([60])).unwrap();
    assert_eq!(all(&queue), [unit(60)]);
    // In front of the first file, too.
    let other = queues.get_or_create("T", 1);
    other.apply(35, &bytes(70..=72)).unwrap();
    other.apply(3, &bytes([80])).unwrap();
    assert_eq!((other.min_offset(), other.max_offset()), (3, 4));
    assert_eq!(all(&other), [unit(80)]);
}

#[test]
fn minimum_follows_the_log_and_files_expire() {
    let fs = MemFs::new();
    let queues = open(&fs);
    let queue = queues.get_or_create("T", 0);
    queue.apply(0, &bytes(1..=35)).unwrap();
    queues.correct_min_offsets(1250).unwrap();
    assert_eq!(queue.min_offset(), 12);
    assert_eq!(queue.unit(11).unwrap(), None);
    assert_eq!(queues.expire(2250).unwrap(), 2);
    assert_eq!(
        (queue.min_offset(), queue.file_offsets()),
        (22, vec![20, 30])
    );
    // All messages are gone: the minimum is the maximum, and the last file keeps the offset.
    assert_eq!(queues.expire(1_000_000).unwrap(), 1);
    assert_eq!((queue.min_offset(), queue.max_offset()), (35, 35));
    let again = open(&fs);
    again.correct_min_offsets(1_000_000).unwrap();
    let queue = again.queue("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (35, 35));
    queue.apply(35, &bytes([20_000])).unwrap();
    assert_eq!(queue.unit(35).unwrap(), Some(unit(20_000)));
}

#[test]
fn a_deleted_topic_is_gone_and_can_come_back() {
    let fs = MemFs::new();
    let queues = open(&fs);
    let old = queues.get_or_create("T", 0);
    old.apply(0, &bytes(1..=3)).unwrap();
    queues.get_or_create("U", 0).apply(0, &bytes([4])).unwrap();
    assert!(queues.remove_topic("T").unwrap());
    assert!(!queues.remove_topic("T").unwrap());
    old.apply(3, &bytes([5])).unwrap();
    assert!(old.is_removed() && !fs.exists(Path::new("/cq/T")));
    assert_eq!(old.units(0, 10, &mut Vec::new()).unwrap(), 0);
    let new = queues.get_or_create("T", 0);
    new.apply(0, &bytes([6])).unwrap();
    assert_eq!(all(&new), [unit(6)]);
    assert_eq!(
        queues
            .topics()
            .iter()
            .map(|topic| &**topic)
            .collect::<Vec<_>>(),
        ["T", "U"]
    );
}

#[test]
fn thousands_of_queues_share_few_descriptors() {
    let fs = MemFs::new();
    let queues = open(&fs);
    for round in 0..3 {
        for id in 0..2000 {
            queues
                .get_or_create("T", id)
                .apply(round, &bytes([round * 2000 + i64::from(id)]))
                .unwrap();
        }
        assert!(queues.open_files() <= 64, "{}", queues.open_files());
    }
    assert_eq!(queues.queues_of("T").len(), 2000);
    assert_eq!(queues.max_physical_offset(), 600_000);
    let again = open(&fs);
    assert!(again.all().iter().all(|queue| queue.max_offset() == 3));
    assert!(again.open_files() <= 64);
}

#[test]
fn a_failed_sync_is_not_forgotten() {
    let fs = MemFs::new();
    let queues = open(&fs);
    let queue = queues.get_or_create("T", 0);
    queue.apply(0, &bytes([1])).unwrap();
    queues.note_changed(&queue);
    fs.fail_next_sync(1);
    assert!(queues.sync().is_err());
    assert!(
        queues.sync().is_err(),
        "the next sync would succeed, but proves nothing"
    );
}

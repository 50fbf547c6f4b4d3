//! Queue offset by store time.

use std::path::Path;
use std::sync::Arc;

use dledger::fs::{Fs, MemFs};

use super::{Derived, FIXTURE_SIZES, Start};
use crate::testing::{Message, TestLog};
use crate::time_search::{Boundary, offset_by_time, store_time};

fn derived(log: &TestLog) -> Derived {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let derived = Derived::open(
        &fs,
        Path::new("/store"),
        FIXTURE_SIZES,
        log,
        Start::default(),
    )
    .unwrap();
    derived.catch_up().unwrap();
    derived
}

#[test]
fn boundaries() {
    let log = TestLog::new();
    let times = [100, 200, 200, 200, 300, 305, 400];
    let mut offsets = Vec::new();
    for (queue_offset, time) in times.iter().enumerate() {
        offsets.push(log.put(&Message {
            store_timestamp: *time,
            ..Message::new("T", 0, queue_offset as i64)
        }));
    }
    let derived = derived(&log);
    let queue = derived.queues.queue("T", 0).unwrap();
    let search = |time| {
        [Boundary::Lower, Boundary::Upper, Boundary::Nearest]
            .map(|boundary| offset_by_time(&queue, &log, time, boundary).unwrap())
    };
    assert_eq!(search(50), [0, 0, 0]);
    assert_eq!(search(100), [0, 0, 0]);
    assert_eq!(search(140), [1, 0, 0]);
    assert_eq!(search(150), [1, 0, 0], "equally near: the earlier");
    assert_eq!(search(151), [1, 0, 1]);
    assert_eq!(search(200), [1, 3, 1]);
    assert_eq!(search(303), [5, 4, 5]);
    assert_eq!(search(400), [6, 6, 6]);
    assert_eq!(search(401), [7, 6, 6]);
    assert_eq!(store_time(&queue, &log, 4).unwrap(), Some(300));
    assert_eq!(store_time(&queue, &log, 7).unwrap(), None);
    // The front of the log expires.
    log.expire(offsets[4] - 48);
    derived.queues.correct_min_offsets(offsets[4] - 48).unwrap();
    assert_eq!(search(100), [4, 4, 4]);
    assert_eq!(search(305), [5, 5, 5]);
    // Everything does.
    log.expire(1_000_000);
    derived.queues.correct_min_offsets(1_000_000).unwrap();
    assert_eq!(search(100), [7, 7, 7]);
}

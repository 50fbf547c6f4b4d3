use std::sync::Arc;

use dledger::LogConfig;
use dledger::fs::{CrashPolicy, Fs, MemFs, OpenMode};
use dledger::peers::{MemberId, Peers};
use dledger::store::StoreConfig;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use remoting::message::{BatchItem, sys_flag};

use super::*;
use crate::frame::PropertySource;
use crate::layout::{StoreLayout, file_name};
use crate::reader::{Damage, Framed, Half, ReadError};
use crate::testing::{PlainStore, ROOT, at, contents, message, quiet};
use crate::upgrade::Plan;
use crate::{QueueOffsets, QueueSlot};

const FILE: u64 = 4096;

fn config(file_size: u64) -> CommitLogConfig {
    let layout = StoreLayout::new(ROOT);
    let mut store = StoreConfig::new(layout.dledger("n0"), file_size);
    store.index_file_size = 32 * 1024;
    let peers = Peers::parse("n0-127.0.0.1:40911").unwrap();
    let log = LogConfig::new("broker-a", MemberId::parse("n0").unwrap(), peers, store);
    let mut config = CommitLogConfig::new(layout, log);
    config.max_message_size = 3000;
    config
}

fn open(fs: &Arc<MemFs>, config: &CommitLogConfig) -> (DLedgerCommitLog, OpenReport) {
    fs.create_dir_all(at("").as_path()).unwrap();
    DLedgerCommitLog::open(fs.clone() as Arc<dyn Fs>, config, &quiet).unwrap()
}

async fn started(fs: &Arc<MemFs>) -> DLedgerCommitLog {
    let (log, _) = open(fs, &config(FILE));
    log.start().await.unwrap();
    log
}

fn all(log: &DLedgerCommitLog) -> Vec<Framed> {
    let mut reader = log.frames(i64::MIN).checked();
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

#[tokio::test]
async fn what_is_put_is_read() {
    let fs = Arc::new(MemFs::new());
    let log = started(&fs).await;
    assert_eq!(
        (log.min_offset(), log.max_offset(), log.divided_offset()),
        (0, 0, -1)
    );
    let slot = QueueSlot::default();
    slot.set(7);
    let mut puts = Vec::new();
    for i in 0..40u8 {
        let body = vec![i; 10 * usize::from(i)];
        let put = log.put(&message("Topic", &body), &slot).unwrap();
        assert!(log.is_committed(&put.appended));
        log.wait(&put.appended).await.unwrap();
        assert_eq!(put.queue_offset, 7 + i64::from(i));
        puts.push((put, body));
    }
    assert_eq!(slot.next(), 47);
    for (put, body) in &puts {
        let bytes = log.message(put.physical_offset, put.size).unwrap();
        let frame = FrameView::parse(&bytes).unwrap();
        frame.validate(put.physical_offset).unwrap();
        assert_eq!(
            (frame.body(), frame.queue_offset()),
            (&body[..], put.queue_offset)
        );
        assert_eq!(log.message_at(put.physical_offset).unwrap(), bytes);
        assert_eq!(
            log.store_timestamp_at(put.physical_offset),
            Some(put.store_timestamp)
        );
        assert_eq!(log.message(put.physical_offset, put.size + 1), None);
        assert_eq!(log.message(put.physical_offset + 1, put.size), None);
        assert_eq!(log.message_at(put.physical_offset - 48), None);
    }
    let frames = all(&log);
    let offsets: Vec<_> = frames.iter().map(|f| (f.physical_offset, f.size)).collect();
    assert_eq!(
        offsets,
        puts.iter()
            .map(|(p, _)| (p.physical_offset, p.size))
            .collect::<Vec<_>>()
    );
    assert!(frames.iter().all(|f| f.half == Half::Dledger));
    assert_eq!(frames.last().unwrap().end(), log.max_offset());
    // A reader begins at a frame's own offset as well as at its entry, and goes on where one ended.
    for (put, _) in &puts {
        for from in [put.physical_offset, put.physical_offset - 48] {
            assert_eq!(
                log.frames(from).next().unwrap().unwrap().physical_offset,
                put.physical_offset
            );
        }
    }
    let mut reader = log.frames(log.max_offset());
    assert!(reader.next().unwrap().is_none());
    let put = log.put(&message("Topic", b"more"), &slot).unwrap();
    assert_eq!(
        reader.next().unwrap().unwrap().physical_offset,
        put.physical_offset
    );
    log.shutdown().await.unwrap();
    assert!(matches!(
        log.put(&message("T", b""), &slot),
        Err(PutError::ServiceNotAvailable(_))
    ));
}

#[tokio::test]
async fn transactions_take_no_queue_offset_unless_committed() {
    let fs = Arc::new(MemFs::new());
    let log = started(&fs).await;
    let slot = QueueSlot::default();
    slot.set(5);
    let kinds = [
        (sys_flag::TRANSACTION_PREPARED, 0),
        (sys_flag::TRANSACTION_ROLLBACK, 0),
        (sys_flag::TRANSACTION_COMMIT, 5),
        (sys_flag::TRANSACTION_NOT, 6),
    ];
    for (kind, queue_offset) in kinds {
        let mut m = message("T", b"x");
        m.sys_flag = kind;
        assert_eq!(log.put(&m, &slot).unwrap().queue_offset, queue_offset);
    }
    assert_eq!(slot.next(), 7);
}

#[tokio::test]
async fn batches_are_entries_of_their_own() {
    let fs = Arc::new(MemFs::new());
    let log = started(&fs).await;
    let slot = QueueSlot::default();
    slot.set(3);
    let bodies: Vec<Vec<u8>> = (0..10u8).map(|i| vec![i; 50]).collect();
    let mut template = message("T", b"the whole batch");
    template.properties = PropertySource::raw(b"WAIT\x01true");
    let batch = bodies.iter().map(|b| {
        Ok(BatchItem {
            flag: 9,
            body: b,
            properties: b"UNIQ_KEY\x01u",
        })
    });
    let put = log.put_batch(&template, batch, &slot).unwrap();
    assert_eq!((put.count(), put.queue_offset, slot.next()), (10, 3, 13));
    assert!(log.is_committed(&put.appended));
    let frames = all(&log);
    assert_eq!(
        frames.iter().map(|f| f.physical_offset).collect::<Vec<_>>(),
        put.physical_offsets.to_vec()
    );
    assert_eq!(frames.iter().map(|f| f.size).sum::<usize>(), put.size);
    for (i, framed) in frames.iter().enumerate() {
        let frame = framed.view().unwrap();
        assert_eq!((frame.body(), frame.flag()), (&bodies[i][..], 9));
        // Nothing of the batch's own properties is appended in this mode.
        assert_eq!(frame.properties(), b"UNIQ_KEY\x01u");
        assert_eq!(frame.queue_offset(), 3 + i as i64);
    }
}

#[tokio::test]
async fn refused_messages_leave_nothing_behind() {
    let fs = Arc::new(MemFs::new());
    let log = started(&fs).await;
    let slot = QueueSlot::default();
    let big = vec![0; 3001];
    let long = vec![b'p'; 32_768];
    let topic = "t".repeat(128);
    let mut properties = message("T", b"");
    properties.properties = PropertySource::raw(&long);
    assert!(matches!(
        log.put(&message("T", &big), &slot),
        Err(PutError::MessageIllegal(_))
    ));
    assert!(matches!(
        log.put(&message(&topic, b""), &slot),
        Err(PutError::MessageIllegal(_))
    ));
    assert!(matches!(
        log.put(&message("", b""), &slot),
        Err(PutError::MessageIllegal(_))
    ));
    assert_eq!(
        log.put(&properties, &slot).unwrap_err(),
        PutError::PropertiesSizeExceeded(32_768)
    );
    // An entry must fit a file beside its header and the blank.
    log.set_max_message_size(1 << 20);
    let fitting = FILE as usize - 48 - 8 - crate::testing::frame_len(0);
    let over = vec![0; fitting + 1];
    assert!(matches!(
        log.put(&message("T", &over), &slot),
        Err(PutError::MessageIllegal(_))
    ));
    let good = BatchItem {
        flag: 0,
        body: b"good",
        properties: b"",
    };
    let bad = BatchItem {
        flag: 0,
        body: &[0; FILE as usize],
        properties: b"",
    };
    assert!(matches!(
        log.put_batch(&message("T", b""), [Ok(good), Ok(bad)], &slot),
        Err(PutError::MessageIllegal(_))
    ));
    let cut = remoting::message::BatchError::Short { index: 1, at: 9 };
    assert!(
        log.put_batch(&message("T", b""), [Ok(good), Err(cut)], &slot)
            .is_err()
    );
    assert!(log.put_batch(&message("T", b""), [], &slot).is_err());
    let mut half = message("T", b"");
    half.sys_flag = sys_flag::TRANSACTION_PREPARED;
    assert!(log.put_batch(&half, [Ok(good)], &slot).is_err());
    log.set_max_message_size(3000);
    let many = (0..40).map(|_| Ok(good));
    assert!(
        log.put_batch(&message("T", b""), many, &slot)
            .unwrap_err()
            .is_certainly_not_stored()
    );
    assert_eq!((log.max_offset(), slot.next(), all(&log).len()), (0, 0, 0));
    log.set_max_message_size(1 << 20);
    log.put(&message("T", &over[1..]), &slot).unwrap();
    assert_eq!(all(&log).len(), 1);
}

#[tokio::test]
async fn nothing_is_put_before_the_start() {
    let fs = Arc::new(MemFs::new());
    let (log, report) = open(&fs, &config(FILE));
    assert_eq!((report.plan, report.redispatch_from), (Plan::New, None));
    let refused = log
        .put(&message("T", b""), &QueueSlot::default())
        .unwrap_err();
    assert!(
        matches!(refused, PutError::ServiceNotAvailable(_)) && refused.is_certainly_not_stored()
    );
}

#[tokio::test]
async fn a_full_disk_is_named_and_passes() {
    let fs = Arc::new(MemFs::new());
    let log = started(&fs).await;
    let slot = QueueSlot::default();
    fs.set_capacity(Some(40 * 4096));
    let mut last = None;
    let stored = (0..1000).take_while(|_| match log.put(&message("T", &[7; 2000]), &slot) {
        Ok(_) => true,
        Err(e) => {
            last = Some(e);
            false
        }
    });
    let stored = stored.count();
    assert!(last.unwrap().to_string().contains("full"));
    assert_eq!((slot.next(), all(&log).len()), (stored as i64, stored));
    fs.set_capacity(None);
    log.put(&message("T", &[7; 2000]), &slot).unwrap();
}

/// A plain store of 30 messages.
fn plain() -> PlainStore {
    let mut store = PlainStore::new(FILE, 0);
    for i in 0..60 {
        store.append(100 + i);
    }
    store
}

#[tokio::test]
async fn an_upgraded_store_is_one_log() {
    let store = plain();
    let divide = store.end - store.end % FILE as i64 + FILE as i64;
    let (log, report) = open(&store.fs, &config(FILE));
    assert!(matches!(report.plan, Plan::Upgrade(_)));
    assert_eq!(
        (log.min_offset(), log.max_offset(), log.divided_offset()),
        (0, divide, divide)
    );
    log.start().await.unwrap();
    let slot = QueueOffsets::new().slot("T", 0);
    slot.set(60);
    let first = log.put(&message("T", b"the first new one"), &slot).unwrap();
    assert_eq!(
        (first.physical_offset, first.appended.first_index),
        (divide + 48, 0)
    );
    for _ in 0..40 {
        log.put(&message("T", &[1; 300]), &slot).unwrap();
    }
    check_both_halves(&log, &store, divide);
    log.shutdown().await.unwrap();
    let (log, report) = open(&store.fs, &config(FILE));
    assert_eq!(report.plan, Plan::Mixed { divide });
    log.start().await.unwrap();
    check_both_halves(&log, &store, divide);
}

fn check_both_halves(log: &DLedgerCommitLog, store: &PlainStore, divide: i64) {
    let frames = all(log);
    assert_eq!(frames.len(), 60 + 41);
    for (framed, (position, bytes)) in frames.iter().zip(&store.frames) {
        assert_eq!(
            (framed.physical_offset, &framed.bytes[..], framed.half),
            (*position, &bytes[..], Half::Legacy)
        );
        assert_eq!(
            log.message(*position, bytes.len()).as_deref(),
            Some(&bytes[..])
        );
        assert_eq!(log.message_at(*position).as_deref(), Some(&bytes[..]));
    }
    for (i, framed) in frames[60..].iter().enumerate() {
        assert_eq!(
            (framed.half, framed.view().unwrap().queue_offset()),
            (Half::Dledger, 60 + i as i64)
        );
        assert!(framed.physical_offset > divide);
    }
    assert_eq!(log.earliest_store_timestamp(), Some(1_000_000));
    // By time: the legacy files hold messages stored one second apart from 1000 s on.
    let start = log.file_stored_before(1_000_000 + 30_000);
    let next = log.frames(start + FILE as i64).next().unwrap().unwrap();
    assert!(
        start < divide
            && log
                .frames(start)
                .next()
                .unwrap()
                .unwrap()
                .view()
                .unwrap()
                .store_timestamp()
                <= 1_030_000
    );
    assert!(next.view().unwrap().store_timestamp() > 1_030_000);
    assert_eq!(log.file_stored_before(5), 0);
    assert!(log.file_stored_before(i64::MAX) >= divide);
}

#[tokio::test]
async fn damage_is_named_and_left_knowingly() {
    let store = plain();
    let hit = store.frames.iter().find(|f| f.0 > FILE as i64).unwrap().0;
    let later = store.frames.iter().find(|f| f.0 > hit).unwrap().0;
    let (log, _) = open(&store.fs, &config(FILE));
    store.write(hit + 95, b"\xFF");
    let mut reader = log.frames(hit).checked();
    for _ in 0..2 {
        let error = reader.next().unwrap_err();
        assert!(
            matches!(error, ReadError::Damaged { position, half: Half::Legacy, .. } if position == hit),
            "{error}"
        );
    }
    assert!(log.frames(hit).next().unwrap().is_some()); // the CRC is looked at on demand only
    assert_eq!(reader.skip_damage().unwrap(), later);
    assert_eq!(reader.next().unwrap().unwrap().physical_offset, later);
    // In the DLedger half.
    log.start().await.unwrap();
    let slot = QueueSlot::default();
    let put = log.put(&message("T", b"x"), &slot).unwrap();
    let data = store
        .layout
        .dledger_data("n0")
        .join(file_name(log.divided_offset()));
    store
        .fs
        .open(&data, OpenMode::ReadWrite)
        .unwrap()
        .write_all_at(&[9], 48 + 4)
        .unwrap();
    let error = log.frames(put.physical_offset - 48).next().unwrap_err();
    assert!(
        matches!(
            error,
            ReadError::Damaged {
                reason: Damage::Frame(_),
                half: Half::Dledger,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(log.message(put.physical_offset, put.size), None);
}

#[tokio::test]
async fn after_a_kill_the_place_to_dispatch_from_again_is_told() {
    let store = plain();
    let mut checkpoint = crate::layout::StoreCheckpoint::default();
    checkpoint.set_physic_msg_timestamp(1_040_000);
    checkpoint.set_logics_msg_timestamp(1_033_500);
    checkpoint
        .save(&*store.fs, &store.layout.checkpoint())
        .unwrap();
    store.abort();
    let (log, report) = open(&store.fs, &config(FILE));
    let from = report.redispatch_from.unwrap();
    let first = log.frames(from).next().unwrap().unwrap();
    assert!(report.aborted && first.view().unwrap().store_timestamp() <= 1_030_500);
    let next = log.frames(from + FILE as i64).next().unwrap().unwrap();
    assert!(next.view().unwrap().store_timestamp() > 1_030_500);
}

#[tokio::test]
async fn retention_takes_the_legacy_half_first() {
    let store = plain();
    let (log, _) = open(&store.fs, &config(FILE));
    log.start().await.unwrap();
    let slot = QueueSlot::default();
    for _ in 0..60 {
        log.put(&message("T", &[1; 300]), &slot).unwrap();
    }
    let divide = log.divided_offset();
    let legacy = divide / FILE as i64;
    let sweep = |older_than_ms, max_files, keep_from| Sweep {
        older_than_ms,
        max_files,
        keep_from,
    };
    // Copied times: the files look old, the messages are not.
    store.fs.set_modified(&store.file(0), 0).unwrap();
    assert_eq!(
        log.expire(&sweep(900_000, 10, i64::MAX))
            .unwrap()
            .legacy
            .len(),
        0
    );
    for start in (0..legacy).map(|i| i * FILE as i64) {
        store
            .fs
            .set_modified(&store.file(start), 1_060_000)
            .unwrap();
    }
    log.shutdown().await.unwrap();
    let (log, _) = open(&store.fs, &config(FILE));
    log.start().await.unwrap();
    // What is still to be dispatched stays.
    assert_eq!(
        log.expire(&sweep(i64::MAX, 10, 100)).unwrap().legacy.len(),
        0
    );
    let removed = log.expire(&sweep(1_070_000, 1, i64::MAX)).unwrap();
    assert_eq!(
        (removed.legacy, removed.min_offset),
        (vec![store.file(0)], FILE as i64)
    );
    assert_eq!((log.min_offset(), log.message_at(0)), (FILE as i64, None));
    assert_eq!(
        log.frames(0).next().unwrap().unwrap().physical_offset,
        FILE as i64
    );
    // The last legacy file goes too, but no DLedger file in the same pass.
    let now = now_ms();
    let removed = log.expire(&sweep(now + 1000, 10, i64::MAX)).unwrap();
    assert_eq!(
        (removed.legacy.len() as i64, removed.dledger),
        (legacy - 1, 0)
    );
    assert_eq!((log.divided_offset(), log.min_offset()), (-1, divide));
    assert_eq!(
        log.frames(0).next().unwrap().unwrap().physical_offset,
        divide + 48
    );
    // Then the DLedger half, but for its last file.
    store.fs.set_clock_ms(now);
    assert_eq!(
        log.expire(&sweep(1_070_000, 10, i64::MAX)).unwrap().dledger,
        0
    );
    log.shutdown().await.unwrap();
    let (log, report) = open(&store.fs, &config(FILE));
    assert_eq!((report.plan, log.divided_offset()), (Plan::Dledger, -1));
    log.start().await.unwrap();
    let before = all(&log).len();
    let removed = log.expire(&sweep(i64::MAX, 2, i64::MAX)).unwrap();
    assert_eq!(
        (removed.dledger, removed.min_offset),
        (2, divide + 2 * FILE as i64)
    );
    assert!(all(&log).len() < before);
    let removed = log.expire(&sweep(i64::MAX, 100, i64::MAX)).unwrap();
    assert!(removed.dledger > 0 && log.min_offset() < log.max_offset());
}

/// One life of an upgraded store: opened, sent to, its disk stopped after some operations. Gives what was acknowledged,
/// and how much of it was certainly synced.
async fn one_life(fs: &Arc<MemFs>, config: &CommitLogConfig, body: u8) -> (Vec<Put>, usize) {
    let (mut acknowledged, mut synced) = (Vec::new(), 0);
    let Ok((log, _)) = DLedgerCommitLog::open(fs.clone() as Arc<dyn Fs>, config, &quiet) else {
        return (acknowledged, synced);
    };
    if log.start().await.is_err() {
        return (acknowledged, synced);
    }
    let slot = QueueSlot::default();
    slot.set(60);
    while acknowledged.len() < 200 {
        let put = log.put(&message("T", &[body; 200]), &slot);
        let flushed = log.status().flushed_index;
        // A write behind the stop had no effect any more.
        let (Ok(put), false) = (put, fs.stopped()) else {
            break;
        };
        acknowledged.push(put);
        synced = (flushed + 1) as usize;
        if acknowledged.len() % 16 == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
    let _ = log.shutdown().await;
    (acknowledged, synced)
}

/// Kills and power failures at random places of the upgrade and of the first sends after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_upgrades_and_stores() {
    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut config = config(FILE);
    config.log.flush_interval = std::time::Duration::from_millis(1);
    let policies = [
        CrashPolicy::KeepAll,
        CrashPolicy::LoseUnsynced,
        CrashPolicy::TornPages { keep: 0.5 },
    ];
    let mut kept = 0;
    for round in 0..150u8 {
        let store = plain();
        let fs = Arc::new(store.fs.crash_image(CrashPolicy::KeepAll, &mut rng));
        fs.stop_after(rng.random_range(0..300));
        let (acknowledged, synced) = one_life(&fs, &config, round).await;
        let policy = policies[usize::from(round) % policies.len()];
        let image = Arc::new(fs.crash_image(policy, &mut rng));
        image.write(&store.layout.abort(), b"").unwrap();
        let opened = DLedgerCommitLog::open(image.clone() as Arc<dyn Fs>, &config, &quiet);
        let (log, _) = opened.unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        log.start().await.unwrap();
        let frames = all(&log);
        // A killed process leaves its page cache; a power failure at least what was synced.
        let least = if policy == CrashPolicy::KeepAll {
            acknowledged.len()
        } else {
            synced
        };
        assert!(
            frames.len() >= 60 + least,
            "seed {seed}, round {round}: {} of {least}",
            frames.len()
        );
        for (framed, (position, bytes)) in frames.iter().zip(&store.frames) {
            assert_eq!(
                (framed.physical_offset, &framed.bytes[..]),
                (*position, &bytes[..])
            );
        }
        for (framed, put) in frames[60..].iter().zip(&acknowledged) {
            assert_eq!(
                framed.physical_offset, put.physical_offset,
                "seed {seed}, round {round}"
            );
            assert_eq!(framed.view().unwrap().queue_offset(), put.queue_offset);
        }
        kept += frames.len() - 60;
        log.shutdown().await.unwrap();
    }
    println!("{kept} messages found after 150 crashes");
}

#[test]
fn the_check_of_the_tail_wants_whole_frames_in_their_place() {
    let store = plain();
    let (position, frame) = &store.frames[3];
    FrameCheck.check(frame, *position).unwrap();
    assert!(
        FrameCheck
            .check(frame, position + 1)
            .unwrap_err()
            .contains("lies at")
    );
    assert!(
        FrameCheck
            .check(&frame[..frame.len() - 1], *position)
            .is_err()
    );
    let longer = [&frame[..], b"x"].concat();
    assert!(
        FrameCheck
            .check(&longer, *position)
            .unwrap_err()
            .contains("follow")
    );
    let mut torn = frame.clone();
    torn[90] ^= 1;
    assert!(
        FrameCheck
            .check(&torn, *position)
            .unwrap_err()
            .contains("CRC")
    );
}

#[test]
fn the_retention_clock_holds_after_jumps() {
    use std::time::Duration;
    let hour = Duration::from_secs(3600);
    let ms = 3_600_000;
    let mut clock = RetentionClock::new(1000 * ms, Some(999 * ms), 72 * hour);
    assert_eq!(clock.held_for(1001 * ms, hour), None);
    // Two hours in a minute.
    let minute = Duration::from_secs(60);
    assert_eq!(clock.held_for(1003 * ms, hour + minute), Some(72 * hour));
    assert_eq!(clock.held_for(1074 * ms, 72 * hour + minute), Some(hour));
    assert_eq!(clock.held_for(1075 * ms, 73 * hour + minute), None);
    // Back, then right again: no harm, no hold.
    assert_eq!(clock.held_for(1070 * ms, 74 * hour), None);
    // The newest message is older than files are kept.
    let mut clock = RetentionClock::new(1000 * ms, Some(900 * ms), 72 * hour);
    assert_eq!(clock.held_for(1000 * ms, Duration::ZERO), Some(72 * hour));
    assert_eq!(
        RetentionClock::new(1000 * ms, None, hour).held_for(1000 * ms, Duration::ZERO),
        None
    );
}

#[tokio::test]
async fn refusals_stop_the_opening_before_anything_changes() {
    let store = plain();
    store.fs.remove_file(&store.file(FILE as i64)).unwrap();
    let before = contents(&store.fs);
    let error =
        DLedgerCommitLog::open(store.fs.clone() as Arc<dyn Fs>, &config(FILE), &quiet).unwrap_err();
    assert!(error.to_string().contains("[legacy-gap]"), "{error}");
    assert_eq!(contents(&store.fs), before);
}

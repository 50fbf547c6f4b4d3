//! The log as its users see it: one member, on files in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dledger::fs::{CrashPolicy, Fs, MemFs};
use dledger::peers::{MemberId, Peers};
use dledger::raft::RoleKind;
use dledger::store::{NoCheck, StoreConfig};
use dledger::{
    AppendError, Appended, CommitError, Durability, Log, LogConfig, OpenError, ShutdownError,
    StartError,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const BASE: &str = "/store/dledger-n0";

fn config(durability: Durability) -> LogConfig {
    let mut store = StoreConfig::new(BASE, 64 * 1024);
    store.index_file_size = 32 * 1024;
    let peers = Peers::parse("n0-127.0.0.1:40911").unwrap();
    let mut config = LogConfig::new("g", MemberId::parse("n0").unwrap(), peers, store);
    config.durability = durability;
    config
}

fn open(fs: &MemFs, durability: Durability) -> Log {
    Log::open(
        Arc::new(fs.clone()),
        config(durability),
        Arc::new(NoCheck),
        0,
    )
    .unwrap()
    .0
}

async fn started(fs: &MemFs, durability: Durability) -> Log {
    let log = open(fs, durability);
    log.start().await.unwrap();
    log
}

fn append(log: &Log, body: &[u8]) -> Result<Appended, AppendError> {
    let ((), appended) = log.append_with(|appender| {
        appender
            .push(body.len(), |slice, _at| slice.copy_from_slice(body))
            .map(drop)
    })?;
    Ok(appended)
}

fn text(fs: &MemFs, name: &str) -> String {
    String::from_utf8(fs.read(&Path::new(BASE).join(name)).unwrap()).unwrap()
}

#[tokio::test]
async fn appends_commit_at_once_and_survive_a_restart_in_a_new_term() {
    let fs = MemFs::new();
    let log = started(&fs, Durability::PageCacheMajority).await;
    let first_term = log.status().term;
    for n in 0..200u32 {
        let appended = append(&log, &n.to_be_bytes()).unwrap();
        assert_eq!(appended.last_index, i64::from(n));
        assert!(log.is_committed(&appended));
        assert_eq!(log.committed(&appended).await, Ok(()));
        assert_eq!(log.committed_pos(), appended.end_pos);
    }
    log.shutdown().await.unwrap();
    assert!(matches!(append(&log, b"late"), Err(AppendError::Stopped)));
    assert!(text(&fs, "checkpoint").contains("committedIndex=199\n"));
    assert!(text(&fs, "currterm").contains(&format!("currTerm={first_term}\n")));
    log.shutdown().await.unwrap();
    drop(log);

    let log = started(&fs, Durability::PageCacheMajority).await;
    let status = log.status();
    assert_eq!(
        (status.role, status.end_index, status.committed_index),
        (RoleKind::Leader, 199, 199)
    );
    assert_eq!(status.term, first_term + 1);
    let reader = log.reader();
    for n in 0..200u32 {
        assert_eq!(
            reader.entry(i64::from(n)).unwrap().body,
            n.to_be_bytes()[..]
        );
    }
    log.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_batch_is_one_call_and_what_was_pushed_stays() {
    let fs = MemFs::new();
    let log = started(&fs, Durability::PageCacheMajority).await;
    let ((), appended) = log
        .append_with(|appender| {
            for n in 0..3u8 {
                appender.push(1, |body, at| body[0] = n + at.index as u8)?;
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((appended.first_index, appended.last_index), (0, 2));
    let refused = log.append_with(|appender| {
        appender.push(1, |body, _| body[0] = 9)?;
        Err::<(), _>(AppendError::Rejected("no".into()))
    });
    assert!(matches!(refused, Err(AppendError::Rejected(_))));
    assert_eq!(log.status().committed_index, 3);
    let (_, nothing) = log.append_with(|_| Ok(())).unwrap();
    assert_eq!(nothing.last_index, -1);
    assert_eq!(log.committed(&nothing).await, Ok(()));
    let huge = log.append_with(|appender| appender.push(1 << 20, |_, _| ()));
    assert!(matches!(huge, Err(AppendError::TooLarge { .. })));
    log.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_append_densely_and_watchers_miss_nothing() {
    let fs = MemFs::new();
    let log = started(&fs, Durability::PageCacheMajority).await;
    let mut watch = log.watch_committed();
    let follower = tokio::spawn(async move {
        let (mut last, mut wakes) = (0, 0);
        while let Some(pos) = watch.moved().await {
            assert!(pos > last);
            (last, wakes) = (pos, wakes + 1);
        }
        (last, wakes)
    });
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let log = log.clone();
            std::thread::spawn(move || {
                (0..500)
                    .map(|_| append(&log, b"x").unwrap().last_index)
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut indexes: Vec<i64> = writers
        .into_iter()
        .flat_map(|w| w.join().unwrap())
        .collect();
    indexes.sort_unstable();
    assert!(indexes.into_iter().eq(0..2000));
    let end = log.committed_pos();
    log.shutdown().await.unwrap();
    let (last, wakes) = follower.await.unwrap();
    assert_eq!(last, end);
    assert!(wakes <= 2000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn class_s_acknowledges_what_is_synced() {
    let fs = MemFs::new();
    let log = started(&fs, Durability::SyncMajority).await;
    let mut waits = Vec::new();
    for n in 0..100u8 {
        let log = log.clone();
        waits.push(tokio::spawn(async move {
            let appended = append(&log, &[n]).unwrap();
            log.committed(&appended).await.unwrap();
            assert!(log.status().flushed_index >= appended.last_index);
        }));
    }
    for wait in waits {
        wait.await.unwrap();
    }
    let sync = log.status().sync;
    assert!(sync.count <= 100, "{sync:?}");
    // A power failure now, with everything lost that was not synced.
    let image = fs.crash_image(CrashPolicy::LoseUnsynced, &mut rand::rng());
    drop(log);
    let log = started(&image, Durability::SyncMajority).await;
    assert_eq!(log.status().committed_index, 99);
}

#[tokio::test]
async fn a_failed_sync_poisons_the_log() {
    for durability in [Durability::PageCacheMajority, Durability::SyncMajority] {
        let fs = MemFs::new();
        let log = started(&fs, durability).await;
        let good = append(&log, b"good").unwrap();
        log.committed(&good).await.unwrap();
        while log.status().flushed_index < good.last_index {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fs.fail_next_sync(1);
        let appended = append(&log, b"lost?").unwrap();
        let reason = tokio::time::timeout(Duration::from_secs(5), log.until_poisoned())
            .await
            .unwrap();
        assert!(
            !log.is_committed(&appended),
            "no acknowledgement after a failed sync"
        );
        assert_eq!(
            log.committed(&appended).await,
            Err(CommitError::Poisoned(Arc::clone(&reason)))
        );
        assert!(matches!(
            append(&log, b"more"),
            Err(AppendError::Poisoned(_))
        ));
        let status = log.status();
        assert_eq!(
            (status.poisoned, status.role),
            (Some(reason), RoleKind::Candidate)
        );
        assert!(matches!(
            log.shutdown().await,
            Err(ShutdownError::Poisoned(_))
        ));
        // The checkpoint names nothing that was not synced.
        let checkpoint = fs
            .read(&Path::new(BASE).join("checkpoint"))
            .unwrap_or_default();
        assert!(
            !String::from_utf8(checkpoint)
                .unwrap()
                .contains("committedIndex=1\n")
        );
    }
}

#[tokio::test]
async fn a_vote_that_cannot_be_written_is_not_spoken() {
    let fs = MemFs::new();
    let log = open(&fs, Durability::PageCacheMajority);
    fs.fail_next_sync(1);
    assert!(matches!(log.start().await, Err(StartError::Poisoned(_))));
    assert!(matches!(append(&log, b"x"), Err(AppendError::Poisoned(_))));
    assert_ne!(log.status().role, RoleKind::Leader);
}

#[tokio::test]
async fn before_the_start_nothing_is_taken() {
    let fs = MemFs::new();
    let log = open(&fs, Durability::PageCacheMajority);
    assert!(matches!(
        append(&log, b"x"),
        Err(AppendError::NotLeader { leader: None })
    ));
    log.start().await.unwrap();
    assert_eq!(log.start().await, Err(StartError::Twice));
    append(&log, b"x").unwrap();
}

#[tokio::test]
async fn the_checkpoint_is_written_only_when_it_changed() {
    let fs = MemFs::new();
    let mut config = config(Durability::PageCacheMajority);
    config.checkpoint_interval = Duration::from_millis(20);
    let log = Log::open(Arc::new(fs.clone()), config, Arc::new(NoCheck), 0)
        .unwrap()
        .0;
    log.start().await.unwrap();
    append(&log, b"x").unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while !fs.exists(&Path::new(BASE).join("checkpoint"))
        || !text(&fs, "checkpoint").contains("committedIndex=0\n")
    {
        assert!(std::time::Instant::now() < deadline, "no checkpoint");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Quiet from here on: no operation on the disk at all.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = fs.ops();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(fs.ops(), before);
}

#[test]
fn groups_of_several_members_are_refused_in_one_line() {
    let mut config = config(Durability::PageCacheMajority);
    config.peers = Peers::parse("n0-a:1;n1-b:1;n2-c:1").unwrap();
    let error =
        Log::open(Arc::new(MemFs::new()), config.clone(), Arc::new(NoCheck), 0).unwrap_err();
    assert!(matches!(error, OpenError::SeveralMembers { count: 3, .. }));
    assert!(
        error.to_string().contains("not served by this version")
            && !error.to_string().contains('\n')
    );
    config.self_id = MemberId::parse("n7").unwrap();
    let error =
        Log::open(Arc::new(MemFs::new()), config.clone(), Arc::new(NoCheck), 0).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\"n7\" is not in the peers string")
    );
    config.group = " ".to_owned();
    let error = Log::open(Arc::new(MemFs::new()), config, Arc::new(NoCheck), 0).unwrap_err();
    assert!(matches!(error, OpenError::EmptyGroup));
}

#[tokio::test]
async fn a_stop_while_starting_is_told() {
    let fs = MemFs::new();
    let log = open(&fs, Durability::PageCacheMajority);
    log.shutdown().await.unwrap();
    assert_eq!(log.start().await, Err(StartError::Stopped));
}

/// The disk stops at a random operation, be it within the election, an append, a sync, a roll or the checkpoint. What
/// was acknowledged before is there at the next start: after a kill in class P, after a power failure in class S.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives() {
    let seed: u64 = std::env::var("SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut total = 0;
    for round in 0..60 {
        let (durability, policy) = if round % 2 == 0 {
            (Durability::PageCacheMajority, CrashPolicy::KeepAll)
        } else {
            (Durability::SyncMajority, CrashPolicy::LoseUnsynced)
        };
        let fs = MemFs::new();
        let acknowledged = run_until_stopped(&fs, durability, &mut rng).await;
        total += acknowledged.len();
        let image = fs.crash_image(policy, &mut rng);
        let log = started(&image, durability).await;
        let reader = log.reader();
        for (index, body) in acknowledged {
            assert_eq!(
                reader.entry(index).unwrap().body,
                body,
                "round {round}, entry {index}"
            );
        }
        log.shutdown().await.unwrap();
    }
    println!("{total} entries were acknowledged before their disk stopped");
    assert!(total > 500, "hardly anything was tested");
}

async fn run_until_stopped(
    fs: &MemFs,
    durability: Durability,
    rng: &mut StdRng,
) -> Vec<(i64, Vec<u8>)> {
    let mut acknowledged = Vec::new();
    let log = open(fs, durability);
    fs.stop_after(rng.random_range(1..400));
    if log.start().await.is_err() {
        return acknowledged;
    }
    for _ in 0..300 {
        let body: Vec<u8> = (0..rng.random_range(1..3000))
            .map(|_| rng.random())
            .collect();
        let Ok(appended) = append(&log, &body) else {
            break;
        };
        if log.committed(&appended).await.is_err() || fs.stopped() {
            break;
        }
        acknowledged.push((appended.last_index, body));
    }
    acknowledged
}

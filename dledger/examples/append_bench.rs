//! How long an append takes: `cargo run --release -p dledger --example append_bench -- [folder] [entries] [P|S]`.
//!
//! Appends bodies of 1 KiB from one thread and from four, prints nanoseconds per append, and what the process used of
//! the processor. The folder (default: a temporary one) gets the log's files and is left as it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use dledger::fs::RealFs;
use dledger::peers::{MemberId, Peers};
use dledger::store::{NoCheck, StoreConfig};
use dledger::{Durability, Log, LogConfig};

const BODY: usize = 1024;

fn processor_time() -> Duration {
    // utime and stime of this process, in ticks of 10 ms.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|f| f.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn open(folder: PathBuf, durability: Durability) -> Result<Log> {
    let store = StoreConfig::new(folder.join("dledger-n0"), 1 << 30);
    let mut config = LogConfig::new(
        "bench",
        MemberId::parse("n0")?,
        Peers::parse("n0-127.0.0.1:40911")?,
        store,
    );
    config.durability = durability;
    Ok(Log::open(Arc::new(RealFs), config, Arc::new(NoCheck), 0)?.0)
}

fn append(log: &Log, count: u64) -> Result<()> {
    let body = [7u8; BODY];
    for _ in 0..count {
        log.append_with(|appender| appender.push(BODY, |slice, _at| slice.copy_from_slice(&body)))?;
    }
    Ok(())
}

fn run(log: &Log, threads: u64, count: u64) -> Result<()> {
    let (began, used) = (Instant::now(), processor_time());
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| append(log, count / threads)))
            .collect();
        for worker in workers {
            worker.join().ok().context("a worker failed")??;
        }
        Ok(())
    })?;
    let took = began.elapsed();
    let each = took.as_nanos() / u128::from(count);
    let used = processor_time() - used;
    println!(
        "{threads} thread(s): {count} appends in {took:.2?}, {each} ns each, {:.0} a second, {:.2} CPU-s a million, {:?}",
        count as f64 / took.as_secs_f64(),
        used.as_secs_f64() * 1e6 / count as f64,
        log.status().sync,
    );
    Ok(())
}

async fn run_synced(log: &Log, tasks: u64, count: u64) -> Result<()> {
    let began = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..tasks {
        let log = log.clone();
        workers.push(tokio::spawn(async move {
            for _ in 0..count / tasks {
                let ((), appended) = log.append_with(|appender| {
                    appender.push(BODY, |slice, _| slice.fill(7)).map(drop)
                })?;
                log.committed(&appended).await?;
            }
            anyhow::Ok(())
        }));
    }
    for worker in workers {
        worker.await??;
    }
    let took = began.elapsed();
    println!(
        "{tasks} tasks: {count} synced appends in {took:.2?}, {:.0} a second, {:?}",
        count as f64 / took.as_secs_f64(),
        log.status().sync
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let durability = match arguments.next().as_deref() {
        Some("S") => Durability::SyncMajority,
        _ => Durability::PageCacheMajority,
    };
    let folder = tempfile::tempdir_in(parent)?;
    let log = open(folder.path().to_owned(), durability)?;
    log.start().await?;
    if durability == Durability::SyncMajority {
        run_synced(&log, 1, count / 64).await?;
        run_synced(&log, 64, count / 4).await?;
    } else {
        run(&log, 1, count)?;
        run(&log, 4, count)?;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let used = processor_time();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!(
        "idle for 5 s: {:?} of processor time",
        processor_time() - used
    );
    log.shutdown().await?;
    Ok(())
}

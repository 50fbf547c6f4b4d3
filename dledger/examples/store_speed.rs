//! Figures of the bare store on real files: appends a second, and the time of an opening after a kill.
//!
//! `cargo run --release -p dledger --example store_speed -- DIR GIB BODY`: fills DIR with GIB of entries with bodies
//! of BODY bytes, with a flusher and a preparer beside the writer, and ends without closing, as a kill would. Then
//! opens it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use dledger::fs::RealFs;
use dledger::store::{BodyCheck, Store, StoreConfig};

struct Crc;

impl BodyCheck for Crc {
    fn check(&self, body: &[u8], _pos: i64) -> Result<(), String> {
        // Only the cost of a check: these bodies carry no sum.
        std::hint::black_box(crc32fast::hash(body));
        Ok(())
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().context("DIR GIB BODY")?;
    let gib: f64 = args.next().context("GIB")?.parse()?;
    let body: usize = args.next().context("BODY")?.parse()?;
    let config = StoreConfig::new(&dir, 1 << 30);
    let started = Instant::now();
    let (mut store, _) = Store::open(RealFs::shared(), config.clone(), 0, &Crc)?;
    println!("open: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let stop = Arc::new(AtomicBool::new(false));
    let (flusher, preparer) = (store.flusher(), store.preparer());
    let beside: Vec<_> = [true, false]
        .into_iter()
        .map(|flush| {
            let (stop, flusher, preparer) = (Arc::clone(&stop), flusher.clone(), preparer.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if flush {
                        flusher.sync().expect("sync");
                    } else {
                        preparer.run().expect("prepare");
                    }
                    std::thread::sleep(Duration::from_millis(if flush { 10 } else { 1 }));
                }
            })
        })
        .collect();
    let content = vec![0x5a; body];
    let count = (gib * f64::from(1 << 30)) as usize / (body + 48);
    let started = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..count / 64 {
        let batch = Instant::now();
        for _ in 0..64 {
            store.append(1, body, &mut |buf, _| buf.copy_from_slice(&content))?;
        }
        slowest = slowest.max(batch.elapsed());
    }
    let seconds = started.elapsed().as_secs_f64();
    let mib = count as f64 * (body + 48) as f64 / 1_048_576.0;
    println!(
        "append: {count} entries, {:.0} ns each, {:.0} MiB/s",
        seconds * 1e9 / count as f64,
        mib / seconds
    );
    println!("slowest 64 appends: {:.1} ms", slowest.as_secs_f64() * 1e3);
    stop.store(true, Ordering::Relaxed);
    for thread in beside {
        let _ = thread.join();
    }
    drop(store);
    let started = Instant::now();
    let (_, found) = Store::open(RealFs::shared(), config, 0, &Crc)?;
    println!(
        "open after a kill: {:.1} ms, {} entries scanned from {} of {}",
        started.elapsed().as_secs_f64() * 1e3,
        found.scanned_entries,
        found.scanned_from,
        found.end_pos
    );
    Ok(())
}

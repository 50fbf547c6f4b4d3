//! How fast queues and key index are filled from a log: `catch_up [messages] [body bytes] [folder]`.
//!
//! Stores messages in a new log (8 queues, a unique key and a key each), then dispatches all of them, with and
//! without the key index, and prints the figures.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use commitlog::frame::{MessageToStore, PropertySource};
use commitlog::layout::StoreLayout;
use commitlog::{CommitLogConfig, DLedgerCommitLog, QueueOffsets};
use consumequeue::recovery::{CheckpointTimes, StartState};
use consumequeue::{
    ConsumeQueues, Dispatcher, DispatcherConfig, IndexConfig, KeyIndex, MarkFile, QueuesConfig,
};
use dledger::LogConfig;
use dledger::fs::{Fs, RealFs};
use dledger::peers::{MemberId, Peers};
use dledger::store::StoreConfig;

const QUEUES: i32 = 8;

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let messages: u64 = args.next().map_or(Ok(1_000_000), |arg| arg.parse())?;
    let body: usize = args.next().map_or(Ok(256), |arg| arg.parse())?;
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let root = folder.join(format!("catch-up-{}", std::process::id()));
    std::fs::create_dir_all(&root)?;
    let result = run(&root, messages, body).await;
    std::fs::remove_dir_all(&root)?;
    result
}

async fn run(root: &Path, messages: u64, body: usize) -> Result<()> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let layout = StoreLayout::new(root);
    let store = StoreConfig::new(layout.dledger("n0"), 1 << 30);
    let peers = Peers::parse("n0-127.0.0.1:40911")?;
    let log_config = LogConfig::new("catch-up", MemberId::parse("n0")?, peers, store);
    let config = CommitLogConfig::new(layout, log_config);
    let (log, _) = DLedgerCommitLog::open(fs.clone(), &config, &|_| {})?;
    log.start().await?;
    let began = Instant::now();
    fill(&log, messages, body)?;
    let stored = began.elapsed().as_secs_f64();
    println!(
        "{messages} messages with bodies of {body} bytes, stored at {:.0} msg/s",
        messages as f64 / stored
    );
    for with_index in [true, false] {
        let folder = root.join(format!("derived-{with_index}"));
        let (log, fs) = (log.clone(), fs.clone());
        tokio::task::spawn_blocking(move || catch_up(&fs, &folder, &log, with_index)).await??;
    }
    log.shutdown().await.context("stop")
}

fn fill(log: &DLedgerCommitLog, messages: u64, body: usize) -> Result<()> {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    let offsets = QueueOffsets::new();
    let slots: Vec<_> = (0..QUEUES)
        .map(|id| offsets.slot("BenchmarkTopic", id))
        .collect();
    let body = vec![b'x'; body];
    for n in 0..messages {
        let queue_id = (n % QUEUES as u64) as i32;
        let properties = format!(
            "UNIQ_KEY\u{1}7F0000014C4D0000006592BF{n:08X}\u{2}KEYS\u{1}order-{n}\u{2}TAGS\u{1}TagA\u{2}WAIT\u{1}true\u{2}"
        );
        let message = MessageToStore {
            topic: "BenchmarkTopic",
            queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_offset: 0,
            body: &body,
            properties: PropertySource::raw(properties.as_bytes()),
        };
        log.put(&message, &slots[queue_id as usize])?;
    }
    Ok(())
}

fn catch_up(
    fs: &Arc<dyn Fs>,
    folder: &Path,
    log: &DLedgerCommitLog,
    with_index: bool,
) -> Result<()> {
    let (queues, queues_report) =
        ConsumeQueues::open(fs.clone(), &QueuesConfig::new(folder.join("consumequeue")))?;
    let (index, index_report) =
        KeyIndex::open(fs.clone(), &IndexConfig::new(folder.join("index")))?;
    let start = StartState {
        unclean: false,
        checkpoint: CheckpointTimes::default(),
        redispatch_from: None,
        queues: &queues_report,
        index: &index_report,
        topic_exists: &|_| false,
    };
    let (dispatcher, _) = Dispatcher::open(
        Arc::new(log.clone()),
        Arc::new(queues),
        with_index.then(|| Arc::new(index)),
        MarkFile::new(fs.clone(), folder.join("mark")),
        &start,
        DispatcherConfig::default(),
        Arc::new(()),
    )?;
    let done = dispatcher.catch_up(&mut |_| ControlFlow::Continue(()))?;
    let seconds = done.elapsed.as_secs_f64();
    println!(
        "dispatched {} {}: {:.0} msg/s, {:.0} MB/s",
        done.records,
        if with_index {
            "with two keys each"
        } else {
            "without keys"
        },
        done.records as f64 / seconds,
        done.bytes as f64 / seconds / 1e6,
    );
    Ok(())
}

//! Stores written by stock brokers: opened, upgraded, and every record of their ledgers found in its place, byte for
//! byte.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use commitlog::examine::{Code, Examination, ExamineConfig, Severity, examine};
use commitlog::frame::PropertySource;
use commitlog::layout::{StoreLayout, file_name};
use commitlog::reader::{Half, OfflineLog};
use commitlog::upgrade::Plan;
use commitlog::{
    CommitLogConfig, DLedgerCommitLog, OpenReport, QueueOffsets, frame::MessageToStore,
};
use dledger::LogConfig;
use dledger::fs::{Fs, RealFs};
use dledger::peers::{MemberId, Peers};
use dledger::store::StoreConfig;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const FILE_SIZE: u64 = 1 << 20;

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/data/fixtures"
    ))
    .join(name)
}

fn unpack(name: &str) -> Result<TempDir> {
    let dir = tempfile::tempdir()?;
    let archive = fixture(name).join("store.tar.zst");
    let tar = Command::new("tar")
        .args(["--zstd", "--sparse", "--no-same-owner", "-xf"])
        .arg(&archive)
        .arg("-C")
        .arg(dir.path())
        .status()
        .context("tar and zstd are needed")?;
    ensure!(tar.success(), "unpacking {}", archive.display());
    Ok(dir)
}

/// The ledger's lines of one type.
fn ledger(name: &str, file: &str, kind: &str) -> Result<Vec<Value>> {
    let mut text = String::new();
    let gz = std::fs::File::open(fixture(name).join(file))?;
    flate2::read::GzDecoder::new(gz).read_to_string(&mut text)?;
    let lines = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Value>, _>>()?;
    Ok(lines
        .into_iter()
        .filter(|line| line["type"] == kind)
        .collect())
}

fn config(root: &Path, id: &str) -> Result<CommitLogConfig> {
    let layout = StoreLayout::new(root);
    let store = StoreConfig::new(layout.dledger(id), FILE_SIZE);
    let peers = Peers::parse(&format!("{id}-127.0.0.1:20141"))?;
    let log = LogConfig::new("broker-a", MemberId::parse(id)?, peers, store);
    let mut config = CommitLogConfig::new(layout, log);
    config.examine.queue_file_size = Some(6000);
    config.examine.index_file_size = Some(84_040);
    config.examine.check_system = true;
    Ok(config)
}

fn open(root: &Path) -> Result<(DLedgerCommitLog, OpenReport)> {
    Ok(DLedgerCommitLog::open(
        Arc::new(RealFs),
        &config(root, "n0")?,
        &|_| {},
    )?)
}

fn examined(root: &Path) -> Result<Examination> {
    Ok(examine(&RealFs, &config(root, "n0")?.examine, &|_| {})?)
}

fn short_sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Every message of a dump is found at its physical offset, whole.
fn finds(log: &DLedgerCommitLog, dump: &[Value]) -> Result<usize> {
    for msg in dump {
        let (phys, size) = (
            msg["phys"].as_i64().context("phys")?,
            msg["size"].as_u64().context("size")?,
        );
        let bytes = log
            .message(phys, size as usize)
            .with_context(|| format!("no message at {phys}"))?;
        ensure!(
            msg["recSha"] == short_sha(&bytes).as_str(),
            "another record at {phys}"
        );
        ensure!(log.message_at(phys) == Some(bytes), "by position at {phys}");
    }
    Ok(dump.len())
}

/// The frames of the log, in order and all sound: number, and those of each half.
fn counts(log: &DLedgerCommitLog) -> Result<(usize, usize)> {
    let mut reader = log.frames(i64::MIN).checked();
    let (mut legacy, mut dledger, mut last) = (0, 0, -1);
    while let Some(framed) = reader.next()? {
        ensure!(framed.physical_offset > last);
        last = framed.physical_offset;
        match framed.half {
            Half::Legacy => legacy += 1,
            Half::Dledger => dledger += 1,
        }
    }
    Ok((legacy, dledger))
}

/// Opens, starts, checks the whole ledger, stores on, stops, opens again.
async fn serves(
    name: &str,
    expected: (usize, usize),
    plan: impl Fn(&Plan) -> bool,
) -> Result<TempDir> {
    let dir = unpack(name)?;
    let root = dir.path().join("store");
    let (log, report) = open(&root)?;
    ensure!(plan(&report.plan), "{}", report.plan);
    ensure!(
        report
            .findings
            .iter()
            .all(|f| f.severity < Severity::NeedsAcceptance),
        "{:?}",
        report.findings
    );
    log.start().await?;
    let mut dump = ledger(name, "ledger.jsonl.gz", "msg")?;
    if dump.is_empty() {
        // Killed: what Java served after reopening it, as far as it was there at the kill.
        dump = ledger(name, "java-reopen.jsonl.gz", "msg")?;
        let end = log
            .max_offset()
            .min(report.recovered.map_or(i64::MAX, |r| r.end));
        dump.retain(|msg| msg["phys"].as_i64().is_some_and(|phys| phys < end));
    }
    let found = finds(&log, &dump)?;
    let frames = counts(&log)?;
    println!(
        "{name}: {found} messages of the ledger found; {} legacy frames, {} entries",
        frames.0, frames.1
    );
    assert_eq!(frames, expected, "{name}");
    let put = store_one(&log)?;
    log.wait(&put.appended).await?;
    log.shutdown().await?;
    let (log, report) = open(&root)?;
    ensure!(!matches!(report.plan, Plan::Upgrade(_) | Plan::New));
    log.start().await?;
    assert_eq!(counts(&log)?, (expected.0, expected.1 + 1), "{name}");
    finds(&log, &dump)?;
    log.shutdown().await?;
    Ok(dir)
}

fn store_one(log: &DLedgerCommitLog) -> Result<commitlog::Put> {
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 20_111));
    let message = MessageToStore {
        topic: "FixOrders",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: local,
        store_host: local,
        reconsume_times: 0,
        prepared_offset: 0,
        body: b"one more",
        properties: PropertySource::default(),
    };
    Ok(log.put(&message, &QueueOffsets::new().slot("FixOrders", 0))?)
}

/// All files below `dir` but the DLedger folder's and our own, with their bytes.
fn files(root: &Path, dir: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(root.join(dir))? {
        let entry = entry?;
        all.insert(
            entry.file_name().to_string_lossy().into_owned(),
            std::fs::read(entry.path())?,
        );
    }
    Ok(all)
}

fn mixed(plan: &Plan) -> bool {
    matches!(plan, Plan::Mixed { divide: 6_291_456 })
}

fn upgraded_at(divide: i64) -> impl Fn(&Plan) -> bool {
    move |plan| matches!(plan, Plan::Upgrade(upgrade) if upgrade.divide == divide)
}

#[tokio::test]
async fn a_dledger_store() -> Result<()> {
    serves("A-dledger-497", (0, 3883), |plan| *plan == Plan::Dledger)
        .await
        .map(drop)
}

#[tokio::test]
async fn a_killed_dledger_store_keeps_its_tail() -> Result<()> {
    let dir = serves("B-dledger-497-kill9", (0, 2339), |plan| {
        *plan == Plan::Dledger
    })
    .await?;
    drop(dir);
    let dir = unpack("B-dledger-497-kill9")?;
    let (log, report) = open(&dir.path().join("store"))?;
    assert!(report.aborted && report.redispatch_from.is_some_and(|from| from < 3_681_426));
    log.start().await?;
    assert_eq!(log.max_offset(), 3_681_426);
    acknowledged_are_there(&log, "B-dledger-497-kill9", 2181)
}

#[tokio::test]
async fn a_dledger_store_of_5x() -> Result<()> {
    serves("C-dledger-533", (0, 3819), |plan| *plan == Plan::Dledger)
        .await
        .map(drop)
}

#[tokio::test]
async fn upgraded_stores() -> Result<()> {
    serves("H-upgraded-497", (4163, 1477), mixed).await?;
    let name = "L-upgraded-front-deleted-497";
    let kept = ledger("L0-plain-front-deleted-497", "ledger.jsonl.gz", "msg")?.len();
    serves(name, (kept, 940), mixed).await?;
    Ok(())
}

/// The bytes that our upgrade leaves in commitlog/ are those that Java's leaves.
#[tokio::test]
async fn plain_stores_are_upgraded_as_java_does() -> Result<()> {
    for (plain, upgraded) in [
        ("E-plain-497", "H-upgraded-497"),
        ("L0-plain-front-deleted-497", "L-upgraded-front-deleted-497"),
    ] {
        let by_java = unpack(upgraded)?;
        let expected = files(&by_java.path().join("store"), "commitlog")?;
        let messages = ledger(plain, "ledger.jsonl.gz", "msg")?.len();
        let dir = serves(plain, (messages, 0), upgraded_at(6_291_456)).await?;
        let root = dir.path().join("store");
        let found = files(&root, "commitlog")?;
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{plain}"
        );
        for (file, bytes) in &found {
            assert!(
                bytes == &expected[file],
                "{plain}: {file} differs from what Java left"
            );
        }
        let last = &found[&file_name(5_242_880)];
        assert_eq!(
            last[248_862..248_870],
            [0x00, 0x0c, 0x33, 0xe2, 0xcb, 0xd4, 0x31, 0x94]
        );
        let data = files(&root, "dledger-n0/data")?;
        assert_eq!(data.keys().collect::<Vec<_>>(), [&file_name(6_291_456)]);
        // The first entry: magic 1, index 0, its position.
        let entry = &data[&file_name(6_291_456)][..48];
        assert_eq!(entry[..4], 1i32.to_be_bytes());
        assert_eq!(
            (&entry[8..16], &entry[24..32]),
            (&0i64.to_be_bytes()[..], &6_291_456i64.to_be_bytes()[..])
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_plain_store_is_recovered_and_upgraded() -> Result<()> {
    let name = "G-plain-497-kill9";
    let dir = unpack(name)?;
    let root = dir.path().join("store");
    let exam = examined(&root)?;
    let recovered = exam.recovered.context("recovered")?;
    assert_eq!((exam.aborted, recovered.end), (true, 4_154_294));
    let (log, report) = open(&root)?;
    assert!(report.redispatch_from.is_some_and(|from| from <= 3_145_728));
    assert!(!root.join("commitlog").join(file_name(4_194_304)).exists());
    log.start().await?;
    assert_eq!(
        (log.divided_offset(), counts(&log)?),
        (4_194_304, (2780, 0))
    );
    acknowledged_are_there(&log, name, 2596)?;
    log.shutdown().await?;
    serves(name, (2780, 0), upgraded_at(4_194_304))
        .await
        .map(drop)
}

/// Every send that was acknowledged before the kill is in the log, at the offset that was acknowledged.
fn acknowledged_are_there(log: &DLedgerCommitLog, name: &str, expected: usize) -> Result<()> {
    let sends = ledger(name, "ledger.jsonl.gz", "send")?;
    let mut found = 0;
    for send in sends.iter().filter(|s| s["status"] == "SEND_OK") {
        let Some(id) = send["offsetMsgId"].as_str() else {
            continue;
        };
        let phys = i64::from_str_radix(&id[16..], 16)?;
        let bytes = log
            .message_at(phys)
            .with_context(|| format!("acknowledged, but not at {phys}"))?;
        let frame = commitlog::frame::FrameView::parse(&bytes)?;
        frame.validate(phys)?;
        let queue_offset = send["queueOffset"].as_i64();
        ensure!(
            Some(frame.queue_offset()) == queue_offset,
            "another queue offset at {phys}"
        );
        found += 1;
    }
    println!("{name}: {found} acknowledged sends found");
    ensure!(
        found > expected / 2 && found <= expected,
        "{found} of {expected}"
    );
    Ok(())
}

/// Three members: looked at one by one, without changing anything; equal by digest.
#[test]
fn members_of_a_group_are_examined_and_equal() -> Result<()> {
    let dir = unpack("I-dledger-3-497")?;
    let mut digests = Vec::new();
    for id in ["n0", "n1", "n2"] {
        let mut config = ExamineConfig::new(StoreLayout::new(dir.path().join(id)));
        config.self_id = Some(id.to_string());
        let exam = examine(&RealFs, &config, &|_| {})?;
        let entries = exam.own().and_then(|m| m.entries).context("entries")?;
        assert_eq!(
            (exam.plan.clone(), entries.begin_index, entries.end_index),
            (Plan::Dledger, 0, 2576)
        );
        assert_eq!(exam.refusals(&Default::default()), []);
        let log = OfflineLog::new(Arc::new(RealFs) as Arc<dyn Fs>, &exam);
        let config = commitlog::digest::DigestConfig::new(id, exam.file_size);
        digests.push(commitlog::digest::digest(&log, &config, &|_| {})?);
    }
    let comparison = commitlog::digest::compare(&digests);
    assert_eq!(
        (comparison.difference.as_ref(), comparison.shorter.len()),
        (None, 0),
        "{comparison}"
    );
    assert_eq!(
        digests[0].ranges.iter().map(|r| r.records).sum::<u64>(),
        2577
    );
    Ok(())
}

/// The examination of the clean stores finds nothing grave, and agrees with what is known of them.
#[test]
fn examinations_of_all_stores() -> Result<()> {
    let ends = [
        ("A-dledger-497", 5_401_857),
        ("B-dledger-497-kill9", 3_681_426),
        ("C-dledger-533", 5_418_641),
        ("E-plain-497", 5_491_742),
        ("G-plain-497-kill9", 4_154_294),
        ("H-upgraded-497", 8_257_957),
        ("L0-plain-front-deleted-497", 5_491_742),
        ("L-upgraded-front-deleted-497", 7_687_168),
    ];
    for (name, end) in ends {
        let dir = unpack(name)?;
        let exam = examined(&dir.path().join("store"))?;
        assert_eq!(exam.log_end(), Some(end), "{name}");
        let grave: Vec<_> = exam
            .findings
            .iter()
            .filter(|f| f.severity > Severity::Info)
            .collect();
        let expected_only = grave
            .iter()
            .all(|f| f.code == Code::DiskSpace || f.code == Code::Clock);
        assert!(expected_only, "{name}: {grave:?}");
        assert_eq!(exam.derived.index_file_size, 84_040, "{name}");
        let furthest = exam.derived.furthest().context("furthest")?;
        assert!(
            furthest <= end && furthest > end - 300_000,
            "{name}: {furthest}"
        );
    }
    Ok(())
}

//! The upgrade in its corners: a stock broker and ours get the same plain store, and leave the same old files and the
//! same divide.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use commitlog::frame::{MessageToStore, PropertySource};
use commitlog::layout::{StoreLayout, file_name};
use commitlog::{CommitLogConfig, DLedgerCommitLog};
use dledger::LogConfig;
use dledger::fs::RealFs;
use dledger::peers::{MemberId, Peers};
use dledger::store::StoreConfig;
use tests::conf::Conf;
use tests::fixture::{E, copy_tree};
use tests::stock::{StockBroker, Version};

const FILE: i64 = 1 << 20;
/// Where E's last message ends.
const END: i64 = 5_491_742;

/// A corner: a name, and what is done to a copy of E.
type Corner = (&'static str, fn(&Path) -> Result<()>);

const CORNERS: [Corner; 7] = [
    ("files made ahead", |store| {
        zeros(store, 6 * FILE)?;
        zeros(store, 7 * FILE)
    }),
    ("closed, nothing behind", |store| {
        Ok(fs::remove_file(file(store, 5 * FILE))?)
    }),
    ("closed, an empty file behind", |store| {
        zeros(store, 5 * FILE)
    }),
    ("closed, two empty files behind", |store| {
        zeros(store, 5 * FILE)?;
        zeros(store, 6 * FILE)
    }),
    ("eight bytes left", |store| {
        write(store, END, &frame(END, (6 * FILE - 8 - END) as usize))
    }),
    ("a torn message at the end", |store| {
        let mut torn = frame(END, 5000);
        torn[2000] ^= 1;
        write(store, END, &torn)
    }),
    ("never written to", |store| {
        for entry in fs::read_dir(store)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?
            } else {
                fs::remove_file(path)?
            }
        }
        fs::create_dir_all(store.join("commitlog"))?;
        zeros(store, 0)
    }),
];

fn file(store: &Path, start: i64) -> std::path::PathBuf {
    store.join("commitlog").join(file_name(start))
}

/// A file as it is made ahead: full length, never written to.
fn zeros(store: &Path, start: i64) -> Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(file(store, start))?;
    Ok(file.set_len(FILE as u64)?)
}

fn write(store: &Path, position: i64, bytes: &[u8]) -> Result<()> {
    let start = position - position % FILE;
    let file = OpenOptions::new().write(true).open(file(store, start))?;
    Ok(file.write_all_at(bytes, (position - start) as u64)?)
}

/// A message of exactly `len` bytes for `position`.
fn frame(position: i64, len: usize) -> Vec<u8> {
    let host = SocketAddr::from(([127, 0, 0, 1], 20_211));
    let body = vec![b'x'; len - 91 - "FixSingle".len()];
    let message = MessageToStore {
        topic: "FixSingle",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1_795_953_300_000,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_offset: 0,
        body: &body,
        properties: PropertySource::default(),
    };
    let mut out = vec![0; len];
    message
        .prepare()
        .unwrap()
        .encode_into(&mut out, 0, position, 1_795_953_300_000);
    out
}

/// What an upgrade decides: the old files, byte for byte, and where the DLedger log begins.
fn outcome(store: &Path) -> Result<(BTreeMap<String, Vec<u8>>, String)> {
    let mut old = BTreeMap::new();
    for entry in fs::read_dir(store.join("commitlog"))? {
        let entry = entry?;
        old.insert(
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        );
    }
    let mut data: Vec<_> = fs::read_dir(store.join("dledger-n0/data"))?
        .map(|e| Ok(e?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    data.sort();
    Ok((old, data.into_iter().next().context("no DLedger file")?))
}

fn upgrade_by_java(store: &Path, home: &Path) -> Result<()> {
    let conf = Conf::of_fixture(&E, store, "127.0.0.1:1")?.dledger()?;
    let broker = StockBroker::start(Version::V4, &conf, home)?;
    // The port is open before the first file of the new log is certainly there.
    let first = store.join("dledger-n0/data");
    for _ in 0..100 {
        if fs::read_dir(&first).is_ok_and(|dir| dir.count() > 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    broker.stop().map(drop)
}

fn upgrade_by_ours(store: &Path) -> Result<()> {
    let layout = StoreLayout::new(store);
    let log = StoreConfig::new(layout.dledger("n0"), FILE as u64);
    let log = LogConfig::new(
        "broker-a",
        MemberId::parse("n0")?,
        Peers::parse("n0-127.0.0.1:20241")?,
        log,
    );
    let mut config = CommitLogConfig::new(layout, log);
    config.examine.queue_file_size = Some(6000);
    config.examine.index_file_size = Some(84_040);
    DLedgerCommitLog::open(Arc::new(RealFs), &config, &|_| {})?;
    Ok(())
}

#[test]
fn corners_of_the_upgrade_end_as_with_java() {
    let original = E.unpack().unwrap();
    for (name, build) in CORNERS {
        let dir = tempfile::tempdir().unwrap();
        let (by_java, by_ours) = (dir.path().join("java"), dir.path().join("ours"));
        copy_tree(&original.store(), &by_java).unwrap();
        build(&by_java).unwrap();
        copy_tree(&by_java, &by_ours).unwrap();
        upgrade_by_java(&by_java, &dir.path().join("home"))
            .with_context(|| name)
            .unwrap();
        upgrade_by_ours(&by_ours).with_context(|| name).unwrap();
        same(
            name,
            &outcome(&by_java).unwrap(),
            &outcome(&by_ours).unwrap(),
        )
        .unwrap();
    }
}

fn same(
    name: &str,
    java: &(BTreeMap<String, Vec<u8>>, String),
    ours: &(BTreeMap<String, Vec<u8>>, String),
) -> Result<()> {
    println!("{name}: divide {}, {} old files", java.1, java.0.len());
    ensure!(
        java.1 == ours.1,
        "{name}: the divide is {} by Java, {} by us",
        java.1,
        ours.1
    );
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    ensure!(
        names(&java.0) == names(&ours.0),
        "{name}: {:?} by Java, {:?} by us",
        names(&java.0),
        names(&ours.0)
    );
    for (file, bytes) in &java.0 {
        let other = &ours.0[file];
        let first = bytes.iter().zip(other).position(|(a, b)| a != b);
        ensure!(
            first.is_none(),
            "{name}: {file} differs from Java's at {first:?}"
        );
    }
    Ok(())
}

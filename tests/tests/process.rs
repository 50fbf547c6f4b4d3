//! The broker as a process: what it refuses to start on and how it says so, how it stops, rude connections.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tests::compare::none;
use tests::conf::Conf;
use tests::fixture;
use tests::load::{Book, Load, Shape};
use tests::ours::OurBroker;
use tests::scan::Scan;

/// No name server is needed here: nobody listens there.
const NS: &str = "127.0.0.1:9";

/// Name and length of every file below a folder, with the content of small ones.
fn state(dir: &Path) -> BTreeMap<String, (u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.metadata().unwrap();
            if meta.is_dir() {
                open.push(path);
            } else {
                let small = meta.len() < 16 << 20;
                let content = if small {
                    std::fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                found.insert(path.display().to_string(), (meta.len(), content));
            }
        }
    }
    found
}

/// It must end by itself with an error, naming each of `words`; the store must be as before.
#[track_caller]
fn refused(conf: &Conf, home: &Path, words: &[&str]) {
    let before = state(&conf.store);
    let mut broker = OurBroker::spawn(conf, home).unwrap();
    let status = broker.daemon.wait_end(Duration::from_secs(20)).unwrap();
    let said = broker.daemon.output();
    assert!(!status.success(), "it ended with {status}:\n{said}");
    let missing: Vec<_> = words
        .iter()
        .filter(|w| !said.to_lowercase().contains(&w.to_lowercase()))
        .collect();
    assert!(missing.is_empty(), "not named: {missing:?}\n{said}");
    let after = state(&conf.store);
    let changed: Vec<String> = before
        .iter()
        .filter(|(k, v)| after.get(*k) != Some(v))
        .map(|(k, _)| k.clone())
        .chain(
            after
                .keys()
                .filter(|k| !before.contains_key(*k))
                .map(|k| format!("new: {k}")),
        )
        .filter(|k| !k.ends_with("/lock"))
        .collect();
    none("changed although it refused", &changed);
}

#[test]
fn a_plain_store_is_not_upgraded_without_the_key() {
    let unpacked = fixture::E.unpack().unwrap();
    let conf = Conf::of_fixture(&fixture::E, &unpacked.store(), NS).unwrap();
    refused(&conf, unpacked.dir(), &["enableDLegerCommitLog"]);
    let off = conf.clone().set("enableDLegerCommitLog", false);
    refused(&off, unpacked.dir(), &["enableDLegerCommitLog"]);
}

#[test]
fn values_that_make_no_sense_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::small(&dir.path().join("store"), NS).unwrap();
    std::fs::create_dir_all(&conf.store).unwrap();
    for (key, value, named) in [
        ("listenPort", "notaport", "listenPort"),
        ("mappedFileSizeCommitLog", "-5", "mappedFileSizeCommitLog"),
        ("dLegerPeers", "n0", "peers"),
        ("dLegerSelfId", "n7", "n7"),
        ("flushDiskType", "SOMETIMES", "flushDiskType"),
    ] {
        refused(&conf.clone().set(key, value), dir.path(), &[named]);
    }
}

#[test]
fn file_sizes_other_than_those_on_disk_are_refused() {
    let unpacked = fixture::A.unpack().unwrap();
    let conf = Conf::of_fixture(&fixture::A, &unpacked.store(), NS).unwrap();
    refused(
        &conf.set("mappedFileSizeCommitLog", 2 << 20),
        unpacked.dir(),
        &["1048576"],
    );
}

#[test]
fn another_member_s_folder_is_refused() {
    let unpacked = fixture::A.unpack().unwrap();
    let conf = Conf::of_fixture(&fixture::A, &unpacked.store(), NS).unwrap();
    let peers = conf.get("dLegerPeers").unwrap().replace("n0-", "n1-");
    refused(
        &conf.set("dLegerSelfId", "n1").set("dLegerPeers", peers),
        unpacked.dir(),
        &["dledger-n0"],
    );
}

#[test]
fn a_log_that_vanished_is_refused() {
    let unpacked = fixture::A.unpack().unwrap();
    let conf = Conf::of_fixture(&fixture::A, &unpacked.store(), NS).unwrap();
    std::fs::remove_dir_all(unpacked.store().join("dledger-n0")).unwrap();
    refused(&conf, unpacked.dir(), &["consume"]);
    let unpacked = fixture::E.unpack().unwrap();
    let conf = Conf::of_fixture(&fixture::E, &unpacked.store(), NS)
        .unwrap()
        .dledger()
        .unwrap();
    std::fs::remove_dir_all(unpacked.store().join("commitlog")).unwrap();
    refused(&conf, unpacked.dir(), &["consume"]);
}

#[test]
fn a_second_broker_on_the_same_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::small(&dir.path().join("store"), NS).unwrap();
    let first = OurBroker::start(&conf, dir.path()).unwrap();
    let second = conf.clone().moved().unwrap();
    let home = dir.path().join("second");
    let mut broker = OurBroker::spawn(&second, &home).unwrap();
    let status = broker.daemon.wait_end(Duration::from_secs(20)).unwrap();
    assert!(!status.success(), "a second broker ran on the store");
    let said = broker.daemon.output();
    assert!(said.contains("lock"), "{said}");
    first.stop().unwrap();
    // The store is free again, and not taken for a killed one.
    OurBroker::start(&second, &home).unwrap().stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_answers_what_is_in_flight_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::small(&dir.path().join("store"), NS).unwrap();
    let broker = OurBroker::start(&conf, dir.path()).unwrap();
    let book = Arc::new(Book::default());
    let shape = Shape {
        senders: 16,
        body_max: 1000,
        requests_max: 200_000,
    };
    let load = Load::start(&conf.ports.addr(), &book, shape, 7);
    let begin = Instant::now();
    while book.acknowledged() < 500 {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "{} acknowledged",
            book.acknowledged()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    broker.stop().unwrap();
    load.finish().await.unwrap();
    assert!(
        !conf.store.join("abort").exists(),
        "abort is left after a clean stop"
    );
    let scan = Scan::of(&conf.store, 1000).unwrap();
    none("after the stop", &scan.problems());
    none("messages", &book.check(&scan));
}

/// What a connection gets after these bytes: the number of bytes answered before it was closed, or None when it
/// stayed open for the time given.
fn rude(port: u16, bytes: &[u8], patience: Duration) -> Option<usize> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answered = 0;
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Some(answered),
            Ok(n) => answered += n,
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                return None;
            }
            Err(_) => return Some(answered),
        }
    }
}

/// Resident memory of a process in MiB.
fn memory_mib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1024
}

#[test]
fn rude_connections_are_closed_and_others_served() {
    let dir = tempfile::tempdir().unwrap();
    let conf = Conf::small(&dir.path().join("store"), NS).unwrap();
    let broker = OurBroker::start(&conf, dir.path()).unwrap();
    let port = conf.ports.listen;
    let patience = Duration::from_secs(10);
    let frame = |header: &str| {
        let mut f = ((header.len() + 4) as u32).to_be_bytes().to_vec();
        f.extend((header.len() as u32).to_be_bytes());
        f.extend(header.as_bytes());
        f
    };
    // A frame of 2 GiB, a negative one, a header longer than its frame, a header that is no JSON, deep nesting.
    let deep = format!(
        "{{\"code\":28,\"x\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    for (what, bytes) in [
        ("2 GiB", vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 10]),
        ("negative", vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 10]),
        (
            "long header",
            vec![
                0, 0, 0, 20, 0, 0, 1, 0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8,
            ],
        ),
        ("no JSON", frame("this is no header")),
        ("nesting", frame(&deep)),
    ] {
        assert!(
            rude(port, &bytes, patience).is_some(),
            "{what}: the connection stayed open"
        );
    }
    // Half a frame is waited for, and disturbs nobody.
    assert_eq!(
        rude(port, &[0, 0, 1, 0, 0, 0], Duration::from_millis(300)),
        None
    );
    // Someone asks for much and reads nothing: the broker must not buffer it all.
    let ask = frame("{\"code\":26,\"language\":\"JAVA\",\"version\":407,\"opaque\":1,\"flag\":0}");
    let mut slow = TcpStream::connect(("127.0.0.1", port)).unwrap();
    slow.set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let before = memory_mib(broker.daemon.pid());
    let many = ask.repeat(1000);
    for _ in 0..100 {
        if slow.write_all(&many).is_err() {
            break;
        }
    }
    let grown = memory_mib(broker.daemon.pid()).saturating_sub(before);
    assert!(grown < 64, "{grown} MiB for one reader that does not read");
    // A polite one is served all the same: an answer of more than its header's length comes.
    let mut polite = TcpStream::connect(("127.0.0.1", port)).unwrap();
    polite.set_read_timeout(Some(patience)).unwrap();
    polite.write_all(&ask).unwrap();
    let mut length = [0; 4];
    polite.read_exact(&mut length).unwrap();
    assert!(u32::from_be_bytes(length) > 100);
    broker.stop().unwrap();
}

//! The fixtures themselves: every archive unpacks to the files that its list names, every ledger reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use tests::compare;
use tests::fixture::{self, Fixture};
use tests::scan::Scan;

fn check(fixture: Fixture) {
    let unpacked = fixture.unpack().expect("unpack");
    let list = fs::read_to_string(fixture.dir().join("files.txt")).expect("files.txt");
    let mut files = 0;
    for line in list.lines().filter(|l| !l.trim().is_empty()) {
        let mut parts = line.splitn(3, ' ');
        let (sha, size, path) = (
            parts.next().unwrap(),
            parts.next().unwrap(),
            parts.next().unwrap(),
        );
        let path = unpacked.dir().join(Path::new(path));
        let meta = fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(meta.len().to_string(), size, "{}", path.display());
        // Index files are 160 MiB of holes: their size is enough here.
        if meta.len() < 16 << 20 {
            let digest = Sha256::digest(fs::read(&path).unwrap());
            let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, sha, "{}", path.display());
        }
        files += 1;
    }
    assert!(files > 10, "{} lists only {files} files", fixture.name);
    let ledger = fixture.ledger().expect("ledger");
    assert!(ledger.header.is_object());
    assert!(!ledger.sends.is_empty() || !ledger.messages.is_empty());
    if fixture.crash {
        assert!(
            !fixture
                .java_reopen()
                .expect("java-reopen")
                .messages
                .is_empty()
        );
    } else {
        let pulled: i64 = ledger.queues.iter().map(|q| q.pulled).sum();
        assert_eq!(pulled, ledger.messages.len() as i64, "{}", fixture.name);
    }
}

#[test]
fn every_fixture_unpacks_to_its_listed_files_and_its_ledger_reads() {
    fixture::ALL.into_iter().for_each(check);
}

/// The scanner agrees with what is known of the fixtures; in clean stores it finds nothing wrong.
#[test]
fn the_scanner_reads_what_java_wrote() {
    for f in fixture::ALL {
        let unpacked = f.unpack().unwrap();
        let members = if f == fixture::I {
            vec!["n0", "n1", "n2"]
        } else {
            vec!["store"]
        };
        for member in members {
            let scan = Scan::of(&unpacked.member(member), 1000).unwrap();
            compare::none(f.name, &scan.log_problems);
            let ledger = if f.crash { f.java_reopen() } else { f.ledger() }.unwrap();
            let phys: BTreeMap<i64, i64> =
                ledger.messages.iter().map(|m| (m.phys, m.size)).collect();
            for r in scan.records.values().filter(|r| r.in_queue()) {
                assert_eq!(
                    phys.get(&r.phys),
                    Some(&i64::from(r.size)),
                    "{} {r:?}",
                    f.name
                );
            }
            if !f.crash {
                compare::none(f.name, &scan.queue_problems);
            }
            // The member that was killed lost the index before the kill; killed stores lag.
            if !f.crash && member != "n1" {
                compare::none(f.name, &scan.index_problems);
            }
            assert!(scan.queues.len() > 15, "{}", f.name);
        }
    }
}

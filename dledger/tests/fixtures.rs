//! Logs that stock Java brokers wrote, opened by us: the ends that their notes document, every entry whole, and
//! Java's files unchanged by an opening of a store that was stopped cleanly.

use std::path::{Path, PathBuf};
use std::process::Command;

use byteorder::{BigEndian, ByteOrder};
use dledger::checkpoint;
use dledger::fs::RealFs;
use dledger::recovery::{Recovery, examine};
use dledger::store::{BodyCheck, SYNCED_FILE_NAME, Store, StoreConfig};
use dledger::vote_file::{Vote, VoteFile};

const FILE: u64 = 1024 * 1024;

/// The checks on a stored message that the layer above makes: its size, its physical offset, its body's CRC.
struct MessageCheck;

impl BodyCheck for MessageCheck {
    fn check(&self, record: &[u8], body_pos: i64) -> Result<(), String> {
        if record.len() < 91 || BigEndian::read_i32(&record[0..4]) as usize != record.len() {
            return Err("size".to_owned());
        }
        if BigEndian::read_i64(&record[28..36]) != body_pos {
            return Err("physical offset".to_owned());
        }
        let sys_flag = BigEndian::read_i32(&record[36..40]);
        let host = |flag| if sys_flag & flag == 0 { 8 } else { 20 };
        let at = 40 + 8 + host(0x10) + 8 + host(0x20) + 4 + 8;
        let len = BigEndian::read_i32(&record[at..at + 4]) as usize;
        let body = record.get(at + 4..at + 4 + len).ok_or("body length")?;
        let crc = crc32fast::hash(body) & 0x7FFF_FFFF;
        let good = BigEndian::read_i32(&record[8..12]) as u32 == crc;
        if good {
            Ok(())
        } else {
            Err("body CRC".to_owned())
        }
    }
}

fn unpack(name: &str) -> tempfile::TempDir {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/fixtures")
        .join(name)
        .join("store.tar.zst");
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new("tar")
        .arg("--zstd")
        .arg("-xf")
        .arg(&archive)
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(status.success(), "unpacking {}", archive.display());
    dir
}

fn config(base: PathBuf) -> StoreConfig {
    StoreConfig::new(base, FILE)
}

fn open(base: &Path, first_pos: i64) -> (Store, Recovery) {
    let dry = examine(
        RealFs::shared(),
        &config(base.to_owned()),
        first_pos,
        &MessageCheck,
    )
    .unwrap();
    let (store, found) = Store::open(
        RealFs::shared(),
        config(base.to_owned()),
        first_pos,
        &MessageCheck,
    )
    .unwrap();
    assert_eq!(dry, found);
    (store, found)
}

/// Name, length and CRC of every file below a directory.
fn files(dir: &Path) -> Vec<(PathBuf, u64, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with(SYNCED_FILE_NAME) {
            let bytes = std::fs::read(&path).unwrap();
            found.push((path, bytes.len() as u64, crc32fast::hash(&bytes)));
        }
    }
    found.sort();
    found
}

fn check_clean(base: &Path, first_pos: i64, entries: i64, end: i64) {
    let before = files(base);
    let (mut store, found) = open(base, first_pos);
    assert_eq!((found.begin_index, found.end_index), (0, entries - 1));
    assert_eq!((found.first_pos, found.end_pos), (first_pos, end));
    assert_eq!(
        (found.committed_index, found.index_rebuilt_from),
        (entries - 1, None)
    );
    assert_eq!(
        (&found.cut, found.removed.len(), found.warnings.len()),
        (&None, 0, 0)
    );
    assert!(!found.note_matched);
    for index in 0..entries {
        let entry = store.entry(index).unwrap();
        MessageCheck.check(&entry.body, entry.pos + 48).unwrap();
        assert_eq!((entry.channel, entry.chain_crc, entry.body_crc), (0, 0, 0));
    }
    assert_eq!(files(base), before, "an opening changed a file of Java's");
    store.close(found.committed_index).unwrap();
    let text = std::fs::read_to_string(base.join("checkpoint")).unwrap();
    assert_eq!(
        text,
        format!("committedIndex={0}\nendIndex={0}\n", entries - 1)
    );
    drop(store);
    let (_, again) = open(base, first_pos);
    assert!(again.note_matched);
    assert_eq!((again.scanned_entries, again.end_pos), (0, end));
}

#[test]
fn clean_stores_of_one_member() {
    for (name, first, entries, end) in [
        ("A-dledger-497", 0, 3883, 5_401_857),
        ("C-dledger-533", 0, 3819, 5_418_641),
    ] {
        let dir = unpack(name);
        check_clean(&dir.path().join("store/dledger-n0"), first, entries, end);
    }
}

#[test]
fn upgraded_stores_begin_at_the_divide() {
    for (name, end) in [
        ("H-upgraded-497", 8_257_957),
        ("L-upgraded-front-deleted-497", 7_687_168),
    ] {
        let dir = unpack(name);
        let base = dir.path().join("store/dledger-n0");
        let found = examine(
            RealFs::shared(),
            &config(base.clone()),
            6_291_456,
            &MessageCheck,
        )
        .unwrap();
        check_clean(&base, 6_291_456, found.end_index + 1, end);
    }
}

#[test]
fn a_killed_store_keeps_all_entries() {
    let dir = unpack("B-dledger-497-kill9");
    let base = dir.path().join("store/dledger-n0");
    let (store, found) = open(&base, 0);
    assert_eq!(
        (found.begin_index, found.end_index, found.end_pos),
        (0, 2338, 3_681_426)
    );
    assert_eq!((found.committed_index, found.short_of), (1617, None));
    assert_eq!((found.cut, found.index_rebuilt_from), (None, None));
    assert_eq!(store.committed_at_open(), 1617);
}

#[test]
fn members_of_a_group_are_equal() {
    let dir = unpack("I-dledger-3-497");
    let mut data = Vec::new();
    for id in ["n0", "n1", "n2"] {
        let base = dir.path().join(id).join(format!("dledger-{id}"));
        let (store, found) = open(&base, 0);
        assert_eq!((found.begin_index, found.end_index), (0, 2576));
        assert_eq!(found.end_term, 2);
        let vote = VoteFile::load(RealFs::shared(), &base, found.end_term).unwrap();
        assert!(
            vote.state().term >= 2 && vote.state().vote != Vote::Unknown,
            "{:?}",
            vote.state()
        );
        assert!(checkpoint::load(&RealFs, &base).unwrap().is_some());
        data.push(store.reader().slice(0, 4096).unwrap());
    }
    assert!(data[0] == data[1] && data[1] == data[2]);
}

#[test]
fn a_lost_index_is_written_anew_as_java_had_it() {
    let dir = unpack("A-dledger-497");
    let base = dir.path().join("store/dledger-n0");
    let before = files(&base);
    std::fs::remove_dir_all(base.join("index")).unwrap();
    let (_, found) = open(&base, 0);
    assert_eq!((found.end_index, found.index_rebuilt_from), (3882, Some(0)));
    assert_eq!(files(&base), before);
}

#[test]
fn a_flipped_bit_in_the_tail_is_cut_only_on_request() {
    let dir = unpack("A-dledger-497");
    let base = dir.path().join("store/dledger-n0");
    let file = base.join("data/00000000000005242880");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = 5_401_857 - 5_242_880 - 500;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let refused =
        Store::open(RealFs::shared(), config(base.clone()), 0, &MessageCheck).unwrap_err();
    assert!(
        refused.to_string().contains("3882 was committed"),
        "{refused}"
    );
    let accept = StoreConfig {
        short_log: dledger::store::ShortLog::Accept,
        ..config(base)
    };
    let (_, found) = Store::open(RealFs::shared(), accept, 0, &MessageCheck).unwrap();
    assert_eq!(found.short_of, Some(3882));
    assert!(found.end_index < 3882 && found.cut.is_some());
}

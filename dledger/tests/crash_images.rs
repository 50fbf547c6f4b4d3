//! Recovery against thousands of crash images.
//!
//! A seed decides everything: what is written, synced, cut and expired, where the process is killed inside an
//! operation, and which unsynced pages, sectors and names the disk keeps. After each crash:
//! what was synced is found; what is found is a prefix of what was written; nothing else is left on the disk; an
//! opening changes nothing that a second opening would find; the index agrees.
//!
//! `CRASH_SEED=n` replays one seed, `CRASH_SEEDS=n` runs that many.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use dledger::entry::{Entry, HEADER_SIZE};
use dledger::fs::{CrashPolicy, Fs, MemFs};
use dledger::recovery::{Recovery, examine};
use dledger::store::{BodyCheck, SYNCED_FILE_NAME, Store, StoreConfig, StoreError, Sweep};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SEGMENT: u64 = 16 * 1024;
const FIRST_POS: i64 = 3 * SEGMENT as i64;

struct Crc;

fn crc_of(body: &[u8], body_pos: i64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&body_pos.to_be_bytes());
    hasher.update(&body[4..]);
    hasher.finalize()
}

impl BodyCheck for Crc {
    fn check(&self, body: &[u8], body_pos: i64) -> Result<(), String> {
        if body.len() < 4 {
            return Err("short body".to_owned());
        }
        let good = body[..4] == crc_of(body, body_pos).to_be_bytes();
        if good {
            Ok(())
        } else {
            Err("body CRC".to_owned())
        }
    }
}

fn config() -> StoreConfig {
    StoreConfig {
        index_file_size: 32 * 64,
        ..StoreConfig::new("/root/dledger-n0", SEGMENT)
    }
}

/// What must and what may be found.
#[derive(Default)]
struct Model {
    /// Entries written, from index `begin` on.
    entries: Vec<Entry>,
    begin: i64,
    /// The last entry that must survive.
    synced: i64,
    /// The begin after an expiry that may or may not have happened.
    begin_max: i64,
    /// The log is being replaced by this entry: it may be found as it was, empty, or with this entry alone.
    replacing: Option<Entry>,
}

impl Model {
    fn end(&self) -> i64 {
        if self.entries.is_empty() {
            -1
        } else {
            self.begin + self.entries.len() as i64 - 1
        }
    }

    fn get(&self, index: i64) -> &Entry {
        &self.entries[(index - self.begin) as usize]
    }
}

struct Run {
    rng: SmallRng,
    fs: MemFs,
    store: Store,
    model: Model,
    term: i64,
    images: u64,
}

fn open(fs: &MemFs) -> (Store, Recovery) {
    match Store::open(Arc::new(fs.clone()), config(), FIRST_POS, &Crc) {
        Ok(opened) => opened,
        Err(e) => panic!("refused: {e}"),
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let fs = MemFs::new();
        let (store, _) = open(&fs);
        let model = Model {
            synced: -1,
            ..Model::default()
        };
        Run {
            rng: SmallRng::seed_from_u64(seed),
            fs,
            store,
            model,
            term: 0,
            images: 0,
        }
    }

    fn body(&mut self, body_pos: i64) -> Vec<u8> {
        let len = match self.rng.random_range(0..10) {
            0 => 4,
            1..=7 => self.rng.random_range(4..400),
            _ => self.rng.random_range(400..9000),
        };
        let mut body = vec![0; len];
        if self.rng.random_bool(0.8) {
            self.rng.fill(&mut body[..]);
        }
        let crc = crc_of(&body, body_pos);
        body[..4].copy_from_slice(&crc.to_be_bytes());
        body
    }

    fn append(&mut self) -> Result<(), StoreError> {
        if self.rng.random_bool(0.05) {
            self.term += 1;
        }
        let mut body = self.body(0);
        let size = body.len() + HEADER_SIZE;
        let body_pos = self.store.place_of(size) + HEADER_SIZE as i64;
        let crc = crc_of(&body, body_pos);
        body[..4].copy_from_slice(&crc.to_be_bytes());
        let index = if self.store.is_empty() {
            0
        } else {
            self.store.end_index() + 1
        };
        let entry = Entry::new(
            index,
            self.term,
            body_pos - HEADER_SIZE as i64,
            Bytes::from(body),
        );
        if self.model.entries.is_empty() {
            self.model.begin = index;
            self.model.begin_max = index;
        }
        // First in the model: a kill inside leaves it whole or not at all.
        self.model.entries.push(entry.clone());
        let done = if self.rng.random_bool(0.5) {
            self.store.append_entry(&entry)
        } else {
            self.store
                .append(entry.term, entry.body.len(), &mut |buf, _| {
                    buf.copy_from_slice(&entry.body)
                })
        };
        if done.is_err() {
            self.model.entries.pop();
        }
        let at = done?;
        assert_eq!((at.index, at.pos), (entry.index, entry.pos));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.store.flusher().sync()?;
        if !self.fs.stopped() {
            assert_eq!(synced.end_index, self.model.end());
            self.model.synced = synced.end_index;
        }
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), StoreError> {
        let (begin, end) = (self.store.begin_index(), self.store.end_index());
        if end <= begin {
            return Ok(());
        }
        let index = if self.rng.random_bool(0.7) {
            self.rng.random_range((end - 5).max(begin + 1)..=end)
        } else {
            self.rng.random_range(begin + 1..=end)
        };
        self.model.synced = self.model.synced.min(index - 1);
        self.store.truncate_from(index)?;
        if !self.fs.stopped() {
            let keep = (index - self.model.begin) as usize;
            self.model.entries.truncate(keep);
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), StoreError> {
        let index = self.store.end_index() + self.rng.random_range(1..200);
        let pos = FIRST_POS
            + self.rng.random_range(0..20) * SEGMENT as i64
            + if self.rng.random_bool(0.5) {
                self.rng.random_range(1..5000)
            } else {
                0
            };
        let mut body = self.body(pos + HEADER_SIZE as i64);
        body.truncate(8000);
        let crc = crc_of(&body, pos + HEADER_SIZE as i64);
        body[..4].copy_from_slice(&crc.to_be_bytes());
        let first = Entry::new(index, self.term, pos, Bytes::from(body));
        self.model.replacing = Some(first.clone());
        self.store.reset_to(&first)?;
        if !self.fs.stopped() {
            self.model = Model {
                begin: index,
                begin_max: index,
                synced: index,
                entries: vec![first],
                replacing: None,
            };
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<(), StoreError> {
        let sweep = Sweep {
            older_than_ms: i64::MAX,
            max_files: self.rng.random_range(1..4),
            keep_from_pos: self
                .rng
                .random_range(FIRST_POS..=self.store.end_pos().max(FIRST_POS)),
        };
        let begin = self.store.begin_index();
        let done = self.store.expire(&sweep);
        self.model.begin_max = self.model.begin_max.max(self.store.begin_index());
        let done = done?;
        if !self.fs.stopped() {
            assert!(done.begin_index >= begin);
            self.forget_expired(self.store.begin_index());
        }
        Ok(())
    }

    fn forget_expired(&mut self, begin: i64) {
        if begin > self.model.begin && !self.model.entries.is_empty() {
            let gone = (begin - self.model.begin) as usize;
            self.model.entries.drain(..gone);
            self.model.begin = begin;
        }
        self.model.begin_max = self.model.begin;
    }

    fn step(&mut self) -> Result<(), StoreError> {
        match self.rng.random_range(0..100) {
            0..=64 => self.append(),
            65..=76 => self.sync(),
            77..=82 => self.store.preparer().run(),
            83..=87 => {
                let share = self.rng.random_range(0.0..1.0);
                self.fs.write_back(share, &mut self.rng);
                Ok(())
            }
            88..=91 => self.truncate(),
            92..=94 => self.expire(),
            95..=97 => {
                let committed = self.store.end_index();
                self.store.write_checkpoint(committed).map(|_| ())
            }
            98 if self.rng.random_bool(0.4) => self.reset(),
            _ => {
                let committed = self.store.end_index();
                self.store.close(committed)?;
                if !self.fs.stopped() {
                    self.model.synced = self.model.end();
                }
                Ok(())
            }
        }
    }

    fn policy(&mut self) -> CrashPolicy {
        let keep = [0.1, 0.5, 0.9, 1.0][self.rng.random_range(0..4)];
        match self.rng.random_range(0..8) {
            0 => CrashPolicy::KeepAll,
            1 => CrashPolicy::LoseUnsynced,
            2..=4 => CrashPolicy::RandomPages { keep },
            _ => CrashPolicy::TornPages { keep },
        }
    }

    /// Works for a while, dies, and goes on with what recovery found.
    fn life(&mut self) {
        if self.rng.random_bool(0.6) {
            let ops = self.rng.random_range(0..120);
            self.fs.stop_after(ops);
        }
        if self.rng.random_bool(0.1) {
            self.fs.fail_next_sync(1);
        }
        for _ in 0..self.rng.random_range(1..120) {
            let failed = self.step().is_err();
            if failed || self.fs.stopped() {
                break;
            }
        }
        // Look at more than one possible outcome, go on with one of them.
        for _ in 0..3 {
            let policy = self.policy();
            let image = self.fs.crash_image(policy, &mut self.rng);
            self.images += 1;
            self.check_without_note();
            self.check_repeated_kills(&image);
            let (store, found) = self.check(&image);
            if self.rng.random_bool(0.4) {
                self.go_on(image, store, &found);
                return;
            }
        }
        let image = self.fs.crash_image(CrashPolicy::KeepAll, &mut self.rng);
        let (store, found) = self.check(&image);
        self.go_on(image, store, &found);
    }

    fn go_on(&mut self, fs: MemFs, store: Store, found: &Recovery) {
        self.fs = fs;
        self.store = store;
        if let Some(first) = self.model.replacing.take()
            && (found.end_index < 0 || found.begin_index == first.index)
        {
            self.model.entries = vec![first.clone()];
            self.model.begin = first.index;
        }
        if found.end_index < 0 {
            self.model.entries.clear();
        } else {
            self.forget_expired(found.begin_index);
            self.model
                .entries
                .truncate((found.end_index - found.begin_index + 1) as usize);
        }
        self.model.synced = found.end_index;
        self.term = self.term.max(found.end_term) + 1;
    }

    /// Recovery killed at a random instant, and its result torn again, must not lose more.
    fn check_repeated_kills(&mut self, image: &MemFs) {
        let mut image = image.crash_image(CrashPolicy::KeepAll, &mut self.rng);
        for _ in 0..self.rng.random_range(0..3) {
            image.stop_after(self.rng.random_range(0..12));
            let _ = Store::open(Arc::new(image.clone()), config(), FIRST_POS, &Crc);
            let policy = self.policy();
            image = image.crash_image(policy, &mut self.rng);
        }
        self.check(&image);
    }

    /// After the death of a process everything written is there, so the log is found without our note too, as in a
    /// store of a Java broker.
    fn check_without_note(&mut self) {
        let image = self.fs.crash_image(CrashPolicy::KeepAll, &mut self.rng);
        if self.model.replacing.is_some() || !self.rng.random_bool(0.3) {
            return;
        }
        let base = config().base;
        image.remove_file(&base.join(SYNCED_FILE_NAME)).unwrap();
        image.sync_dir(&base).unwrap();
        let image = image.crash_image(CrashPolicy::KeepAll, &mut self.rng);
        let (_, found) = self.check(&image);
        assert!(!found.note_matched);
    }

    fn check(&mut self, image: &MemFs) -> (Store, Recovery) {
        let dry = examine(Arc::new(image.clone()), &config(), FIRST_POS, &Crc).expect("examine");
        assert_eq!(image.ops(), 0, "an examination changes nothing");
        let (store, found) = open(image);
        assert_eq!(dry, found);
        self.check_found(&found, &store);
        check_disk(image, &store);
        drop(store);
        let (store, again) = open(image);
        assert_eq!(
            (
                again.begin_index,
                again.end_index,
                again.end_term,
                again.first_pos,
                again.end_pos
            ),
            (
                found.begin_index,
                found.end_index,
                found.end_term,
                found.first_pos,
                found.end_pos
            )
        );
        assert_eq!(
            again.scanned_entries, 0,
            "a second opening has nothing to scan"
        );
        assert_eq!((again.cut, again.index_rebuilt_from), (None, None));
        assert!(again.removed.is_empty(), "{:?}", again.removed);
        (store, found)
    }

    fn check_found(&self, found: &Recovery, store: &Store) {
        let model = &self.model;
        assert!(found.short_of.is_none());
        if let Some(first) = &model.replacing
            && (found.end_index < 0 || found.begin_index == first.index)
        {
            assert!(found.end_index < 0 || store.entry(first.index).unwrap() == *first);
            return;
        }
        assert!(
            found.end_index >= model.synced,
            "found up to {}, synced {}",
            found.end_index,
            model.synced
        );
        assert!(
            found.end_index <= model.end(),
            "found up to {}, written {}",
            found.end_index,
            model.end()
        );
        if found.end_index < 0 {
            return;
        }
        assert!(
            (model.begin..=model.begin_max).contains(&found.begin_index),
            "begin {} of {}..={}",
            found.begin_index,
            model.begin,
            model.begin_max
        );
        for index in found.begin_index..=found.end_index {
            assert_eq!(
                store.entry(index).unwrap(),
                *model.get(index),
                "entry {index}"
            );
        }
    }
}

/// Nothing but zeros behind the end, in data and index; no file behind.
fn check_disk(image: &MemFs, store: &Store) {
    let config = config();
    let tail = |dir: PathBuf, end: i64| {
        for entry in image.list(&dir).unwrap_or_default() {
            let start: i64 = entry.name.parse().unwrap();
            let bytes = image.read(&dir.join(&entry.name)).unwrap();
            let from = (end - start).clamp(0, bytes.len() as i64) as usize;
            assert!(
                bytes[from..].iter().all(|b| *b == 0),
                "bytes behind the end in {}",
                entry.name
            );
            assert!(start <= end, "a file behind the end: {}", entry.name);
        }
    };
    tail(config.data_dir(), store.end_pos());
    tail(config.index_dir(), (store.end_index() + 1) * 32);
    assert!(!image.exists(Path::new("/root/dledger-n0/currterm")));
}

#[test]
fn what_was_synced_is_found_and_nothing_that_was_not_written() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CRASH_SEEDS").unwrap_or(150),
    };
    let mut images = 0;
    for seed in seeds.clone() {
        let outcome = std::panic::catch_unwind(|| {
            let mut run = Run::new(seed);
            for _ in 0..8 {
                run.life();
            }
            run.images
        });
        match outcome {
            Ok(count) => images += count,
            Err(_) => panic!("failed with CRASH_SEED={seed}"),
        }
    }
    println!("{images} crash images of seeds {seeds:?}");
}

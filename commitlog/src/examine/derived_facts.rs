//! What the files derived from the log say about the log: the furthest position that a consume queue, the key
//! index or the store checkpoint names, and which kinds of files are there. Read raw; nothing is written.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use dledger::fs::{DirEntry, File, Fs, OpenMode};

use crate::frame::{read_i32, read_i64};
use crate::layout::{StoreCheckpoint, StoreLayout, parse_file_name};

/// Bytes of a consume queue unit: i64 physical offset, i32 size, i64 tags code.
const UNIT: u64 = 20;
/// Size that marks a filler unit at the front of a queue.
const FILLER_SIZE: i32 = i32::MAX;
/// Tags codes below this are addresses in the queue's extension file.
const LEAST_HASH: i64 = i32::MIN as i64;
/// Wrong sizes are listed up to this many files.
const LISTED: usize = 8;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct DerivedFacts {
    /// Topics with a consume queue folder.
    pub topics: usize,
    /// Consume queues with at least one file.
    pub queues: usize,
    /// Consume queues with at least one message.
    pub filled_queues: usize,
    /// The furthest end of a message that a queue names, and the queue; none if all are empty.
    pub furthest_queue: Option<Furthest>,
    /// Most frequent size of a queue file, 0 if there is none.
    pub queue_file_size: u64,
    /// Queue files of another size than expected (the first few).
    pub queue_files_of_other_size: Vec<(PathBuf, u64)>,
    /// Light message queues (`%LMQ%…`).
    pub light_queues: usize,
    /// Units whose tags code is an address in a queue extension.
    pub extension_units: u64,
    /// Batch consume queues of 5.x that hold something.
    pub batch_queues: usize,
    /// Whether the consume queues lie in RocksDB.
    pub rocksdb_queues: bool,
    /// Files of compacted topics.
    pub compaction_files: usize,
    /// Messages waiting in the timer wheel of 5.x.
    pub pending_timers: u64,
    /// Key index files that hold something.
    pub index_files: usize,
    /// Largest physical offset that a key index file names.
    pub index_max_offset: Option<i64>,
    /// Most frequent size of an index file, 0 if there is none.
    pub index_file_size: u64,
    /// The store checkpoint.
    pub checkpoint: StoreCheckpoint,
}

/// The furthest message that any consume queue names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Furthest {
    /// Topic.
    pub topic: String,
    /// Queue.
    pub queue_id: i32,
    /// End of the message: physical offset + size.
    pub end: i64,
}

impl DerivedFacts {
    /// End of the furthest message that queues or index name; none if they name nothing.
    pub fn furthest(&self) -> Option<i64> {
        let queue = self.furthest_queue.as_ref().map(|f| f.end);
        queue.max(self.index_max_offset.map(|offset| offset + 1))
    }

    /// Reads everything. `queue_file_size`: as configured, none to take what most files have.
    pub fn read(
        fs: &dyn Fs,
        layout: &StoreLayout,
        queue_file_size: Option<u64>,
    ) -> io::Result<DerivedFacts> {
        let mut facts = DerivedFacts {
            checkpoint: StoreCheckpoint::load(fs, &layout.checkpoint())?,
            batch_queues: count_batch_queues(fs, &layout.batch_consumequeue())?,
            compaction_files: count_files(fs, &layout.root().join("compaction"), 3)?,
            pending_timers: pending_timers(fs, &layout.root().join("timerwheel"))?,
            ..DerivedFacts::default()
        };
        let mut sizes = Sizes::default();
        let extended = count_files(fs, &layout.consumequeue_ext(), 3)? > 0;
        for topic in list(fs, &layout.consumequeue())? {
            if topic.is_dir {
                facts.read_topic(
                    fs,
                    &layout.consumequeue(),
                    &topic.name,
                    extended,
                    &mut sizes,
                )?;
            } else if topic.name == "CURRENT" || topic.name.starts_with("MANIFEST-") {
                facts.rocksdb_queues = true;
            }
        }
        facts.queue_file_size = sizes.most_frequent();
        facts.queue_files_of_other_size =
            sizes.others(queue_file_size.unwrap_or(facts.queue_file_size));
        facts.read_index(fs, &layout.index())?;
        Ok(facts)
    }

    fn read_topic(
        &mut self,
        fs: &dyn Fs,
        root: &Path,
        topic: &str,
        extended: bool,
        sizes: &mut Sizes,
    ) -> io::Result<()> {
        self.topics += 1;
        for queue in list(fs, &root.join(topic))?.iter().filter(|e| e.is_dir) {
            let Ok(queue_id) = queue.name.parse::<i32>() else {
                continue;
            };
            let dir = root.join(topic).join(&queue.name);
            let mut files = list(fs, &dir)?;
            files.retain(|f| !f.is_dir && parse_file_name(&f.name).is_some());
            if files.is_empty() {
                continue;
            }
            self.queues += 1;
            self.light_queues += usize::from(topic.starts_with("%LMQ%"));
            files
                .iter()
                .filter(|f| f.len > 0)
                .for_each(|f| sizes.add(f.len, || dir.join(&f.name)));
            if let Some(end) = furthest_of_queue(fs, &dir, &files)? {
                self.filled_queues += 1;
                if self.furthest_queue.as_ref().is_none_or(|f| f.end < end) {
                    self.furthest_queue = Some(Furthest {
                        topic: topic.to_string(),
                        queue_id,
                        end,
                    });
                }
            }
            if extended {
                for file in &files {
                    self.extension_units += count_extension_units(&fs.read(&dir.join(&file.name))?);
                }
            }
        }
        Ok(())
    }

    fn read_index(&mut self, fs: &dyn Fs, dir: &Path) -> io::Result<()> {
        let mut sizes = Sizes::default();
        for file in list(fs, dir)? {
            let numeric = !file.name.is_empty() && file.name.bytes().all(|b| b.is_ascii_digit());
            if file.is_dir || !numeric || file.len < 40 {
                continue;
            }
            sizes.add(file.len, || dir.join(&file.name));
            let mut header = [0; 40];
            fs.open(&dir.join(&file.name), OpenMode::Read)?
                .read_at(&mut header, 0)?;
            if let Some(end_offset) = last_indexed(&header, file.len) {
                self.index_files += 1;
                self.index_max_offset = self.index_max_offset.max(Some(end_offset));
            }
        }
        self.index_file_size = sizes.most_frequent();
        Ok(())
    }
}

/// Physical offset of the last message in a key index file, by its header; none if it holds nothing, or if the header
/// is damaged (such a file is made anew and tells nothing about the log).
fn last_indexed(header: &[u8], len: u64) -> Option<i64> {
    let (begin, end) = (read_i64(header, 16)?, read_i64(header, 24)?);
    let count = u64::try_from(read_i32(header, 36)?).ok()?;
    let sound = count > 1 && count <= len / UNIT && (0..=end).contains(&begin);
    sound.then_some(end)
}

/// File sizes seen, with the first few files of each.
#[derive(Default)]
struct Sizes {
    seen: BTreeMap<u64, (usize, Vec<PathBuf>)>,
}

impl Sizes {
    fn add(&mut self, size: u64, path: impl FnOnce() -> PathBuf) {
        let (count, paths) = self.seen.entry(size).or_default();
        *count += 1;
        if paths.len() < LISTED {
            paths.push(path());
        }
    }

    fn most_frequent(&self) -> u64 {
        self.seen
            .iter()
            .max_by_key(|(size, (count, _))| (*count, **size))
            .map_or(0, |(size, _)| *size)
    }

    fn others(self, expected: u64) -> Vec<(PathBuf, u64)> {
        let others = self.seen.into_iter().filter(|(size, _)| *size != expected);
        others
            .flat_map(|(size, (_, paths))| paths.into_iter().map(move |path| (path, size)))
            .take(LISTED)
            .collect()
    }
}

/// End of the last message that a queue names. Units are sound up to the first that is not (offset below 0 or size
/// not above 0), which is found by bisection, file by file from the last.
fn furthest_of_queue(fs: &dyn Fs, dir: &Path, files: &[DirEntry]) -> io::Result<Option<i64>> {
    for file in files.iter().rev().filter(|f| f.len >= UNIT) {
        let handle = fs.open(&dir.join(&file.name), OpenMode::Read)?;
        let units = file.len / UNIT;
        let (mut sound, mut unsound) = (0, units); // counts: the first `sound` units are sound
        if read_unit(&*handle, units - 1)?.is_some() {
            sound = units;
        }
        while sound < unsound {
            let middle = sound + (unsound - sound) / 2;
            if read_unit(&*handle, middle)?.is_some() {
                sound = middle + 1
            } else {
                unsound = middle
            }
        }
        if let Some(last) = sound.checked_sub(1) {
            let unit = read_unit(&*handle, last)?;
            return Ok(unit
                .filter(|&(_, size)| size != FILLER_SIZE)
                .map(|(o, size)| o + i64::from(size)));
        }
    }
    Ok(None)
}

/// Offset and size of a sound unit.
fn read_unit(file: &dyn File, number: u64) -> io::Result<Option<(i64, i32)>> {
    let mut unit = [0; UNIT as usize];
    if file.read_at(&mut unit, number * UNIT)? < unit.len() {
        return Ok(None);
    }
    let (offset, size) = (read_i64(&unit, 0), read_i32(&unit, 8));
    Ok(offset
        .zip(size)
        .filter(|&(offset, size)| offset >= 0 && size > 0))
}

fn count_extension_units(bytes: &[u8]) -> u64 {
    let units = bytes.chunks_exact(UNIT as usize);
    let sound = units.take_while(|unit| read_i32(unit, 8).is_some_and(|size| size > 0));
    sound
        .filter(|unit| read_i64(unit, 12).is_some_and(|code| code < LEAST_HASH))
        .count() as u64
}

/// Batch consume queues (topic folder, queue folder, files) whose first unit is in use.
fn count_batch_queues(fs: &dyn Fs, root: &Path) -> io::Result<usize> {
    let mut count = 0;
    for topic in list(fs, root)?.iter().filter(|e| e.is_dir) {
        for queue in list(fs, &root.join(&topic.name))?
            .iter()
            .filter(|e| e.is_dir)
        {
            let dir = root.join(&topic.name).join(&queue.name);
            let Some(file) = list(fs, &dir)?.into_iter().find(|f| f.len >= UNIT) else {
                continue;
            };
            let handle = fs.open(&dir.join(&file.name), OpenMode::Read)?;
            count += usize::from(read_unit(&*handle, 0)?.is_some());
        }
    }
    Ok(count)
}

/// Data files below `dir`, `depth` folders deep.
fn count_files(fs: &dyn Fs, dir: &Path, depth: usize) -> io::Result<usize> {
    let mut count = 0;
    for entry in list(fs, dir)? {
        if entry.is_dir && depth > 0 {
            count += count_files(fs, &dir.join(&entry.name), depth - 1)?;
        } else if entry.len > 0 && parse_file_name(&entry.name).is_some() {
            count += 1;
        }
    }
    Ok(count)
}

/// Messages in the slots of the timer wheel: 32 bytes a slot, the number at 24. Delivered ones stay counted until
/// the wheel comes round, so this is an upper bound.
fn pending_timers(fs: &dyn Fs, wheel: &Path) -> io::Result<u64> {
    let bytes = match fs.read(wheel) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        bytes => bytes?,
    };
    let slots = bytes.chunks_exact(32).filter_map(|slot| read_i32(slot, 24));
    Ok(slots.map(|number| u64::try_from(number).unwrap_or(0)).sum())
}

/// Entries of a directory, none if it does not exist.
pub(super) fn list(fs: &dyn Fs, dir: &Path) -> io::Result<Vec<DirEntry>> {
    match fs.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries,
    }
}

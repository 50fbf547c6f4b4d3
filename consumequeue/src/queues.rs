//! All consume queues of a store: `consumequeue/TOPIC/QUEUEID/00000000000000000000`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dashmap::DashMap;
use dledger::fs::Fs;
use parking_lot::{Mutex, RwLock};
use tracing::{info, warn};

use crate::descriptors::Descriptors;
use crate::error::Error;
use crate::queue::{ConsumeQueue, Damage, QueueFile, QueueFiles, queue_files};
use crate::unit::UNIT_SIZE;

/// Filler that a hole in a queue may need at most, in units.
const MAX_HOLE_UNITS: i64 = 4_000_000;

/// From this many queues on they are opened by several threads.
const MANY_QUEUES: usize = 256;

/// The broker key that gives the size of queue files.
const SIZE_KEY: &str = "mappedFileSizeConsumeQueue";

/// Settings of [`ConsumeQueues`].
#[derive(Debug, Clone)]
pub struct QueuesConfig {
    /// The folder `consumequeue` of the store.
    pub path: PathBuf,
    /// Bytes of a file (`mappedFileSizeConsumeQueue`); rounded up to a multiple of 20 as Java does.
    pub file_size: u64,
    /// Files kept open at most.
    pub max_open_files: usize,
}

impl QueuesConfig {
    /// Java's file size, and a cache of 512 files.
    pub fn new(path: impl Into<PathBuf>) -> QueuesConfig {
        QueuesConfig {
            path: path.into(),
            file_size: 6_000_000,
            max_open_files: 512,
        }
    }
}

/// A queue that was found damaged; it was cut in front of the damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedQueue {
    /// Topic.
    pub topic: String,
    /// Queue id.
    pub queue_id: i32,
    /// Physical offset from which the log must be read again; 0 for its begin.
    pub resume_at: i64,
    /// What was found.
    pub what: String,
}

impl DamagedQueue {
    fn of(queue: &ConsumeQueue, damage: Damage) -> DamagedQueue {
        DamagedQueue {
            topic: queue.topic().to_owned(),
            queue_id: queue.queue_id(),
            resume_at: damage.resume_at,
            what: damage.what,
        }
    }
}

/// What [`ConsumeQueues::open`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuesReport {
    /// Number of queues.
    pub queues: usize,
    /// Queues that were cut and must be made again in part.
    pub damaged: Vec<DamagedQueue>,
    /// Names that do not belong there and were left alone.
    pub foreign_names: usize,
}

/// A queue's folder: topic, queue id, files.
type FoundQueue = (Arc<str>, i32, Vec<QueueFile>);

type TopicQueues = RwLock<BTreeMap<i32, Arc<ConsumeQueue>>>;

/// The queues of a store.
#[derive(Debug)]
pub struct ConsumeQueues {
    files: Arc<QueueFiles>,
    topics: DashMap<Arc<str>, Arc<TopicQueues>>,
    dirty: Mutex<Vec<Arc<ConsumeQueue>>>,
    poisoned: AtomicBool,
}

impl ConsumeQueues {
    /// Opens every queue of the folder; the folder need not exist.
    pub fn open(
        fs: Arc<dyn Fs>,
        config: &QueuesConfig,
    ) -> Result<(ConsumeQueues, QueuesReport), Error> {
        let unit = UNIT_SIZE as u64;
        let file_size = i64::try_from(config.file_size.div_ceil(unit) * unit).unwrap_or(0);
        if file_size <= 0 || config.file_size == 0 {
            return Err(Error::Setting {
                key: SIZE_KEY,
                reason: format!("{} is not a usable size", config.file_size),
            });
        }
        let queues = ConsumeQueues {
            files: Arc::new(QueueFiles {
                descriptors: Descriptors::new(fs.clone(), config.max_open_files),
                fs,
                root: config.path.clone(),
                file_size,
                owners: AtomicU64::new(1),
                max_hole: MAX_HOLE_UNITS,
            }),
            topics: DashMap::new(),
            dirty: Mutex::default(),
            poisoned: AtomicBool::new(false),
        };
        let report = queues.load()?;
        Ok((queues, report))
    }

    /// A queue, if it exists.
    pub fn queue(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        self.topics.get(topic)?.read().get(&queue_id).cloned()
    }

    /// A queue, made empty if it does not exist; files appear with its first message.
    pub fn get_or_create(&self, topic: &str, queue_id: i32) -> Arc<ConsumeQueue> {
        if let Some(queue) = self.queue(topic, queue_id) {
            return queue;
        }
        let entry = self.topics.entry(Arc::from(topic)).or_default();
        let mut queues = entry.write();
        let make = || {
            let files = self.files.clone();
            Arc::new(ConsumeQueue::empty(files, entry.key().clone(), queue_id))
        };
        queues.entry(queue_id).or_insert_with(make).clone()
    }

    /// The topics that have a queue, sorted.
    pub fn topics(&self) -> Vec<Arc<str>> {
        let mut topics: Vec<_> = self
            .topics
            .iter()
            .map(|topic| topic.key().clone())
            .collect();
        topics.sort();
        topics
    }

    /// The queues of a topic, ascending by id.
    pub fn queues_of(&self, topic: &str) -> Vec<Arc<ConsumeQueue>> {
        self.topics
            .get(topic)
            .map(|queues| queues.read().values().cloned().collect())
            .unwrap_or_default()
    }

    /// All queues, in no particular order.
    pub fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        let mut all = Vec::new();
        for topic in &self.topics {
            all.extend(topic.read().values().cloned());
        }
        all
    }

    /// Deletes a topic with its files; returns whether there was something.
    pub fn remove_topic(&self, topic: &str) -> Result<bool, Error> {
        let Some((_, queues)) = self.topics.remove(topic) else {
            return Ok(false);
        };
        for queue in queues.read().values() {
            queue.mark_removed();
        }
        let dir = self.files.root.join(topic);
        if self.files.fs.exists(&dir) {
            self.files
                .fs
                .remove_dir_all(&dir)
                .map_err(Error::io("remove topic", &dir))?;
            self.sync_root()?;
        }
        Ok(true)
    }

    /// The physical offset behind the last message that any queue names; 0 if there is none.
    pub fn max_physical_offset(&self) -> i64 {
        self.all()
            .iter()
            .map(|queue| queue.physical_end())
            .max()
            .unwrap_or(0)
    }

    /// Adjusts all minimum offsets after the begin of the log has moved to `log_min`.
    pub fn correct_min_offsets(&self, log_min: i64) -> Result<(), Error> {
        self.all()
            .iter()
            .try_for_each(|queue| queue.correct_min(log_min))
    }

    /// Removes queue files whose messages all lie below the begin of the log, then adjusts the minimum offsets;
    /// returns the number of files removed.
    pub fn expire(&self, log_min: i64) -> Result<usize, Error> {
        let mut removed = 0;
        for queue in self.all() {
            removed += queue.expire(log_min)?;
            queue.correct_min(log_min)?;
            self.note_changed(&queue);
        }
        Ok(removed)
    }

    /// Makes everything written before the call durable. After a failure nothing more is vouched for: every
    /// later call fails too, until a restart has recovered the queues from the log.
    pub fn sync(&self) -> Result<(), Error> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::Poisoned);
        }
        let dirty = std::mem::take(&mut *self.dirty.lock());
        for queue in dirty {
            queue
                .sync()
                .inspect_err(|_| self.poisoned.store(true, Ordering::Release))?;
        }
        Ok(())
    }

    /// Queue files open at present.
    pub fn open_files(&self) -> usize {
        self.files.descriptors.open_files()
    }

    /// Puts a queue that was written to in the list of those to sync.
    pub(crate) fn note_changed(&self, queue: &Arc<ConsumeQueue>) {
        if queue.take_listing() {
            self.dirty.lock().push(queue.clone());
        }
    }

    /// Cuts all queues so that they name nothing at or behind a physical offset; returns how many were cut.
    pub fn cut_beyond(&self, physical_end: i64) -> Result<usize, Error> {
        let mut cut = 0;
        for queue in self.all() {
            cut += usize::from(queue.cut_beyond(physical_end)?);
            self.note_changed(&queue);
        }
        Ok(cut)
    }

    /// Overwrites with zeros what a crash may have left behind the ends of the queues, when at most `units` were
    /// written there.
    pub(crate) fn clear_behind(&self, units: i64) -> Result<(), Error> {
        for queue in self.all() {
            queue.zero_behind(queue.max_offset(), units)?;
            self.note_changed(&queue);
        }
        Ok(())
    }

    /// Looks at the ends of all queues unit by unit, as after a crash of a broker that kept no mark.
    pub(crate) fn scan_tails(&self) -> Result<Vec<DamagedQueue>, Error> {
        let mut damaged = Vec::new();
        for queue in self.all() {
            if let Some(damage) = queue.scan_tail()? {
                damaged.push(DamagedQueue::of(&queue, damage));
            }
            self.note_changed(&queue);
        }
        Ok(damaged)
    }

    fn load(&self) -> Result<QueuesReport, Error> {
        let mut report = QueuesReport::default();
        let mut found = Vec::new();
        let mut sizes: HashMap<u64, usize> = HashMap::new();
        for (topic, queue_id) in self.folders(&mut report)? {
            let dir = self.files.root.join(&*topic).join(queue_id.to_string());
            let entries = self
                .files
                .fs
                .list(&dir)
                .map_err(Error::io("list folder", &dir))?;
            let (files, foreign) = queue_files(&entries);
            if foreign > 0 {
                report.foreign_names += foreign;
                warn!(folder = %dir.display(), foreign, "names that are not queue files are left alone");
            }
            for file in &files {
                *sizes.entry(file.len).or_default() += 1;
            }
            found.push((topic, queue_id, files));
        }
        self.check_sizes(&sizes)?;
        for (queue, damage) in self.load_queues(&found)? {
            if let Some(damage) = damage {
                let damaged = DamagedQueue::of(&queue, damage);
                warn!(
                    ?damaged,
                    "a consume queue is damaged; it will be made again from the log"
                );
                report.damaged.push(damaged);
            }
            let queue = Arc::new(queue);
            self.note_changed(&queue);
            let queues = self.topics.entry(queue.topic_arc()).or_default();
            queues.write().insert(queue.queue_id(), queue.clone());
            report.queues += 1;
        }
        info!(
            queues = report.queues,
            damaged = report.damaged.len(),
            "consume queues opened"
        );
        Ok(report)
    }

    /// Opens queues, on several threads if there are many: each takes a few reads.
    fn load_queues(
        &self,
        found: &[FoundQueue],
    ) -> Result<Vec<(ConsumeQueue, Option<Damage>)>, Error> {
        let load = |found: &[FoundQueue]| {
            found
                .iter()
                .map(|(topic, id, files)| {
                    ConsumeQueue::load(self.files.clone(), topic.clone(), *id, files)
                })
                .collect::<Result<Vec<_>, Error>>()
        };
        let threads =
            std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
        if found.len() < MANY_QUEUES || threads < 2 {
            return load(found);
        }
        std::thread::scope(|scope| {
            let share = found.len().div_ceil(threads);
            let workers: Vec<_> = found
                .chunks(share)
                .map(|part| scope.spawn(move || load(part)))
                .collect();
            let mut loaded = Vec::with_capacity(found.len());
            for worker in workers {
                // A panic there is a bug here, and is passed on.
                loaded.extend(
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
                );
            }
            Ok(loaded)
        })
    }

    /// Topic and queue folders.
    fn folders(&self, report: &mut QueuesReport) -> Result<Vec<(Arc<str>, i32)>, Error> {
        let fs = &self.files.fs;
        let mut folders = Vec::new();
        if !fs.exists(&self.files.root) {
            return Ok(folders);
        }
        let list = |dir: &PathBuf| fs.list(dir).map_err(Error::io("list folder", dir));
        for topic in list(&self.files.root)? {
            if !topic.is_dir {
                report.foreign_names += 1;
                continue;
            }
            let name: Arc<str> = topic.name.into();
            for queue in list(&self.files.root.join(&*name))? {
                match queue.name.parse::<i32>() {
                    Ok(id) if queue.is_dir && id >= 0 && id.to_string() == queue.name => {
                        folders.push((name.clone(), id));
                    }
                    _ => report.foreign_names += 1,
                }
            }
        }
        Ok(folders)
    }

    /// If no file has the configured size, the setting is wrong, not the files.
    fn check_sizes(&self, sizes: &HashMap<u64, usize>) -> Result<(), Error> {
        let configured = self.files.file_size as u64;
        if sizes.contains_key(&configured) {
            return Ok(());
        }
        let usable = |size: u64| size > 0 && size.is_multiple_of(UNIT_SIZE as u64);
        let common = sizes
            .iter()
            .filter(|(size, _)| usable(**size))
            .max_by_key(|(_, count)| **count);
        match common {
            None => Ok(()),
            Some((found, _)) => Err(Error::FileSize {
                path: self.files.root.clone(),
                key: SIZE_KEY,
                found: *found,
                configured,
            }),
        }
    }

    fn sync_root(&self) -> Result<(), Error> {
        self.files
            .fs
            .sync_dir(&self.files.root)
            .map_err(Error::io("sync folder", &self.files.root))
    }
}

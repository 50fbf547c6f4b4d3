//! Tests of the parts together.

mod crash;
mod dispatch;
mod fixtures;
mod index;
mod ledgers;
mod queue;
mod times;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use dledger::fs::Fs;

use crate::recovery::{CheckpointTimes, Recovered, StartState};
use crate::testing::TestLog;
use crate::{
    Arrivals, CatchUp, ConsumeQueues, Dispatcher, DispatcherConfig, Error, IndexConfig,
    IndexReport, KeyIndex, MarkFile, QueuesConfig, QueuesReport,
};

/// Sizes of files; small, so that tests cross many of them.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    queue_file: u64,
    slots: u32,
    items: u32,
    /// Bytes of a batch, and of the log between two marks, while catching up.
    batch: usize,
}

/// As in the fixtures.
const FIXTURE_SIZES: Sizes = Sizes {
    queue_file: 6000,
    slots: 1000,
    items: 4000,
    batch: 1 << 20,
};

/// Queues, index and dispatcher over a store folder.
struct Derived {
    queues: Arc<ConsumeQueues>,
    index: Arc<KeyIndex>,
    dispatcher: Dispatcher<TestLog>,
    recovered: Recovered,
    queues_report: QueuesReport,
    index_report: IndexReport,
}

#[derive(Debug, Clone, Copy, Default)]
struct Start {
    unclean: bool,
    checkpoint: CheckpointTimes,
    /// `messageIndexEnable=false`.
    no_index: bool,
}

impl Derived {
    fn open(
        fs: &Arc<dyn Fs>,
        root: &Path,
        sizes: Sizes,
        log: &TestLog,
        start: Start,
    ) -> Result<Derived, Error> {
        Derived::open_with(fs, root, sizes, log, start, Arc::new(()))
    }

    fn open_with(
        fs: &Arc<dyn Fs>,
        root: &Path,
        sizes: Sizes,
        log: &TestLog,
        start: Start,
        listener: Arc<dyn Arrivals>,
    ) -> Result<Derived, Error> {
        let config = QueuesConfig {
            file_size: sizes.queue_file,
            max_open_files: 64,
            ..QueuesConfig::new(root.join("consumequeue"))
        };
        let (queues, queues_report) = ConsumeQueues::open(fs.clone(), &config)?;
        let config = IndexConfig {
            hash_slots: sizes.slots,
            max_items: sizes.items,
            ..IndexConfig::new(root.join("index"))
        };
        let (index, index_report) = KeyIndex::open(fs.clone(), &config)?;
        let (queues, index) = (Arc::new(queues), Arc::new(index));
        let (dispatcher, recovered) = Dispatcher::open(
            Arc::new(log.clone()),
            queues.clone(),
            (!start.no_index).then(|| index.clone()),
            MarkFile::new(fs.clone(), root.join("ledgermq/dispatch-mark")),
            &StartState {
                unclean: start.unclean,
                checkpoint: start.checkpoint,
                redispatch_from: None,
                queues: &queues_report,
                index: &index_report,
                topic_exists: &|_| true,
            },
            DispatcherConfig {
                batch_frames: 7,
                batch_bytes: sizes.batch,
                mark_every_bytes: sizes.batch as i64,
                retry_after: std::time::Duration::from_millis(1),
                ..DispatcherConfig::default()
            },
            listener,
        )?;
        Ok(Derived {
            queues,
            index,
            dispatcher,
            recovered,
            queues_report,
            index_report,
        })
    }

    fn catch_up(&self) -> Result<CatchUp, Error> {
        self.dispatcher.catch_up(&mut |_| ControlFlow::Continue(()))
    }
}

/// Content of all queue files by path, and of the index files in order.
type Contents = (BTreeMap<String, Vec<u8>>, Vec<Vec<u8>>);

fn contents(fs: &dyn Fs, root: &Path) -> Contents {
    let list = |dir: &Path| {
        if fs.exists(dir) {
            fs.list(dir).unwrap()
        } else {
            Vec::new()
        }
    };
    let mut queues = BTreeMap::new();
    let base = root.join("consumequeue");
    for topic in list(&base).into_iter().filter(|entry| entry.is_dir) {
        for queue in list(&base.join(&topic.name))
            .into_iter()
            .filter(|entry| entry.is_dir)
        {
            let dir = base.join(&topic.name).join(&queue.name);
            for file in list(&dir) {
                let bytes = fs.read(&dir.join(&file.name)).unwrap();
                queues.insert(
                    format!("{}/{}/{}", topic.name, queue.name, file.name),
                    bytes,
                );
            }
        }
    }
    let dir = root.join("index");
    let index = list(&dir)
        .iter()
        .map(|file| fs.read(&dir.join(&file.name)).unwrap())
        .collect();
    (queues, index)
}

/// Names the first difference instead of printing megabytes.
fn assert_same(left: &Contents, right: &Contents, what: &str) {
    let names = |contents: &Contents| contents.0.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right), "{what}: queue files");
    for (name, bytes) in &left.0 {
        let other = &right.0[name];
        if let Some(at) = bytes
            .iter()
            .zip(other)
            .position(|(left, right)| left != right)
        {
            panic!("{what}: {name} differs at byte {at}, unit {}", at / 20);
        }
        assert_eq!(bytes.len(), other.len(), "{what}: {name}");
    }
    assert_eq!(left.1.len(), right.1.len(), "{what}: number of index files");
    for (number, (bytes, other)) in left.1.iter().zip(&right.1).enumerate() {
        if let Some(at) = bytes
            .iter()
            .zip(other)
            .position(|(left, right)| left != right)
        {
            panic!("{what}: index file {number} differs at byte {at}");
        }
        assert_eq!(bytes.len(), other.len(), "{what}: index file {number}");
    }
}

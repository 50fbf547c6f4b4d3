//! Consumer offsets: `consumerOffset.json`, commits and queries.

use super::file::{Table, TableError, TableFile};
use super::json::{Map, Node, compact, pretty};
use super::version::DataVersion;
use dledger::fs::Fs;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// Stored; equal to or above what was there.
    Stored,
    /// Stored below what was there.
    Lowered {
        /// The offset before.
        from: i64,
    },
    /// Not stored: negative offsets and queues stand for failures of the client, never for a position.
    Refused,
}

/// Next offset to consume by queue id, of one group in one topic.
#[derive(Debug, Default)]
struct TopicOffsets {
    place: u64,
    queues: RwLock<BTreeMap<i32, i64>>,
}

type ByTopic = HashMap<Box<str>, Arc<TopicOffsets>>;

/// Offsets of all groups. Two levels, so that neither a query nor a commit builds the file's `topic@group` key.
pub struct ConsumerOffsets {
    groups: RwLock<HashMap<Box<str>, ByTopic>>,
    next_place: AtomicU64,
    head: Mutex<Head>,
    file: TableFile,
}

/// What the file holds beside the offsets.
#[derive(Default)]
struct Head {
    /// Keys of the table that are not `topic@group`, preserved.
    odd_keys: Vec<(String, Node)>,
    /// Unknown top-level members.
    unknown: Vec<(String, Node)>,
    /// 5.x: present in the file, so written back.
    version: Option<DataVersion>,
    /// 5.x: derived from the table; written if the file had it.
    group_topic_map: bool,
}

impl ConsumerOffsets {
    /// Loads `consumerOffset.json` from `config_dir`.
    pub fn open(fs: Arc<dyn Fs>, config_dir: &Path) -> Result<Self, TableError> {
        let file = TableFile::new(fs, config_dir.join("consumerOffset.json"));
        let (map, _) = file.load(|map| match map.get("offsetTable") {
            None | Some(Node::Map(_) | Node::Null) => Ok(()),
            Some(_) => Err("offsetTable is no object".into()),
        })?;
        let table = Self {
            groups: RwLock::new(HashMap::new()),
            next_place: AtomicU64::new(0),
            head: Mutex::new(Head::default()),
            file,
        };
        if let Some(map) = &map {
            table.fill(map);
        }
        Ok(table)
    }

    fn fill(&self, map: &Map) {
        let mut head = self.head.lock();
        for (key, node) in map
            .get("offsetTable")
            .and_then(Node::as_map)
            .into_iter()
            .flat_map(Map::iter)
        {
            match (split_key(key), node.as_map()) {
                (Some((topic, group)), Some(queues)) => {
                    let offsets = self.slot(group, topic);
                    let pairs = queues
                        .iter()
                        .filter_map(|(q, o)| Some((q.parse().ok()?, o.as_i64()?)));
                    offsets.queues.write().extend(pairs);
                }
                _ => head.odd_keys.push((key.to_string(), node.clone())),
            }
        }
        head.version = map
            .get("dataVersion")
            .and_then(Node::as_map)
            .map(DataVersion::from_map);
        head.group_topic_map = map.get("groupTopicMap").is_some();
        let known = ["offsetTable", "dataVersion", "groupTopicMap"];
        let unknown = map.iter().filter(|(k, _)| !known.contains(k));
        head.unknown = unknown.map(|(k, v)| (k.to_string(), v.clone())).collect();
    }

    fn find(&self, group: &str, topic: &str) -> Option<Arc<TopicOffsets>> {
        self.groups
            .read()
            .get(group)
            .and_then(|topics| topics.get(topic))
            .map(Arc::clone)
    }

    fn slot(&self, group: &str, topic: &str) -> Arc<TopicOffsets> {
        if let Some(found) = self.find(group, topic) {
            return found;
        }
        let mut groups = self.groups.write();
        let topics = groups.entry(group.into()).or_default();
        let new = || {
            let place = self.next_place.fetch_add(1, Ordering::Relaxed);
            Arc::new(TopicOffsets {
                place,
                queues: RwLock::default(),
            })
        };
        Arc::clone(topics.entry(topic.into()).or_insert_with(new))
    }

    /// The committed offset of a queue; `None` if there is none.
    pub fn query(&self, group: &str, topic: &str, queue: i32) -> Option<i64> {
        self.find(group, topic)?.queues.read().get(&queue).copied()
    }

    /// Stores an offset.
    pub fn commit(&self, group: &str, topic: &str, queue: i32, offset: i64) -> Commit {
        if offset < 0 || queue < 0 {
            return Commit::Refused;
        }
        let old = self.slot(group, topic).queues.write().insert(queue, offset);
        if old != Some(offset) {
            self.file.changed();
        }
        match old {
            Some(from) if from > offset => Commit::Lowered { from },
            _ => Commit::Stored,
        }
    }

    /// Offsets of one group in one topic, by queue id.
    pub fn queues(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        self.find(group, topic)
            .map(|o| o.queues.read().clone())
            .unwrap_or_default()
    }

    /// Topics in which a group has offsets.
    pub fn topics_of(&self, group: &str) -> BTreeSet<String> {
        let groups = self.groups.read();
        groups
            .get(group)
            .into_iter()
            .flat_map(|topics| topics.keys())
            .map(|t| t.to_string())
            .collect()
    }

    /// Groups that have offsets in a topic.
    pub fn groups_of(&self, topic: &str) -> BTreeSet<String> {
        let groups = self.groups.read();
        groups
            .iter()
            .filter(|(_, topics)| topics.contains_key(topic))
            .map(|(g, _)| g.to_string())
            .collect()
    }

    /// Forgets a group.
    pub fn remove_group(&self, group: &str) -> bool {
        let removed = self.groups.write().remove(group).is_some();
        if removed {
            self.file.changed();
        }
        removed
    }

    /// Forgets a topic in all groups.
    pub fn remove_topic(&self, topic: &str) -> bool {
        let mut groups = self.groups.write();
        let removed = groups
            .values_mut()
            .filter_map(|topics| topics.remove(topic))
            .count()
            > 0;
        if removed {
            groups.retain(|_, topics| !topics.is_empty());
            self.file.changed();
        }
        removed
    }

    /// Copies the offsets of `from` in `topic` to `to` (request 314).
    pub fn copy(&self, from: &str, to: &str, topic: &str) {
        let offsets = self.queues(from, topic);
        if !offsets.is_empty() {
            *self.slot(to, topic).queues.write() = offsets;
            self.file.changed();
        }
    }

    /// Body of the answer to request 43.
    pub fn body(&self) -> String {
        let head = self.head.lock();
        let mut map = Map::new();
        if let Some(version) = &head.version {
            map.push("dataVersion", version.to_map());
        }
        map.push("offsetTable", self.table(&head));
        compact(&map)
    }

    fn table(&self, head: &Head) -> Map {
        let mut all: Vec<(u64, String, Arc<TopicOffsets>)> = Vec::new();
        for (group, topics) in self.groups.read().iter() {
            all.extend(
                topics
                    .iter()
                    .map(|(topic, o)| (o.place, format!("{topic}@{group}"), Arc::clone(o))),
            );
        }
        all.sort_unstable_by_key(|(place, ..)| *place);
        let mut table = Map::new();
        for (_, key, offsets) in all {
            let mut queues = Map::new();
            offsets
                .queues
                .read()
                .iter()
                .for_each(|(q, o)| queues.push_integer((*q).into(), *o));
            table.push(&key, queues);
        }
        head.odd_keys
            .iter()
            .for_each(|(key, node)| table.push(key, node.clone()));
        table
    }

    fn group_topics(&self) -> Map {
        let groups = self.groups.read();
        let mut map = Map::new();
        let sorted: BTreeMap<_, _> = groups.iter().collect();
        for (group, topics) in sorted {
            let names: BTreeSet<&str> = topics.keys().map(AsRef::as_ref).collect();
            map.push(
                group,
                Node::List(names.into_iter().map(Node::from).collect()),
            );
        }
        map
    }
}

impl Table for ConsumerOffsets {
    fn file(&self) -> &TableFile {
        &self.file
    }

    fn render(&self) -> String {
        let dirty = self.file.is_dirty();
        let mut head = self.head.lock();
        let table = self.table(&head);
        let mut map = Map::new();
        if let Some(version) = head.version.as_mut() {
            if dirty {
                version.next();
            }
            map.push("dataVersion", version.to_map());
        }
        if head.group_topic_map {
            map.push("groupTopicMap", self.group_topics());
        }
        map.push("offsetTable", table);
        for (key, value) in &head.unknown {
            map.set_member(key, value.clone());
        }
        pretty(&map)
    }
}

impl std::fmt::Debug for ConsumerOffsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerOffsets")
            .field("groups", &self.groups.read().len())
            .finish_non_exhaustive()
    }
}

/// `topic@group`, which must have exactly two parts.
fn split_key(key: &str) -> Option<(&str, &str)> {
    let (topic, group) = key.split_once('@')?;
    (!topic.is_empty() && !group.is_empty() && !group.contains('@')).then_some((topic, group))
}

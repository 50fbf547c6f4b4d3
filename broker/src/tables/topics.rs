//! The topic table: `topics.json`, automatic creation, built-in topics.

use super::file::{Origin, Table, TableError, TableFile};
use super::json::{Map, Node, compact, pretty};
use super::topic::{TopicConfig, perm};
use super::version::DataVersion;
use crate::config::BrokerConfig;
use dashmap::DashMap;
use dledger::fs::Fs;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The topic whose settings new topics are created after.
pub const TBW102: &str = "TBW102";
/// Where delayed messages wait.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Queues of [`SCHEDULE_TOPIC`]: Java's constant, whatever the number of levels.
const SCHEDULE_QUEUES: i32 = 18;
/// Prefix of retry topics.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Prefix of dead letter topics.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Topics that may not be changed or deleted, beside those that depend on the configuration.
const SYSTEM_TOPICS: [&str; 9] = [
    TBW102,
    SCHEDULE_TOPIC,
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];
/// `topicSysFlag`: the topic is a unit.
const FLAG_UNIT: i32 = 1;
/// `topicSysFlag`: the topic has a unit subscription.
const FLAG_UNIT_SUB: i32 = 2;

/// A change of the table, told to listeners while the table is locked: they must be quick and not call back.
#[derive(Debug, Clone)]
pub enum TopicChange {
    /// A topic is new or different.
    Put(Arc<TopicConfig>),
    /// A topic is gone.
    Removed(Arc<TopicConfig>),
}

/// Why a topic was not created by a send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCreated {
    /// The topic to create it after does not exist.
    #[error("the default topic does not exist")]
    NoDefault,
    /// The topic to create it after does not allow it.
    #[error("no permission to use the default topic")]
    NotInheritable,
}

type Listener = Box<dyn Fn(&TopicChange, &DataVersion) + Send + Sync>;

struct Entry {
    /// Place in the file.
    place: u64,
    config: Arc<TopicConfig>,
}

struct Head {
    version: DataVersion,
    next_place: u64,
    /// Top-level members of the file that are not known.
    unknown: Vec<(String, Node)>,
}

/// All topics of the broker. Reading is cheap and takes no lock of the whole table.
pub struct TopicTable {
    topics: DashMap<Box<str>, Entry>,
    /// Guards changes: version and table move together.
    head: Mutex<Head>,
    listeners: RwLock<Vec<Listener>>,
    /// System topics that depend on names in the configuration.
    own_system_topics: BTreeSet<String>,
    file: TableFile,
}

impl TopicTable {
    /// Loads `topics.json` from `config_dir` and adds the built-in topics that are missing.
    pub fn open(
        fs: Arc<dyn Fs>,
        config_dir: &Path,
        config: &BrokerConfig,
    ) -> Result<Self, TableError> {
        let file = TableFile::new(fs, config_dir.join("topics.json"));
        let (map, origin) = file.load(|map| match map.get("topicConfigTable") {
            None | Some(Node::Map(_) | Node::Null) => Ok(()),
            Some(_) => Err("topicConfigTable is no object".into()),
        })?;
        let builtin = builtin_topics(config);
        let table = Self {
            topics: DashMap::new(),
            head: Mutex::new(Head {
                version: DataVersion::now(),
                next_place: 0,
                unknown: Vec::new(),
            }),
            listeners: RwLock::new(Vec::new()),
            own_system_topics: builtin.iter().map(|t| t.name.clone()).collect(),
            file,
        };
        if let Some(map) = &map {
            table.fill(map);
        }
        table.add_builtin(builtin, origin);
        table.follow(config);
        Ok(table)
    }

    fn fill(&self, map: &Map) {
        let mut head = self.head.lock();
        for (name, node) in map
            .get("topicConfigTable")
            .and_then(Node::as_map)
            .into_iter()
            .flat_map(Map::iter)
        {
            if let Some(topic) = node.as_map() {
                insert(&self.topics, &mut head, TopicConfig::from_map(name, topic));
            }
        }
        if let Some(version) = map.get("dataVersion").and_then(Node::as_map) {
            head.version = DataVersion::from_map(version);
        }
        let known = ["dataVersion", "topicConfigTable"];
        let unknown = map.iter().filter(|(k, _)| !known.contains(k));
        head.unknown = unknown.map(|(k, v)| (k.to_string(), v.clone())).collect();
    }

    /// Adds what is missing; a table from a file that lacked some is a changed table.
    fn add_builtin(&self, builtin: Vec<TopicConfig>, origin: Origin) {
        let mut head = self.head.lock();
        let missing: Vec<_> = builtin
            .into_iter()
            .filter(|t| !self.topics.contains_key(t.name.as_str()))
            .collect();
        if missing.is_empty() && matches!(origin, Origin::File) {
            return;
        }
        let grown = !missing.is_empty() && origin != Origin::New;
        missing
            .into_iter()
            .for_each(|topic| insert(&self.topics, &mut head, topic));
        if grown {
            head.version.next();
        }
        self.file.changed();
    }

    /// Makes TBW102 what the configuration says now (at the start, and after an online update): there and inheritable
    /// with automatic creation, otherwise not inheritable, so that clients do not even try.
    pub fn follow(&self, config: &BrokerConfig) {
        let mut head = self.head.lock();
        let wanted = match self.get(TBW102) {
            Some(topic) => {
                let open = perm::INHERIT | perm::READ | perm::WRITE;
                let closed = topic.perm & !perm::INHERIT;
                let perm = if config.auto_create_topic_enable {
                    open
                } else {
                    closed
                };
                (*topic).clone().with_perm(perm)
            }
            None if config.auto_create_topic_enable => default_topic(config),
            None => return,
        };
        if self.get(TBW102).is_none_or(|topic| *topic != wanted) {
            self.change(&mut head, wanted);
        }
    }

    /// Calls `listener` at each later change, with the version that the change made.
    pub fn listen(&self, listener: impl Fn(&TopicChange, &DataVersion) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// The configuration of a topic.
    pub fn get(&self, topic: &str) -> Option<Arc<TopicConfig>> {
        self.topics
            .get(topic)
            .map(|entry| Arc::clone(&entry.config))
    }

    /// Whether the topic exists.
    pub fn contains(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    /// Number of topics.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there is none; never after [`TopicTable::open`].
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// The version now.
    pub fn version(&self) -> DataVersion {
        self.head.lock().version.clone()
    }

    /// All topics in the order of the file, with the version that they make up.
    pub fn snapshot(&self) -> (DataVersion, Vec<Arc<TopicConfig>>) {
        self.snapshot_with(|| ())
    }

    /// The same; `at` runs while the table stands still.
    pub fn snapshot_with(&self, at: impl FnOnce()) -> (DataVersion, Vec<Arc<TopicConfig>>) {
        let head = self.head.lock();
        at();
        (head.version.clone(), self.in_order())
    }

    /// The topics that `names` gives while the table stands still, as far as they exist, with the version.
    pub fn snapshot_of(
        &self,
        names: impl FnOnce() -> HashSet<String>,
    ) -> (DataVersion, Vec<Arc<TopicConfig>>) {
        let head = self.head.lock();
        let topics = names().iter().filter_map(|name| self.get(name)).collect();
        (head.version.clone(), topics)
    }

    /// Makes a new version of an unchanged table, so that name servers look at it again.
    pub fn bump(&self) {
        self.head.lock().version.next();
        self.file.changed();
    }

    fn in_order(&self) -> Vec<Arc<TopicConfig>> {
        let mut all: Vec<_> = self
            .topics
            .iter()
            .map(|e| (e.place, Arc::clone(&e.config)))
            .collect();
        all.sort_unstable_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, config)| config).collect()
    }

    /// Creates a topic or changes it (request 17). True if anything is different now. Members of the old definition
    /// that the new one does not carry survive.
    pub fn put(&self, mut topic: TopicConfig) -> bool {
        let mut head = self.head.lock();
        if let Some(old) = self.get(&topic.name) {
            topic.keep_unknown_of(&old);
            if *old == topic {
                return false;
            }
        }
        self.change(&mut head, topic);
        true
    }

    /// Removes a topic (request 215); `None` if there was none.
    pub fn remove(&self, topic: &str) -> Option<Arc<TopicConfig>> {
        let mut head = self.head.lock();
        let (_, entry) = self.topics.remove(topic)?;
        head.version.next();
        self.file.changed();
        self.tell(
            &TopicChange::Removed(Arc::clone(&entry.config)),
            &head.version,
        );
        Some(entry.config)
    }

    /// Creates the topic of a send that does not exist yet, after `default_topic`, or finds it created meanwhile.
    /// `queues` and `unit` are those of the request.
    pub fn create_for_send(
        &self,
        config: &BrokerConfig,
        topic: &str,
        default_topic: &str,
        queues: i32,
        unit: bool,
    ) -> Result<Arc<TopicConfig>, NotCreated> {
        let mut head = self.head.lock();
        if let Some(found) = self.get(topic) {
            return Ok(found);
        }
        let created = match self.inheritable(config, default_topic) {
            Ok(default) => {
                let queues = queues.min(default.write_queues).max(0);
                let mut new =
                    TopicConfig::new(topic, queues).with_perm(default.perm & !perm::INHERIT);
                new.sys_flag = if unit { FLAG_UNIT } else { 0 };
                new.filter_type.clone_from(&default.filter_type);
                new
            }
            Err(_) if topic.starts_with(RETRY_PREFIX) => {
                let mut new = TopicConfig::new(topic, 1);
                new.sys_flag = if unit { FLAG_UNIT_SUB } else { 0 };
                new
            }
            Err(refused) => return Err(refused),
        };
        Ok(self.change(&mut head, created))
    }

    /// The topic to create others after. TBW102 that survives in a file although automatic creation is off does not
    /// count as one.
    fn inheritable(
        &self,
        config: &BrokerConfig,
        topic: &str,
    ) -> Result<Arc<TopicConfig>, NotCreated> {
        let default = self.get(topic).ok_or(NotCreated::NoDefault)?;
        let switched_off = topic == TBW102 && !config.auto_create_topic_enable;
        if default.perm & perm::INHERIT == 0 || switched_off {
            return Err(NotCreated::NotInheritable);
        }
        Ok(default)
    }

    /// The retry or dead letter topic of a group (or another internal one): found, or created with `queues` queues.
    pub fn create_internal(&self, topic: &str, queues: i32, unit_sub: bool) -> Arc<TopicConfig> {
        if let Some(found) = self.get(topic) {
            return found;
        }
        let mut head = self.head.lock();
        if let Some(found) = self.get(topic) {
            return found;
        }
        let mut new = TopicConfig::new(topic, queues.max(1));
        new.sys_flag = if unit_sub { FLAG_UNIT_SUB } else { 0 };
        self.change(&mut head, new)
    }

    /// Marks as order topics those that name servers list so (the answer to a registration). Unlisted ones stay as
    /// they are, as in 5.x.
    pub fn apply_order<'a>(&self, listed: impl Iterator<Item = &'a str>) {
        for topic in listed {
            let mut head = self.head.lock();
            if let Some(old) = self.get(topic).filter(|t| !t.order) {
                let mut new = (*old).clone();
                new.order = true;
                self.change(&mut head, new);
            }
        }
    }

    fn change(&self, head: &mut Head, topic: TopicConfig) -> Arc<TopicConfig> {
        let topic = Arc::new(topic);
        insert_shared(&self.topics, head, Arc::clone(&topic));
        head.version.next();
        self.file.changed();
        self.tell(&TopicChange::Put(Arc::clone(&topic)), &head.version);
        topic
    }

    fn tell(&self, change: &TopicChange, version: &DataVersion) {
        self.listeners
            .read()
            .iter()
            .for_each(|listener| listener(change, version));
    }

    /// Whether a topic may not be changed, deleted or cleaned.
    pub fn is_system(&self, topic: &str) -> bool {
        SYSTEM_TOPICS.contains(&topic)
            || topic.starts_with("rmq_sys_")
            || self.own_system_topics.contains(topic)
    }

    /// The system topics, for request 305.
    pub fn system_topics(&self) -> Vec<String> {
        let fixed = SYSTEM_TOPICS.iter().map(|t| t.to_string());
        fixed
            .chain(self.own_system_topics.iter().cloned())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Body of the answer to request 21.
    pub fn body(&self) -> String {
        compact(&self.to_map(false))
    }

    fn to_map(&self, file: bool) -> Map {
        let head = self.head.lock();
        let mut table = Map::new();
        self.in_order()
            .iter()
            .for_each(|t| table.push(&t.name, t.to_map()));
        let mut map = Map::new()
            .with("dataVersion", head.version.to_map())
            .with("topicConfigTable", table);
        for (key, value) in head.unknown.iter().filter(|_| file) {
            map.set_member(key, value.clone());
        }
        map
    }
}

impl Table for TopicTable {
    fn file(&self) -> &TableFile {
        &self.file
    }

    fn render(&self) -> String {
        pretty(&self.to_map(true))
    }
}

impl std::fmt::Debug for TopicTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicTable")
            .field("topics", &self.topics.len())
            .finish_non_exhaustive()
    }
}

fn insert(topics: &DashMap<Box<str>, Entry>, head: &mut Head, topic: TopicConfig) {
    insert_shared(topics, head, Arc::new(topic));
}

/// A topic that exists keeps its place in the file.
fn insert_shared(topics: &DashMap<Box<str>, Entry>, head: &mut Head, topic: Arc<TopicConfig>) {
    if let Some(mut entry) = topics.get_mut(topic.name.as_str()) {
        entry.config = topic;
        return;
    }
    let place = head.next_place;
    head.next_place += 1;
    topics.insert(
        topic.name.as_str().into(),
        Entry {
            place,
            config: topic,
        },
    );
}

fn default_topic(config: &BrokerConfig) -> TopicConfig {
    let all = perm::INHERIT | perm::READ | perm::WRITE;
    TopicConfig::new(TBW102, config.default_topic_queue_nums).with_perm(all)
}

/// The topics that every broker has, as its configuration names them.
fn builtin_topics(config: &BrokerConfig) -> Vec<TopicConfig> {
    let open = |enabled: bool| perm::INHERIT | if enabled { perm::READ | perm::WRITE } else { 0 };
    let mut topics = vec![TopicConfig::new("SELF_TEST_TOPIC", 1)];
    if config.auto_create_topic_enable {
        topics.push(default_topic(config));
    }
    topics.push(TopicConfig::new("BenchmarkTest", 1024));
    topics.push(
        TopicConfig::new(&config.broker_cluster_name, 16)
            .with_perm(open(config.cluster_topic_enable)),
    );
    topics
        .push(TopicConfig::new(&config.broker_name, 1).with_perm(open(config.broker_topic_enable)));
    topics.push(TopicConfig::new("OFFSET_MOVED_EVENT", 1));
    topics.push(TopicConfig::new(SCHEDULE_TOPIC, SCHEDULE_QUEUES));
    if config.trace_topic_enable {
        topics.push(TopicConfig::new(&config.msg_trace_topic_name, 1));
    }
    topics.push(TopicConfig::new(
        format!("{}_REPLY_TOPIC", config.broker_cluster_name),
        1,
    ));
    topics
}

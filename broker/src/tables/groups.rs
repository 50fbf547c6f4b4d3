//! The table of consumer groups: `subscriptionGroup.json`, built-in groups, automatic creation.

use super::file::{Origin, Table, TableError, TableFile};
use super::group::GroupConfig;
use super::json::{Map, Node, compact, pretty};
use super::version::DataVersion;
use crate::config::BrokerConfig;
use dashmap::DashMap;
use dledger::fs::Fs;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

/// Groups that exist from the start.
const BUILTIN: [&str; 7] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
];
/// Groups with this prefix are created even when automatic creation is off.
const SYSTEM_PREFIX: &str = "CID_RMQ_SYS_";

struct Entry {
    place: u64,
    config: Arc<GroupConfig>,
}

struct Head {
    version: DataVersion,
    next_place: u64,
    unknown: Vec<(String, Node)>,
}

/// All consumer groups that the broker knows.
pub struct GroupTable {
    groups: DashMap<Box<str>, Entry>,
    head: Mutex<Head>,
    file: TableFile,
}

impl GroupTable {
    /// Loads `subscriptionGroup.json` from `config_dir` and adds the built-in groups that are missing.
    pub fn open(fs: Arc<dyn Fs>, config_dir: &Path) -> Result<Self, TableError> {
        let file = TableFile::new(fs, config_dir.join("subscriptionGroup.json"));
        let (map, origin) = file.load(|map| match map.get("subscriptionGroupTable") {
            None | Some(Node::Map(_) | Node::Null) => Ok(()),
            Some(_) => Err("subscriptionGroupTable is no object".into()),
        })?;
        let mut head = Head {
            version: DataVersion::now(),
            next_place: 0,
            unknown: Vec::new(),
        };
        let groups = DashMap::new();
        if let Some(map) = &map {
            for (name, node) in map
                .get("subscriptionGroupTable")
                .and_then(Node::as_map)
                .into_iter()
                .flat_map(Map::iter)
            {
                if let Some(group) = node.as_map() {
                    insert(
                        &groups,
                        &mut head,
                        Arc::new(GroupConfig::from_map(name, group)),
                    );
                }
            }
            if let Some(version) = map.get("dataVersion").and_then(Node::as_map) {
                head.version = DataVersion::from_map(version);
            }
            let known = ["dataVersion", "subscriptionGroupTable"];
            let unknown = map.iter().filter(|(k, _)| !known.contains(k));
            head.unknown = unknown.map(|(k, v)| (k.to_string(), v.clone())).collect();
        }
        let missing: Vec<_> = BUILTIN
            .iter()
            .filter(|g| !groups.contains_key(**g))
            .collect();
        let grown = !missing.is_empty();
        missing
            .into_iter()
            .for_each(|g| insert(&groups, &mut head, Arc::new(GroupConfig::new(*g))));
        if grown && origin != Origin::New {
            head.version.next();
        }
        let table = Self {
            groups,
            head: Mutex::new(head),
            file,
        };
        if grown || origin != Origin::File {
            table.file.changed();
        }
        Ok(table)
    }

    /// The configuration of a group.
    pub fn get(&self, group: &str) -> Option<Arc<GroupConfig>> {
        self.groups
            .get(group)
            .map(|entry| Arc::clone(&entry.config))
    }

    /// The configuration of a group that is being used: created if the configuration allows it.
    pub fn get_or_create(&self, config: &BrokerConfig, group: &str) -> Option<Arc<GroupConfig>> {
        if let Some(found) = self.get(group) {
            return Some(found);
        }
        if !config.auto_create_subscription_group && !group.starts_with(SYSTEM_PREFIX) {
            return None;
        }
        let mut head = self.head.lock();
        if let Some(found) = self.get(group) {
            return Some(found);
        }
        Some(self.change(&mut head, GroupConfig::new(group)))
    }

    /// Creates a group or changes it (request 200). True if anything is different now.
    pub fn put(&self, mut group: GroupConfig) -> bool {
        let mut head = self.head.lock();
        if let Some(old) = self.get(&group.name) {
            group.keep_unknown_of(&old);
            if *old == group {
                return false;
            }
        }
        self.change(&mut head, group);
        true
    }

    /// Removes a group (request 207); false if there was none.
    pub fn remove(&self, group: &str) -> bool {
        let mut head = self.head.lock();
        let removed = self.groups.remove(group).is_some();
        if removed {
            head.version.next();
            self.file.changed();
        }
        removed
    }

    fn change(&self, head: &mut Head, group: GroupConfig) -> Arc<GroupConfig> {
        let group = Arc::new(group);
        insert(&self.groups, head, Arc::clone(&group));
        head.version.next();
        self.file.changed();
        group
    }

    /// All groups in the order of the file.
    pub fn all(&self) -> Vec<Arc<GroupConfig>> {
        let mut all: Vec<_> = self
            .groups
            .iter()
            .map(|e| (e.place, Arc::clone(&e.config)))
            .collect();
        all.sort_unstable_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, config)| config).collect()
    }

    /// The version now.
    pub fn version(&self) -> DataVersion {
        self.head.lock().version.clone()
    }

    /// Body of the answer to request 201.
    pub fn body(&self) -> String {
        compact(&self.to_map())
    }

    fn to_map(&self) -> Map {
        let head = self.head.lock();
        let mut table = Map::new();
        self.all()
            .iter()
            .for_each(|g| table.push(&g.name, g.to_map()));
        let mut map = Map::new()
            .with("dataVersion", head.version.to_map())
            .with("subscriptionGroupTable", table);
        for (key, value) in &head.unknown {
            map.set_member(key, value.clone());
        }
        map
    }
}

impl Table for GroupTable {
    fn file(&self) -> &TableFile {
        &self.file
    }

    fn render(&self) -> String {
        pretty(&self.to_map())
    }
}

impl std::fmt::Debug for GroupTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupTable")
            .field("groups", &self.groups.len())
            .finish_non_exhaustive()
    }
}

/// A group that exists keeps its place in the file.
fn insert(groups: &DashMap<Box<str>, Entry>, head: &mut Head, group: Arc<GroupConfig>) {
    if let Some(mut entry) = groups.get_mut(group.name.as_str()) {
        entry.config = group;
        return;
    }
    let place = head.next_place;
    head.next_place += 1;
    groups.insert(
        group.name.as_str().into(),
        Entry {
            place,
            config: group,
        },
    );
}

//! The name server's key-value configuration: namespaces of pairs, kept in a file of its own.
//!
//! Format: Java's `kvConfig.json`, `{"configTable":{"namespace":{"key":"value"}}}`.

use crate::tables::json::{Map, Node, pretty};
use crate::tables::{Table, TableError, TableFile};
use dledger::fs::Fs;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Namespace of the order topics.
pub const ORDER_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// The pairs.
#[derive(Debug)]
pub struct KvConfig {
    namespaces: RwLock<Namespaces>,
    file: TableFile,
}

impl KvConfig {
    /// Loads the file, if there is one.
    pub fn open(fs: Arc<dyn Fs>, path: PathBuf) -> Result<Self, TableError> {
        let file = TableFile::new(fs, path);
        let (map, _) = file.load(|map| match map.get("configTable") {
            None | Some(Node::Map(_) | Node::Null) => Ok(()),
            Some(_) => Err("configTable is no object".into()),
        })?;
        let mut namespaces = Namespaces::new();
        let table = map
            .as_ref()
            .and_then(|m| m.get("configTable"))
            .and_then(Node::as_map);
        for (namespace, pairs) in table.into_iter().flat_map(Map::iter) {
            let pairs = pairs.as_map().into_iter().flat_map(Map::iter);
            let pairs = pairs.filter_map(|(k, v)| Some((k.to_string(), v.as_str()?.to_string())));
            namespaces.insert(namespace.to_string(), pairs.collect());
        }
        Ok(Self {
            namespaces: RwLock::new(namespaces),
            file,
        })
    }

    /// Sets a pair.
    pub fn put(&self, namespace: &str, key: &str, value: &str) {
        let mut namespaces = self.namespaces.write();
        namespaces
            .entry(namespace.to_string())
            .or_default()
            .insert(key.to_string(), value.to_string());
        self.file.changed();
    }

    /// The value of a key.
    pub fn get(&self, namespace: &str, key: &str) -> Option<String> {
        self.namespaces
            .read()
            .get(namespace)
            .and_then(|pairs| pairs.get(key))
            .cloned()
    }

    /// Removes a pair.
    pub fn delete(&self, namespace: &str, key: &str) {
        if let Some(pairs) = self.namespaces.write().get_mut(namespace)
            && pairs.remove(key).is_some()
        {
            self.file.changed();
        }
    }

    /// All pairs of a namespace as a KVTable; `None` if it does not exist.
    pub fn table(&self, namespace: &str) -> Option<String> {
        let namespaces = self.namespaces.read();
        let pairs = namespaces.get(namespace)?;
        Some(super::render::kv_table(
            pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())),
        ))
    }

    /// Keys of a namespace.
    pub fn keys(&self, namespace: &str) -> Vec<String> {
        self.namespaces
            .read()
            .get(namespace)
            .map(|pairs| pairs.keys().cloned().collect())
            .unwrap_or_default()
    }
}

impl Table for KvConfig {
    fn file(&self) -> &TableFile {
        &self.file
    }

    fn render(&self) -> String {
        let mut table = Map::new();
        for (namespace, pairs) in self.namespaces.read().iter() {
            let mut map = Map::new();
            pairs.iter().for_each(|(k, v)| map.push(k, v.as_str()));
            table.push(namespace, map);
        }
        pretty(&Map::new().with("configTable", table))
    }
}

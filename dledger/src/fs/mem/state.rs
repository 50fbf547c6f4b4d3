//! Names, capacity and faults.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rand::Rng;

use super::CrashPolicy;
use super::node::{Node, PAGE};
use crate::fs::DirEntry;
use crate::fs::real::parent;

pub(super) type NodeId = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Dir,
    File(NodeId),
}

/// A change of a directory that is not durable yet.
#[derive(Debug, Clone)]
enum Change {
    Create(PathBuf, NodeId),
    Remove(PathBuf),
    RemoveTree(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    fn dir(&self) -> &Path {
        match self {
            Change::Create(path, _) | Change::Remove(path) | Change::RemoveTree(path) => {
                parent(path)
            }
            Change::Rename(_, to) => parent(to),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Name>) {
        match self {
            Change::Create(path, node) => {
                names.insert(path.clone(), Name::File(*node));
            }
            Change::Remove(path) => {
                names.remove(path);
            }
            Change::RemoveTree(path) => names.retain(|name, _| !name.starts_with(path)),
            Change::Rename(from, to) => {
                if let Some(name) = names.remove(from) {
                    names.insert(to.clone(), name);
                }
            }
        }
    }
}

/// Everything behind the lock of a [`super::MemFs`].
#[derive(Debug)]
pub(super) struct State {
    names: BTreeMap<PathBuf, Name>,
    durable: BTreeMap<PathBuf, Name>,
    pending: Vec<Change>,
    /// Unlinked files stay here while someone may still use them; tests are short.
    nodes: BTreeMap<NodeId, Node>,
    next_node: NodeId,
    pub(super) ops: u64,
    pub(super) stop_at: Option<u64>,
    pub(super) stopped: bool,
    pub(super) failing_syncs: u32,
    pub(super) capacity: Option<u64>,
    pub(super) clock_ms: i64,
}

impl Default for State {
    fn default() -> Self {
        State {
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            nodes: BTreeMap::new(),
            next_node: 0,
            ops: 0,
            stop_at: None,
            stopped: false,
            failing_syncs: 0,
            capacity: None,
            clock_ms: 1_700_000_000_000,
        }
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("no such file: {}", path.display()),
    )
}

impl State {
    /// Counts a changing operation; an error when the disk has stopped.
    pub(super) fn op(&mut self) -> io::Result<()> {
        if self.stop_at.is_some_and(|at| self.ops >= at) {
            self.stopped = true;
            return Err(io::Error::other("the disk has stopped"));
        }
        self.ops += 1;
        Ok(())
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.entry(id).or_default()
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<NodeId> {
        match self.names.get(path) {
            Some(Name::File(node)) => Ok(*node),
            Some(Name::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found(path)),
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let is_file =
            |(path, name): (&PathBuf, &Name)| matches!(name, Name::File(_)).then(|| path.clone());
        self.names.iter().filter_map(is_file).collect()
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        if self.names.get(dir) != Some(&Name::Dir) {
            return Err(not_found(dir));
        }
        let mut entries = Vec::new();
        for (path, name) in self.names.range(dir.to_owned()..) {
            if !path.starts_with(dir) {
                break;
            }
            if path == dir || parent(path) != dir {
                continue;
            }
            let file_name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            entries.push(match name {
                Name::Dir => DirEntry {
                    name: file_name,
                    len: 0,
                    is_dir: true,
                    modified_ms: 0,
                },
                Name::File(node) => {
                    let node = self.node(*node);
                    DirEntry {
                        name: file_name,
                        len: node.len,
                        is_dir: false,
                        modified_ms: node.modified_ms,
                    }
                }
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        if self.names.get(dir) == Some(&Name::Dir) {
            return Ok(());
        }
        if self.exists(dir) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(up) = dir.parent() {
            self.create_dir_all(up)?;
        }
        self.op()?;
        self.names.insert(dir.to_owned(), Name::Dir);
        self.durable.insert(dir.to_owned(), Name::Dir);
        Ok(())
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        self.op()?;
        change.apply(&mut self.names);
        self.pending.push(change);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        self.change(Change::Remove(path.to_owned()))
    }

    pub(super) fn remove_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        if self.names.get(dir) != Some(&Name::Dir) {
            return Err(not_found(dir));
        }
        self.change(Change::RemoveTree(dir.to_owned()))
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.file(from)?;
        self.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.op()?;
        if self.names.get(dir) != Some(&Name::Dir) {
            return Err(not_found(dir));
        }
        let (now, later): (Vec<_>, Vec<_>) = self
            .pending
            .drain(..)
            .partition(|change| change.dir() == dir);
        self.pending = later;
        for change in now {
            change.apply(&mut self.durable);
        }
        Ok(())
    }

    pub(super) fn open(&mut self, path: &Path, create: bool) -> io::Result<NodeId> {
        match self.file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && create => {}
            other => return other,
        }
        if self.names.get(parent(path)) != Some(&Name::Dir) {
            return Err(not_found(parent(path)));
        }
        let node = self.next_node;
        self.change(Change::Create(path.to_owned(), node))?;
        self.next_node += 1;
        let modified_ms = self.clock_ms;
        self.node_mut(node).modified_ms = modified_ms;
        Ok(node)
    }

    pub(super) fn used(&self) -> u64 {
        let node = |name: &Name| match name {
            Name::File(node) => self.node(*node).used(),
            Name::Dir => 0,
        };
        self.names.values().map(node).sum()
    }

    fn claim(&self, id: NodeId, offset: u64, len: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else {
            return Ok(());
        };
        let more = self.node(id).missing_pages(offset, len) * PAGE;
        if more > 0 && self.used() + more > capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn write(&mut self, id: NodeId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.op()?;
        self.claim(id, offset, bytes.len() as u64)?;
        let clock = self.clock_ms;
        let node = self.node_mut(id);
        node.modified_ms = clock;
        node.write(offset, bytes);
        Ok(())
    }

    pub(super) fn reserve(&mut self, id: NodeId, offset: u64, len: u64) -> io::Result<()> {
        self.op()?;
        self.claim(id, offset, len)?;
        self.node_mut(id).reserve(offset, len);
        Ok(())
    }

    pub(super) fn set_len(&mut self, id: NodeId, len: u64) -> io::Result<()> {
        self.op()?;
        self.node_mut(id).set_len(len);
        Ok(())
    }

    pub(super) fn sync(&mut self, id: NodeId, offset: u64, len: u64) -> io::Result<()> {
        self.op()?;
        if self.failing_syncs > 0 {
            self.failing_syncs -= 1;
            self.node_mut(id).lose(offset, len);
            return Err(io::Error::other("planned failure of a sync"));
        }
        self.node_mut(id).sync(offset, len);
        Ok(())
    }

    pub(super) fn write_back(&mut self, share: f64, rng: &mut impl Rng) {
        for node in self.nodes.values_mut() {
            node.write_back(share, rng);
        }
    }

    pub(super) fn crash(&self, policy: CrashPolicy, rng: &mut impl Rng) -> State {
        let fresh = State {
            next_node: self.next_node,
            capacity: self.capacity,
            clock_ms: self.clock_ms,
            ..State::default()
        };
        let names = match policy {
            CrashPolicy::KeepAll => {
                return State {
                    names: self.names.clone(),
                    durable: self.durable.clone(),
                    pending: self.pending.clone(),
                    nodes: self.nodes.clone(),
                    ..fresh
                };
            }
            CrashPolicy::LoseUnsynced => self.durable.clone(),
            CrashPolicy::RandomPages { .. } | CrashPolicy::TornPages { .. } => {
                self.some_changes(rng)
            }
        };
        let mut nodes = BTreeMap::new();
        for name in names.values() {
            if let Name::File(node) = name {
                nodes.insert(*node, self.node(*node).crash(policy, rng));
            }
        }
        State {
            durable: names.clone(),
            names,
            nodes,
            ..fresh
        }
    }

    /// The synced names, with the first few unsynced changes of each directory.
    fn some_changes(&self, rng: &mut impl Rng) -> BTreeMap<PathBuf, Name> {
        let mut left: BTreeMap<&Path, usize> = BTreeMap::new();
        for change in &self.pending {
            *left.entry(change.dir()).or_default() += 1;
        }
        for count in left.values_mut() {
            *count = rng.random_range(0..=*count);
        }
        let mut names = self.durable.clone();
        for change in &self.pending {
            if let Some(count) = left.get_mut(change.dir())
                && *count > 0
            {
                *count -= 1;
                change.apply(&mut names);
            }
        }
        names
    }
}

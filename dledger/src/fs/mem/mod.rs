//! A file system in memory that knows what a power failure would leave.
//!
//! Every file keeps two versions of each 4096-byte page: as it is, and as it was last synced. The names in a
//! directory likewise. [`MemFs::crash_image`] builds the disk after a power failure from the two.

mod handles;
mod node;
mod state;

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;

use self::handles::{MemFile, MemMap};
use self::state::State;
use super::{DirEntry, File, Fs, Map, MapMode, OpenMode, Space};

/// What survives a power failure besides what was synced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CrashPolicy {
    /// Everything, and what was not synced is still not synced: the process died, the machine did not.
    KeepAll,
    /// Nothing that was not synced.
    LoseUnsynced,
    /// Each unsynced page survives with this probability, independently of its neighbours; of the unsynced changes
    /// of each directory a random number, in their order.
    RandomPages {
        /// 0.0 to 1.0.
        keep: f64,
    },
    /// As `RandomPages`, but a surviving page may also be torn: some of its 512-byte sectors are new, some old.
    TornPages {
        /// 0.0 to 1.0.
        keep: f64,
    },
}

/// The file system in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemFs {
    state: Arc<Mutex<State>>,
}

impl MemFs {
    /// An empty file system of unlimited size.
    pub fn new() -> Self {
        Self::default()
    }

    /// The disk that a crash at this moment would leave, as a file system of its own. After a power failure
    /// everything in it counts as synced. Its operation counter is 0 and no fault is planned.
    pub fn crash_image(&self, policy: CrashPolicy, rng: &mut impl Rng) -> MemFs {
        MemFs {
            state: Arc::new(Mutex::new(self.state.lock().crash(policy, rng))),
        }
    }

    /// Lets the kernel write back some unsynced pages on its own, each with probability `share`.
    pub fn write_back(&self, share: f64, rng: &mut impl Rng) {
        self.state.lock().write_back(share, rng);
    }

    /// Lets the next `count` syncs of file contents fail. As on Linux, the pages of a failed sync are then taken
    /// for clean: a later sync that succeeds does not make them durable.
    pub fn fail_next_sync(&self, count: u32) {
        self.state.lock().failing_syncs = count;
    }

    /// Limits the bytes that files may occupy (whole pages, written or reserved); `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Changing operations so far: writes, size changes, reservations, syncs, creations, removals, renames.
    pub fn ops(&self) -> u64 {
        self.state.lock().ops
    }

    /// Stops the disk after `count` more changing operations: later ones have no effect and, where they can report
    /// it, fail. With [`CrashPolicy::KeepAll`] this gives the store as a kill at that instant leaves it.
    pub fn stop_after(&self, count: u64) {
        let mut state = self.state.lock();
        state.stop_at = Some(state.ops + count);
    }

    /// Whether an operation was refused because of [`MemFs::stop_after`].
    pub fn stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Sets the clock that modification times are taken from, milliseconds since the epoch.
    pub fn set_clock_ms(&self, ms: i64) {
        self.state.lock().clock_ms = ms;
    }

    /// All file paths, ascending.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        self.state.lock().files()
    }
}

impl Fs for MemFs {
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.state.lock().list(dir)
    }

    fn exists(&self, path: &Path) -> bool {
        self.state.lock().exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.state.lock().create_dir_all(dir)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.state.lock().remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.state.lock().remove_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state.lock().rename(from, to)
    }

    fn set_modified(&self, path: &Path, ms: i64) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.file(path)?;
        state.node_mut(node).modified_ms = ms;
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        let node = state.node(state.file(path)?);
        let mut bytes = vec![0; node.len as usize];
        node.read(0, &mut bytes);
        Ok(bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = self.open(path, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)
    }

    fn write_durable(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let tmp = super::real::temporary(path);
        self.write(&tmp, bytes)?;
        self.open(&tmp, OpenMode::ReadWrite)?.sync()?;
        self.rename(&tmp, path)?;
        self.sync_dir(super::real::parent(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.state.lock().sync_dir(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let node = self.state.lock().open(path, mode == OpenMode::Create)?;
        Ok(Arc::new(MemFile::new(
            Arc::clone(&self.state),
            node,
            mode != OpenMode::Read,
        )))
    }

    fn map(&self, path: &Path, mode: MapMode) -> io::Result<Arc<dyn Map>> {
        let mut state = self.state.lock();
        let node = state.open(path, matches!(mode, MapMode::Create { .. }))?;
        let len = state.node(node).len;
        let len = match mode {
            MapMode::Create { size } if len == 0 => {
                state.set_len(node, size)?;
                state.sync(node, 0, 0)?;
                size
            }
            MapMode::Create { size } if len != size => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            _ if len == 0 => return Err(io::ErrorKind::InvalidData.into()),
            _ => len,
        };
        drop(state);
        Ok(Arc::new(MemMap::new(Arc::clone(&self.state), node, len)))
    }

    fn space(&self, _path: &Path) -> io::Result<Space> {
        let state = self.state.lock();
        let total = state.capacity.unwrap_or(1 << 40);
        Ok(Space {
            total,
            available: total.saturating_sub(state.used()),
        })
    }
}

#[cfg(test)]
mod tests;

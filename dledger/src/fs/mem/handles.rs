//! Open files and mappings of the file system in memory.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::state::{NodeId, State};
use crate::fs::{File, Map};

#[derive(Debug)]
pub(super) struct MemFile {
    state: Arc<Mutex<State>>,
    node: NodeId,
    writable: bool,
}

impl MemFile {
    pub(super) fn new(state: Arc<Mutex<State>>, node: NodeId, writable: bool) -> Self {
        MemFile {
            state,
            node,
            writable,
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl File for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().node(self.node).len)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock();
        let node = state.node(self.node);
        let n = usize::try_from(node.len.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(buf.len());
        node.read(offset, &mut buf[..n]);
        Ok(n)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        self.state.lock().write(self.node, offset, buf)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.state.lock().set_len(self.node, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.state.lock().sync(self.node, 0, u64::MAX / 2)
    }
}

#[derive(Debug)]
pub(super) struct MemMap {
    state: Arc<Mutex<State>>,
    node: NodeId,
    len: u64,
}

impl MemMap {
    pub(super) fn new(state: Arc<Mutex<State>>, node: NodeId, len: u64) -> Self {
        MemMap { state, node, len }
    }

    fn check(&self, offset: u64, len: u64) {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "range {offset}+{len} outside a mapping of {} bytes",
            self.len
        );
    }

    fn copy(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        self.read_at(offset, &mut buf);
        buf
    }
}

impl Map for MemMap {
    fn len(&self) -> u64 {
        self.len
    }

    fn slice(&self, offset: u64, len: usize) -> Bytes {
        Bytes::from(self.copy(offset, len))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) {
        self.check(offset, buf.len() as u64);
        self.state.lock().node(self.node).read(offset, buf);
    }

    fn view(&self, offset: u64, len: usize, f: &mut dyn FnMut(&[u8])) {
        // On a copy: `f` may use the file system.
        f(&self.copy(offset, len));
    }

    fn write(&self, offset: u64, len: usize, f: &mut dyn FnMut(&mut [u8])) {
        let mut buf = self.copy(offset, len);
        f(&mut buf);
        // A stopped disk takes nothing. A full one would kill a real process here; the caller must have reserved.
        if let Err(e) = self.state.lock().write(self.node, offset, &buf) {
            assert!(
                !crate::fs::is_disk_full(&e),
                "write to a mapping without reserved space"
            );
        }
    }

    fn zero(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len);
        self.state
            .lock()
            .write(self.node, offset, &vec![0; len as usize])
    }

    fn prepare(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len);
        self.state.lock().reserve(self.node, offset, len)
    }

    fn sync(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len);
        self.state.lock().sync(self.node, offset, len)
    }

    fn next_data(&self, from: u64) -> u64 {
        self.state.lock().node(self.node).next_data(from)
    }
}

//! One file: pages as they are and as they were synced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::Rng;

use super::CrashPolicy;

/// Bytes of a page: what the kernel writes back as one.
pub(super) const PAGE: u64 = 4096;
/// Bytes of a sector: what a disk writes as one.
const SECTOR: usize = 512;

type Page = [u8; PAGE as usize];

/// A file.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pages: BTreeMap<u64, Arc<Page>>,
    durable: BTreeMap<u64, Arc<Page>>,
    /// Pages that the kernel knows to differ from the disk.
    dirty: BTreeSet<u64>,
    /// Pages with reserved blocks.
    reserved: BTreeSet<u64>,
    pub(super) len: u64,
    durable_len: u64,
    pub(super) modified_ms: i64,
}

impl Node {
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let inside = (at % PAGE) as usize;
            let n = (PAGE as usize - inside).min(buf.len() - done);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => buf[done..done + n].copy_from_slice(&page[inside..inside + n]),
                None => buf[done..done + n].fill(0),
            }
            done += n;
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let inside = (at % PAGE) as usize;
            let n = (PAGE as usize - inside).min(bytes.len() - done);
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[inside..inside + n].copy_from_slice(&bytes[done..done + n]);
            self.dirty.insert(at / PAGE);
            done += n;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Pages of a range that have neither content nor a reservation yet.
    pub(super) fn missing_pages(&self, offset: u64, len: u64) -> u64 {
        pages_of(offset, len)
            .filter(|p| !self.pages.contains_key(p) && !self.reserved.contains(p))
            .count() as u64
    }

    pub(super) fn reserve(&mut self, offset: u64, len: u64) {
        self.reserved.extend(pages_of(offset, len));
    }

    /// Bytes on disk.
    pub(super) fn used(&self) -> u64 {
        let only_reserved = self
            .reserved
            .iter()
            .filter(|p| !self.pages.contains_key(p))
            .count();
        (self.pages.len() + only_reserved) as u64 * PAGE
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let keep = len.div_ceil(PAGE);
            for page in self.pages.split_off(&keep).into_keys() {
                self.dirty.insert(page);
            }
            self.reserved.split_off(&keep);
            let inside = (len % PAGE) as usize;
            if inside != 0
                && let Some(page) = self.pages.get_mut(&(len / PAGE))
            {
                Arc::make_mut(page)[inside..].fill(0);
                self.dirty.insert(len / PAGE);
            }
        }
        self.len = len;
    }

    /// Makes the pages of a range durable, and the length.
    pub(super) fn sync(&mut self, offset: u64, len: u64) {
        for page in self.take_dirty(offset, len) {
            self.persist(page);
        }
        self.durable_len = self.len;
    }

    /// A sync that failed: the pages count as clean, but the disk does not have them.
    pub(super) fn lose(&mut self, offset: u64, len: u64) {
        self.take_dirty(offset, len);
    }

    fn take_dirty(&mut self, offset: u64, len: u64) -> Vec<u64> {
        if len == 0 {
            return Vec::new();
        }
        let last = (offset + len - 1) / PAGE;
        let pages: Vec<u64> = self.dirty.range(offset / PAGE..=last).copied().collect();
        for page in &pages {
            self.dirty.remove(page);
        }
        pages
    }

    fn persist(&mut self, page: u64) {
        match self.pages.get(&page) {
            Some(content) => {
                self.durable.insert(page, Arc::clone(content));
            }
            None => {
                self.durable.remove(&page);
            }
        }
    }

    pub(super) fn write_back(&mut self, share: f64, rng: &mut impl Rng) {
        let pages: Vec<u64> = self
            .dirty
            .iter()
            .copied()
            .filter(|_| rng.random_bool(share))
            .collect();
        for page in pages {
            self.dirty.remove(&page);
            self.persist(page);
        }
    }

    /// First offset at or after `from` on a page that exists.
    pub(super) fn next_data(&self, from: u64) -> u64 {
        match self.pages.range(from / PAGE..).next() {
            Some((page, _)) => (page * PAGE).max(from).min(self.len),
            None => self.len,
        }
    }

    /// The file after a power failure.
    pub(super) fn crash(&self, policy: CrashPolicy, rng: &mut impl Rng) -> Node {
        let (keep, torn) = match policy {
            CrashPolicy::KeepAll => (1.0, false),
            CrashPolicy::LoseUnsynced => (0.0, false),
            CrashPolicy::RandomPages { keep } => (keep, false),
            CrashPolicy::TornPages { keep } => (keep, true),
        };
        let mut pages = self.durable.clone();
        // Pages of a failed sync are clean yet different: the disk keeps their old content.
        for number in &self.dirty {
            if !rng.random_bool(keep) {
                continue;
            }
            let new = self.pages.get(number);
            let old = self.durable.get(number);
            let content = match new {
                Some(new) if torn && rng.random_bool(0.5) => Some(Arc::new(tear(old, new, rng))),
                other => other.cloned(),
            };
            match content {
                Some(content) => pages.insert(*number, content),
                None => pages.remove(number),
            };
        }
        let keep_len = self.len != self.durable_len && rng.random_bool(keep);
        let len = if keep_len { self.len } else { self.durable_len };
        let kept = len.div_ceil(PAGE);
        pages.split_off(&kept);
        Node {
            durable: pages.clone(),
            pages,
            dirty: BTreeSet::new(),
            reserved: self
                .reserved
                .iter()
                .copied()
                .filter(|p| *p < kept)
                .collect(),
            len,
            durable_len: len,
            modified_ms: self.modified_ms,
        }
    }
}

fn pages_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 {
        0..0
    } else {
        offset / PAGE..(offset + len - 1) / PAGE + 1
    }
}

/// A page of which each sector is old or new.
fn tear(old: Option<&Arc<Page>>, new: &Page, rng: &mut impl Rng) -> Page {
    let mut page = old.map_or([0; PAGE as usize], |old| **old);
    for start in (0..PAGE as usize).step_by(SECTOR) {
        if rng.random_bool(0.5) {
            page[start..start + SECTOR].copy_from_slice(&new[start..start + SECTOR]);
        }
    }
    page
}

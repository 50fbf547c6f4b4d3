//! One file of the key index.

use std::path::PathBuf;
use std::sync::Arc;

use dledger::fs::File;
use parking_lot::Mutex;

use super::layout::{HEADER_SIZE, Header, ITEM_SIZE, Item, Shape};
use super::slots::Slots;
use crate::descriptors::{Descriptors, FileKey};
use crate::error::Error;

/// Pages of slots written between two looks at the lock.
const FLUSHED_PAGES: usize = 64;

/// One key of a message, to be put in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Hash of `topic#key`, not negative.
    pub hash: i32,
    /// Physical offset of the message.
    pub physical_offset: i64,
    /// Store time of the message, ms.
    pub store_timestamp: i64,
}

/// An index file. Items are immutable once written; the rest changes under a lock.
#[derive(Debug)]
pub(crate) struct IndexFile {
    pub name: String,
    path: PathBuf,
    key: FileKey,
    shape: Shape,
    descriptors: Arc<Descriptors>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    header: Header,
    slots: Slots,
    /// Slots or header are not in the file as they are here.
    dirty: bool,
    /// Written since the last sync.
    unsynced: bool,
}

impl IndexFile {
    /// A file that exists, with the header read from it.
    pub fn open(
        path: PathBuf,
        owner: u64,
        shape: Shape,
        descriptors: Arc<Descriptors>,
    ) -> Result<IndexFile, Error> {
        let file = IndexFile::with_header(path, owner, shape, descriptors, Header::default());
        let mut bytes = [0; HEADER_SIZE];
        file.file()?
            .read_at(&mut bytes, 0)
            .map_err(Error::io("read index header", &file.path))?;
        file.state.lock().header = Header::decode(&bytes);
        Ok(file)
    }

    /// Makes a new file at its full size, behind one that ended with `last`.
    pub fn create(
        path: PathBuf,
        owner: u64,
        shape: Shape,
        descriptors: Arc<Descriptors>,
        last: Option<&Header>,
    ) -> Result<IndexFile, Error> {
        let header = Header::following(last);
        let file = IndexFile::with_header(path, owner, shape, descriptors, header);
        file.descriptors
            .create(file.key, &file.path, shape.file_size())
            .map_err(Error::io("create index", &file.path))?;
        file.state.lock().mark_changed();
        Ok(file)
    }

    fn with_header(
        path: PathBuf,
        owner: u64,
        shape: Shape,
        descriptors: Arc<Descriptors>,
        header: Header,
    ) -> IndexFile {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        IndexFile {
            name: name.unwrap_or_default(),
            path,
            key: FileKey { owner, start: 0 },
            shape,
            descriptors,
            state: Mutex::new(State {
                header,
                slots: Slots::new(shape),
                dirty: false,
                unsynced: false,
            }),
        }
    }

    pub fn header(&self) -> Header {
        self.state.lock().header
    }

    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many items still fit.
    pub fn room(&self) -> usize {
        self.shape
            .items
            .saturating_sub(self.header().next_item.unsigned_abs()) as usize
    }

    /// Appends entries, all of which fit. The items are in the file when this returns; slots and header are
    /// written by [`IndexFile::flush`]. After an error nothing has changed.
    pub fn append(&self, entries: &[IndexEntry]) -> Result<(), Error> {
        let file = self.file()?;
        let mut state = self.state.lock();
        let before = state.header;
        let mut bytes = Vec::with_capacity(entries.len() * ITEM_SIZE);
        for entry in entries {
            let put = state.put(&*file, self.shape, entry);
            let item = put.map_err(|source| {
                state.undo(self.shape, &bytes, before);
                Error::io("read index slots", &self.path)(source)
            })?;
            bytes.extend_from_slice(&item.encode());
        }
        file.write_all_at(&bytes, self.shape.item_at(before.next_item))
            .map_err(|source| {
                state.undo(self.shape, &bytes, before);
                Error::io("write index", &self.path)(source)
            })?;
        state.mark_changed();
        Ok(())
    }

    /// Writes slots and header, so that the file is whole for whoever opens it next. The lock is held only for
    /// short copies: entries go on being appended.
    pub fn flush(&self) -> Result<(), Error> {
        if !self.state.lock().dirty {
            return Ok(());
        }
        let file = self.file()?;
        loop {
            let (pages, header) = {
                let mut state = self.state.lock();
                let pages = state.slots.take_dirty(FLUSHED_PAGES);
                state.dirty = !pages.is_empty();
                (pages, state.header.encode())
            };
            let written = pages
                .iter()
                .try_for_each(|page| file.write_all_at(&page.bytes, page.at))
                .and_then(|()| {
                    if pages.is_empty() {
                        file.write_all_at(&header, 0)
                    } else {
                        Ok(())
                    }
                });
            if let Err(source) = written {
                let mut state = self.state.lock();
                state.slots.put_back(&pages);
                state.dirty = true;
                return Err(Error::io("write index", &self.path)(source));
            }
            if pages.is_empty() {
                return Ok(());
            }
        }
    }

    /// Makes what was written durable, if there is anything.
    pub fn sync(&self) -> Result<(), Error> {
        if !std::mem::take(&mut self.state.lock().unsynced) {
            return Ok(());
        }
        self.file()?
            .sync()
            .map_err(Error::io("sync index", &self.path))
    }

    /// Gives back the memory of the slots, when the file is full and flushed.
    pub fn release(&self) {
        self.state.lock().slots.release();
    }

    /// The newest item in the slot of a hash, 0 if none, with the header of the same moment.
    pub fn newest(&self, hash: i32) -> Result<(i32, Header), Error> {
        let slot = self.shape.slot_of(hash);
        let cached = self.state.lock().slots.cached(slot);
        let number = match cached {
            Some(number) => number,
            // The page was not touched since the file was opened, so the file is right.
            None => {
                let mut raw = [0; 4];
                self.read(&mut raw, self.shape.slot_at(slot))?;
                i32::from_be_bytes(raw)
            }
        };
        // Taken after the slot: the header must know at least the item that the slot names.
        let header = self.header();
        Ok((valid_number(number, &header), header))
    }

    /// An item.
    pub fn item(&self, number: i32) -> Result<Item, Error> {
        let mut bytes = [0; ITEM_SIZE];
        self.read(&mut bytes, self.shape.item_at(number))?;
        Ok(Item::decode(&bytes))
    }

    /// The bytes of items `[from, from + count)`.
    pub fn items(&self, from: i32, count: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; count * ITEM_SIZE];
        self.read(&mut bytes, self.shape.item_at(from))?;
        Ok(bytes)
    }

    pub fn read(&self, bytes: &mut [u8], at: u64) -> Result<usize, Error> {
        self.file()?
            .read_at(bytes, at)
            .map_err(Error::io("read index", &self.path))
    }

    /// Overwrites a range with zeros.
    pub fn zero(&self, at: u64, len: usize) -> Result<(), Error> {
        self.state.lock().mark_changed();
        self.file()?
            .write_all_at(&vec![0; len], at)
            .map_err(Error::io("cut index", &self.path))
    }

    /// Replaces slots and header, after a cut.
    pub fn reset(&self, header: Header, slots: &[i32]) -> Result<(), Error> {
        let file = self.file()?;
        let mut state = self.state.lock();
        state.header = header;
        state.mark_changed();
        state
            .slots
            .replace(&*file, slots)
            .map_err(Error::io("read index slots", &self.path))
    }

    /// Closes the file, before it is removed.
    pub fn close(&self) {
        self.descriptors.forget(self.key);
    }

    pub fn file(&self) -> Result<Arc<dyn File>, Error> {
        self.descriptors
            .get(self.key, || self.path.clone())
            .map_err(Error::io("open index", &self.path))
    }
}

impl State {
    fn mark_changed(&mut self) {
        self.dirty = true;
        self.unsynced = true;
    }

    /// Gives the entry a number and links it into its slot.
    fn put(&mut self, file: &dyn File, shape: Shape, entry: &IndexEntry) -> std::io::Result<Item> {
        let slot = shape.slot_of(entry.hash);
        let previous = valid_number(self.slots.get(file, slot)?, &self.header);
        let header = &mut self.header;
        // The time of a rolled file's first item counts from the end of the file before, as Java has it.
        let item = Item {
            hash: entry.hash,
            physical_offset: entry.physical_offset,
            seconds: header.seconds_since_begin(entry.store_timestamp),
            previous,
        };
        self.slots.set(slot, header.next_item);
        if header.is_empty() {
            header.begin_timestamp = entry.store_timestamp;
            header.begin_physical = entry.physical_offset;
        }
        header.used_slots += i32::from(previous == 0);
        header.next_item += 1;
        header.end_timestamp = entry.store_timestamp;
        header.end_physical = entry.physical_offset;
        Ok(item)
    }

    /// Takes back the items just put, newest first.
    fn undo(&mut self, shape: Shape, items: &[u8], before: Header) {
        for item in items.chunks_exact(ITEM_SIZE).rev().map(Item::decode) {
            self.slots.set(shape.slot_of(item.hash), item.previous);
        }
        self.header = before;
    }
}

/// An item number out of a slot or an item; 0 if it cannot be one.
fn valid_number(number: i32, header: &Header) -> i32 {
    if number <= 0 || number >= header.next_item {
        0
    } else {
        number
    }
}

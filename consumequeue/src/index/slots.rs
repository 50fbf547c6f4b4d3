//! The hash slots of the file that is being written: pages in memory, read when first touched, written when the
//! index is flushed.
//!
//! The items are the truth, the slots can be made from them; so a slot page may lag behind on disk until the
//! next flush, and a million keys a second do not cost a million small writes.

use std::io;

use dledger::fs::File;

use super::layout::{HEADER_SIZE, Shape};

/// Slots of a page.
const PAGE_SLOTS: usize = 1024;
const PAGE_BYTES: usize = PAGE_SLOTS * 4;

#[derive(Debug)]
struct Page {
    slots: Box<[i32; PAGE_SLOTS]>,
    dirty: bool,
}

/// A page that waits to be written.
#[derive(Debug)]
pub(crate) struct DirtyPage {
    number: u32,
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// Slots in memory.
#[derive(Debug)]
pub(crate) struct Slots {
    shape: Shape,
    pages: Vec<Option<Page>>,
    dirty: Vec<u32>,
}

impl Slots {
    /// No page is in memory yet.
    pub fn new(shape: Shape) -> Slots {
        let pages = (shape.slots as usize).div_ceil(PAGE_SLOTS);
        Slots {
            shape,
            pages: std::iter::repeat_with(|| None).take(pages).collect(),
            dirty: Vec::new(),
        }
    }

    /// A slot, if its page is in memory.
    pub fn cached(&self, slot: u32) -> Option<i32> {
        let page = self.pages[slot as usize / PAGE_SLOTS].as_ref()?;
        Some(page.slots[slot as usize % PAGE_SLOTS])
    }

    /// A slot; its page is read when it is first touched.
    pub fn get(&mut self, file: &dyn File, slot: u32) -> io::Result<i32> {
        let number = slot as usize / PAGE_SLOTS;
        let page = match &self.pages[number] {
            Some(page) => page,
            None => {
                let page = self.read_page(file, number)?;
                self.pages[number].insert(page)
            }
        };
        Ok(page.slots[slot as usize % PAGE_SLOTS])
    }

    /// Sets a slot whose page is in memory, as after [`Slots::get`].
    pub fn set(&mut self, slot: u32, item: i32) {
        let number = slot as usize / PAGE_SLOTS;
        if let Some(page) = &mut self.pages[number] {
            page.slots[slot as usize % PAGE_SLOTS] = item;
            if !std::mem::replace(&mut page.dirty, true) {
                self.dirty.push(number as u32);
            }
        }
    }

    /// Takes the bytes of up to `max` changed pages with their positions, to be written; they count as unchanged
    /// from now on.
    pub fn take_dirty(&mut self, max: usize) -> Vec<DirtyPage> {
        let from = self.dirty.len() - max.min(self.dirty.len());
        let numbers = self.dirty.split_off(from);
        let mut taken = Vec::with_capacity(numbers.len());
        for number in numbers {
            if let Some(page) = &mut self.pages[number as usize] {
                let len = page_len(self.shape, number as usize);
                page.dirty = false;
                taken.push(DirtyPage {
                    number,
                    at: page_at(number as usize),
                    bytes: page.slots[..len]
                        .iter()
                        .flat_map(|slot| slot.to_be_bytes())
                        .collect(),
                });
            }
        }
        taken
    }

    /// Puts back pages that could not be written.
    pub fn put_back(&mut self, pages: &[DirtyPage]) {
        for number in pages.iter().map(|page| page.number) {
            if let Some(page) = &mut self.pages[number as usize]
                && !std::mem::replace(&mut page.dirty, true)
            {
                self.dirty.push(number);
            }
        }
    }

    /// Gives the memory back; nothing may be dirty.
    pub fn release(&mut self) {
        self.pages
            .iter_mut()
            .filter(|page| page.as_ref().is_some_and(|page| !page.dirty))
            .for_each(|page| *page = None);
    }

    /// Replaces all slots; only pages that differ from the file are kept, to be written.
    pub fn replace(&mut self, file: &dyn File, slots: &[i32]) -> io::Result<()> {
        self.dirty.clear();
        for (number, chunk) in slots.chunks(PAGE_SLOTS).enumerate() {
            let mut page = self.read_page(file, number)?;
            self.pages[number] = None;
            if page.slots[..chunk.len()] != *chunk {
                page.slots[..chunk.len()].copy_from_slice(chunk);
                page.dirty = true;
                self.pages[number] = Some(page);
                self.dirty.push(number as u32);
            }
        }
        Ok(())
    }

    fn read_page(&self, file: &dyn File, number: usize) -> io::Result<Page> {
        let mut bytes = [0; PAGE_BYTES];
        let len = page_len(self.shape, number);
        file.read_at(&mut bytes[..len * 4], page_at(number))?;
        let mut slots = Box::new([0; PAGE_SLOTS]);
        for (slot, raw) in slots.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *slot = i32::from_be_bytes(*raw);
        }
        Ok(Page {
            slots,
            dirty: false,
        })
    }
}

/// Slots of a page: the last one may be shorter.
fn page_len(shape: Shape, number: usize) -> usize {
    PAGE_SLOTS.min(shape.slots as usize - number * PAGE_SLOTS)
}

fn page_at(number: usize) -> u64 {
    (HEADER_SIZE + number * PAGE_BYTES) as u64
}

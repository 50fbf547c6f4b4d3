//! Opening the index, and cutting it back to what is known to be right.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dledger::fs::DirEntry;
use tracing::warn;

use super::layout::{Header, ITEM_SIZE, Item, SLOT_SIZE};
use super::{IndexFile, IndexReport, KeyIndex};
use crate::error::Error;
use crate::marks::IndexMark;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// Items read at once.
const CHUNK_ITEMS: usize = CHUNK / ITEM_SIZE;

impl KeyIndex {
    /// Opens the files. The first one that cannot be right ends the index: it and those behind it are removed.
    pub(super) fn load(&self) -> Result<IndexReport, Error> {
        let mut report = IndexReport::default();
        let mut files: Vec<Arc<IndexFile>> = Vec::new();
        let entries = if self.fs.exists(&self.path) {
            self.fs
                .list(&self.path)
                .map_err(Error::io("list folder", &self.path))?
        } else {
            Vec::new()
        };
        let mut own = self.own_entries(entries, &mut report)?;
        own.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
        let count = own.len();
        for (number, entry) in own.into_iter().enumerate() {
            let path = self.path.join(&entry.name);
            let last = number + 1 == count;
            if report.damaged.is_none() && entry.len == self.shape.file_size() {
                let owner = self.owners.fetch_add(1, Ordering::Relaxed);
                let file =
                    IndexFile::open(path.clone(), owner, self.shape, self.descriptors.clone())?;
                let previous = files.last().map(|file| file.header());
                match header_problem(&file, previous.as_ref(), last) {
                    None => {
                        files.push(Arc::new(file));
                        continue;
                    }
                    Some(problem) => report.damaged = Some(format!("{}: {problem}", entry.name)),
                }
                file.close();
            } else if report.damaged.is_none() && !(last && entry.len == 0) {
                report.damaged = Some(format!("{} has {} bytes", entry.name, entry.len));
            }
            warn!(file = %path.display(), "removing an index file that cannot be used; it will be made again from the log");
            self.fs
                .remove_file(&path)
                .map_err(Error::io("remove index", &path))?;
            self.writer.lock().names_changed = true;
        }
        report.files = files.len();
        *self.files.write() = files;
        self.reset_accepted();
        Ok(report)
    }

    /// Entries named by a number. If none of them has the configured size, the setting is wrong, not the files.
    fn own_entries(
        &self,
        entries: Vec<DirEntry>,
        report: &mut IndexReport,
    ) -> Result<Vec<DirEntry>, Error> {
        let is_own = |entry: &DirEntry| {
            !entry.is_dir
                && !entry.name.is_empty()
                && entry.name.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (own, foreign): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_own);
        report.foreign_names = foreign.len();
        if !foreign.is_empty() {
            warn!(folder = %self.path.display(), foreign = foreign.len(), "names that are not index files are left alone");
        }
        let configured = self.shape.file_size();
        let other = own.iter().rev().find(|entry| entry.len > 0);
        match other {
            Some(other) if own.iter().all(|entry| entry.len != configured) => {
                Err(Error::FileSize {
                    path: self.path.clone(),
                    key: "40 + 4 × maxHashSlotNum + 20 × maxIndexNum",
                    found: other.len,
                    configured,
                })
            }
            _ => Ok(own),
        }
    }

    fn reset_accepted(&self) {
        let files = self.files.read();
        let last = files
            .iter()
            .rev()
            .map(|file| file.header())
            .find(|header| !header.is_empty());
        let mut writer = self.writer.lock();
        writer.backlog.clear();
        writer.accepted = last.map_or(-1, |header| header.end_physical);
        writer.full_timestamp = 0;
    }

    /// Name and header of the last file, for the dispatch mark.
    pub(crate) fn anchor(&self) -> Option<(String, Header)> {
        self.files
            .read()
            .last()
            .map(|file| (file.name.clone(), file.header()))
    }

    /// Physical offset of the first message in the index.
    pub(crate) fn first_physical_offset(&self) -> Option<i64> {
        let files = self.files.read();
        files
            .iter()
            .map(|file| file.header())
            .find(|header| !header.is_empty())
            .map(|header| header.begin_physical)
    }

    /// End and begin (physical offsets) of neighbouring files, for a search for gaps.
    pub(crate) fn seams(&self) -> Vec<(i64, i64)> {
        let headers: Vec<_> = self.files.read().iter().map(|file| file.header()).collect();
        headers
            .windows(2)
            .filter(|pair| !pair[1].is_empty())
            .map(|pair| (pair[0].end_physical, pair[1].begin_physical))
            .collect()
    }

    /// Takes the index back to a state in which it was synced. False, and nothing changed, if the files do not
    /// continue that state.
    pub(crate) fn restore(&self, anchor: &IndexMark) -> Result<bool, Error> {
        let mut files = self.files.read().clone();
        let (name, header) = match anchor {
            // What was not indexed meanwhile must be.
            IndexMark::Off => return Ok(false),
            IndexMark::Empty => {
                self.drop_files(0)?;
                return Ok(true);
            }
            IndexMark::File(name, header) => (name, header),
        };
        let Some(position) = files.iter().position(|file| &file.name == name) else {
            return Ok(false);
        };
        let file = files.swap_remove(position);
        if !header.is_empty() {
            let last = file.item(header.next_item - 1)?;
            if last.physical_offset != header.end_physical {
                return Ok(false);
            }
        }
        self.drop_files(position + 1)?;
        let slots = match restored_slots(&file, header)? {
            Some(slots) => slots,
            None => slots_from_items(&file, header.next_item)?,
        };
        cut_file(&file, *header, slots)?;
        self.reset_accepted();
        Ok(true)
    }

    /// Removes every key of messages at or behind a physical offset. `end_timestamp` tells the store time of a
    /// message, for the header of the file that is cut; a file whose last message is unknown goes as a whole.
    pub(crate) fn cut_beyond(
        &self,
        physical_end: i64,
        end_timestamp: impl Fn(i64) -> Option<i64>,
    ) -> Result<bool, Error> {
        let mut changed = false;
        loop {
            let files = self.files.read().clone();
            let Some(position) = files.iter().rposition(|file| !file.header().is_empty()) else {
                break;
            };
            let file = &files[position];
            let header = file.header();
            if header.end_physical < physical_end {
                break;
            }
            changed = true;
            self.drop_files(position + 1)?;
            let next_item = first_item_at(file, &header, physical_end)?;
            let last = (next_item > 1)
                .then(|| file.item(next_item - 1))
                .transpose()?;
            let kept = last.and_then(|last| Some((last, end_timestamp(last.physical_offset)?)));
            let Some((last, timestamp)) = kept else {
                self.drop_files(position)?;
                continue;
            };
            let header = Header {
                end_timestamp: timestamp,
                end_physical: last.physical_offset,
                next_item,
                ..header
            };
            cut_file(file, header, slots_from_items(file, next_item)?)?;
            break;
        }
        self.reset_accepted();
        Ok(changed)
    }

    /// Checks the items of the last two files one by one, as after a crash of a broker that kept no mark, and
    /// removes those that cannot be right, with the last message before them, whose keys may be incomplete.
    pub(crate) fn scan_tail(
        &self,
        end_timestamp: impl Fn(i64) -> Option<i64>,
    ) -> Result<(), Error> {
        let used = self
            .files
            .read()
            .iter()
            .rposition(|file| !file.header().is_empty());
        // What a file without a header holds is unknown.
        self.drop_files(used.map_or(0, |last| last + 1))?;
        let files = self.files.read().clone();
        for file in files.iter().skip(files.len().saturating_sub(2)) {
            let header = file.header();
            if let Some(sound_end) = first_unsound_item(file, &header)? {
                warn!(
                    file = file.name,
                    item = sound_end,
                    "index item is not valid; cutting the index there"
                );
                let last = (sound_end > 1)
                    .then(|| file.item(sound_end - 1))
                    .transpose()?;
                let from = last.map_or(header.begin_physical, |item| item.physical_offset);
                self.cut_beyond(from, &end_timestamp)?;
                return Ok(());
            }
            // A lost page of slots would hide keys.
            file.reset(header, &slots_from_items(file, header.next_item)?)?;
        }
        let last = self.last_physical_offset();
        if last >= 0 {
            self.cut_beyond(last, end_timestamp)?;
        }
        Ok(())
    }

    fn drop_files(&self, keep: usize) -> Result<(), Error> {
        let dropped = self.files.write().split_off(keep);
        for file in dropped.iter().rev() {
            warn!(
                file = file.name,
                "removing an index file behind what is known to be right; it will be made again"
            );
            self.remove_file(file)?;
        }
        if !dropped.is_empty() {
            // They must not come back beside a file that was cut after they were removed.
            self.fs
                .sync_dir(&self.path)
                .map_err(Error::io("sync folder", &self.path))?;
        }
        self.reset_accepted();
        Ok(())
    }
}

/// Makes header and slots the state of a file; everything behind its items becomes zeros.
fn cut_file(file: &IndexFile, header: Header, slots: Vec<i32>) -> Result<(), Error> {
    let used = slots.iter().filter(|slot| **slot > 0).count();
    zero_items_behind(file, header.next_item)?;
    let used_slots = i32::try_from(used).unwrap_or(i32::MAX);
    file.reset(
        Header {
            used_slots,
            ..header
        },
        &slots,
    )
}

/// What is wrong with a header, in the light of the one before.
fn header_problem(file: &IndexFile, previous: Option<&Header>, last: bool) -> Option<&'static str> {
    let header = file.header();
    let shape = file.shape();
    if header.next_item.unsigned_abs() > shape.items || header.used_slots < 0 {
        return Some("its header counts more than it can hold");
    }
    if header.is_empty() {
        return (!last).then_some("it is empty, but not the last");
    }
    if header.begin_physical > header.end_physical || header.begin_physical < 0 {
        return Some("its header names impossible offsets");
    }
    if previous.is_some_and(|previous| header.begin_physical < previous.end_physical) {
        return Some("it begins before the file in front of it ends");
    }
    None
}

/// The slots as they were with this header, found by following what was put since back along the chains. `None` if
/// that does not give what the header counts: items behind it may be torn.
fn restored_slots(file: &IndexFile, header: &Header) -> Result<Option<Vec<i32>>, Error> {
    let shape = file.shape();
    let mut slots = Vec::with_capacity(shape.slots as usize);
    let mut bytes = vec![0; CHUNK];
    let mut used = 0;
    while slots.len() < shape.slots as usize {
        let first = slots.len() as u32;
        let len = CHUNK.min((shape.slots - first) as usize * SLOT_SIZE as usize);
        file.read(&mut bytes[..len], shape.slot_at(first))?;
        for raw in bytes[..len].as_chunks::<4>().0 {
            let newest = i32::from_be_bytes(*raw).max(0);
            let Some(number) = item_before(file, header, slots.len() as u32, newest)? else {
                return Ok(None);
            };
            used += i32::from(number > 0);
            slots.push(number);
        }
    }
    Ok((used == header.used_slots).then_some(slots))
}

/// Follows a slot's chain to the newest item that the header counts; 0 if there is none, `None` if it leads astray.
fn item_before(
    file: &IndexFile,
    header: &Header,
    slot: u32,
    newest: i32,
) -> Result<Option<i32>, Error> {
    let shape = file.shape();
    let mut number = newest;
    while number >= header.next_item {
        if number.unsigned_abs() >= shape.items {
            return Ok(None);
        }
        let item = file.item(number)?;
        let sound = (0..number).contains(&item.previous)
            && item.physical_offset >= header.end_physical
            && item.hash >= 0
            && shape.slot_of(item.hash) == slot;
        if !sound {
            return Ok(None);
        }
        number = item.previous;
    }
    if number != newest && number > 0 {
        let item = file.item(number)?;
        if item.hash < 0 || shape.slot_of(item.hash) != slot {
            return Ok(None);
        }
    }
    Ok(Some(number))
}

/// The slots that `next_item` items make.
fn slots_from_items(file: &IndexFile, next_item: i32) -> Result<Vec<i32>, Error> {
    let shape = file.shape();
    let mut slots = vec![0; shape.slots as usize];
    let mut number = 1;
    while number < next_item {
        let count = CHUNK_ITEMS.min((next_item - number) as usize);
        for item in file
            .items(number, count)?
            .chunks_exact(ITEM_SIZE)
            .map(Item::decode)
        {
            slots[shape.slot_of(item.hash) as usize] = number;
            number += 1;
        }
    }
    Ok(slots)
}

fn zero_items_behind(file: &IndexFile, next_item: i32) -> Result<(), Error> {
    let mut at = file.shape().item_at(next_item);
    let end = file.shape().file_size();
    let mut bytes = vec![0; CHUNK];
    while at < end {
        let len = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
        file.read(&mut bytes[..len], at)?;
        if bytes[..len].iter().any(|byte| *byte != 0) {
            file.zero(at, len)?;
        }
        at += len as u64;
    }
    Ok(())
}

/// The first item of a message at or behind a physical offset, or that cannot be right.
fn first_item_at(file: &IndexFile, header: &Header, physical_offset: i64) -> Result<i32, Error> {
    // Items rise with the log, unless an interrupted cut left some of them zero.
    if let Some(unsound) = first_unsound_item(file, header)? {
        let last = (unsound > 1).then(|| file.item(unsound - 1)).transpose()?;
        // The keys of the message in front of it may be incomplete.
        let behind = last.map_or(physical_offset, |item| item.physical_offset);
        return first_at(file, unsound, physical_offset.min(behind));
    }
    first_at(file, header.next_item, physical_offset)
}

fn first_at(file: &IndexFile, next_item: i32, physical_offset: i64) -> Result<i32, Error> {
    let (mut low, mut high) = (1, next_item);
    while low < high {
        let middle = low + (high - low) / 2;
        if file.item(middle)?.physical_offset < physical_offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The first item that cannot be right: offsets must not fall, chains must lead back.
fn first_unsound_item(file: &IndexFile, header: &Header) -> Result<Option<i32>, Error> {
    let mut number = 1;
    let mut previous = header.begin_physical;
    while number < header.next_item {
        let count = CHUNK_ITEMS.min((header.next_item - number) as usize);
        for item in file
            .items(number, count)?
            .chunks_exact(ITEM_SIZE)
            .map(Item::decode)
        {
            let sound = item.hash >= 0
                && (previous..=header.end_physical).contains(&item.physical_offset)
                && (0..number).contains(&item.previous)
                && item.seconds >= 0;
            if !sound {
                return Ok(Some(number));
            }
            previous = item.physical_offset;
            number += 1;
        }
    }
    Ok(None)
}

/// The name of a new file: the local time, behind the last name in any case.
pub(super) fn next_name(last: Option<&str>) -> String {
    let now = chrono::Local::now().format("%Y%m%d%H%M%S%3f").to_string();
    match last {
        // The clock was set back, or two files in one millisecond.
        Some(last) if (last.len(), last) >= (now.len(), now.as_str()) => last
            .parse::<u64>()
            .map_or(now, |number| (number + 1).to_string()),
        _ => now,
    }
}

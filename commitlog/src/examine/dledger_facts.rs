//! What lies in a DLedger member's folder, read raw: where the log begins and ends. Nothing is written, so it can
//! look at a store that another broker is going to open.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dledger::fs::{Fs, MapMode, OpenMode};

use super::derived_facts::list;
use crate::frame::{FrameView, read_i32, read_i64};
use crate::layout::parse_file_name;
use crate::legacy::{LegacyFile, Listing};

/// Bytes of an index unit.
const UNIT: u64 = 32;
/// Bytes of an entry header; the body, one frame, follows.
pub const ENTRY_HEADER: usize = 48;
/// Magic of an entry.
pub const ENTRY_MAGIC: i32 = 1;
/// First int of the blank that fills the end of a data file.
pub const ENTRY_BLANK: i32 = -1;

/// A DLedger folder.
#[derive(Debug, Clone)]
pub struct DledgerFacts {
    /// Id of the member, from the folder's name.
    pub self_id: String,
    /// Where its data files lie.
    pub data_dir: PathBuf,
    /// Its data files.
    pub data: Listing,
    /// Its index files' number.
    pub index_files: usize,
    /// First and last entry; none if there is no entry.
    pub entries: Option<Entries>,
    /// Committed index in its checkpoint, −1 if none.
    pub committed_index: i64,
    /// Term in its vote file, none if there is no such file.
    pub term: Option<i64>,
    /// Whether the first file's beginning is neither an entry nor never written.
    pub damaged_start: bool,
}

/// The entries of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries {
    /// Position of the first entry found; the start of the first data file, unless the log was begun anew inside it.
    pub begin_pos: i64,
    /// Index of the first entry found.
    pub begin_index: i64,
    /// Index of the last entry.
    pub end_index: i64,
    /// Term of the last entry.
    pub end_term: i64,
    /// End of the last entry.
    pub end: i64,
    /// Store time of the message in the first entry, ms; 0 if it holds none.
    pub first_store_timestamp: i64,
    /// Store time of the message in the last entry, ms; 0 if it holds none.
    pub last_store_timestamp: i64,
}

/// An entry header, as far as recovery looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// Whole size, header included.
    pub size: usize,
    /// Index.
    pub index: i64,
    /// Term.
    pub term: i64,
}

/// The header of the entry at the start of `bytes`, which lies at `position`; none if there is no whole, sound entry.
pub fn entry_header(bytes: &[u8], position: i64) -> Option<EntryHeader> {
    let size = usize::try_from(read_i32(bytes, 4)?).ok()?;
    let body = usize::try_from(read_i32(bytes, 44)?).ok()?;
    let sound = read_i32(bytes, 0)? == ENTRY_MAGIC
        && size > ENTRY_HEADER
        && size == ENTRY_HEADER + body
        && size <= bytes.len()
        && read_i64(bytes, 24)? == position;
    let header = EntryHeader {
        size,
        index: read_i64(bytes, 8)?,
        term: read_i64(bytes, 16)?,
    };
    sound.then_some(header)
}

impl DledgerFacts {
    /// Reads the folder of member `self_id` at `base`.
    pub fn read(
        fs: &dyn Fs,
        self_id: &str,
        base: &Path,
        data_dir: PathBuf,
        file_size: Option<u64>,
    ) -> io::Result<DledgerFacts> {
        let data = crate::legacy::list(fs, std::iter::once(data_dir.as_path()), file_size)?;
        let index = list(fs, &base.join("index"))?;
        let (entries, damaged_start) = find_entries(fs, &data, indexed(fs, &base.join("index"))?)?;
        let committed_index =
            properties(fs, &base.join("checkpoint"))?.and_then(|p| number(&p, "committedIndex"));
        Ok(DledgerFacts {
            self_id: self_id.to_string(),
            data_dir,
            index_files: index.iter().filter(|e| !e.is_dir && e.len > 0).count(),
            entries,
            committed_index: committed_index.unwrap_or(-1),
            term: properties(fs, &base.join("currterm"))?.and_then(|p| number(&p, "currTerm")),
            damaged_start,
            data,
        })
    }

    /// Whether the log holds no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_none() && !self.damaged_start
    }
}

/// Where a log begins, and whether something else than an entry is written there.
#[derive(Default)]
struct Begin {
    entry: Option<(i64, EntryHeader)>,
    damaged: bool,
}

/// Finds the first entry: at the start of the first file; or inside that file, where the index says (a log that was
/// begun anew in the middle of a file); or at the start of a later one.
fn find_begin(fs: &dyn Fs, data: &Listing, indexed: Option<i64>) -> io::Result<Begin> {
    let Some(first) = data.files.first() else {
        return Ok(Begin::default());
    };
    let (header, written) = first_entry(fs, first)?;
    if let Some(header) = header {
        return Ok(Begin {
            entry: Some((first.start, header)),
            damaged: false,
        });
    }
    let inside = first.start..first.start + data.file_size as i64;
    if let Some(at) = indexed.filter(|at| inside.contains(at)) {
        let bytes = map_all(fs, first)?;
        if let Some(header) = entry_header(&bytes[(at - first.start) as usize..], at) {
            return Ok(Begin {
                entry: Some((at, header)),
                damaged: false,
            });
        }
    }
    let mut begin = Begin {
        entry: None,
        damaged: written,
    };
    for file in data.files.iter().skip(1) {
        begin.entry = first_entry(fs, file)?.0.map(|header| (file.start, header));
        if begin.entry.is_some() {
            break;
        }
    }
    Ok(begin)
}

/// Finds the last file that begins with an entry and walks it to the end of the log.
fn find_entries(
    fs: &dyn Fs,
    data: &Listing,
    (indexed_begin, indexed_end): (Option<i64>, Option<i64>),
) -> io::Result<(Option<Entries>, bool)> {
    let begin = find_begin(fs, data, indexed_begin)?;
    let Some((begin_pos, first)) = begin.entry else {
        return Ok((None, begin.damaged));
    };
    for file in data.files.iter().rev() {
        let bytes = map_all(fs, file)?;
        let inside = file.start..file.start + data.file_size as i64;
        let starts = [indexed_end, Some(file.start), Some(begin_pos)];
        let walked = starts
            .into_iter()
            .flatten()
            .filter(|at| inside.contains(at))
            .find_map(|at| walk(&bytes, file.start, at));
        if let Some((last, end)) = walked {
            let body = (end - file.start) as usize - last.size + ENTRY_HEADER;
            let entries = Entries {
                begin_pos,
                begin_index: first.index,
                end_index: last.index,
                end_term: last.term,
                end,
                first_store_timestamp: stored_at(fs, data, begin_pos)?,
                last_store_timestamp: store_timestamp(&bytes[body..]),
            };
            return Ok((Some(entries), begin.damaged));
        }
    }
    Ok((None, begin.damaged))
}

/// The first entry of a file, and whether anything is written there at all.
fn first_entry(fs: &dyn Fs, file: &LegacyFile) -> io::Result<(Option<EntryHeader>, bool)> {
    let bytes = map_all(fs, file)?;
    let written = bytes.iter().take(ENTRY_HEADER).any(|&b| b != 0);
    Ok((entry_header(&bytes, file.start), written))
}

/// Store time of the message in the entry at a position, ms; 0 if it holds none.
fn stored_at(fs: &dyn Fs, data: &Listing, position: i64) -> io::Result<i64> {
    let file = data.files.iter().rev().find(|f| f.start <= position);
    let Some(file) = file else { return Ok(0) };
    let at = (position - file.start) as usize + ENTRY_HEADER;
    Ok(map_all(fs, file)?.get(at..).map_or(0, store_timestamp))
}

/// Store time of the frame at the start of `bytes`, ms; 0 if none begins there.
fn store_timestamp(bytes: &[u8]) -> i64 {
    FrameView::parse(bytes).map_or(0, |frame| frame.store_timestamp())
}

fn map_all(fs: &dyn Fs, file: &LegacyFile) -> io::Result<Bytes> {
    let map = fs.map(&file.path, MapMode::ReadOnly)?;
    Ok(map.slice(0, map.len() as usize))
}

/// Walks a file's entries from `position` on: the last one and where it ends; none if no entry begins there.
fn walk(bytes: &[u8], start: i64, position: i64) -> Option<(EntryHeader, i64)> {
    let mut last: Option<EntryHeader> = None;
    let mut at = (position - start) as usize;
    while let Some(header) = entry_header(bytes.get(at..)?, start + at as i64) {
        if last.is_some_and(|l| header.index != l.index + 1 || header.term < l.term) {
            break;
        }
        at += header.size;
        last = Some(header);
    }
    last.map(|header| (header, start + at as i64))
}

/// Positions of the first and the last entry that the index names. They spare the walk through the last data file;
/// whether there really are entries is for the caller to see. Units: i32 magic, i64 position, i32 size, i64 index, i64
/// term.
fn indexed(fs: &dyn Fs, dir: &Path) -> io::Result<(Option<i64>, Option<i64>)> {
    let mut files = list(fs, dir)?;
    files.retain(|f| !f.is_dir && f.len >= UNIT && parse_file_name(&f.name).is_some());
    let (Some(first), Some(last)) = (files.first(), files.last()) else {
        return Ok((None, None));
    };
    let map = fs.map(&dir.join(&first.name), MapMode::ReadOnly)?;
    // Units before the first entry were never written: skip the hole, then unit by unit.
    let from = map.next_data(0) / UNIT;
    let mut begin = None;
    for number in from..(from + 4096).min(first.len / UNIT) {
        begin = unit_position(&map.slice(number * UNIT, UNIT as usize));
        if begin.is_some() {
            break;
        }
    }
    let file = fs.open(&dir.join(&last.name), OpenMode::Read)?;
    let unit = |number: u64| -> io::Result<Option<i64>> {
        let mut unit = [0; UNIT as usize];
        file.read_at(&mut unit, number * UNIT)?;
        Ok(unit_position(&unit))
    };
    let (mut used, mut unused) = (0, last.len / UNIT);
    while used < unused {
        let middle = used + (unused - used) / 2;
        if unit(middle)?.is_some() {
            used = middle + 1
        } else {
            unused = middle
        }
    }
    let end = used.checked_sub(1).map(unit).transpose()?.flatten();
    Ok((begin, end))
}

/// Position in an index unit, if it was written.
fn unit_position(unit: &[u8]) -> Option<i64> {
    read_i64(unit, 4).filter(|_| read_i32(unit, 0) == Some(ENTRY_MAGIC))
}

/// The text of a small properties file.
fn properties(fs: &dyn Fs, path: &Path) -> io::Result<Option<String>> {
    match fs.read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => Ok(Some(String::from_utf8_lossy(&bytes?).into_owned())),
    }
}

fn number(properties: &str, key: &str) -> Option<i64> {
    properties.lines().find_map(|line| {
        let (name, value) = line.split_once(['=', ':'])?;
        (name.trim() == key)
            .then(|| value.trim().parse().ok())
            .flatten()
    })
}

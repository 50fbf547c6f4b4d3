//! Where the legacy log ends. Reading only: what is to be cut is decided by the upgrade plan.
//!
//! A broker that stopped in order looks at the last three files; after a kill the scan begins at a file whose
//! beginning is known to be on disk and dispatched. From there every frame is checked (structure, place, body
//! CRC), up to the first that is not whole.

use std::io;
use std::path::Path;

use bytes::Bytes;
use dledger::fs::{Fs, MapMode};

use super::scan_note::ScanNote;
use super::{LegacyFile, OnProgress};
use crate::blank::{self, BLANK_LEN};
use crate::frame::{FrameError, FrameView, frame_size};
use crate::progress::Progress;

/// Files that a scan after an orderly stop looks at.
const LAST_FILES: usize = 3;

/// A long scan notes how far it is after so many files.
const FILES_PER_NOTE: usize = 4;

/// Why a scan ended where it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There is no file.
    NoFile,
    /// At the blank record that closes the last file.
    Blank,
    /// At the end of the last file: fewer than eight bytes are left in it.
    Full,
    /// At bytes never written.
    Zeros,
    /// At bytes that are not a whole frame.
    Damage(FrameError),
}

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Where the scan began (start of a file).
    pub from: i64,
    /// Where the next frame would go: end of the last whole frame, or start of a file that holds none.
    pub end: i64,
    /// Why it ends there.
    pub stop: Stop,
    /// Frames found by the scan.
    pub frames: u64,
    /// Physical offset of the last frame found by the scan.
    pub last_frame: Option<i64>,
    /// Store time of the last frame found by the scan, ms.
    pub last_store_timestamp: i64,
}

/// Index of the file at which the scan begins after an orderly stop.
pub fn normal_start(files: &[LegacyFile]) -> usize {
    files.len().saturating_sub(LAST_FILES)
}

/// Index of the file at which the scan begins after a kill: the last one whose first frame was stored at or before
/// `limit_ms` (what the store checkpoint vouches for), otherwise the first.
pub fn abnormal_start(fs: &dyn Fs, files: &[LegacyFile], limit_ms: i64) -> io::Result<usize> {
    for (i, file) in files.iter().enumerate().rev() {
        let stored = first_store_timestamp(fs, file)?;
        if stored.is_some_and(|ms| ms != 0 && ms <= limit_ms) {
            return Ok(i);
        }
    }
    Ok(0)
}

/// Store time of the first frame of a file, if there is one.
fn first_store_timestamp(fs: &dyn Fs, file: &LegacyFile) -> io::Result<Option<i64>> {
    let map = fs.map(&file.path, MapMode::ReadOnly)?;
    let mut stored = None;
    map.view(0, map.len() as usize, &mut |bytes| {
        stored = FrameView::parse(bytes)
            .ok()
            .map(|frame| frame.store_timestamp());
    });
    Ok(stored)
}

/// Scans from file number `start` on. If no frame is found there, the last frame is that of the nearest file before
/// that holds one. A long scan writes down how far it is at the path `note`, if given, and goes on from there.
pub fn recover(
    fs: &dyn Fs,
    files: &[LegacyFile],
    file_size: u64,
    start: usize,
    note: Option<&Path>,
    progress: OnProgress<'_>,
) -> io::Result<Recovered> {
    let mut found = scan_from(fs, files, file_size, start, note, progress)?;
    for file in files.iter().take(start).rev() {
        if found.last_frame.is_some() {
            break;
        }
        let mut before = Recovered { frames: 0, ..found };
        let map = fs.map(&file.path, MapMode::ReadOnly)?;
        scan_file(&map.slice(0, map.len() as usize), file.start, &mut before);
        found.last_frame = before.last_frame;
        found.last_store_timestamp = before.last_store_timestamp;
    }
    Ok(found)
}

fn scan_from(
    fs: &dyn Fs,
    files: &[LegacyFile],
    file_size: u64,
    start: usize,
    note: Option<&Path>,
    progress: OnProgress<'_>,
) -> io::Result<Recovered> {
    let from = files.get(start).map_or(0, |f| f.start);
    let mut found = Recovered {
        from,
        end: from,
        stop: Stop::NoFile,
        frames: 0,
        last_frame: None,
        last_store_timestamp: 0,
    };
    let mut first = start;
    if let Some(path) = note
        && let Some((note, number, stored)) = ScanNote::load(fs, path, files, from)?
    {
        (found.frames, found.last_frame, found.last_store_timestamp) =
            (note.frames, Some(note.last_frame), stored);
        first = number;
    }
    let total = files.len().saturating_sub(start) as u64 * file_size;
    for (i, file) in files.iter().enumerate().skip(first) {
        let done = (i - start) as u64 * file_size;
        progress(Progress {
            what: "checking the legacy commitlog",
            done,
            total,
        });
        let map = fs.map(&file.path, MapMode::ReadOnly)?;
        let bytes = map.slice(0, map.len() as usize);
        found.end = file.start;
        found.stop = scan_file(&bytes, file.start, &mut found);
        if !matches!(found.stop, Stop::Blank | Stop::Full) {
            break;
        }
        if let (Some(path), Some(next)) = (note, files.get(i + 1))
            && (i + 1 - start).is_multiple_of(FILES_PER_NOTE)
            && let Some(last) = found.last_frame.filter(|&last| last >= file.start)
        {
            let last = &bytes[(last - file.start) as usize..(found.end - file.start) as usize];
            if let Some(note) = ScanNote::of(&found, next.start, last) {
                note.save(fs, path)?;
            }
        }
    }
    progress(Progress {
        what: "checking the legacy commitlog",
        done: total,
        total,
    });
    Ok(found)
}

/// Where the frames of a closed file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedEnd {
    /// End of the last frame, where the blank record lies.
    pub end: i64,
    /// Store time of the last frame, ms; 0 if the file holds none.
    pub last_store_timestamp: i64,
}

/// Where the frames of one file end, looking at their sizes only; none if they do not lead to a blank record or the
/// end of the file.
pub fn closed_end(fs: &dyn Fs, file: &LegacyFile) -> io::Result<Option<ClosedEnd>> {
    let map = fs.map(&file.path, MapMode::ReadOnly)?;
    let bytes = map.slice(0, map.len() as usize);
    let (mut at, mut last) = (0, None);
    while bytes.len() - at >= BLANK_LEN && !blank::is_blank(&bytes[at..]) {
        match frame_size(&bytes[at..]) {
            Some(size) if size <= bytes.len() - at => {
                last = Some(at);
                at += size;
            }
            _ => return Ok(None),
        }
    }
    let frame = last.and_then(|at| FrameView::parse(&bytes[at..]).ok());
    let last_store_timestamp = frame.map_or(0, |frame| frame.store_timestamp());
    Ok(Some(ClosedEnd {
        end: file.start + at as i64,
        last_store_timestamp,
    }))
}

/// Scans one file from its start; moves `found` on by every frame.
fn scan_file(bytes: &Bytes, start: i64, found: &mut Recovered) -> Stop {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        if rest.len() < BLANK_LEN {
            return Stop::Full;
        }
        if blank::is_blank(rest) {
            return Stop::Blank;
        }
        if rest[..BLANK_LEN] == [0; BLANK_LEN] {
            return Stop::Zeros;
        }
        let position = start + at as i64;
        let frame = match FrameView::parse(rest) {
            Ok(frame) => frame,
            Err(error) => return Stop::Damage(error),
        };
        if let Err(error) = frame.validate(position) {
            return Stop::Damage(error);
        }
        at += frame.size();
        found.frames += 1;
        found.last_frame = Some(position);
        found.last_store_timestamp = frame.store_timestamp();
        found.end = start + at as i64;
    }
}

/// Whole frames behind a damaged place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Behind {
    /// Right behind the damaged frame, by its own size.
    pub next: Option<i64>,
    /// At the start of a later file.
    pub later_file: Option<i64>,
}

/// Looks whether the log goes on behind a damaged place.
pub fn intact_behind(
    fs: &dyn Fs,
    files: &[LegacyFile],
    file_size: u64,
    damaged_at: i64,
) -> io::Result<Behind> {
    let mut behind = Behind::default();
    for file in files
        .iter()
        .filter(|f| f.start + file_size as i64 > damaged_at)
    {
        let map = fs.map(&file.path, MapMode::ReadOnly)?;
        let bytes = map.slice(0, map.len() as usize);
        let whole = |at: usize| {
            let position = file.start + at as i64;
            let frame = FrameView::parse(bytes.get(at..)?).ok()?;
            frame.validate(position).is_ok().then_some(position)
        };
        if file.start > damaged_at {
            behind.later_file = whole(0);
        } else {
            let at = (damaged_at - file.start) as usize;
            behind.next = frame_size(&bytes[at..]).and_then(|size| whole(at.saturating_add(size)));
        }
        if behind.later_file.is_some() {
            break;
        }
    }
    Ok(behind)
}

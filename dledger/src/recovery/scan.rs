//! Walking over entries.

use std::sync::Arc;

use crate::entry::{BLANK_MAGIC, BLANK_SIZE, EntryHeader, HEADER_SIZE};
use crate::index_unit::{IndexUnit, UNIT_SIZE};
use crate::store::BodyCheck;
use crate::store::files::Segment;

/// The mapped files of one list, ascending and without gaps.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) file_size: i64,
}

impl Files {
    pub(super) fn get(&self, pos: i64) -> Option<&Arc<Segment>> {
        let first = self.segments.first()?.start;
        let number = usize::try_from(pos.checked_sub(first)?.div_euclid(self.file_size)).ok()?;
        self.segments.get(number)
    }

    /// The unit at its place; `None` where there is no file.
    pub(super) fn unit(&self, index: i64) -> Option<IndexUnit> {
        let pos = index.checked_mul(UNIT_SIZE as i64)?;
        let segment = self.get(pos)?;
        let mut buf = [0; UNIT_SIZE];
        segment.map.read_at(segment.offset(pos), &mut buf);
        Some(IndexUnit::decode(&buf))
    }
}

/// What lies at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The header of an entry that can lie there.
    Entry(EntryHeader),
    /// A blank up to the end of the file.
    Blank,
    /// Zeros: nothing was written.
    Nothing,
    /// Neither.
    Bad(String),
}

/// Looks at `pos`, which must lie in `segment`.
pub(super) fn look(segment: &Segment, pos: i64) -> Found {
    let room = segment.end() - pos;
    let mut buf = [0; HEADER_SIZE];
    let seen = HEADER_SIZE.min(room as usize);
    segment.map.read_at(segment.offset(pos), &mut buf[..seen]);
    if buf.iter().all(|b| *b == 0) {
        return Found::Nothing;
    }
    // With fewer bytes than a header, the missing ones read as zeros.
    let Some(header) = EntryHeader::decode(&buf) else {
        return Found::Nothing;
    };
    if header.magic == BLANK_MAGIC && room >= BLANK_SIZE as i64 {
        return match i64::from(header.size) == room {
            true => Found::Blank,
            false => Found::Bad(format!(
                "a blank of {} bytes where {room} are left",
                header.size
            )),
        };
    }
    match header.problem_at(pos, room) {
        None => Found::Entry(header),
        Some(problem) => Found::Bad(problem),
    }
}

/// An entry as the scan remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) index: i64,
    pub(super) term: i64,
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct From {
    pub(super) pos: i64,
    /// The entry before `pos`, if there is one.
    pub(super) last: Option<Last>,
    /// The index that the entry at `pos` must have, if known.
    pub(super) index: Option<i64>,
}

/// How a scan went.
#[derive(Debug)]
pub(super) struct Scan {
    /// Position after the last whole entry, or after a blank.
    pub(super) end_pos: i64,
    /// The last whole entry, also if it was the one before the scan.
    pub(super) last: Option<Last>,
    /// Its header, if it was scanned.
    pub(super) first: Option<EntryHeader>,
    pub(super) entries: i64,
    /// Why it ended; `None` at zeros or at the end of the files.
    pub(super) problem: Option<String>,
    /// The first entry whose unit does not agree, by index and position.
    pub(super) unit_differs: Option<(i64, i64)>,
}

/// Walks from `from` to the first place where no whole entry lies. Bodies are checked from `bodies_from` on.
pub(super) fn scan(
    data: &Files,
    index: &Files,
    from: From,
    bodies_from: i64,
    check: &dyn BodyCheck,
) -> Scan {
    let mut scan = Scan {
        end_pos: from.pos,
        last: from.last,
        first: None,
        entries: 0,
        problem: None,
        unit_differs: None,
    };
    let mut wanted = from.index.or(from.last.map(|last| last.index + 1));
    while let Some(segment) = data.get(scan.end_pos) {
        let pos = scan.end_pos;
        let header = match look(segment, pos) {
            Found::Entry(header) => header,
            Found::Blank => {
                scan.end_pos = segment.end();
                continue;
            }
            Found::Nothing => break,
            Found::Bad(problem) => {
                scan.problem = Some(problem);
                break;
            }
        };
        let term = scan.last.map_or(-1, |last| last.term);
        scan.problem = problem_in_order(&header, wanted, term);
        if scan.problem.is_none() && pos >= bodies_from {
            scan.problem = problem_of_body(segment, &header, check);
        }
        if scan.problem.is_some() {
            break;
        }
        if scan.unit_differs.is_none() && index.unit(header.index) != Some(IndexUnit::of(&header)) {
            scan.unit_differs = Some((header.index, pos));
        }
        wanted = Some(header.index + 1);
        scan.first.get_or_insert(header);
        scan.last = Some(Last {
            index: header.index,
            term: header.term,
        });
        scan.entries += 1;
        scan.end_pos = pos + i64::from(header.size);
    }
    scan
}

fn problem_in_order(header: &EntryHeader, wanted: Option<i64>, term: i64) -> Option<String> {
    if wanted.is_some_and(|wanted| wanted != header.index) {
        return Some(format!(
            "index {} where {} follows",
            header.index,
            wanted.unwrap_or(-1)
        ));
    }
    (header.term < term).then(|| format!("term {} after term {term}", header.term))
}

fn problem_of_body(
    segment: &Segment,
    header: &EntryHeader,
    check: &dyn BodyCheck,
) -> Option<String> {
    let body_pos = header.pos + HEADER_SIZE as i64;
    let mut problem = None;
    segment.map.view(
        segment.offset(body_pos),
        header.body_size as usize,
        &mut |body| {
            problem = check.check(body, body_pos).err();
        },
    );
    problem
}

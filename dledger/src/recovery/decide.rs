//! Deciding from where to scan, what to trust and what may be cut. Nothing is changed here.

use std::sync::Arc;

use super::plan::{Decision, Lists};
use super::scan::{self, Found, From, Last, Scan};
use super::{Cut, OpenError};
use crate::entry::EntryHeader;
use crate::index_unit::{IndexUnit, UNIT_SIZE};
use crate::store::files::Segment;
use crate::store::sidecar::Note;
use crate::store::{BodyCheck, StoreConfig};

/// Java scans the last three data files.
const SCANNED_FILES: usize = 3;

/// Where the log begins and from where it has to be scanned.
struct Start {
    begin_pos: i64,
    /// Entries before this position are known to be whole and synced.
    trusted: From,
    note_matched: bool,
    /// Up to here bytes may be our own unsynced ones.
    ours_up_to: i64,
}

pub(super) struct Decider<'a> {
    pub(super) lists: &'a Lists,
    pub(super) note: Option<Note>,
    pub(super) check: &'a dyn BodyCheck,
    pub(super) config: &'a StoreConfig,
    pub(super) first_pos: i64,
}

impl Decider<'_> {
    fn data(&self) -> &[Arc<Segment>] {
        &self.lists.data.segments
    }

    pub(super) fn decide(&self) -> Result<Decision, OpenError> {
        let start = self.start();
        let from = self.rescan_from(&start)?;
        let bodies_from = start.trusted.pos;
        let (data, index) = (&self.lists.data, &self.lists.index);
        let scan = scan::scan(data, index, from, bodies_from, self.check);
        if scan.end_pos < bodies_from {
            let reason = scan
                .problem
                .unwrap_or_else(|| "zeros where an entry was".to_owned());
            return Err(self.damaged(
                scan.end_pos,
                &format!("{reason}, in data that was safe on disk: restore it"),
            ));
        }
        let cut = self.cut(&start, &scan)?;
        let Some(last) = scan.last else {
            return Ok(self.nothing_found(&start, cut));
        };
        let at_begin = if from.pos == start.begin_pos {
            scan.first
        } else {
            self.header_at(start.begin_pos)
        };
        let begin_index = at_begin.map_or(last.index, |header| header.index);
        let trusted = &start.trusted;
        let first_unsynced = trusted
            .last
            .map(|last| last.index + 1)
            .or(trusted.index)
            .unwrap_or(begin_index);
        Ok(Decision {
            begin_index,
            first_pos: start.begin_pos,
            scanned_from: from.pos,
            bodies_from,
            unsynced_from: (start.trusted.pos, first_unsynced),
            note_matched: start.note_matched,
            cut,
            scan,
            warnings: Vec::new(),
        })
    }

    /// The log holds no entry. It then begins where the caller wants it to begin.
    fn nothing_found(&self, start: &Start, cut: Option<Cut>) -> Decision {
        let mut decision = Decision::empty(self.lists, self.first_pos);
        decision.note_matched = start.note_matched;
        decision.cut = cut;
        let first = &self.data()[0];
        if !(first.start..first.end()).contains(&self.first_pos) {
            decision.warnings.push(format!(
                "the empty log at {} is moved to {}",
                first.start, self.first_pos
            ));
        }
        decision
    }

    fn header_at(&self, pos: i64) -> Option<EntryHeader> {
        let segment = self.lists.data.get(pos)?;
        match scan::look(segment, pos) {
            Found::Entry(header) => Some(header),
            _ => None,
        }
    }

    fn start(&self) -> Start {
        if let Some(start) = self.note.and_then(|note| self.start_by_note(&note)) {
            return start;
        }
        let begin_pos = self.begin_without_note();
        let files = self.data();
        let lowest = files.len().saturating_sub(SCANNED_FILES);
        for file in files.iter().take(lowest + 1).skip(1).rev() {
            if let Some(header) = self.header_at(file.start) {
                let trusted = From {
                    pos: file.start,
                    last: None,
                    index: Some(header.index),
                };
                return Start {
                    begin_pos,
                    trusted,
                    note_matched: false,
                    ours_up_to: 0,
                };
            }
        }
        let trusted = From {
            pos: begin_pos,
            last: None,
            index: None,
        };
        Start {
            begin_pos,
            trusted,
            note_matched: false,
            ours_up_to: 0,
        }
    }

    /// The start as our note has it, if the note speaks of this log.
    fn start_by_note(&self, note: &Note) -> Option<Start> {
        let first = &self.data()[0];
        let in_first_file = (first.start..first.end()).contains(&note.first_pos);
        let at_start = self.header_at(first.start);
        let begin_pos = match &at_start {
            Some(_) => first.start,
            None if in_first_file => note.first_pos,
            None => return None,
        };
        let (trusted_pos, last) = if note.end_index < 0 {
            if !in_first_file || begin_pos != note.first_pos {
                return None;
            }
            (note.first_pos, None)
        } else {
            self.verify(note)?;
            (
                note.end_pos(),
                Some(Last {
                    index: note.end_index,
                    term: note.end_term,
                }),
            )
        };
        let index = last.map_or(note.first_index, |last| last.index + 1);
        let trusted = From {
            pos: trusted_pos,
            last,
            index: Some(index),
        };
        Some(Start {
            begin_pos,
            trusted,
            note_matched: true,
            ours_up_to: note.limit_pos.max(note.erase_to),
        })
    }

    /// Whether the last entry that a note covers lies there, byte for byte.
    fn verify(&self, note: &Note) -> Option<()> {
        let header = self.header_at(note.entry_pos)?;
        if header.index != note.end_index
            || header.term != note.end_term
            || header.size != note.entry_size
        {
            return None;
        }
        let segment = self.lists.data.get(note.entry_pos)?;
        let mut crc = 0;
        segment.map.view(
            segment.offset(note.entry_pos),
            note.entry_size as usize,
            &mut |bytes| {
                crc = crc32fast::hash(bytes);
            },
        );
        (crc == note.entry_crc).then_some(())
    }

    /// Where the log begins: at the start of its first file, or, where a Java member rebuilt its log inside a file,
    /// at the entry of the lowest index unit.
    fn begin_without_note(&self) -> i64 {
        let first = &self.data()[0];
        if let Found::Entry(_) | Found::Blank = scan::look(first, first.start) {
            return first.start;
        }
        self.lowest_unit().map_or(first.start, |unit| unit.pos)
    }

    fn lowest_unit(&self) -> Option<IndexUnit> {
        let first = &self.data()[0];
        let segment = self.lists.index.segments.first()?;
        let mut offset = segment.map.next_data(0) / UNIT_SIZE as u64 * UNIT_SIZE as u64;
        while offset < segment.size as u64 {
            let index = (segment.start + offset as i64) / UNIT_SIZE as i64;
            let unit = self.lists.index.unit(index)?;
            if unit.is_for(index) && (first.start..first.end()).contains(&unit.pos) {
                let header = self.header_at(unit.pos)?;
                return (IndexUnit::of(&header) == unit).then_some(unit);
            }
            let next = segment.map.next_data(offset + UNIT_SIZE as u64);
            offset = next / UNIT_SIZE as u64 * UNIT_SIZE as u64;
        }
        None
    }

    /// Checks the first header of every file before the trusted position, and its unit; gives the place from which
    /// to scan: the trusted position, or earlier where the index does not agree.
    fn rescan_from(&self, start: &Start) -> Result<From, OpenError> {
        let whole = From {
            pos: start.begin_pos,
            last: None,
            index: None,
        };
        let mut previous = whole;
        for file in self
            .data()
            .iter()
            .take_while(|file| file.start <= start.trusted.pos)
        {
            let pos = if file.start < start.begin_pos {
                start.begin_pos
            } else {
                file.start
            };
            if pos == start.trusted.pos && start.trusted.last.is_some() {
                // What comes next was not known to be synced.
                break;
            }
            let Some(header) = self.header_at(pos) else {
                if pos == start.trusted.pos {
                    break;
                }
                return Err(self.damaged(
                    pos,
                    "its first entry is not there: restore the file from a copy",
                ));
            };
            if self.lists.index.unit(header.index) != Some(IndexUnit::of(&header)) {
                return Ok(previous);
            }
            previous = From {
                pos,
                last: None,
                index: Some(header.index),
            };
        }
        if let Some(last) = &start.trusted.last {
            let unit = self.lists.index.unit(last.index);
            let note = self
                .note
                .map(|note| (note.entry_pos, note.entry_size, note.end_term));
            let agrees = unit.is_some_and(|unit| {
                unit.is_for(last.index) && note == Some((unit.pos, unit.size, unit.term))
            });
            if !agrees {
                return Ok(previous);
            }
        }
        Ok(start.trusted)
    }

    /// What lies behind the end, and whether it may go.
    fn cut(&self, start: &Start, scan: &Scan) -> Result<Option<Cut>, OpenError> {
        let pos = scan.end_pos;
        let bytes = self.nonzero_after(pos);
        if bytes == 0 {
            return Ok(None);
        }
        let reason = scan
            .problem
            .clone()
            .unwrap_or_else(|| "zeros where an entry would begin".to_owned());
        let end_file = self
            .lists
            .data
            .get(pos)
            .map_or(pos, |segment| segment.end());
        let last_byte = pos + bytes;
        let one_file_behind = last_byte <= end_file + self.lists.data.file_size;
        if !one_file_behind && last_byte > start.ours_up_to {
            let text = format!(
                "{reason}; but data follows up to {last_byte}, which is more than one file behind: \
                 restore the damaged file from a copy, or move the files behind it away"
            );
            return Err(self.damaged(pos, &text));
        }
        Ok(Some(Cut { pos, bytes, reason }))
    }

    /// Bytes from `pos` to the last one of all files that is not zero.
    fn nonzero_after(&self, pos: i64) -> i64 {
        let files = self.data().iter().rev().take_while(|file| file.end() > pos);
        for file in files {
            let from = file.start.max(pos);
            let end = file.last_nonzero(from);
            if end > from {
                return end - pos;
            }
        }
        0
    }

    fn damaged(&self, pos: i64, reason: &str) -> OpenError {
        let path = match self.lists.data.get(pos) {
            Some(segment) => segment.path.clone(),
            None => self.config.data_dir(),
        };
        OpenError::Damaged {
            path,
            pos,
            reason: reason.to_owned(),
        }
    }
}

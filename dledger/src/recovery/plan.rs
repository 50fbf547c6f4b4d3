//! Deciding, without changing anything.

use std::path::PathBuf;
use std::sync::Arc;

use super::listing::{self, Listed};
use super::scan::{self, Files, Found, From, Last, Scan};
use super::{Cut, OpenError, Recovery, ShortLog};
use crate::checkpoint;
use crate::entry::EntryHeader;
use crate::fs::{Fs, MapMode};
use crate::index_unit::{IndexUnit, UNIT_SIZE};
use crate::store::files::Segment;
use crate::store::sidecar::{self, Note};
use crate::store::{BodyCheck, StoreConfig};

/// Java scans the last three data files.
const SCANNED_FILES: usize = 3;

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) recovery: Recovery,
    /// All data files and those index files that can be used.
    pub(super) data: Files,
    pub(super) index: Files,
    /// Index files that cannot be used, newest first.
    pub(super) useless_index: Vec<PathBuf>,
    /// Empty files, newest first.
    pub(super) empty: Vec<PathBuf>,
    /// The first entry whose unit has to be written, by index and position.
    pub(super) unit_differs: Option<(i64, i64)>,
    /// Position from which data has to be synced, and first index.
    pub(super) unsynced_from: (i64, i64),
    /// Largest sequence number in the note of what was synced.
    pub(super) note_sequence: i64,
    /// The whole log is to be removed: it was being replaced.
    pub(super) wipe: bool,
}

pub(super) fn decide(
    fs: Arc<dyn Fs>,
    config: &StoreConfig,
    first_pos: i64,
    check: &dyn BodyCheck,
    mode: MapMode,
) -> Result<Plan, OpenError> {
    let (note_sequence, note) = sidecar::load(&*fs, &config.base)
        .map_err(OpenError::io(format!("reading {}", sidecar::FILE_NAME)))?
        .map_or((0, None), |(sequence, note)| (sequence, Some(note)));
    let lists = Lists::read(&*fs, config, mode)?;
    let wipe = note.is_some_and(|note| note.resetting);
    let decision = if wipe || lists.data.segments.is_empty() {
        Decision::empty(&lists, first_pos)
    } else {
        Decider {
            lists: &lists,
            note,
            check,
            config,
            first_pos,
        }
        .decide()?
    };
    let mut plan = decision.into_plan(lists, note_sequence, wipe);
    if wipe {
        plan.recovery
            .warnings
            .push("the log was being replaced when the process ended: it starts empty".to_owned());
    }
    apply_checkpoint(&*fs, config, &mut plan.recovery, wipe)?;
    Ok(plan)
}

/// Compares with the checkpoint.
fn apply_checkpoint(
    fs: &dyn Fs,
    config: &StoreConfig,
    recovery: &mut Recovery,
    wipe: bool,
) -> Result<(), OpenError> {
    let found =
        checkpoint::load(fs, &config.base).map_err(OpenError::io("reading the checkpoint"))?;
    let committed = found.map_or(-1, |checkpoint| checkpoint.committed_index.max(-1));
    recovery.checkpoint_committed = committed;
    recovery.committed_index = committed.min(recovery.end_index);
    if recovery.committed_index < recovery.begin_index {
        recovery.committed_index = -1;
    }
    if committed <= recovery.end_index || wipe {
        return Ok(());
    }
    if config.short_log == ShortLog::Refuse {
        return Err(OpenError::ShorterThanCheckpoint {
            base: config.base.clone(),
            end_index: recovery.end_index,
            committed,
        });
    }
    recovery.short_of = Some(committed);
    Ok(())
}

/// The files as found.
struct Lists {
    data: Files,
    index: Files,
    useless_index: Vec<PathBuf>,
    empty: Vec<PathBuf>,
    warnings: Vec<String>,
}

impl Lists {
    fn read(fs: &dyn Fs, config: &StoreConfig, mode: MapMode) -> Result<Lists, OpenError> {
        let (data_dir, index_dir) = (config.data_dir(), config.index_dir());
        let mut data = listing::list(fs, &data_dir, config.segment_size)?;
        if let Some(path) = data.gap(&data_dir, config.segment_size) {
            return Err(OpenError::MissingFile(path));
        }
        let mut index = listing::list(fs, &index_dir, config.index_file_size)?;
        let mut warnings = std::mem::take(&mut data.warnings);
        warnings.append(&mut index.warnings);
        let mut useless_index = Vec::new();
        if let Some(path) = index.gap(&index_dir, config.index_file_size) {
            warnings.push(format!(
                "{} is missing: the index is written anew",
                path.display()
            ));
            useless_index = index.files.drain(..).rev().map(|file| file.path).collect();
        }
        let mut empty = data.empty;
        empty.append(&mut index.empty);
        empty.reverse();
        Ok(Lists {
            data: map_all(fs, data.files, config.segment_size, mode)?,
            index: map_all(fs, index.files, config.index_file_size, mode)?,
            useless_index,
            empty,
            warnings,
        })
    }
}

fn map_all(fs: &dyn Fs, files: Vec<Listed>, size: u64, mode: MapMode) -> Result<Files, OpenError> {
    let mut segments = Vec::with_capacity(files.len());
    for file in files {
        let map = fs
            .map(&file.path, mode)
            .map_err(OpenError::io(format!("mapping {}", file.path.display())))?;
        segments.push(Arc::new(Segment::new(file.start, map, file.path)));
    }
    Ok(Files {
        segments,
        file_size: size as i64,
    })
}

/// The outcome.
struct Decision {
    begin_index: i64,
    first_pos: i64,
    scan: Scan,
    scanned_from: i64,
    bodies_from: i64,
    unsynced_from: (i64, i64),
    note_matched: bool,
    cut: Option<Cut>,
    warnings: Vec<String>,
}

impl Decision {
    fn empty(lists: &Lists, first_pos: i64) -> Decision {
        let from = From {
            pos: first_pos,
            last: None,
            index: None,
        };
        let none = Files::default();
        let scan = scan::scan(&none, &lists.index, from, first_pos, &crate::store::NoCheck);
        Decision {
            begin_index: -1,
            first_pos,
            scan,
            scanned_from: first_pos,
            bodies_from: first_pos,
            unsynced_from: (first_pos, 0),
            note_matched: false,
            cut: None,
            warnings: Vec::new(),
        }
    }

    fn into_plan(self, mut lists: Lists, note_sequence: i64, wipe: bool) -> Plan {
        let end_index = self.scan.last.map_or(-1, |last| last.index);
        let mut warnings = std::mem::take(&mut lists.warnings);
        warnings.extend(self.warnings);
        if let Some(cut) = &self.cut {
            warnings.push(format!(
                "the log is cut at {}: {}; {} bytes behind are overwritten",
                cut.pos, cut.reason, cut.bytes
            ));
        }
        let end_file =
            self.scan.end_pos - self.scan.end_pos.rem_euclid(lists.data.file_size.max(1));
        let mut removed = lists.empty.clone();
        removed.extend(lists.useless_index.iter().cloned());
        removed.extend(
            lists
                .data
                .segments
                .iter()
                .rev()
                .filter(|s| wipe || s.start > end_file)
                .map(|s| s.path.clone()),
        );
        let recovery = Recovery {
            begin_index: self.begin_index,
            end_index,
            end_term: self.scan.last.map_or(-1, |last| last.term),
            first_pos: self.first_pos,
            end_pos: self.scan.end_pos,
            checkpoint_committed: -1,
            committed_index: -1,
            short_of: None,
            cut: self.cut,
            note_matched: self.note_matched,
            scanned_from: self.scanned_from,
            scanned_entries: self.scan.entries,
            bodies_checked_from: self.bodies_from,
            index_rebuilt_from: self.scan.unit_differs.map(|(index, _)| index),
            removed,
            warnings,
        };
        Plan {
            recovery,
            data: lists.data,
            index: lists.index,
            useless_index: lists.useless_index,
            empty: lists.empty,
            unit_differs: self.scan.unit_differs,
            unsynced_from: self.unsynced_from,
            note_sequence,
            wipe,
        }
    }
}

/// Where the log begins and from where it has to be scanned.
struct Start {
    begin_pos: i64,
    /// Entries before this position are known to be whole and synced.
    trusted: From,
    note_matched: bool,
    /// Up to here bytes may be our own unsynced ones.
    ours_up_to: i64,
}

struct Decider<'a> {
    lists: &'a Lists,
    note: Option<Note>,
    check: &'a dyn BodyCheck,
    config: &'a StoreConfig,
    first_pos: i64,
}

impl Decider<'_> {
    fn data(&self) -> &[Arc<Segment>] {
        &self.lists.data.segments
    }

    fn decide(&self) -> Result<Decision, OpenError> {
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
        let begin_index = match &from.last {
            None => scan.first.map_or(last.index, |header| header.index),
            Some(_) => self
                .header_at(start.begin_pos)
                .map_or(0, |header| header.index),
        };
        let first_unsynced = start
            .trusted
            .last
            .map_or(begin_index, |last| last.index + 1);
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
        for file in files[1..]
            .iter()
            .rev()
            .take_while(|file| file.start >= files[lowest].start)
        {
            if file.start != files[lowest].start {
                continue;
            }
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
            ours_up_to: note.limit_pos,
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
        if scan::look(first, first.start) != Found::Nothing {
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

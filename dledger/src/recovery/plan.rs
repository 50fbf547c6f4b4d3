//! What is to be done, and the files as found.

use std::path::PathBuf;
use std::sync::Arc;

use super::decide::Decider;
use super::listing::{self, Listed};
use super::scan::{self, Files, From, Scan};
use super::{Cut, OpenError, Recovery, ShortLog};
use crate::checkpoint;
use crate::fs::{Fs, MapMode};
use crate::store::files::Segment;
use crate::store::sidecar;
use crate::store::{BodyCheck, StoreConfig};

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
    /// Behind the end, up to this position, the disk may hold old entries even where zeros are seen.
    pub(super) erase_to: i64,
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
    plan.erase_to = note.map_or(0, |note| note.erase_to);
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
pub(super) struct Lists {
    pub(super) data: Files,
    pub(super) index: Files,
    pub(super) useless_index: Vec<PathBuf>,
    pub(super) empty: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
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
pub(super) struct Decision {
    pub(super) begin_index: i64,
    pub(super) first_pos: i64,
    pub(super) scan: Scan,
    pub(super) scanned_from: i64,
    pub(super) bodies_from: i64,
    pub(super) unsynced_from: (i64, i64),
    pub(super) note_matched: bool,
    pub(super) cut: Option<Cut>,
    pub(super) warnings: Vec<String>,
}

impl Decision {
    pub(super) fn empty(lists: &Lists, first_pos: i64) -> Decision {
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
            erase_to: 0,
        }
    }
}

//! Doing what was decided. Every step can be repeated: until the note of what is synced is replaced at the end, a
//! later start decides the same again.

use std::path::PathBuf;
use std::sync::Arc;

use super::plan::Plan;
use super::scan::{self, Files, Found};
use super::{OpenError, Recovery};
use crate::checkpoint::{self, Checkpoint};
use crate::fs::Fs;
use crate::index_unit::{IndexUnit, UNIT_SIZE};
use crate::store::StoreConfig;
use crate::store::files::FileList;
use crate::store::shared::{Bounds, Shared};
use crate::store::sidecar::{Note, Sidecar};

const UNIT: i64 = UNIT_SIZE as i64;

pub(super) fn apply(
    fs: Arc<dyn Fs>,
    config: &StoreConfig,
    plan: Plan,
) -> Result<(Shared, Recovery), OpenError> {
    let (data_dir, index_dir) = (config.data_dir(), config.index_dir());
    for dir in [&config.base, &data_dir] {
        fs.create_dir_all(dir)
            .map_err(OpenError::io(format!("creating {}", dir.display())))?;
    }
    remove(&*fs, &plan.empty)?;
    remove(&*fs, &plan.useless_index)?;
    let list =
        |dir, files: Files| FileList::new(Arc::clone(&fs), dir, files.file_size, files.segments);
    let data = list(data_dir, plan.data);
    let index = list(index_dir, plan.index);
    let recovery = &plan.recovery;
    cut_data(&data, recovery, plan.wipe)?;
    if recovery.end_index < 0 {
        index
            .remove_from(i64::MIN)
            .map_err(OpenError::io("removing the index of an empty log"))?;
    } else {
        mend_index(&data, &index, recovery, plan.unit_differs)?;
        let (pos, first) = plan.unsynced_from;
        let first = plan
            .unit_differs
            .map_or(first, |(index, _)| index.min(first));
        data.sync(pos, recovery.end_pos)
            .map_err(OpenError::io("syncing the log"))?;
        index
            .sync(first * UNIT, (recovery.end_index + 1) * UNIT)
            .map_err(OpenError::io("syncing the index"))?;
    }
    if plan.wipe && recovery.checkpoint_committed >= 0 {
        let none = Checkpoint {
            committed_index: -1,
            end_index: -1,
        };
        checkpoint::save(&*fs, &config.base, &none)
            .map_err(OpenError::io("writing the checkpoint"))?;
    }
    let shared = finish(fs, config, &plan.recovery, data, index, plan.note_sequence)?;
    Ok((shared, plan.recovery))
}

fn remove(fs: &dyn Fs, paths: &[PathBuf]) -> Result<(), OpenError> {
    for path in paths {
        fs.remove_file(path)
            .map_err(OpenError::io(format!("removing {}", path.display())))?;
    }
    for dir in paths.iter().filter_map(|path| path.parent()) {
        fs.sync_dir(dir)
            .map_err(OpenError::io(format!("syncing {}", dir.display())))?;
    }
    Ok(())
}

/// Removes the data files behind the end, and whatever lies behind the end in its file. The file of an empty log is
/// kept if the log is to begin in it.
fn cut_data(data: &FileList, recovery: &Recovery, wipe: bool) -> Result<(), OpenError> {
    let removing = || OpenError::io("removing files behind the end of the log");
    let moved = recovery.end_index < 0
        && data
            .first()
            .is_some_and(|first| first.start != data.start_of(recovery.first_pos));
    let keep_to = if wipe || moved {
        i64::MIN
    } else {
        data.start_of(recovery.end_pos) + data.file_size
    };
    data.remove_from(keep_to).map_err(removing())?;
    match data.get(recovery.end_pos) {
        Some(segment) => segment
            .zero_tail(recovery.end_pos)
            .map_err(OpenError::io(format!(
                "clearing the end of {}",
                segment.path.display()
            ))),
        None => Ok(()),
    }
}

/// Makes the index say what the data says.
fn mend_index(
    data: &FileList,
    index: &FileList,
    recovery: &Recovery,
    differs: Option<(i64, i64)>,
) -> Result<(), OpenError> {
    let io = || OpenError::io("mending the index");
    let begin = recovery.begin_index * UNIT;
    let end = (recovery.end_index + 1) * UNIT;
    if index.first().is_some_and(|first| first.start > begin) {
        index.remove_from(i64::MIN).map_err(io())?;
    }
    index.remove_below(begin).map_err(io())?;
    index
        .remove_from(index.start_of(end - UNIT) + index.file_size)
        .map_err(io())?;
    if let Some((first, pos)) = differs {
        write_units(data, index, first, pos, recovery.end_pos)?;
    }
    if let Some(last) = index.get(end) {
        last.zero_tail(end).map_err(io())?;
    }
    Ok(())
}

/// Writes the units of the entries from `pos` on, the first of which is `first`.
fn write_units(
    data: &FileList,
    index: &FileList,
    first: i64,
    pos: i64,
    end_pos: i64,
) -> Result<(), OpenError> {
    let io = || OpenError::io("writing the index anew");
    let mut pos = pos;
    let mut next = first;
    while pos < end_pos {
        let Some(segment) = data.get(pos) else { break };
        let header = match scan::look(&segment, pos) {
            Found::Entry(header) => header,
            Found::Blank => {
                pos = segment.end();
                continue;
            }
            Found::Nothing | Found::Bad(_) => break,
        };
        debug_assert_eq!(header.index, next);
        let at = header.index * UNIT;
        let file = match index.get(at) {
            Some(file) => file,
            None => {
                let file = index.create(index.start_of(at)).map_err(io())?;
                index.push(Arc::clone(&file));
                file
            }
        };
        let unit = IndexUnit::of(&header);
        file.prepare_to(at + UNIT, file.window_end(at + UNIT))
            .map_err(io())?;
        file.map
            .write(file.offset(at), UNIT_SIZE, &mut |buf| unit.encode_into(buf));
        pos += i64::from(header.size);
        next += 1;
    }
    Ok(())
}

/// Notes that all of it is synced, and creates the first file of a new log.
fn finish(
    fs: Arc<dyn Fs>,
    config: &StoreConfig,
    recovery: &Recovery,
    data: FileList,
    index: FileList,
    sequence: i64,
) -> Result<Shared, OpenError> {
    let bounds = Bounds {
        begin_index: recovery.begin_index,
        end_index: recovery.end_index,
        end_term: recovery.end_term,
        first_pos: recovery.first_pos,
        end_pos: recovery.end_pos,
    };
    let limit = data.last().map_or(recovery.first_pos, |last| last.end());
    let note = last_note(&data, &index, &bounds, limit)?;
    let sidecar = Sidecar::create(&*fs, &config.base, sequence, note).map_err(OpenError::io(
        format!("writing {}", crate::store::SYNCED_FILE_NAME),
    ))?;
    let shared = Shared::new(fs, data, index, bounds, sidecar);
    if shared.data.last().is_none() {
        let start = shared.data.start_of(recovery.end_pos);
        let segment = shared.create_data_file(start).map_err(|e| OpenError::Io {
            what: "creating the first data file".to_owned(),
            source: std::io::Error::other(e),
        })?;
        shared.data.push(segment);
    }
    Ok(shared)
}

/// The note that everything up to the end is durable.
fn last_note(
    data: &FileList,
    index: &FileList,
    bounds: &Bounds,
    limit: i64,
) -> Result<Note, OpenError> {
    if bounds.end_index < 0 {
        return Ok(Note::nothing(0, bounds.first_pos, limit));
    }
    let at = bounds.end_index * UNIT;
    let unit = index.with(at, |segment| {
        let mut buf = [0; UNIT_SIZE];
        segment.map.read_at(segment.offset(at), &mut buf);
        IndexUnit::decode(&buf)
    });
    let unit = unit
        .filter(|unit| unit.is_for(bounds.end_index))
        .ok_or_else(|| OpenError::Damaged {
            path: index.dir().to_owned(),
            pos: bounds.end_pos,
            reason: format!("the unit of entry {} cannot be read back", bounds.end_index),
        })?;
    Note::of(&unit, data, bounds.begin_index, bounds.first_pos, limit).ok_or_else(|| {
        OpenError::Damaged {
            path: data.dir().to_owned(),
            pos: unit.pos,
            reason: "the last entry cannot be read back".to_owned(),
        }
    })
}

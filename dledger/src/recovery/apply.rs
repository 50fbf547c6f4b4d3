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
    // Creations and removals of a killed process are seen, but may not be on the disk either.
    for dir in [data.dir(), index.dir()]
        .into_iter()
        .filter(|dir| fs.exists(dir))
    {
        fs.sync_dir(dir)
            .map_err(OpenError::io(format!("syncing {}", dir.display())))?;
    }
    let recovery = plan.recovery;
    let mut sequence = plan.note_sequence;
    if plan.wipe {
        wipe(&*fs, config, &recovery, &data, sequence)?;
        sequence += 2;
    }
    if recovery.end_index < 0 {
        index
            .remove_from(i64::MIN)
            .map_err(OpenError::io("removing the index of an empty log"))?;
    } else {
        mend_index(&data, &index, &recovery, plan.unit_differs)?;
        sync(
            &data,
            &index,
            &recovery,
            plan.unsynced_from,
            plan.unit_differs,
        )?;
    }
    // What is kept is durable now; only then the rest goes.
    let limit = data.last().map_or(recovery.first_pos, |last| last.end());
    let mut note = last_note(&data, &index, &recovery, limit)?;
    let cut_to = recovery.cut.as_ref().map_or(0, |cut| cut.pos + cut.bytes);
    note.erase_to = cut_to.max(plan.erase_to);
    let mut sidecar = Sidecar::create(&*fs, &config.base, sequence, note).map_err(note_failed())?;
    cut_data(&data, &recovery, note.erase_to)?;
    sidecar
        .write(Note {
            erase_to: 0,
            ..note
        })
        .map_err(note_failed())?;
    let shared = share(fs, &recovery, data, index, sidecar)?;
    Ok((shared, recovery))
}

/// Ends the replacement of a log that was interrupted: everything goes.
fn wipe(
    fs: &dyn Fs,
    config: &StoreConfig,
    recovery: &Recovery,
    data: &FileList,
    sequence: i64,
) -> Result<(), OpenError> {
    // What a killed process wrote is seen, but may not be on the disk: nothing goes before it is.
    let nothing = Note::nothing(0, recovery.first_pos, recovery.first_pos);
    let note = Note {
        resetting: true,
        ..nothing
    };
    Sidecar::create(fs, &config.base, sequence, note).map_err(note_failed())?;
    if recovery.checkpoint_committed >= 0 {
        let none = Checkpoint {
            committed_index: -1,
            end_index: -1,
        };
        checkpoint::save(fs, &config.base, &none)
            .map_err(OpenError::io("writing the checkpoint"))?;
    }
    data.remove_from(i64::MIN)
        .map_err(OpenError::io("removing a log that was being replaced"))
}

fn sync(
    data: &FileList,
    index: &FileList,
    recovery: &Recovery,
    from: (i64, i64),
    differs: Option<(i64, i64)>,
) -> Result<(), OpenError> {
    let (pos, end) = (from.0, recovery.end_pos);
    let first = differs.map_or(from.1, |(index, _)| index.min(from.1));
    let (unit, unit_end) = (first * UNIT, (recovery.end_index + 1) * UNIT);
    // Behind our own note little can be unsynced; in a store without one it may be gigabytes.
    let (synced, units_synced) = match recovery.note_matched {
        true => (data.sync_again(pos, end), index.sync_again(unit, unit_end)),
        false => (data.sync(pos, end), index.sync(unit, unit_end)),
    };
    synced.map_err(OpenError::io("syncing the log"))?;
    units_synced.map_err(OpenError::io("syncing the index"))
}

fn note_failed() -> impl FnOnce(std::io::Error) -> OpenError {
    OpenError::io(format!("writing {}", crate::store::SYNCED_FILE_NAME))
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
fn cut_data(data: &FileList, recovery: &Recovery, erase_to: i64) -> Result<(), OpenError> {
    let moved = recovery.end_index < 0
        && data
            .first()
            .is_some_and(|first| first.start != data.start_of(recovery.first_pos));
    let keep_to = if moved {
        i64::MIN
    } else {
        data.start_of(recovery.end_pos) + data.file_size
    };
    data.remove_from(keep_to)
        .map_err(OpenError::io("removing files behind the end of the log"))?;
    match data.get(recovery.end_pos) {
        Some(segment) => segment
            .zero_tail(recovery.end_pos, erase_to)
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
        last.zero_tail(end, end).map_err(io())?;
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

/// Makes the open log, with a first file if it has none.
fn share(
    fs: Arc<dyn Fs>,
    recovery: &Recovery,
    data: FileList,
    index: FileList,
    sidecar: Sidecar,
) -> Result<Shared, OpenError> {
    let bounds = Bounds {
        begin_index: recovery.begin_index,
        end_index: recovery.end_index,
        end_term: recovery.end_term,
        first_pos: recovery.first_pos,
        end_pos: recovery.end_pos,
    };
    let shared = Shared::new(fs, data, index, bounds, sidecar);
    let limit = match shared.data.last() {
        Some(last) => last.end(),
        None => {
            let start = shared.data.start_of(recovery.end_pos);
            let segment = shared.create_data_file(start).map_err(|e| OpenError::Io {
                what: "creating the first data file".to_owned(),
                source: std::io::Error::other(e),
            })?;
            let end = segment.end();
            shared.data.push(segment);
            end
        }
    };
    shared.raise_limit(limit).map_err(|e| OpenError::Io {
        what: "noting the limit of the log".to_owned(),
        source: std::io::Error::other(e),
    })?;
    Ok(shared)
}

/// The note that everything up to the end is durable.
fn last_note(
    data: &FileList,
    index: &FileList,
    recovery: &Recovery,
    limit: i64,
) -> Result<Note, OpenError> {
    if recovery.end_index < 0 {
        return Ok(Note::nothing(0, recovery.first_pos, limit));
    }
    let at = recovery.end_index * UNIT;
    let unit = index.with(at, |segment| {
        let mut buf = [0; UNIT_SIZE];
        segment.map.read_at(segment.offset(at), &mut buf);
        IndexUnit::decode(&buf)
    });
    let damaged = |path: &std::path::Path, pos, reason: &str| OpenError::Damaged {
        path: path.to_owned(),
        pos,
        reason: reason.to_owned(),
    };
    let unit = unit
        .filter(|unit| unit.is_for(recovery.end_index))
        .ok_or_else(|| {
            damaged(
                index.dir(),
                recovery.end_pos,
                "the last unit cannot be read back",
            )
        })?;
    Note::of(&unit, data, recovery.begin_index, recovery.first_pos, limit)
        .ok_or_else(|| damaged(data.dir(), unit.pos, "the last entry cannot be read back"))
}

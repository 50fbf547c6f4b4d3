//! The upgrade of a plain store in place: a plan made from what was found, and its execution.
//!
//! The plan names every change to the disk: files behind the recovered end that go, the blank record that closes
//! the last legacy file, the first DLedger file at the divide. It is made from the bytes alone, so a start after a
//! kill at any instant makes the plan anew, finds the steps that were done, and ends in the same store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dledger::fs::{Fs, MapMode, OpenMode};

use crate::blank;
use crate::layout::file_name;
use crate::legacy::{LegacyFile, LegacyMark, Listing, Recovered, Stop};

/// What opening the store comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing is there: a new log begins at position 0.
    New,
    /// A DLedger store without a legacy half.
    Dledger,
    /// An upgraded store: legacy below the divide, DLedger from there.
    Mixed {
        /// Start of the DLedger log.
        divide: i64,
    },
    /// A plain store, or one whose upgrade was not finished: to be upgraded.
    Upgrade(Upgrade),
}

/// The changes that make a plain store a mixed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// What recovery of the legacy log found.
    pub recovered: Recovered,
    /// Where the DLedger log will begin: end of the last legacy file that stays.
    pub divide: i64,
    /// The changes, in order.
    pub steps: Vec<Step>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Remove a file.
    Remove {
        /// Which.
        path: PathBuf,
        /// Why, in a few words.
        why: &'static str,
    },
    /// Close the last legacy file with the blank record.
    Close {
        /// Which.
        path: PathBuf,
        /// Offset in the file at which its frames end.
        at: u64,
        /// The record; none if it is there already, or if fewer than eight bytes are left.
        blank: Option<[u8; blank::BLANK_LEN]>,
    },
    /// Note beside the store where the legacy half ends.
    Mark {
        /// Path of the note.
        path: PathBuf,
        /// The note.
        mark: LegacyMark,
    },
    /// Create the first DLedger data file, full length, sparse.
    Create {
        /// Path.
        path: PathBuf,
        /// Bytes.
        size: u64,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Remove { path, why } => write!(f, "remove {} ({why})", path.display()),
            Step::Close {
                path,
                at,
                blank: Some(_),
            } => {
                write!(
                    f,
                    "close {} with a blank record at offset {at}",
                    path.display()
                )
            }
            Step::Close {
                path,
                at,
                blank: None,
            } => {
                write!(f, "sync {}, which is closed at offset {at}", path.display())
            }
            Step::Mark { path, .. } => {
                write!(f, "note the end of the legacy half in {}", path.display())
            }
            Step::Create { path, size } => {
                write!(f, "create {} ({size} bytes, sparse)", path.display())
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::New => write!(f, "a new, empty store"),
            Plan::Dledger => write!(f, "a DLedger store, nothing to upgrade"),
            Plan::Mixed { divide } => write!(
                f,
                "an upgraded store, divided at {divide}; nothing to upgrade"
            ),
            Plan::Upgrade(upgrade) => {
                let Upgrade {
                    recovered,
                    divide,
                    steps,
                } = upgrade;
                write!(
                    f,
                    "a plain store, to be upgraded in place: its commitlog ends at {}, the DLedger log will begin \
                     at {divide}",
                    recovered.end
                )?;
                steps
                    .iter()
                    .enumerate()
                    .try_for_each(|(i, step)| write!(f, "\n  {}. {step}", i + 1))
            }
        }
    }
}

/// Plans the upgrade of a store whose legacy log (at least one file) was recovered, and whose DLedger log holds no
/// entry. `data` are the data files that an earlier, unfinished upgrade left in `data_dir`; `mark` is the path of
/// our note about the legacy half.
pub fn plan(
    legacy: &Listing,
    recovered: Recovered,
    data: &Listing,
    data_dir: &Path,
    mark: &Path,
) -> Option<Upgrade> {
    let file_size = legacy.file_size;
    let last = legacy
        .files
        .iter()
        .rev()
        .find(|file| file.start <= recovered.end)?;
    let divide = last.start + file_size as i64;
    let at = (recovered.end - last.start) as u64;
    let mut steps = removals(legacy, recovered.end, data, divide);
    let closed = recovered.stop == Stop::Blank;
    let blank = if closed {
        None
    } else {
        blank::encode(file_size - at)
    };
    steps.push(Step::Close {
        path: last.path.clone(),
        at,
        blank,
    });
    let note = LegacyMark {
        divide,
        end: recovered.end,
        last_store_timestamp: recovered.last_store_timestamp,
        retired: false,
    };
    steps.push(Step::Mark {
        path: mark.to_path_buf(),
        mark: note,
    });
    if !data.files.iter().any(|file| file.start == divide) {
        steps.push(Step::Create {
            path: data_dir.join(file_name(divide)),
            size: file_size,
        });
    }
    Some(Upgrade {
        recovered,
        divide,
        steps,
    })
}

/// The files that go: what lies behind the end of the legacy log, and an empty DLedger log that begins elsewhere.
fn removals(legacy: &Listing, end: i64, data: &Listing, divide: i64) -> Vec<Step> {
    let behind = legacy.files.iter().filter(|file| file.start > end);
    let mut removed: Vec<&LegacyFile> = behind.chain(&legacy.empty).collect();
    // From the last one back, so that a kill in between leaves no gap.
    removed.sort_by_key(|file| std::cmp::Reverse(file.start));
    let stale = data
        .files
        .iter()
        .chain(&data.empty)
        .filter(|file| file.start != divide)
        .rev();
    let remove = |file: &LegacyFile, why| Step::Remove {
        path: file.path.clone(),
        why,
    };
    removed
        .into_iter()
        .map(|f| remove(f, "it lies behind the end of the commitlog"))
        .chain(stale.map(|f| remove(f, "an empty DLedger log that begins elsewhere")))
        .collect()
}

/// Performs the steps of a plan. Each is done durably before the next begins; each may be repeated.
pub fn perform(fs: &dyn Fs, upgrade: &Upgrade) -> io::Result<()> {
    for step in &upgrade.steps {
        tracing::info!("upgrade: {step}");
        perform_step(fs, step)
            .map_err(|e| io::Error::new(e.kind(), format!("upgrade: {step}: {e}")))?;
    }
    Ok(())
}

fn perform_step(fs: &dyn Fs, step: &Step) -> io::Result<()> {
    match step {
        Step::Remove { path, .. } => {
            match fs.remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            sync_parent(fs, path)
        }
        Step::Close { path, at, blank } => {
            let file = fs.open(path, OpenMode::ReadWrite)?;
            if let Some(blank) = blank {
                file.write_all_at(blank, *at)?;
            }
            file.sync()?;
            sync_parent(fs, path)
        }
        Step::Mark { path, mark } => mark.save(fs, path),
        Step::Create { path, size } => {
            if let Some(dir) = path.parent() {
                fs.create_dir_all(dir)?;
                // `dledger-<id>` and `data` may be new: their names are as much part of the store as the file.
                sync_parent(fs, dir)?;
                dir.parent().map_or(Ok(()), |base| sync_parent(fs, base))?;
            }
            fs.map(path, MapMode::Create { size: *size })?
                .sync(0, *size)?;
            sync_parent(fs, path)
        }
    }
}

fn sync_parent(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| fs.sync_dir(dir))
}

#[cfg(test)]
mod tests;

//! Opening a log by what is on disk.
//!
//! The order is: look at everything and decide (nothing is changed, so a refusal leaves the store as it was), then
//! do it. Doing it is repeatable: a kill in between leaves a store that the next start decides on again.
//!
//! - Names that are not 20 digits are skipped with a warning. A file of 20 digits must have the configured size and
//!   follow its predecessor without a gap; a newest file of length zero is removed.
//! - What our own note (see [`crate::store::SYNCED_FILE_NAME`]) covers was synced and is not looked at again, except
//!   for the first header of each file. Behind it, or without a note that matches in the last three files as Java
//!   has it, every entry is checked: header, order, and the body by the [`BodyCheck`].
//! - The log ends before the first entry that is not whole. Everything behind is overwritten with zeros and the
//!   files behind are removed, so that no later start finds any of it. Where intact data lies so far behind the
//!   damage that no crash explains it, the start is refused instead.
//! - Index units that do not agree with the entries are written anew.
//! - If the log then ends before the committed index of its own checkpoint, it is refused or reported, as the
//!   configuration says.

mod apply;
mod decide;
mod listing;
mod plan;
mod scan;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::fs::{Fs, MapMode};
use crate::store::shared::Shared;
use crate::store::{BodyCheck, StoreConfig};

/// What to do with a log that ends before the committed index of its own checkpoint: synced entries are lost, by a
/// lost disk, or by a power failure under a Java broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShortLog {
    /// Open nothing, change nothing.
    #[default]
    Refuse,
    /// Open what is there and say so in [`Recovery::short_of`]: a member of a group, which gets the rest from the
    /// others, or a repair on the operator's order.
    Accept,
}

/// What was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Position at which the log ends now.
    pub pos: i64,
    /// Bytes from there to the last one that was not zero.
    pub bytes: i64,
    /// Why the entry at `pos` was not whole.
    pub reason: String,
}

/// What an opening found and did (or, by [`examine`], would do).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Index of the first entry; −1 if the log is empty.
    pub begin_index: i64,
    /// Index of the last entry; −1 if the log is empty.
    pub end_index: i64,
    /// Term of the last entry; −1 if the log is empty.
    pub end_term: i64,
    /// Position of the first entry, or where it will lie.
    pub first_pos: i64,
    /// Position after the last entry (after a blank: the start of the next file).
    pub end_pos: i64,
    /// The committed index of the checkpoint as it stands there; −1 if there is none.
    pub checkpoint_committed: i64,
    /// The committed index to start with: that of the checkpoint if the log has it, otherwise the end; −1 if none.
    pub committed_index: i64,
    /// The committed index of the checkpoint, if the log ends before it.
    pub short_of: Option<i64>,
    /// What was cut off; `None` if the log ended in zeros.
    pub cut: Option<Cut>,
    /// Whether our note of what was synced was there and matched.
    pub note_matched: bool,
    /// Position from which entries were looked at.
    pub scanned_from: i64,
    /// Entries looked at.
    pub scanned_entries: i64,
    /// Position from which bodies were checked.
    pub bodies_checked_from: i64,
    /// The first entry whose index unit is written anew, if any.
    pub index_rebuilt_from: Option<i64>,
    /// Data and index files that are removed: empty ones, and those behind the end.
    pub removed: Vec<PathBuf>,
    /// Things that an operator should know.
    pub warnings: Vec<String>,
}

/// Why a log is not opened. Nothing was changed, unless it says `Io`.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// A file has another size than the configuration says.
    #[error(
        "{} has {found} bytes, but the configured file size is {expected}: set the size with which the store was made",
        path.display()
    )]
    FileSize {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// Configured bytes.
        expected: u64,
    },
    /// A file that is not the newest one is empty.
    #[error("{} is empty, but not the newest file: restore it from a copy", .0.display())]
    EmptyFile(PathBuf),
    /// A file does not start at a multiple of the file size.
    #[error("{} does not start at a multiple of the configured file size {size}", path.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// Configured bytes.
        size: u64,
    },
    /// A file is missing.
    #[error("{} is missing between the files around it: restore it from a copy", .0.display())]
    MissingFile(PathBuf),
    /// Damage that no crash explains.
    #[error("{} is damaged at position {pos}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Position in the log.
        pos: i64,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The log ends before the committed index of its own checkpoint.
    #[error("the log in {} ends at entry {end_index}, but its checkpoint says that entry {committed} was committed: \
             entries are lost (a lost disk, another directory mounted, or a power failure). If they are lost for good, \
             `mqctl store check --repair` accepts the log as it is", base.display())]
    ShorterThanCheckpoint {
        /// Directory of the log.
        base: PathBuf,
        /// Last entry found; −1 for none.
        end_index: i64,
        /// Committed index of the checkpoint.
        committed: i64,
    },
    /// A file could not be read, created or changed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
        let what = what.into();
        move |source| OpenError::Io { what, source }
    }
}

fn check_config(config: &StoreConfig, first_pos: i64) -> Result<(), OpenError> {
    let bad = |text: String| Err(OpenError::Config(text));
    // Java counts bytes of a file in 32 bits.
    if config.segment_size < 4096 || config.segment_size > i32::MAX as u64 {
        return bad(format!(
            "a data file of {} bytes: 4096 to 2147483647 are possible",
            config.segment_size
        ));
    }
    if config.index_file_size == 0
        || !config.index_file_size.is_multiple_of(32)
        || config.index_file_size > i32::MAX as u64
    {
        return bad(format!(
            "an index file of {} bytes: a multiple of 32 is needed",
            config.index_file_size
        ));
    }
    if first_pos < 0 {
        return bad(format!("a log cannot begin at position {first_pos}"));
    }
    Ok(())
}

/// Looks at a log and says what opening it would find and do. Changes nothing. `first_pos` as for
/// [`crate::store::Store::open`]. A log that is shorter than its checkpoint is reported, not refused.
pub fn examine(
    fs: Arc<dyn Fs>,
    config: &StoreConfig,
    first_pos: i64,
    check: &dyn BodyCheck,
) -> Result<Recovery, OpenError> {
    check_config(config, first_pos)?;
    let config = StoreConfig {
        short_log: ShortLog::Accept,
        ..config.clone()
    };
    Ok(plan::decide(fs, &config, first_pos, check, MapMode::ReadOnly)?.recovery)
}

pub(crate) fn open(
    fs: Arc<dyn Fs>,
    config: &StoreConfig,
    first_pos: i64,
    check: &dyn BodyCheck,
) -> Result<(Shared, Recovery), OpenError> {
    check_config(config, first_pos)?;
    let plan = plan::decide(
        Arc::clone(&fs),
        config,
        first_pos,
        check,
        MapMode::ReadWrite,
    )?;
    for warning in &plan.recovery.warnings {
        tracing::warn!("{warning}");
    }
    apply::apply(fs, config, plan)
}

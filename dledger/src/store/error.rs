//! What can go wrong in a store that is open.

use std::io;

/// Why an append, a cut or a sync did not happen. Unless it says `Poisoned` or `Io`, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No room for the next file, or for the next part of this one. Later appends may succeed.
    #[error("the disk is full: {0}")]
    DiskFull(#[source] io::Error),
    /// The entry is larger than any member could take.
    #[error("an entry of {size} bytes; at most {max} fit")]
    TooLarge {
        /// Bytes with the header.
        size: usize,
        /// Largest allowed.
        max: usize,
    },
    /// The entry is not the next one, or does not lie where the next one lies.
    #[error("the entry does not follow the log: its {field} is {found}, not {expected}")]
    OutOfOrder {
        /// Name of the field.
        field: &'static str,
        /// What the entry has.
        found: i64,
        /// What would follow.
        expected: i64,
    },
    /// A position or index outside the log.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A sync failed earlier: what is in memory and what is on disk may differ, so nothing is accepted any more.
    #[error("the log was closed for writing after a failure: {0}")]
    Poisoned(String),
    /// A file could not be written, created or removed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        if crate::fs::is_disk_full(&source) {
            return StoreError::DiskFull(source);
        }
        StoreError::Io {
            what: what.into(),
            source,
        }
    }
}

/// Why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Already expired, or never there.
    #[error("{wanted} lies below the begin of the log, {begin}")]
    BelowBegin {
        /// Position or index asked for.
        wanted: i64,
        /// First one that there is.
        begin: i64,
    },
    /// Not written yet.
    #[error("{wanted} lies beyond the end of the log, {end}")]
    BeyondEnd {
        /// Position or index asked for.
        wanted: i64,
        /// Last index, or exclusive end position.
        end: i64,
    },
    /// The range is not inside one file.
    #[error("{len} bytes at {pos} cross the end of a file")]
    CrossesFile {
        /// Position.
        pos: i64,
        /// Bytes.
        len: usize,
    },
    /// What lies there is not what must lie there.
    #[error("the log is damaged at {pos}: {reason}")]
    Damaged {
        /// Position, −1 if unknown.
        pos: i64,
        /// What is wrong.
        reason: String,
    },
}

//! What can go wrong with the derived files.

use std::io;
use std::path::PathBuf;

/// Errors of queues, index and dispatcher.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read, written or synced.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, in verb form.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The files on disk were written with another size than the one configured.
    #[error(
        "{}: files of {found} bytes, but {key} is {configured}; set {key}={found} as the broker that wrote them had it",
        path.display()
    )]
    FileSize {
        /// A folder whose files have another size.
        path: PathBuf,
        /// The broker key that gives the size.
        key: &'static str,
        /// Size on disk.
        found: u64,
        /// Size configured.
        configured: u64,
    },
    /// An item of `messageDelayLevel` is not a number with a unit.
    #[error("messageDelayLevel: {item:?} is not a number followed by s, m, h or d")]
    DelayLevel {
        /// The item.
        item: String,
    },
    /// A setting makes no sense.
    #[error("{key}: {reason}")]
    Setting {
        /// The broker key.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// The message log could not be read on.
    #[error("cannot read the message log at {position}: {reason}")]
    Log {
        /// Physical position.
        position: i64,
        /// The cause.
        reason: String,
    },
    /// A sync failed before: what is on disk is no longer known, nothing more may be vouched for.
    #[error(
        "an earlier sync of the consume queues or the index failed; restart to recover them from the log"
    )]
    Poisoned,
    /// The work was told to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Wraps an I/O error with what was tried.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }
}

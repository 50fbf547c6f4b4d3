//! What can go wrong with a log.

use std::sync::Arc;

use thiserror::Error;

use crate::peers::{MemberId, PeersError};
use crate::store;

/// Why a log does not open; each text is one readable line.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum OpenError {
    #[error("the group name is empty")]
    EmptyGroup,
    #[error(transparent)]
    Peers(#[from] PeersError),
    #[error(
        "the peers string names {count} members ({peers}); groups of several members are not served by this version, \
         so list this member alone, or keep Apache's broker until they are"
    )]
    SeveralMembers { count: usize, peers: String },
    #[error(transparent)]
    Store(#[from] store::OpenError),
    #[error("the vote file of {base} cannot be read or written: {error}")]
    VoteFile { base: String, error: std::io::Error },
}

/// Why a log does not start.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StartError {
    #[error("the log was started before")]
    Twice,
    #[error("a thread of the log cannot be started: {0}")]
    Thread(String),
    #[error("the log takes nothing any more: {0}")]
    Poisoned(Arc<str>),
    #[error("the log was stopped while it started")]
    Stopped,
}

/// Why an append was refused. Unless [`Appender::push`](super::Appender::push) had succeeded before, nothing was stored.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum AppendError {
    #[error("this member does not lead{}", .leader.as_ref().map(|l| format!(", {l} does")).unwrap_or_default())]
    NotLeader { leader: Option<MemberId> },
    #[error("the leadership is being handed over")]
    Transferring,
    #[error("too many entries wait to be committed")]
    PendingFull,
    #[error("the disk is full: {0}")]
    DiskFull(String),
    #[error("an entry of {size} bytes is larger than {max}")]
    TooLarge { size: usize, max: usize },
    #[error("the log takes nothing any more: {0}")]
    Poisoned(Arc<str>),
    #[error("the log is stopped")]
    Stopped,
    #[error("the entry cannot be written: {0}")]
    Io(String),
    /// From the caller's own closure.
    #[error(transparent)]
    Rejected(Box<dyn std::error::Error + Send + Sync>),
}

/// Why it is not known that an entry is committed. It may still become so, except that a poisoned or stopped member
/// will not tell.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CommitError {
    #[error("the lead in which the entry was appended has ended")]
    TermChanged,
    #[error("no majority has acknowledged the entry in time")]
    Timeout,
    #[error("the log takes nothing any more: {0}")]
    Poisoned(Arc<str>),
    #[error("the log is stopped")]
    Stopped,
}

/// Why a log did not stop cleanly.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ShutdownError {
    #[error("the log was poisoned, its last entries may not be on disk: {0}")]
    Poisoned(Arc<str>),
    #[error("the checkpoint or the spare file could not be written: {0}")]
    Io(String),
}

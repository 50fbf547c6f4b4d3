//! How far long work is, for a bar on a terminal or lines in a log.

/// A report of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, in a few words.
    pub what: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes to do in all.
    pub total: u64,
}

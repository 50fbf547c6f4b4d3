//! Findings: what an examination has to say, each with a code, a severity, one readable line and what to do.

use std::fmt;
use std::str::FromStr;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Should be looked after, does not stop the start.
    Warning,
    /// Stops the start unless the operator accepts it by its code.
    NeedsAcceptance,
    /// Stops the start.
    Refusal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::NeedsAcceptance => "needs acceptance",
            Severity::Refusal => "refusal",
        })
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, one line.
    pub text: String,
    /// What to do about it, one line; empty if nothing.
    pub what_to_do: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}: {}", self.code, self.severity, self.text)?;
        if self.what_to_do.is_empty() {
            Ok(())
        } else {
            write!(f, " -> {}", self.what_to_do)
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Kinds of findings. The text form names them in output and in acceptances.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The text form.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The log is missing or empty, though derived files name messages in it.
    LogMissing = "log-missing",
    /// The log ends more than one file below what derived files name.
    LogTooShort = "log-too-short",
    /// The legacy half that was there before is gone.
    LegacyMissing = "legacy-missing",
    /// Files are missing inside the legacy log, or between it and the DLedger log.
    LegacyGap = "legacy-gap",
    /// Files are missing inside the DLedger log.
    DledgerGap = "dledger-gap",
    /// A plain broker wrote after the upgrade.
    TwoHistories = "two-histories",
    /// An empty DLedger log begins elsewhere than the legacy log ends.
    StaleDivide = "stale-divide",
    /// The folder of another DLedger member holds data.
    OtherMember = "other-member",
    /// The store of a slave.
    SlaveRole = "slave-role",
    /// Files of another size than configured.
    FileSize = "file-size",
    /// The legacy log lies in several directories.
    MultiPath = "multi-path",
    /// A configured directory does not exist.
    PathMissing = "path-missing",
    /// A file that does not belong to the log.
    ForeignFile = "foreign-file",
    /// A folder inside a data directory.
    ForeignFolder = "foreign-folder",
    /// The last file has length 0.
    EmptyLastFile = "empty-last-file",
    /// A file other than the last has length 0.
    EmptyFile = "empty-file",
    /// A file's name is no multiple of the file size.
    MisnamedFile = "misnamed-file",
    /// The log is damaged with whole messages behind the damage.
    DamagedInside = "damaged-inside",
    /// The end of the log is not whole.
    DamagedTail = "damaged-tail",
    /// The DLedger log does not begin with an entry.
    DamagedStart = "damaged-start",
    /// Derived files name messages beyond the end of the log.
    QueuesAhead = "queues-ahead",
    /// The last broker was killed.
    Aborted = "aborted",
    /// After a kill nothing tells how far the log is sound: all of it is checked.
    FullScan = "full-scan",
    /// Consume queue extensions are in use.
    QueueExtension = "queue-extension",
    /// Batch consume queues of 5.x are in use.
    BatchQueues = "batch-queues",
    /// Consume queues in RocksDB.
    RocksDb = "rocksdb",
    /// Compacted topics.
    Compaction = "compaction",
    /// Messages wait in the timer wheel of 5.x.
    PendingTimers = "pending-timers",
    /// Light message queues.
    LightQueues = "light-queues",
    /// Messages that the configuration allows may not fit an entry.
    MessageSize = "message-size",
    /// Root over another user's store, or files of several owners.
    Ownership = "ownership",
    /// The clock is behind the newest message.
    Clock = "clock",
    /// Files are older than the messages in them.
    CopiedTimes = "copied-times",
    /// Too little space on the disk.
    DiskSpace = "disk-space",
    /// The store checkpoint has another length than brokers write.
    CheckpointSize = "checkpoint-size",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Code, UnknownCode> {
        Code::ALL
            .iter()
            .copied()
            .find(|c| c.as_str() == text)
            .ok_or_else(|| UnknownCode(text.to_string()))
    }
}

/// A text that names no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no finding is called {0:?}")]
pub struct UnknownCode(pub String);

/// Collects findings.
#[derive(Debug, Default)]
pub(super) struct Findings(pub Vec<Finding>);

impl Findings {
    pub fn push(
        &mut self,
        severity: Severity,
        code: Code,
        text: impl Into<String>,
        what_to_do: impl Into<String>,
    ) {
        self.0.push(Finding {
            code,
            severity,
            text: text.into(),
            what_to_do: what_to_do.into(),
        });
    }
}

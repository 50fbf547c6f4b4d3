//! Our own note about the legacy half, beside the store: where it ended when it was closed.
//!
//! It spares a walk through the last legacy file at each start, and tells a legacy half that was expired from one
//! whose disk is not mounted. It is checked against the bytes before it is believed: when a plain broker wrote on,
//! the blank record is no longer where the note says, and the file is walked.

use std::io;
use std::path::Path;

use dledger::fs::Fs;

/// Name of the note among our own files.
pub const MARK_FILE: &str = "legacy-half";

/// The note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyMark {
    /// Start of the DLedger log.
    pub divide: i64,
    /// End of the last legacy frame, where the blank record lies.
    pub end: i64,
    /// Store time of the last legacy frame, ms.
    pub last_store_timestamp: i64,
    /// Whether retention has removed the last legacy file.
    pub retired: bool,
}

impl LegacyMark {
    /// Reads the note; none if there is none, or if it makes no sense.
    pub fn load(fs: &dyn Fs, path: &Path) -> io::Result<Option<LegacyMark>> {
        let bytes = match fs.read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let number = |key: &str| {
            text.lines().find_map(|line| {
                line.strip_prefix(key)?
                    .strip_prefix('=')?
                    .trim()
                    .parse::<i64>()
                    .ok()
            })
        };
        Ok((|| {
            Some(LegacyMark {
                divide: number("divide")?,
                end: number("end")?,
                last_store_timestamp: number("lastStoreTimestamp")?,
                retired: number("retired")? != 0,
            })
        })())
    }

    /// Writes the note durably.
    pub fn save(&self, fs: &dyn Fs, path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs.create_dir_all(dir)?;
        }
        let text = format!(
            "divide={}\nend={}\nlastStoreTimestamp={}\nretired={}\n",
            self.divide,
            self.end,
            self.last_store_timestamp,
            i64::from(self.retired)
        );
        fs.write_durable(path, text.as_bytes())
    }
}

//! The log of a store that no broker has open, read from its files without changing anything.

use std::io;
use std::sync::Arc;

use dledger::fs::Fs;

use super::{Chunk, FrameReader, Half, ReadError, Source};
use crate::examine::Examination;
use crate::legacy::LegacyLog;

/// Both halves of a stopped store, for tools.
#[derive(Debug, Clone)]
pub struct OfflineLog {
    halves: Arc<Halves>,
}

#[derive(Debug)]
struct Halves {
    legacy: LegacyLog,
    legacy_end: i64,
    dledger: LegacyLog,
    /// Position of the first entry; it may lie inside the first file.
    dledger_begin: i64,
    end: i64,
}

impl OfflineLog {
    /// The log that an examination found: the legacy files up to where they end, and the entries of the own member.
    pub fn new(fs: Arc<dyn Fs>, exam: &Examination) -> OfflineLog {
        let legacy = LegacyLog::new(fs.clone(), exam.legacy.files.clone(), exam.file_size);
        let entries = exam
            .own()
            .and_then(|member| Some((member, member.entries?)));
        let (files, begin, end) = match entries {
            Some((member, entries)) => (
                member.data.files.clone(),
                entries.begin_pos,
                Some(entries.end),
            ),
            None => (Vec::new(), 0, None),
        };
        let legacy_end = match (exam.recovered, legacy.end()) {
            (Some(recovered), _) => recovered.end,
            (None, end) => end.unwrap_or(0),
        };
        let halves = Halves {
            dledger: LegacyLog::new(fs, files, exam.file_size),
            dledger_begin: begin,
            end: end.unwrap_or(legacy_end),
            legacy,
            legacy_end,
        };
        OfflineLog {
            halves: Arc::new(halves),
        }
    }

    /// First position.
    pub fn min_offset(&self) -> i64 {
        self.halves.min_position()
    }

    /// End of the last frame.
    pub fn end(&self) -> i64 {
        self.halves.end
    }

    /// Start of the DLedger half, none if there is only one half.
    pub fn divided_offset(&self) -> Option<i64> {
        self.halves
            .legacy
            .min_offset()
            .and(self.halves.dledger.min_offset())
    }

    /// Reads frames from a position on; see [`FrameReader::new`].
    pub fn frames(&self, from: i64) -> FrameReader {
        FrameReader::new(self.halves.clone(), from)
    }
}

impl Source for Halves {
    fn chunk(&self, position: i64) -> Result<Option<Chunk>, ReadError> {
        if position >= self.end {
            return Ok(None);
        }
        let in_dledger = self
            .dledger
            .min_offset()
            .is_some_and(|start| position >= start);
        let (half, log, end) = if in_dledger {
            (Half::Dledger, &self.dledger, self.end)
        } else {
            (Half::Legacy, &self.legacy, self.legacy_end)
        };
        let failed = |source: io::Error| ReadError::Io { position, source };
        let Some((bytes, file_end)) = log.rest_of_file(position).map_err(failed)? else {
            return Err(match self.min_position() {
                min if position < min => ReadError::Gone { position, min },
                _ => ReadError::Missing { position },
            });
        };
        let readable = usize::try_from(end.min(file_end) - position).unwrap_or(0);
        Ok(Some(Chunk {
            bytes: bytes.slice(..readable),
            file_end,
            half,
        }))
    }

    fn min_position(&self) -> i64 {
        self.legacy.min_offset().unwrap_or(self.dledger_begin)
    }
}

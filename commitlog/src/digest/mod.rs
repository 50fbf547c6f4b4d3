//! The digest of a store: hashes over its records, small enough to be carried from member to member.
//!
//! Each member of a group has its own legacy half, which nothing replicates. Before they are joined their digests are
//! compared: the divide must be equal, and every record that two members both have. Only records count, never filler
//! behind the end of a file, and never what lies between the halves.
//!
//! The log is cut into ranges of equal length (by position); each has one hash. Where a difference is likely, at the
//! end of the legacy half, every record has one of its own; elsewhere it can be had by asking again for a range.

mod compare;
mod text;

use std::ops::Range;

use sha2::{Digest as _, Sha256};

pub use compare::{Comparison, Difference, compare};
pub use text::ParseError;

use crate::legacy::OnProgress;
use crate::progress::Progress;
use crate::reader::{Framed, OfflineLog, ReadError};

/// Ranges to a data file.
const RANGES_PER_FILE: u64 = 64;
/// Records are listed one by one over this much of the end of the legacy half, in ranges.
const DETAILED_RANGES: i64 = 2;

/// What to digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestConfig {
    /// How the store is called in a comparison: a member's id, or a path.
    pub label: String,
    /// Bytes of a range.
    pub range_bytes: i64,
    /// Positions in which every record is listed; none for the end of the legacy half.
    pub detail: Option<Range<i64>>,
}

impl DigestConfig {
    /// The usual digest of a store with data files of this size.
    pub fn new(label: impl Into<String>, file_size: u64) -> DigestConfig {
        let range_bytes = (file_size / RANGES_PER_FILE).max(1) as i64;
        DigestConfig {
            label: label.into(),
            range_bytes,
            detail: None,
        }
    }
}

/// The digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// How the store is called.
    pub label: String,
    /// First position of the log.
    pub begin: i64,
    /// Where the DLedger half begins; none if there is one half only.
    pub divide: Option<i64>,
    /// End of the last record.
    pub end: i64,
    /// Bytes of a range.
    pub range_bytes: i64,
    /// Hashes of the ranges that hold a record, ascending.
    pub ranges: Vec<RangeHash>,
    /// Positions in which every record is listed.
    pub detail: Range<i64>,
    /// The records listed, ascending.
    pub records: Vec<RecordHash>,
}

/// Hash over the records that begin in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeHash {
    /// Start of the range, a multiple of its length.
    pub start: i64,
    /// Records in it.
    pub records: u64,
    /// First 16 bytes of a SHA-256 over position, size and bytes of each.
    pub hash: [u8; 16],
}

/// Hash of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHash {
    /// Physical offset.
    pub position: i64,
    /// Bytes.
    pub size: usize,
    /// First 8 bytes of a SHA-256 over its bytes.
    pub hash: [u8; 8],
}

/// Digests a stopped store. Reads every record once, checking its CRC; memory does not grow with the store's size but
/// for the digest itself.
pub fn digest(
    log: &OfflineLog,
    config: &DigestConfig,
    progress: OnProgress<'_>,
) -> Result<Digest, ReadError> {
    let (begin, end) = (log.min_offset(), log.end());
    let divide = log.divided_offset();
    let legacy_end = divide.unwrap_or(end);
    let detail = config.detail.clone().unwrap_or(
        legacy_end
            .saturating_sub(DETAILED_RANGES * config.range_bytes)
            .max(begin)..legacy_end,
    );
    let mut digest = Digest {
        label: config.label.clone(),
        begin,
        divide,
        end,
        range_bytes: config.range_bytes.max(1),
        ranges: Vec::new(),
        detail,
        records: Vec::new(),
    };
    let mut reader = log.frames(begin).checked();
    let mut range: Option<(i64, u64, Sha256)> = None;
    let total = (end - begin).max(0) as u64;
    while let Some(framed) = reader.next()? {
        let start = framed.physical_offset - framed.physical_offset.rem_euclid(digest.range_bytes);
        if range.as_ref().is_none_or(|(current, ..)| *current != start) {
            digest.close(range.take());
            let done = (start - begin).max(0) as u64;
            progress(Progress {
                what: "hashing the log",
                done,
                total,
            });
        }
        let (_, records, hasher) = range.get_or_insert_with(|| (start, 0, Sha256::new()));
        *records += 1;
        hasher.update(framed.physical_offset.to_be_bytes());
        hasher.update((framed.size as u64).to_be_bytes());
        hasher.update(&framed.bytes);
        digest.list(&framed);
    }
    digest.close(range);
    progress(Progress {
        what: "hashing the log",
        done: total,
        total,
    });
    Ok(digest)
}

impl Digest {
    fn close(&mut self, range: Option<(i64, u64, Sha256)>) {
        if let Some((start, records, hasher)) = range {
            self.ranges.push(RangeHash {
                start,
                records,
                hash: first_bytes(hasher),
            });
        }
    }

    fn list(&mut self, framed: &Framed) {
        if self.detail.contains(&framed.physical_offset) {
            let hash = first_bytes(Sha256::new().chain_update(&framed.bytes));
            self.records.push(RecordHash {
                position: framed.physical_offset,
                size: framed.size,
                hash,
            });
        }
    }
}

fn first_bytes<const N: usize>(hasher: Sha256) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&hasher.finalize()[..N]);
    out
}

#[cfg(test)]
mod tests;

//! One unit of a consume queue: 20 bytes, big-endian.
//!
//! ```text
//! 0   i64  physical offset of the message record
//! 8   i32  size of the whole record
//! 12  i64  tags code
//! ```

/// Bytes of a unit on disk.
pub const UNIT_SIZE: usize = 20;

/// Where a message of a queue lies in the log, and what a tag filter needs to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Physical offset of the message record.
    pub physical_offset: i64,
    /// Size of the whole record in bytes.
    pub size: i32,
    /// Java's string hash of the tags, sign-extended; the time of delivery (ms) of a delayed message;
    /// below -2147483648 an address in the extension file.
    pub tags_code: i64,
}

impl Unit {
    /// Filler in front of a queue that does not begin at 0, and in place of messages that are gone.
    pub const BLANK: Unit = Unit {
        physical_offset: 0,
        size: i32::MAX,
        tags_code: 0,
    };

    /// Reads a unit; `None` if fewer than 20 bytes are given.
    pub fn decode(bytes: &[u8]) -> Option<Unit> {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (tags, _) = rest.split_first_chunk::<8>()?;
        Some(Unit {
            physical_offset: i64::from_be_bytes(*offset),
            size: i32::from_be_bytes(*size),
            tags_code: i64::from_be_bytes(*tags),
        })
    }

    /// The 20 bytes of the unit.
    pub fn encode(&self) -> [u8; UNIT_SIZE] {
        let mut bytes = [0; UNIT_SIZE];
        bytes[..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// True for filler, which names no message.
    pub fn is_blank(&self) -> bool {
        self.physical_offset == 0 && self.size == i32::MAX
    }

    /// True if a queue goes on behind this unit: Java's test, which filler passes and zeros do not.
    pub fn is_written(&self) -> bool {
        self.physical_offset >= 0 && self.size > 0
    }

    /// True if the unit names a message.
    pub fn is_message(&self) -> bool {
        self.is_written() && !self.is_blank()
    }

    /// The physical offset behind the message.
    pub fn physical_end(&self) -> i64 {
        self.physical_offset.saturating_add(i64::from(self.size))
    }
}

/// Iterates over the units in `bytes`; a torn rest is left out.
pub(crate) fn units_in(bytes: &[u8]) -> impl DoubleEndedIterator<Item = Unit> + ExactSizeIterator {
    bytes.chunks_exact(UNIT_SIZE).map(|chunk| Unit {
        physical_offset: i64_at(chunk, 0),
        size: i32_at(chunk, 8),
        tags_code: i64_at(chunk, 12),
    })
}

/// Big-endian i64 at `at`; the caller knows that the bytes are there.
pub(crate) fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(raw)
}

/// Big-endian i32 at `at`; the caller knows that the bytes are there.
pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    i32::from_be_bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_unit() {
        let unit = Unit {
            physical_offset: 0x0102,
            size: 0x03,
            tags_code: -2,
        };
        let bytes = unit.encode();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes[8..12], [0, 0, 0, 3]);
        assert_eq!(bytes[12..], [255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(Unit::decode(&bytes), Some(unit));
        assert_eq!(Unit::decode(&bytes[..19]), None);
        assert_eq!(unit.physical_end(), 0x0105);
    }

    #[test]
    fn filler_is_written_but_names_nothing() {
        assert!(Unit::BLANK.is_written() && Unit::BLANK.is_blank() && !Unit::BLANK.is_message());
        let zero = Unit::decode(&[0; UNIT_SIZE]).unwrap();
        assert!(!zero.is_written() && !zero.is_message());
    }
}

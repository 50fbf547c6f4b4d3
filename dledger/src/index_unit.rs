//! The index unit: where entry *i* lies. 32 bytes, big-endian, at offset `i * 32` of the index list.

use byteorder::{BigEndian, ByteOrder};

use crate::entry::{EntryHeader, MAGIC};

/// Bytes of a unit.
pub const UNIT_SIZE: usize = 32;
/// Bytes of an index file, in every Java version.
pub const INDEX_FILE_SIZE: u64 = 32 * 5 * 1024 * 1024;

/// A unit. The order of its fields on disk is magic, pos, size, index, term: not the order of the entry's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexUnit {
    /// The entry's magic.
    pub magic: i32,
    /// Position of the entry's first byte in the log.
    pub pos: i64,
    /// Bytes of the entry, header included.
    pub size: i32,
    /// Number of the entry.
    pub index: i64,
    /// Its term.
    pub term: i64,
}

impl IndexUnit {
    /// The unit of an entry.
    pub fn of(header: &EntryHeader) -> Self {
        IndexUnit {
            magic: header.magic,
            pos: header.pos,
            size: header.size,
            index: header.index,
            term: header.term,
        }
    }

    /// Reads a unit. Checks nothing.
    pub fn decode(buf: &[u8; UNIT_SIZE]) -> Self {
        IndexUnit {
            magic: BigEndian::read_i32(&buf[0..4]),
            pos: BigEndian::read_i64(&buf[4..12]),
            size: BigEndian::read_i32(&buf[12..16]),
            index: BigEndian::read_i64(&buf[16..24]),
            term: BigEndian::read_i64(&buf[24..32]),
        }
    }

    /// Writes the unit into the first 32 bytes of `buf`, which must be that long.
    pub fn encode_into(&self, buf: &mut [u8]) {
        let buf = &mut buf[..UNIT_SIZE];
        BigEndian::write_i32(&mut buf[0..4], self.magic);
        BigEndian::write_i64(&mut buf[4..12], self.pos);
        BigEndian::write_i32(&mut buf[12..16], self.size);
        BigEndian::write_i64(&mut buf[16..24], self.index);
        BigEndian::write_i64(&mut buf[24..32], self.term);
    }

    /// Whether it can be the unit of entry `index`.
    pub fn is_for(&self, index: i64) -> bool {
        self.magic == MAGIC && self.index == index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_bytes_are_in_order() {
        let mut buf = [0u8; UNIT_SIZE];
        let unit = IndexUnit {
            magic: 1,
            pos: 2,
            size: 3,
            index: 4,
            term: 5,
        };
        unit.encode_into(&mut buf);
        let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3];
        expected.extend([0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(buf[..], expected[..]);
        assert_eq!(IndexUnit::decode(&buf), unit);
    }
}

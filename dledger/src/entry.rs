//! One entry of the log: a 48-byte header and a body, big-endian (the format of DLedger 0.1 to 0.3.2).

use byteorder::{BigEndian, ByteOrder};
use bytes::Bytes;

/// Bytes of an entry before its body.
pub const HEADER_SIZE: usize = 48;
/// Bytes of the blank that ends a data file: −1, and the number of bytes from the blank to the file's end.
pub const BLANK_SIZE: usize = 8;
/// Largest entry, header included: the fixed encode buffer of a Java member.
pub const MAX_ENTRY_SIZE: usize = 4 * 1024 * 1024;
/// First field of every entry.
pub const MAGIC: i32 = 1;
/// First field of the blank that ends a data file.
pub const BLANK_MAGIC: i32 = -1;

/// The header of an entry, as it lies on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// 1.
    pub magic: i32,
    /// Bytes of header and body.
    pub size: i32,
    /// Number of the entry; the first of a log is 0.
    pub index: i64,
    /// Term in which it was written; 0 is a term.
    pub term: i64,
    /// Position of the header's first byte in the log.
    pub pos: i64,
    /// 0; reserved.
    pub channel: i32,
    /// 0; no version computes it.
    pub chain_crc: i32,
    /// 0 = absent. Java neither computes nor checks it; a value that is there is kept.
    pub body_crc: i32,
    /// Bytes of the body.
    pub body_size: i32,
}

impl EntryHeader {
    /// The header of an entry that this log writes.
    pub fn new(index: i64, term: i64, pos: i64, body_len: usize) -> Self {
        let body_size = i32::try_from(body_len).unwrap_or(i32::MAX - HEADER_SIZE as i32);
        EntryHeader {
            magic: MAGIC,
            size: body_size + HEADER_SIZE as i32,
            index,
            term,
            pos,
            channel: 0,
            chain_crc: 0,
            body_crc: 0,
            body_size,
        }
    }

    /// Reads the first 48 bytes of `buf`; `None` if there are fewer. Checks nothing.
    pub fn decode(buf: &[u8]) -> Option<Self> {
        let buf = buf.get(..HEADER_SIZE)?;
        Some(EntryHeader {
            magic: BigEndian::read_i32(&buf[0..4]),
            size: BigEndian::read_i32(&buf[4..8]),
            index: BigEndian::read_i64(&buf[8..16]),
            term: BigEndian::read_i64(&buf[16..24]),
            pos: BigEndian::read_i64(&buf[24..32]),
            channel: BigEndian::read_i32(&buf[32..36]),
            chain_crc: BigEndian::read_i32(&buf[36..40]),
            body_crc: BigEndian::read_i32(&buf[40..44]),
            body_size: BigEndian::read_i32(&buf[44..48]),
        })
    }

    /// Writes the header into the first 48 bytes of `buf`, which must be that long.
    pub fn encode_into(&self, buf: &mut [u8]) {
        let buf = &mut buf[..HEADER_SIZE];
        BigEndian::write_i32(&mut buf[0..4], self.magic);
        BigEndian::write_i32(&mut buf[4..8], self.size);
        BigEndian::write_i64(&mut buf[8..16], self.index);
        BigEndian::write_i64(&mut buf[16..24], self.term);
        BigEndian::write_i64(&mut buf[24..32], self.pos);
        BigEndian::write_i32(&mut buf[32..36], self.channel);
        BigEndian::write_i32(&mut buf[36..40], self.chain_crc);
        BigEndian::write_i32(&mut buf[40..44], self.body_crc);
        BigEndian::write_i32(&mut buf[44..48], self.body_size);
    }

    /// Why this cannot be the header of an entry at `pos` of a file with `room` bytes from there on; `None` if it
    /// can. The last 8 bytes of a file never belong to an entry.
    pub fn problem_at(&self, pos: i64, room: i64) -> Option<String> {
        if self.magic != MAGIC {
            return Some(format!("magic {} instead of {MAGIC}", self.magic));
        }
        if self.size < HEADER_SIZE as i32 || self.body_size != self.size - HEADER_SIZE as i32 {
            return Some(format!(
                "size {} with body size {}",
                self.size, self.body_size
            ));
        }
        if self.pos != pos {
            return Some(format!("it names position {}", self.pos));
        }
        if i64::from(self.size) + BLANK_SIZE as i64 > room {
            return Some(format!(
                "{} bytes where {room} are left in the file",
                self.size
            ));
        }
        if self.index < 0 || self.term < 0 {
            return Some(format!("index {} and term {}", self.index, self.term));
        }
        None
    }
}

/// An entry with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// See [`EntryHeader::magic`].
    pub magic: i32,
    /// See [`EntryHeader::size`]; as received, so it may be wrong.
    pub size: i32,
    /// See [`EntryHeader::index`].
    pub index: i64,
    /// See [`EntryHeader::term`].
    pub term: i64,
    /// See [`EntryHeader::pos`].
    pub pos: i64,
    /// See [`EntryHeader::channel`].
    pub channel: i32,
    /// See [`EntryHeader::chain_crc`].
    pub chain_crc: i32,
    /// See [`EntryHeader::body_crc`].
    pub body_crc: i32,
    /// The body.
    pub body: Bytes,
}

impl Entry {
    /// An entry of this log.
    pub fn new(index: i64, term: i64, pos: i64, body: Bytes) -> Self {
        Entry::from_parts(EntryHeader::new(index, term, pos, body.len()), body)
    }

    /// Header and body as read from a log.
    pub fn from_parts(header: EntryHeader, body: Bytes) -> Self {
        Entry {
            magic: header.magic,
            size: header.size,
            index: header.index,
            term: header.term,
            pos: header.pos,
            channel: header.channel,
            chain_crc: header.chain_crc,
            body_crc: header.body_crc,
            body,
        }
    }

    /// The header to store; its sizes are those of the body.
    pub fn header(&self) -> EntryHeader {
        EntryHeader {
            magic: self.magic,
            channel: self.channel,
            chain_crc: self.chain_crc,
            body_crc: self.body_crc,
            ..EntryHeader::new(self.index, self.term, self.pos, self.body.len())
        }
    }

    /// Equality as DLedger members use it (COMPARE, TRUNCATE, repeated pushes): everything but the CRC fields.
    pub fn same_as(&self, other: &Entry) -> bool {
        self.size == other.size
            && self.magic == other.magic
            && self.index == other.index
            && self.term == other.term
            && self.channel == other.channel
            && self.pos == other.pos
            && self.body == other.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_bytes_are_in_order() {
        let mut buf = [0u8; HEADER_SIZE];
        let mut header = EntryHeader::new(2, 3, 4, 5);
        header.body_crc = 6;
        header.encode_into(&mut buf);
        let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 53];
        expected.extend([
            0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4,
        ]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 5]);
        assert_eq!(buf[..], expected[..]);
        assert_eq!(EntryHeader::decode(&buf), Some(header));
        assert_eq!(EntryHeader::decode(&buf[..47]), None);
    }

    #[test]
    fn a_header_is_checked_against_its_place() {
        let good = EntryHeader::new(2, 3, 4, 5);
        assert_eq!(good.problem_at(4, 61), None);
        assert!(good.problem_at(4, 60).is_some(), "no room for the blank");
        assert!(good.problem_at(5, 61).is_some());
        assert!(
            EntryHeader {
                body_size: 4,
                ..good
            }
            .problem_at(4, 61)
            .is_some()
        );
        assert!(EntryHeader { magic: 2, ..good }.problem_at(4, 61).is_some());
        assert!(
            EntryHeader {
                size: i32::MIN,
                body_size: i32::MAX,
                ..good
            }
            .problem_at(4, 61)
            .is_some()
        );
    }
}

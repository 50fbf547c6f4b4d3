//! Bytes of a key index file, big-endian.
//!
//! ```text
//! 0        header, 40 bytes
//! 40       hash slots: i32 each, the newest item of the slot, 0 = none
//! …        items of 20 bytes; item 0 is never used
//! ```

use crate::unit::{i32_at, i64_at};

/// Bytes of the header.
pub(crate) const HEADER_SIZE: usize = 40;
/// Bytes of a slot.
pub(crate) const SLOT_SIZE: u64 = 4;
/// Bytes of an item.
pub(crate) const ITEM_SIZE: usize = 20;

/// How many slots and items a file has: the same for all files of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub slots: u32,
    pub items: u32,
}

impl Shape {
    /// Bytes of a file.
    pub fn file_size(&self) -> u64 {
        self.item_at(0) + u64::from(self.items) * ITEM_SIZE as u64
    }

    /// Position of a slot.
    pub fn slot_at(&self, slot: u32) -> u64 {
        HEADER_SIZE as u64 + u64::from(slot) * SLOT_SIZE
    }

    /// Position of an item.
    pub fn item_at(&self, number: i32) -> u64 {
        self.slot_at(self.slots) + number.unsigned_abs() as u64 * ITEM_SIZE as u64
    }

    /// The slot of a key hash, which is not negative.
    pub fn slot_of(&self, hash: i32) -> u32 {
        hash.unsigned_abs() % self.slots
    }
}

/// The header: what the file spans, and how full it is.
///
/// ```text
/// 0   i64  store time of the first item       16  i64  physical offset of the first item
/// 8   i64  store time of the last item        24  i64  physical offset of the last item
/// 32  i32  slots in use                       36  i32  number that the next item gets; from 1
/// ```
///
/// A file that follows a full one begins with that one's end values until it has an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    pub begin_timestamp: i64,
    pub end_timestamp: i64,
    pub begin_physical: i64,
    pub end_physical: i64,
    pub used_slots: i32,
    pub next_item: i32,
}

impl Header {
    /// The header of a new file that follows one with `last`'s end.
    pub fn following(last: Option<&Header>) -> Header {
        let (timestamp, physical) =
            last.map_or((0, 0), |last| (last.end_timestamp, last.end_physical));
        Header {
            begin_timestamp: timestamp,
            end_timestamp: timestamp,
            begin_physical: physical,
            end_physical: physical,
            used_slots: 0,
            next_item: 1,
        }
    }

    pub fn decode(bytes: &[u8; HEADER_SIZE]) -> Header {
        Header {
            begin_timestamp: i64_at(bytes, 0),
            end_timestamp: i64_at(bytes, 8),
            begin_physical: i64_at(bytes, 16),
            end_physical: i64_at(bytes, 24),
            used_slots: i32_at(bytes, 32),
            next_item: i32_at(bytes, 36).max(1),
        }
    }

    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(&self.begin_timestamp.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.end_timestamp.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.begin_physical.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.end_physical.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.used_slots.to_be_bytes());
        bytes[36..].copy_from_slice(&self.next_item.to_be_bytes());
        bytes
    }

    /// Whether the file holds no item.
    pub fn is_empty(&self) -> bool {
        self.next_item <= 1
    }

    /// Time of an item since the first one, in whole seconds, as Java stores it.
    pub fn seconds_since_begin(&self, store_timestamp: i64) -> i32 {
        if self.begin_timestamp <= 0 {
            return 0;
        }
        let seconds = store_timestamp.saturating_sub(self.begin_timestamp) / 1000;
        i32::try_from(seconds.max(0)).unwrap_or(i32::MAX)
    }
}

/// An item as it lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub hash: i32,
    pub physical_offset: i64,
    pub seconds: i32,
    pub previous: i32,
}

impl Item {
    pub fn decode(bytes: &[u8]) -> Item {
        Item {
            hash: i32_at(bytes, 0),
            physical_offset: i64_at(bytes, 4),
            seconds: i32_at(bytes, 12),
            previous: i32_at(bytes, 16),
        }
    }

    pub fn encode(&self) -> [u8; ITEM_SIZE] {
        let mut bytes = [0; ITEM_SIZE];
        bytes[..4].copy_from_slice(&self.hash.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.physical_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.seconds.to_be_bytes());
        bytes[16..].copy_from_slice(&self.previous.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_the_default_shape() {
        let shape = Shape {
            slots: 5_000_000,
            items: 20_000_000,
        };
        assert_eq!(shape.file_size(), 420_000_040);
        assert_eq!((shape.slot_at(1), shape.item_at(1)), (44, 20_000_060));
    }

    #[test]
    fn header_round_trip_and_times() {
        let header = Header {
            begin_timestamp: 10_000,
            end_timestamp: 2,
            begin_physical: 3,
            end_physical: 4,
            used_slots: 5,
            next_item: 6,
        };
        assert_eq!(Header::decode(&header.encode()), header);
        assert_eq!(Header::decode(&[0; HEADER_SIZE]).next_item, 1);
        assert_eq!(header.seconds_since_begin(12_999), 2);
        assert_eq!(header.seconds_since_begin(9_000), 0);
        assert_eq!(header.seconds_since_begin(i64::MAX), i32::MAX);
        assert_eq!(Header::default().seconds_since_begin(5000), 0);
    }
}

//! The blank record that closes a legacy commitlog file: i32 rest of the file (counted from the record),
//! i32 magic. What follows it is not written.

use crate::frame::read_i32;

/// Magic of the blank record, second int of it.
pub const BLANK_MAGIC: i32 = 0xCBD4_3194_u32 as i32;

/// Bytes of the blank record.
pub const BLANK_LEN: usize = 8;

/// The blank record for a place with `rest` bytes to the end of the file.
///
/// `None` if fewer than eight are left: such a rest cannot hold it, and every reader takes it for the end
/// of the file anyway.
pub fn encode(rest: u64) -> Option<[u8; BLANK_LEN]> {
    if rest < BLANK_LEN as u64 {
        return None;
    }
    let mut out = [0; BLANK_LEN];
    out[..4].copy_from_slice(&i32::try_from(rest).ok()?.to_be_bytes());
    out[4..].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
    Some(out)
}

/// Whether a blank record starts here. The stored rest is not looked at, as no reader of the format does.
pub fn is_blank(bytes: &[u8]) -> bool {
    read_i32(bytes, 4) == Some(BLANK_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_java_wrote_them() {
        // Position 248,862 of a 1 MiB file.
        let blank = encode(1_048_576 - 248_862).unwrap();
        assert_eq!(blank, [0x00, 0x0c, 0x33, 0xe2, 0xcb, 0xd4, 0x31, 0x94]);
        assert!(is_blank(&blank));
    }

    #[test]
    fn needs_eight_bytes() {
        assert_eq!(encode(8), Some([0, 0, 0, 8, 0xcb, 0xd4, 0x31, 0x94]));
        for rest in 0..8 {
            assert_eq!(encode(rest), None);
        }
        assert!(!is_blank(&[0xcb, 0xd4, 0x31, 0x94]));
    }
}

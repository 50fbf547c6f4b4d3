//! Tag hashes.

/// Java's `String.hashCode`: `h = 31 h + unit` over the UTF-16 units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    if text.is_ascii() {
        return text
            .bytes()
            .fold(0i32, |h, b| h.wrapping_mul(31).wrapping_add(i32::from(b)));
    }
    text.encode_utf16().fold(0i32, |h, unit| {
        h.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Tags code of a consume-queue unit: the hash of the whole TAGS value, sign-extended; 0 without tags.
pub fn tags_code(tags: Option<&str>) -> i64 {
    tags.map_or(0, |t| i64::from(java_hash(t)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("A"), 65);
        assert_eq!(java_hash("Aa"), java_hash("BB"));
        assert_eq!(java_hash("TagA"), 2598919);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        // Two UTF-16 units: 0xD83D, 0xDE00.
        assert_eq!(java_hash("😀"), 0xD83D * 31 + 0xDE00);
        assert_eq!(tags_code(Some("polygenelubricants")), -2147483648);
        assert_eq!(tags_code(None), 0);
    }
}

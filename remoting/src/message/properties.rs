//! The property string: `name 0x01 value 0x02` repeated. The last 0x02 may be missing (4.9 drops it, 5.x keeps it).
//!
//! Pairs with an empty name or value do not count, and of two equal names the last wins, both as in Java's parser.
//! Nothing here allocates but the functions that give a `String` or a map.

use std::collections::BTreeMap;

/// Between name and value.
pub const NAME_SEPARATOR: u8 = 1;
/// Behind each pair.
pub const PAIR_SEPARATOR: u8 = 2;
/// Largest property string: its length is an i16 in the store.
pub const LEN_MAX: usize = 32767;

/// Pairs of a property string, as bytes.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let end = self
                .rest
                .iter()
                .position(|&b| b == PAIR_SEPARATOR)
                .unwrap_or(self.rest.len());
            let pair = &self.rest[..end];
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if let Some(at) = pair.iter().position(|&b| b == NAME_SEPARATOR)
                && at > 0
                && at + 1 < pair.len()
            {
                return Some((&pair[..at], &pair[at + 1..]));
            }
        }
        None
    }
}

/// The pairs of a property string in order, duplicates included.
pub fn pairs(properties: &[u8]) -> Pairs<'_> {
    Pairs { rest: properties }
}

/// The pairs of a property string in order as text; pairs that are not UTF-8 are left out.
pub fn iter(properties: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    pairs(properties)
        .filter_map(|(n, v)| Some((std::str::from_utf8(n).ok()?, std::str::from_utf8(v).ok()?)))
}

/// Value of a property as bytes: of several equal names, the last one's.
pub fn get_bytes<'a>(properties: &'a [u8], name: &str) -> Option<&'a [u8]> {
    pairs(properties)
        .filter(|(n, _)| *n == name.as_bytes())
        .last()
        .map(|(_, v)| v)
}

/// Value of a property as text.
pub fn get<'a>(properties: &'a [u8], name: &str) -> Option<&'a str> {
    get_bytes(properties, name).and_then(|v| std::str::from_utf8(v).ok())
}

/// Value of an integer property; what is no integer counts as absent.
pub fn get_int(properties: &[u8], name: &str) -> Option<i64> {
    get_bytes(properties, name).and_then(crate::ext_fields::parse_int)
}

/// Whether a boolean property says `true` (in any case).
pub fn is_true(properties: &[u8], name: &str) -> bool {
    get_bytes(properties, name).is_some_and(|v| v.eq_ignore_ascii_case(b"true"))
}

/// Whether there is such a property.
pub fn has(properties: &[u8], name: &str) -> bool {
    get_bytes(properties, name).is_some()
}

/// Appends a pair, with the separator of the pair before it if that one lacks it.
pub fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    if out.last().is_some_and(|&b| b != PAIR_SEPARATOR) {
        out.push(PAIR_SEPARATOR);
    }
    out.extend_from_slice(name.as_bytes());
    out.push(NAME_SEPARATOR);
    out.extend_from_slice(value.as_bytes());
    out.push(PAIR_SEPARATOR);
}

/// Appends a pair to text, likewise.
pub fn push_str(out: &mut String, name: &str, value: &str) {
    if out.as_bytes().last().is_some_and(|&b| b != PAIR_SEPARATOR) {
        out.push(PAIR_SEPARATOR as char);
    }
    out.push_str(name);
    out.push(NAME_SEPARATOR as char);
    out.push_str(value);
    out.push(PAIR_SEPARATOR as char);
}

/// The string without the named properties. Every pair ends with the separator.
pub fn without(properties: &[u8], names: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(properties.len() + 1);
    for (name, value) in pairs(properties) {
        if !names.iter().any(|n| n.as_bytes() == name) {
            out.extend_from_slice(name);
            out.push(NAME_SEPARATOR);
            out.extend_from_slice(value);
            out.push(PAIR_SEPARATOR);
        }
    }
    out
}

/// The string with one property set, at the end. Every pair ends with the separator.
pub fn with(properties: &[u8], name: &str, value: &str) -> Vec<u8> {
    let mut out = without(properties, &[name]);
    push(&mut out, name, value);
    out
}

/// The properties as a map.
pub fn to_map(properties: &[u8]) -> BTreeMap<String, String> {
    pairs(properties)
        .map(|(n, v)| {
            (
                String::from_utf8_lossy(n).into_owned(),
                String::from_utf8_lossy(v).into_owned(),
            )
        })
        .collect()
}

/// Property string of pairs, each ending with the separator.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in pairs {
        push(&mut out, name, value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn java_corner_cases() {
        let text = b"A\x011\x02\x01x\x02B\x01\x02novalue\x02C\x012\x01z\x02A\x013";
        let all: Vec<_> = iter(text).collect();
        assert_eq!(all, [("A", "1"), ("C", "2\u{1}z"), ("A", "3")]);
        assert_eq!(get(text, "A"), Some("3"));
        assert_eq!(get(text, "B"), None);
        assert_eq!(with(text, "A", "9"), b"C\x012\x01z\x02A\x019\x02");
        assert!(is_true(b"WAIT\x01TRUE", "WAIT"));
        assert_eq!(get_int(b"DELAY\x013", "DELAY"), Some(3));
        let mut text = b"A\x011".to_vec();
        push(&mut text, "B", "2");
        assert_eq!(text, b"A\x011\x02B\x012\x02");
    }

    proptest! {
        #[test]
        fn round_trip(map in proptest::collection::btree_map("[^\u{1}\u{2}]{1,8}", "[^\u{1}\u{2}]{1,8}", 0..8)) {
            let text = encode(map.iter().map(|(n, v)| (n.as_str(), v.as_str())));
            prop_assert_eq!(to_map(&text), map);
        }

        #[test]
        fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            for (name, value) in pairs(&text) {
                prop_assert!(!name.is_empty() && !value.is_empty());
                let same = without(&text, &[]);
                prop_assert!(pairs(&same).eq(pairs(&text)));
            }
        }
    }
}

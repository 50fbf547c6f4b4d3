//! The ext fields of a header: a flat list of names and values, both text.

use std::fmt;

use bytes::Bytes;
use smallvec::SmallVec;

/// A header field that a request needs is missing or not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The field is required and absent.
    #[error("the header field '{field}' is missing")]
    Missing {
        /// Name on the wire.
        field: &'static str,
    },
    /// The field's text is not of its type.
    #[error("the header field '{field}' is not {expected}: '{value}'")]
    Invalid {
        /// Name on the wire.
        field: &'static str,
        /// What was expected, for example "a 32-bit integer".
        expected: &'static str,
        /// The text received, shortened to 64 characters.
        value: String,
    },
}

impl HeaderError {
    /// Name of the field on the wire.
    pub fn field(&self) -> &'static str {
        match self {
            HeaderError::Missing { field } | HeaderError::Invalid { field, .. } => field,
        }
    }

    pub(crate) fn invalid(field: &'static str, expected: &'static str, value: &str) -> HeaderError {
        HeaderError::Invalid {
            field,
            expected,
            value: value.chars().take(64).collect(),
        }
    }
}

/// A piece of text: of the decoded header (`shared`), or, with the high bit of `start` set, of `owned`.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: u32,
    len: u32,
}

const OWNED: u32 = 1 << 31;

/// Ext fields in the order in which they came. Decoded values are slices of the header's buffer; pushed ones live in
/// one string. Names are unique in practice; of two equal ones the last counts, as in Java.
#[derive(Clone, Default)]
pub struct ExtFields {
    shared: Bytes,
    owned: String,
    fields: SmallVec<[(Span, Span); 16]>,
    present: bool,
}

impl ExtFields {
    /// No fields, and no map in the header.
    pub fn new() -> ExtFields {
        ExtFields::default()
    }

    pub(crate) fn set_shared(&mut self, header: Bytes) {
        self.shared = header;
    }

    pub(crate) fn mark_present(&mut self) {
        self.present = true;
    }

    /// Adds a field by its ranges `(start, len)` in the shared header.
    pub(crate) fn push_shared(&mut self, name: (usize, usize), value: (usize, usize)) {
        let span = |(start, len): (usize, usize)| Span {
            start: start as u32,
            len: len as u32,
        };
        self.present = true;
        self.fields.push((span(name), span(value)));
    }

    fn bytes(&self, span: Span) -> &[u8] {
        let (source, start) = match span.start & OWNED {
            0 => (&self.shared[..], span.start),
            _ => (self.owned.as_bytes(), span.start & !OWNED),
        };
        source
            .get(start as usize..start as usize + span.len as usize)
            .unwrap_or_default()
    }

    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    fn own(&mut self, text: &str) -> Span {
        let start = self.owned.len() as u32 | OWNED;
        self.owned.push_str(text);
        Span {
            start,
            len: text.len() as u32,
        }
    }

    /// Adds a field.
    pub fn push(&mut self, name: &str, value: &str) {
        let field = (self.own(name), self.own(value));
        self.present = true;
        self.fields.push(field);
    }

    /// Adds an integer field.
    pub fn push_int(&mut self, name: &str, value: i64) {
        self.push(name, itoa::Buffer::new().format(value));
    }

    /// Adds a boolean field.
    pub fn push_bool(&mut self, name: &str, value: bool) {
        self.push(name, if value { "true" } else { "false" });
    }

    /// Adds a field if there is a value.
    pub fn push_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    /// Replaces the fields of this name by one.
    pub fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.push(name, value);
    }

    /// Removes the fields of this name.
    pub fn remove(&mut self, name: &str) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.retain(|(n, _)| self.bytes(*n) != name.as_bytes());
        self.fields = fields;
    }

    /// Whether the header has a map of ext fields at all (it may be empty).
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields
            .iter()
            .map(|&(n, v)| (self.text(n), self.text(v)))
    }

    /// The fields in order, as bytes: for single-pass header parsers.
    pub(crate) fn iter_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|&(n, v)| (self.bytes(n), self.bytes(v)))
    }

    fn find(&self, name: &str) -> Option<&[u8]> {
        let name = name.as_bytes();
        self.fields
            .iter()
            .rev()
            .find(|(n, _)| self.bytes(*n) == name)
            .map(|&(_, v)| self.bytes(v))
    }

    /// Text of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name).and_then(|v| std::str::from_utf8(v).ok())
    }

    /// Text of a field as a slice that may be kept: of the received frame where possible.
    pub fn get_shared(&self, name: &str) -> Option<Bytes> {
        let value = self.find(name)?;
        let shared = self.shared.as_ptr_range();
        match shared.contains(&value.as_ptr()) {
            true => Some(self.shared.slice_ref(value)),
            false => Some(Bytes::copy_from_slice(value)),
        }
    }

    /// Text of a field that must be there. Empty text counts as there.
    pub fn require(&self, name: &'static str) -> Result<&str, HeaderError> {
        self.get(name).ok_or(HeaderError::Missing { field: name })
    }

    /// A 32-bit integer field; empty text counts as absent.
    pub fn get_i32(&self, name: &'static str) -> Result<Option<i32>, HeaderError> {
        self.find(name)
            .filter(|v| !v.is_empty())
            .map(|v| parse_i32(name, v))
            .transpose()
    }

    /// A 32-bit integer field that must be there.
    pub fn require_i32(&self, name: &'static str) -> Result<i32, HeaderError> {
        self.get_i32(name)?
            .ok_or(HeaderError::Missing { field: name })
    }

    /// A 64-bit integer field; empty text counts as absent.
    pub fn get_i64(&self, name: &'static str) -> Result<Option<i64>, HeaderError> {
        self.find(name)
            .filter(|v| !v.is_empty())
            .map(|v| parse_i64(name, v))
            .transpose()
    }

    /// A 64-bit integer field that must be there.
    pub fn require_i64(&self, name: &'static str) -> Result<i64, HeaderError> {
        self.get_i64(name)?
            .ok_or(HeaderError::Missing { field: name })
    }

    /// A boolean field: `true` (in any case) and `1` are true, anything else is false, as in Java and old C++ clients.
    pub fn get_bool(&self, name: &'static str) -> Option<bool> {
        self.find(name).filter(|v| !v.is_empty()).map(parse_bool)
    }

    /// A boolean field that must be there.
    pub fn require_bool(&self, name: &'static str) -> Result<bool, HeaderError> {
        self.get_bool(name)
            .ok_or(HeaderError::Missing { field: name })
    }
}

pub(crate) fn parse_bool(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"true") || text == b"1"
}

pub(crate) fn parse_i32(field: &'static str, text: &[u8]) -> Result<i32, HeaderError> {
    let value = parse_int(text).and_then(|v| i32::try_from(v).ok());
    value.ok_or_else(|| {
        HeaderError::invalid(field, "a 32-bit integer", &String::from_utf8_lossy(text))
    })
}

pub(crate) fn parse_i64(field: &'static str, text: &[u8]) -> Result<i64, HeaderError> {
    parse_int(text).ok_or_else(|| {
        HeaderError::invalid(field, "a 64-bit integer", &String::from_utf8_lossy(text))
    })
}

/// Decimal digits with an optional sign, without detours over UTF-8.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for &d in digits {
        if !d.is_ascii_digit() {
            return None;
        }
        // Downwards, since the smallest number has no positive twin.
        value = value.checked_mul(10)?.checked_sub(i64::from(d - b'0'))?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

impl fmt::Debug for ExtFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PartialEq for ExtFields {
    fn eq(&self, other: &Self) -> bool {
        self.present == other.present && self.iter().eq(other.iter())
    }
}

impl Eq for ExtFields {}

impl<'a> FromIterator<(&'a str, &'a str)> for ExtFields {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(iter: T) -> Self {
        let mut fields = ExtFields {
            present: true,
            ..ExtFields::default()
        };
        for (name, value) in iter {
            fields.push(name, value);
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_access() {
        let ext: ExtFields = [
            ("a", "1"),
            ("b", "x"),
            ("c", "-9223372036854775808"),
            ("d", "TRUE"),
            ("e", ""),
        ]
        .into_iter()
        .collect();
        assert_eq!(ext.require_i32("a"), Ok(1));
        assert_eq!(
            ext.get_i32("b").unwrap_err().to_string(),
            "the header field 'b' is not a 32-bit integer: 'x'"
        );
        assert_eq!(ext.require_i64("c"), Ok(i64::MIN));
        assert!(ext.get_i32("c").is_err());
        assert_eq!(ext.get_bool("d"), Some(true));
        assert_eq!(ext.get_bool("b"), Some(false));
        assert_eq!(ext.get("e"), Some(""));
        assert_eq!(ext.get_shared("d").as_deref(), Some(&b"TRUE"[..]));
        assert_eq!(ext.get_i32("e"), Ok(None));
        assert_eq!(ext.require("zz"), Err(HeaderError::Missing { field: "zz" }));
    }

    #[test]
    fn set_and_remove() {
        let mut ext: ExtFields = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(ext.get("a"), Some("3"));
        ext.set("a", "4");
        assert_eq!(ext.iter().collect::<Vec<_>>(), [("b", "2"), ("a", "4")]);
        ext.remove("b");
        assert_eq!(ext.len(), 1);
    }

    #[test]
    fn integers() {
        assert_eq!(parse_int(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_int(b"9223372036854775808"), None);
        assert_eq!(parse_int(b"-9223372036854775809"), None);
        assert_eq!(parse_int(b"+5"), Some(5));
        for bad in [&b""[..], b"-", b"+", b" 1", b"1.0", b"0x1"] {
            assert_eq!(parse_int(bad), None);
        }
    }
}

//! The property file syntax of `java.util.Properties`, read and rewritten in place.
//!
//! Format source: the class documentation of `java.util.Properties#load`. Two tolerances on top of it: a file
//! that is valid UTF-8 is read as UTF-8 (Java reads ISO-8859-1 only), and blanks at the end of a value are
//! dropped, because a blank after a number silently restored the default in Java.
//!
//! A [`PropertyFile`] keeps every byte that it does not change, so an online update leaves comments, order,
//! blank lines and line ends as the operator wrote them.

use std::borrow::Cow;

/// One logical line: its bytes with continuation lines and line end, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    raw: Vec<u8>,
    pair: Option<(String, String)>,
}

/// A property file in memory; parsing never fails, as in Java, except for a malformed `\uXXXX`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertyFile {
    lines: Vec<Line>,
}

/// A `\u` escape without four hexadecimal digits: the only thing that the syntax forbids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \\u must be followed by four hexadecimal digits")]
pub struct MalformedEscape {
    /// Number of the first physical line of the pair, from 1.
    pub line: usize,
}

impl PropertyFile {
    /// Parses the bytes of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedEscape> {
        let utf8 = std::str::from_utf8(bytes).is_ok();
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let mut lines = Vec::new();
        let mut number = 1;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (raw, content, physical) = take_logical_line(rest);
            rest = &rest[raw.len()..];
            let text = decode(&content, utf8);
            let pair = match split_pair(&text) {
                Some((key, value)) => {
                    let key = unescape(key).ok_or(MalformedEscape { line: number })?;
                    let value = unescape(value).ok_or(MalformedEscape { line: number })?;
                    Some((key, value.trim_end_matches(is_blank).to_string()))
                }
                None => None,
            };
            lines.push(Line {
                raw: raw.to_vec(),
                pair,
            });
            number += physical;
        }
        Ok(Self { lines })
    }

    /// All pairs in file order, duplicates included; the last of a name wins.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines
            .iter()
            .filter_map(|l| l.pair.as_ref())
            .map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// The value in force for `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs()
            .filter(|(k, _)| *k == key)
            .last()
            .map(|(_, v)| v)
    }

    /// Sets `key`: its last line is replaced where it stands, a new key is appended at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        let text = format!("{}={}", escape(key, true), escape(value, false));
        let pair = Some((key.to_string(), value.to_string()));
        let newline = self.newline();
        let at = self
            .lines
            .iter()
            .rposition(|l| l.pair.as_ref().is_some_and(|(k, _)| k == key));
        if let Some(line) = at.map(|i| &mut self.lines[i]) {
            let end = if line.raw.ends_with(b"\n") || line.raw.ends_with(b"\r") {
                newline
            } else {
                ""
            };
            line.raw = [text.as_bytes(), end.as_bytes()].concat();
            line.pair = pair;
            return;
        }
        if let Some(last) = self.lines.last_mut()
            && !last.raw.ends_with(b"\n")
            && !last.raw.ends_with(b"\r")
        {
            last.raw.extend_from_slice(newline.as_bytes());
        }
        self.lines.push(Line {
            raw: [text.as_bytes(), newline.as_bytes()].concat(),
            pair,
        });
    }

    /// The file's bytes: unchanged lines exactly as read.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lines
            .iter()
            .flat_map(|l| l.raw.iter().copied())
            .collect()
    }

    fn newline(&self) -> &'static str {
        if self.lines.first().is_some_and(|l| l.raw.ends_with(b"\r\n")) {
            "\r\n"
        } else {
            "\n"
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Takes one logical line off the front: (raw bytes, content without line ends and continuations, physical lines).
fn take_logical_line(bytes: &[u8]) -> (&[u8], Vec<u8>, usize) {
    let mut content = Vec::new();
    let mut used = 0;
    let mut physical = 0;
    loop {
        let line = &bytes[used..];
        let len = line
            .iter()
            .position(|b| matches!(b, b'\n' | b'\r'))
            .unwrap_or(line.len());
        let end = len + line_end_len(&line[len..]);
        used += end;
        physical += 1;
        let first = content.is_empty() && physical == 1;
        let text = trim_leading(&line[..len]);
        let comment = first && matches!(text.first(), Some(b'#' | b'!'));
        content.extend_from_slice(text);
        let continued =
            !comment && content.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1;
        if !continued || used == bytes.len() {
            if continued {
                content.pop();
            }
            return (&bytes[..used], content, physical);
        }
        content.pop();
    }
}

fn line_end_len(rest: &[u8]) -> usize {
    match rest {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}

fn trim_leading(line: &[u8]) -> &[u8] {
    let blanks = line
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t' | 0x0c))
        .count();
    &line[blanks..]
}

fn decode(bytes: &[u8], utf8: bool) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if utf8 => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().map(|b| char::from(*b)).collect()),
    }
}

/// Splits at the first unescaped `=`, `:` or blank; `None` for comments and empty lines.
fn split_pair(text: &str) -> Option<(&str, &str)> {
    if text.is_empty() || text.starts_with(['#', '!']) {
        return None;
    }
    let mut escaped = false;
    let end = text
        .char_indices()
        .find(|(_, c)| {
            let separator = !escaped && (matches!(c, '=' | ':') || is_blank(*c));
            escaped = *c == '\\' && !escaped;
            separator
        })
        .map_or(text.len(), |(i, _)| i);
    let value = text[end..].trim_start_matches(is_blank);
    let value = value.strip_prefix(['=', ':']).unwrap_or(value);
    Some((&text[..end], value.trim_start_matches(is_blank)))
}

/// Resolves backslashes; `None` for a malformed `\u`. Surrogate pairs join, a lone surrogate becomes U+FFFD.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_string());
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut buffer = [0u16; 2];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend_from_slice(c.encode_utf16(&mut buffer));
            continue;
        }
        match chars.next() {
            None => break,
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                units.push(u16::from_str_radix(&digits, 16).ok()?);
            }
            Some('t') => units.push(9),
            Some('n') => units.push(10),
            Some('f') => units.push(12),
            Some('r') => units.push(13),
            Some(other) => units.extend_from_slice(other.encode_utf16(&mut buffer)),
        }
    }
    Some(String::from_utf16_lossy(&units))
}

/// Escapes so that both an ISO-8859-1 and a UTF-8 reader get the same text back.
fn escape(text: &str, key: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            ' ' if key || i == 0 => out.push_str("\\ "),
            '=' | ':' | '#' | '!' if key => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &[u8]) -> Vec<(String, String)> {
        let file = PropertyFile::parse(text).unwrap();
        file.pairs()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect()
    }

    fn one(text: &[u8]) -> (String, String) {
        let all = pairs(text);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    #[test]
    fn separators_and_blanks() {
        for text in [
            "a=b",
            "a:b",
            "a b",
            "  a = b",
            "\ta\t:\tb",
            "a = b  \t",
            "a=b\r\n",
            "a=b\r",
        ] {
            assert_eq!(one(text.as_bytes()), ("a".into(), "b".into()), "{text:?}");
        }
        assert_eq!(one(b"a = = b"), ("a".into(), "= b".into()));
        assert_eq!(one(b"a"), ("a".into(), "".into()));
        assert_eq!(one(b"a\\=b=c"), ("a=b".into(), "c".into()));
        assert_eq!(
            one(b"peers=n0-h:1;n1-h:2"),
            ("peers".into(), "n0-h:1;n1-h:2".into())
        );
    }

    #[test]
    fn comments_continuations_escapes() {
        let text = b"# one \\\n! two\n\n a = x\\\n     y\\\\\nb=\\u00e4\\ud83d\\ude00\\t|\n#end";
        assert_eq!(
            pairs(text),
            [("a".into(), "xy\\".into()), ("b".into(), "ä😀\t|".into())]
        );
        assert_eq!(
            PropertyFile::parse(b"\n\na=\\u12"),
            Err(MalformedEscape { line: 3 })
        );
        assert_eq!(
            one(b"path=C\\:\\\\store"),
            ("path".into(), "C:\\store".into())
        );
    }

    #[test]
    fn utf8_and_latin1_are_both_read() {
        assert_eq!(one("n=Jörg".as_bytes()).1, "Jörg");
        assert_eq!(one(b"n=J\xF6rg").1, "J\u{f6}rg");
        assert_eq!(one(b"\xEF\xBB\xBFn=x"), ("n".into(), "x".into()));
    }

    #[test]
    fn last_duplicate_wins_and_is_the_one_replaced() {
        let mut file = PropertyFile::parse(b"a=1\n# c\na=2\n").unwrap();
        assert_eq!(file.get("a"), Some("2"));
        file.set("a", "3");
        assert_eq!(file.to_bytes(), b"a=1\n# c\na=3\n");
    }

    #[test]
    fn a_rewrite_keeps_comments_order_and_bytes() {
        let text = b"# J\xF6rg's broker\r\n\r\nb = 1 \\\r\n   2\r\n!x\r\na=1";
        let mut file = PropertyFile::parse(text).unwrap();
        assert_eq!(file.to_bytes(), text);
        file.set("a", "2");
        file.set("new", " \u{e4}\n");
        assert_eq!(
            file.to_bytes(),
            b"# J\xF6rg's broker\r\n\r\nb = 1 \\\r\n   2\r\n!x\r\na=2\r\nnew=\\ \\u00E4\\n\r\n"
        );
    }

    proptest! {
        #[test]
        fn any_pair_survives_set_and_parse(key in "[^\\s]{1,12}", value in any::<String>()) {
            let value = value.trim_end_matches(is_blank).to_string();
            let mut file = PropertyFile::default();
            file.set(&key, &value);
            let again = PropertyFile::parse(&file.to_bytes()).unwrap();
            let expected = value.trim_end_matches(is_blank);
            prop_assert_eq!(again.get(&key), Some(expected));
        }

        #[test]
        fn any_bytes_are_kept(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(file) = PropertyFile::parse(&bytes) {
                let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
                prop_assert_eq!(file.to_bytes(), bytes);
            }
        }
    }
}

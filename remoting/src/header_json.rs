//! The JSON header, read as tolerantly as Java's parser reads it and written as that one prints it.
//!
//! Reading never allocates for ext fields: their text stays in the header's buffer, where escapes are resolved in place
//! (resolved text is never longer than its escaped form).

use bytes::{BufMut, BytesMut};

use crate::command::Command;
use crate::ext_fields::{ExtFields, parse_int};
use crate::frame::{FieldRef, FrameError, Head};
use crate::language::Language;
use crate::limits::Limits;
use crate::message::OffsetId;

/// One scalar of the header: range of its text, and what it was.
#[derive(Debug, Clone, Copy)]
struct Scalar {
    start: usize,
    len: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// A number, or `true` or `false`.
    Bare,
    Null,
    /// An object or array; the range is its raw text.
    Nested,
}

struct Parser<'a> {
    text: &'a mut [u8],
    at: usize,
    depth_max: usize,
}

/// Decodes a JSON header.
pub(crate) fn decode(mut header: BytesMut, limits: &Limits) -> Result<Command, FrameError> {
    if let Err(e) = std::str::from_utf8(&header) {
        return Err(FrameError::Header {
            at: e.valid_up_to(),
            reason: "it is not UTF-8",
        });
    }
    let mut command = Command::default();
    let mut ext = ExtFields::new();
    let mut parser = Parser {
        text: &mut header,
        at: 0,
        depth_max: limits.header_depth_max,
    };
    parser.members(|parser, name| parser.top_member(name, &mut command, &mut ext, limits))?;
    parser.skip_blanks();
    if parser.at != parser.text.len() {
        return Err(parser.error("something follows the object"));
    }
    if ext.is_present() {
        ext.set_shared(header.freeze());
    }
    command.ext = ext;
    Ok(command)
}

impl Parser<'_> {
    fn error(&self, reason: &'static str) -> FrameError {
        FrameError::Header {
            at: self.at,
            reason,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t' | 0x0C | 0x08) = self.peek() {
            self.at += 1;
        }
    }

    /// Next byte that is no blank.
    fn next_token(&mut self) -> Result<u8, FrameError> {
        self.skip_blanks();
        self.peek().ok_or_else(|| self.error("it ends early"))
    }

    fn expect(&mut self, byte: u8, reason: &'static str) -> Result<(), FrameError> {
        if self.next_token()? != byte {
            return Err(self.error(reason));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads an object, giving each member's name (a range) to `member`, which must consume the value.
    fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, Scalar) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        self.expect(b'{', "an object is expected")?;
        loop {
            match self.next_token()? {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                // Java's parser takes any number of commas.
                b',' => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let name = self.scalar()?;
            if name.kind == Kind::Nested {
                return Err(self.error("a member's name is expected"));
            }
            self.expect(b':', "a colon is expected")?;
            member(self, name)?;
            match self.next_token()? {
                b',' | b'}' => {}
                _ => return Err(self.error("a comma or a closing brace is expected")),
            }
        }
    }

    fn top_member(
        &mut self,
        name: Scalar,
        command: &mut Command,
        ext: &mut ExtFields,
        limits: &Limits,
    ) -> Result<(), FrameError> {
        let name = name.start..name.start + name.len;
        if &self.text[name.clone()] == b"extFields" && self.next_token()? == b'{' {
            return self.ext_fields(ext, limits);
        }
        let value = self.scalar()?;
        match &self.text[name] {
            b"code" => command.code = self.int(value)?,
            b"flag" => command.flag = self.int(value)?,
            b"opaque" => command.opaque = self.int(value)?,
            b"version" => command.version = self.int(value)?,
            b"language" => command.language = self.language(value),
            b"remark" if value.kind != Kind::Null => {
                command.remark = Some(self.str_of(value).to_owned())
            }
            _ => {}
        }
        Ok(())
    }

    fn ext_fields(&mut self, ext: &mut ExtFields, limits: &Limits) -> Result<(), FrameError> {
        ext.mark_present();
        self.members(|parser, name| {
            let value = parser.scalar()?;
            let mut add = |name: Scalar, value: Scalar| {
                if value.kind != Kind::Null {
                    ext.push_shared((name.start, name.len), (value.start, value.len));
                }
                ext.len() <= limits.header_fields_max
            };
            let mut fits = add(name, value);
            while let Some((name, value)) = parser.plain_member().filter(|_| fits) {
                fits = add(name, value);
            }
            if fits {
                Ok(())
            } else {
                Err(parser.error("it has too many fields"))
            }
        })
    }

    /// Reads `,"name":"value"` if the next member is just that, without blanks and escapes: the usual case, without the
    /// questions that tolerance asks at each step.
    fn plain_member(&mut self) -> Option<(Scalar, Scalar)> {
        let rest = self.text[self.at..].strip_prefix(b",\"")?;
        let name_len = plain_len(rest, b'"');
        let value = rest.get(name_len..)?.strip_prefix(b"\":\"")?;
        let value_len = plain_len(value, b'"');
        if value.get(value_len) != Some(&b'"') {
            return None;
        }
        let name = Scalar {
            start: self.at + 2,
            len: name_len,
            kind: Kind::Text,
        };
        let value = Scalar {
            start: name.start + name_len + 3,
            len: value_len,
            kind: Kind::Text,
        };
        self.at = value.start + value_len + 1;
        Some((name, value))
    }

    fn str_of(&self, value: Scalar) -> &str {
        std::str::from_utf8(&self.text[value.start..value.start + value.len]).unwrap_or_default()
    }

    /// An integer given as number or as text; a missing one is 0.
    fn int(&self, value: Scalar) -> Result<i32, FrameError> {
        if value.kind == Kind::Null || value.len == 0 {
            return Ok(0);
        }
        let text = &self.text[value.start..value.start + value.len];
        let number =
            parse_int(text).or_else(|| self.str_of(value).parse::<f64>().ok().map(|f| f as i64));
        number
            .and_then(|n| i32::try_from(n).ok())
            .ok_or(FrameError::Header {
                at: value.start,
                reason: "a 32-bit integer is expected",
            })
    }

    fn language(&self, value: Scalar) -> Language {
        let text = &self.text[value.start..value.start + value.len];
        match parse_int(text) {
            Some(number) => Language::from_code(number),
            None => Language::from_name(self.str_of(value)),
        }
    }

    /// Any value; a nested one is skipped and given as its raw text.
    fn scalar(&mut self) -> Result<Scalar, FrameError> {
        match self.next_token()? {
            quote @ (b'"' | b'\'') => self.quoted(quote),
            b'{' | b'[' => self.nested(),
            _ => self.bare(),
        }
    }

    fn bare(&mut self) -> Result<Scalar, FrameError> {
        let start = self.at;
        while let Some(b) = self.peek() {
            if matches!(b, b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"' | b'\'') || b <= b' ' {
                break;
            }
            self.at += 1;
        }
        let len = self.at - start;
        match &self.text[start..self.at] {
            b"" => Err(self.error("a value is expected")),
            b"null" => Ok(Scalar {
                start,
                len,
                kind: Kind::Null,
            }),
            _ => Ok(Scalar {
                start,
                len,
                kind: Kind::Bare,
            }),
        }
    }

    /// Skips an object or array without recursion; its strings are only scanned, so its text stays raw.
    fn nested(&mut self) -> Result<Scalar, FrameError> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            let b = self.peek().ok_or_else(|| self.error("it ends early"))?;
            match b {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' | b'\'' => self.skip_quoted(b)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(Scalar {
                    start,
                    len: self.at - start,
                    kind: Kind::Nested,
                });
            }
            if depth > self.depth_max {
                return Err(self.error("it is nested too deeply"));
            }
        }
    }

    /// Moves from an opening quote to its closing one.
    fn skip_quoted(&mut self, quote: u8) -> Result<(), FrameError> {
        self.at += 1;
        loop {
            match self
                .peek()
                .ok_or_else(|| self.error("a string is not closed"))?
            {
                b'\\' => self.at += 2,
                b if b == quote => return Ok(()),
                _ => self.at += 1,
            }
        }
    }

    /// Reads a quoted string, resolving escapes in place.
    fn quoted(&mut self, quote: u8) -> Result<Scalar, FrameError> {
        self.at += 1;
        let start = self.at;
        self.at += plain_len(&self.text[start..], quote);
        let mut write = self.at;
        loop {
            let b = self
                .peek()
                .ok_or_else(|| self.error("a string is not closed"))?;
            if b == quote {
                self.at += 1;
                return Ok(Scalar {
                    start,
                    len: write - start,
                    kind: Kind::Text,
                });
            }
            if b == b'\\' {
                write += self.escape(write)?;
            } else {
                let run = plain_len(&self.text[self.at..], quote);
                self.text.copy_within(self.at..self.at + run, write);
                self.at += run;
                write += run;
            }
        }
    }

    /// Resolves the escape at the current position, writes its text at `write` and gives that text's length.
    fn escape(&mut self, write: usize) -> Result<usize, FrameError> {
        let kind = *self
            .text
            .get(self.at + 1)
            .ok_or_else(|| self.error("a string is not closed"))?;
        let resolved = match kind {
            b'u' => return self.unicode_escape(write),
            b'x' => {
                let code = self.hex(self.at + 2, 2)?;
                self.at += 4;
                return Ok(self.put_char(write, char::from_u32(code).unwrap_or('?')));
            }
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0B,
            b'f' | b'F' => 0x0C,
            b'r' => b'\r',
            b'0'..=b'7' => kind - b'0',
            b'"' | b'\'' | b'\\' | b'/' => kind,
            _ => return Err(self.error("an escape is unknown")),
        };
        self.at += 2;
        self.text[write] = resolved;
        Ok(1)
    }

    fn unicode_escape(&mut self, write: usize) -> Result<usize, FrameError> {
        let mut code = self.hex(self.at + 2, 4)?;
        self.at += 6;
        let low_follows = self.text.get(self.at..self.at + 2) == Some(b"\\u");
        if (0xD800..0xDC00).contains(&code) && low_follows {
            let low = self.hex(self.at + 2, 4)?;
            if (0xDC00..0xE000).contains(&low) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                self.at += 6;
            }
        }
        // Java's encoder turns a lone surrogate into a question mark.
        Ok(self.put_char(write, char::from_u32(code).unwrap_or('?')))
    }

    fn put_char(&mut self, write: usize, c: char) -> usize {
        let mut utf8 = [0; 4];
        let encoded = c.encode_utf8(&mut utf8).as_bytes();
        self.text[write..write + encoded.len()].copy_from_slice(encoded);
        encoded.len()
    }

    fn hex(&self, from: usize, digits: usize) -> Result<u32, FrameError> {
        let text = self
            .text
            .get(from..from + digits)
            .ok_or_else(|| self.error("a string is not closed"))?;
        text.iter().try_fold(0, |value, &b| {
            let digit = (b as char)
                .to_digit(16)
                .ok_or_else(|| self.error("an escape is not hexadecimal"))?;
            Ok(value << 4 | digit)
        })
    }
}

/// Length of the run without `quote` and backslash, eight bytes at a time.
fn plain_len(text: &[u8], quote: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let quotes = ONES * u64::from(quote);
    let slashes = ONES * u64::from(b'\\');
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let (q, s) = (word ^ quotes, word ^ slashes);
        // A byte that became zero shows its high bit; the lowest such bit is exact.
        let hits = ((q.wrapping_sub(ONES) & !q) | (s.wrapping_sub(ONES) & !s)) & HIGHS;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + text[at..]
        .iter()
        .take_while(|&&b| b != quote && b != b'\\')
        .count()
}

/// Writes a JSON header: members in alphabetical order, no blanks, as fastjson prints them.
pub(crate) fn encode<'a>(
    out: &mut BytesMut,
    head: &Head<'_>,
    fields: impl Iterator<Item = (&'a str, FieldRef<'a>)>,
) {
    out.put_slice(b"{\"code\":");
    put_int(out, i64::from(head.code));
    if head.has_fields {
        out.put_slice(b",\"extFields\":{");
        let mut separator: &[u8] = b"\"";
        for (name, value) in fields {
            out.put_slice(separator);
            put_escaped(out, name);
            out.put_slice(b"\":\"");
            put_value(out, value);
            separator = b"\",\"";
        }
        out.put_slice(if separator.len() == 1 { b"}" } else { b"\"}" });
    }
    out.put_slice(b",\"flag\":");
    put_int(out, i64::from(head.flag));
    out.put_slice(b",\"language\":\"");
    out.put_slice(head.language.name().as_bytes());
    out.put_slice(b"\",\"opaque\":");
    put_int(out, i64::from(head.opaque));
    if let Some(remark) = head.remark {
        out.put_slice(b",\"remark\":\"");
        put_escaped(out, remark);
        out.put_slice(b"\"");
    }
    out.put_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    put_int(out, i64::from(head.version));
    out.put_slice(b"}");
}

fn put_int(out: &mut BytesMut, value: i64) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn put_value(out: &mut BytesMut, value: FieldRef<'_>) {
    match value {
        FieldRef::Str(text) => put_escaped(out, text),
        FieldRef::Int(v) => put_int(out, v),
        FieldRef::Bool(v) => out.put_slice(if v { b"true" } else { b"false" }),
        FieldRef::OffsetId(host, offset) => {
            out.put_slice(OffsetId::new(host, offset).as_str().as_bytes())
        }
    }
}

fn put_escaped(out: &mut BytesMut, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|&b| crate::fastjson::may_need_escape(b))
    {
        out.put_slice(&rest[..at]);
        let taken = crate::fastjson::put_escape(&rest[at..], |bytes| out.put_slice(bytes));
        rest = &rest[at + taken..];
    }
    out.put_slice(rest);
}

//! Reading: a tolerant parser into [`serde_json::Value`], bounded in depth and size.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// Bounds of what is parsed.
#[derive(Debug, Clone, Copy)]
pub struct ParseLimits {
    /// Deepest nesting of objects and arrays.
    pub depth_max: usize,
    /// Longest text, in bytes.
    pub len_max: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        ParseLimits {
            depth_max: 64,
            len_max: 64 * 1024 * 1024,
        }
    }
}

/// Why a text could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is not JSON, not even fastjson's.
    #[error("not JSON at byte {at}: {reason}")]
    Syntax {
        /// Byte position in the text.
        at: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The JSON is not what it should be.
    #[error("unexpected JSON: {0}")]
    Shape(#[from] serde_json::Error),
}

/// Reads a text with the default limits.
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    parse_with(text, ParseLimits::default())
}

/// Reads a text. An object used as a key becomes its compact JSON text, members in alphabetical order; a number used as
/// a key becomes its text. Of equal keys the last wins.
pub fn parse_with(text: &[u8], limits: ParseLimits) -> Result<Value, ParseError> {
    parse_text(text, limits, false)
}

fn parse_text(text: &[u8], limits: ParseLimits, drop_nulls: bool) -> Result<Value, ParseError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        depth_max: limits.depth_max,
        drop_nulls,
    };
    if text.len() > limits.len_max {
        return Err(parser.error("it is too long"));
    }
    if text.starts_with(b"\xEF\xBB\xBF") {
        parser.at = 3;
    }
    let value = parser.value()?;
    parser.skip_blanks()?;
    if parser.at != text.len() {
        return Err(parser.error("something follows the value"));
    }
    Ok(value)
}

/// Reads a text into a type.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, ParseError> {
    from_slice_with(text, ParseLimits::default())
}

/// Reads a text into a type, within limits. Members that are null count as absent, as in Java's beans.
pub fn from_slice_with<T: DeserializeOwned>(
    text: &[u8],
    limits: ParseLimits,
) -> Result<T, ParseError> {
    Ok(serde_json::from_value(parse_text(text, limits, true)?)?)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    depth_max: usize,
    /// Members that are null are left out.
    drop_nulls: bool,
}

impl<'a> Parser<'a> {
    fn error(&self, reason: &'static str) -> ParseError {
        ParseError::Syntax {
            at: self.at,
            reason,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            match (self.peek(), self.text.get(self.at + 1)) {
                (Some(b' ' | b'\n' | b'\r' | b'\t' | 0x0C | 0x08), _) => self.at += 1,
                (Some(b'/'), Some(b'/')) => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                (Some(b'/'), Some(b'*')) => {
                    let end = self.text[self.at + 2..].windows(2).position(|w| w == b"*/");
                    self.at += 4 + end.ok_or_else(|| self.error("a comment is not closed"))?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn next_token(&mut self) -> Result<u8, ParseError> {
        self.skip_blanks()?;
        self.peek().ok_or_else(|| self.error("it ends early"))
    }

    fn enter(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        self.depth += 1;
        if self.depth > self.depth_max {
            Err(self.error("it is nested too deeply"))
        } else {
            Ok(())
        }
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        match self.next_token()? {
            b'{' => self.object(),
            b'[' => self.array(),
            quote @ (b'"' | b'\'') => self.string(quote).map(Value::String),
            _ => self.bare_value(),
        }
    }

    fn array(&mut self) -> Result<Value, ParseError> {
        self.enter()?;
        let mut items = Vec::new();
        loop {
            match self.next_token()? {
                b']' => {
                    self.leave();
                    return Ok(Value::Array(items));
                }
                b',' => self.at += 1,
                _ => {
                    items.push(self.value()?);
                    if !matches!(self.next_token()?, b',' | b']') {
                        return Err(self.error("a comma or a closing bracket is expected"));
                    }
                }
            }
        }
    }

    fn object(&mut self) -> Result<Value, ParseError> {
        self.enter()?;
        let mut members = Map::new();
        loop {
            match self.next_token()? {
                b'}' => {
                    self.leave();
                    return Ok(Value::Object(members));
                }
                b',' => self.at += 1,
                first => {
                    let key = self.key(first)?;
                    if self.next_token()? != b':' {
                        return Err(self.error("a colon is expected"));
                    }
                    self.at += 1;
                    let value = self.value()?;
                    if self.drop_nulls && value.is_null() {
                        members.remove(&key);
                    } else {
                        members.insert(key, value);
                    }
                    if !matches!(self.next_token()?, b',' | b'}') {
                        return Err(self.error("a comma or a closing brace is expected"));
                    }
                }
            }
        }
    }

    fn key(&mut self, first: u8) -> Result<String, ParseError> {
        match first {
            b'"' | b'\'' => self.string(first),
            b'{' | b'[' => Ok(self.value()?.to_string()),
            _ => self.bare().map(str::to_owned),
        }
    }

    /// A run of characters without quotes: an identifier, a word or a number.
    fn bare(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        while let Some(b) = self.peek() {
            if matches!(
                b,
                b',' | b':' | b'}' | b']' | b'{' | b'[' | b'"' | b'\'' | b'(' | b')' | b'/'
            ) || b <= b' '
            {
                break;
            }
            self.at += 1;
        }
        let text: &'a [u8] = self.text;
        match std::str::from_utf8(&text[start..self.at]) {
            Ok("") => Err(self.error("a value is expected")),
            Ok(text) => Ok(text),
            Err(_) => Err(self.error("it is not UTF-8")),
        }
    }

    fn bare_value(&mut self) -> Result<Value, ParseError> {
        let at = self.at;
        match self.bare()? {
            "null" | "undefined" | "NaN" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            // Java prints sets of some classes so.
            "Set" | "TreeSet" if self.peek() == Some(b'[') => self.array(),
            word => number(word).map(Value::Number).ok_or(ParseError::Syntax {
                at,
                reason: "the word is unknown",
            }),
        }
    }

    fn string(&mut self, quote: u8) -> Result<String, ParseError> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let run = rest.iter().position(|&b| b == quote || b == b'\\');
            let run = run.ok_or_else(|| self.error("a string is not closed"))?;
            out.extend_from_slice(&rest[..run]);
            self.at += run + 1;
            if rest[run] == quote {
                return String::from_utf8(out).map_err(|_| self.error("it is not UTF-8"));
            }
            self.escape(&mut out)?;
        }
    }

    /// Resolves the escape whose backslash was just passed.
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let kind = self
            .peek()
            .ok_or_else(|| self.error("a string is not closed"))?;
        self.at += 1;
        let resolved = match kind {
            b'u' => {
                let c = self.unicode()?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            b'x' => {
                let c = char::from_u32(self.hex(2)?).unwrap_or('?');
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
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
        out.push(resolved);
        Ok(())
    }

    fn unicode(&mut self) -> Result<char, ParseError> {
        let mut code = self.hex(4)?;
        if (0xD800..0xDC00).contains(&code) && self.text.get(self.at..self.at + 2) == Some(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex(4)?;
            if (0xDC00..0xE000).contains(&low) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            } else {
                self.at = before;
            }
        }
        Ok(char::from_u32(code).unwrap_or('?'))
    }

    fn hex(&mut self, digits: usize) -> Result<u32, ParseError> {
        let text = self
            .text
            .get(self.at..self.at + digits)
            .ok_or_else(|| self.error("a string is not closed"))?;
        let mut value = 0;
        for &b in text {
            let digit = (b as char)
                .to_digit(16)
                .ok_or_else(|| self.error("an escape is not hexadecimal"))?;
            value = value << 4 | digit;
        }
        self.at += digits;
        Ok(value)
    }
}

/// A number, with Java's type suffixes allowed.
fn number(word: &str) -> Option<Number> {
    let text = word
        .strip_suffix(['L', 'l', 'S', 'B', 'D', 'F'])
        .unwrap_or(word);
    if let Some(v) = crate::ext_fields::parse_int(text.as_bytes()) {
        return Some(v.into());
    }
    if !text.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse::<u64>()
        .map(Number::from)
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

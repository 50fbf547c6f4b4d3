//! Reading: JSON, and what fastjson 1 tolerates of it (keys without quotes or in single quotes, spare commas).

use super::{Key, Map, Node};

/// Nesting beyond this is refused, so that hostile text cannot exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at byte {position}: {problem}")]
pub struct ParseError {
    /// Offset in bytes.
    pub position: usize,
    /// What is wrong there.
    pub problem: &'static str,
}

/// Parses a whole text; only blanks may follow the value.
pub fn parse(bytes: &[u8]) -> Result<Node, ParseError> {
    let text = std::str::from_utf8(bytes).map_err(|e| ParseError {
        position: e.valid_up_to(),
        problem: "the text is not UTF-8",
    })?;
    let mut parser = Parser { text, at: 0 };
    parser.blanks();
    let node = parser.value(0)?;
    parser.blanks();
    if parser.at < text.len() {
        Err(parser.error("something follows the value"))
    } else {
        Ok(node)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, problem: &'static str) -> ParseError {
        ParseError {
            position: self.at,
            problem,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(
            self.peek(),
            Some(b' ' | b'\t' | b'\r' | b'\n' | 0x0c | 0x08)
        ) {
            self.at += 1;
        }
    }

    /// Blanks and spare commas.
    fn separators(&mut self) {
        self.blanks();
        while self.peek() == Some(b',') {
            self.at += 1;
            self.blanks();
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, ParseError> {
        if depth > DEPTH_MAX {
            return Err(self.error("nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => self.map(depth).map(Node::Map),
            Some(b'[') => self.list(depth).map(Node::List),
            Some(quote @ (b'"' | b'\'')) => self.string(quote).map(Node::Text),
            Some(_) => self.word(),
            None => Err(self.error("the text ends early")),
        }
    }

    fn map(&mut self, depth: usize) -> Result<Map, ParseError> {
        self.at += 1;
        let mut map = Map::new();
        loop {
            self.separators();
            let key = match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(map);
                }
                Some(quote @ (b'"' | b'\'')) => Key {
                    text: self.string(quote)?,
                    quoted: true,
                },
                Some(_) => Key {
                    text: self.bare()?.to_string(),
                    quoted: false,
                },
                None => return Err(self.error("the text ends early")),
            };
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.error("a colon is missing"));
            }
            self.at += 1;
            self.blanks();
            let value = self.value(depth + 1)?;
            map.push_key(key, value);
            self.blanks();
            if !matches!(self.peek(), Some(b',' | b'}')) {
                return Err(self.error("a comma or brace is missing"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, ParseError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.separators();
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
            self.blanks();
            if !matches!(self.peek(), Some(b',' | b']')) {
                return Err(self.error("a comma or bracket is missing"));
            }
        }
    }

    /// A run of characters that needs no quotes.
    fn bare(&mut self) -> Result<&'a str, ParseError> {
        let rest = &self.text[self.at..];
        let plain =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '+' | '@' | '%');
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("unexpected character"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn word(&mut self) -> Result<Node, ParseError> {
        let start = self.at;
        let word = self.bare()?;
        match word {
            "null" => Ok(Node::Null),
            "true" => Ok(Node::Bool(true)),
            "false" => Ok(Node::Bool(false)),
            number if number.parse::<f64>().is_ok_and(f64::is_finite) => {
                Ok(Node::Number(number.to_string()))
            }
            _ => Err(ParseError {
                position: start,
                problem: "neither a number nor a word of JSON",
            }),
        }
    }

    fn string(&mut self, quote: u8) -> Result<String, ParseError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.bytes().position(|b| b == quote || b == b'\\');
            let end = end.ok_or_else(|| self.error("a string does not end"))?;
            out.push_str(&rest[..end]);
            self.at += end;
            if self.peek() == Some(quote) {
                self.at += 1;
                return Ok(out);
            }
            self.escape(&mut out)?;
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), ParseError> {
        self.at += 1;
        let c = self.text[self.at..]
            .chars()
            .next()
            .ok_or_else(|| self.error("a string does not end"))?;
        self.at += c.len_utf8();
        match c {
            'u' => {
                let first = self.unit()?;
                let joined = if (0xD800..0xDC00).contains(&first)
                    && self.text[self.at..].starts_with("\\u")
                {
                    self.at += 2;
                    vec![first, self.unit()?]
                } else {
                    vec![first]
                };
                out.push_str(&String::from_utf16_lossy(&joined));
            }
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            '"' | '\'' | '\\' | '/' => out.push(c),
            _ => return Err(self.error("unknown escape")),
        }
        Ok(())
    }

    fn unit(&mut self) -> Result<u16, ParseError> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|d| u16::from_str_radix(d, 16).ok());
        let unit = unit.ok_or_else(|| self.error("\\u needs four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }
}

//! The text form of a digest: one line each, the kind first.

use std::fmt;
use std::str::FromStr;

use super::{Digest, RangeHash, RecordHash};

/// First line of the file.
const TITLE: &str = "ledgermq-digest 1";

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        writeln!(f, "label {}", self.label.replace(['\n', '\r'], " "))?;
        writeln!(
            f,
            "log {} {} {}",
            self.begin,
            self.end,
            self.divide.unwrap_or(-1)
        )?;
        writeln!(f, "ranges {}", self.range_bytes)?;
        for range in &self.ranges {
            writeln!(
                f,
                "range {} {} {}",
                range.start,
                range.records,
                Hex(&range.hash)
            )?;
        }
        writeln!(f, "detail {} {}", self.detail.start, self.detail.end)?;
        for record in &self.records {
            writeln!(
                f,
                "record {} {} {}",
                record.position,
                record.size,
                Hex(&record.hash)
            )?;
        }
        writeln!(f, "end {} {}", self.ranges.len(), self.records.len())
    }
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The first line is another.
    #[error("not a digest made by this version: the first line is not {TITLE:?}")]
    Title,
    /// A line that makes no sense.
    #[error("line {0} of the digest makes no sense")]
    Line(usize),
    /// The last line is missing: the file was cut.
    #[error("the digest is cut short")]
    CutShort,
}

impl FromStr for Digest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Digest, ParseError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, title)| title.trim() != TITLE) {
            return Err(ParseError::Title);
        }
        let mut digest = Digest {
            label: String::new(),
            begin: 0,
            divide: None,
            end: 0,
            range_bytes: 1,
            ranges: Vec::new(),
            detail: 0..0,
            records: Vec::new(),
        };
        let mut whole = false;
        for (number, line) in lines {
            whole = digest
                .parse_line(line)
                .ok_or(ParseError::Line(number + 1))?;
        }
        if whole {
            Ok(digest)
        } else {
            Err(ParseError::CutShort)
        }
    }
}

impl Digest {
    /// Takes one line; whether it is the last one and agrees with the rest.
    fn parse_line(&mut self, line: &str) -> Option<bool> {
        let (kind, rest) = line.split_once(' ')?;
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |i: usize| words.get(i)?.parse::<i64>().ok();
        match kind {
            "label" => self.label = rest.to_string(),
            "log" => {
                (self.begin, self.end) = (number(0)?, number(1)?);
                self.divide = Some(number(2)?).filter(|&divide| divide >= 0);
            }
            "ranges" => self.range_bytes = number(0).filter(|&bytes| bytes > 0)?,
            "range" => self.ranges.push(RangeHash {
                start: number(0)?,
                records: number(1)?.try_into().ok()?,
                hash: from_hex(words.get(2)?)?,
            }),
            "detail" => self.detail = number(0)?..number(1)?,
            "record" => self.records.push(RecordHash {
                position: number(0)?,
                size: number(1)?.try_into().ok()?,
                hash: from_hex(words.get(2)?)?,
            }),
            "end" => {
                let counts = (self.ranges.len() as i64, self.records.len() as i64);
                return Some((number(0)?, number(1)?) == counts);
            }
            _ => return None,
        }
        Some(false)
    }
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

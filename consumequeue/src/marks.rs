//! The dispatch mark: how far queues and index are known to be synced.
//!
//! A small text file of our own, in a folder that no Java broker looks at. It names the last record that it
//! covers, so that it is worth nothing over another log, and ends with a checksum over itself.
//!
//! ```text
//! ledgermq dispatch mark 1
//! position=<physical position behind the last record covered>
//! record=<physical offset> <size> <crc32 of the record, hex>
//! store_timestamp=<latest one of the records covered, ms>
//! state=<clean, running, catching-up or cutting>
//! index=<file name> <its header, 80 hex digits>, or empty, or off
//! queues=<number of queues that hold something> <sum of their maximum offsets>
//! hole_behind=<physical offset; only if a queue has filler whose messages were not looked for yet>
//! crc=<crc32 of everything above, hex>
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use dledger::fs::Fs;

use crate::error::Error;
use crate::index::{HEADER_SIZE, Header, KeyIndex};
use crate::log::LogFrame;

const TITLE: &str = "ledgermq dispatch mark 1";

/// A record by place, size and CRC-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoveredRecord {
    pub physical_offset: i64,
    pub size: usize,
    pub crc: u32,
}

impl CoveredRecord {
    pub fn of(frame: &LogFrame) -> CoveredRecord {
        CoveredRecord {
            physical_offset: frame.physical_offset,
            size: frame.bytes.len(),
            crc: crc32fast::hash(&frame.bytes),
        }
    }
}

/// What the broker was doing when a mark was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkState {
    /// Stopping; the mark covers everything, and was the last thing written.
    Clean,
    /// Running: more was dispatched since.
    Running,
    /// Recovering: more was dispatched since, and there may be no abort file.
    CatchingUp,
    /// About to cut queues and index at the position; nothing else in the mark counts.
    Cutting,
}

impl MarkState {
    fn name(self) -> &'static str {
        match self {
            MarkState::Clean => "clean",
            MarkState::Running => "running",
            MarkState::CatchingUp => "catching-up",
            MarkState::Cutting => "cutting",
        }
    }

    fn parse(name: &str) -> Option<MarkState> {
        [
            MarkState::Clean,
            MarkState::Running,
            MarkState::CatchingUp,
            MarkState::Cutting,
        ]
        .into_iter()
        .find(|state| state.name() == name)
    }
}

/// The key index as a mark names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexMark {
    /// No index was kept; what its files hold, if there are any, ends earlier.
    Off,
    /// There was no file yet.
    Empty,
    /// Name and header of the last file.
    File(String, Header),
}

impl IndexMark {
    /// The index as it is now.
    pub fn of(index: Option<&KeyIndex>) -> IndexMark {
        match index.map(KeyIndex::anchor) {
            None => IndexMark::Off,
            Some(None) => IndexMark::Empty,
            Some(Some((name, header))) => IndexMark::File(name, header),
        }
    }
}

/// What was synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Where dispatch goes on.
    pub position: i64,
    /// The last record in front of it; the first one behind it if there is none in front.
    pub record: CoveredRecord,
    /// Latest store time of the records in front of it.
    pub store_timestamp: i64,
    /// What the broker was doing.
    pub state: MarkState,
    /// The key index.
    pub index: IndexMark,
    /// Number of queues that hold something, and the sum of their maximum offsets.
    pub queues: (i64, i64),
    /// Where to read again for messages that were missing in a queue.
    pub hole_behind: Option<i64>,
}

/// Where the mark is kept.
#[derive(Debug, Clone)]
pub struct MarkFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
}

impl MarkFile {
    /// The mark at `path`, in a folder of ours; made when the first mark is written.
    pub fn new(fs: Arc<dyn Fs>, path: impl Into<PathBuf>) -> MarkFile {
        MarkFile {
            fs,
            path: path.into(),
        }
    }

    /// The mark, if there is one that is whole.
    pub(crate) fn load(&self) -> Option<Mark> {
        decode(&self.fs.read(&self.path).ok()?)
    }

    /// Replaces the mark, durably.
    pub(crate) fn save(&self, mark: &Mark) -> Result<(), Error> {
        let io = || Error::io("write dispatch mark", &self.path);
        if let Some(folder) = self.path.parent()
            && !self.fs.exists(folder)
        {
            self.fs.create_dir_all(folder).map_err(io())?;
        }
        self.fs
            .write_durable(&self.path, encode(mark).as_bytes())
            .map_err(io())
    }
}

fn encode(mark: &Mark) -> String {
    let mut text = format!(
        "{TITLE}\nposition={}\nrecord={} {} {:08x}\nstore_timestamp={}\nstate={}\n",
        mark.position,
        mark.record.physical_offset,
        mark.record.size,
        mark.record.crc,
        mark.store_timestamp,
        mark.state.name(),
    );
    // Writing to a string cannot fail.
    match &mark.index {
        IndexMark::Off => text.push_str("index=off"),
        IndexMark::Empty => text.push_str("index=empty"),
        IndexMark::File(name, header) => {
            let _ = write!(text, "index={name} ");
            for byte in header.encode() {
                let _ = write!(text, "{byte:02x}");
            }
        }
    }
    text.push('\n');
    let _ = writeln!(text, "queues={} {}", mark.queues.0, mark.queues.1);
    if let Some(behind) = mark.hole_behind {
        let _ = writeln!(text, "hole_behind={behind}");
    }
    let crc = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "crc={crc:08x}");
    text
}

fn decode(bytes: &[u8]) -> Option<Mark> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (covered, crc) = text.rsplit_once("crc=")?;
    if u32::from_str_radix(crc.strip_suffix('\n')?, 16).ok()? != crc32fast::hash(covered.as_bytes())
    {
        return None;
    }
    let mut lines = covered.lines();
    if lines.next()? != TITLE {
        return None;
    }
    let value = |name: &str| {
        covered
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    let mut record = value("record")?.split(' ');
    let mut queues = value("queues")?.split(' ');
    Some(Mark {
        position: value("position")?.parse().ok()?,
        record: CoveredRecord {
            physical_offset: record.next()?.parse().ok()?,
            size: record.next()?.parse().ok()?,
            crc: u32::from_str_radix(record.next()?, 16).ok()?,
        },
        store_timestamp: value("store_timestamp")?.parse().ok()?,
        state: MarkState::parse(value("state")?)?,
        index: decode_index(value("index")?)?,
        queues: (queues.next()?.parse().ok()?, queues.next()?.parse().ok()?),
        hole_behind: match value("hole_behind") {
            Some(behind) => Some(behind.parse().ok()?),
            None => None,
        },
    })
}

fn decode_index(text: &str) -> Option<IndexMark> {
    match text {
        "off" => return Some(IndexMark::Off),
        "empty" => return Some(IndexMark::Empty),
        _ => {}
    }
    let (name, digits) = text.split_once(' ')?;
    let mut header = [0; HEADER_SIZE];
    if digits.len() != 2 * HEADER_SIZE || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in header.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(IndexMark::File(name.to_owned(), Header::decode(&header)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let mut mark = Mark {
            position: 1234,
            record: CoveredRecord {
                physical_offset: 1000,
                size: 234,
                crc: 0xABCD,
            },
            store_timestamp: 99,
            state: MarkState::Clean,
            index: IndexMark::File("20240131093015123".into(), Header::following(None)),
            queues: (3, 77),
            hole_behind: Some(5),
        };
        let text = encode(&mark);
        assert_eq!(decode(text.as_bytes()), Some(mark.clone()));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_ne!(decode(&bytes), Some(mark.clone()), "byte {at}");
            assert_eq!(decode(&text.as_bytes()[..at]), None);
        }
        mark.index = IndexMark::Empty;
        mark.hole_behind = None;
        mark.state = MarkState::CatchingUp;
        assert_eq!(decode(encode(&mark).as_bytes()), Some(mark.clone()));
        mark.index = IndexMark::Off;
        assert_eq!(decode(encode(&mark).as_bytes()), Some(mark));
    }
}

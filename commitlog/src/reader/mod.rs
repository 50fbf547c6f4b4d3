//! Reading the frames of the log in order: through the legacy files, over their blank records and the divide, through
//! the DLedger entries. A damaged place is an error that names it; nothing is skipped silently.

mod offline;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::blank;
use crate::examine::{ENTRY_BLANK, ENTRY_HEADER, ENTRY_MAGIC, entry_header};
use crate::frame::{FrameError, FrameView, MAGIC_V1, MAGIC_V2, read_i32};

pub use offline::OfflineLog;

/// The two halves of an upgraded log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Half {
    /// Files of the plain broker.
    Legacy,
    /// The DLedger log.
    Dledger,
}

impl Half {
    /// Lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Half::Legacy => "legacy",
            Half::Dledger => "dledger",
        }
    }
}

/// Why frames cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// What lies there is not what must lie there.
    #[error("the {} log is damaged at {position}: {reason}", .half.as_str())]
    Damaged {
        /// Position.
        position: i64,
        /// Which half.
        half: Half,
        /// What is wrong.
        reason: Damage,
    },
    /// Retention has removed the position.
    #[error("position {position} is below the begin of the log, {min}")]
    Gone {
        /// Position asked for.
        position: i64,
        /// First position there is.
        min: i64,
    },
    /// A file is missing inside the log.
    #[error("the file of the log that holds position {position} is missing")]
    Missing {
        /// Position asked for.
        position: i64,
    },
    /// A file could not be read.
    #[error("the log cannot be read at {position}: {source}")]
    Io {
        /// Position.
        position: i64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What is wrong at a damaged place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// No entry header.
    #[error("no entry begins there")]
    Entry,
    /// An entry whose body is longer than its frame.
    #[error("the entry holds {body} bytes, its message {frame}")]
    BodySize {
        /// Bytes of the entry's body.
        body: usize,
        /// Bytes of the frame.
        frame: usize,
    },
    /// A frame that is not sound.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A run of bytes of the log.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// From the position asked for up to where the file, or what may be read of it, ends.
    pub bytes: Bytes,
    /// Where the file ends: the next one begins there.
    pub file_end: i64,
    /// Which half it belongs to.
    pub half: Half,
}

/// Where a [`FrameReader`] gets its bytes.
pub trait Source: fmt::Debug + Send + Sync {
    /// The bytes at `position`; none if nothing may be read there yet.
    fn chunk(&self, position: i64) -> Result<Option<Chunk>, ReadError>;
    /// The first position that there is.
    fn min_position(&self) -> i64;
}

/// One frame, as read.
#[derive(Debug, Clone)]
pub struct Framed {
    /// Where the frame lies.
    pub physical_offset: i64,
    /// Bytes of the frame.
    pub size: usize,
    /// The frame, a slice of the log.
    pub bytes: Bytes,
    /// Which half it lies in.
    pub half: Half,
}

impl Framed {
    /// Where reading goes on behind this frame.
    pub fn end(&self) -> i64 {
        self.physical_offset + self.size as i64
    }

    /// The frame's fields. Its structure was checked when it was read.
    pub fn view(&self) -> Result<FrameView<'_>, FrameError> {
        FrameView::parse(&self.bytes)
    }
}

/// Reads frames one after another.
#[derive(Debug)]
pub struct FrameReader {
    source: Arc<dyn Source>,
    position: i64,
    chunk: Option<(i64, Chunk)>,
    check_crc: bool,
}

impl FrameReader {
    /// Reads from `position` on, which is the start of a legacy frame or of an entry, or the physical offset of a
    /// message; from the first position that there is if that is larger.
    pub fn new(source: Arc<dyn Source>, position: i64) -> FrameReader {
        let position = position.max(source.min_position());
        let mut reader = FrameReader {
            source,
            position,
            chunk: None,
            check_crc: false,
        };
        reader.step_back_to_entry();
        reader
    }

    /// Checks the body CRC of every frame too.
    pub fn checked(mut self) -> FrameReader {
        self.check_crc = true;
        self
    }

    /// Where the next frame is looked for; reading may be resumed there by a new reader.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// The next frame; none if the end of what may be read is reached (asking again later goes on).
    ///
    /// After [`ReadError::Damaged`] the reader stays where it is; [`skip_damage`](Self::skip_damage) goes on behind
    /// the damage.
    #[allow(clippy::should_implement_trait)] // fallible, and not finished when it gives none
    pub fn next(&mut self) -> Result<Option<Framed>, ReadError> {
        loop {
            let Some((start, half, file_end)) = self.load()? else {
                return Ok(None);
            };
            let Some((_, chunk)) = &self.chunk else {
                return Ok(None);
            };
            let at = (self.position - start) as usize;
            let rest = &chunk.bytes[at..];
            let first = match half {
                Half::Legacy if rest.len() < blank::BLANK_LEN || blank::is_blank(rest) => None,
                Half::Dledger if rest.len() < 8 || read_i32(rest, 0) == Some(ENTRY_BLANK) => None,
                Half::Legacy => Some((0, self.legacy_frame(rest)?)),
                Half::Dledger => Some((ENTRY_HEADER, self.entry_frame(rest)?)),
            };
            let Some((before, size)) = first else {
                self.position = file_end;
                continue;
            };
            let at = at + before;
            let framed = Framed {
                physical_offset: self.position + before as i64,
                size,
                bytes: chunk.bytes.slice(at..at + size),
                half,
            };
            self.position = framed.end();
            return Ok(Some(framed));
        }
    }

    /// Gives up, knowingly, what is damaged where the reader stands: goes on to the next whole frame of the file that
    /// lies where it says, or else to the next file. Returns where that is.
    pub fn skip_damage(&mut self) -> Result<i64, ReadError> {
        let Some((start, half, file_end)) = self.load()? else {
            return Ok(self.position);
        };
        let Some((_, chunk)) = &self.chunk else {
            return Ok(self.position);
        };
        let rest = &chunk.bytes[(self.position - start) as usize..];
        let whole =
            |at: &usize| self.goes_on(half, &rest[*at..], self.position + *at as i64, file_end);
        let next = (1..rest.len()).find(whole);
        // A DLedger file that is not full ends with what is committed.
        let end = start + chunk.bytes.len() as i64;
        let end = if half == Half::Dledger {
            end.min(file_end)
        } else {
            file_end
        };
        self.position = next.map_or(end, |at| self.position + at as i64);
        Ok(self.position)
    }

    /// Whether a whole frame, or what closes the file, lies here.
    fn goes_on(&self, half: Half, bytes: &[u8], position: i64, file_end: i64) -> bool {
        match half {
            Half::Legacy => match read_i32(bytes, 4) {
                Some(MAGIC_V1 | MAGIC_V2) => self.check_frame(bytes, position).is_ok(),
                Some(blank::BLANK_MAGIC) => {
                    read_i32(bytes, 0).is_some_and(|rest| i64::from(rest) == file_end - position)
                }
                _ => false,
            },
            Half::Dledger => match read_i32(bytes, 0) {
                Some(ENTRY_MAGIC) => {
                    let body = position + ENTRY_HEADER as i64;
                    entry_header(bytes, position).is_some()
                        && self.check_frame(&bytes[ENTRY_HEADER..], body).is_ok()
                }
                Some(ENTRY_BLANK) => {
                    read_i32(bytes, 4).is_some_and(|rest| i64::from(rest) == file_end - position)
                }
                _ => false,
            },
        }
    }

    /// Sees to it that the chunk holds at least one byte at the position: its start, half and end of file.
    fn load(&mut self) -> Result<Option<(i64, Half, i64)>, ReadError> {
        let held = |(start, chunk): &(i64, Chunk)| {
            (*start..*start + chunk.bytes.len() as i64).contains(&self.position)
        };
        if !self.chunk.as_ref().is_some_and(held) {
            self.chunk = None;
            let chunk = self
                .source
                .chunk(self.position)?
                .filter(|chunk| !chunk.bytes.is_empty());
            let Some(chunk) = chunk else { return Ok(None) };
            self.chunk = Some((self.position, chunk));
        }
        Ok(self
            .chunk
            .as_ref()
            .map(|(start, chunk)| (*start, chunk.half, chunk.file_end)))
    }

    fn legacy_frame(&self, rest: &[u8]) -> Result<usize, ReadError> {
        self.check_frame(rest, self.position)
            .map_err(|e| self.damaged(Half::Legacy, e.into()))
    }

    fn entry_frame(&self, rest: &[u8]) -> Result<usize, ReadError> {
        let damaged = |reason| self.damaged(Half::Dledger, reason);
        let header = entry_header(rest, self.position).ok_or_else(|| damaged(Damage::Entry))?;
        let body = &rest[ENTRY_HEADER..header.size];
        let physical_offset = self.position + ENTRY_HEADER as i64;
        let frame = self
            .check_frame(body, physical_offset)
            .map_err(|e| damaged(e.into()))?;
        if frame != body.len() {
            return Err(damaged(Damage::BodySize {
                body: body.len(),
                frame,
            }));
        }
        Ok(frame)
    }

    fn check_frame(&self, bytes: &[u8], position: i64) -> Result<usize, FrameError> {
        let frame = FrameView::parse(bytes)?;
        if self.check_crc {
            frame.validate(position)?;
        } else if frame.physical_offset() != position {
            return Err(FrameError::PhysicalOffset {
                stored: frame.physical_offset(),
                found: position,
            });
        }
        Ok(frame.size())
    }

    fn damaged(&self, half: Half, reason: Damage) -> ReadError {
        ReadError::Damaged {
            position: self.position,
            half,
            reason,
        }
    }

    /// A message's physical offset in the DLedger half lies behind its entry's header: go back to the header.
    fn step_back_to_entry(&mut self) {
        let asked = self.position;
        let before = asked - ENTRY_HEADER as i64;
        if let Ok(Some(chunk)) = self.source.chunk(asked)
            && chunk.half == Half::Dledger
            && entry_header(&chunk.bytes, asked).is_none()
            && let Ok(Some(chunk)) = self.source.chunk(before)
            && chunk.half == Half::Dledger
            && entry_header(&chunk.bytes, before).is_some()
        {
            self.position = before;
        }
    }
}

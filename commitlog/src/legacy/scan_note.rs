//! How far a long scan of the legacy log has come, so that the next start after a kill goes on there.
//!
//! Written only while a broker opens a store whose whole commitlog has to be checked. It names the last frame found and
//! its checksum: if that frame is not there any more, somebody wrote to the store, and the scan begins anew.

use std::io;
use std::path::Path;

use dledger::fs::{Fs, MapMode};

use super::{LegacyFile, Recovered};
use crate::frame::FrameView;

/// Name of the note among our own files.
pub const SCAN_NOTE_FILE: &str = "legacy-scan";

/// The note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScanNote {
    /// Where the scan began.
    pub from: i64,
    /// Start of the file to go on with.
    pub next: i64,
    /// Frames found so far.
    pub frames: u64,
    /// Physical offset of the last one.
    pub last_frame: i64,
    /// CRC-32 of its bytes.
    pub last_crc: u32,
}

impl ScanNote {
    /// A note of what was found, to go on with the file that begins at `next`; none if nothing was found yet.
    pub fn of(found: &Recovered, next: i64, last_bytes: &[u8]) -> Option<ScanNote> {
        Some(ScanNote {
            from: found.from,
            next,
            frames: found.frames,
            last_frame: found.last_frame?,
            last_crc: crc32fast::hash(last_bytes),
        })
    }

    pub fn save(&self, fs: &dyn Fs, path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs.create_dir_all(dir)?;
        }
        let ScanNote {
            from,
            next,
            frames,
            last_frame,
            last_crc,
        } = self;
        fs.write_durable(
            path,
            format!("{from} {next} {frames} {last_frame} {last_crc}\n").as_bytes(),
        )
    }

    /// The note of a scan that began at `from`, and the number of the file to go on with; none if there is none that
    /// holds.
    pub fn load(
        fs: &dyn Fs,
        path: &Path,
        files: &[LegacyFile],
        from: i64,
    ) -> io::Result<Option<(ScanNote, usize, i64)>> {
        let bytes = match fs.read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let Some(note) = parse(&String::from_utf8_lossy(&bytes)).filter(|note| note.from == from)
        else {
            return Ok(None);
        };
        let number = files.iter().position(|file| file.start == note.next);
        let holder = files
            .iter()
            .rev()
            .find(|file| file.start <= note.last_frame);
        let (Some(number), Some(holder)) = (number, holder) else {
            return Ok(None);
        };
        let map = fs.map(&holder.path, MapMode::ReadOnly)?;
        let file = map.slice(0, map.len() as usize);
        let at = usize::try_from(note.last_frame - holder.start).unwrap_or(usize::MAX);
        let frame = file
            .get(at..)
            .and_then(|bytes| FrameView::parse(bytes).ok());
        let holds = frame.filter(|frame| crc32fast::hash(frame.bytes()) == note.last_crc);
        Ok(holds.map(|frame| (note, number, frame.store_timestamp())))
    }
}

fn parse(text: &str) -> Option<ScanNote> {
    let mut words = text.split_whitespace();
    let mut number = || words.next()?.parse::<i64>().ok();
    Some(ScanNote {
        from: number()?,
        next: number()?,
        frames: number()?.try_into().ok()?,
        last_frame: number()?,
        last_crc: number()?.try_into().ok()?,
    })
}

//! Our own note of what was synced, in a file that Java does not look at: `<base>/synced.ledgermq`.
//!
//! It lets recovery scan only what was not known to be durable. It names the last entry that it covers by index,
//! term, position, size and CRC; where that entry is not found exactly so, someone else wrote to the store and the
//! note is ignored.
//!
//! The file has two records, at 0 and at 4096, big-endian, written in turn; the valid one with the larger sequence
//! number counts. A record is written after the sync that it speaks of, so any record that reaches the disk is
//! true, whether it was synced itself or not. Only two facts must be durable before the act that follows them: a
//! lower end before a cut, and a larger limit before a new file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use byteorder::{BigEndian, ByteOrder};

use super::files::FileList;
use crate::fs::{File, Fs, OpenMode};
use crate::index_unit::IndexUnit;

/// Name of the file, in the base directory of the log.
pub const FILE_NAME: &str = "synced.ledgermq";

const MAGIC: u32 = 0x4C4D_5153;
const VERSION: i32 = 1;
const RECORD_SIZE: usize = 88;
const SLOTS: [u64; 2] = [0, 4096];

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    /// The log is being replaced as a whole: whatever is found is to be removed.
    pub(crate) resetting: bool,
    /// Index of the first entry of the log, or of the one to be written first.
    pub(crate) first_index: i64,
    /// Its position.
    pub(crate) first_pos: i64,
    /// The last entry known to be durable; −1 if there is none.
    pub(crate) end_index: i64,
    /// Its term.
    pub(crate) end_term: i64,
    /// Its position.
    pub(crate) entry_pos: i64,
    /// Its bytes, header included.
    pub(crate) entry_size: i32,
    /// CRC-32 of these bytes.
    pub(crate) entry_crc: u32,
    /// No data file of ours reaches beyond this position: bytes behind it were written by someone else.
    pub(crate) limit_pos: i64,
    /// A cut is under way: behind the end, up to this position, the disk may still hold old entries even where zeros
    /// are seen. 0 if not.
    pub(crate) erase_to: i64,
}

impl Note {
    /// The note of a log that holds nothing durable.
    pub(crate) fn nothing(first_index: i64, first_pos: i64, limit_pos: i64) -> Self {
        Note {
            resetting: false,
            first_index,
            first_pos,
            end_index: -1,
            end_term: -1,
            entry_pos: -1,
            entry_size: 0,
            entry_crc: 0,
            limit_pos,
            erase_to: 0,
        }
    }

    /// The note that the entry of `unit` is durable; `None` if it cannot be read.
    pub(crate) fn of(
        unit: &IndexUnit,
        data: &FileList,
        first_index: i64,
        first_pos: i64,
        limit_pos: i64,
    ) -> Option<Self> {
        let mut crc = 0;
        data.with(unit.pos, |segment| {
            segment
                .map
                .view(segment.offset(unit.pos), unit.size as usize, &mut |bytes| {
                    crc = crc32fast::hash(bytes);
                });
        })?;
        Some(Note {
            resetting: false,
            first_index,
            first_pos,
            end_index: unit.index,
            end_term: unit.term,
            entry_pos: unit.pos,
            entry_size: unit.size,
            entry_crc: crc,
            limit_pos,
            erase_to: 0,
        })
    }

    /// Position after the last covered entry.
    pub(crate) fn end_pos(&self) -> i64 {
        if self.end_index < 0 {
            self.first_pos
        } else {
            self.entry_pos + i64::from(self.entry_size)
        }
    }

    fn encode(&self, sequence: i64) -> [u8; RECORD_SIZE] {
        let mut buf = [0; RECORD_SIZE];
        BigEndian::write_u32(&mut buf[0..4], MAGIC);
        BigEndian::write_i32(&mut buf[4..8], VERSION);
        BigEndian::write_i64(&mut buf[8..16], sequence);
        BigEndian::write_i32(&mut buf[16..20], i32::from(self.resetting));
        BigEndian::write_i64(&mut buf[20..28], self.first_index);
        BigEndian::write_i64(&mut buf[28..36], self.first_pos);
        BigEndian::write_i64(&mut buf[36..44], self.end_index);
        BigEndian::write_i64(&mut buf[44..52], self.end_term);
        BigEndian::write_i64(&mut buf[52..60], self.entry_pos);
        BigEndian::write_i32(&mut buf[60..64], self.entry_size);
        BigEndian::write_u32(&mut buf[64..68], self.entry_crc);
        BigEndian::write_i64(&mut buf[68..76], self.limit_pos);
        BigEndian::write_i64(&mut buf[76..84], self.erase_to);
        let crc = crc32fast::hash(&buf[..84]);
        BigEndian::write_u32(&mut buf[84..88], crc);
        buf
    }

    fn decode(buf: &[u8]) -> Option<(i64, Self)> {
        let buf = buf.get(..RECORD_SIZE)?;
        let intact = BigEndian::read_u32(&buf[0..4]) == MAGIC
            && BigEndian::read_i32(&buf[4..8]) == VERSION
            && BigEndian::read_u32(&buf[84..88]) == crc32fast::hash(&buf[..84]);
        let note = Note {
            resetting: BigEndian::read_i32(&buf[16..20]) != 0,
            first_index: BigEndian::read_i64(&buf[20..28]),
            first_pos: BigEndian::read_i64(&buf[28..36]),
            end_index: BigEndian::read_i64(&buf[36..44]),
            end_term: BigEndian::read_i64(&buf[44..52]),
            entry_pos: BigEndian::read_i64(&buf[52..60]),
            entry_size: BigEndian::read_i32(&buf[60..64]),
            entry_crc: BigEndian::read_u32(&buf[64..68]),
            limit_pos: BigEndian::read_i64(&buf[68..76]),
            erase_to: BigEndian::read_i64(&buf[76..84]),
        };
        intact.then(|| (BigEndian::read_i64(&buf[8..16]), note))
    }
}

/// Reads the note of a log; `None` if there is none that is intact.
pub(crate) fn load(fs: &dyn Fs, base: &Path) -> io::Result<Option<(i64, Note)>> {
    let bytes = match fs.read(&base.join(FILE_NAME)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let records = SLOTS
        .iter()
        .filter_map(|at| Note::decode(bytes.get(*at as usize..)?));
    Ok(records.max_by_key(|(sequence, _)| *sequence))
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Sidecar {
    file: Arc<dyn File>,
    sequence: i64,
    note: Note,
}

impl Sidecar {
    /// Opens or creates the file with `note` as its durable content; `sequence` is the largest found so far.
    pub(crate) fn create(fs: &dyn Fs, base: &Path, sequence: i64, note: Note) -> io::Result<Self> {
        let file = fs.open(&base.join(FILE_NAME), OpenMode::Create)?;
        let mut sidecar = Sidecar {
            file,
            sequence,
            note,
        };
        sidecar.write_durable(note)?;
        fs.sync_dir(base)?;
        Ok(sidecar)
    }

    pub(crate) fn note(&self) -> Note {
        self.note
    }

    /// Writes without a sync.
    pub(crate) fn write(&mut self, note: Note) -> io::Result<()> {
        self.sequence += 1;
        let slot = SLOTS[(self.sequence % 2) as usize];
        self.file.write_all_at(&note.encode(self.sequence), slot)?;
        self.note = note;
        Ok(())
    }

    /// Replaces both records and syncs them: after this no earlier record can come back.
    pub(crate) fn write_durable(&mut self, note: Note) -> io::Result<()> {
        self.write(note)?;
        self.file.sync()?;
        self.write(note)?;
        self.file.sync()
    }

    /// States durably that files of ours reach up to `limit_pos`, before one is created.
    pub(crate) fn raise_limit(&mut self, limit_pos: i64) -> io::Result<()> {
        if limit_pos <= self.note.limit_pos {
            return Ok(());
        }
        self.write_durable(Note {
            limit_pos,
            ..self.note
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn the_newest_intact_record_counts() {
        let fs = MemFs::new();
        let base = Path::new("/b");
        fs.create_dir_all(base).unwrap();
        assert_eq!(load(&fs, base).unwrap(), None);
        let mut note = Note::nothing(0, 0, 4096);
        let mut sidecar = Sidecar::create(&fs, base, 0, note).unwrap();
        for end_index in 0..5 {
            note.end_index = end_index;
            sidecar.write(note).unwrap();
            let (sequence, found) = load(&fs, base).unwrap().unwrap();
            assert_eq!((sequence, found), (sidecar.sequence, note));
        }
        let newest = SLOTS[(sidecar.sequence % 2) as usize];
        sidecar.file.write_all_at(&[9], newest + 30).unwrap();
        assert_eq!(load(&fs, base).unwrap().unwrap().1.end_index, 3);
    }
}

//! The two halves of the log.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Scan, base, files, i16_at, i32_at, i64_at};

const MAGIC_V1: i32 = -626_843_481;
const MAGIC_V2: i32 = -626_843_477;
const BLANK: i32 = -875_286_124;
const ENTRY_HEADER: usize = 48;

/// One stored message.
#[derive(Clone, Debug)]
pub struct Record {
    /// Physical offset.
    pub phys: i64,
    /// Length of the whole record.
    pub size: i32,
    /// Topic.
    pub topic: String,
    /// Queue id.
    pub queue_id: i32,
    /// Queue offset.
    pub queue_offset: i64,
    /// System flag.
    pub sys_flag: i32,
    /// Store time, ms.
    pub store_ts: i64,
    /// CRC of the body as stored.
    pub body_crc: i32,
    /// Length of the body as stored.
    pub body_len: i32,
    /// The first bytes of the body (at most 24).
    pub body_head: Vec<u8>,
    /// Property string.
    pub properties: String,
}

impl Record {
    /// Value of a property; the last one wins, as in Java's parser.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.split('\x02').rev().find_map(|p| {
            p.split_once('\x01')
                .filter(|(n, _)| *n == name)
                .map(|(_, v)| v)
        })
    }

    /// Transaction bits of the system flag: 0 none, 4 prepared, 8 commit, 12 rollback.
    pub fn transaction(&self) -> i32 {
        self.sys_flag & 12
    }

    /// It has a unit in its consume queue (prepared and rolled back messages have none).
    pub fn in_queue(&self) -> bool {
        matches!(self.transaction(), 0 | 8)
    }

    /// The keys that the key index has of it.
    pub fn index_keys(&self) -> Vec<String> {
        if self.transaction() == 12 {
            return Vec::new();
        }
        let unique = self.property("UNIQ_KEY").into_iter();
        let keys = self
            .property("KEYS")
            .unwrap_or_default()
            .split(' ')
            .filter(|k| !k.is_empty());
        unique
            .chain(keys)
            .map(|k| format!("{}#{k}", self.topic))
            .collect()
    }
}

/// Header of one entry of the replicated log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index.
    pub index: i64,
    /// Term.
    pub term: i64,
    /// Position.
    pub pos: i64,
    /// Length with header.
    pub size: i32,
}

/// Decodes the record at the start of `b`; says what is wrong with it.
pub fn record(b: &[u8]) -> Result<Record, String> {
    let size = i32_at(b, 0);
    let magic = i32_at(b, 4);
    if magic != MAGIC_V1 && magic != MAGIC_V2 {
        return Err(format!("magic {magic}"));
    }
    let b = usize::try_from(size)
        .ok()
        .and_then(|n| b.get(..n))
        .ok_or(format!("size {size}"))?;
    let sys_flag = i32_at(b, 36);
    let mut at = 48 + if sys_flag & 16 != 0 { 20 } else { 8 };
    let store_ts = i64_at(b, at);
    at += 8 + if sys_flag & 32 != 0 { 20 } else { 8 } + 4 + 8;
    let body_len = i32_at(b, at);
    at += 4;
    let body_end = usize::try_from(body_len)
        .ok()
        .map(|n| at + n)
        .ok_or("body length")?;
    let body = b.get(at..body_end).ok_or("body beyond the record")?;
    let (topic_len, topic_at) = if magic == MAGIC_V2 {
        (i16_at(b, body_end) as usize, body_end + 2)
    } else {
        (
            usize::from(*b.get(body_end).ok_or("no topic")?),
            body_end + 1,
        )
    };
    let text = |from: usize, n: usize| {
        let part = b.get(from..from + n).ok_or("text beyond the record")?;
        String::from_utf8(part.to_vec()).map_err(|_| "text is not UTF-8")
    };
    let topic = text(topic_at, topic_len)?;
    let props_at = topic_at + topic_len + 2;
    let props_len = i16_at(b, props_at - 2) as usize;
    let properties = text(props_at, props_len)?;
    if props_at + props_len != b.len() {
        return Err(format!("ends at {} of {size}", props_at + props_len));
    }
    let body_crc = i32_at(b, 8);
    let crc = (crc32(body) & 0x7fff_ffff) as i32;
    if body_len > 0 && crc != body_crc {
        return Err(format!("body CRC {crc}, recorded {body_crc}"));
    }
    Ok(Record {
        phys: i64_at(b, 28),
        size,
        topic,
        queue_id: i32_at(b, 12),
        queue_offset: i64_at(b, 20),
        sys_flag,
        store_ts,
        body_crc,
        body_len,
        body_head: body[..body.len().min(24)].to_vec(),
        properties,
    })
}

/// CRC-32 of a body (before the sign bit is dropped).
pub fn crc32(b: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(b);
    crc.sum()
}

/// Reads the legacy commitlog.
pub fn legacy(dir: &Path, scan: &mut Scan) -> Result<()> {
    let files: Vec<_> = files(dir)?
        .into_iter()
        .filter(|f| base(f).is_some())
        .collect();
    let mut ended = false;
    for file in &files {
        let from = base(file).unwrap_or_default();
        scan.legacy_begin.get_or_insert(from);
        let b = fs::read(file).with_context(|| file.display().to_string())?;
        let mut at = 0;
        scan.legacy_closed = false;
        while at + 8 <= b.len() {
            let (size, magic) = (i32_at(&b, at), i32_at(&b, at + 4));
            if magic == BLANK {
                if size as usize != b.len() - at {
                    scan.log_problems
                        .push(format!("blank at {} says {size}", from + at as i64));
                }
                scan.legacy_closed = true;
                break;
            }
            if size == 0 && magic == 0 {
                ended = true;
                break;
            }
            if ended {
                scan.log_problems
                    .push(format!("records behind the end, at {}", from + at as i64));
            }
            match record(&b[at..]) {
                Ok(r) => {
                    add(scan, r, from + at as i64);
                    at += size as usize;
                    scan.legacy_end = from + at as i64;
                }
                Err(e) => {
                    scan.log_problems
                        .push(format!("legacy record at {}: {e}", from + at as i64));
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Reads one folder of the replicated log.
pub fn dledger(dir: &Path, scan: &mut Scan) -> Result<()> {
    let units = index_units(&dir.join("index"), scan)?;
    scan.index_units += units.len();
    let first = scan.entries.len();
    let mut ended = false;
    for file in files(&dir.join("data"))? {
        let Some(from) = base(&file) else { continue };
        let b = fs::read(&file).with_context(|| file.display().to_string())?;
        let mut at = 0;
        while at + 8 <= b.len() {
            let pos = from + at as i64;
            match (i32_at(&b, at), i32_at(&b, at + 4)) {
                (-1, size) => {
                    if size as usize != b.len() - at {
                        scan.log_problems
                            .push(format!("end of file marker at {pos} says {size}"));
                    }
                    break;
                }
                (0, 0) => {
                    ended = true;
                    if b[at..].iter().any(|x| *x != 0) {
                        scan.log_problems
                            .push(format!("bytes behind the end of the log at {pos}"));
                    }
                    break;
                }
                (1, size) if !ended && size as usize > ENTRY_HEADER => {
                    entry(&b[at..], pos, scan);
                    at += size as usize;
                }
                other => {
                    scan.log_problems
                        .push(format!("no entry at {pos}: {other:?}"));
                    return Ok(());
                }
            }
        }
    }
    let entries = &scan.entries[first..];
    if entries != units {
        let different = entries.iter().zip(&units).position(|(a, b)| a != b);
        scan.log_problems.push(format!(
            "{} index units for {} entries, first difference {different:?}",
            units.len(),
            entries.len()
        ));
    }
    Ok(())
}

fn entry(b: &[u8], pos: i64, scan: &mut Scan) {
    let e = Entry {
        index: i64_at(b, 8),
        term: i64_at(b, 16),
        pos: i64_at(b, 24),
        size: i32_at(b, 4),
    };
    let body_size = i32_at(b, 44);
    if e.pos != pos || body_size + ENTRY_HEADER as i32 != e.size || b.len() < e.size as usize {
        scan.log_problems
            .push(format!("entry header at {pos}: {e:?}, body {body_size}"));
        return;
    }
    if let Some(last) = scan.entries.last()
        && (e.index != last.index + 1 || e.term < last.term)
    {
        scan.log_problems
            .push(format!("entry at {pos}: {e:?} follows {last:?}"));
    }
    scan.entries.push(e);
    match record(&b[ENTRY_HEADER..e.size as usize]) {
        Ok(r) if r.size + ENTRY_HEADER as i32 == e.size => add(scan, r, pos + ENTRY_HEADER as i64),
        Ok(r) => scan.log_problems.push(format!(
            "record of {} in entry of {} at {pos}",
            r.size, e.size
        )),
        Err(m) => scan
            .log_problems
            .push(format!("record in the entry at {pos}: {m}")),
    }
}

fn add(scan: &mut Scan, r: Record, at: i64) {
    if r.phys != at {
        scan.log_problems
            .push(format!("record at {at} says {}", r.phys));
    }
    scan.records.insert(at, r);
}

/// The index units of the replicated log, read up to the first empty one.
fn index_units(dir: &Path, scan: &mut Scan) -> Result<Vec<Entry>> {
    use std::os::unix::fs::FileExt;
    let mut units = Vec::new();
    for file in files(dir)? {
        let Some(from) = base(&file) else { continue };
        let handle = fs::File::open(&file)?;
        let len = handle.metadata()?.len();
        let mut at = 0;
        let mut chunk = vec![0u8; 1 << 18];
        'file: while at < len {
            let n = handle.read_at(&mut chunk, at)? / 32 * 32;
            if n == 0 {
                break;
            }
            for (i, u) in chunk[..n].chunks_exact(32).enumerate() {
                if i32_at(u, 0) != 1 {
                    break 'file;
                }
                let e = Entry {
                    index: i64_at(u, 16),
                    term: i64_at(u, 24),
                    pos: i64_at(u, 4),
                    size: i32_at(u, 12),
                };
                if e.index * 32 != from + at as i64 + i as i64 * 32 {
                    scan.log_problems
                        .push(format!("index unit out of place: {e:?}"));
                }
                units.push(e);
            }
            at += n as u64;
        }
    }
    Ok(units)
}

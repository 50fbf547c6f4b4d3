//! Files of fixed size that together form one address space: the data list and the index list.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;

use crate::fs::{Fs, Map, MapMode, is_disk_full};

/// Disk blocks are reserved, and pages brought in, at most this far ahead of the writer, in bytes.
const WINDOW: i64 = 16 * 1024 * 1024;
/// Unit of a reservation when the disk is nearly full, in bytes.
const SMALL_WINDOW: i64 = 64 * 1024;

/// The name of the file that starts at `start`: 20 digits.
pub(crate) fn file_name(start: i64) -> String {
    format!("{start:020}")
}

/// The start that a file name states; `None` unless it is 20 digits that fit.
pub(crate) fn parse_name(name: &str) -> Option<i64> {
    (name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit())).then(|| name.parse().ok())?
}

/// One file. Its offsets count from its own first byte unless they are called positions.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Position of the first byte.
    pub(crate) start: i64,
    /// Bytes.
    pub(crate) size: i64,
    pub(crate) map: Arc<dyn Map>,
    pub(crate) path: PathBuf,
    /// End of what is reserved on disk, from the end of the data on.
    prepared: AtomicI64,
}

impl Segment {
    pub(crate) fn new(start: i64, map: Arc<dyn Map>, path: PathBuf) -> Self {
        let size = map.len() as i64;
        Segment {
            start,
            size,
            map,
            path,
            prepared: AtomicI64::new(0),
        }
    }

    /// Position after the last byte.
    pub(crate) fn end(&self) -> i64 {
        self.start + self.size
    }

    /// Offset of a position inside the file.
    pub(crate) fn offset(&self, pos: i64) -> u64 {
        debug_assert!(pos >= self.start && pos <= self.end());
        (pos - self.start) as u64
    }

    /// States where the data ends in a file found on disk: nothing behind it is known to be reserved.
    pub(crate) fn set_written(&self, pos: i64) {
        self.prepared.store(pos - self.start, Ordering::Release);
    }

    /// Position up to which a write cannot fail for lack of space.
    pub(crate) fn prepared_end(&self) -> i64 {
        self.start + self.prepared.load(Ordering::Acquire)
    }

    /// How far a reservation for a writer at `pos` should reach.
    pub(crate) fn window_end(&self, pos: i64) -> i64 {
        (pos + WINDOW).min(self.end())
    }

    /// Reserves up to position `pos`, which lies in the file, and if the disk has room for it up to `wish`.
    pub(crate) fn prepare_to(&self, pos: i64, wish: i64) -> io::Result<()> {
        let from = self.prepared_end();
        if from >= pos {
            return Ok(());
        }
        let small = pos.max(from + SMALL_WINDOW).min(self.end());
        match self.prepare_range(from, wish.max(pos)) {
            Err(e) if is_disk_full(&e) => self.prepare_range(from, small),
            other => other,
        }
    }

    /// Reserves up to `wish` in the background.
    pub(crate) fn prepare_ahead(&self, wish: i64) -> io::Result<()> {
        let from = self.prepared_end();
        if from >= wish {
            Ok(())
        } else {
            self.prepare_range(from, wish)
        }
    }

    fn prepare_range(&self, from: i64, to: i64) -> io::Result<()> {
        self.map.prepare(self.offset(from), (to - from) as u64)?;
        self.prepared.fetch_max(to - self.start, Ordering::AcqRel);
        Ok(())
    }

    /// Runs `f(offset, length)` on the parts from `pos` on that hold something else than zeros.
    fn nonzero(&self, pos: i64, f: &mut dyn FnMut(u64, u64) -> io::Result<()>) -> io::Result<()> {
        const CHUNK: u64 = 256 * 1024;
        let len = self.size as u64;
        let mut at = self.map.next_data(self.offset(pos));
        while at < len {
            let n = (len - at).min(CHUNK);
            let mut used = 0;
            self.map.view(at, n as usize, &mut |bytes| {
                used = bytes
                    .iter()
                    .rposition(|b| *b != 0)
                    .map_or(0, |last| last as u64 + 1);
            });
            if used > 0 {
                f(at, used)?;
            }
            at = self.map.next_data(at + n);
        }
        Ok(())
    }

    /// Position after the last byte at or after `pos` that is not zero; `pos` if there is none.
    pub(crate) fn last_nonzero(&self, pos: i64) -> i64 {
        let mut last = pos;
        let _ = self.nonzero(pos, &mut |offset, len| {
            last = self.start + (offset + len) as i64;
            Ok(())
        });
        last
    }

    /// Overwrites `[pos, erase_to)`, and everything from `pos` to the end of the file that is not zero, with zeros,
    /// and makes that durable.
    pub(crate) fn zero_tail(&self, pos: i64, erase_to: i64) -> io::Result<()> {
        let first = self.offset(pos);
        let mut last = self.offset(erase_to.clamp(pos, self.end()));
        self.map.zero(first, last - first)?;
        self.nonzero(pos, &mut |offset, len| {
            last = last.max(offset + len);
            self.map.zero(offset, len)
        })?;
        self.map.sync(first, last - first)
    }
}

/// The files of one list, ascending and without gaps.
#[derive(Debug)]
pub(crate) struct FileList {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// Bytes of each file.
    pub(crate) file_size: i64,
    segments: RwLock<Vec<Arc<Segment>>>,
}

impl FileList {
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        file_size: i64,
        segments: Vec<Arc<Segment>>,
    ) -> Self {
        FileList {
            fs,
            dir,
            file_size,
            segments: RwLock::new(segments),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Start of the file that holds `pos`.
    pub(crate) fn start_of(&self, pos: i64) -> i64 {
        pos - pos.rem_euclid(self.file_size)
    }

    /// Runs `f` on the file that holds `pos`.
    pub(crate) fn with<R>(&self, pos: i64, f: impl FnOnce(&Segment) -> R) -> Option<R> {
        let segments = self.segments.read();
        let first = segments.first()?.start;
        let number = usize::try_from(pos.checked_sub(first)?.div_euclid(self.file_size)).ok()?;
        segments.get(number).map(|segment| f(segment))
    }

    pub(crate) fn get(&self, pos: i64) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let first = segments.first()?.start;
        let number = usize::try_from(pos.checked_sub(first)?.div_euclid(self.file_size)).ok()?;
        segments.get(number).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.segments.read().clone()
    }

    pub(crate) fn first(&self) -> Option<Arc<Segment>> {
        self.segments.read().first().cloned()
    }

    pub(crate) fn last(&self) -> Option<Arc<Segment>> {
        self.segments.read().last().cloned()
    }

    /// Makes the positions `[from, to)` durable, as far as their files exist.
    pub(crate) fn sync(&self, from: i64, to: i64) -> io::Result<()> {
        for segment in self.all() {
            let start = from.max(segment.start);
            let end = to.min(segment.end());
            if start < end {
                segment
                    .map
                    .sync(segment.offset(start), (end - start) as u64)?;
            }
        }
        Ok(())
    }

    /// Makes the positions `[from, to)` durable even if an earlier process had a failed sync there: the kernel then
    /// takes the pages for clean, although the disk does not have them, so they are written again first. Nobody may
    /// be reading.
    pub(crate) fn sync_again(&self, from: i64, to: i64) -> io::Result<()> {
        const CHUNK: i64 = 1024 * 1024;
        for segment in self.all() {
            let mut at = from.max(segment.start);
            let end = to.min(segment.end());
            while at < end {
                let n = (end - at).min(CHUNK) as usize;
                let bytes = segment.map.slice(segment.offset(at), n).to_vec();
                segment.map.write(segment.offset(at), n, &mut |buf| {
                    buf.copy_from_slice(&bytes)
                });
                at += n as i64;
            }
        }
        self.sync(from, to)
    }

    /// Creates the file that starts at `start`, with its name durable, without adding it to the list. There must be
    /// no such file yet. On an error nothing stays behind.
    pub(crate) fn create(&self, start: i64) -> io::Result<Arc<Segment>> {
        self.fs.create_dir_all(&self.dir)?;
        let path = self.dir.join(file_name(start));
        if self.fs.exists(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let created = self
            .fs
            .map(
                &path,
                MapMode::Create {
                    size: self.file_size as u64,
                },
            )
            .and_then(|map| self.fs.sync_dir(&self.dir).map(|()| map));
        match created {
            Ok(map) => Ok(Arc::new(Segment::new(start, map, path))),
            Err(e) => {
                let _ = self.fs.remove_file(&path);
                Err(e)
            }
        }
    }

    /// Adds the next file.
    pub(crate) fn push(&self, segment: Arc<Segment>) {
        let mut segments = self.segments.write();
        debug_assert!(
            segments
                .last()
                .is_none_or(|last| last.end() == segment.start)
        );
        segments.push(segment);
    }

    /// Removes the files that begin at or after `pos`, newest first, so that no kill leaves a gap.
    pub(crate) fn remove_from(&self, pos: i64) -> io::Result<()> {
        let mut removed = false;
        while let Some(last) = self.last().filter(|last| last.start >= pos) {
            self.segments.write().pop();
            self.fs.remove_file(&last.path)?;
            removed = true;
        }
        if removed {
            self.fs.sync_dir(&self.dir)
        } else {
            Ok(())
        }
    }

    /// Removes the files that end at or before `pos`, oldest first. Readers that hold one keep it.
    pub(crate) fn remove_below(&self, pos: i64) -> io::Result<usize> {
        let mut removed = 0;
        while let Some(first) = self.first().filter(|first| first.end() <= pos) {
            self.segments.write().remove(0);
            self.fs.remove_file(&first.path)?;
            removed += 1;
        }
        if removed > 0 {
            self.fs.sync_dir(&self.dir)?;
        }
        Ok(removed)
    }

    /// Removes a file that is not in the list (a spare).
    pub(crate) fn discard(&self, segment: &Segment) -> io::Result<()> {
        self.fs.remove_file(&segment.path)?;
        self.fs.sync_dir(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_20_digits() {
        assert_eq!(file_name(1_048_576), "00000000000001048576");
        assert_eq!(parse_name("00000000000001048576"), Some(1_048_576));
        for bad in [
            "",
            "1048576",
            "0000000000000104857x",
            "+0000000000001048576",
            "00000000000001048576.bak",
        ] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
        assert_eq!(parse_name("99999999999999999999"), None);
    }
}

//! A mapped file. The only module of the workspace with `unsafe` code.
//!
//! The rules that make it sound:
//! - A mapping's address and length never change, and the memory stays mapped as long as any `Arc<Region>` lives;
//!   every slice handed out holds one.
//! - Files of a store are never shortened while they are mapped (a shorter file would turn an access into SIGBUS).
//!   The store lock keeps other brokers away.
//! - Inside the process, a range is written by one writer, and only before it is published to readers; a published
//!   range is never written again through the mapping (`zero` goes through the file descriptor).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::Map;

/// The mapped memory; unmapped when the last user lets go.
struct Region(MmapRaw);

/// What a `Bytes` of the whole mapping owns.
struct Owner(Arc<Region>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: pointer and length describe one live mapping, which `self` keeps mapped. `Bytes` calls this once,
        // at construction, before any byte is written; it then keeps the address, and gives out references only to
        // sub-slices that `MappedFile::slice` cut, that is, to published bytes.
        unsafe { std::slice::from_raw_parts(self.0.0.as_ptr(), self.0.0.len()) }
    }
}

/// A whole file, mapped shared.
pub(super) struct MappedFile {
    region: Arc<Region>,
    /// All of the mapping; slices of it cost one reference count and no allocation.
    whole: Bytes,
    file: File,
    writable: bool,
}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedFile")
            .field("len", &self.whole.len())
            .finish_non_exhaustive()
    }
}

impl MappedFile {
    /// Maps all of `file`, which must not be empty.
    pub(super) fn new(file: File, writable: bool) -> io::Result<Self> {
        let options = MmapOptions::new();
        let raw = if writable {
            options.map_raw(&file)?
        } else {
            options.map_raw_read_only(&file)?
        };
        let region = Arc::new(Region(raw));
        let whole = Bytes::from_owner(Owner(Arc::clone(&region)));
        Ok(MappedFile {
            region,
            whole,
            file,
            writable,
        })
    }

    /// Checks a range against the length and gives it as `usize`s.
    fn range(&self, offset: u64, len: usize) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.region.0.len()),
            "range {offset}+{len} outside a mapping of {} bytes",
            self.region.0.len()
        );
        start
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        let start = self.range(offset, len);
        // SAFETY: the range lies inside the live mapping (checked above); callers read published bytes only, which
        // nobody writes.
        unsafe { std::slice::from_raw_parts(self.region.0.as_ptr().add(start), len) }
    }
}

impl Map for MappedFile {
    fn len(&self) -> u64 {
        self.whole.len() as u64
    }

    fn slice(&self, offset: u64, len: usize) -> Bytes {
        let start = self.range(offset, len);
        self.whole.slice(start..start + len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) {
        buf.copy_from_slice(self.bytes(offset, buf.len()));
    }

    fn view(&self, offset: u64, len: usize, f: &mut dyn FnMut(&[u8])) {
        f(self.bytes(offset, len));
    }

    fn write(&self, offset: u64, len: usize, f: &mut dyn FnMut(&mut [u8])) {
        assert!(self.writable, "write to a mapping opened for reading");
        let start = self.range(offset, len);
        // SAFETY: the range lies inside the live, writable mapping (checked above). The caller is the only writer
        // and the range is not published, so no other reference to these bytes exists.
        f(unsafe { std::slice::from_raw_parts_mut(self.region.0.as_mut_ptr().add(start), len) });
    }

    fn zero(&self, offset: u64, len: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        self.range(offset, usize::try_from(len).unwrap_or(usize::MAX));
        let mut at = offset;
        while at < offset + len {
            let n = (offset + len - at).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..n as usize], at)?;
            at += n;
        }
        Ok(())
    }

    fn prepare(&self, offset: u64, len: u64) -> io::Result<()> {
        let start = self.range(offset, usize::try_from(len).unwrap_or(usize::MAX));
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len) {
            Ok(()) => {}
            // A file system without reservation: then only the size of its free space can warn.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        }
        // Bringing pages in is a matter of speed only; an old kernel does not know the advice.
        let _ = self
            .region
            .0
            .advise_range(Advice::PopulateWrite, start, len as usize);
        Ok(())
    }

    fn sync(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let start = self.range(offset, usize::try_from(len).unwrap_or(usize::MAX));
        self.region.0.flush_range(start, len as usize)
    }

    fn next_data(&self, from: u64) -> u64 {
        let len = self.len();
        if from >= len {
            return len;
        }
        match seek(&self.file, SeekFrom::Data(from)) {
            Ok(at) => at.min(len),
            Err(Errno::NXIO) => len,
            Err(_) => from,
        }
    }
}

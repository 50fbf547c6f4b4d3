//! The operating system's files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::mapping::MappedFile;
use super::{DirEntry, File, Fs, Map, MapMode, OpenMode, Space};

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl RealFs {
    /// The file system, ready to be shared.
    pub fn shared() -> Arc<dyn Fs> {
        Arc::new(RealFs)
    }
}

/// `path` with `.tmp` appended to its name.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// The directory that holds `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn modified_ms(meta: &fs::Metadata) -> i64 {
    match meta.modified().map(|t| t.duration_since(UNIX_EPOCH)) {
        Ok(Ok(after)) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Ok(Err(before)) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}

impl Fs for RealFs {
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // Follow links, as opening the name would; a dangling link is skipped like a missing file.
            let meta = match fs::metadata(entry.path()) {
                Ok(meta) => meta,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            entries.push(DirEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                len: if meta.is_dir() { 0 } else { meta.len() },
                is_dir: meta.is_dir(),
                modified_ms: modified_ms(&meta),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let up = parent(dir);
        if up != dir {
            self.create_dir_all(up)?;
        }
        match fs::create_dir(dir) {
            Ok(()) => self.sync_dir(up),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn set_modified(&self, path: &Path, ms: i64) -> io::Result<()> {
        let time: SystemTime = match u64::try_from(ms) {
            Ok(ms) => UNIX_EPOCH + Duration::from_millis(ms),
            Err(_) => UNIX_EPOCH - Duration::from_millis(ms.unsigned_abs()),
        };
        fs::OpenOptions::new()
            .write(true)
            .open(path)?
            .set_modified(time)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }

    fn write_durable(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let tmp = temporary(path);
        let mut file = fs::File::create(&tmp)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&tmp, path)?;
        self.sync_dir(parent(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .write(mode != OpenMode::Read)
            .create(mode == OpenMode::Create);
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn map(&self, path: &Path, mode: MapMode) -> io::Result<Arc<dyn Map>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(mode != MapMode::ReadOnly);
        options.create(matches!(mode, MapMode::Create { .. }));
        let file = options.open(path)?;
        let len = file.metadata()?.len();
        if let MapMode::Create { size } = mode {
            if len != 0 && len != size {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("{} has {len} bytes, not {size}", path.display()),
                ));
            }
            if len == 0 {
                file.set_len(size)?;
                file.sync_all()?;
            }
        } else if len == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is empty", path.display()),
            ));
        }
        Ok(Arc::new(MappedFile::new(file, mode != MapMode::ReadOnly)?))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(path)?;
        let unit = if stat.f_frsize == 0 {
            stat.f_bsize
        } else {
            stat.f_frsize
        };
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        Ok(Space {
            total: used.saturating_add(stat.f_bavail).saturating_mul(unit),
            available: stat.f_bavail.saturating_mul(unit),
        })
    }
}

#[derive(Debug)]
struct RealFile(fs::File);

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

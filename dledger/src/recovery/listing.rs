//! The files of a list, by name and size.

use std::path::{Path, PathBuf};

use super::OpenError;
use crate::fs::Fs;
use crate::store::files::{file_name, parse_name};

/// A file of the right name and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) start: i64,
    pub(super) path: PathBuf,
}

/// A directory of such files.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Ascending.
    pub(super) files: Vec<Listed>,
    /// Newest files of length zero.
    pub(super) empty: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
}

impl Listing {
    /// The first file that is missing between two others.
    pub(super) fn gap(&self, dir: &Path, size: u64) -> Option<PathBuf> {
        self.files.windows(2).find_map(|pair| {
            let next = pair[0].start + size as i64;
            (pair[1].start != next).then(|| dir.join(file_name(next)))
        })
    }
}

/// Lists a directory; one that does not exist holds nothing.
pub(super) fn list(fs: &dyn Fs, dir: &Path, size: u64) -> Result<Listing, OpenError> {
    let mut listing = Listing::default();
    if !fs.exists(dir) {
        return Ok(listing);
    }
    let entries = fs
        .list(dir)
        .map_err(OpenError::io(format!("listing {}", dir.display())))?;
    for entry in entries {
        let path = dir.join(&entry.name);
        let Some(start) = parse_name(&entry.name).filter(|_| !entry.is_dir) else {
            listing.warnings.push(format!(
                "{} is not a file of this log and is left alone (a Java broker would not start with it)",
                path.display()
            ));
            continue;
        };
        if entry.len == 0 {
            listing.empty.push(path);
            continue;
        }
        if let Some(empty) = listing.empty.first() {
            return Err(OpenError::EmptyFile(empty.clone()));
        }
        if entry.len != size {
            return Err(OpenError::FileSize {
                path,
                found: entry.len,
                expected: size,
            });
        }
        if start % size as i64 != 0 {
            return Err(OpenError::Misplaced { path, size });
        }
        listing.files.push(Listed { start, path });
    }
    for path in &listing.empty {
        listing.warnings.push(format!(
            "{} is empty and the newest file: removed",
            path.display()
        ));
    }
    Ok(listing)
}

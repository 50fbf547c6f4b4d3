//! What lies in the legacy commitlog's directories. Looks only; judges nothing.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use dledger::fs::Fs;

use crate::layout::parse_file_name;

/// One file of the legacy commitlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyFile {
    /// Absolute offset of its first byte.
    pub start: i64,
    /// Where it lies.
    pub path: PathBuf,
    /// Last modification, ms.
    pub modified_ms: i64,
}

/// All that was found, sorted into kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Bytes of a file: as asked for, or as most of the files found have.
    pub file_size: u64,
    /// Files of that size, ascending by offset.
    pub files: Vec<LegacyFile>,
    /// Files of length 0 with a data file's name, ascending by offset.
    pub empty: Vec<LegacyFile>,
    /// Data files of another size.
    pub wrong_size: Vec<(PathBuf, u64)>,
    /// Files that are no data files by name.
    pub foreign_files: Vec<PathBuf>,
    /// Folders inside a data directory.
    pub foreign_dirs: Vec<PathBuf>,
}

impl Listing {
    /// Whether there is no data file of any size.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.wrong_size.is_empty()
    }

    /// The first place where two successive files do not meet: where the earlier one ends, where the later one
    /// starts (less than the end if one offset is there twice).
    pub fn first_gap(&self) -> Option<(i64, i64)> {
        self.files.windows(2).find_map(|pair| {
            let end = pair[0].start + self.file_size as i64;
            (pair[1].start != end).then_some((end, pair[1].start))
        })
    }

    /// End of the last file.
    pub fn end(&self) -> Option<i64> {
        self.files.last().map(|f| f.start + self.file_size as i64)
    }
}

/// Lists data files in `dirs` (those that exist). Without a `file_size`, the most frequent size counts.
pub fn list<'a>(
    fs: &dyn Fs,
    dirs: impl Iterator<Item = &'a Path>,
    file_size: Option<u64>,
) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut sized: Vec<(LegacyFile, u64)> = Vec::new();
    for dir in dirs {
        let entries = match fs.list(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = dir.join(&entry.name);
            match parse_file_name(&entry.name) {
                _ if entry.is_dir => listing.foreign_dirs.push(path),
                None => listing.foreign_files.push(path),
                Some(start) => {
                    let file = LegacyFile {
                        start,
                        path,
                        modified_ms: entry.modified_ms,
                    };
                    if entry.len == 0 {
                        listing.empty.push(file)
                    } else {
                        sized.push((file, entry.len))
                    }
                }
            }
        }
    }
    listing.file_size =
        file_size.unwrap_or_else(|| most_frequent(sized.iter().map(|(_, len)| *len)));
    for (file, len) in sized {
        if len == listing.file_size {
            listing.files.push(file);
        } else {
            listing.wrong_size.push((file.path, len));
        }
    }
    listing.files.sort_by_key(|f| f.start);
    listing.empty.sort_by_key(|f| f.start);
    Ok(listing)
}

/// The most frequent value, the larger one of equals; 0 for none.
fn most_frequent(values: impl Iterator<Item = u64>) -> u64 {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
        .into_iter()
        .max_by_key(|&(value, count)| (count, value))
        .map_or(0, |(value, _)| value)
}

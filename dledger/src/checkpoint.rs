//! `<base>/checkpoint`: the committed index, in Java's text form.

use std::io;
use std::path::Path;

use crate::fs::Fs;
use crate::properties;

/// Name of the file.
pub const FILE_NAME: &str = "checkpoint";

/// Content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last committed entry; −1 for none. Written by us, it is never beyond what is synced.
    pub committed_index: i64,
    /// The last entry; Java ignores it when it reads.
    pub end_index: i64,
}

/// Reads the checkpoint; `None` if there is none, or none that can be read.
pub fn load(fs: &dyn Fs, base: &Path) -> io::Result<Option<Checkpoint>> {
    let bytes = match fs.read(&base.join(FILE_NAME)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let found = properties::parse(&String::from_utf8_lossy(&bytes));
    let number = |key: &str| {
        found
            .get(key)
            .and_then(|value| value.trim().parse::<i64>().ok())
    };
    Ok(number("committedIndex").map(|committed_index| Checkpoint {
        committed_index,
        end_index: number("endIndex").unwrap_or(-1),
    }))
}

/// Replaces the checkpoint, atomically and durably.
pub fn save(fs: &dyn Fs, base: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    let text = format!(
        "committedIndex={}\nendIndex={}\n",
        checkpoint.committed_index, checkpoint.end_index
    );
    fs.write_durable(&base.join(FILE_NAME), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn reads_back_and_survives_nonsense() {
        let fs = MemFs::new();
        let base = Path::new("/b");
        fs.create_dir_all(base).unwrap();
        assert_eq!(load(&fs, base).unwrap(), None);
        let checkpoint = Checkpoint {
            committed_index: 1617,
            end_index: 1700,
        };
        save(&fs, base, &checkpoint).unwrap();
        assert_eq!(
            fs.read(&base.join("checkpoint")).unwrap(),
            b"committedIndex=1617\nendIndex=1700\n"
        );
        assert_eq!(load(&fs, base).unwrap(), Some(checkpoint));
        fs.write(&base.join("checkpoint"), &[0; 40]).unwrap();
        assert_eq!(load(&fs, base).unwrap(), None);
    }
}

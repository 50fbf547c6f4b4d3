//! Consume queues of a stopped store, read from their files and left as they are.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use consumequeue::{UNIT_SIZE, Unit};
use dledger::fs::{Fs, OpenMode};

/// Units read at once.
const BLOCK: usize = 512;

/// The files of one queue, and the block of units that was read last.
pub struct QueueFiles {
    fs: Arc<dyn Fs>,
    pub topic: String,
    pub queue_id: i32,
    /// Queue offset of the first unit of each file, and the file; ascending.
    files: Vec<(i64, PathBuf, u64)>,
    block_start: i64,
    block: Vec<u8>,
}

/// All queues below a folder, by topic and queue id. Names that are not queues are left out.
pub fn all(fs: &Arc<dyn Fs>, root: &Path) -> anyhow::Result<Vec<QueueFiles>> {
    let mut queues = Vec::new();
    for topic in folders(&**fs, root)? {
        for id in folders(&**fs, &root.join(&topic))? {
            let Ok(queue_id) = id.parse() else { continue };
            queues.push(QueueFiles::open(
                fs,
                &root.join(&topic).join(&id),
                &topic,
                queue_id,
            )?);
        }
    }
    queues.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
    Ok(queues)
}

fn folders(fs: &dyn Fs, dir: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs.list(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e).with_context(|| dir.display().to_string()),
    };
    let names = entries.into_iter().filter(|e| e.is_dir).map(|e| e.name);
    Ok(names.collect())
}

impl QueueFiles {
    fn open(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        topic: &str,
        queue_id: i32,
    ) -> anyhow::Result<QueueFiles> {
        let mut files = Vec::new();
        for entry in fs.list(dir).with_context(|| dir.display().to_string())? {
            let Some(start) = commitlog::layout::parse_file_name(&entry.name) else {
                continue;
            };
            if !entry.is_dir {
                files.push((start / UNIT_SIZE as i64, dir.join(&entry.name), entry.len));
            }
        }
        files.sort();
        Ok(QueueFiles {
            fs: fs.clone(),
            topic: topic.to_owned(),
            queue_id,
            files,
            block_start: 0,
            block: Vec::new(),
        })
    }

    /// Queue offset of the first unit that there could be.
    pub fn begin(&self) -> i64 {
        self.files.first().map_or(0, |(start, _, _)| *start)
    }

    /// The unit at a queue offset; none where nothing was written.
    pub fn unit(&mut self, offset: i64) -> anyhow::Result<Option<Unit>> {
        let held = self.block_start..self.block_start + (self.block.len() / UNIT_SIZE) as i64;
        if !held.contains(&offset) {
            self.load(offset)?;
        }
        let at = usize::try_from(offset - self.block_start).unwrap_or(usize::MAX);
        let bytes = at
            .checked_mul(UNIT_SIZE)
            .and_then(|at| self.block.get(at..));
        Ok(bytes.and_then(Unit::decode).filter(Unit::is_written))
    }

    fn load(&mut self, offset: i64) -> anyhow::Result<()> {
        self.block.clear();
        self.block_start = offset;
        let next = self.files.partition_point(|(start, _, _)| *start <= offset);
        let Some((start, path, len)) = next.checked_sub(1).and_then(|i| self.files.get(i)) else {
            return Ok(());
        };
        let at = (offset - start) as u64 * UNIT_SIZE as u64;
        let want = len.saturating_sub(at).min((BLOCK * UNIT_SIZE) as u64);
        if want == 0 {
            return Ok(());
        }
        self.block.resize(want as usize, 0);
        let read = self
            .fs
            .open(path, OpenMode::Read)
            .and_then(|file| file.read_at(&mut self.block, at))
            .with_context(|| path.display().to_string())?;
        self.block.truncate(read);
        Ok(())
    }

    /// Queue offset behind the last unit at or after `from`.
    pub fn end(&mut self, from: i64) -> anyhow::Result<i64> {
        let mut offset = from.max(self.begin());
        while self.unit(offset)?.is_some() {
            offset += 1;
        }
        Ok(offset)
    }
}

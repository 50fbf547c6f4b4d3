//! Stores for tests, written as a plain broker writes them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dledger::fs::{Fs, MemFs, OpenMode};

use crate::blank;
use crate::frame::{FrameView, MessageToStore, PropertySource};
use crate::layout::{StoreLayout, file_name};

/// Root of every test store.
pub const ROOT: &str = "/store";

/// A message to `topic` with this body.
pub fn message<'a>(topic: &'a str, body: &'a [u8]) -> MessageToStore<'a> {
    MessageToStore {
        topic,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: SocketAddr::from(([127, 0, 0, 1], 5000)),
        store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
        reconsume_times: 0,
        prepared_offset: 0,
        body,
        properties: PropertySource::raw(b"TAGS\x01a"),
    }
}

/// Bytes of a frame of [`message`] with a body of `len` bytes for topic `T`.
pub fn frame_len(len: usize) -> usize {
    message("T", &vec![0; len]).prepare().unwrap().encoded_len()
}

/// A plain store under construction.
pub struct PlainStore {
    pub fs: Arc<MemFs>,
    pub file_size: u64,
    pub layout: StoreLayout,
    /// Where the next frame goes.
    pub end: i64,
    /// Physical offset and bytes of every frame.
    pub frames: Vec<(i64, Vec<u8>)>,
}

impl PlainStore {
    /// An empty store whose first file begins at `start` (none is made yet).
    pub fn new(file_size: u64, start: i64) -> PlainStore {
        let fs = Arc::new(MemFs::new());
        let layout = StoreLayout::new(ROOT);
        fs.create_dir_all(&layout.root().join("commitlog")).unwrap();
        PlainStore {
            fs,
            file_size,
            layout,
            end: start,
            frames: Vec::new(),
        }
    }

    pub fn file(&self, start: i64) -> PathBuf {
        self.layout.root().join("commitlog").join(file_name(start))
    }

    /// Creates the file that begins at `start`, full length.
    pub fn create(&self, start: i64) {
        let file = self.fs.open(&self.file(start), OpenMode::Create).unwrap();
        file.set_len(self.file_size).unwrap();
        file.sync().unwrap();
        self.sync_dirs(&self.file(start));
    }

    /// Makes the names on the way to a file durable: what a broker stored long ago survives a power failure.
    fn sync_dirs(&self, path: &Path) {
        let dirs = path.ancestors().skip(1);
        for dir in dirs.take_while(|dir| !dir.as_os_str().is_empty()) {
            self.fs.sync_dir(dir).unwrap();
        }
    }

    pub fn write(&self, position: i64, bytes: &[u8]) {
        let start = position - position.rem_euclid(self.file_size as i64);
        if !self.fs.exists(&self.file(start)) {
            self.create(start);
        }
        let file = self
            .fs
            .open(&self.file(start), OpenMode::ReadWrite)
            .unwrap();
        file.write_all_at(bytes, (position - start) as u64).unwrap();
        file.sync().unwrap();
    }

    /// Appends a message, rolling the file as a broker does.
    pub fn append(&mut self, body_len: usize) -> i64 {
        let frame = self.frame(body_len, 0);
        let rest = self.rest();
        if frame.len() + blank::BLANK_LEN > rest as usize {
            self.roll();
        }
        let frame = self.frame(body_len, self.end);
        self.append_raw(frame)
    }

    /// Appends a frame without looking at the rest of the file.
    pub fn append_raw(&mut self, frame: Vec<u8>) -> i64 {
        let at = self.end;
        self.write(at, &frame);
        self.end += frame.len() as i64;
        self.frames.push((at, frame));
        at
    }

    /// Bytes left in the current file.
    pub fn rest(&self) -> u64 {
        self.file_size - self.end.rem_euclid(self.file_size as i64) as u64
    }

    /// Closes the current file with a blank record; the next one is not made yet.
    pub fn roll(&mut self) {
        let rest = self.rest();
        if let Some(blank) = blank::encode(rest) {
            self.write(self.end, &blank);
        }
        self.end += rest as i64;
    }

    /// A frame for position `at`.
    pub fn frame(&self, body_len: usize, at: i64) -> Vec<u8> {
        let number = self.frames.len();
        let body: Vec<u8> = (0..body_len).map(|i| (i + number) as u8).collect();
        let m = message("T", &body);
        let encoded = m.prepare().unwrap();
        let mut out = vec![0; encoded.encoded_len()];
        encoded.encode_into(
            &mut out,
            number as i64,
            at,
            1_000_000 + number as i64 * 1000,
        );
        out
    }

    /// Appends a frame that leaves exactly `rest` bytes in the current file.
    pub fn fill_to(&mut self, rest: usize) {
        let len = self.rest() as usize - rest;
        let frame = self.frame(len - frame_len(0), self.end);
        assert_eq!(frame.len(), len);
        self.append_raw(frame);
    }

    /// Writes a consume queue (topic T, queue 0) with a unit per frame, as a broker does.
    pub fn write_queue(&self, frames: &[(i64, Vec<u8>)]) {
        let mut units = Vec::new();
        for (at, frame) in frames {
            let frame = FrameView::parse(frame).unwrap();
            units.extend(at.to_be_bytes());
            units.extend((frame.size() as i32).to_be_bytes());
            units.extend(97i64.to_be_bytes());
        }
        self.write_queue_file("T/0", 0, &units, 6000);
    }

    pub fn write_queue_file(&self, queue: &str, start: i64, units: &[u8], len: usize) {
        let dir = self.layout.consumequeue().join(queue);
        self.fs.create_dir_all(&dir).unwrap();
        let mut bytes = units.to_vec();
        bytes.resize(len, 0);
        self.fs.write(&dir.join(file_name(start)), &bytes).unwrap();
        self.sync_dirs(&dir.join(file_name(start)));
    }

    pub fn abort(&self) {
        self.fs.write(&self.layout.abort(), b"").unwrap();
        self.sync_dirs(&self.layout.abort());
    }
}

/// All files of a store with their contents, but for the vote file.
pub fn contents(fs: &MemFs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs
        .files()
        .into_iter()
        .map(|path| (path.clone(), fs.read(&path).unwrap()))
        .collect();
    all.retain(|(path, _)| {
        !path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("currterm"))
    });
    all
}

/// No progress shown.
pub fn quiet(_: crate::Progress) {}

/// A path below the root.
pub fn at(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

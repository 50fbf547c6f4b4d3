//! One table file: loading with its fall-backs, writing durably, and off the path of requests.
//!
//! Loading follows Java (`X`, then `X.bak`), adds what 4.9 leaves behind when it is killed between deleting `X` and
//! renaming (`X` missing, `X.tmp` complete), and differs in one thing: a table that existed but cannot be read is
//! refused, never taken for an empty one.

use super::json::{Map, Node, parse};
use dledger::fs::Fs;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A table that must not be taken for empty.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Neither the file nor its backup can be read.
    #[error(
        "{path} cannot be read ({problem}), nor can {path}.bak ({backup}): restore one of them, or remove both to start with an empty table"
    )]
    Broken {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
        /// What is wrong with the backup.
        backup: String,
    },
}

/// Which file a table came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// None exists: a new table.
    New,
    /// The file itself.
    File,
    /// `X.tmp`: complete, `X` missing.
    Temporary,
    /// `X.bak`.
    Backup,
}

/// What became of one candidate file.
enum Candidate {
    Missing,
    Empty,
    Broken(String),
    Good(Map),
}

/// The file of one table, with the state of its saving.
#[derive(Debug)]
pub struct TableFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// Number of changes to the table; what `saved` says is on disk.
    changes: AtomicU64,
    saved: watch::Sender<u64>,
    wake: Notify,
    /// The text on disk, if known; the lock also keeps writers one after another.
    text: Mutex<Option<String>>,
}

impl TableFile {
    /// A file that is not touched before [`TableFile::load`] or a save.
    pub fn new(fs: Arc<dyn Fs>, path: PathBuf) -> Self {
        Self {
            fs,
            path,
            changes: AtomicU64::new(0),
            saved: watch::Sender::new(0),
            wake: Notify::new(),
            text: Mutex::new(None),
        }
    }

    /// Loads the object; `None` for a new table. `check` says what is wrong with an object that parses.
    pub fn load(
        &self,
        check: impl Fn(&Map) -> Result<(), String>,
    ) -> Result<(Option<Map>, Origin), TableError> {
        let main = self.candidate("", &check);
        if let Candidate::Good(map) = main {
            return Ok((Some(map), Origin::File));
        }
        if matches!(main, Candidate::Missing)
            && let Candidate::Good(map) = self.candidate(".tmp", &check)
        {
            tracing::warn!(
                "{path} is missing; the complete {path}.tmp is used",
                path = self.path.display()
            );
            return Ok((Some(map), Origin::Temporary));
        }
        let backup = self.candidate(".bak", &check);
        let describe = |c: &Candidate| match c {
            Candidate::Missing => "it is missing".to_string(),
            Candidate::Empty => "it is empty".to_string(),
            Candidate::Broken(problem) => problem.clone(),
            Candidate::Good(_) => "it is sound".to_string(),
        };
        match (&main, backup) {
            (_, Candidate::Good(map)) => {
                tracing::warn!(
                    "{}: {}; the backup {}.bak is used",
                    self.path.display(),
                    describe(&main),
                    self.path.display()
                );
                Ok((Some(map), Origin::Backup))
            }
            // An empty file without a backup: the first write of all was interrupted.
            (Candidate::Missing | Candidate::Empty, Candidate::Missing) => Ok((None, Origin::New)),
            (_, backup) => Err(TableError::Broken {
                path: self.path.display().to_string(),
                problem: describe(&main),
                backup: describe(&backup),
            }),
        }
    }

    fn candidate(&self, suffix: &str, check: &impl Fn(&Map) -> Result<(), String>) -> Candidate {
        let bytes = match self.fs.read(&sibling(&self.path, suffix)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Candidate::Missing,
            Err(error) => return Candidate::Broken(error.to_string()),
        };
        if bytes.is_empty() {
            return Candidate::Empty;
        }
        match parse(&bytes) {
            Ok(Node::Map(map)) => match check(&map) {
                Ok(()) => {
                    if suffix.is_empty() {
                        *self.text.lock() = String::from_utf8(bytes).ok();
                    }
                    Candidate::Good(map)
                }
                Err(problem) => Candidate::Broken(problem),
            },
            Ok(_) => Candidate::Broken("it holds no JSON object".into()),
            Err(error) => Candidate::Broken(error.to_string()),
        }
    }

    /// Notes a change of the table, to be saved soon.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Whether there are changes that are not on disk.
    pub fn is_dirty(&self) -> bool {
        *self.saved.borrow() < self.changes.load(Ordering::SeqCst)
    }

    /// Waits until every change made before this call is on disk; false if that takes longer than `limit`.
    pub async fn saved(&self, limit: Duration) -> bool {
        let wanted = self.changes.load(Ordering::SeqCst);
        let mut saved = self.saved.subscribe();
        tokio::time::timeout(limit, saved.wait_for(|s| *s >= wanted))
            .await
            .is_ok_and(|r| r.is_ok())
    }

    /// Writes what `render` gives, if it differs from what is on disk: the old text to `X.bak`, then the new one to
    /// `X`, each through a temporary file, synced. Blocks.
    fn save(&self, render: impl FnOnce() -> String) -> io::Result<()> {
        let mut on_disk = self.text.lock();
        let covered = self.changes.load(Ordering::SeqCst);
        let text = render();
        if on_disk.as_deref() != Some(text.as_str()) {
            if let Some(folder) = self.path.parent() {
                self.fs.create_dir_all(folder)?;
            }
            if let Some(old) = on_disk.as_deref() {
                self.fs
                    .write_durable(&sibling(&self.path, ".bak"), old.as_bytes())?;
            }
            self.fs.write_durable(&self.path, text.as_bytes())?;
            *on_disk = Some(text);
        }
        self.saved.send_if_modified(|saved| {
            let news = covered > *saved;
            *saved = covered.max(*saved);
            news
        });
        Ok(())
    }
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// A table with a file.
pub trait Table: Send + Sync + 'static {
    /// Its file.
    fn file(&self) -> &TableFile;
    /// Its text now.
    fn render(&self) -> String;
}

/// Saves a table now; blocks on file I/O.
pub fn save(table: &dyn Table) -> io::Result<()> {
    table.file().save(|| table.render())
}

/// When a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveTime {
    /// As soon as it changes; changes during a write go into the next one.
    AtOnce,
    /// At most once in this time.
    Every(Duration),
}

/// Writes one table whenever its time has come, until `stop` fires; then a last time.
pub async fn keep_saved(
    table: Arc<dyn Table>,
    when: SaveTime,
    stop: tokio_util::sync::CancellationToken,
) {
    let retry = Duration::from_secs(1);
    let mut failed = false;
    loop {
        let pause = match when {
            SaveTime::Every(interval) => interval,
            SaveTime::AtOnce if failed => retry,
            SaveTime::AtOnce => Duration::MAX,
        };
        let wake = async {
            match when {
                SaveTime::AtOnce if !failed => table.file().wake.notified().await,
                _ => std::future::pending().await,
            }
        };
        let stopping = tokio::select! {
            () = stop.cancelled() => true,
            () = wake => false,
            () = tokio::time::sleep(pause) => false,
        };
        if table.file().is_dirty() {
            let work = Arc::clone(&table);
            let result = tokio::task::spawn_blocking(move || save(work.as_ref())).await;
            let result = result.unwrap_or_else(|e| Err(io::Error::other(e)));
            if let Err(error) = &result
                && !failed
            {
                tracing::error!(
                    "cannot write {}: {error}; it will be tried again",
                    table.file().path.display()
                );
            }
            failed = result.is_err();
        }
        if stopping {
            return;
        }
    }
}

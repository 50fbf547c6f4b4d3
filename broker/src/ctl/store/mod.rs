//! `mqctl store`: looks at store directories while no broker has them open.

mod check;
mod digest;
mod dump;
mod queue_files;
mod repair;
mod verify;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use commitlog::Progress;
use commitlog::examine::{Examination, ExamineConfig, examine};
use commitlog::layout::StoreLayout;
use dledger::fs::{Fs, RealFs};

/// Exit status of a store that has problems.
const STATUS_PROBLEMS: u8 = 1;
/// Exit status of a store that could not be read.
const STATUS_UNREADABLE: u8 = 2;

/// Sub-commands of `mqctl store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Says what a stopped store is, what opening it would do, and what is wrong with it. Changes nothing.
    Check(check::CheckArgs),
    /// Prints one JSON line a message.
    Dump(dump::DumpArgs),
    /// Writes a small file by which the stores of a group's members can be compared.
    Digest(digest::DigestArgs),
    /// Names the first record in which stores differ, by their digests.
    Compare(digest::CompareArgs),
}

/// Where a store lies.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// `storePathRootDir` of the broker.
    dir: PathBuf,
    /// `storePathCommitLog`, if it is not `DIR/commitlog`.
    #[arg(long)]
    commitlog: Option<PathBuf>,
    /// `dLegerSelfId`, needed only if there are several `dledger-*` folders.
    #[arg(long)]
    self_id: Option<String>,
}

/// Runs one sub-command. A store that cannot be read gives status 2.
pub fn run(command: StoreCommand) -> ExitCode {
    let result = match command {
        StoreCommand::Check(args) => check::run(&args),
        StoreCommand::Dump(args) => dump::run(&args),
        StoreCommand::Digest(args) => digest::run(&args),
        StoreCommand::Compare(args) => digest::run_compare(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("mqctl: {error:#}");
        ExitCode::from(STATUS_UNREADABLE)
    })
}

/// A store that was examined.
struct Opened {
    fs: Arc<dyn Fs>,
    layout: StoreLayout,
    exam: Examination,
}

impl StoreArgs {
    fn layout(&self) -> StoreLayout {
        match &self.commitlog {
            Some(path) => {
                StoreLayout::new(&self.dir).with_commitlog(&path.to_string_lossy(), None, ",")
            }
            None => StoreLayout::new(&self.dir),
        }
    }

    /// Examines the store, which nobody else may have open meanwhile.
    fn open(&self) -> anyhow::Result<Opened> {
        if !self.dir.is_dir() {
            bail!("{} is not a directory", self.dir.display());
        }
        let layout = self.layout();
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let mut config = ExamineConfig::new(layout.clone());
        config.self_id.clone_from(&self.self_id);
        config.check_system = true;
        let bar = Bar::new();
        let exam = examine(&*fs, &config, &|p| bar.show(p))
            .with_context(|| self.dir.display().to_string())?;
        bar.clear();
        Ok(Opened { fs, layout, exam })
    }
}

/// A line on the terminal that is overwritten; nothing elsewhere.
struct Bar {
    enabled: bool,
    last: std::cell::Cell<Option<Instant>>,
}

impl Bar {
    fn new() -> Bar {
        Bar {
            enabled: std::io::stderr().is_terminal(),
            last: std::cell::Cell::new(None),
        }
    }

    fn show(&self, progress: Progress) {
        const EVERY: Duration = Duration::from_millis(200);
        if !self.enabled || self.last.get().is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.last.set(Some(Instant::now()));
        let percent = progress.done * 100 / progress.total.max(1);
        eprint!("\r{}: {percent} %\x1b[K", progress.what);
    }

    fn clear(&self) {
        if self.enabled && self.last.get().is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

/// Whether the lock file of a store is held; a store without one is free.
fn is_open_elsewhere(path: &Path) -> std::io::Result<bool> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    use std::os::unix::fs::FileExt;
    let file = match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
    {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        // A store that may only be read cannot be asked; the files are read all the same.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Ok(false),
        Err(e) => return Err(e),
    };
    let mut byte = [0u8; 1];
    let _ = file.read_at(&mut byte, 0)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

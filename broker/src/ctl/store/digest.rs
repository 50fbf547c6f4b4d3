//! `mqctl store digest` and `mqctl store compare`.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use commitlog::digest::{Digest, DigestConfig, compare, digest};
use commitlog::reader::OfflineLog;

use super::{Bar, STATUS_PROBLEMS, StoreArgs};

/// Arguments of `mqctl store digest`.
#[derive(Debug, Args)]
pub struct DigestArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// File to write (without it: standard output).
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Name of this store in a comparison, such as the member's id (without it: the directory).
    #[arg(short, long)]
    label: Option<String>,
    /// List every record between two positions, `FROM..TO`, instead of those at the end of the legacy half: to find
    /// the record after a comparison named a range.
    #[arg(long, value_parser = range)]
    detail: Option<Range<i64>>,
}

/// Arguments of `mqctl store compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Files made by `mqctl store digest`.
    #[arg(required = true, num_args = 2..)]
    files: Vec<PathBuf>,
}

fn range(text: &str) -> Result<Range<i64>, String> {
    let parsed = text
        .split_once("..")
        .and_then(|(from, to)| Some(from.trim().parse().ok()?..to.trim().parse().ok()?));
    parsed.ok_or_else(|| "FROM..TO, two positions, is expected".to_owned())
}

/// Writes the digest of a stopped store.
pub fn run(args: &DigestArgs) -> anyhow::Result<ExitCode> {
    let opened = args.store.open()?;
    let label = match &args.label {
        Some(label) => label.clone(),
        None => opened.layout.root().display().to_string(),
    };
    let config = DigestConfig {
        detail: args.detail.clone(),
        ..DigestConfig::new(label, opened.exam.file_size)
    };
    let bar = Bar::new();
    let log = OfflineLog::new(opened.fs.clone(), &opened.exam);
    let digest = digest(&log, &config, &|p| bar.show(p))?;
    bar.clear();
    match &args.output {
        Some(path) => {
            std::fs::write(path, digest.to_string()).with_context(|| path.display().to_string())?
        }
        None => print!("{digest}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares digests. Status 0: equal; 1: something differs, is missing or ends early; 2: a file is no digest.
pub fn run_compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let read = |path: &PathBuf| -> anyhow::Result<Digest> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        text.parse().with_context(|| path.display().to_string())
    };
    let digests: Vec<Digest> = args.files.iter().map(read).collect::<Result<_, _>>()?;
    let comparison = compare(&digests);
    println!("{comparison}");
    let equal = comparison.difference.is_none()
        && comparison.shorter.is_empty()
        && comparison.front_missing.is_empty();
    Ok(if equal {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(STATUS_PROBLEMS)
    })
}

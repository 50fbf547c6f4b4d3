//! `mqctl store check --repair`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use dledger::fs::RealFs;

use super::{Opened, StoreArgs};
use crate::app::show_progress;
use crate::config::{Cli, ConfigSource, Environment, Loaded, PropertyFile};
use crate::store::repair;

/// Bytes of a key index file with the default numbers of slots and items.
const DEFAULT_INDEX_FILE: u64 = 40 + 5_000_000 * 4 + 20_000_000 * 20;

/// Repairs a stopped store and says what came of it.
pub fn run(store: &StoreArgs, conf: Option<&Path>) -> anyhow::Result<ExitCode> {
    let opened = store.open()?;
    of_one_member(&opened)?;
    let loaded = match conf {
        Some(path) => given(path, &store.dir)?,
        None => found(store, &opened)?,
    };
    drop(opened);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let repaired = runtime.block_on(repair(Arc::new(RealFs), &loaded.config, show_progress()))?;
    println!(
        "repaired: the log goes from {} to {} (entry {}), queues and index are complete, the store counts as stopped in order",
        repaired.begin, repaired.end, repaired.end_index
    );
    Ok(ExitCode::SUCCESS)
}

/// A member of a group gets what it lacks from the others; alone it must neither lead nor commit.
fn of_one_member(opened: &Opened) -> anyhow::Result<()> {
    let Some(member) = opened.exam.own() else {
        return Ok(());
    };
    let path = opened.layout.dledger(&member.self_id).join("currterm");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    let voted = text
        .lines()
        .filter_map(|line| line.split_once(['=', ':']))
        .find(|(key, _)| key.trim() == "voteLeader")
        .map(|(_, value)| value.trim().to_owned());
    match voted {
        Some(leader) if !leader.is_empty() && leader != member.self_id => bail!(
            "this is a member of a group of several ({} voted for {leader}): start it with its group, which repairs it",
            member.self_id
        ),
        _ => Ok(()),
    }
}

fn given(path: &Path, dir: &Path) -> anyhow::Result<Loaded> {
    let cli = Cli {
        config: Some(path.to_owned()),
        namesrv: None,
        print: false,
        print_important: false,
        version: None,
    };
    let loaded = Loaded::read(&cli, &Environment::from_process())?;
    loaded.runnable()?;
    let (root, dir) = (loaded.config.root().canonicalize()?, dir.canonicalize()?);
    if root != dir {
        bail!(
            "{} is about the store {}, not {}",
            path.display(),
            root.display(),
            dir.display()
        );
    }
    Ok(loaded)
}

/// A configuration made from what the files say.
fn found(store: &StoreArgs, opened: &Opened) -> anyhow::Result<Loaded> {
    let (exam, derived) = (&opened.exam, &opened.exam.derived);
    if derived.index_files > 0 && derived.index_file_size != DEFAULT_INDEX_FILE {
        bail!(
            "index files have {} bytes, not the default {DEFAULT_INDEX_FILE}: maxHashSlotNum and maxIndexNum are needed, give \
             the broker's configuration by -c",
            derived.index_file_size
        );
    }
    let own = exam.own().or(exam.members.first());
    let mut lines = vec![
        format!("storePathRootDir={}", store.dir.canonicalize()?.display()),
        format!("dLegerSelfId={}", own.map_or("n0", |m| m.self_id.as_str())),
        "enableDLegerCommitLog=true".to_owned(),
        "brokerIP1=127.0.0.1".to_owned(),
    ];
    if exam.file_size > 0 {
        lines.push(format!("mappedFileSizeCommitLog={}", exam.file_size));
    }
    if derived.queue_file_size > 0 {
        lines.push(format!(
            "mappedFileSizeConsumeQueue={}",
            derived.queue_file_size
        ));
    }
    if let Some(path) = &store.commitlog {
        lines.push(format!("storePathCommitLog={}", path.display()));
    }
    let source = ConfigSource::File(PathBuf::from("(made from the store)"));
    let file = PropertyFile::parse(lines.join("\n").as_bytes())?;
    let cli = Cli {
        config: None,
        namesrv: None,
        print: false,
        print_important: false,
        version: None,
    };
    let loaded = Loaded::build(&file, source, &cli, &Environment::from_process())?;
    loaded.runnable()?;
    Ok(loaded)
}

//! `mqctl store check`.

use std::process::ExitCode;

use clap::Args;
use commitlog::examine::Severity;
use commitlog::reader::OfflineLog;
use serde_json::{Value, json};

use super::verify::{Verified, verify};
use super::{Opened, STATUS_PROBLEMS, StoreArgs, is_open_elsewhere};

/// Arguments of `mqctl store check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Do not read the whole log: only what a start would look at.
    #[arg(long)]
    quick: bool,
    /// Mend what a start and a clean stop of mqbroker would mend: recover the log, build what is missing of queues and
    /// index, and mark the store as stopped in order. A log that is shorter than its own checkpoint is accepted.
    #[arg(long, conflicts_with_all = ["json", "quick"])]
    repair: bool,
    /// The broker's configuration; a repair needs it if the index files have not the default size.
    #[arg(short, long = "config", requires = "repair")]
    config: Option<std::path::PathBuf>,
}

/// Examines and prints. Status 0: sound; 1: problems; an error (status 2): cannot be read.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if is_open_elsewhere(&args.store.layout().lock())? {
        anyhow::bail!(
            "{} is locked: a broker is running on this store",
            args.store.dir.display()
        );
    }
    if args.repair {
        return super::repair::run(&args.store, args.config.as_deref());
    }
    let opened = args.store.open()?;
    let verified = match args.quick {
        true => None,
        false => Some(verify(
            &opened,
            &OfflineLog::new(opened.fs.clone(), &opened.exam),
        )?),
    };
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&as_json(&opened, verified.as_ref()))?
        );
    } else {
        print(&opened, verified.as_ref());
    }
    let finding = opened
        .exam
        .findings
        .iter()
        .any(|f| f.severity > Severity::Info);
    let problem = verified.is_some_and(|v| !v.problems.is_empty());
    Ok(if finding || problem {
        ExitCode::from(STATUS_PROBLEMS)
    } else {
        ExitCode::SUCCESS
    })
}

fn as_json(opened: &Opened, verified: Option<&Verified>) -> Value {
    let exam = &opened.exam;
    let findings = exam.findings.iter().map(|f| {
        json!({"code": f.code.as_str(), "severity": f.severity.to_string(), "text": f.text, "whatToDo": f.what_to_do})
    });
    let members = exam.members.iter().map(|m| {
        json!({
            "selfId": m.self_id, "term": m.term, "committedIndex": m.committed_index, "dataFiles": m.data.files.len(),
            "beginIndex": m.entries.map(|e| e.begin_index), "endIndex": m.entries.map(|e| e.end_index),
            "endTerm": m.entries.map(|e| e.end_term), "end": m.entries.map(|e| e.end),
        })
    });
    json!({
        "store": opened.layout.root(),
        "what": exam.plan.to_string(),
        "fileSize": exam.file_size,
        "stoppedInOrder": !exam.aborted,
        "begin": exam.log_begin(),
        "end": exam.log_end(),
        "legacyFiles": exam.legacy.files.len(),
        "legacyEnd": exam.recovered.map(|r| r.end),
        "members": members.collect::<Vec<_>>(),
        "topics": exam.derived.topics,
        "queues": exam.derived.queues,
        "indexFiles": exam.derived.index_files,
        "findings": findings.collect::<Vec<_>>(),
        "messages": verified.map(|v| v.messages),
        "units": verified.map(|v| v.units),
        "problems": verified.map(|v| &v.problems),
    })
}

fn print(opened: &Opened, verified: Option<&Verified>) {
    let exam = &opened.exam;
    println!("{}: {}", opened.layout.root().display(), exam.plan);
    println!(
        "files of {} bytes, log from {} to {}, {}",
        exam.file_size,
        exam.log_begin().map_or("-".to_owned(), |n| n.to_string()),
        exam.log_end().map_or("-".to_owned(), |n| n.to_string()),
        if exam.aborted {
            "not stopped in order"
        } else {
            "stopped in order"
        },
    );
    if !exam.legacy.files.is_empty() {
        println!("legacy half: {} files", exam.legacy.files.len());
    }
    for m in &exam.members {
        print!("dledger-{}: {} data files, ", m.self_id, m.data.files.len());
        match m.entries {
            Some(e) => println!(
                "entries {} to {} (term {}), end {}, committed index {} in the checkpoint, current term {}",
                e.begin_index,
                e.end_index,
                e.end_term,
                e.end,
                m.committed_index,
                m.term.unwrap_or(0)
            ),
            None => println!("no entry"),
        }
    }
    let d = &exam.derived;
    println!(
        "{} topics, {} queues, {} index files",
        d.topics, d.queues, d.index_files
    );
    if let Some(v) = verified {
        println!("{} messages, {} units compared", v.messages, v.units);
    }
    for finding in &exam.findings {
        println!("{finding}");
    }
    let problems = verified.map(|v| v.problems.as_slice()).unwrap_or_default();
    for problem in problems {
        println!("{problem}");
    }
    if verified.is_some_and(|v| v.queues_differ) {
        println!(
            "What is wrong with queues is built anew from the log by --repair, and by the next start of mqbroker unless it \
             was mqbroker that stopped in order."
        );
    }
}

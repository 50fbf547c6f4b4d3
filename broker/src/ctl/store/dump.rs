//! `mqctl store dump`: one JSON line a message.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use commitlog::reader::{Framed, OfflineLog};
use remoting::message::properties;
use sha2::{Digest, Sha256};

use super::{Opened, StoreArgs, queue_files};

/// Arguments of `mqctl store dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// One JSON object a line: topic, queueId, queueOffset, physicalOffset, storeTimestamp, sysFlag, properties,
    /// bodyLength, bodySha256, half. The only form so far.
    #[arg(long, required = true)]
    json: bool,
    /// One topic only.
    #[arg(long)]
    topic: Option<String>,
    /// Through the consume queues, in their order, instead of from the log.
    #[arg(long)]
    from_queues: bool,
}

/// Prints the messages. Damage ends the dump with an error that names the position.
pub fn run(args: &DumpArgs) -> anyhow::Result<ExitCode> {
    let opened = args.store.open()?;
    let log = OfflineLog::new(opened.fs.clone(), &opened.exam);
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.from_queues {
        through_queues(args, &opened, &log, &mut out)?;
    } else {
        let mut frames = log.frames(log.min_offset()).checked();
        while let Some(framed) = frames.next()? {
            print(args, &framed, &mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn through_queues(
    args: &DumpArgs,
    opened: &Opened,
    log: &OfflineLog,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for mut queue in queue_files::all(&opened.fs, &opened.layout.consumequeue())? {
        if args
            .topic
            .as_ref()
            .is_some_and(|topic| *topic != queue.topic)
        {
            continue;
        }
        let mut offset = queue.begin();
        while let Some(unit) = queue.unit(offset)? {
            if unit.is_message() && unit.physical_offset >= log.min_offset() {
                let framed = log
                    .frames(unit.physical_offset)
                    .checked()
                    .next()?
                    .filter(|f| f.physical_offset == unit.physical_offset)
                    .with_context(|| {
                        format!(
                            "{} queue {} offset {offset} points at {}, where no message begins",
                            queue.topic, queue.queue_id, unit.physical_offset
                        )
                    })?;
                print(args, &framed, out)?;
            }
            offset += 1;
        }
    }
    Ok(())
}

fn print(args: &DumpArgs, framed: &Framed, out: &mut impl Write) -> anyhow::Result<()> {
    let view = framed.view()?;
    if args
        .topic
        .as_deref()
        .is_some_and(|topic| topic != view.topic())
    {
        return Ok(());
    }
    let line = serde_json::json!({
        "topic": view.topic(),
        "queueId": view.queue_id(),
        "queueOffset": view.queue_offset(),
        "physicalOffset": framed.physical_offset,
        "storeTimestamp": view.store_timestamp(),
        "sysFlag": view.sys_flag(),
        "properties": properties::to_map(view.properties()),
        "bodyLength": view.body().len(),
        "bodySha256": hex(&Sha256::digest(view.body())),
        "half": framed.half.as_str(),
    });
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

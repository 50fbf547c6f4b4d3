//! `mqctl consume`.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use commitlog::frame::{self, FrameView};
use remoting::message::{properties, sys_flag, validate_group, validate_topic};
use remoting::{Command, request_code, response_code};
use tokio::sync::mpsc;

use super::session::{CALL_TIMEOUT, Queue, Session};

/// Longest hold of one pull.
const HOLD: Duration = Duration::from_secs(15);
/// Messages of one pull.
const BATCH: usize = 32;
/// Compression type of zlib in sysFlag; clients older than 4.9.3 leave it 0.
const COMPRESSION_ZLIB: i32 = 0x300;
/// Largest body that is inflated for printing.
const INFLATED_MAX: u64 = 64 << 20;

/// Arguments of `mqctl consume`.
#[derive(Debug, Args)]
pub struct ConsumeArgs {
    /// Name servers, separated by `;`.
    #[arg(short, long, env = "NAMESRV_ADDR", default_value = "127.0.0.1:9876")]
    namesrv: String,
    /// Topic.
    #[arg(short, long)]
    topic: String,
    /// Consumer group: its offsets are used by `--from committed` and moved by `--commit`.
    #[arg(short, long, default_value = "MQCTL_CONSUMER")]
    group: String,
    /// Where to begin: `first`, `last`, `committed` (else first), or a queue offset.
    #[arg(long, default_value = "committed")]
    from: String,
    /// Tags, `a || b`.
    #[arg(long, default_value = "*")]
    tags: String,
    /// One queue only.
    #[arg(short, long)]
    queue: Option<i32>,
    /// Stop after so many messages.
    #[arg(short, long)]
    max: Option<usize>,
    /// Stop when nothing came for so many seconds.
    #[arg(short, long, default_value_t = 10)]
    wait: u64,
    /// Store the group's offsets at the broker.
    #[arg(long)]
    commit: bool,
    /// One JSON object a message.
    #[arg(long)]
    json: bool,
}

struct Pulled {
    queue: usize,
    next_offset: i64,
    messages: bytes::Bytes,
}

/// Prints messages until `--max` or `--wait` is reached. Status 1 if `--max` was given and not reached.
pub async fn run(args: ConsumeArgs) -> anyhow::Result<ExitCode> {
    validate_topic(&args.topic).context("--topic")?;
    validate_group(&args.group).context("--group")?;
    let session = std::sync::Arc::new(Session::new(&args.namesrv)?);
    let args = std::sync::Arc::new(args);
    let queues = await_queues(&session, &args).await?;
    let (sender, mut receiver) = mpsc::channel(queues.len());
    let mut pullers = tokio::task::JoinSet::new();
    for (n, queue) in queues.iter().cloned().enumerate() {
        let (session, args, sender) = (session.clone(), args.clone(), sender.clone());
        pullers.spawn(async move { pull_loop(&session, &args, n, &queue, sender).await });
    }
    drop(sender);
    let wait = Duration::from_secs(args.wait);
    let mut left = args.max.unwrap_or(usize::MAX);
    while left > 0 {
        tokio::select! {
            pulled = tokio::time::timeout(wait, receiver.recv()) => {
                let Ok(Some(pulled)) = pulled else { break };
                let done = print_all(&args, &queues[pulled.queue], &pulled.messages, left)?;
                left -= done.printed;
                if args.commit {
                    let next = if left == 0 { done.next_offset } else { pulled.next_offset };
                    commit(&session, &args, &queues[pulled.queue], next).await?;
                }
            }
            Some(ended) = pullers.join_next() => ended??,
        }
    }
    pullers.abort_all();
    Ok(if args.max.is_some() && left > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The queues, waiting for the topic to appear.
async fn await_queues(session: &Session, args: &ConsumeArgs) -> anyhow::Result<Vec<Queue>> {
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    loop {
        let mut queues = session.read_queues(&args.topic).await?;
        queues.retain(|q| args.queue.is_none_or(|id| id == q.queue_id));
        if !queues.is_empty() {
            return Ok(queues);
        }
        if Instant::now() >= deadline {
            bail!("topic {} has no readable queue", args.topic);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn pull_loop(
    session: &Session,
    args: &ConsumeArgs,
    number: usize,
    queue: &Queue,
    out: mpsc::Sender<Pulled>,
) -> anyhow::Result<()> {
    let mut offset = start_offset(session, args, queue).await?;
    loop {
        let request = pull_request(args, queue, offset);
        let fine = [
            response_code::SUCCESS,
            response_code::PULL_NOT_FOUND,
            response_code::PULL_RETRY_IMMEDIATELY,
            response_code::PULL_OFFSET_MOVED,
        ];
        let answer = session
            .call(&queue.addr, request, HOLD + CALL_TIMEOUT, &fine)
            .await?;
        offset = answer.ext.require_i64("nextBeginOffset")?;
        if answer.code != response_code::SUCCESS {
            continue;
        }
        let pulled = Pulled {
            queue: number,
            next_offset: offset,
            messages: answer.body,
        };
        if out.send(pulled).await.is_err() {
            return Ok(());
        }
    }
}

fn pull_request(args: &ConsumeArgs, queue: &Queue, offset: i64) -> Command {
    /// May be held, and carries its subscription.
    const SUSPEND_AND_SUBSCRIPTION: &str = "6";
    Command::request(request_code::PULL_MESSAGE)
        .field("consumerGroup", &args.group)
        .field("topic", &args.topic)
        .field("queueId", &queue.queue_id.to_string())
        .field("queueOffset", &offset.to_string())
        .field("maxMsgNums", &BATCH.to_string())
        .field("sysFlag", SUSPEND_AND_SUBSCRIPTION)
        .field("commitOffset", "0")
        .field("suspendTimeoutMillis", &HOLD.as_millis().to_string())
        .field("subscription", &args.tags)
        .field("subVersion", "0")
        .field("expressionType", "TAG")
}

async fn start_offset(session: &Session, args: &ConsumeArgs, queue: &Queue) -> anyhow::Result<i64> {
    let ask = |code| {
        Command::request(code)
            .field("topic", &args.topic)
            .field("queueId", &queue.queue_id.to_string())
    };
    let code = match args.from.as_str() {
        "first" => request_code::GET_MIN_OFFSET,
        "last" => request_code::GET_MAX_OFFSET,
        "committed" => {
            let request =
                ask(request_code::QUERY_CONSUMER_OFFSET).field("consumerGroup", &args.group);
            let fine = [response_code::SUCCESS, response_code::QUERY_NOT_FOUND];
            let answer = session
                .call(&queue.addr, request, CALL_TIMEOUT, &fine)
                .await?;
            if answer.code == response_code::SUCCESS {
                return Ok(answer.ext.require_i64("offset")?);
            }
            request_code::GET_MIN_OFFSET
        }
        number => {
            return number
                .parse::<i64>()
                .ok()
                .filter(|n| *n >= 0)
                .with_context(|| format!("--from {number}: first, last, committed or an offset"));
        }
    };
    let answer = session
        .call(
            &queue.addr,
            ask(code),
            CALL_TIMEOUT,
            &[response_code::SUCCESS],
        )
        .await?;
    Ok(answer.ext.require_i64("offset")?)
}

async fn commit(
    session: &Session,
    args: &ConsumeArgs,
    queue: &Queue,
    offset: i64,
) -> anyhow::Result<()> {
    let request = Command::request(request_code::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", &args.group)
        .field("topic", &args.topic)
        .field("queueId", &queue.queue_id.to_string())
        .field("commitOffset", &offset.to_string());
    session
        .call(
            &queue.addr,
            request,
            CALL_TIMEOUT,
            &[response_code::SUCCESS],
        )
        .await?;
    Ok(())
}

struct Printed {
    printed: usize,
    next_offset: i64,
}

fn print_all(
    args: &ConsumeArgs,
    queue: &Queue,
    mut bytes: &[u8],
    limit: usize,
) -> anyhow::Result<Printed> {
    let mut out = std::io::stdout().lock();
    let mut done = Printed {
        printed: 0,
        next_offset: 0,
    };
    while !bytes.is_empty() && done.printed < limit {
        let size = frame::frame_size(bytes).context("the broker sent half a message")?;
        let (one, rest) = bytes
            .split_at_checked(size)
            .context("the broker sent half a message")?;
        let view = FrameView::parse(one).context("a message from the broker")?;
        let body = body_of(&view)?;
        if args.json {
            writeln!(out, "{}", json_line(queue, &view, &body))?;
        } else {
            let tag = view.property("TAGS").unwrap_or("-");
            let keys = view.property("KEYS").unwrap_or("-");
            write!(
                out,
                "{} queue {} offset {} tag {tag} keys {keys}: ",
                queue.broker_name,
                view.queue_id(),
                view.queue_offset()
            )?;
            out.write_all(&body)?;
            out.write_all(b"\n")?;
        }
        done.next_offset = view.queue_offset() + 1;
        done.printed += 1;
        bytes = rest;
    }
    out.flush()?;
    Ok(done)
}

fn json_line(queue: &Queue, view: &FrameView<'_>, body: &[u8]) -> serde_json::Value {
    serde_json::json!({
        "broker": queue.broker_name,
        "topic": view.topic(),
        "queueId": view.queue_id(),
        "queueOffset": view.queue_offset(),
        "physicalOffset": view.physical_offset(),
        "bornTimestamp": view.born_timestamp(),
        "storeTimestamp": view.store_timestamp(),
        "sysFlag": view.sys_flag(),
        "reconsumeTimes": view.reconsume_times(),
        "properties": properties::to_map(view.properties()),
        "body": String::from_utf8_lossy(body),
    })
}

/// The body as it was given to the sending client. Only zlib can be undone here; other compressions print as stored.
fn body_of<'a>(view: &FrameView<'a>) -> anyhow::Result<std::borrow::Cow<'a, [u8]>> {
    let kind = view.sys_flag() & sys_flag::COMPRESSION_MASK;
    let zlib = kind == 0 || kind == COMPRESSION_ZLIB;
    if view.sys_flag() & sys_flag::COMPRESSED == 0 || !zlib {
        return Ok(view.body().into());
    }
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(view.body())
        .take(INFLATED_MAX)
        .read_to_end(&mut plain)
        .with_context(|| format!("compressed body at queue offset {}", view.queue_offset()))?;
    Ok(plain.into())
}

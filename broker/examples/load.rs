//! A simple pipelined load: sends or pulls as fast as a broker answers, and prints what came of it.
//!
//! ```text
//! cargo run --release -p broker --example load -- ADDRESS [--connections 4] [--in-flight 32]
//!     [--seconds 10] [--size 1024] [--batch 1] [--queues 8] [--topic Load] [--pull]
//! ```
//!
//! Requests are written by hand, so that the generator costs little beside the broker under test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};
use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;

#[derive(Debug, Parser)]
struct Args {
    /// Broker, host:port.
    address: String,
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 32)]
    in_flight: usize,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Messages in a request; more than one makes batches.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    #[arg(long, default_value_t = 8)]
    queues: usize,
    #[arg(long, default_value = "Load")]
    topic: String,
    /// Pull 32 messages a request from the beginning of each queue instead of sending.
    #[arg(long)]
    pull: bool,
}

/// What one connection counted.
#[derive(Debug, Default)]
struct Counted {
    answers: u64,
    refused: u64,
    bytes: u64,
    /// Microseconds from request to answer.
    latencies: Vec<u32>,
    first_refusal: Option<String>,
}

fn frame(header: &str, body: &[u8], out: &mut BytesMut) {
    out.put_u32((4 + header.len() + body.len()) as u32);
    out.put_u32(header.len() as u32);
    out.put_slice(header.as_bytes());
    out.put_slice(body);
}

fn body(args: &Args) -> Vec<u8> {
    let body = vec![b'x'; args.size];
    if args.batch == 1 {
        return body;
    }
    let mut batch = Vec::new();
    for _ in 0..args.batch {
        batch.put_u32(22 + args.size as u32);
        batch.put_slice(&[0; 12]);
        batch.put_u32(args.size as u32);
        batch.put_slice(&body);
        batch.put_u16(0);
    }
    batch
}

fn send_header(args: &Args, opaque: usize) -> String {
    format!(
        r#"{{"code":310,"extFields":{{"a":"LoadProducer","b":"{}","c":"TBW102","d":"{}","e":"{}","f":"0","g":"1700000000000","h":"0","i":"WAIT\u0001true\u0002TAGS\u0001TagA","j":"0","k":"false","m":"{}"}},"flag":0,"language":"JAVA","opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":409}}"#,
        args.topic,
        args.queues,
        opaque % args.queues,
        args.batch > 1,
    )
}

fn pull_header(args: &Args, opaque: usize, queue: usize, offset: i64) -> String {
    format!(
        r#"{{"code":11,"extFields":{{"consumerGroup":"LoadConsumer","topic":"{}","queueId":"{queue}","queueOffset":"{offset}","maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"*","subVersion":"0"}},"flag":0,"language":"JAVA","opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":409}}"#,
        args.topic,
    )
}

/// Reads one frame: its header, and how long its body is.
async fn answer(
    read: &mut OwnedReadHalf,
    buffer: &mut BytesMut,
) -> std::io::Result<(BytesMut, usize)> {
    loop {
        if buffer.len() >= 8 {
            let total = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
            if buffer.len() >= 4 + total {
                let mut frame = buffer.split_to(4 + total);
                frame.advance(4);
                let header_len = (frame.get_u32() & 0xFF_FFFF) as usize;
                let header = frame.split_to(header_len);
                return Ok((header, frame.len()));
            }
            buffer.reserve(4 + total);
        }
        buffer.reserve(64 * 1024);
        if read.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn is_ok(header: &[u8]) -> bool {
    find(header, b"\"code\":0,").is_some()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn number_after(header: &[u8], name: &str) -> Option<i64> {
    let at = find(header, name.as_bytes())? + name.len();
    let digits: Vec<u8> = header[at..]
        .iter()
        .copied()
        .take_while(u8::is_ascii_digit)
        .collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

async fn write_sends(
    args: Arc<Args>,
    mut write: OwnedWriteHalf,
    window: Arc<Semaphore>,
    until: Instant,
) -> u64 {
    let body = body(&args);
    let mut out = BytesMut::new();
    let mut sent = 0usize;
    while Instant::now() < until {
        let Ok(permit) = window.acquire().await else {
            break;
        };
        permit.forget();
        out.clear();
        frame(&send_header(&args, sent), &body, &mut out);
        sent += 1;
        while let Ok(permit) = window.try_acquire() {
            permit.forget();
            frame(&send_header(&args, sent), &body, &mut out);
            sent += 1;
            if out.len() > 256 * 1024 {
                break;
            }
        }
        if write.write_all(&out).await.is_err() {
            break;
        }
    }
    sent as u64
}

async fn send_load(args: Arc<Args>, until: Instant) -> std::io::Result<Counted> {
    let stream = TcpStream::connect(&args.address).await?;
    stream.set_nodelay(true)?;
    let (mut read, write) = stream.into_split();
    let window = Arc::new(Semaphore::new(args.in_flight));
    let writer = tokio::spawn(write_sends(args.clone(), write, window.clone(), until));
    let mut counted = Counted::default();
    let mut buffer = BytesMut::new();
    let deadline = until + Duration::from_secs(3);
    let mut at = Instant::now();
    while let Ok(Ok((header, _))) =
        tokio::time::timeout_at(deadline.into(), answer(&mut read, &mut buffer)).await
    {
        if is_ok(&header) {
            counted.answers += 1;
        } else {
            counted.refused += 1;
            counted
                .first_refusal
                .get_or_insert_with(|| String::from_utf8_lossy(&header).into_owned());
        }
        if args.in_flight == 1 {
            counted.latencies.push(at.elapsed().as_micros() as u32);
            at = Instant::now();
        }
        window.add_permits(1);
        if Instant::now() > until && window.available_permits() >= args.in_flight {
            break;
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), writer).await;
    Ok(counted)
}

async fn pull_load(args: Arc<Args>, queue: usize, until: Instant) -> std::io::Result<Counted> {
    let mut stream = TcpStream::connect(&args.address).await?;
    stream.set_nodelay(true)?;
    let (mut read, mut write) = {
        stream.flush().await?;
        stream.into_split()
    };
    let (mut offset, mut opaque) = (0, 0);
    let mut counted = Counted::default();
    let mut buffer = BytesMut::new();
    while Instant::now() < until {
        let mut out = BytesMut::new();
        frame(&pull_header(&args, opaque, queue, offset), &[], &mut out);
        opaque += 1;
        write.write_all(&out).await?;
        let (header, body) = answer(&mut read, &mut buffer).await?;
        if !is_ok(&header) {
            offset = 0;
            counted.refused += 1;
            continue;
        }
        let next = number_after(&header, "\"nextBeginOffset\":\"").unwrap_or(0);
        counted.answers += (next - offset).max(0) as u64;
        counted.bytes += body as u64;
        offset = next;
    }
    Ok(counted)
}

fn percentile(sorted: &[u32], part: f64) -> u32 {
    sorted
        .get(((sorted.len() as f64 - 1.0) * part) as usize)
        .copied()
        .unwrap_or(0)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Arc::new(Args::parse());
    let start = Instant::now();
    let until = start + Duration::from_secs(args.seconds);
    let mut tasks = Vec::new();
    for n in 0..args.connections {
        tasks.push(match args.pull {
            true => tokio::spawn(pull_load(args.clone(), n % args.queues, until)),
            false => tokio::spawn(send_load(args.clone(), until)),
        });
    }
    let mut all = Counted::default();
    for task in tasks {
        let counted = task.await??;
        all.answers += counted.answers;
        all.refused += counted.refused;
        all.bytes += counted.bytes;
        all.latencies.extend(counted.latencies);
        all.first_refusal = all.first_refusal.or(counted.first_refusal);
    }
    let seconds = start.elapsed().as_secs_f64();
    let messages = if args.pull {
        all.answers
    } else {
        all.answers * args.batch as u64
    };
    println!(
        "{:.0} messages/s ({messages} in {seconds:.2} s), {} refused",
        messages as f64 / seconds,
        all.refused
    );
    if args.pull {
        println!("{:.1} MB/s", all.bytes as f64 / seconds / 1e6);
    }
    if let Some(refusal) = all.first_refusal {
        println!("first refusal: {refusal}");
    }
    all.latencies.sort_unstable();
    if !all.latencies.is_empty() {
        let at = |part| percentile(&all.latencies, part);
        println!(
            "latency us: p50 {} p99 {} p99.9 {} max {}",
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
    Ok(())
}

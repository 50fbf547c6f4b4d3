//! A load by the raw client with a ledger of every message: what was tried, what was acknowledged where.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bytes::{BufMut, BytesMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use remoting::client::{CallError, Client, ClientConfig};
use remoting::codes::{request_code, response_code};
use remoting::command::Command;
use remoting::headers::SendMessageHeader;

use crate::scan::{self, Record, Scan};

/// Topics of the load and their number of queues.
pub const TOPICS: [(&str, i32); 2] = [("Crash", 4), ("CrashHot", 1)];

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Sent; no answer, or one that leaves it open.
    Unknown,
    /// Refused with a definite code.
    Refused(i32),
    /// Acknowledged at this place.
    Acked {
        /// Queue id.
        queue: i32,
        /// Queue offset.
        offset: i64,
    },
}

/// One message of the load.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Topic.
    pub topic: &'static str,
    /// CRC of its body.
    pub crc: u32,
    /// What became of it.
    pub fate: Fate,
}

/// Everything that a store was ever sent, by sequence number.
#[derive(Debug, Default)]
pub struct Book {
    next: AtomicU64,
    messages: Mutex<BTreeMap<u64, Tried>>,
}

impl Book {
    /// All messages so far.
    pub fn messages(&self) -> BTreeMap<u64, Tried> {
        self.messages
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }

    fn note(&self, seq: u64, tried: Tried) {
        self.messages
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .insert(seq, tried);
    }

    fn settle(&self, first: u64, count: u64, fate: impl Fn(u64) -> Fate) {
        let mut all = self.messages.lock().unwrap_or_else(|e| e.into_inner());
        for i in 0..count {
            if let Some(tried) = all.get_mut(&(first + i)) {
                tried.fate = fate(i);
            }
        }
    }

    /// Number of acknowledged messages.
    pub fn acknowledged(&self) -> usize {
        let all = self.messages.lock().unwrap_or_else(|e| e.into_inner());
        all.values()
            .filter(|t| matches!(t.fate, Fate::Acked { .. }))
            .count()
    }

    /// Compares with a store's bytes: nothing acknowledged lost or moved, nothing twice, nothing refused or
    /// foreign, offsets dense.
    pub fn check(&self, scan: &Scan) -> Vec<String> {
        let mut problems = Vec::new();
        let messages = self.messages();
        let mut found: HashMap<u64, &Record> = HashMap::new();
        let mut next: BTreeMap<(&str, i32), i64> = BTreeMap::new();
        let ours = |r: &&Record| TOPICS.iter().any(|(t, _)| *t == r.topic);
        for r in scan.records.values().filter(ours) {
            let due = next.entry((&r.topic, r.queue_id)).or_default();
            if r.queue_offset != *due {
                problems.push(format!(
                    "{}/{}: offset {} where {due} was due",
                    r.topic, r.queue_id, r.queue_offset
                ));
            }
            *due = r.queue_offset + 1;
            let Some((seq, tried)) = sequence(r).and_then(|s| Some((s, messages.get(&s)?))) else {
                problems.push(format!(
                    "never sent: {}/{}@{}",
                    r.topic, r.queue_id, r.queue_offset
                ));
                continue;
            };
            if found.insert(seq, r).is_some() {
                problems.push(format!("message {seq} is there twice"));
            }
            if r.topic != tried.topic || (tried.crc & 0x7fff_ffff) as i32 != r.body_crc {
                problems.push(format!("message {seq} differs: {r:?}"));
            }
            if let Fate::Refused(code) = tried.fate {
                problems.push(format!(
                    "message {seq} is stored, but was refused with {code}"
                ));
            }
        }
        for (seq, tried) in &messages {
            let Fate::Acked { queue, offset } = tried.fate else {
                continue;
            };
            match found.get(seq) {
                None => problems.push(format!(
                    "LOST: message {seq} at {}/{queue}@{offset}",
                    tried.topic
                )),
                Some(r) if (r.queue_id, r.queue_offset) != (queue, offset) => {
                    problems.push(format!(
                        "message {seq} acknowledged at {queue}@{offset}, found at {}@{}",
                        r.queue_id, r.queue_offset
                    ))
                }
                Some(_) => {}
            }
        }
        problems
    }
}

/// The sequence number at the head of a body.
fn sequence(r: &Record) -> Option<u64> {
    let head = std::str::from_utf8(r.body_head.get(..16)?).ok()?;
    u64::from_str_radix(head, 16).ok()
}

/// How the load is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Senders at the same time, each with one request in flight.
    pub senders: usize,
    /// Longest body.
    pub body_max: usize,
    /// At most this many requests in all.
    pub requests_max: u64,
}

/// A load that runs until it is stopped or the broker is gone.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Result<bool>>>,
}

impl Load {
    /// Starts the senders on the current runtime.
    pub fn start(addr: &str, book: &Arc<Book>, shape: Shape, seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let client = Client::new(ClientConfig::default(), None);
        let left = Arc::new(AtomicU64::new(shape.requests_max));
        let tasks = (0..shape.senders as u64)
            .map(|n| {
                let sender = Sender {
                    addr: addr.to_owned(),
                    client: client.clone(),
                    book: Arc::clone(book),
                    stop: Arc::clone(&stop),
                    left: Arc::clone(&left),
                    body_max: shape.body_max,
                    rng: StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(n)),
                };
                tokio::spawn(sender.run())
            })
            .collect();
        Load { stop, tasks }
    }

    /// Tells the senders to stop and waits for them: whether one was interrupted by the end of the broker; an
    /// error if one met an answer that makes no sense.
    pub async fn finish(self) -> Result<bool> {
        self.stop.store(true, Ordering::Relaxed);
        let mut interrupted = false;
        for task in self.tasks {
            interrupted |= task.await??;
        }
        Ok(interrupted)
    }
}

struct Sender {
    addr: String,
    client: Client,
    book: Arc<Book>,
    stop: Arc<AtomicBool>,
    left: Arc<AtomicU64>,
    body_max: usize,
    rng: StdRng,
}

impl Sender {
    /// Sends until it is stopped (false) or the broker is gone (true).
    async fn run(mut self) -> Result<bool> {
        while !self.stop.load(Ordering::Relaxed) && self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            let (topic, queues) = TOPICS[self.rng.random_range(0..TOPICS.len())];
            let queue = self.rng.random_range(0..queues);
            let batch = if self.rng.random_range(0..8) == 0 {
                self.rng.random_range(2..20)
            } else {
                1
            };
            if !self.request(topic, queue, batch).await? {
                return Ok(true);
            }
        }
        // Left at zero by the last one: do not let the counter wrap for the others.
        self.left.store(0, Ordering::Relaxed);
        Ok(false)
    }

    /// Sends one message, or a batch; false when the broker is gone.
    async fn request(&mut self, topic: &'static str, queue: i32, count: u64) -> Result<bool> {
        let first = self.book.next.fetch_add(count, Ordering::Relaxed);
        let mut bodies = Vec::new();
        for i in 0..count {
            let body = self.body(first + i);
            let crc = scan::crc32(&body);
            self.book.note(
                first + i,
                Tried {
                    topic,
                    crc,
                    fate: Fate::Unknown,
                },
            );
            bodies.push(body);
        }
        let keys = format!(
            "KEYS\x01k{first}\x02UNIQ_KEY\x01U{first:016X}\x02TAGS\x01t{}\x02",
            first % 3
        );
        let header = SendMessageHeader {
            producer_group: "crash",
            topic,
            default_topic: "TBW102",
            default_topic_queue_nums: 4,
            queue_id: queue,
            born_timestamp: now_ms(),
            properties: if count == 1 { &keys } else { "" },
            batch: count > 1,
            ..SendMessageHeader::default()
        };
        let (code, body) = if count == 1 {
            (request_code::SEND_MESSAGE_V2, bodies.remove(0))
        } else {
            (request_code::SEND_BATCH_MESSAGE, batch_body(first, &bodies))
        };
        let command = Command::with_header(code, &header).with_body(body);
        match self
            .client
            .call(&self.addr, command, Duration::from_secs(10))
            .await
        {
            Ok(answer) => self.answered(&answer, first, count),
            Err(CallError::Timeout(t)) => {
                anyhow::bail!("no answer to message {first} within {t:?}")
            }
            Err(_) => Ok(false),
        }
    }

    fn answered(&self, answer: &Command, first: u64, count: u64) -> Result<bool> {
        if answer.code == response_code::SUCCESS {
            let queue = answer.ext.require_i32("queueId").context("queueId")?;
            let offset = answer
                .ext
                .require_i64("queueOffset")
                .context("queueOffset")?;
            let place = |i: u64| Fate::Acked {
                queue,
                offset: offset + i as i64,
            };
            self.book.settle(first, count, place);
            return Ok(true);
        }
        // The flush or commit timed out, or the broker is stopping: it may or may not be stored.
        let open = [
            response_code::FLUSH_DISK_TIMEOUT,
            response_code::SERVICE_NOT_AVAILABLE,
            response_code::SYSTEM_ERROR,
        ];
        if !open.contains(&answer.code) {
            self.book
                .settle(first, count, |_| Fate::Refused(answer.code));
        }
        ensure!(
            answer.code != response_code::TOPIC_NOT_EXIST,
            "no topic: {}",
            answer.remark()
        );
        Ok(true)
    }

    fn body(&mut self, seq: u64) -> Vec<u8> {
        let len = match self.rng.random_range(0..20) {
            0 => self.body_max * 16,
            1..8 => 0,
            _ => self.rng.random_range(0..=self.body_max),
        };
        let mut body = format!("{seq:016x}").into_bytes();
        let start = body.len();
        body.resize(start + len, 0);
        self.rng.fill(&mut body[start..]);
        body
    }
}

/// Body of a batch request: each item with its own properties.
fn batch_body(first: u64, bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (i, body) in bodies.iter().enumerate() {
        let seq = first + i as u64;
        let properties = format!("KEYS\x01k{seq}\x02UNIQ_KEY\x01U{seq:016X}\x02");
        out.put_i32((22 + body.len() + properties.len()) as i32);
        out.put_slice(&[0; 12]);
        out.put_i32(body.len() as i32);
        out.put_slice(body);
        out.put_i16(properties.len() as i16);
        out.put_slice(properties.as_bytes());
    }
    out.to_vec()
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}

/// Pulls a queue from its minimum to its end; the records.
pub async fn pull_all(client: &Client, addr: &str, topic: &str, queue: i32) -> Result<Vec<Record>> {
    let call = async |command: Command| client.call(addr, command, Duration::from_secs(10)).await;
    let bound = async |code: i32| -> Result<i64> {
        let command = Command::request(code)
            .field("topic", topic)
            .field("queueId", &queue.to_string());
        Ok(call(command).await?.ext.require_i64("offset")?)
    };
    let mut at = bound(request_code::GET_MIN_OFFSET).await?.max(0);
    let max = bound(request_code::GET_MAX_OFFSET).await?;
    let mut records = Vec::new();
    while at < max {
        let command = Command::request(request_code::PULL_MESSAGE)
            .field("consumerGroup", "crash-check")
            .field("topic", topic)
            .field("queueId", &queue.to_string())
            .field("queueOffset", &at.to_string())
            .field("maxMsgNums", "32")
            .field("sysFlag", "4")
            .field("commitOffset", "0")
            .field("suspendTimeoutMillis", "0")
            .field("subscription", "*")
            .field("subVersion", "0")
            .field("expressionType", "TAG");
        let answer = call(command).await?;
        ensure!(
            answer.code == 0,
            "pull {topic}/{queue}@{at} of {max}: {} {}",
            answer.code,
            answer.remark()
        );
        let mut body = answer.body.as_ref();
        while !body.is_empty() {
            let r = scan::record(body).map_err(|e| anyhow::anyhow!("{topic}/{queue}@{at}: {e}"))?;
            body = &body[r.size as usize..];
            records.push(r);
        }
        let next = answer.ext.require_i64("nextBeginOffset")?;
        ensure!(next > at, "pull {topic}/{queue}@{at}: next {next}");
        at = next;
    }
    Ok(records)
}

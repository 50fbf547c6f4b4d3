//! Requests of stock clients, recorded frame by frame, sent again; the answers are compared with those of
//! the stock broker: codes, names of fields, values that do not depend on time or place, shapes of bodies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use remoting::{Command, FrameCodec, Limits};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::TestBroker;

/// One recorded frame.
struct Frame {
    conn: u64,
    from_client: bool,
    answer: bool,
    header: Value,
    body: Option<Vec<u8>>,
    body_len: u64,
}

fn trace(name: &str) -> Vec<Frame> {
    let path = format!("{}/../tests/data/traces/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(&path).unwrap())).lines();
    let mut frames = Vec::new();
    for line in lines {
        let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if value.get("code").is_none() || value["via"] != "client>broker" {
            continue;
        }
        use base64::Engine;
        let body = value["body"].as_str().map(|text| base64::engine::general_purpose::STANDARD.decode(text).unwrap());
        frames.push(Frame {
            conn: value["conn"].as_u64().unwrap(),
            from_client: value["dir"] == "c2s",
            answer: value["flag"].as_i64().unwrap() & 1 == 1,
            body_len: value["bodyLen"].as_u64().unwrap_or(0),
            body,
            header: value,
        });
    }
    frames
}

/// The recorded frame as bytes, at another time.
fn encode(frame: &Frame) -> Vec<u8> {
    let text = match frame.header["ser"].as_str() {
        Some("JSON") => frame.header["hdr"].as_str().unwrap().as_bytes().to_vec(),
        _ => {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.decode(frame.header["hdr"].as_str().unwrap()).unwrap()
        }
    };
    let kind = if frame.header["ser"] == "JSON" { 0_u32 } else { 1 };
    let body = frame.body.clone().unwrap_or_default();
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&((4 + text.len() + body.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(&(kind << 24 | text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&text);
    bytes.extend_from_slice(&body);
    bytes
}

/// A raw connection: what it has received, by opaque.
struct Wire {
    stream: TcpStream,
    buffer: bytes::BytesMut,
    codec: FrameCodec,
    answers: BTreeMap<i32, Command>,
}

impl Wire {
    async fn open(addr: &str) -> Self {
        Wire {
            stream: TcpStream::connect(addr).await.unwrap(),
            buffer: bytes::BytesMut::new(),
            codec: FrameCodec::new(Limits::default()),
            answers: BTreeMap::new(),
        }
    }

    async fn answer(&mut self, opaque: i32) -> Command {
        use tokio_util::codec::Decoder;
        loop {
            if let Some(answer) = self.answers.remove(&opaque) {
                return answer;
            }
            match self.codec.decode(&mut self.buffer).unwrap() {
                Some(command) if command.is_response() => {
                    self.answers.insert(command.opaque, command);
                }
                Some(_) => {}
                None => {
                    let read = self.stream.read_buf(&mut self.buffer);
                    let read = tokio::time::timeout(std::time::Duration::from_secs(20), read).await;
                    assert_ne!(read.expect("an answer in time").unwrap(), 0, "closed before answer {opaque}");
                }
            }
        }
    }
}

/// What is compared of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    request: i64,
    code: i32,
    fields: BTreeMap<String, String>,
    body: String,
}

/// Fields whose values depend on time or place.
const FREE: [&str; 3] = ["msgId", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"];

fn fields<'a>(pairs: impl Iterator<Item = (&'a str, String)>) -> BTreeMap<String, String> {
    pairs
        .filter(|(name, _)| *name != "transactionId" && *name != "recallHandle" && !name.starts_with("IS_SU"))
        .map(|(name, value)| {
            let free = FREE.contains(&name) || name == "timestamp";
            (name.to_owned(), if free { "any".to_owned() } else { value })
        })
        .collect()
}

/// The names of a JSON body, its numbers and texts left out; messages by their count.
fn body_shape(body: &[u8]) -> String {
    match remoting::fastjson::parse(body) {
        _ if body.is_empty() => "none".to_owned(),
        Ok(value) => value_shape(&value),
        Err(_) => format!("{} messages", crate::common::records(body).len()),
    }
}

fn value_shape(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(name, value)| format!("{name}:{}", value_shape(value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(value_shape).collect::<Vec<_>>().join(",")),
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "text".to_owned(),
    }
}

fn recorded_shape(request: &Frame, answer: &Frame) -> Shape {
    let ext = answer.header["extFields"].as_object().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Shape {
        request: request.header["code"].as_i64().unwrap(),
        code: answer.header["code"].as_i64().unwrap() as i32,
        fields: fields(ext.iter().map(|(name, value)| (name.as_str(), text(value)))),
        body: match &answer.body {
            Some(body) => body_shape(body),
            None if answer.body_len == 0 => "none".to_owned(),
            None => "long".to_owned(),
        },
    }
}

fn our_shape(request: &Frame, answer: &Command, recorded: &Shape) -> Shape {
    Shape {
        request: request.header["code"].as_i64().unwrap(),
        code: answer.code,
        fields: fields(answer.ext.iter().map(|(name, value)| (name, value.to_owned()))),
        body: if recorded.body == "long" { "long".to_owned() } else { body_shape(&answer.body) },
    }
}

/// Replays the requests of a trace in order, each answered before the next is sent, except for held
/// pulls; gives what differs.
async fn replay(broker: &TestBroker, name: &str, skip: &[i64]) -> (usize, Vec<String>) {
    let frames = trace(name);
    let mut wires: BTreeMap<u64, Wire> = BTreeMap::new();
    let (mut compared, mut differences) = (0, Vec::new());
    for (at, request) in frames.iter().enumerate() {
        let code = request.header["code"].as_i64().unwrap();
        if !request.from_client || request.answer || skip.contains(&code) {
            continue;
        }
        broker.settled().await;
        if !wires.contains_key(&request.conn) {
            wires.insert(request.conn, Wire::open(&broker.addr).await);
        }
        let wire = wires.get_mut(&request.conn).unwrap();
        wire.stream.write_all(&encode(request)).await.unwrap();
        let opaque = request.header["opaque"].as_i64().unwrap() as i32;
        let is_answer = |frame: &&Frame| {
            frame.conn == request.conn && frame.answer && !frame.from_client && frame.header["opaque"] == opaque
        };
        let Some(answer) = frames[at..].iter().find(is_answer) else { continue };
        let recorded = recorded_shape(request, answer);
        let ours = our_shape(request, &wire.answer(opaque).await, &recorded);
        compared += 1;
        if ours != recorded {
            differences.push(format!("{name} frame {at}:\n  java {recorded:?}\n  ours {ours:?}"));
        }
    }
    (compared, differences)
}

async fn same(broker: &TestBroker, name: &str, skip: &[i64], wanted: usize) {
    let (compared, differences) = replay(broker, name, skip).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared >= wanted, "{name}: only {compared} answers compared");
}

async fn topic(broker: &TestBroker, name: &str, queues: &str) {
    let fields = [
        ("topic", name),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", queues),
        ("writeQueueNums", queues),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("order", "false"),
    ];
    assert_eq!(broker.ask(17, &fields).await.code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_of_stock_producers() {
    let broker = TestBroker::start().await;
    topic(&broker, "TrTopic", "2").await;
    topic(&broker, "TrOrder", "2").await;
    same(&broker, "send-sync-4.9.7", &[], 10).await;
    same(&broker, "send-async-oneway-4.9.7", &[], 3).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stock_broker_refuses() {
    let broker = TestBroker::start().await;
    topic(&broker, "TrTopic", "2").await;
    let beat = crate::common::heartbeat("c", "TrGroup", &[("TrTopic", "*")]);
    broker.ask_body(34, &beat).await;
    let (compared, differences) = replay(&broker, "refusals-4.9.7", &[]).await;
    println!("{compared} compared\n{}", differences.join("\n"));
    assert!(differences.is_empty());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_push_consumer() {
    let broker = TestBroker::start().await;
    for name in ["TrTopic", "TrOrder"] {
        topic(&broker, name, "2").await;
    }
    for name in [
        "push-consumer-4.9.7",
        "tag-filter-4.9.7",
        "orderly-lock-unlock-4.9.7",
        "query-and-view-message-4.9.7",
        "send-orderly-queue-4.9.7",
        "send-back-retry-4.9.7",
        "go-client-4.9.7",
        "binary-header-5.3.3",
        "lite-pull-consumer-5.3.3",
        "rebalance-second-consumer-5.3.3",
        "reset-offset-and-consumer-calls-4.9.7",
        "send-batch-5.3.3",
        "topic-create-4.9.7",
        "mqadmin-4.9.7",
    ] {
        let (compared, differences) = replay(&broker, name, &[]).await;
        println!("{name}: {compared} compared\n{}", differences.join("\n"));
    }
    broker.stop().await;
}

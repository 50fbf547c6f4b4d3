//! Golden bytes: every frame of every recorded conversation with stock brokers, name servers and clients is decoded,
//! compared with what the recorder saw, and written again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};
use flate2::read::GzDecoder;
use remoting::body::*;
use remoting::headers::*;
use remoting::{Command, Language, Limits, SerializeType, fastjson, frame};
use serde_json::Value;

fn trace_files() -> Result<Vec<(String, String)>> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/traces"));
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "gz") {
            let mut text = String::new();
            GzDecoder::new(fs::File::open(&path)?).read_to_string(&mut text)?;
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            files.push((name, text));
        }
    }
    files.sort();
    Ok(files)
}

/// A recorded frame: what the recorder wrote down, and the bytes as they were (a long body as zeros).
struct Frame {
    seen: Value,
    header: Vec<u8>,
    bytes: BytesMut,
    /// The body, if it was recorded.
    body: Option<Vec<u8>>,
}

impl Frame {
    fn read(line: &str) -> Result<Option<Frame>> {
        let seen: Value = serde_json::from_str(line)?;
        let Some(text) = seen["hdr"].as_str() else {
            return Ok(None);
        };
        let (kind, header) = match seen["ser"].as_str() {
            Some("ROCKETMQ") => (1u32, STANDARD.decode(text)?),
            _ => (0, text.as_bytes().to_vec()),
        };
        let body_len = seen["bodyLen"].as_u64().unwrap_or_default() as usize;
        let body = seen["body"]
            .as_str()
            .map(|b| STANDARD.decode(b))
            .transpose()?;
        let body = body.or((body_len == 0).then(Vec::new));
        let mut bytes = BytesMut::new();
        bytes.put_u32((4 + header.len() + body_len) as u32);
        bytes.put_u32(kind << 24 | header.len() as u32);
        bytes.put_slice(&header);
        match &body {
            Some(body) => bytes.put_slice(body),
            None => bytes.put_bytes(0, body_len),
        }
        Ok(Some(Frame {
            seen,
            header,
            bytes,
            body,
        }))
    }

    fn decode(&self) -> Result<Command> {
        let mut bytes = self.bytes.clone();
        let command = frame::decode(&mut bytes, &Limits::default())?.context("incomplete")?;
        ensure!(bytes.is_empty(), "{} bytes are left", bytes.len());
        Ok(command)
    }

    fn compare(&self, command: &Command) -> Result<()> {
        let seen = &self.seen;
        ensure!(seen["code"] == command.code, "code {}", command.code);
        ensure!(seen["flag"] == command.flag, "flag {}", command.flag);
        ensure!(
            seen["opaque"] == command.opaque,
            "opaque {}",
            command.opaque
        );
        ensure!(
            seen["version"] == command.version,
            "version {}",
            command.version
        );
        let language = match &seen["language"] {
            Value::Number(n) => Language::from_code(n.as_i64().unwrap_or(-1)),
            name => Language::from_name(name.as_str().unwrap_or_default()),
        };
        ensure!(
            language == command.language,
            "language {:?}",
            command.language
        );
        ensure!(
            seen["remark"].as_str().unwrap_or_default() == command.remark(),
            "remark {:?}",
            command.remark
        );
        let empty = serde_json::Map::new();
        let fields = seen["extFields"].as_object().unwrap_or(&empty);
        ensure!(
            fields.len() == command.ext.len(),
            "{} ext fields",
            command.ext.len()
        );
        for (name, value) in fields {
            // Bare numbers and booleans are taken as their text.
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            ensure!(
                Some(text.as_str()) == command.ext.get(name),
                "ext field {name}: {:?}",
                command.ext.get(name)
            );
        }
        Ok(())
    }

    /// Headers of Java look as ours do; Go and hand-made ones are JSON in another order or with blanks.
    fn is_javas(&self) -> bool {
        let spaced = self.header.windows(2).any(|w| w == b"\": " || w == b": ");
        let javas =
            self.header.starts_with(b"{\"code\":") && self.seen["language"] != "GO" && !spaced;
        self.seen["ser"] == "ROCKETMQ" || javas
    }
}

fn each_frame(mut f: impl FnMut(&Frame) -> Result<()>) -> Result<usize> {
    let mut count = 0;
    for (name, text) in trace_files()? {
        for (number, line) in text.lines().enumerate() {
            if let Some(frame) = Frame::read(line)? {
                f(&frame).with_context(|| format!("{name} line {}: {line:.300}", number + 1))?;
                count += 1;
            }
        }
    }
    Ok(count)
}

#[test]
fn every_frame_decodes_and_is_written_again() -> Result<()> {
    let (mut identical, mut other) = (0, 0);
    let count = each_frame(|frame| {
        let command = frame.decode()?;
        frame.compare(&command)?;
        let mut again = BytesMut::new();
        command.encode(&mut again)?;
        if frame.is_javas() && again == frame.bytes {
            identical += 1;
        } else {
            ensure!(
                !frame.is_javas(),
                "written again: {}",
                String::from_utf8_lossy(&again[8..])
            );
            other += 1;
        }
        let back = frame::decode(&mut again, &Limits::default())?.context("incomplete")?;
        ensure!(back == command, "differs after writing and reading");
        Ok(())
    })?;
    println!("{count} frames, {identical} byte-identical, {other} in another spelling");
    ensure!(
        count > 8000 && identical > 7500,
        "{count} frames, {identical} identical"
    );
    Ok(())
}

/// Reads the typed header of a request; true if its code has one.
fn read_header(command: &Command) -> Result<bool> {
    macro_rules! typed {
        ($($code:pat => $header:ident,)*) => {
            match command.code {
                $($code => {
                    let header = command.header::<$header<'_>>()?;
                    let mut ext = remoting::ExtFields::new();
                    header.write(&mut ext);
                    ensure!($header::try_from(&ext)? == header, "{header:?} differs after writing");
                })*
                _ => return Ok(false),
            }
        };
    }
    typed! {
        10 | 310 | 320 | 324 | 325 => SendMessageHeader,
        11 | 361 => PullMessageHeader,
        12 => QueryMessageHeader,
        14 => QueryConsumerOffsetHeader,
        15 => UpdateConsumerOffsetHeader,
        17 => CreateTopicHeader,
        29 => SearchOffsetHeader,
        30..=32 => QueueHeader,
        33 => ViewMessageHeader,
        35 => UnregisterClientHeader,
        36 => ConsumerSendMsgBackHeader,
        37 => EndTransactionHeader,
        38 | 40 | 203 => ConsumerGroupHeader,
        39 => CheckTransactionStateHeader,
        100 => PutKvConfigHeader,
        101 | 102 => KvConfigHeader,
        103 => RegisterBrokerHeader,
        104 | 322 => BrokerIdentityHeader,
        105 => RouteInfoHeader,
        202 | 215 | 216 | 300 | 351 => TopicHeader,
        204 => ProducerGroupHeader,
        205 | 327 => BrokerNameHeader,
        207 => DeleteGroupHeader,
        208 => ConsumeStatsHeader,
        220 | 222 => ResetOffsetHeader,
        221 | 223 => GetConsumerStatusHeader,
        224 => ClusterHeader,
        307 => ConsumerRunningInfoHeader,
        309 => ConsumeMessageDirectlyHeader,
        315 => BrokerStatsHeader,
        317 => BrokerConsumeStatsHeader,
        321 => QueryConsumeQueueHeader,
        326 => PushReplyMessageHeader,
    }
    Ok(true)
}

#[test]
fn typed_headers_of_requests() -> Result<()> {
    let mut by_code = BTreeMap::<i32, usize>::new();
    each_frame(|frame| {
        let command = frame.decode()?;
        let handmade = frame.seen["version"] == 399;
        if !command.is_response() && !handmade && read_header(&command)? {
            *by_code.entry(command.code).or_default() += 1;
        }
        Ok(())
    })?;
    println!("typed headers read: {by_code:?}");
    ensure!(by_code.len() > 40, "{by_code:?}");
    Ok(())
}

/// Reads a body into its type, writes it, and compares what both say. Nothing may be lost.
fn read_body(code: i32, is_response: bool, body: &[u8]) -> Result<bool> {
    macro_rules! typed {
        ($($(($codes:pat, $response:literal))|+ => $body:ty,)*) => {
            match (code, is_response) {
                $($(($codes, $response))|+ => {
                    let typed: $body = fastjson::from_slice(body)?;
                    let again = fastjson::to_vec(&typed)?;
                    let (before, after) = (fastjson::parse(body)?, fastjson::parse(&again)?);
                    ensure!(same(&before, &after), "written again: {}", String::from_utf8_lossy(&again));
                    let pretty: $body = fastjson::from_slice(&fastjson::to_vec_pretty(&typed)?)?;
                    let standard: $body = fastjson::from_slice(&fastjson::to_vec_standard(&typed)?)?;
                    ensure!(pretty == typed && standard == typed, "differs in another form");
                    serde_json::from_slice::<Value>(&fastjson::to_vec_standard(&typed)?)?;
                })*
                _ => return Ok(false),
            }
        };
    }
    typed! {
        (34, false) => HeartbeatData,
        (38, true) => ConsumerListBody,
        (41 | 42, false) => LockBatchBody,
        (41, true) => LockBatchResponseBody,
        (43, true) => ConsumerOffsetTable,
        (45, true) => DelayOffsetTable,
        (46, false) => CheckClientBody,
        (28 | 103 | 219, true) => KvTable,
        (105, true) => TopicRouteData,
        (106, true) => ClusterInfo,
        (21, true) => TopicConfigSerializeWrapper,
        (200, false) => SubscriptionGroupConfig,
        (201, true) => SubscriptionGroupTable,
        (202, true) => TopicStatsTable,
        (203, true) => ConsumerConnection,
        (204, true) => ProducerConnection,
        (206 | 224 | 304 | 305 | 311 | 312 | 313, true) => TopicList,
        (208, true) => ConsumeStats,
        (220, false) | (222, true) => ResetOffsetBody,
        (-220, false) => ResetOffsetListBody,
        (221 | 223, true) => ConsumerStatusBody,
        (300, true) => GroupList,
        (309, true) => ConsumeDirectlyResult,
        (315, true) => BrokerStatsData,
        (317, true) => ConsumeStatsList,
        (321, true) => QueryConsumeQueueBody,
        (328, true) => ProducerTable,
    }
    Ok(true)
}

/// Equal but for members that were absent and are now at their default, or the other way round.
fn same(before: &Value, after: &Value) -> bool {
    let is_default = |v: &Value| match v {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) => false,
    };
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            let null = Value::Null;
            let pair = |name: &String| (a.get(name).unwrap_or(&null), b.get(name).unwrap_or(&null));
            a.keys()
                .chain(b.keys())
                .map(pair)
                .all(|(x, y)| same(x, y) || (is_default(x) && is_default(y)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same(x, y))
        }
        (a, b) => a == b,
    }
}

#[test]
fn typed_bodies_lose_nothing() -> Result<()> {
    let mut by_code = BTreeMap::<(i32, bool), usize>::new();
    let mut registrations = (0, 0);
    each_frame(|frame| {
        let command = frame.decode()?;
        let Some(body) = frame.body.as_ref().filter(|b| !b.is_empty()) else {
            return Ok(());
        };
        let is_response = command.is_response();
        if is_response && command.code != 0 {
            return Ok(());
        }
        let code = if is_response {
            frame.seen["req"].as_i64().unwrap_or(-1) as i32
        } else {
            command.code
        };
        if (code, is_response) == (103, false) {
            let header = command.header::<RegisterBrokerHeader<'_>>()?;
            let decoded = match header.compressed {
                // A 5.3.3 broker compresses but does not say so.
                Some(true) => RegisterBrokerBody::decode_compressed(body)?,
                _ if body[0] != b'{' => RegisterBrokerBody::decode_compressed(body)?,
                _ => RegisterBrokerBody::decode(body)?,
            };
            ensure!(
                !decoded
                    .topic_config_serialize_wrapper
                    .topic_config_table
                    .is_empty(),
                "no topics"
            );
            ensure!(
                header
                    .body_crc32
                    .is_none_or(|crc| crc == 0 || crc == remoting::message::body_crc(body)),
                "CRC"
            );
            let again = RegisterBrokerBody::decode_compressed(&decoded.encode_compressed()?)?;
            let topics =
                |b: &RegisterBrokerBody| b.topic_config_serialize_wrapper.topic_config_table.len();
            ensure!(
                topics(&again) == topics(&decoded),
                "differs after compression"
            );
            registrations.usize_add(body[0] == b'{');
            return Ok(());
        }
        // To a C++ client the offsets go as a list.
        let code = if code == 220 && body.starts_with(b"{\"offsetTable\":[") {
            -220
        } else {
            code
        };
        let odd_body = frame.seen["version"] == 399 && code == 34;
        if !odd_body
            && read_body(code, is_response, body)
                .with_context(|| String::from_utf8_lossy(body).into_owned())?
        {
            *by_code.entry((code, is_response)).or_default() += 1;
        }
        Ok(())
    })?;
    println!("bodies read: {by_code:?}, registrations plain and compressed: {registrations:?}");
    ensure!(
        by_code.len() > 20 && registrations.0 > 0 && registrations.1 > 0,
        "{by_code:?} {registrations:?}"
    );
    Ok(())
}

trait CountBoth {
    fn usize_add(&mut self, first: bool);
}

impl CountBoth for (usize, usize) {
    fn usize_add(&mut self, first: bool) {
        if first { self.0 += 1 } else { self.1 += 1 }
    }
}

#[test]
fn compact_bodies_are_javas_bytes() -> Result<()> {
    // Bodies whose order of entries is defined must be equal to the byte.
    let mut identical = 0;
    each_frame(|frame| {
        let Some(body) = frame.body.as_ref().filter(|b| !b.is_empty()) else {
            return Ok(());
        };
        if frame.seen["language"] != "JAVA" || frame.seen["code"] != 0 {
            return Ok(());
        }
        let again = match frame.seen["req"].as_i64() {
            Some(38) => fastjson::to_vec(&fastjson::from_slice::<ConsumerListBody>(body)?)?,
            Some(315) => fastjson::to_vec(&fastjson::from_slice::<BrokerStatsData>(body)?)?,
            Some(321) => fastjson::to_vec(&fastjson::from_slice::<QueryConsumeQueueBody>(body)?)?,
            Some(222) => fastjson::to_vec(&fastjson::from_slice::<ResetOffsetBody>(body)?)?,
            Some(105) => {
                let standard = String::from_utf8_lossy(body).contains("\"brokerAddrs\":{\"");
                fastjson::from_slice::<TopicRouteData>(body)?.encode(0, standard)?
            }
            _ => return Ok(()),
        };
        ensure!(again == *body, "ours: {}", String::from_utf8_lossy(&again));
        identical += 1;
        Ok(())
    })?;
    println!("{identical} bodies byte-identical");
    ensure!(identical > 100, "{identical}");
    Ok(())
}

#[test]
fn messages_in_bodies() -> Result<()> {
    let mut batches = 0;
    each_frame(|frame| {
        let command = frame.decode()?;
        if command.is_response()
            || !matches!(command.code, 10 | 310 | 320)
            || frame.seen["version"] == 399
        {
            return Ok(());
        }
        let header = command.header::<SendMessageHeader<'_>>()?;
        if let Some(body) = frame.body.as_ref().filter(|_| header.batch) {
            let items: Vec<_> =
                remoting::message::BatchItems::new(body).collect::<Result<_, _>>()?;
            let mut again = Vec::new();
            for item in &items {
                remoting::message::encode_batch_item(&mut again, item)?;
            }
            // Clients write no CRC and no magic into the entries, so the bytes are ours.
            ensure!(
                items.len() > 1 && again == *body,
                "a batch of {}",
                items.len()
            );
            batches += 1;
        }
        Ok(())
    })?;
    ensure!(batches > 0, "no batch in the traces");
    Ok(())
}

#[test]
fn binary_frames_are_among_them() -> Result<()> {
    let mut binary = 0;
    each_frame(|frame| {
        binary += usize::from(frame.decode()?.serialize == SerializeType::RocketMq);
        Ok(())
    })?;
    ensure!(binary > 20, "{binary}");
    Ok(())
}

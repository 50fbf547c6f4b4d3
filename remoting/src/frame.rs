//! The envelope of a frame: `total i32 | type u8, header length u24 | header | body`, total not counting itself.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::command::{Command, SerializeType};
use crate::ext_fields::ExtFields;
use crate::header_binary;
use crate::header_json;
use crate::language::Language;
use crate::limits::Limits;
use crate::response::{FieldValue, Response};

/// Bytes in front of the header.
pub const ENVELOPE_LEN: usize = 8;
/// Largest header: its length has 24 bits.
pub const HEADER_LEN_MAX: usize = 0xFF_FFFF;

/// First byte of a TLS ClientHello.
const TLS_HELLO: u8 = 0x16;

/// Why bytes are not a frame. After any of these the connection must be closed: its framing is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A TLS ClientHello on a port without TLS.
    #[error(
        "a TLS handshake on a port that speaks plain RocketMQ remoting; switch TLS off in the client (tls.enable=false)"
    )]
    Tls,
    /// The total length is outside 4…limit.
    #[error("the frame length {0} is outside 4 to {1} bytes ({2})")]
    Length(u32, usize, Guess),
    /// The header is longer than the frame.
    #[error("the header length {header} does not fit into a frame of {total} bytes")]
    HeaderLength {
        /// Claimed length of the header.
        header: usize,
        /// Claimed total length.
        total: usize,
    },
    /// The serialize type is neither 0 nor 1.
    #[error("the serialize type {0} is unknown")]
    SerializeType(u8),
    /// The header cannot be decoded.
    #[error("the header cannot be decoded at byte {at}: {reason}")]
    Header {
        /// Byte position in the header.
        at: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Something of ours does not fit into a frame.
    #[error("{0} does not fit into a frame")]
    TooLargeToEncode(&'static str),
}

/// What the first four bytes look like when they are no length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// HTTP/1 or the preface of HTTP/2.
    Http,
    /// Nothing known.
    Unknown,
}

impl std::fmt::Display for Guess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Guess::Http => "it reads like HTTP",
            Guess::Unknown => "not RocketMQ remoting",
        })
    }
}

/// Length and type words of a frame, checked.
struct Envelope {
    total: usize,
    header_len: usize,
    serialize: SerializeType,
}

/// Checks as much of the envelope as is there. `Ok(None)` means incomplete, which is not invalid.
fn envelope(buf: &[u8], limits: &Limits) -> Result<Option<Envelope>, FrameError> {
    if buf.first() == Some(&TLS_HELLO) {
        return Err(FrameError::Tls);
    }
    let Some(&total_word) = buf.first_chunk::<4>() else {
        return Ok(None);
    };
    let total = u32::from_be_bytes(total_word) as usize;
    if total < 4 || total > limits.frame_bytes_max {
        let guess = match &total_word {
            b"PRI " | b"GET " | b"POST" | b"PUT " | b"HEAD" | b"DELE" | b"OPTI" | b"CONN" => {
                Guess::Http
            }
            _ => Guess::Unknown,
        };
        return Err(FrameError::Length(
            total as u32,
            limits.frame_bytes_max,
            guess,
        ));
    }
    let Some(&[kind, a, b, c]) = buf.get(4..8).and_then(|w| w.first_chunk::<4>()) else {
        return Ok(None);
    };
    let serialize = match kind {
        0 => SerializeType::Json,
        1 => SerializeType::RocketMq,
        other => return Err(FrameError::SerializeType(other)),
    };
    let header_len = u32::from_be_bytes([0, a, b, c]) as usize;
    if header_len > total - 4 {
        return Err(FrameError::HeaderLength {
            header: header_len,
            total,
        });
    }
    Ok(Some(Envelope {
        total,
        header_len,
        serialize,
    }))
}

/// Takes one frame off the front of `buf`. `Ok(None)` means that more bytes are needed. Body and ext fields of the
/// command are slices of `buf`'s memory.
pub fn decode(buf: &mut BytesMut, limits: &Limits) -> Result<Option<Command>, FrameError> {
    let Some(envelope) = envelope(buf, limits)? else {
        return Ok(None);
    };
    let frame_len = 4 + envelope.total;
    if buf.len() < frame_len {
        return Ok(None);
    }
    buf.advance(ENVELOPE_LEN);
    let header = buf.split_to(envelope.header_len);
    let body = buf.split_to(envelope.total - 4 - envelope.header_len);
    let mut command = match envelope.serialize {
        SerializeType::Json => header_json::decode(header, limits)?,
        SerializeType::RocketMq => header_binary::decode(header.freeze(), limits)?,
    };
    command.serialize = envelope.serialize;
    command.body = body.freeze();
    Ok(Some(command))
}

/// Length of the whole frame at the front of `buf`, once its first word is there: for sizing the read buffer.
pub(crate) fn wanted_len(buf: &[u8]) -> Option<usize> {
    buf.first_chunk::<4>()
        .map(|w| 4usize.saturating_add(u32::from_be_bytes(*w) as usize))
}

/// The plain members of a header about to be written.
pub(crate) struct Head<'a> {
    pub code: i32,
    pub language: Language,
    pub version: i32,
    pub opaque: i32,
    pub flag: i32,
    pub remark: Option<&'a str>,
    /// Whether a map of ext fields is written even when it is empty.
    pub has_fields: bool,
}

/// Value of an ext field about to be written.
pub(crate) enum FieldRef<'a> {
    Str(&'a str),
    Int(i64),
    Bool(bool),
    OffsetId(std::net::SocketAddr, i64),
}

impl<'a> From<&'a FieldValue> for FieldRef<'a> {
    fn from(value: &'a FieldValue) -> Self {
        match value {
            FieldValue::Str(s) => FieldRef::Str(s),
            FieldValue::I64(v) => FieldRef::Int(*v),
            FieldValue::I32(v) => FieldRef::Int(i64::from(*v)),
            FieldValue::Bool(v) => FieldRef::Bool(*v),
            FieldValue::OffsetId(host, offset) => FieldRef::OffsetId(*host, *offset),
            FieldValue::Shared(bytes) => {
                FieldRef::Str(std::str::from_utf8(bytes).unwrap_or_default())
            }
        }
    }
}

/// Writes envelope and header of `command`; the body must follow.
pub fn encode_head(command: &Command, out: &mut BytesMut) -> Result<(), FrameError> {
    let head = Head {
        code: command.code,
        language: command.language,
        version: command.version,
        opaque: command.opaque,
        flag: command.flag,
        remark: command.remark.as_deref(),
        has_fields: command.ext.is_present(),
    };
    // A binary header would cut the code to 16 bits and so ask for something else.
    let serialize = match i16::try_from(command.code) {
        Ok(_) => command.serialize,
        Err(_) => SerializeType::Json,
    };
    let fields = ext_refs(&command.ext);
    write_frame_head(out, serialize, &head, fields, command.body.len())
}

fn ext_refs(ext: &ExtFields) -> impl Iterator<Item = (&str, FieldRef<'_>)> {
    ext.iter().map(|(name, value)| (name, FieldRef::Str(value)))
}

/// Who answers, and to what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerTo {
    pub opaque: i32,
    pub serialize: SerializeType,
    pub version: i32,
}

/// Writes envelope and header of an answer; its body must follow. Nothing is allocated beyond `out` itself.
pub(crate) fn encode_response_head(
    response: &Response,
    to: AnswerTo,
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let head = Head {
        code: response.code,
        language: Language::Java,
        version: to.version,
        opaque: to.opaque,
        flag: crate::command::FLAG_RESPONSE,
        remark: response.remark.as_deref(),
        has_fields: response.has_fields || !response.fields.is_empty(),
    };
    let fields = response
        .fields
        .iter()
        .map(|(name, value)| (name.as_ref(), FieldRef::from(value)));
    write_frame_head(out, to.serialize, &head, fields, response.body_len())
}

fn write_frame_head<'a>(
    out: &mut BytesMut,
    serialize: SerializeType,
    head: &Head<'_>,
    fields: impl Iterator<Item = (&'a str, FieldRef<'a>)>,
    body_len: usize,
) -> Result<(), FrameError> {
    let start = out.len();
    out.reserve(256);
    out.put_u64(0);
    match serialize {
        SerializeType::Json => header_json::encode(out, head, fields),
        SerializeType::RocketMq => header_binary::encode(out, head, fields),
    }
    let header_len = out.len() - start - ENVELOPE_LEN;
    let total = 4usize.saturating_add(header_len).saturating_add(body_len);
    let too_large = match () {
        _ if header_len > HEADER_LEN_MAX => Some("the header"),
        _ if total > i32::MAX as usize => Some("the body"),
        _ => None,
    };
    if let Some(what) = too_large {
        out.truncate(start);
        return Err(FrameError::TooLargeToEncode(what));
    }
    let word = ((serialize as u32) << 24) | header_len as u32;
    out[start..start + 4].copy_from_slice(&(total as u32).to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&word.to_be_bytes());
    Ok(())
}

/// Writes a whole answer into one buffer: for tests, tools and recorders. The server writes it in parts.
pub fn encode_response(
    response: &Response,
    opaque: i32,
    serialize: SerializeType,
    version: i32,
) -> Result<Bytes, FrameError> {
    let mut out = BytesMut::new();
    encode_response_head(
        response,
        AnswerTo {
            opaque,
            serialize,
            version,
        },
        &mut out,
    )?;
    for part in &response.body {
        out.extend_from_slice(part);
    }
    Ok(out.freeze())
}

#[cfg(test)]
mod tests;

//! The ROCKETMQ binary header (class RocketMQSerializable):
//! `code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark length i32, remark | ext length i32, ext`,
//! ext being a run of `name length i16, name | value length i32, value`.

use bytes::{BufMut, Bytes, BytesMut};

use crate::command::Command;
use crate::ext_fields::ExtFields;
use crate::frame::{FieldRef, FrameError, Head};
use crate::language::Language;
use crate::limits::Limits;
use crate::message::OffsetId;

/// Position-keeping reader of the header.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn error(&self, reason: &'static str) -> FrameError {
        FrameError::Header {
            at: self.at,
            reason,
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let chunk = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>());
        let chunk = *chunk.ok_or_else(|| self.error("it ends early"))?;
        self.at += N;
        Ok(chunk)
    }

    fn i16(&mut self) -> Result<i16, FrameError> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, FrameError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Takes `len` bytes of UTF-8 and gives their range.
    fn text(&mut self, len: i32) -> Result<(usize, usize), FrameError> {
        let len = usize::try_from(len).map_err(|_| self.error("a length is negative"))?;
        let end = self.at.saturating_add(len);
        let text = self
            .bytes
            .get(self.at..end)
            .ok_or_else(|| self.error("a length is beyond the header"))?;
        std::str::from_utf8(text).map_err(|_| self.error("the text is not UTF-8"))?;
        let range = (self.at, len);
        self.at = end;
        Ok(range)
    }

    fn str_of(&self, (start, len): (usize, usize)) -> &'a str {
        std::str::from_utf8(&self.bytes[start..start + len]).unwrap_or_default()
    }
}

/// Decodes a binary header.
pub(crate) fn decode(header: Bytes, limits: &Limits) -> Result<Command, FrameError> {
    let mut cursor = Cursor {
        bytes: &header,
        at: 0,
    };
    let code = i32::from(cursor.i16()?);
    let language = Language::from_code(i64::from(u8::from_be_bytes(cursor.array()?)));
    // Read as unsigned: no version has reached the sign bit, and a negative one would look ancient.
    let version = i32::from(cursor.i16()? as u16);
    let opaque = cursor.i32()?;
    let flag = cursor.i32()?;
    let remark_len = cursor.i32()?;
    let remark = cursor.text(remark_len)?;
    let remark = (remark.1 > 0).then(|| cursor.str_of(remark).to_owned());
    let ext_len = cursor.i32()?;
    let ext = decode_ext(&mut cursor, ext_len, limits)?;
    let mut command = Command {
        code,
        language,
        version,
        opaque,
        flag,
        remark,
        ext,
        ..Command::default()
    };
    if command.ext.is_present() {
        command.ext.set_shared(header);
    }
    Ok(command)
}

fn decode_ext(
    cursor: &mut Cursor<'_>,
    ext_len: i32,
    limits: &Limits,
) -> Result<ExtFields, FrameError> {
    let mut ext = ExtFields::new();
    let len = usize::try_from(ext_len).map_err(|_| cursor.error("a length is negative"))?;
    let end = cursor.at.saturating_add(len);
    if end > cursor.bytes.len() {
        return Err(cursor.error("a length is beyond the header"));
    }
    while cursor.at < end {
        let name_len = i32::from(cursor.i16()?);
        let name = cursor.text(name_len)?;
        let value_len = cursor.i32()?;
        let value = cursor.text(value_len)?;
        if ext.len() >= limits.header_fields_max {
            return Err(cursor.error("it has too many fields"));
        }
        // Empty text is null in this form, on both sides.
        ext.mark_present();
        if name.1 > 0 && value.1 > 0 {
            ext.push_shared(name, value);
        }
    }
    if cursor.at != end {
        return Err(cursor.error("the last field is longer than the fields' length"));
    }
    Ok(ext)
}

/// Writes a binary header.
pub(crate) fn encode<'a>(
    out: &mut BytesMut,
    head: &Head<'_>,
    fields: impl Iterator<Item = (&'a str, FieldRef<'a>)>,
) {
    out.put_i16(head.code as i16);
    out.put_u8(head.language.code());
    out.put_i16(head.version as i16);
    out.put_i32(head.opaque);
    out.put_i32(head.flag);
    let remark = head.remark.unwrap_or_default();
    out.put_u32(remark.len() as u32);
    out.put_slice(remark.as_bytes());
    let ext_at = out.len();
    out.put_u32(0);
    for (name, value) in fields {
        // A longer name cannot be written in this form; none of ours comes near.
        let Ok(name_len) = i16::try_from(name.len()) else {
            continue;
        };
        out.put_i16(name_len);
        out.put_slice(name.as_bytes());
        put_value(out, value);
    }
    let ext_len = (out.len() - ext_at - 4) as u32;
    out[ext_at..ext_at + 4].copy_from_slice(&ext_len.to_be_bytes());
}

fn put_value(out: &mut BytesMut, value: FieldRef<'_>) {
    let mut put = |text: &[u8]| {
        out.put_u32(text.len() as u32);
        out.put_slice(text);
    };
    match value {
        FieldRef::Str(text) => put(text.as_bytes()),
        FieldRef::Int(v) => put(itoa::Buffer::new().format(v).as_bytes()),
        FieldRef::Bool(true) => put(b"true"),
        FieldRef::Bool(false) => put(b"false"),
        FieldRef::OffsetId(host, offset) => put(OffsetId::new(host, offset).as_str().as_bytes()),
    }
}

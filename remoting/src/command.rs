//! One frame, decoded: a request or an answer (class RemotingCommand).

use bytes::{Bytes, BytesMut};

use crate::ext_fields::{ExtFields, HeaderError};
use crate::frame::{self, FrameError};
use crate::language::Language;

/// How a frame's header is written: the high byte of its second word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum SerializeType {
    /// JSON text.
    #[default]
    Json = 0,
    /// RocketMQ's binary header. Its code has 16 bits, so codes above 32767 cannot travel in it.
    RocketMq = 1,
}

/// `flag` bit of an answer.
pub const FLAG_RESPONSE: i32 = 1;
/// `flag` bit of a request that must not be answered.
pub const FLAG_ONEWAY: i32 = 2;
/// Version ordinal that we name in frames unless told otherwise: V4_9_8.
pub const VERSION_DEFAULT: i32 = 409;

/// A request or an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// Request code, or response code in an answer.
    pub code: i32,
    /// Sender's language.
    pub language: Language,
    /// Sender's version ordinal (class MQVersion).
    pub version: i32,
    /// Number by which an answer finds its request; unique for its sender only.
    pub opaque: i32,
    /// Bits [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// Text for people, mostly of errors.
    pub remark: Option<String>,
    /// The typed header, flattened.
    pub ext: ExtFields,
    /// Body; absent and empty are the same on the wire.
    pub body: Bytes,
    /// How the header was, or shall be, written.
    pub serialize: SerializeType,
}

impl Command {
    /// A request with our language and version, in JSON.
    pub fn request(code: i32) -> Command {
        Command {
            code,
            version: VERSION_DEFAULT,
            ..Command::default()
        }
    }

    /// A request with a typed header.
    pub fn with_header(code: i32, header: &impl crate::headers::Header) -> Command {
        let mut command = Command::request(code);
        header.write(&mut command.ext);
        command
    }

    /// Adds an ext field.
    pub fn field(mut self, name: &str, value: &str) -> Command {
        self.ext.push(name, value);
        self
    }

    /// Sets the body.
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Command {
        self.body = body.into();
        self
    }

    /// Whether this is an answer.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether this is a request that must not be answered.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// The remark, or nothing.
    pub fn remark(&self) -> &str {
        self.remark.as_deref().unwrap_or_default()
    }

    /// The typed header.
    pub fn header<'a, H>(&'a self) -> Result<H, HeaderError>
    where
        H: TryFrom<&'a ExtFields, Error = HeaderError>,
    {
        H::try_from(&self.ext)
    }

    /// Writes the whole frame, body included, behind what `out` has.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), FrameError> {
        frame::encode_head(self, out)?;
        out.extend_from_slice(&self.body);
        Ok(())
    }
}

//! [`tokio_util::codec`] of frames, for tests and simple peers. The server and client read and write in larger strides
//! than a codec can, but through the same functions of [`crate::frame`].

use std::io;

use bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};

use crate::command::Command;
use crate::frame;
use crate::limits::Limits;

/// Decodes and encodes whole frames within limits.
#[derive(Debug, Clone, Default)]
pub struct FrameCodec {
    limits: Limits,
}

impl FrameCodec {
    /// A codec with these limits.
    pub fn new(limits: Limits) -> FrameCodec {
        FrameCodec { limits }
    }
}

impl Decoder for FrameCodec {
    type Item = Command;
    type Error = io::Error;

    fn decode(&mut self, src: &mut BytesMut) -> io::Result<Option<Command>> {
        frame::decode(src, &self.limits).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }
}

impl Encoder<Command> for FrameCodec {
    type Error = io::Error;

    fn encode(&mut self, command: Command, dst: &mut BytesMut) -> io::Result<()> {
        command
            .encode(dst)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
    }
}

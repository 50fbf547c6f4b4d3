//! What waits to be written to one peer.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};

use crate::command::Command;
use crate::frame::{self, AnswerTo, FrameError};
use crate::response::Response;

/// Bodies up to this many bytes are copied behind their header, which is cheaper than a slice of their own.
const INLINE_BODY_MAX: usize = 1024;
/// Room of a fresh head buffer, in bytes.
const TAIL_ROOM: usize = 8 * 1024;
/// Most slices in one vectored write.
const SLICES_MAX: usize = 64;

/// Frames in the order in which they must leave: whole slices of bodies, and between them the heads, gathered in one
/// buffer that is reused as soon as its last write is done.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    chunks: VecDeque<Bytes>,
    tail: BytesMut,
}

impl Outbound {
    /// Adds an answer and gives its length in bytes.
    pub fn push_response(
        &mut self,
        response: &Response,
        to: AnswerTo,
    ) -> Result<usize, FrameError> {
        self.make_room();
        let start = self.tail.len();
        frame::encode_response_head(response, to, &mut self.tail)?;
        let head_len = self.tail.len() - start;
        response.body.iter().for_each(|part| self.push_body(part));
        Ok(head_len + response.body_len())
    }

    /// Adds a request and gives its length in bytes.
    pub fn push_command(&mut self, command: &Command) -> Result<usize, FrameError> {
        self.make_room();
        let start = self.tail.len();
        frame::encode_head(command, &mut self.tail)?;
        let head_len = self.tail.len() - start;
        self.push_body(&command.body);
        Ok(head_len + command.body.len())
    }

    fn make_room(&mut self) {
        if self.tail.capacity() - self.tail.len() < 512 {
            self.tail.reserve(TAIL_ROOM);
        }
    }

    fn push_body(&mut self, part: &Bytes) {
        if part.len() <= INLINE_BODY_MAX {
            self.tail.extend_from_slice(part);
            return;
        }
        self.seal();
        self.chunks.push_back(part.clone());
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push_back(self.tail.split().freeze());
        }
    }

    /// Moves everything to the writer.
    pub fn take_into(&mut self, writer: &mut Pending) {
        self.seal();
        writer.chunks.append(&mut self.chunks);
    }

    /// Gives memory back when the connection has been quiet.
    pub fn shrink(&mut self) {
        if self.tail.is_empty() && self.chunks.is_empty() {
            *self = Outbound::default();
        }
    }
}

/// What the connection's task is writing.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    chunks: VecDeque<Bytes>,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Calls `write` with slices until everything is taken or it would block. Gives the number of bytes taken.
    pub fn write_with(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut taken = 0;
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
                count += 1;
            }
            match write(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    taken += n;
                    self.advance(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(taken)
    }

    fn advance(&mut self, mut n: usize) {
        while let Some(front) = self.chunks.front_mut() {
            if n < front.len() {
                front.advance(n);
                return;
            }
            n -= front.len();
            self.chunks.pop_front();
        }
    }
}

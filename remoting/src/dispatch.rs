//! What the owner of a server implements, and how it answers.

use std::sync::Arc;

use crate::codes::response_code;
use crate::command::{Command, SerializeType};
use crate::connection::Connection;
use crate::frame::AnswerTo;
use crate::response::Response;

/// Takes the requests of connections.
pub trait Dispatch: Send + Sync + 'static {
    /// A request arrived. Called on the connection's task in order of arrival; must not block. Either answers through
    /// `reply` at once, or moves it elsewhere.
    fn request(&self, connection: &Arc<Connection>, request: Command, reply: Reply);

    /// A connection was opened.
    fn connected(&self, _connection: &Arc<Connection>) {}

    /// A connection was closed; nothing that is sent to it arrives any more.
    fn closed(&self, _connection: &Arc<Connection>) {}
}

/// The right, and the duty, to answer one request. Dropped unanswered, it answers code 1 unless the request was oneway
/// or [`Reply::forget`] was called. Until then it counts against the connection's in-flight limits.
#[derive(Debug)]
pub struct Reply {
    connection: Arc<Connection>,
    to: AnswerTo,
    code: i32,
    /// Bytes of the request that count as in flight; 0 once parked.
    weight: usize,
    oneway: bool,
    parked: bool,
    done: bool,
}

impl Reply {
    /// `weight` bytes were counted as in flight by the connection.
    pub(crate) fn new(connection: Arc<Connection>, request: &Command, weight: usize) -> Reply {
        let version = connection.answer_version();
        let to = AnswerTo {
            opaque: request.opaque,
            serialize: request.serialize,
            version,
        };
        Reply {
            connection,
            to,
            code: request.code,
            weight,
            oneway: request.is_oneway(),
            parked: false,
            done: false,
        }
    }

    /// Whether the sender wants no answer; then [`Reply::send`] sends nothing.
    pub fn is_oneway(&self) -> bool {
        self.oneway
    }

    /// Code of the request.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The connection that the request came on.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends the answer. Answers given while one read buffer is being processed leave in one write.
    pub fn send(mut self, response: Response) {
        self.finish(Some(response));
    }

    /// Gives up the right to answer: the sender will get nothing.
    pub fn forget(mut self) {
        self.finish(None);
    }

    /// Takes the request out of the connection's in-flight counts, for a pull that is being held. Whoever holds it must
    /// bound how many it holds.
    pub fn park(&mut self) {
        if !self.parked {
            self.parked = true;
            self.connection.release_in_flight(self.weight);
        }
    }

    fn finish(&mut self, response: Option<Response>) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if let Some(response) = response
            && !self.oneway
        {
            self.connection.queue_response(response, self.to);
        }
        if !self.parked {
            self.connection.release_in_flight(self.weight);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.done {
            let response = Response::error(
                response_code::SYSTEM_ERROR,
                "the request was dropped without an answer",
            );
            self.finish(Some(response));
        }
    }
}

/// How the sender of a request wants to be answered.
impl Reply {
    /// Serialization of the request, which is that of the answer.
    pub fn serialize(&self) -> SerializeType {
        self.to.serialize
    }

    /// Number of the request.
    pub fn opaque(&self) -> i32 {
        self.to.opaque
    }
}

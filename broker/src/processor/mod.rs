//! What a client can ask of the broker: one router from request codes to handlers.
//!
//! A request is handled in one of four ways. Sends and pulls have paths of their own. *Quick*
//! handlers only touch memory and run on the connection's task. *Slow* ones may touch the disk and
//! run on a blocking thread. *Waiting* ones wait for somebody else, such as a consumer that is asked
//! something, and run as tasks.

mod admin;
mod bodies;
mod client;
mod consume_stats;
mod consumer;
mod forward;
mod groups;
mod pull;
mod query;
mod reply;
mod reset;
mod send;
mod send_back;
mod topics;

use std::borrow::Cow;
use std::sync::Arc;

use remoting::request_code as code;
use remoting::response_code;
use remoting::{Command, Connection, Dispatch, HeaderError, Reply, Response};

use crate::service::Broker;
use crate::store::PutError;

pub(crate) use pull::{HeldPull, execute as execute_pull};
pub(crate) use send::SendRoutes;

/// A request that is answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Response code.
    pub code: i32,
    /// Why, for people.
    pub remark: Cow<'static, str>,
}

impl Refusal {
    pub fn new(code: i32, remark: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            code,
            remark: remark.into(),
        }
    }

    /// Code 1, as Java answers most of what it cannot do.
    pub fn error(remark: impl Into<Cow<'static, str>>) -> Self {
        Refusal::new(response_code::SYSTEM_ERROR, remark)
    }

    /// An unknown topic, with the pointer to the FAQ that Java appends.
    pub fn unknown_topic(topic: &str) -> Self {
        Refusal::new(
            response_code::TOPIC_NOT_EXIST,
            format!("topic[{topic}] not exist, apply first please!{FAQ}"),
        )
    }
}

impl From<HeaderError> for Refusal {
    fn from(error: HeaderError) -> Self {
        Refusal::error(error.to_string())
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Response::error(refusal.code, refusal.remark)
    }
}

/// Why the store did not take a message: the code that clients act on, and the one true cause.
fn put_refusal(error: &PutError, broker: &Broker) -> Refusal {
    broker.stats.put_failed();
    Refusal::new(error.response_code(), error.to_string())
}

/// Appended to some remarks, as 4.9 has it.
pub(crate) const FAQ: &str = "\nSee http://rocketmq.apache.org/docs/faq/ for further details.";

/// What a handler gives back.
pub(crate) type Answer = Result<Response, Refusal>;

/// One request and where it came from.
pub(crate) struct Call {
    pub broker: Arc<Broker>,
    pub conn: Arc<Connection>,
    pub request: Command,
}

impl Call {
    /// A text field that must be there.
    pub fn text(&self, field: &'static str) -> Result<&str, HeaderError> {
        self.request.ext.require(field)
    }

    /// A number that must be there.
    pub fn i32(&self, field: &'static str) -> Result<i32, HeaderError> {
        self.request.ext.require_i32(field)
    }

    /// A number that must be there.
    pub fn i64(&self, field: &'static str) -> Result<i64, HeaderError> {
        self.request.ext.require_i64(field)
    }

    /// A body that must be there, in fastjson's dialect.
    pub fn body<T: serde::de::DeserializeOwned>(&self) -> Result<T, Refusal> {
        if self.request.body.is_empty() {
            return Err(Refusal::error("the request has no body"));
        }
        remoting::fastjson::from_slice(&self.request.body).map_err(|error| {
            Refusal::error(format!("the body of the request cannot be read: {error}"))
        })
    }
}

/// The port that a connection came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// `listenPort`: everything.
    Main,
    /// `listenPort − 2`: everything but pulls.
    Fast,
}

/// Gives each request to its handler.
#[derive(Debug)]
pub struct Router {
    broker: Arc<Broker>,
    port: Port,
}

type Handler = fn(&Call) -> Answer;

enum Lane {
    Quick(Handler),
    Slow(Handler),
    Waiting(fn(Call, Reply)),
}

impl Router {
    /// The router of one port.
    pub fn new(broker: Arc<Broker>, port: Port) -> Self {
        Router { broker, port }
    }

    fn serve(&self, lane: Lane, conn: &Arc<Connection>, request: Command, reply: Reply) {
        let call = Call {
            broker: self.broker.clone(),
            conn: conn.clone(),
            request,
        };
        match lane {
            Lane::Quick(handler) => reply.send(answer(handler(&call))),
            Lane::Slow(handler) => self
                .broker
                .blocking(move || reply.send(answer(handler(&call)))),
            Lane::Waiting(handler) => handler(call, reply),
        }
    }
}

fn answer(answer: Answer) -> Response {
    answer.unwrap_or_else(Response::from)
}

impl Dispatch for Router {
    fn request(&self, conn: &Arc<Connection>, request: Command, reply: Reply) {
        match request.code {
            code::SEND_MESSAGE | code::SEND_MESSAGE_V2 | code::SEND_BATCH_MESSAGE => {
                send::handle(&self.broker, conn, request, reply);
            }
            code::PULL_MESSAGE | code::LITE_PULL_MESSAGE if self.port == Port::Main => {
                pull::handle(&self.broker, conn, request, reply);
            }
            other => match lane(other) {
                Some(lane) => self.serve(lane, conn, request, reply),
                None => reply.send(Response::unsupported(other)),
            },
        }
    }

    fn closed(&self, conn: &Arc<Connection>) {
        client::closed(&self.broker, conn);
    }
}

/// Who handles a request code; `None`: nobody does.
fn lane(request_code: i32) -> Option<Lane> {
    use Lane::{Quick, Slow, Waiting};
    Some(match request_code {
        code::HEART_BEAT => Quick(client::heartbeat),
        code::UNREGISTER_CLIENT => Quick(client::unregister),
        code::CHECK_CLIENT_CONFIG => Quick(client::check_config),
        code::GET_CONSUMER_LIST_BY_GROUP => Quick(consumer::client_ids),
        code::QUERY_CONSUMER_OFFSET => Quick(consumer::query_offset),
        code::UPDATE_CONSUMER_OFFSET => Quick(consumer::update_offset),
        code::SEARCH_OFFSET_BY_TIMESTAMP => Slow(consumer::search_offset),
        code::GET_MAX_OFFSET => Quick(consumer::max_offset),
        code::GET_MIN_OFFSET => Quick(consumer::min_offset),
        code::GET_EARLIEST_MSG_STORETIME => Slow(consumer::earliest_time),
        code::LOCK_BATCH_MQ => Quick(client::lock_queues),
        code::UNLOCK_BATCH_MQ => Quick(client::unlock_queues),
        code::QUERY_MESSAGE => Slow(query::by_key),
        code::VIEW_MESSAGE_BY_ID => Slow(query::by_offset),
        code::QUERY_CONSUME_QUEUE => Slow(query::consume_queue),
        code::CONSUMER_SEND_MSG_BACK => Waiting(send_back::handle),
        code::END_TRANSACTION => Quick(send::end_transaction),
        code::SEND_REPLY_MESSAGE | code::SEND_REPLY_MESSAGE_V2 => Waiting(reply::handle),
        code::GET_CONSUMER_RUNNING_INFO => Waiting(forward::running_info),
        code::CONSUME_MESSAGE_DIRECTLY => Waiting(forward::consume_directly),
        code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => Waiting(forward::consumer_status),
        code::INVOKE_BROKER_TO_RESET_OFFSET => Slow(reset::handle),
        other => {
            return topics::lane(other)
                .or_else(|| groups::lane(other))
                .or_else(|| admin::lane(other));
        }
    })
}

//! The RocketMQ remoting wire: frames, commands, headers, bodies, a server and a client.
//!
//! One frame on the wire is `total length i32 | serialize type u8 + header length u24 | header | body`, all
//! big-endian (classes NettyEncoder, NettyDecoder and RemotingCommand of Apache RocketMQ 4.9.8 and 5.3.3).
//! Both ends of a connection may send requests; an answer carries the request's `opaque`.
//!
//! * [`Command`] is a decoded frame; its ext fields and body are slices of the read buffer.
//! * [`Response`] is an answer under construction; it is written straight into the connection's out buffer.
//! * [`headers`] has the typed ext fields of each request, [`body`] the JSON bodies, [`fastjson`] their dialect.
//! * [`message`] knows message properties, ids, batches, tag hashes and name rules.
//! * [`Server`] and [`Client`] move frames; [`Dispatch`] is what a server's owner implements.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use remoting::{Client, ClientConfig, Command, Connection, Dispatch, Reply, Response, Server, ServerConfig};
//!
//! struct Echo;
//! impl Dispatch for Echo {
//!     fn request(&self, _: &Arc<Connection>, request: Command, reply: Reply) {
//!         reply.send(Response::ok().field("bytes", request.body.len() as i64).body(request.body));
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let server = Server::bind("127.0.0.1:0".parse()?, ServerConfig::default(), Arc::new(Echo)).await?;
//! let client = Client::new(ClientConfig::default(), None);
//! let addr = server.local_addr().to_string();
//! let answer = client.call(&addr, Command::request(10).with_body("hello"), Duration::from_secs(3)).await?;
//! assert_eq!((&answer.body[..], answer.ext.get("bytes")), (&b"hello"[..], Some("5")));
//! server.shutdown(Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```

pub mod body;
pub mod client;
pub mod codec;
pub mod codes;
pub mod command;
mod connection;
pub mod dispatch;
pub mod ext_fields;
pub mod fastjson;
pub mod frame;
mod header_binary;
mod header_json;
pub mod headers;
pub mod language;
pub mod limits;
pub mod message;
mod outbound;
pub mod response;
pub mod server;

pub use client::{CallError, Client, ClientConfig};
pub use codec::FrameCodec;
pub use codes::{request_code, response_code};
pub use command::{Command, SerializeType};
pub use connection::Connection;
pub use dispatch::{Dispatch, Reply};
pub use ext_fields::{ExtFields, HeaderError};
pub use frame::FrameError;
pub use language::Language;
pub use limits::Limits;
pub use response::{FieldValue, Response};
pub use server::{Server, ServerConfig, ServerStats};

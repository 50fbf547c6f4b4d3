//! A replicated log in the disk and wire formats of DLedger.
//!
//! The log stores opaque bodies and knows nothing about messages. [`Log`] is the handle that everything else uses;
//! below it lie the files ([`store`], [`recovery`], [`fs`]), the pure raft core ([`raft`]) and the bodies of the
//! members' requests ([`rpc`]).
//!
//! This version serves groups of one member. It goes through the same core as a larger group: an election in a newly
//! entered term whose vote is on disk before it is spoken, and a commit for every append.
//!
//! ```
//! use std::sync::Arc;
//!
//! use dledger::fs::RealFs;
//! use dledger::peers::{MemberId, Peers};
//! use dledger::store::{NoCheck, StoreConfig};
//! use dledger::{Log, LogConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path();
//! let store = StoreConfig::new(root.join("dledger-n0"), 1024 * 1024);
//! let peers = Peers::parse("n0-127.0.0.1:40911")?;
//! let config = LogConfig::new("group", MemberId::parse("n0")?, peers, store);
//!
//! // Recovers what is on disk; then elects itself.
//! let (log, _recovery) = Log::open(Arc::new(RealFs), config, Arc::new(NoCheck), 0)?;
//! log.start().await?;
//!
//! // The body is written in place, in the segment; where it lies is known before.
//! let body = b"hello";
//! let (at, appended) =
//!     log.append_with(|appender| appender.push(body.len(), |slice, _at| slice.copy_from_slice(body)))?;
//! log.committed(&appended).await?;
//! assert!(log.committed_pos() >= at.end_pos());
//!
//! // Read it back, without a copy.
//! let read = log.reader().slice(at.body_pos(), body.len())?;
//! assert_eq!(&read[..], body);
//!
//! log.shutdown().await?;
//! # Ok(())
//! # })
//! # }
//! ```

pub mod checkpoint;
mod driver;
pub mod entry;
pub mod fs;
pub mod index_unit;
mod log;
pub mod peers;
mod pending;
mod properties;
pub mod raft;
pub mod recovery;
pub mod rpc;
pub mod store;
pub mod vote_file;

pub use log::{
    AppendError, Appended, Appender, CommitError, CommitWatch, Durability, Log, LogConfig,
    MAX_BODY_SIZE, OpenError, RoleChange, ShutdownError, StartError, Status, SyncStatus,
};

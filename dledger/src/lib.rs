//! A replicated log in the disk and wire formats of DLedger.

pub mod checkpoint;
pub mod entry;
pub mod fs;
pub mod index_unit;
pub mod peers;
mod properties;
pub mod raft;
pub mod recovery;
pub mod store;
pub mod vote_file;

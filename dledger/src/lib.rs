//! A replicated log in the disk and wire formats of DLedger.

pub mod peers;
pub mod raft;

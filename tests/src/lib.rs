//! End-to-end tests of LedgerMQ: real processes, real clients, crash images.
//!
//! This library is the harness that the integration tests under `tests/tests/` share:
//! [`fixture`] unpacks the stores that real brokers wrote, [`ledger`] reads the lists of what is
//! in them, [`scan`] reads a store directory byte by byte and independently of the crates under
//! test, [`stock`] runs the stock Java broker, [`lab`] the stock Java clients, [`clients`] the Go
//! and Python ones, [`ours`] runs `mqbroker` and `mqctl`, [`conf`] writes broker configurations.

pub mod clients;
pub mod compare;
pub mod conf;
pub mod deps;
pub mod exercise;
pub mod fixture;
pub mod lab;
pub mod ledger;
pub mod load;
pub mod ours;
pub mod ports;
pub mod process;
pub mod scan;
pub mod source;
pub mod stock;

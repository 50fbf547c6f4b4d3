//! End-to-end tests of LedgerMQ: real processes, real clients, crash images.
//!
//! This library is the harness that the integration tests under `tests/tests/` share:
//! [`fixture`] unpacks the stores that real brokers wrote, [`ledger`] reads the lists of what
//! is in them.

pub mod fixture;
pub mod ledger;

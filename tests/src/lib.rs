//! End-to-end tests of LedgerMQ: real processes, real clients, crash images.

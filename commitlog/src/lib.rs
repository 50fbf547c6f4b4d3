//! The message log: RocketMQ message frames in a DLedger log, and the legacy commitlog before it.

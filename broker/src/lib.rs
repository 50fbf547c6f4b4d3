//! The broker that RocketMQ clients talk to, and its tools: mqbroker and mqctl.

pub mod config;
pub mod ctl;
pub mod stats;
pub mod tables;

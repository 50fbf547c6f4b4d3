//! The broker that RocketMQ clients talk to, and its tools: mqbroker and mqctl.

pub mod app;
pub mod clients;
pub mod config;
pub mod ctl;
pub mod embedded_namesrv;
pub mod filter;
pub mod hold;
pub mod namesrv;
pub mod processor;
pub mod service;
pub mod stats;
pub mod store;
pub mod tables;

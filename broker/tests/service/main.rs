//! A whole broker in this process, spoken to over its ports.

mod common;
mod consumers;
mod hostile;
mod pulls;
mod replay;
mod retention;
mod sends;
mod start_stop;
mod tools;

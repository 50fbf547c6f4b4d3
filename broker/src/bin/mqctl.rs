//! The operator's tool; see `mqctl --help`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    broker::ctl::run(broker::ctl::Cli::parse())
}

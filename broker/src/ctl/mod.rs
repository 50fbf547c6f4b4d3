//! `mqctl`: the operator's tool. Each sub-command is a module; this one has the command line.

mod consume;
mod send;
mod session;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Command line of `mqctl`.
#[derive(Debug, Parser)]
#[command(
    name = "mqctl",
    version,
    about = "Looks at LedgerMQ and RocketMQ stores and brokers"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sends messages to any RocketMQ broker.
    Send(send::SendArgs),
    /// Pulls messages from any RocketMQ broker and prints them.
    Consume(consume::ConsumeArgs),
    /// Looks at stores of stopped brokers.
    #[command(subcommand)]
    Store(store::StoreCommand),
}

/// Runs one command. Errors go to stderr as one line.
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Send(args) => block_on(send::run(args)),
        Command::Consume(args) => block_on(consume::run(args)),
        Command::Store(command) => Ok(store::run(command)),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mqctl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

//! The broker process.

use std::process::ExitCode;
use std::time::Duration;

use broker::app::App;
use broker::config::{Cli, Environment, Loaded};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Threads for work that may wait for the disk.
const BLOCKING_THREADS: usize = 64;

/// How long threads may take to end.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// Exit code of a start that was refused, and of an end that was not clean.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let loaded = match Loaded::read(&cli, &Environment::from_process()) {
        Ok(loaded) => loaded,
        Err(error) => return refused(&error),
    };
    if cli.print || cli.print_important {
        let text = if cli.print {
            loaded.config.print_all()
        } else {
            loaded.config.print_important()
        };
        print!("{text}");
        return ExitCode::SUCCESS;
    }
    if let Err(error) = loaded.runnable() {
        return refused(&error);
    }
    log_to_stderr();
    loaded
        .notes
        .iter()
        .for_each(|note| tracing::warn!("{note}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(run(loaded));
            // A start that was broken off may still be reading the log: it is left as after a kill.
            runtime.shutdown_timeout(LEAVE_AFTER);
            code
        }
        Err(error) => refused(&error),
    }
}

/// One line to the operator, without a log's prefix.
fn refused(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("mqbroker: {error}");
    ExitCode::from(FAILED)
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("LEDGERMQ_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}

async fn run(loaded: Loaded) -> ExitCode {
    let signals = signal(SignalKind::terminate())
        .and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
    let (mut terminate, mut interrupt) = match signals {
        Ok(signals) => signals,
        Err(error) => return refused(&error),
    };
    let app = tokio::select! {
        started = App::start(loaded) => match started {
            Ok(app) => app,
            Err(error) => return refused(&error),
        },
        // A start may take long; nothing of it needs to be undone, the next one goes on.
        _ = terminate.recv() => return ExitCode::SUCCESS,
        _ = interrupt.recv() => return ExitCode::SUCCESS,
    };
    let poisoned = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        cause = app.until_poisoned() => Some(cause),
    };
    if let Some(cause) = &poisoned {
        tracing::error!(%cause, "the log takes nothing any more: the broker ends");
    }
    match app.stop().await {
        Ok(()) if poisoned.is_none() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(FAILED),
        Err(error) => refused(&error),
    }
}

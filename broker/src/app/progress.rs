//! How far a long start is: a bar on a terminal, lines in the log otherwise.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::store::{OnStage, Stage};

/// Cells of the bar.
const WIDTH: u64 = 30;
/// Work that takes less than this is not shown.
const QUIET_FOR: Duration = Duration::from_millis(500);
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(5);

struct State {
    what: &'static str,
    begun: Instant,
    shown: Option<Instant>,
}

/// A reporter for the start of a broker.
pub fn show() -> OnStage {
    let terminal = std::io::stderr().is_terminal();
    let state = Mutex::new(State {
        what: "",
        begun: Instant::now(),
        shown: None,
    });
    Arc::new(move |stage| {
        let mut state = state.lock();
        if state.what != stage.what {
            *state = State {
                what: stage.what,
                begun: Instant::now(),
                shown: None,
            };
        }
        let elapsed = state.begun.elapsed();
        let every = if terminal { BAR_EVERY } else { LINE_EVERY };
        let finished = stage.done >= stage.total;
        let due = state.shown.is_none_or(|at| at.elapsed() >= every)
            || (finished && state.shown.is_some());
        if elapsed < QUIET_FOR || !due {
            return;
        }
        state.shown = if finished { None } else { Some(Instant::now()) };
        if terminal {
            let end = if finished { "\n" } else { "" };
            let _ = write!(std::io::stderr(), "\r{}{end}", bar(stage, elapsed));
        } else {
            tracing::info!("{}", line(stage, elapsed));
        }
    })
}

fn percent(stage: Stage) -> u64 {
    stage
        .done
        .saturating_mul(100)
        .checked_div(stage.total)
        .unwrap_or(100)
        .min(100)
}

fn bar(stage: Stage, elapsed: Duration) -> String {
    let full = (percent(stage) * WIDTH / 100) as usize;
    let empty = WIDTH as usize - full;
    format!(
        "[{}{}] {}",
        "#".repeat(full),
        " ".repeat(empty),
        line(stage, elapsed)
    )
}

fn line(stage: Stage, elapsed: Duration) -> String {
    let mib = |bytes: u64| bytes >> 20;
    let rate = stage.done as f64 / elapsed.as_secs_f64().max(0.001);
    let left = stage.total.saturating_sub(stage.done) as f64 / rate.max(1.0);
    format!(
        "{:3} % {}: {} of {} MiB, {:.0} MiB/s, about {:.0} s left",
        percent(stage),
        stage.what,
        mib(stage.done),
        mib(stage.total),
        rate / f64::from(1 << 20),
        left
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        let half = Stage {
            what: "recovering",
            done: 50 << 20,
            total: 100 << 20,
        };
        let text = bar(half, Duration::from_secs(1));
        assert!(text.starts_with(
            "[###############               ]  50 % recovering: 50 of 100 MiB, 50 MiB/s"
        ));
        assert!(text.ends_with("about 1 s left"));
        assert_eq!(
            percent(Stage {
                what: "",
                done: 0,
                total: 0
            }),
            100
        );
    }
}

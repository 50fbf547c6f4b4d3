//! One counted thing, with the windows that request 315 answers from.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

/// Samples of a window: the oldest and the newest bound it, so n samples span n − 1 intervals.
const MINUTE_SAMPLES: usize = 7;
const HOUR_SAMPLES: usize = 7;
const DAY_SAMPLES: usize = 25;

/// Which windows a sampling round feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// Every 10 s.
    Minute,
    /// Every 10 minutes.
    Hour,
    /// Every hour.
    Day,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ms: i64,
    value: i64,
    times: i64,
}

/// Sum, rate and average of one window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Amount counted within the window.
    pub sum: i64,
    /// Amount a second.
    pub tps: f64,
    /// Amount by occasion.
    pub avgpt: f64,
}

/// The three windows of an item.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Windows {
    /// The last minute.
    pub minute: Window,
    /// The last hour.
    pub hour: Window,
    /// The last day.
    pub day: Window,
}

#[derive(Debug, Default)]
struct History {
    minute: VecDeque<Sample>,
    hour: VecDeque<Sample>,
    day: VecDeque<Sample>,
}

/// A counter of amounts and occasions. Counting is two relaxed additions.
#[derive(Debug, Default)]
pub(super) struct Item {
    value: AtomicI64,
    times: AtomicI64,
    history: Mutex<History>,
}

impl Item {
    pub fn add(&self, amount: i64) {
        self.value.fetch_add(amount, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }

    pub fn sample(&self, round: Round, at_ms: i64) {
        let value = self.value.load(Ordering::Relaxed);
        let sample = Sample {
            at_ms,
            value,
            times: self.times.load(Ordering::Relaxed),
        };
        let mut history = self.history.lock();
        let (window, max) = match round {
            Round::Minute => (&mut history.minute, MINUTE_SAMPLES),
            Round::Hour => (&mut history.hour, HOUR_SAMPLES),
            Round::Day => (&mut history.day, DAY_SAMPLES),
        };
        if window.is_empty() {
            // What was counted before the first sample belongs to the window too.
            window.push_back(Sample {
                at_ms,
                value: 0,
                times: 0,
            });
            if value == 0 {
                return;
            }
        }
        if window.len() == max {
            window.pop_front();
        }
        window.push_back(sample);
    }

    pub fn windows(&self) -> Windows {
        let history = self.history.lock();
        Windows {
            minute: window(&history.minute),
            hour: window(&history.hour),
            day: window(&history.day),
        }
    }

    /// True if a whole day went by without a count: nobody will miss the item.
    pub fn is_stale(&self) -> bool {
        let history = self.history.lock();
        let (Some(first), Some(last)) = (history.day.front(), history.day.back()) else {
            return false;
        };
        history.day.len() == DAY_SAMPLES
            && first.times == last.times
            && last.times == self.times.load(Ordering::Relaxed)
    }
}

fn window(samples: &VecDeque<Sample>) -> Window {
    let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
        return Window::default();
    };
    let sum = last.value - first.value;
    let times = last.times - first.times;
    let elapsed_ms = last.at_ms - first.at_ms;
    Window {
        sum,
        tps: if elapsed_ms > 0 {
            sum as f64 * 1000.0 / elapsed_ms as f64
        } else {
            0.0
        },
        avgpt: if times > 0 {
            sum as f64 / times as f64
        } else {
            0.0
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_span_their_samples() {
        let item = Item::default();
        assert_eq!(item.windows(), Windows::default());
        item.sample(Round::Minute, 0);
        for i in 1..=10 {
            item.add(4);
            item.sample(Round::Minute, i * 10_000);
        }
        let minute = item.windows().minute;
        assert_eq!(
            minute,
            Window {
                sum: 24,
                tps: 0.4,
                avgpt: 4.0
            }
        );
        assert_eq!(item.windows().hour, Window::default());
    }

    #[test]
    fn what_came_before_the_first_sample_counts() {
        let item = Item::default();
        item.add(10);
        item.sample(Round::Minute, 5_000);
        item.sample(Round::Minute, 15_000);
        assert_eq!(
            item.windows().minute,
            Window {
                sum: 10,
                tps: 1.0,
                avgpt: 10.0
            }
        );
    }

    #[test]
    fn an_item_is_stale_after_a_day_of_silence() {
        let item = Item::default();
        item.add(1);
        for hour in 0..DAY_SAMPLES as i64 {
            assert!(!item.is_stale());
            item.sample(Round::Day, hour * 3_600_000);
        }
        item.sample(Round::Day, 1 << 40);
        assert!(item.is_stale());
        item.add(1);
        assert!(!item.is_stale());
    }
}

//! Totals since the start, and rates over 10 s, 60 s and 600 s, as the runtime info shows them.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds that are looked back over.
const SPANS: [usize; 3] = [10, 60, 600];

/// What is sampled every second.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at_ms: i64,
    put: u64,
    found: u64,
    miss: u64,
    transferred: u64,
}

/// Counters of the store as a whole.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    /// Messages stored.
    pub put: AtomicU64,
    /// Bytes of stored messages.
    pub put_bytes: AtomicU64,
    /// Puts that failed.
    pub put_failed: AtomicU64,
    /// Pulls that found something.
    pub found: AtomicU64,
    /// Pulls that found nothing.
    pub miss: AtomicU64,
    /// Messages handed out.
    pub transferred: AtomicU64,
    /// Longest read in ms.
    pub get_max_ms: AtomicU64,
    samples: Mutex<VecDeque<Sample>>,
    mornings: Mutex<Mornings>,
}

/// Totals at the last two midnights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mornings {
    /// Local day that the totals belong to; days of the common era.
    day: i32,
    pub put_yesterday: u64,
    pub put_today: u64,
    pub got_yesterday: u64,
    pub got_today: u64,
}

/// Rates over the three spans.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub put: [f64; 3],
    pub found: [f64; 3],
    pub miss: [f64; 3],
    pub transferred: [f64; 3],
}

impl Throughput {
    pub fn sample(&self, at_ms: i64, local_day: i32) {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let sample = Sample {
            at_ms,
            put: read(&self.put),
            found: read(&self.found),
            miss: read(&self.miss),
            transferred: read(&self.transferred),
        };
        let mut samples = self.samples.lock();
        if samples.len() > SPANS[2] {
            samples.pop_front();
        }
        samples.push_back(sample);
        drop(samples);
        let mut mornings = self.mornings.lock();
        if mornings.day != local_day {
            // The first sample after the start opens a day whose totals begin at 0, as in Java.
            let first = mornings.day == 0;
            *mornings = Mornings {
                day: local_day,
                put_yesterday: mornings.put_today,
                put_today: if first { 0 } else { sample.put },
                got_yesterday: mornings.got_today,
                got_today: if first { 0 } else { sample.transferred },
            };
        }
    }

    pub fn mornings(&self) -> Mornings {
        *self.mornings.lock()
    }

    /// Rates as far back as there are samples, at most over the span.
    pub fn rates(&self) -> Rates {
        let samples = self.samples.lock();
        let mut rates = Rates::default();
        let Some(last) = samples.back() else {
            return rates;
        };
        for (i, span) in SPANS.iter().enumerate() {
            let first = samples[samples.len().saturating_sub(span + 1)];
            let elapsed_ms = last.at_ms - first.at_ms;
            if elapsed_ms > 0 {
                let rate = |now: u64, then: u64| (now - then) as f64 * 1000.0 / elapsed_ms as f64;
                rates.put[i] = rate(last.put, first.put);
                rates.found[i] = rate(last.found, first.found);
                rates.miss[i] = rate(last.miss, first.miss);
                rates.transferred[i] = rate(last.transferred, first.transferred);
            }
        }
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_over_the_three_spans() {
        let counters = Throughput::default();
        assert_eq!(counters.rates(), Rates::default());
        for second in 0..700i64 {
            counters.sample(second * 1000, 1);
            counters
                .put
                .fetch_add(if second < 650 { 10 } else { 100 }, Ordering::Relaxed);
        }
        let put = counters.rates().put;
        assert_eq!(put[0], 100.0);
        assert_eq!(put[1], (11.0 * 10.0 + 49.0 * 100.0) / 60.0);
        assert!((17.0..18.0).contains(&put[2]), "{put:?}");
        assert_eq!(counters.samples.lock().len(), 601);
    }

    #[test]
    fn mornings_move_at_midnight() {
        let counters = Throughput::default();
        counters.put.store(5, Ordering::Relaxed);
        counters.sample(0, 10);
        assert_eq!(counters.mornings().put_today, 0);
        counters.put.store(8, Ordering::Relaxed);
        counters.sample(1000, 11);
        assert_eq!(
            (
                counters.mornings().put_yesterday,
                counters.mornings().put_today
            ),
            (0, 8)
        );
        counters.sample(2000, 12);
        assert_eq!(
            (
                counters.mornings().put_yesterday,
                counters.mornings().put_today
            ),
            (8, 8)
        );
    }
}

//! How long puts took: Java's distribution by fixed buckets, and percentiles.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in ms, exclusive, and their labels; the first holds what took less than a millisecond.
const BUCKETS: [(u64, &str); 13] = [
    (1, "[<=0ms]"),
    (10, "[0~10ms]"),
    (50, "[10~50ms]"),
    (100, "[50~100ms]"),
    (200, "[100~200ms]"),
    (500, "[200~500ms]"),
    (1000, "[500ms~1s]"),
    (2000, "[1~2s]"),
    (3000, "[2~3s]"),
    (4000, "[3~4s]"),
    (5000, "[4~5s]"),
    (10_000, "[5~10s]"),
    (u64::MAX, "[10s~]"),
];
/// Four steps for each doubling of microseconds, up to 2^30 µs: percentiles within 19 %.
const STEPS: usize = 4;
const FINE: usize = 31 * STEPS;

/// Counts of the minute that is running.
#[derive(Debug)]
struct Minute {
    coarse: [AtomicU64; BUCKETS.len()],
    fine: [AtomicU64; FINE],
}

impl Default for Minute {
    fn default() -> Self {
        Self {
            coarse: [const { AtomicU64::new(0) }; BUCKETS.len()],
            fine: [const { AtomicU64::new(0) }; FINE],
        }
    }
}

/// What a full minute came to.
#[derive(Debug, Clone, PartialEq)]
struct Report {
    distribution: String,
    p99_ms: f64,
    p999_ms: f64,
}

/// Latencies of puts; counting is a few relaxed additions.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    running: Minute,
    max_ms: AtomicU64,
    last: Mutex<Option<Report>>,
}

impl Latencies {
    pub fn record(&self, elapsed: Duration) {
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS
            .iter()
            .position(|(bound, _)| ms < *bound)
            .unwrap_or(BUCKETS.len() - 1);
        self.running.coarse[bucket].fetch_add(1, Ordering::Relaxed);
        self.running.fine[fine_bucket(us)].fetch_add(1, Ordering::Relaxed);
        if ms > self.max_ms.load(Ordering::Relaxed) {
            self.max_ms.fetch_max(ms, Ordering::Relaxed);
        }
    }

    /// Ends the running minute.
    pub fn roll(&self) {
        let mut distribution = String::new();
        for ((_, label), count) in BUCKETS.iter().zip(&self.running.coarse) {
            distribution.push_str(&format!("{label}:{} ", count.swap(0, Ordering::Relaxed)));
        }
        let fine: Vec<u64> = self
            .running
            .fine
            .iter()
            .map(|c| c.swap(0, Ordering::Relaxed))
            .collect();
        let report = Report {
            distribution,
            p99_ms: percentile(&fine, 0.99),
            p999_ms: percentile(&fine, 0.999),
        };
        *self.last.lock() = Some(report);
    }

    pub fn max_ms(&self) -> u64 {
        self.max_ms.load(Ordering::Relaxed)
    }

    /// (distribution, 99 %, 99.9 %) of the last full minute as Java prints them.
    pub fn report(&self) -> (String, String, String) {
        match self.last.lock().as_ref() {
            None => ("null".into(), "0.00".into(), "0.00".into()),
            Some(r) => (
                r.distribution.clone(),
                format!("{:.2}", r.p99_ms),
                format!("{:.2}", r.p999_ms),
            ),
        }
    }
}

fn fine_bucket(us: u64) -> usize {
    let us = us.max(1);
    let exponent = us.ilog2() as usize;
    let step = if exponent >= 2 {
        (us >> (exponent - 2)) as usize & (STEPS - 1)
    } else {
        0
    };
    (exponent * STEPS + step).min(FINE - 1)
}

/// Upper bound of a bucket in ms.
fn fine_bound_ms(bucket: usize) -> f64 {
    let (exponent, step) = (bucket / STEPS, bucket % STEPS);
    (1u64 << exponent) as f64 * (1.0 + (step + 1) as f64 / STEPS as f64) / 1000.0
}

fn percentile(counts: &[u64], share: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    let wanted = (total as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= wanted && total > 0 {
            return fine_bound_ms(bucket);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_reads_as_javas() {
        let latencies = Latencies::default();
        assert_eq!(
            latencies.report(),
            ("null".into(), "0.00".into(), "0.00".into())
        );
        for us in [10, 999, 1000, 9_999, 10_000, 20_000_000] {
            latencies.record(Duration::from_micros(us));
        }
        latencies.roll();
        let expected = "[<=0ms]:2 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 \
                        [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 ";
        assert_eq!(latencies.report().0, expected);
        assert_eq!(latencies.max_ms(), 20_000);
        latencies.roll();
        assert!(latencies.report().0.starts_with("[<=0ms]:0 "));
    }

    #[test]
    fn percentiles_are_close() {
        let latencies = Latencies::default();
        (1..=1000).for_each(|ms| latencies.record(Duration::from_millis(ms)));
        latencies.roll();
        let p99: f64 = latencies.report().1.parse().unwrap();
        assert!((900.0..1200.0).contains(&p99), "{p99}");
    }
}

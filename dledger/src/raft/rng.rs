//! The core's source of jitter: a small deterministic generator, seeded by the caller. Equal seeds give equal runs.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..span`, or 0 when the span is empty.
    pub(super) fn below(&mut self, span: i64) -> i64 {
        if span <= 0 {
            0
        } else {
            (self.next() % span as u64) as i64
        }
    }
}

//! What the leader knows about one follower, and how much it may have in flight towards it.

use std::collections::VecDeque;

use super::Millis;

/// Bounds of a replication window. Both hold at once: a follower that does not answer costs the leader at most
/// `entries` bookkeeping records and `bytes` of buffered sends, however far it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Most entries in flight.
    pub entries: usize,
    /// Most bytes in flight; a single larger entry still goes out alone.
    pub bytes: usize,
}

impl Default for WindowLimits {
    fn default() -> Self {
        WindowLimits {
            entries: 1000,
            bytes: 8 << 20,
        }
    }
}

/// One flight: entries `first ..= last`, sent together and answered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Index of the first entry.
    pub first: i64,
    /// Index of the last entry.
    pub last: i64,
    /// Encoded bytes of the flight.
    pub bytes: usize,
    /// When it was sent.
    pub sent_at: Millis,
}

/// Flights that are out, oldest first, bounded by count and bytes.
#[derive(Clone, Debug)]
pub struct Window {
    limits: WindowLimits,
    flights: VecDeque<Flight>,
    entries: usize,
    bytes: usize,
}

impl Window {
    /// An empty window.
    pub fn new(limits: WindowLimits) -> Window {
        assert!(
            limits.entries > 0 && limits.bytes > 0,
            "a window without room can never send"
        );
        Window {
            limits,
            flights: VecDeque::new(),
            entries: 0,
            bytes: 0,
        }
    }

    /// How many more entries and bytes may leave now; `None` when full. An idle window always admits one entry.
    pub fn room(&self) -> Option<WindowLimits> {
        let entries = self.limits.entries - self.entries;
        let bytes = self.limits.bytes.saturating_sub(self.bytes);
        (entries > 0 && bytes > 0).then_some(WindowLimits { entries, bytes })
    }

    /// Notes a flight that left. Flights are contiguous and ascending.
    pub fn sent(&mut self, flight: Flight) {
        let count = (flight.last - flight.first + 1) as usize;
        assert!(
            flight.first <= flight.last,
            "a flight carries at least one entry"
        );
        assert!(
            self.entries + count <= self.limits.entries,
            "window bounded by count"
        );
        assert!(self.bytes < self.limits.bytes, "window bounded by bytes");
        if let Some(newest) = self.flights.back() {
            assert_eq!(flight.first, newest.last + 1, "flights are contiguous");
        }
        self.entries += count;
        self.bytes += flight.bytes;
        self.flights.push_back(flight);
    }

    /// Drops every flight that lies wholly at or below `index`: an answer for a later entry answers earlier ones too.
    pub fn answered_to(&mut self, index: i64) {
        while let Some(oldest) = self.flights.front().copied() {
            if oldest.last > index {
                break;
            }
            self.entries -= (oldest.last - oldest.first + 1) as usize;
            self.bytes -= oldest.bytes;
            self.flights.pop_front();
        }
    }

    /// The flight that waits longest.
    pub fn oldest(&self) -> Option<&Flight> {
        self.flights.front()
    }

    /// Forgets all flights; what they carried is sent again after the next comparison.
    pub fn clear(&mut self) {
        self.flights.clear();
        self.entries = 0;
        self.bytes = 0;
    }

    /// Entries in flight.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Bytes in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// One follower as its leader sees it.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Highest index that the follower is known to hold equal to ours *in this term*; −1 before the first match.
    pub matched: i64,
    /// Send time of the newest heartbeat that this follower answered with success; stamped at the election (L7).
    pub heard_at: Millis,
    /// Whether the last answer was a success; a transfer needs a live target (R04).
    pub live: bool,
    /// Entries in flight.
    pub window: Window,
}

impl Progress {
    /// A follower about which nothing is known yet.
    pub fn new(now: Millis, limits: WindowLimits) -> Progress {
        Progress {
            matched: -1,
            heard_at: now,
            live: false,
            window: Window::new(limits),
        }
    }

    /// The follower holds everything up to `index`. Marks never move back within a term.
    pub fn matched_to(&mut self, index: i64) {
        self.matched = self.matched.max(index);
        self.window.answered_to(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_entry_leaves_alone() {
        let mut window = Window::new(WindowLimits {
            entries: 10,
            bytes: 100,
        });
        window.sent(Flight {
            first: 0,
            last: 0,
            bytes: 5000,
            sent_at: 0,
        });
        assert_eq!(window.room(), None);
        window.answered_to(0);
        assert_eq!(
            window.room(),
            Some(WindowLimits {
                entries: 10,
                bytes: 100
            })
        );
    }

    #[test]
    fn a_later_answer_covers_earlier_flights_and_marks_do_not_move_back() {
        let mut progress = Progress::new(
            0,
            WindowLimits {
                entries: 10,
                bytes: 100,
            },
        );
        for index in 0..5 {
            progress.window.sent(Flight {
                first: index,
                last: index,
                bytes: 10,
                sent_at: 0,
            });
        }
        progress.matched_to(3);
        assert_eq!(
            (progress.window.entries(), progress.window.bytes()),
            (1, 10)
        );
        progress.matched_to(1);
        assert_eq!(progress.matched, 3);
        assert_eq!(progress.window.oldest().map(|f| f.first), Some(4));
    }

    proptest! {
        /// Whatever a follower answers, the window stays within its limits (a single oversized entry apart).
        #[test]
        fn stays_bounded(steps in proptest::collection::vec((1usize..4, 1usize..60, any::<bool>()), 1..200)) {
            let limits = WindowLimits { entries: 8, bytes: 100 };
            let mut window = Window::new(limits);
            let (mut next, mut answered) = (0i64, -1i64);
            for (count, bytes, answer) in steps {
                if answer {
                    answered = (answered + 1).min(next - 1);
                    window.answered_to(answered);
                } else if let Some(room) = window.room() {
                    let count = count.min(room.entries);
                    window.sent(Flight { first: next, last: next + count as i64 - 1, bytes: bytes.min(room.bytes), sent_at: 0 });
                    next += count as i64;
                }
                prop_assert!(window.entries() <= limits.entries && window.bytes() <= limits.bytes);
            }
        }
    }
}

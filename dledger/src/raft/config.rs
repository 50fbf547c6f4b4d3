//! What a core is told at its start.

use super::Millis;
use super::message::Peer;
use super::progress::WindowLimits;
use super::quorum;

/// Java's timers, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Between two heartbeats of a leader.
    pub heartbeat: Millis,
    /// How many heartbeats may be missing before a follower campaigns or a leader without a quorum steps down.
    pub heartbeat_leak: Millis,
    /// Least pause between two vote rounds.
    pub vote_pause_min: Millis,
    /// Largest pause between two vote rounds.
    pub vote_pause_max: Millis,
    /// Least time that a round waits for answers.
    pub round_wait: Millis,
    /// Largest addition to `round_wait`.
    pub round_wait_jitter: Millis,
    /// How much longer a round in the present term listens for the voice of a leader once a majority would agree.
    pub listen: Millis,
    /// Addition to the pause when most peers have a better log.
    pub behind_pause: Millis,
    /// Pause before a round is repeated because peers were still adopting its term.
    pub revote_pause: Millis,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            heartbeat: 2000,
            heartbeat_leak: 3,
            vote_pause_min: 300,
            vote_pause_max: 1000,
            round_wait: 2000,
            round_wait_jitter: 1000,
            listen: 150,
            behind_pause: 1000,
            revote_pause: 15,
        }
    }
}

impl Timers {
    /// A follower's time-out and a leader's longest time without a quorum.
    pub fn leader_timeout(&self) -> Millis {
        self.heartbeat * self.heartbeat_leak
    }
}

/// When an entry counts as acknowledged by a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Acknowledge {
    /// When it is in the page cache (class P).
    #[default]
    Written,
    /// When it is synced (class S).
    Synced,
}

/// Why a member must not vote for a candidate that has entries, nor campaign (a lost or damaged log).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Abstain {
    /// It may vote.
    #[default]
    No,
    /// Its log is empty while others may have entries: until it has taken an entry.
    WhileEmpty,
    /// Its log ends below what it once vouched for: until it has that index again.
    Until(i64),
}

/// A core's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many members the group has.
    pub members: u8,
    /// Which one this is.
    pub me: Peer,
    /// Timers.
    pub timers: Timers,
    /// Most uncommitted entries before appends are refused; 10 000 in Java.
    pub pending_max: i64,
    /// Bounds of each follower's window.
    pub window: WindowLimits,
    /// When an entry counts.
    pub acknowledge: Acknowledge,
    /// Whether this member must hold back in elections.
    pub abstain: Abstain,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Config {
    /// A member of a group with defaults for everything else.
    pub fn new(members: u8, me: Peer) -> Config {
        assert!(
            members > 0 && me.0 < members,
            "a member is one of its group"
        );
        Config {
            members,
            me,
            timers: Timers::default(),
            pending_max: 10_000,
            window: WindowLimits::default(),
            acknowledge: Acknowledge::default(),
            abstain: Abstain::default(),
            seed: 0,
        }
    }

    pub(super) fn majority(&self) -> usize {
        quorum::majority(usize::from(self.members))
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Peer> + use<> {
        let me = self.me;
        (0..self.members).map(Peer).filter(move |&p| p != me)
    }
}

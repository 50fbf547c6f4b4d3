//! The properties of a message that the broker looks at, found in one pass.

use remoting::message::{properties, property};

/// Properties by which 5.x schedules a message to the millisecond, which this version does not serve.
const TIMER: [&[u8]; 3] = [b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS"];

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Noticed<'a> {
    /// `WAIT` is there.
    pub wait: bool,
    /// `CLUSTER` is there.
    pub cluster: bool,
    /// `TRAN_MSG` says true.
    pub half_message: bool,
    /// `DELAY`, whatever it says.
    pub delay: Option<&'a [u8]>,
    /// A timer property is there.
    pub timer: bool,
    /// `REAL_TOPIC` or `REAL_QID` is there: the message was delayed before.
    pub real_place: bool,
}

impl<'a> Noticed<'a> {
    /// Looks at each pair once.
    pub fn of(raw: &'a [u8]) -> Self {
        let mut noticed = Noticed::default();
        for (name, value) in properties::pairs(raw) {
            match name {
                b"WAIT" => noticed.wait = true,
                b"CLUSTER" => noticed.cluster = true,
                b"TRAN_MSG" => noticed.half_message = value.eq_ignore_ascii_case(b"true"),
                b"DELAY" => noticed.delay = Some(value),
                b"REAL_TOPIC" | b"REAL_QID" => noticed.real_place = true,
                _ if TIMER.contains(&name) => noticed.timer = true,
                _ => {}
            }
        }
        debug_assert_eq!(property::WAIT, "WAIT");
        noticed
    }

    /// The delay level: 0 without one, an error if it is no number.
    pub fn delay_level(&self) -> Result<i32, String> {
        let Some(value) = self.delay else {
            return Ok(0);
        };
        let text = String::from_utf8_lossy(value);
        text.parse()
            .map_err(|_| format!("the delay level '{text}' (property DELAY) is no number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_is_noticed() {
        let noticed = Noticed::of(b"KEYS\x01k\x02WAIT\x01true\x02DELAY\x013\x02TRAN_MSG\x01TRUE");
        assert!(noticed.wait && noticed.half_message && !noticed.cluster && !noticed.timer);
        assert_eq!(noticed.delay_level(), Ok(3));
        assert!(Noticed::of(b"TIMER_DELAY_MS\x0110\x02").timer);
        assert!(Noticed::of(b"DELAY\x01x\x02").delay_level().is_err());
        assert_eq!(Noticed::of(b""), Noticed::default());
    }
}

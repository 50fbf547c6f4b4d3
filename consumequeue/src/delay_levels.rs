//! The table of delay levels: `1s 5s 10s … 2h`.

use crate::error::Error;

/// Levels 1… of the broker key `messageDelayLevel`, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevels {
    millis: Vec<i64>,
}

/// Java's default table, levels 1 to 18.
pub const DEFAULT_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// What a level that the table does not have is worth.
const MISSING_LEVEL_MILLIS: i64 = 1000;

impl DelayLevels {
    /// Parses blank-separated numbers with a unit `s`, `m`, `h` or `d`.
    pub fn parse(text: &str) -> Result<DelayLevels, Error> {
        let millis = text
            .split_whitespace()
            .map(|item| {
                level_millis(item).ok_or_else(|| Error::DelayLevel {
                    item: item.to_owned(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(DelayLevels { millis })
    }

    /// The highest level.
    pub fn max_level(&self) -> i32 {
        i32::try_from(self.millis.len()).unwrap_or(i32::MAX)
    }

    /// Delay of a level in milliseconds; a level above the highest counts as the highest.
    pub fn millis(&self, level: i32) -> i64 {
        usize::try_from(level.min(self.max_level()))
            .ok()
            .and_then(|level| self.millis.get(level.checked_sub(1)?).copied())
            .unwrap_or(MISSING_LEVEL_MILLIS)
    }

    /// When a message of this level, stored at `store_timestamp`, is due; `None` for levels below 1,
    /// which mean no delay.
    pub fn deliver_time(&self, level: i32, store_timestamp: i64) -> Option<i64> {
        (level.min(self.max_level()) > 0)
            .then(|| store_timestamp.saturating_add(self.millis(level)))
    }
}

impl Default for DelayLevels {
    fn default() -> Self {
        let millis = DEFAULT_LEVELS.split(' ').filter_map(level_millis).collect();
        DelayLevels { millis }
    }
}

fn level_millis(item: &str) -> Option<i64> {
    let unit = match item.as_bytes().last()? {
        b's' => 1000,
        b'm' => 60_000,
        b'h' => 3_600_000,
        b'd' => 86_400_000,
        _ => return None,
    };
    let number: i64 = item[..item.len() - 1].parse().ok()?;
    number.checked_mul(unit).filter(|millis| *millis >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_table() {
        let levels = DelayLevels::default();
        assert_eq!(levels, DelayLevels::parse(DEFAULT_LEVELS).unwrap());
        assert_eq!(levels.max_level(), 18);
        assert_eq!((levels.millis(1), levels.millis(18)), (1000, 7_200_000));
        assert_eq!(levels.millis(99), 7_200_000);
        assert_eq!(levels.deliver_time(3, 5), Some(10_005));
        assert_eq!(levels.deliver_time(0, 5), None);
    }

    #[test]
    fn nonsense_is_named() {
        for text in ["1s 5", "x", "1w", "-1s", "9223372036854775807d", "é"] {
            assert!(DelayLevels::parse(text).is_err(), "{text}");
        }
        assert_eq!(DelayLevels::parse("2d").unwrap().millis(1), 172_800_000);
        assert_eq!(DelayLevels::parse("").unwrap().deliver_time(1, 7), None);
    }
}

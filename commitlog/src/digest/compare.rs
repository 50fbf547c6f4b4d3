//! Comparing digests: the first difference, and the mend.

use std::fmt;
use std::ops::Range;

use super::{Digest, RecordHash};

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Positions that all of them have.
    pub common: Range<i64>,
    /// The first difference; none if all that they have in common is equal.
    pub difference: Option<Difference>,
    /// Labels of those whose log ends before the longest one's, with the end.
    pub shorter: Vec<(String, i64)>,
    /// Labels of those whose log begins behind the longest one's, with the begin.
    pub front_missing: Vec<(String, i64)>,
}

/// A difference between two stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The DLedger halves begin at different positions.
    Divide {
        /// Label and divide of one.
        one: (String, Option<i64>),
        /// Label and divide of the other.
        other: (String, Option<i64>),
    },
    /// A record differs, or is there in one of them only.
    Record {
        /// Labels of the two.
        labels: (String, String),
        /// Where the first difference is.
        position: i64,
    },
    /// Some record in a range differs; which one is not known from these digests.
    Range {
        /// Labels of the two.
        labels: (String, String),
        /// The range.
        range: Range<i64>,
    },
    /// The digests were made with different range lengths.
    Incomparable {
        /// Labels of the two.
        labels: (String, String),
    },
}

/// Compares each digest with the first.
pub fn compare(digests: &[Digest]) -> Comparison {
    let begin = digests.iter().map(|d| d.begin).max().unwrap_or(0);
    let end = digests.iter().map(|d| d.end).min().unwrap_or(0);
    let longest = digests.iter().map(|d| d.end).max().unwrap_or(0);
    let earliest = digests.iter().map(|d| d.begin).min().unwrap_or(0);
    let common = begin..end.max(begin);
    let labelled = |differs: &dyn Fn(&Digest) -> Option<i64>| -> Vec<(String, i64)> {
        digests
            .iter()
            .filter_map(|d| Some((d.label.clone(), differs(d)?)))
            .collect()
    };
    let difference = digests.split_first().and_then(|(first, others)| {
        let differences = others
            .iter()
            .filter_map(|other| difference(first, other, &common));
        differences.min_by_key(Difference::position)
    });
    Comparison {
        difference,
        shorter: labelled(&|d| (d.end < longest).then_some(d.end)),
        front_missing: labelled(&|d| (d.begin > earliest).then_some(d.begin)),
        common,
    }
}

impl Difference {
    /// Where it is, for order; a differing divide counts first.
    fn position(&self) -> i64 {
        match self {
            Difference::Incomparable { .. } => i64::MIN,
            Difference::Divide { .. } => i64::MIN + 1,
            Difference::Record { position, .. } => *position,
            Difference::Range { range, .. } => range.start,
        }
    }
}

fn difference(one: &Digest, other: &Digest, common: &Range<i64>) -> Option<Difference> {
    let labels = (one.label.clone(), other.label.clone());
    if one.range_bytes != other.range_bytes {
        return Some(Difference::Incomparable { labels });
    }
    // A member without a legacy half, or not upgraded yet, has no divide to compare.
    if one.divide.is_some() && other.divide.is_some() && one.divide != other.divide {
        return Some(Difference::Divide {
            one: (labels.0, one.divide),
            other: (labels.1, other.divide),
        });
    }
    let record = first_record(one, other, common);
    let range = first_range(one, other, common);
    match (record, range) {
        (Some(position), Some(range)) if position < range.end => {
            Some(Difference::Record { labels, position })
        }
        (_, Some(range)) => Some(Difference::Range { labels, range }),
        (Some(position), None) => Some(Difference::Record { labels, position }),
        (None, None) => None,
    }
}

/// The first range, wholly inside the common part, whose hashes differ.
fn first_range(one: &Digest, other: &Digest, common: &Range<i64>) -> Option<Range<i64>> {
    let len = one.range_bytes;
    let inside = |start: i64| start >= common.start && start + len <= common.end;
    let mut mine = one.ranges.iter().filter(|r| inside(r.start)).peekable();
    let mut theirs = other.ranges.iter().filter(|r| inside(r.start)).peekable();
    loop {
        match (mine.peek(), theirs.peek()) {
            (None, None) => return None,
            (Some(a), Some(b)) if a == b => {
                mine.next();
                theirs.next();
            }
            (a, b) => {
                let start = a.into_iter().chain(b).map(|r| r.start).min()?;
                return Some(start..start + len);
            }
        }
    }
}

/// The first record that differs where both list their records.
fn first_record(one: &Digest, other: &Digest, common: &Range<i64>) -> Option<i64> {
    let start = one.detail.start.max(other.detail.start).max(common.start);
    let end = one.detail.end.min(other.detail.end).min(common.end);
    let listed = |digest: &Digest| -> Vec<RecordHash> {
        digest
            .records
            .iter()
            .copied()
            .filter(|r| (start..end).contains(&r.position))
            .collect()
    };
    let (mine, theirs) = (listed(one), listed(other));
    let same = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let next = mine.get(same).into_iter().chain(theirs.get(same));
    next.map(|record| record.position).min()
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.difference {
            None => write!(f, "equal from {} to {}", self.common.start, self.common.end)?,
            Some(difference) => write!(f, "{difference}")?,
        }
        for (label, end) in &self.shorter {
            write!(
                f,
                "\n{label} ends at {end}, before the others: copy commitlog/, consumequeue/, index/, checkpoint and \
                 config/ from a longer one before the group's first start"
            )?;
        }
        for (label, begin) in &self.front_missing {
            write!(
                f,
                "\n{label} begins at {begin}, behind the others: its older messages have expired or are missing"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mend = "decide which one is right (the former master's), stop all, and copy its commitlog/, consumequeue/, \
                    index/, checkpoint and config/ as one set to the others, keeping file times";
        match self {
            Difference::Divide { one, other } => {
                let at =
                    |divide: &Option<i64>| divide.map_or("nowhere".to_string(), |d| d.to_string());
                write!(
                    f,
                    "the divide differs: {} has it at {}, {} at {}. Members with different divides cannot form a \
                     group: {mend}, without their dledger-* folders",
                    one.0,
                    at(&one.1),
                    other.0,
                    at(&other.1)
                )
            }
            Difference::Record { labels, position } => {
                write!(
                    f,
                    "{} and {} differ first in the record at {position}: {mend}",
                    labels.0, labels.1
                )
            }
            Difference::Range { labels, range } => write!(
                f,
                "{} and {} differ in a record between {} and {}; digest both again with records listed from {} to {} \
                 to see which. {mend}",
                labels.0, labels.1, range.start, range.end, range.start, range.end
            ),
            Difference::Incomparable { labels } => {
                write!(
                    f,
                    "the digests of {} and {} were made with different range lengths",
                    labels.0, labels.1
                )
            }
        }
    }
}

//! Tag filters: which units of a consume queue a subscription wants.
//!
//! The broker compares the 32-bit hash that the consume queue carries; clients compare the text
//! again, so a hash collision costs bytes, never a wrong delivery.

use remoting::message::java_hash;
use thiserror::Error;

/// Expression type of tag subscriptions, also meant when a request names none.
pub const TAG: &str = "TAG";

/// What a `SQL92` subscription is told while property filters are not served.
pub const SQL92_NOT_SUPPORTED: &str =
    "The broker does not support consumer to filter message by SQL92";

/// A subscription text that names no tag at all, such as `||`.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("subscription expression `{0}` names no tag")]
pub struct ExpressionError(String);

/// True for the expression types that mean tags: absent, empty or `TAG`.
pub fn is_tag_type(expression_type: Option<&str>) -> bool {
    matches!(expression_type, None | Some("" | TAG))
}

/// The tags of a subscription, as hash codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagFilter {
    /// `None` takes every message.
    codes: Option<Box<[i32]>>,
}

impl TagFilter {
    /// The filter that takes everything.
    pub const fn all() -> Self {
        TagFilter { codes: None }
    }

    /// Reads `*`, an empty text or tags joined by `||`.
    pub fn parse(expression: Option<&str>) -> Result<Self, ExpressionError> {
        let expression = expression.unwrap_or_default();
        if expression.is_empty() || expression == "*" {
            return Ok(Self::all());
        }
        let mut codes: Vec<i32> = tags(expression).map(java_hash).collect();
        if codes.is_empty() {
            return Err(ExpressionError(expression.to_owned()));
        }
        codes.sort_unstable();
        codes.dedup();
        Ok(TagFilter {
            codes: Some(codes.into()),
        })
    }

    /// The filter of a subscription as heartbeats describe it: its text decides whether everything
    /// is wanted, its code set what else is.
    pub fn from_codes(sub_string: &str, class_filter: bool, codes: &[i32]) -> Self {
        if class_filter || sub_string.is_empty() || sub_string == "*" {
            return Self::all();
        }
        let mut codes: Vec<i32> = if codes.is_empty() {
            tags(sub_string).map(java_hash).collect()
        } else {
            codes.to_vec()
        };
        codes.sort_unstable();
        codes.dedup();
        TagFilter {
            codes: Some(codes.into()),
        }
    }

    /// True if a unit with this tags code is wanted. The code is the hash widened to 64 bits; for
    /// the schedule topic it is a time, of which the low half is compared, as Java does.
    pub fn matches(&self, tags_code: i64) -> bool {
        match &self.codes {
            None => true,
            Some(codes) => codes.contains(&(tags_code as i32)),
        }
    }

    /// True if every message is taken.
    pub fn takes_all(&self) -> bool {
        self.codes.is_none()
    }
}

/// The tags of an expression, trimmed, blank ones left out.
pub fn tags(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split("||")
        .map(str::trim)
        .filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_taken_without_tags() {
        for expression in [None, Some(""), Some("*")] {
            let filter = TagFilter::parse(expression).unwrap();
            assert!(filter.takes_all() && filter.matches(0) && filter.matches(-7));
        }
    }

    #[test]
    fn tags_are_compared_by_their_java_hash() {
        let filter = TagFilter::parse(Some(" TagA || TagB||")).unwrap();
        assert!(filter.matches(2_598_919) && filter.matches(2_598_920));
        assert!(!filter.matches(0) && !filter.matches(2_598_921));
    }

    #[test]
    fn separators_alone_are_an_error() {
        assert!(TagFilter::parse(Some("||")).is_err());
        assert!(TagFilter::parse(Some(" | ")).is_ok());
    }

    #[test]
    fn a_heartbeat_without_codes_is_read_from_its_text() {
        let filter = TagFilter::from_codes("TagA", false, &[]);
        assert!(filter.matches(2_598_919) && !filter.matches(1));
        assert!(TagFilter::from_codes("TagA", true, &[5]).takes_all());
    }
}

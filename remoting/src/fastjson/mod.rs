//! The JSON dialect of Alibaba's fastjson 1.2, in which brokers, tools and config files speak.
//!
//! It differs from JSON: integer keys stand without quotes (`{0:5}`), objects stand as keys
//! (`{{"brokerName":"a","queueId":0,"topic":"t"}:5}`), null members are left out. [`parse`] reads that and plain JSON
//! alike; [`to_vec`], [`to_vec_pretty`] and [`to_vec_standard`] write what fastjson prints.

mod escape;
mod read;
mod write;

pub use read::{ParseError, ParseLimits, from_slice, from_slice_with, parse, parse_with};
pub use write::{WriteError, to_string, to_vec, to_vec_pretty, to_vec_standard};

pub(crate) use escape::{may_need_escape, put_escape};

#[cfg(test)]
mod tests;

//! Typed values of configuration keys: how each is read and printed.

use std::fmt;

/// A type that a configuration key can have.
pub trait SettingValue: Sized {
    /// What a reader is told that the value must be.
    const EXPECTED: &'static str;
    /// Short name for the table of keys.
    const KIND: &'static str;
    /// Reads the text of a value; `None` when it makes no sense.
    fn parse(text: &str) -> Option<Self>;
    /// The text as Java prints it.
    fn render(&self) -> String;
}

macro_rules! integer {
    ($type:ty, $kind:literal, $expected:literal) => {
        impl SettingValue for $type {
            const EXPECTED: &'static str = $expected;
            const KIND: &'static str = $kind;
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn render(&self) -> String {
                self.to_string()
            }
        }
    };
}

integer!(i32, "int", "a 32-bit integer without suffix");
integer!(i64, "long", "a 64-bit integer without suffix");

impl SettingValue for bool {
    const EXPECTED: &'static str = "true or false";
    const KIND: &'static str = "boolean";
    /// Java takes everything but `true` for false; here anything else than the two words is an error.
    fn parse(text: &str) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case("true") => Some(true),
            _ if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }
    fn render(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for String {
    const EXPECTED: &'static str = "text";
    const KIND: &'static str = "string";
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_string())
    }
    fn render(&self) -> String {
        self.clone()
    }
}

/// `flushDiskType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushDiskType {
    /// Acknowledged before it is synced: durability class P.
    Async,
    /// Acknowledged after it is synced: durability class S.
    Sync,
}

impl SettingValue for FlushDiskType {
    const EXPECTED: &'static str = "ASYNC_FLUSH or SYNC_FLUSH";
    const KIND: &'static str = "enum";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "ASYNC_FLUSH" => Some(Self::Async),
            "SYNC_FLUSH" => Some(Self::Sync),
            _ => None,
        }
    }
    fn render(&self) -> String {
        match self {
            Self::Async => "ASYNC_FLUSH".into(),
            Self::Sync => "SYNC_FLUSH".into(),
        }
    }
}

/// `brokerRole`; in a DLedger group the role comes from the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerRole {
    /// The default.
    AsyncMaster,
    /// Accepted like the default.
    SyncMaster,
    /// Refused: a slave of master/slave replication.
    Slave,
}

impl SettingValue for BrokerRole {
    const EXPECTED: &'static str = "ASYNC_MASTER, SYNC_MASTER or SLAVE";
    const KIND: &'static str = "enum";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "ASYNC_MASTER" => Some(Self::AsyncMaster),
            "SYNC_MASTER" => Some(Self::SyncMaster),
            "SLAVE" => Some(Self::Slave),
            _ => None,
        }
    }
    fn render(&self) -> String {
        match self {
            Self::AsyncMaster => "ASYNC_MASTER".into(),
            Self::SyncMaster => "SYNC_MASTER".into(),
            Self::Slave => "SLAVE".into(),
        }
    }
}

/// Hours of the day at which expired files may be deleted, as in `deleteWhen=04` or `02;04;16`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours(Vec<u8>);

impl Hours {
    /// True if `hour` (0 to 23, local time) is one of them.
    pub fn contains(&self, hour: u32) -> bool {
        self.0.iter().any(|h| u32::from(*h) == hour)
    }
}

impl SettingValue for Hours {
    const EXPECTED: &'static str = "hours from 00 to 23, several joined by ;";
    const KIND: &'static str = "string";
    fn parse(text: &str) -> Option<Self> {
        let hours = text.split(';').map(str::trim).filter(|h| !h.is_empty());
        let hours: Option<Vec<u8>> = hours.map(|h| h.parse().ok().filter(|h| *h < 24)).collect();
        hours.filter(|h| !h.is_empty()).map(Hours)
    }
    fn render(&self) -> String {
        self.0
            .iter()
            .map(|h| format!("{h:02}"))
            .collect::<Vec<_>>()
            .join(";")
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

/// Types of the keys that are known but not honoured: enough to tell a sensible value from nonsense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32-bit integer.
    Int,
    /// 64-bit integer.
    Long,
    /// `true` or `false`.
    Bool,
    /// Floating point number.
    Double,
    /// Any text.
    Text,
}

impl Kind {
    /// True if `text` is a value of this kind.
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::Int => i32::parse(text).is_some(),
            Self::Long => i64::parse(text).is_some(),
            Self::Bool => bool::parse(text).is_some(),
            Self::Double => text.parse::<f64>().is_ok(),
            Self::Text => true,
        }
    }

    /// What a value of this kind must be, for messages.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Int => i32::EXPECTED,
            Self::Long => i64::EXPECTED,
            Self::Bool => bool::EXPECTED,
            Self::Double => "a number",
            Self::Text => String::EXPECTED,
        }
    }

    /// Short name for the table of keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => i32::KIND,
            Self::Long => i64::KIND,
            Self::Bool => bool::KIND,
            Self::Double => "double",
            Self::Text => String::KIND,
        }
    }
}

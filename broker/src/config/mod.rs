//! The broker's configuration: Apache's `broker.conf` and command line, with honest answers.
//!
//! Format and keys: RocketMQ 4.9 and 5.3 (`BrokerConfig`, `MessageStoreConfig`, `NettyServerConfig`). Every key is
//! one of: honoured (a field of [`BrokerConfig`]), accepted without effect (named once, with what happens instead),
//! refused unless it has its default, or unknown (named once). A value that makes no sense stops the start with one
//! line that names key, value and what was expected.

mod access;
mod addresses;
mod check;
mod document;
mod keys;
mod load;
mod others;
mod properties;
mod settings;
mod value;

pub use addresses::{join as join_address, parse_ip, resolve, split_list};
pub use document::markdown;
pub use keys::{BrokerConfig, Effect, HONOURED, HonouredKey};
pub use load::{Cli, ConfigError, ConfigSource, Environment, Loaded};
pub use others::{ACCEPTED, AcceptedKey, REFUSED, RefusedKey};
pub use properties::{MalformedEscape, PropertyFile};
pub use settings::{Settings, UpdateError, Updated};
pub use value::{BrokerRole, FlushDiskType, Hours, Kind, SettingValue};

#[cfg(test)]
mod tests;

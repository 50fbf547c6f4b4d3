//! The broker's tables, kept in the store's `config/*.json` in Java's form: a stock broker reads what is written
//! here, and what it wrote is read and preserved here, members included that we do not know.

mod file;
mod group;
mod groups;
pub mod json;
mod offsets;
mod topic;
mod topics;
mod version;

pub use file::{Origin, SaveTime, Table, TableError, TableFile, keep_saved, save};
pub use group::GroupConfig;
pub use groups::GroupTable;
pub use offsets::{Commit, ConsumerOffsets};
pub use topic::{TopicConfig, perm};
pub use topics::{
    DLQ_PREFIX, NotCreated, RETRY_PREFIX, SCHEDULE_TOPIC, TBW102, TopicChange, TopicTable,
};
pub use version::{DataVersion, now_ms};

#[cfg(test)]
mod tests;

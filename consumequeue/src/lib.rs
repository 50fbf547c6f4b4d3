//! What is derived from the message log: consume queues, key index, dispatcher.
//!
//! The log is the truth; everything here can be made from it again, and gives the same bytes as a Java broker's.
//!
//! - [`ConsumeQueues`]: for each queue of a topic, where its messages lie in the log;
//! - [`KeyIndex`]: messages by key;
//! - [`Dispatcher`]: fills both from what is committed, resumes after any stop, and tells who waits;
//! - [`time_search`]: queue offset by store time; [`offset_table`]: the next offset of each queue.

mod audit;
mod batch;
mod commitlog_source;
mod delay_levels;
mod descriptors;
mod dispatcher;
mod error;
mod index;
mod log;
mod marks;
pub mod offset_table;
mod queue;
mod queues;
mod record;
pub mod recovery;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod time_search;
mod unit;

pub use batch::Arrival;
pub use delay_levels::{DEFAULT_LEVELS, DelayLevels};
pub use dispatcher::{Arrivals, CatchUp, Checkpoint, Dispatcher, DispatcherConfig, Progress};
pub use error::Error;
pub use index::{IndexConfig, IndexEntry, IndexReport, KeyIndex, matches};
pub use log::{CommitWatch, Frames, LogFrame, MessageLog};
pub use marks::MarkFile;
pub use queue::ConsumeQueue;
pub use queues::{ConsumeQueues, DamagedQueue, QueuesConfig, QueuesReport};
pub use record::Record;
pub use unit::{UNIT_SIZE, Unit};

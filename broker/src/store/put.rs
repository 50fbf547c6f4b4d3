//! Storing messages, and what keeps a message from being stored.

use std::sync::atomic::Ordering;

use commitlog::frame::MessageToStore;
use commitlog::{PutError as LogError, QueueSlot};
use dledger::Appended;
use remoting::message::{BatchItems, property, topic};
use remoting::response_code;

use super::MessageStore;

/// A message, or a batch of them, in the log.
#[derive(Debug)]
pub struct Stored {
    /// Where the first message lies.
    pub physical_offset: i64,
    /// Its offset in its queue.
    pub queue_offset: i64,
    /// Number of messages.
    pub count: usize,
    /// Bytes of their records.
    pub bytes: usize,
    appended: Appended,
    /// Of a batch: where each message lies.
    offsets: Option<Box<[i64]>>,
}

impl Stored {
    /// Where each message of a batch lies; `None` for a single message.
    pub fn offsets(&self) -> Option<&[i64]> {
        self.offsets.as_deref()
    }
}

/// The delay of a message.
#[derive(Debug, Clone, Copy)]
pub struct Delay<'a> {
    /// Level, from 1; levels beyond the last count as the last.
    pub level: i32,
    /// The message's own queue id as text.
    pub queue_id: &'a str,
    /// The message may carry the place of an earlier delay, to be replaced.
    pub replaces_real_place: bool,
}

/// Why a message is not in the log, or not known to be.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The log's reason.
    #[error(transparent)]
    Log(#[from] LogError),
    /// So full that nothing more is stored, to keep what is there safe.
    #[error(
        "the disk of the store is too full (diskSpaceWarningLevelRatio): nothing more is stored until there is room"
    )]
    DiskTooFull,
    /// The broker is on its way down.
    #[error("the broker is stopping")]
    Stopping,
}

impl PutError {
    /// The code that clients act on: some make them try another broker.
    pub fn response_code(&self) -> i32 {
        match self {
            PutError::DiskTooFull | PutError::Stopping => response_code::SERVICE_NOT_AVAILABLE,
            PutError::Log(error) => match error {
                LogError::MessageIllegal(_) | LogError::PropertiesSizeExceeded(_) => {
                    response_code::MESSAGE_ILLEGAL
                }
                LogError::ServiceNotAvailable(_) => response_code::SERVICE_NOT_AVAILABLE,
                LogError::OsPageCacheBusy(_) => response_code::SYSTEM_BUSY,
                LogError::FlushDiskTimeout => response_code::FLUSH_DISK_TIMEOUT,
                LogError::InSyncReplicasNotEnough | LogError::Unknown(_) => {
                    response_code::SYSTEM_ERROR
                }
            },
        }
    }
}

impl MessageStore {
    /// Stores a message.
    pub fn put(&self, message: &MessageToStore<'_>, slot: &QueueSlot) -> Result<Stored, PutError> {
        self.accepts()?;
        let put = self.log.put(message, slot)?;
        Ok(Stored {
            physical_offset: put.physical_offset,
            queue_offset: put.queue_offset,
            count: 1,
            bytes: put.size,
            appended: put.appended,
            offsets: None,
        })
    }

    /// Stores a message where those of its delay level wait. It keeps its own topic and queue as
    /// properties.
    pub fn put_delayed<'a>(
        &self,
        mut message: MessageToStore<'a>,
        delay: Delay<'a>,
    ) -> Result<Stored, PutError> {
        if delay.replaces_real_place {
            message.properties.remove(property::REAL_TOPIC);
            message.properties.remove(property::REAL_QUEUE_ID);
        }
        message.properties.add(property::REAL_TOPIC, message.topic);
        message
            .properties
            .add(property::REAL_QUEUE_ID, delay.queue_id);
        message.topic = topic::SCHEDULE;
        message.queue_id = delay.level.min(self.levels.max_level()) - 1;
        let slot = self.slot(topic::SCHEDULE, message.queue_id);
        self.put(&message, &slot)
    }

    /// Stores the messages of a batch body; what they have in common is taken from `template`.
    pub fn put_batch(
        &self,
        template: &MessageToStore<'_>,
        slot: &QueueSlot,
    ) -> Result<Stored, PutError> {
        self.accepts()?;
        let put = self
            .log
            .put_batch(template, BatchItems::new(template.body), slot)?;
        Ok(Stored {
            physical_offset: put.physical_offsets.first().copied().unwrap_or(-1),
            queue_offset: put.queue_offset,
            count: put.count(),
            bytes: put.size,
            appended: put.appended,
            offsets: Some(put.physical_offsets.into_boxed_slice()),
        })
    }

    fn accepts(&self) -> Result<(), PutError> {
        if self.disk_full.load(Ordering::Relaxed) {
            return Err(PutError::DiskTooFull);
        }
        if self.stopping.load(Ordering::Relaxed) {
            return Err(PutError::Stopping);
        }
        Ok(())
    }

    /// Whether a message is committed, without waiting.
    pub fn is_committed(&self, stored: &Stored) -> bool {
        self.log.is_committed(&stored.appended)
    }

    /// Waits until a message is committed, but not for ever.
    pub async fn committed(&self, stored: &Stored) -> Result<(), PutError> {
        Ok(self.log.wait(&stored.appended).await?)
    }
}

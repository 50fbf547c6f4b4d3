//! Storing messages. Everything that can be refused is checked, and the body's CRC computed, before the log's lock is
//! taken; under it the queue offset is assigned and the frame is written straight into its place in the segment.

use std::borrow::Cow;

use dledger::{AppendError, Appended, Appender, CommitError};
use remoting::message::{BatchError, BatchItem, sys_flag};
use smallvec::SmallVec;

use super::{DLedgerCommitLog, now_ms};
use crate::QueueSlot;
use crate::frame::{EncodeError, Encoded, MessageToStore, PropertySource, takes_queue_offset};

/// A stored message.
#[derive(Debug, Clone, Copy)]
pub struct Put {
    /// Where its frame lies.
    pub physical_offset: i64,
    /// Its offset in the queue.
    pub queue_offset: i64,
    /// Bytes of its frame.
    pub size: usize,
    /// When it was stored, ms.
    pub store_timestamp: i64,
    /// Its entry, to be waited for.
    pub appended: Appended,
}

/// A stored batch: every message is an entry of its own, with successive queue offsets.
#[derive(Debug, Clone)]
pub struct PutBatch {
    /// Where the frames lie.
    pub physical_offsets: SmallVec<[i64; 32]>,
    /// Offset of the first message in the queue.
    pub queue_offset: i64,
    /// Bytes of all frames.
    pub size: usize,
    /// When the first was stored, ms.
    pub store_timestamp: i64,
    /// The entries, to be waited for.
    pub appended: Appended,
}

impl PutBatch {
    /// Number of messages.
    pub fn count(&self) -> usize {
        self.physical_offsets.len()
    }
}

/// Why a message was not stored, or is not known to be. Each kind is one of Java's put statuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// MESSAGE_ILLEGAL: topic, body or whole message beyond the limits. Not stored.
    #[error("{0}")]
    MessageIllegal(Cow<'static, str>),
    /// PROPERTIES_SIZE_EXCEEDED. Not stored.
    #[error("the properties take {0} bytes, at most 32767 are allowed")]
    PropertiesSizeExceeded(usize),
    /// SERVICE_NOT_AVAILABLE, with the one true cause. Not stored.
    #[error("{0}")]
    ServiceNotAvailable(Cow<'static, str>),
    /// OS_PAGECACHE_BUSY: too much is waiting. Not stored.
    #[error("{0}")]
    OsPageCacheBusy(Cow<'static, str>),
    /// IN_SYNC_REPLICAS_NOT_ENOUGH: stored here, but no majority acknowledged it in time; it may still be committed.
    #[error("no majority acknowledged the message in time")]
    InSyncReplicasNotEnough,
    /// FLUSH_DISK_TIMEOUT: stored, but not known to be on disk in time.
    #[error("the message is stored, but was not synced in time")]
    FlushDiskTimeout,
    /// UNKNOWN_ERROR: it may be stored or not.
    #[error("{0}")]
    Unknown(Cow<'static, str>),
}

impl PutError {
    /// Whether it is certain that nothing was stored.
    pub fn is_certainly_not_stored(&self) -> bool {
        !matches!(
            self,
            Self::InSyncReplicasNotEnough | Self::FlushDiskTimeout | Self::Unknown(_)
        )
    }

    fn illegal(error: impl std::fmt::Display) -> PutError {
        PutError::MessageIllegal(error.to_string().into())
    }
}

impl From<EncodeError> for PutError {
    fn from(error: EncodeError) -> PutError {
        match error {
            EncodeError::PropertiesTooLong(len) => PutError::PropertiesSizeExceeded(len),
            other => PutError::illegal(other),
        }
    }
}

impl From<BatchError> for PutError {
    fn from(error: BatchError) -> PutError {
        PutError::illegal(error)
    }
}

/// Of an append of which nothing was written.
impl From<AppendError> for PutError {
    fn from(error: AppendError) -> PutError {
        match error {
            AppendError::NotLeader { .. }
            | AppendError::Transferring
            | AppendError::DiskFull(_)
            | AppendError::Poisoned(_)
            | AppendError::Io(_)
            | AppendError::Stopped => PutError::ServiceNotAvailable(error.to_string().into()),
            AppendError::PendingFull => PutError::OsPageCacheBusy(error.to_string().into()),
            AppendError::TooLarge { .. } => PutError::illegal(error),
            AppendError::Rejected(error) => PutError::Unknown(error.to_string().into()),
        }
    }
}

impl From<CommitError> for PutError {
    fn from(error: CommitError) -> PutError {
        match error {
            CommitError::Timeout => PutError::InSyncReplicasNotEnough,
            other => PutError::Unknown(other.to_string().into()),
        }
    }
}

impl DLedgerCommitLog {
    /// Stores a message in the queue of `slot`. Whether it is committed then tells
    /// [`is_committed`](Self::is_committed); [`wait`](Self::wait) waits for it.
    pub fn put(&self, message: &MessageToStore<'_>, slot: &QueueSlot) -> Result<Put, PutError> {
        self.check_topic(message.topic)?;
        let encoded = message.prepare()?;
        self.check_size(&encoded)?;
        let advances = takes_queue_offset(message.sys_flag);
        let ((physical_offset, queue_offset, store_timestamp), appended) = self
            .inner
            .log
            .append_with(|appender| push(appender, &encoded, slot, advances))?;
        let size = encoded.encoded_len();
        Ok(Put {
            physical_offset,
            queue_offset,
            size,
            store_timestamp,
            appended,
        })
    }

    /// Stores the messages of a batch, all or (but for a disk that becomes full in the middle) none. Everything but
    /// flag, body and properties is taken from `template`; its own body and properties are not stored.
    pub fn put_batch<'a>(
        &self,
        template: &MessageToStore<'a>,
        items: impl IntoIterator<Item = Result<BatchItem<'a>, BatchError>>,
        slot: &QueueSlot,
    ) -> Result<PutBatch, PutError> {
        self.check_topic(template.topic)?;
        if sys_flag::transaction_type(template.sys_flag) != sys_flag::TRANSACTION_NOT {
            return Err(PutError::illegal("a batch cannot be part of a transaction"));
        }
        let mut checked: SmallVec<[(BatchItem<'a>, PropertySource<'a>); 32]> = SmallVec::new();
        for item in items {
            let item = item?;
            checked.push((item, PropertySource::raw(item.properties)));
        }
        let mut encoded: SmallVec<[Encoded<'_, 'a>; 32]> = SmallVec::new();
        let mut total = 0;
        for (item, properties) in &checked {
            let item = template.prepare_item(item.flag, item.body, properties)?;
            self.check_size(&item)?;
            total += item.encoded_len();
            encoded.push(item);
        }
        if encoded.is_empty() {
            return Err(PutError::illegal("the batch holds no message"));
        }
        let max = self.max_message_size();
        if total > max {
            return Err(PutError::illegal(format!(
                "the batch takes {total} bytes, at most {max} are allowed"
            )));
        }
        self.append_batch(&encoded, total, slot)
    }

    fn append_batch(
        &self,
        encoded: &[Encoded<'_, '_>],
        size: usize,
        slot: &QueueSlot,
    ) -> Result<PutBatch, PutError> {
        let mut physical_offsets: SmallVec<[i64; 32]> = SmallVec::with_capacity(encoded.len());
        let mut first = None;
        let appended = self.inner.log.append_with(|appender| {
            for item in encoded {
                let (physical_offset, queue_offset, store_timestamp) =
                    push(appender, item, slot, true)?;
                physical_offsets.push(physical_offset);
                first.get_or_insert((queue_offset, store_timestamp));
            }
            Ok(())
        });
        match (appended, first) {
            (Ok(((), appended)), Some((queue_offset, store_timestamp))) => Ok(PutBatch {
                physical_offsets,
                queue_offset,
                size,
                store_timestamp,
                appended,
            }),
            (Err(error), Some(_)) => Err(PutError::Unknown(
                format!(
                    "{} of {} messages of the batch are stored: {error}",
                    physical_offsets.len(),
                    encoded.len()
                )
                .into(),
            )),
            (Err(error), None) => Err(error.into()),
            (Ok(_), None) => Err(PutError::illegal("the batch holds no message")),
        }
    }

    /// Whether a put is committed, without waiting.
    pub fn is_committed(&self, appended: &Appended) -> bool {
        self.inner.log.is_committed(appended)
    }

    /// Waits until a put is committed, at most as long as the log's acknowledgement time-out.
    pub async fn wait(&self, appended: &Appended) -> Result<(), PutError> {
        self.inner
            .log
            .committed(appended)
            .await
            .map_err(PutError::from)
    }

    fn check_topic(&self, topic: &str) -> Result<(), PutError> {
        let (len, max) = (topic.len(), self.inner.max_topic_len);
        if len > max {
            Err(EncodeError::TopicTooLong { len, max }.into())
        } else {
            Ok(())
        }
    }

    fn check_size(&self, encoded: &Encoded<'_, '_>) -> Result<(), PutError> {
        let (len, max) = (encoded.body_len(), self.max_message_size());
        if len > max {
            return Err(EncodeError::BodyTooLarge { len, max }.into());
        }
        let (len, max) = (encoded.encoded_len(), self.inner.max_frame);
        if len > max {
            Err(EncodeError::FrameTooLarge { len, max }.into())
        } else {
            Ok(())
        }
    }
}

/// Appends one frame, under the log's lock: physical offset, queue offset, store time.
#[inline]
fn push(
    appender: &mut Appender<'_>,
    encoded: &Encoded<'_, '_>,
    slot: &QueueSlot,
    advances: bool,
) -> Result<(i64, i64, i64), AppendError> {
    let queue_offset = if advances { slot.next() } else { 0 };
    let store_timestamp = now_ms();
    let at = appender.push(encoded.encoded_len(), |frame, at| {
        encoded.encode_into(frame, queue_offset, at.body_pos(), store_timestamp);
    })?;
    if advances {
        slot.advance(1);
    }
    Ok((at.body_pos(), queue_offset, store_timestamp))
}

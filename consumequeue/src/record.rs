//! What the queues and the index take from a message record.

use commitlog::frame::FrameView;
use remoting::message::{java_hash, properties, property, sys_flag, topic};

use crate::delay_levels::DelayLevels;
use crate::unit::Unit;

/// Between the keys of the property `KEYS`.
const KEY_SEPARATOR: char = ' ';

/// A message record, looked at once.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Queue id.
    pub queue_id: i32,
    /// Queue offset.
    pub queue_offset: i64,
    /// Store time, ms.
    pub store_timestamp: i64,
    transaction: i32,
    unique_key: &'a [u8],
    keys: &'a [u8],
    tags: &'a [u8],
    delay: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads the properties that matter in one pass; of equal names the last wins, as in Java's parser.
    pub fn of(view: &FrameView<'a>) -> Record<'a> {
        let mut record = Record {
            topic: view.topic(),
            queue_id: view.queue_id(),
            queue_offset: view.queue_offset(),
            store_timestamp: view.store_timestamp(),
            transaction: sys_flag::transaction_type(view.sys_flag()),
            unique_key: &[],
            keys: &[],
            tags: &[],
            delay: &[],
        };
        for (name, value) in properties::pairs(view.properties()) {
            // Most names differ in length from those looked for; that decides quickly.
            match name.len() {
                4 if name == property::KEYS.as_bytes() => record.keys = value,
                4 if name == property::TAGS.as_bytes() => record.tags = value,
                5 if name == property::DELAY.as_bytes() => record.delay = value,
                8 if name == property::UNIQ_KEY.as_bytes() => record.unique_key = value,
                _ => {}
            }
        }
        record
    }

    /// Whether the message has a place in a consume queue: half and rolled-back ones have not.
    pub fn is_queued(&self) -> bool {
        !matches!(
            self.transaction,
            sys_flag::TRANSACTION_PREPARED | sys_flag::TRANSACTION_ROLLBACK
        )
    }

    /// Whether its keys are indexed: a rollback's are not.
    pub fn is_indexed(&self) -> bool {
        self.transaction != sys_flag::TRANSACTION_ROLLBACK
    }

    /// The unit for a record of `size` bytes at `physical_offset`.
    pub fn unit(&self, physical_offset: i64, size: usize, levels: &DelayLevels) -> Unit {
        Unit {
            physical_offset,
            size: i32::try_from(size).unwrap_or(i32::MAX),
            tags_code: self.tags_code(levels),
        }
    }

    /// Time of delivery for a message that waits for it, else the hash of the tags.
    fn tags_code(&self, levels: &DelayLevels) -> i64 {
        if !self.delay.is_empty() && self.topic == topic::SCHEDULE {
            let level = std::str::from_utf8(self.delay)
                .ok()
                .and_then(|text| text.parse().ok());
            if let Some(time) =
                level.and_then(|level| levels.deliver_time(level, self.store_timestamp))
            {
                return time;
            }
        }
        match std::str::from_utf8(self.tags) {
            Ok(tags) => i64::from(java_hash(tags)),
            Err(_) => i64::from(java_hash(&String::from_utf8_lossy(self.tags))),
        }
    }

    /// The keys under which the message is found: the unique one first.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let unique = std::str::from_utf8(self.unique_key).unwrap_or_default();
        let keys = std::str::from_utf8(self.keys).unwrap_or_default();
        std::iter::once(unique)
            .chain(keys.split(KEY_SEPARATOR))
            .filter(|key| !key.is_empty())
    }
}

/// The keys under which a message is found.
pub(crate) fn keys<'a>(view: &FrameView<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    Record::of(view).keys()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Message, frame};

    fn with(frame: &[u8], check: impl FnOnce(Record<'_>)) {
        check(Record::of(&FrameView::parse(frame).unwrap()));
    }

    #[test]
    fn keys_and_tags() {
        let message = Message {
            properties: "UNIQ_KEY\u{1}U1\u{2}KEYS\u{1}a  b\u{2}TAGS\u{1}TagA\u{2}UNIQ_KEY\u{1}U2\u{2}DELAY\u{1}3",
            ..Message::new("T", 0, 5)
        };
        with(&frame(&message, 77), |record| {
            assert_eq!(record.keys().collect::<Vec<_>>(), ["U2", "a", "b"]);
            let unit = record.unit(77, 100, &DelayLevels::default());
            assert_eq!(unit.tags_code, 2_598_919);
            assert!(record.is_queued() && record.is_indexed());
        });
    }

    #[test]
    fn delayed_messages_carry_their_time() {
        let levels = DelayLevels::default();
        let code = |delay: &str| {
            let message = Message {
                properties: delay,
                store_timestamp: 1000,
                ..Message::new("SCHEDULE_TOPIC_XXXX", 2, 5)
            };
            let mut code = 0;
            with(&frame(&message, 0), |record| {
                code = record.unit(0, 1, &levels).tags_code;
            });
            code
        };
        assert_eq!(code("DELAY\u{1}3\u{2}TAGS\u{1}TagA"), 11_000);
        assert_eq!(code("DELAY\u{1}99"), 7_201_000);
        assert_eq!(code("DELAY\u{1}0\u{2}TAGS\u{1}TagA"), 2_598_919);
        assert_eq!(code("DELAY\u{1}x\u{2}TAGS\u{1}TagA"), 2_598_919);
    }

    #[test]
    fn transaction_types() {
        for (flag, queued, indexed) in [
            (0, true, true),
            (4, false, true),
            (8, true, true),
            (12, false, false),
        ] {
            let message = Message {
                sys_flag: flag,
                ..Message::new("T", 0, 0)
            };
            with(&frame(&message, 0), |record| {
                assert_eq!(
                    (record.is_queued(), record.is_indexed()),
                    (queued, indexed),
                    "{flag}"
                );
            });
        }
    }
}

//! Looking up messages by key.

use std::ops::ControlFlow;

use bytes::Bytes;
use commitlog::frame::FrameView;

use super::{Header, IndexFile, KeyIndex, TopicHash};
use crate::error::Error;
use crate::log::MessageLog;
use crate::record;

/// How far an item's time may be from the store time of its message, ms: the grain of a second, and store
/// times that fall along the log.
const TIME_SLACK: i64 = 2000;

impl KeyIndex {
    /// Physical offsets of messages of a topic that may have the key, newest first, at most `max`. Times are
    /// inclusive. What is found shares the hash only, and its time is known to about two seconds: check it with
    /// [`matches`], or use [`KeyIndex::find`].
    pub fn query(
        &self,
        topic: &str,
        key: &str,
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<Vec<i64>, Error> {
        let mut found = Vec::new();
        self.visit(topic, key, begin, end, |physical_offset| {
            if found.len() < max {
                found.push(physical_offset);
            }
            if found.len() < max {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(found)
    }

    /// The messages of a topic that have the key and were stored in `[begin, end]`, newest first, at most `max`,
    /// each with its physical offset. Messages that the log no longer has, or that only share the hash, are left
    /// out.
    pub fn find<L: MessageLog>(
        &self,
        log: &L,
        topic: &str,
        key: &str,
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<Vec<(i64, Bytes)>, Error> {
        let mut found = Vec::new();
        self.visit(topic, key, begin, end, |physical_offset| {
            if found.len() >= max {
                return ControlFlow::Break(());
            }
            let message = log.message_at(physical_offset);
            if let Some(frame) = message.filter(|frame| matches(frame, topic, key, begin, end)) {
                found.push((physical_offset, frame));
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Calls `visit` for each item of the key's hash in the time window, newest first; a message once even if
    /// several of its keys share the hash.
    pub fn visit(
        &self,
        topic: &str,
        key: &str,
        begin: i64,
        end: i64,
        mut visit: impl FnMut(i64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let hash = TopicHash::of(topic).key(key);
        let files = self.files.read().clone();
        let mut last = -1;
        for file in files.iter().rev() {
            let header = file.header();
            if header.is_empty() || begin.saturating_sub(TIME_SLACK) > header.end_timestamp {
                // Store times may fall a little along the log, so an older file may still reach into the window.
                continue;
            }
            if header.begin_timestamp > end.saturating_add(TIME_SLACK) {
                continue;
            }
            let flow = visit_file(file, hash, begin, end, |physical_offset| {
                if physical_offset == last {
                    return ControlFlow::Continue(());
                }
                last = physical_offset;
                visit(physical_offset)
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn visit_file(
    file: &IndexFile,
    hash: i32,
    begin: i64,
    end: i64,
    mut visit: impl FnMut(i64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let (mut number, header) = file.newest(hash)?;
    while number > 0 {
        let item = file.item(number)?;
        let time = item_time(&header, number, item.seconds);
        let in_window =
            begin <= time.saturating_add(TIME_SLACK) && time.saturating_sub(TIME_SLACK) <= end;
        if item.hash == hash && in_window && visit(item.physical_offset).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // A chain leads to ever older items; anything else is damage and ends it.
        if item.previous >= number || time.saturating_add(TIME_SLACK) < begin {
            break;
        }
        number = item.previous;
    }
    Ok(ControlFlow::Continue(()))
}

/// Store time of an item, to a second. The first item's seconds count from the file before.
fn item_time(header: &Header, number: i32, seconds: i32) -> i64 {
    let seconds = if number == 1 { 0 } else { i64::from(seconds) };
    header.begin_timestamp.saturating_add(seconds * 1000)
}

/// Whether a message record is of the topic, has the key (`UNIQ_KEY`, or one of `KEYS`), and was stored in
/// `[begin, end]`.
pub fn matches(frame: &[u8], topic: &str, key: &str, begin: i64, end: i64) -> bool {
    let Ok(view) = FrameView::parse(frame) else {
        return false;
    };
    view.topic() == topic
        && (begin..=end).contains(&view.store_timestamp())
        && record::keys(&view).any(|own| own == key)
}

//! Queue offset by store time.
//!
//! Only store times are looked at. Modification times of files, which Java 4.9 uses to choose a file, change when
//! a store is copied and are not.

use crate::error::Error;
use crate::log::MessageLog;
use crate::queue::ConsumeQueue;
use commitlog::frame::FrameView;

/// Which message is meant when none, or several, were stored at the time asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// The first one stored at or after the time; the queue's end if there is none (5.3).
    #[default]
    Lower,
    /// The last one stored at or before the time; the queue's begin if there is none (5.3).
    Upper,
    /// One stored at the time, else the nearer neighbour, the earlier of two equally near; the last one if all
    /// are earlier (4.9).
    Nearest,
}

/// The offset of a message of the queue by its store time (ms), within `[min, max]`.
pub fn offset_by_time<L: MessageLog>(
    queue: &ConsumeQueue,
    log: &L,
    timestamp: i64,
    boundary: Boundary,
) -> Result<i64, Error> {
    let (min, max) = (queue.min_offset(), queue.max_offset());
    if min >= max {
        return Ok(max);
    }
    let not_before = |time: i64| time >= timestamp;
    let after = |time: i64| time > timestamp;
    match boundary {
        Boundary::Lower => first_where(queue, log, min, max, not_before),
        Boundary::Upper => Ok((first_where(queue, log, min, max, after)? - 1).max(min)),
        Boundary::Nearest => {
            let right = first_where(queue, log, min, max, not_before)?;
            let left = right - 1;
            if left < min {
                return Ok(right);
            }
            let distance = |offset: i64| {
                let time = (offset < max)
                    .then(|| store_time(queue, log, offset))
                    .transpose()?
                    .flatten();
                Ok::<_, Error>(time.map(|time| time.abs_diff(timestamp)))
            };
            match (distance(left)?, distance(right)?) {
                (_, Some(0)) => Ok(right),
                (Some(left_distance), Some(right_distance)) if right_distance < left_distance => {
                    Ok(right)
                }
                (None, Some(_)) => Ok(right),
                _ => Ok(left),
            }
        }
    }
}

/// Store time (ms) of the message at an offset; `None` if it cannot be read.
pub fn store_time<L: MessageLog>(
    queue: &ConsumeQueue,
    log: &L,
    queue_offset: i64,
) -> Result<Option<i64>, Error> {
    let Some(unit) = queue.unit(queue_offset)? else {
        return Ok(None);
    };
    let size = usize::try_from(unit.size).unwrap_or(0);
    let frame = log.message(unit.physical_offset, size);
    Ok(frame.and_then(|frame| Some(FrameView::parse(&frame).ok()?.store_timestamp())))
}

/// The first offset whose store time satisfies `is_right`; `max` if none does. An offset without a readable
/// message is judged by the next one that has one.
fn first_where<L: MessageLog>(
    queue: &ConsumeQueue,
    log: &L,
    min: i64,
    max: i64,
    is_right: impl Fn(i64) -> bool,
) -> Result<i64, Error> {
    let (mut low, mut high) = (min, max);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut probe = middle;
        let time = loop {
            if probe >= high {
                break None;
            }
            match store_time(queue, log, probe)? {
                Some(time) => break Some(time),
                None => probe += 1,
            }
        };
        match time {
            Some(time) if !is_right(time) => low = probe + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

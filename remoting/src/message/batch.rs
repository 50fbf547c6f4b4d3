//! The body of a batch (class MessageDecoder): entries of
//! `size i32 | magic i32 | crc i32 | flag i32 | body length i32, body | properties length i16, properties`.

use crate::frame::FrameError;

/// Bytes of an entry without its body and properties.
pub const BATCH_ITEM_FIXED_LEN: usize = 22;

/// One message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchItem<'a> {
    /// The user's flag.
    pub flag: i32,
    /// Body.
    pub body: &'a [u8],
    /// Property string.
    pub properties: &'a [u8],
}

/// Why a batch body cannot be split. The broker answers 13 to all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Bytes are left that are no whole entry.
    #[error("entry {index} of the batch, at byte {at}, is cut short")]
    Short {
        /// Number of the entry, from 0.
        index: usize,
        /// Byte position of the entry in the body.
        at: usize,
    },
    /// The entry's size disagrees with the lengths inside it.
    #[error("entry {index} of the batch, at byte {at}, has a size that disagrees with its lengths")]
    Size {
        /// Number of the entry, from 0.
        index: usize,
        /// Byte position of the entry in the body.
        at: usize,
    },
}

/// Entries of a batch body. Ends after the first error.
#[derive(Debug, Clone)]
pub struct BatchItems<'a> {
    body: &'a [u8],
    at: usize,
    index: usize,
}

impl<'a> BatchItems<'a> {
    /// Entries of this body.
    pub fn new(body: &'a [u8]) -> BatchItems<'a> {
        BatchItems {
            body,
            at: 0,
            index: 0,
        }
    }

    fn item(&self) -> Result<(BatchItem<'a>, usize), BatchError> {
        let (index, at) = (self.index, self.at);
        let short = BatchError::Short { index, at };
        let wrong = BatchError::Size { index, at };
        let entry = &self.body[at..];
        let int = |from: usize| {
            let bytes = entry
                .get(from..)
                .and_then(|rest| rest.first_chunk::<4>())
                .ok_or(short)?;
            Ok(i32::from_be_bytes(*bytes))
        };
        let size = usize::try_from(int(0)?).map_err(|_| wrong)?;
        let flag = int(12)?;
        let body_len = usize::try_from(int(16)?).map_err(|_| wrong)?;
        let body_end = 20usize.saturating_add(body_len);
        let body = entry.get(20..body_end).ok_or(short)?;
        let len_word = entry
            .get(body_end..)
            .and_then(|rest| rest.first_chunk::<2>())
            .ok_or(short)?;
        let properties_len = usize::try_from(i16::from_be_bytes(*len_word)).map_err(|_| wrong)?;
        let end = body_end + 2 + properties_len;
        let properties = entry.get(body_end + 2..end).ok_or(short)?;
        if end != size {
            return Err(wrong);
        }
        Ok((
            BatchItem {
                flag,
                body,
                properties,
            },
            end,
        ))
    }
}

impl<'a> Iterator for BatchItems<'a> {
    type Item = Result<BatchItem<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.body.len() {
            return None;
        }
        match self.item() {
            Ok((item, len)) => {
                self.at += len;
                self.index += 1;
                Some(Ok(item))
            }
            Err(e) => {
                self.at = self.body.len();
                Some(Err(e))
            }
        }
    }
}

/// Appends an entry as a client does: magic and CRC are 0.
pub fn encode_batch_item(out: &mut Vec<u8>, item: &BatchItem<'_>) -> Result<(), FrameError> {
    let properties_len = i16::try_from(item.properties.len())
        .map_err(|_| FrameError::TooLargeToEncode("a property string"))?;
    let size = BATCH_ITEM_FIXED_LEN + item.body.len() + item.properties.len();
    let size = i32::try_from(size).map_err(|_| FrameError::TooLargeToEncode("a body"))?;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&item.flag.to_be_bytes());
    out.extend_from_slice(&(item.body.len() as i32).to_be_bytes());
    out.extend_from_slice(item.body);
    out.extend_from_slice(&properties_len.to_be_bytes());
    out.extend_from_slice(item.properties);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(items in proptest::collection::vec(
            (any::<i32>(), proptest::collection::vec(any::<u8>(), 0..40), proptest::collection::vec(any::<u8>(), 0..40)), 0..6
        )) {
            let mut body = Vec::new();
            for (flag, b, p) in &items {
                encode_batch_item(&mut body, &BatchItem { flag: *flag, body: b, properties: p }).unwrap();
            }
            let back: Vec<_> = BatchItems::new(&body).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(back.len(), items.len());
            for (item, (flag, b, p)) in back.iter().zip(&items) {
                prop_assert_eq!(*item, BatchItem { flag: *flag, body: b, properties: p });
            }
            for cut in 1..body.len() {
                let parts: Vec<_> = BatchItems::new(&body[..cut]).collect();
                prop_assert!(parts.iter().rev().skip(1).all(Result::is_ok));
            }
        }

        #[test]
        fn any_bytes(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let count = BatchItems::new(&body).count();
            prop_assert!(count <= body.len() / BATCH_ITEM_FIXED_LEN + 1);
        }
    }

    #[test]
    fn wrong_sizes() {
        let mut body = Vec::new();
        encode_batch_item(
            &mut body,
            &BatchItem {
                flag: 0,
                body: b"x",
                properties: b"",
            },
        )
        .unwrap();
        body[3] += 1;
        let all: Vec<_> = BatchItems::new(&body).collect();
        assert_eq!(all, [Err(BatchError::Size { index: 0, at: 0 })]);
        let all: Vec<_> = BatchItems::new(b"\xff\xff\xff\xff").collect();
        assert_eq!(all.len(), 1);
        assert!(all[0].is_err());
    }
}

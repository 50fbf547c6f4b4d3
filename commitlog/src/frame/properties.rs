//! The property string of a message that is about to be stored, assembled without copying.

use bytes::BufMut;
use remoting::message::properties::{NAME_SEPARATOR, PAIR_SEPARATOR};
use smallvec::SmallVec;

/// The properties of a message to store: pieces of a received property string plus added pairs.
///
/// Nothing is copied before the frame is encoded; a property is replaced or removed by leaving its piece
/// of the received string out.
#[derive(Debug, Clone, Default)]
pub struct PropertySource<'a> {
    pieces: SmallVec<[&'a [u8]; 3]>,
    added: SmallVec<[(&'a str, &'a str); 4]>,
}

impl<'a> PropertySource<'a> {
    /// Properties as received (`name 0x01 value`, joined by 0x02), stored byte for byte unless changed.
    pub fn raw(raw: &'a [u8]) -> PropertySource<'a> {
        let mut pieces = SmallVec::new();
        if !raw.is_empty() {
            pieces.push(raw);
        }
        PropertySource {
            pieces,
            added: SmallVec::new(),
        }
    }

    /// Adds a pair at the end; the caller knows that the name is not there yet.
    pub fn add(&mut self, name: &'a str, value: &'a str) {
        self.added.push((name, value));
    }

    /// Sets a property, replacing one of that name.
    pub fn set(&mut self, name: &'a str, value: &'a str) {
        self.remove(name);
        self.add(name, value);
    }

    /// Removes every property of that name.
    pub fn remove(&mut self, name: &str) {
        self.added.retain(|(n, _)| *n != name);
        if !self.pieces.iter().any(|piece| find(piece, name).is_some()) {
            return;
        }
        let mut kept: SmallVec<[&'a [u8]; 3]> = SmallVec::new();
        for &piece in &self.pieces {
            let mut rest = piece;
            while let Some((start, end)) = find(rest, name) {
                if start > 0 {
                    kept.push(&rest[..start - 1]); // without the separator before it
                }
                rest = rest.get(end + 1..).unwrap_or_default();
            }
            if !rest.is_empty() {
                kept.push(rest);
            }
        }
        self.pieces = kept;
    }

    /// The value that a reader will see: the last one of that name, as Java's parser takes it.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        if let Some((_, value)) = self.added.iter().rev().find(|(n, _)| *n == name) {
            return Some(value);
        }
        self.pieces.iter().rev().find_map(|piece| {
            let mut found = None;
            let mut from = 0;
            while let Some((start, end)) = find(&piece[from..], name) {
                found = Some(&piece[from + start + name.len() + 1..from + end]);
                from = (from + end + 1).min(piece.len());
            }
            found.and_then(|value| std::str::from_utf8(value).ok())
        })
    }

    /// Bytes of the property string.
    pub fn encoded_len(&self) -> usize {
        let mut len = 0;
        let mut open = false; // whether a separator is due before the next piece
        for piece in &self.pieces {
            len += usize::from(open) + piece.len();
            open = piece.last() != Some(&PAIR_SEPARATOR);
        }
        for (name, value) in &self.added {
            len += usize::from(open) + name.len() + 1 + value.len();
            open = true;
        }
        len
    }

    /// Writes the property string; `out` must have [`encoded_len`](Self::encoded_len) bytes left.
    pub(super) fn encode(&self, out: &mut &mut [u8]) {
        let mut open = false;
        for piece in &self.pieces {
            if open {
                out.put_u8(PAIR_SEPARATOR);
            }
            out.put_slice(piece);
            open = piece.last() != Some(&PAIR_SEPARATOR);
        }
        for (name, value) in &self.added {
            if open {
                out.put_u8(PAIR_SEPARATOR);
            }
            out.put_slice(name.as_bytes());
            out.put_u8(NAME_SEPARATOR);
            out.put_slice(value.as_bytes());
            open = true;
        }
    }
}

/// Finds the property `name` in a property string: start of its name and end of its value.
fn find(properties: &[u8], name: &str) -> Option<(usize, usize)> {
    let name = name.as_bytes();
    let mut start = 0;
    for piece in properties.split(|&b| b == PAIR_SEPARATOR) {
        if piece.len() > name.len()
            && piece[name.len()] == NAME_SEPARATOR
            && piece.starts_with(name)
        {
            return Some((start, start + piece.len()));
        }
        start += piece.len() + 1;
    }
    None
}

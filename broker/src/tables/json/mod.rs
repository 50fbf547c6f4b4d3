//! JSON as Java's fastjson 1 writes it, with nothing lost between reading and writing.
//!
//! The tables in `config/*.json` are Java's as much as ours: members that we do not know, the order of entries and
//! whether a key was quoted all survive a rewrite, so they are kept in a [`Node`] rather than in a map that sorts.
//! Two forms are written: [`pretty`], the form of the files, and [`compact`], the form of bodies on the wire.

mod parse;
mod write;

pub use parse::{ParseError, parse};
pub use write::{compact, pretty};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object.
    Map(Map),
}

/// An object: entries in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map {
    entries: Vec<(Key, Node)>,
}

/// The key of an entry. Integer keys stand without quotes in Java's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The text.
    pub text: String,
    /// Whether it stood (and will stand) in quotes.
    pub quoted: bool,
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Node {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Node {
    fn from(value: i32) -> Self {
        Self::Number(value.to_string())
    }
}

impl From<i64> for Node {
    fn from(value: i64) -> Self {
        Self::Number(value.to_string())
    }
}

impl From<Map> for Node {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl Node {
    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The entries of an object.
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self {
            Some(map)
        } else {
            None
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        if let Self::List(items) = self {
            Some(items)
        } else {
            None
        }
    }

    /// An integer: a number, or a string that holds one, as fastjson converts.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(text) | Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// An integer of 32 bits.
    pub fn as_i32(&self) -> Option<i32> {
        self.as_i64().and_then(|v| i32::try_from(v).ok())
    }

    /// A boolean, or a string that holds one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Self::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }
}

impl Map {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `key`; of duplicates the last, as in Java.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries
            .iter()
            .rev()
            .find(|(k, _)| k.text == key)
            .map(|(_, v)| v)
    }

    /// Appends an entry with a quoted key.
    pub fn push(&mut self, key: &str, value: impl Into<Node>) {
        self.entries.push((
            Key {
                text: key.to_string(),
                quoted: true,
            },
            value.into(),
        ));
    }

    /// Appends an entry with an integer key.
    pub fn push_integer(&mut self, key: i64, value: impl Into<Node>) {
        self.entries.push((
            Key {
                text: key.to_string(),
                quoted: false,
            },
            value.into(),
        ));
    }

    /// Appends an entry with any key.
    pub fn push_key(&mut self, key: Key, value: Node) {
        self.entries.push((key, value));
    }

    /// The same as [`Map::push`], for building in one expression.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Node>) -> Self {
        self.push(key, value);
        self
    }

    /// Sets `key` in place, or inserts it where it belongs alphabetically, as fastjson orders the members of a bean.
    pub fn set_member(&mut self, key: &str, value: Node) {
        if let Some((_, old)) = self.entries.iter_mut().rev().find(|(k, _)| k.text == key) {
            *old = value;
            return;
        }
        let at = self
            .entries
            .iter()
            .position(|(k, _)| k.text.as_str() > key)
            .unwrap_or(self.entries.len());
        self.entries.insert(
            at,
            (
                Key {
                    text: key.to_string(),
                    quoted: true,
                },
                value,
            ),
        );
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.entries.iter().rposition(|(k, _)| k.text == key)?;
        let removed = self.entries.remove(at).1;
        self.entries.retain(|(k, _)| k.text != key);
        Some(removed)
    }

    /// Entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.entries.iter().map(|(k, v)| (k.text.as_str(), v))
    }

    /// Entries in order, with their keys as written.
    pub fn entries(&self) -> &[(Key, Node)] {
        &self.entries
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Text of a member.
    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Node::as_str)
    }

    /// Integer of a member.
    pub fn i64(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Node::as_i64)
    }

    /// Integer of a member.
    pub fn i32(&self, key: &str) -> Option<i32> {
        self.get(key).and_then(Node::as_i32)
    }

    /// Boolean of a member.
    pub fn bool(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Node::as_bool)
    }
}

#[cfg(test)]
mod tests;

//! Hash of a key: Java's string hash of `topic#key`, made non-negative.

/// Java's string hash, continued from `hash`: over UTF-16 code units, `h = 31·h + c`.
fn continue_hash(hash: i32, text: &str) -> i32 {
    if text.is_ascii() {
        return text.bytes().fold(hash, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(i32::from(byte))
        });
    }
    text.encode_utf16().fold(hash, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// The hash of a topic and the `#` behind it, shared by all keys of the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicHash(i32);

impl TopicHash {
    pub fn of(topic: &str) -> TopicHash {
        TopicHash(continue_hash(continue_hash(0, topic), "#"))
    }

    /// The hash of a key of the topic, never negative.
    pub fn key(&self, key: &str) -> i32 {
        let hash = continue_hash(self.0, key);
        if hash == i32::MIN { 0 } else { hash.abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_does() {
        let raw = continue_hash(TopicHash::of("TopicTest").0, "KEY1");
        assert_eq!(raw, -1_656_969_516);
        assert_eq!(TopicHash::of("TopicTest").key("KEY1"), 1_656_969_516);
        // "кл0" and a character outside the basic plane (two units).
        assert_eq!(continue_hash(0, "\u{43a}"), 0x43a);
        assert_eq!(continue_hash(0, "\u{1F600}"), 0xD83D * 31 + 0xDE00);
        // The hash of this text is the smallest integer.
        assert_eq!(continue_hash(0, "polygenelubricants"), i32::MIN);
    }
}

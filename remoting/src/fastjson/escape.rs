//! Escapes as fastjson's SerializeWriter prints them.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Whether a byte of UTF-8 text begins something that may need an escape.
pub(crate) fn may_need_escape(b: u8) -> bool {
    // 0xC2 begins U+0080…U+00BF, 0xE2 begins U+2000…U+2FFF.
    b < 0x20 || matches!(b, b'"' | b'\\' | 0x7F | 0xC2 | 0xE2)
}

/// Writes the escape for the character at the front of `text`, or its first byte if it needs none. Gives the number of
/// bytes of `text` that it stands for.
pub(crate) fn put_escape(text: &[u8], mut put: impl FnMut(&[u8])) -> usize {
    let first = text[0];
    let short = match first {
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        b'\n' => b"\\n",
        b'\r' => b"\\r",
        b'\t' => b"\\t",
        0x08 => b"\\b",
        0x0C => b"\\f",
        _ => {
            let (unit, taken) = match text {
                [0xC2, b, ..] if *b < 0xA0 => (u16::from(*b), 2),
                [0xE2, 0x80, b @ (0xA8 | 0xA9), ..] => (0x2000 | u16::from(*b & 0x3F), 3),
                _ if first < 0x20 || first == 0x7F => (u16::from(first), 1),
                _ => {
                    put(&text[..1]);
                    return 1;
                }
            };
            put_unit(unit, put);
            return taken;
        }
    };
    put(short);
    1
}

/// Writes `\uXXXX`.
pub(crate) fn put_unit(unit: u16, mut put: impl FnMut(&[u8])) {
    let digit = |shift: u32| HEX[usize::from(unit >> shift & 15)];
    put(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

//! Java properties, as far as DLedger's two text files need them.

use std::collections::BTreeMap;

/// Reads `key=value` lines as Java's `Properties.load` does: `=` or `:` or blanks between key and value, comment
/// lines with `#` or `!`, backslash escapes, a backslash at the end of a line joins the next one.
pub(crate) fn parse(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = text.split(['\n', '\r']);
    while let Some(line) = lines.next() {
        let mut line = line.trim_start().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while ends_in_odd_backslashes(&line) {
            line.pop();
            match lines.next() {
                Some(next) => line.push_str(next.trim_start()),
                None => break,
            }
        }
        let (key, value) = split(&line);
        found.insert(unescape(key), unescape(value));
    }
    found
}

fn ends_in_odd_backslashes(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if !escaped && (c == '=' || c == ':' || c.is_ascii_whitespace()) {
            let rest = line[at..].trim_start();
            let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
            return (&line[..at], value.trim_start());
        }
        escaped = c == '\\' && !escaped;
    }
    (line, "")
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                out.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_java_writes_and_more() {
        let found = parse(
            "#Mon\ncommittedIndex=12\nendIndex : 13\r\n! x\nvoteLeader=\nlong=a\\\n   b\nk\\=1 v\\u0041\n",
        );
        let get = |key: &str| found.get(key).map(String::as_str);
        assert_eq!(get("committedIndex"), Some("12"));
        assert_eq!(get("endIndex"), Some("13"));
        assert_eq!(get("voteLeader"), Some(""));
        assert_eq!(get("long"), Some("ab"));
        assert_eq!(get("k=1"), Some("vA"));
        assert_eq!(found.len(), 5);
    }
}

//! Writing, in fastjson's two forms.

use super::{Key, Map, Node};

/// The form of `config/*.json`: tabs, no blank after the colon, integer-keyed objects on one line with the closing
/// brace on the next, empty objects as `{}`, no line end after the last brace.
pub fn pretty(map: &Map) -> String {
    let mut out = String::new();
    write_map(&mut out, map, Some(0));
    out
}

/// One line without blanks: the form of bodies.
pub fn compact(map: &Map) -> String {
    let mut out = String::new();
    write_map(&mut out, map, None);
    out
}

/// `indent` is the depth of the object itself, `None` for the compact form.
fn write_map(out: &mut String, map: &Map, indent: Option<usize>) {
    out.push('{');
    let entries = map.entries();
    // fastjson breaks lines before string keys only.
    let inline = entries.first().is_some_and(|(key, _)| !key.quoted);
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if let Some(depth) = indent.filter(|_| !inline) {
            line_break(out, depth + 1);
        }
        write_key(out, key);
        out.push(':');
        write_node(out, value, indent.map(|d| d + 1));
    }
    if let Some(depth) = indent.filter(|_| !entries.is_empty()) {
        line_break(out, depth);
    }
    out.push('}');
}

fn line_break(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n('\t', depth));
}

fn write_key(out: &mut String, key: &Key) {
    if key.quoted {
        write_string(out, &key.text)
    } else {
        out.push_str(&key.text)
    }
}

fn write_node(out: &mut String, node: &Node, indent: Option<usize>) {
    match node {
        Node::Null => out.push_str("null"),
        Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Node::Number(text) => out.push_str(text),
        Node::Text(text) => write_string(out, text),
        Node::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_node(out, item, indent.map(|d| d + 1));
            }
            out.push(']');
        }
        Node::Map(map) => write_map(out, map, indent),
    }
}

/// A string in double quotes, escaped as fastjson does: non-ASCII text stays as it is, except for what it takes for
/// control characters.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

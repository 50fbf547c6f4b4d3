//! The project's own source files, for tests about the house: lengths, arrows, names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::deps::repository;

/// Every tracked or not yet ignored file of the repository, relative to its root.
pub fn files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository())
        .output()?;
    ensure!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = text.lines().map(PathBuf::from);
    Ok(all.filter(|p| repository().join(p).is_file()).collect())
}

/// The text of a file of the repository; None if it is not UTF-8.
pub fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(repository().join(path)).ok()
}

/// A Rust file that is test code as a whole.
pub fn is_test_file(path: &Path) -> bool {
    let in_tests = path.components().any(|c| c.as_os_str() == "tests");
    let harness = path.starts_with("tests/src");
    let named = path
        .file_stem()
        .is_some_and(|s| s == "tests" || s.to_string_lossy().ends_with("_tests"));
    (in_tests && !harness) || named
}

/// Rust source with the contents of comments, strings and character literals replaced by blanks; lines keep
/// their numbers.
pub fn blanked(source: &str) -> String {
    let b: Vec<char> = source.chars().collect();
    let mut out: Vec<char> = Vec::with_capacity(b.len());
    let mut i = 0;
    while i < b.len() {
        let end = skip(&b, i).min(b.len());
        if end > i {
            out.extend(
                b[i..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            i = end;
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    out.into_iter().collect()
}

/// End of the comment or literal that starts at `i`; `i` if none does.
fn skip(b: &[char], i: usize) -> usize {
    let next = |n: usize| b.get(i + n).copied().unwrap_or(' ');
    let word_before = i > 0 && (b[i - 1].is_alphanumeric() || b[i - 1] == '_');
    match b[i] {
        '/' if next(1) == '/' => find(b, i, "\n"),
        '/' if next(1) == '*' => find(b, i + 2, "*/") + 2,
        'r' if !word_before
            && (next(1) == '"' || (next(1) == '#' && matches!(next(2), '"' | '#'))) =>
        {
            let hashes = b[i + 1..].iter().take_while(|c| **c == '#').count();
            find(b, i + 2 + hashes, &format!("\"{}", "#".repeat(hashes))) + 1 + hashes
        }
        '"' => quoted(b, i + 1, '"'),
        '\'' if next(1) == '\\' => quoted(b, i + 1, '\''),
        '\'' if next(2) == '\'' => i + 3,
        _ => i,
    }
}

fn find(b: &[char], from: usize, what: &str) -> usize {
    let what: Vec<char> = what.chars().collect();
    (from..b.len())
        .find(|i| b[*i..].starts_with(&what))
        .unwrap_or(b.len())
}

fn quoted(b: &[char], from: usize, close: char) -> usize {
    let mut i = from;
    while i < b.len() && b[i] != close {
        i += if b[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Ranges of lines (from 0, end exclusive) of `#[cfg(test)]` modules in blanked source.
pub fn test_modules(blanked: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(n) = blanked[at..].find("#[cfg(test)]") {
        let start = at + n;
        let rest = &blanked[start..];
        at = start + 12;
        let (brace, semicolon) = (rest.find('{'), rest.find(';'));
        if let Some(brace) = brace.filter(|b| semicolon.is_none_or(|s| *b < s)) {
            let end = start + brace + block(&rest[brace..]);
            found.push(line_of(blanked, start)..line_of(blanked, end) + 1);
            at = end;
        }
    }
    found
}

/// Name and range of lines of every function body in blanked source.
pub fn functions(blanked: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    for (start, _) in blanked.match_indices("fn ") {
        let before = blanked[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &blanked[start..];
        let name: String = rest[3..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let Some(brace) = body_brace(rest) else {
            continue;
        };
        if !name.is_empty() {
            let end = start + brace + block(&rest[brace..]);
            found.push((name, line_of(blanked, start)..line_of(blanked, end) + 1));
        }
    }
    found
}

/// Where the body of the function at the start of `rest` begins; None for one without a body.
fn body_brace(rest: &str) -> Option<usize> {
    let mut depth = 0i32;
    for (i, c) in rest.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(i),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Length of the block that begins `text` with a brace.
fn block(text: &str) -> usize {
    let mut depth = 0i32;
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
    }
    text.len().saturating_sub(1)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_test_modules_are_found() {
        let source = "fn a() { let s = \"}{\"; /* } */ }\nfn b(x: [u8; 3]) -> u8\n{\n  '}' as u8\n}\n\
                      #[cfg(test)]\nmod tests {\n fn c() {}\n}\ntrait T { fn d(); }\n";
        let b = blanked(source);
        assert_eq!(b.lines().count(), source.lines().count());
        let f = functions(&b);
        assert_eq!(
            f,
            [("a".into(), 0..1), ("b".into(), 1..5), ("c".into(), 7..8)]
        );
        assert_eq!(test_modules(&b).first(), Some(&(5..9)));
    }
}

//! The key index against the log.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Scan, files, i32_at, i64_at, java_hash, name};

const HEADER: usize = 40;
const ITEM: usize = 20;

/// Reads all index files by their hash chains and compares them with the keys of the records.
pub fn check(dir: &Path, slots: usize, scan: &mut Scan) -> Result<()> {
    let mut found: HashSet<(i32, i64)> = HashSet::new();
    for file in files(dir)? {
        let b = fs::read(&file).with_context(|| file.display().to_string())?;
        one(name(&file), &b, slots, scan, &mut found);
    }
    let low = scan.records.keys().next().copied().unwrap_or(0);
    for (hash, phys) in &found {
        let known = scan
            .records
            .get(phys)
            .is_some_and(|r| r.index_keys().iter().any(|k| key_hash(k) == *hash));
        if *phys >= low && !known {
            scan.index_problems
                .push(format!("item ({hash}, {phys}) fits no record"));
        }
    }
    for r in scan.records.values() {
        for k in r.index_keys() {
            if !found.contains(&(key_hash(&k), r.phys)) {
                scan.index_problems.push(format!(
                    "{k} of the record at {} is not in the index",
                    r.phys
                ));
            }
        }
    }
    Ok(())
}

fn one(file: &str, b: &[u8], slots: usize, scan: &mut Scan, found: &mut HashSet<(i32, i64)>) {
    let items = HEADER + slots * 4;
    let count = i32_at(b, 36).max(1) as usize;
    if b.len() < items + count * ITEM {
        scan.index_problems
            .push(format!("{file}: {} bytes for {count} items", b.len()));
        return;
    }
    let mut reached = vec![false; count];
    for slot in 0..slots {
        let mut at = i32_at(b, HEADER + slot * 4);
        while at > 0 {
            let n = at as usize;
            if n >= count || std::mem::replace(&mut reached[n], true) {
                scan.index_problems
                    .push(format!("{file}: slot {slot} leads to item {n} of {count}"));
                break;
            }
            let item = items + n * ITEM;
            let hash = i32_at(b, item);
            if hash as usize % slots != slot {
                scan.index_problems
                    .push(format!("{file}: item {n} with hash {hash} in slot {slot}"));
            }
            found.insert((hash, i64_at(b, item + 4)));
            at = i32_at(b, item + 16);
        }
    }
    let lost = reached.iter().skip(1).filter(|r| !**r).count();
    if lost > 0 {
        scan.index_problems
            .push(format!("{file}: {lost} of {count} items in no chain"));
    }
}

/// Non-negative hash of a key; Java maps the smallest integer to 0.
fn key_hash(key: &str) -> i32 {
    java_hash(key).checked_abs().unwrap_or(0)
}

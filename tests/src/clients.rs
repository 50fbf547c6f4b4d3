//! The Go and the Python client.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::deps;
use crate::lab::work_dir;

/// Runs the Go client (`tests/clients/go`) and returns its lines.
pub fn go(args: &[&str]) -> Result<Vec<Value>> {
    lines(
        Command::new(deps::dir().join("go/client")).args(args),
        "Go client",
    )
}

/// Runs the Python client (`tests/clients/python`) and returns its lines.
pub fn python(args: &[&str]) -> Result<Vec<Value>> {
    let script = deps::repository().join("tests/clients/python/client.py");
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", deps::dir().join("python"))
        .arg(script)
        .args(args);
    lines(&mut command, "Python client")
}

fn lines(command: &mut Command, name: &str) -> Result<Vec<Value>> {
    // The clients write their logs under the home folder.
    let output = command
        .env("HOME", work_dir())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting the {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{name}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).with_context(|| format!("{name}: {line}")))
        .collect()
}

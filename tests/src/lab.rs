//! The stock Java clients, and a stock name server, in one JVM for each generation.
//!
//! Commands and their arguments are described in `tests/clients/java/src/Lab.java` and its neighbours.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::ledger::Ledger;
use crate::process::{Daemon, append};
use crate::stock::{Version, java};
use crate::{fixture::copy_tree, ports};

type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

/// A JVM with the stock clients and a stock name server.
#[derive(Debug)]
pub struct Lab {
    /// Which generation.
    pub version: Version,
    /// Address of the name server in it.
    pub namesrv: String,
    input: Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicU64,
    _daemon: Mutex<Daemon>,
}

/// One command under way.
#[derive(Debug)]
pub struct Running {
    cmd: String,
    lines: Receiver<Value>,
}

impl Lab {
    /// The JVM of this generation that all tests of this binary share.
    pub fn shared(version: Version) -> &'static Lab {
        static V4: OnceLock<Lab> = OnceLock::new();
        static V5: OnceLock<Lab> = OnceLock::new();
        let cell = match version {
            Version::V4 => &V4,
            Version::V5 => &V5,
        };
        cell.get_or_init(|| {
            // The child lives as long as the thread that started it: give it one that stays.
            let (tell, told) = channel();
            std::thread::spawn(move || {
                let _ = tell.send(Lab::start(version));
                loop {
                    std::thread::park();
                }
            });
            told.recv()
                .map_err(|e| anyhow!(e))
                .and_then(|lab| lab)
                .expect("the Java test client starts")
        })
    }

    fn start(version: Version) -> Result<Lab> {
        let home = work_dir().join(format!("lab-{}", version.text()));
        std::fs::create_dir_all(&home)?;
        let log = home.join("lab.log");
        let mut command = java(version, "Lab", &home, 256)?;
        command.arg("serve");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(append(&log)?);
        let mut child = command.spawn().context("starting java")?;
        let input = child.stdin.take().ok_or_else(|| anyhow!("no stdin"))?;
        let output = child.stdout.take().ok_or_else(|| anyhow!("no stdout"))?;
        let waiting = Waiting::default();
        let readers = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                deliver(&readers, &line);
            }
            // The JVM has ended: whoever still waits learns it.
            readers.lock().unwrap_or_else(|e| e.into_inner()).clear();
        });
        let port = ports::free()?;
        let lab = Lab {
            version,
            namesrv: format!("127.0.0.1:{port}"),
            input: Mutex::new(input),
            waiting,
            next: AtomicU64::new(1),
            _daemon: Mutex::new(Daemon::adopt("lab", child, &log)),
        };
        lab.run(
            "namesrv",
            json!({"port": port, "dir": home.join("namesrv")}),
        )?;
        Ok(lab)
    }

    /// Starts a command; its lines arrive while it runs.
    pub fn begin(&self, cmd: &str, args: Value) -> Result<Running> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, lines) = channel();
        self.waiting
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .insert(id, tell);
        let line = json!({"id": id, "cmd": cmd, "args": args}).to_string();
        let mut input = self.input.lock().unwrap_or_else(|e| e.into_inner());
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .context("the Java test client is gone")?;
        Ok(Running {
            cmd: cmd.to_owned(),
            lines,
        })
    }

    /// Runs a command and returns its lines; an error if it fails.
    pub fn run(&self, cmd: &str, args: Value) -> Result<Vec<Value>> {
        self.begin(cmd, args)?.finish(Duration::from_secs(180))
    }

    /// Runs a command against the broker at `namesrv` that this JVM's own name server knows.
    pub fn at_home(&self, cmd: &str, mut args: Value) -> Result<Vec<Value>> {
        args["ns"] = self.namesrv.clone().into();
        self.run(cmd, args)
    }

    /// Everything that the broker at `addr` serves, with the queries that `like` asked.
    pub fn dump(&self, addr: &str, store: &Path, like: Option<&Ledger>) -> Result<Ledger> {
        let out = store.with_extension(format!("dump-{}", self.next.load(Ordering::Relaxed)));
        let mut args = json!({"addr": addr, "store": store, "out": out});
        if let Some(like) = like {
            let keys: Vec<Value> = like
                .by_key
                .iter()
                .map(|k| json!([k.topic, k.key, k.unique]))
                .collect();
            let times: Vec<Value> = like
                .by_time
                .iter()
                .map(|t| json!([t.topic, t.queue_id, t.timestamp]))
                .collect();
            args["keys"] = keys.into();
            args["times"] = times.into();
        }
        self.run("dump", args)?;
        let ledger = Ledger::read(&out)?;
        if std::env::var_os("LEDGERMQ_KEEP").is_none() {
            std::fs::remove_file(&out)?;
        }
        Ok(ledger)
    }

    /// One raw request through the stock remoting client; the answer's code, remark, ext and body.
    pub fn rpc(&self, addr: &str, code: i32, ext: Value) -> Result<Value> {
        let lines = self.run("rpc", json!({"addr": addr, "code": code, "ext": ext}))?;
        lines.into_iter().next().ok_or_else(|| anyhow!("no answer"))
    }

    /// One mqadmin command; its output.
    pub fn admin(&self, argv: &[&str]) -> Result<String> {
        let lines = self.run("admin", json!({"argv": argv}))?;
        Ok(lines
            .first()
            .and_then(|l| l["text"].as_str())
            .unwrap_or_default()
            .to_owned())
    }
}

fn deliver(waiting: &Waiting, line: &str) {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        eprintln!("lab: {line}");
        return;
    };
    let Some(id) = value["id"].as_u64() else {
        return;
    };
    let mut waiting = waiting.lock().unwrap_or_else(|e| e.into_inner());
    let done = value["type"] == "done";
    if let Some(to) = waiting.get(&id) {
        let _ = to.send(value);
    }
    if done {
        waiting.remove(&id);
    }
}

impl Running {
    /// The next line of this type; other lines are dropped. An error if the command ends first.
    pub fn wait_for(&self, kind: &str, within: Duration) -> Result<Value> {
        let end = Instant::now() + within;
        loop {
            let line = self.next(end)?;
            if line["type"] == kind {
                return Ok(line);
            }
            if line["type"] == "done" {
                bail!("{} ended before {kind}: {line}", self.cmd);
            }
        }
    }

    fn next(&self, end: Instant) -> Result<Value> {
        let left = end.saturating_duration_since(Instant::now());
        self.lines
            .recv_timeout(left)
            .with_context(|| format!("{}: no line", self.cmd))
    }

    /// All lines until the end; an error if the command failed or takes longer than `within`.
    pub fn finish(self, within: Duration) -> Result<Vec<Value>> {
        let end = Instant::now() + within;
        let mut lines = Vec::new();
        loop {
            let line = self.next(end)?;
            if line["type"] != "done" {
                lines.push(line);
            } else if line["ok"] == true {
                return Ok(lines);
            } else {
                let last = lines.last().map(Value::to_string).unwrap_or_default();
                bail!(
                    "{}: {} (after {} lines; {last})",
                    self.cmd,
                    line["error"],
                    lines.len()
                );
            }
        }
    }
}

/// A folder for logs and configurations of this test binary, removed by the operating system's
/// cleaner, not by us: it is what one looks at after a failure.
pub fn work_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("ledgermq-tests-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temporary folder");
        dir
    })
}

/// Keeps a copy of a store when `LEDGERMQ_KEEP` is set, to look at.
pub fn keep(store: &Path, label: &str) -> Result<()> {
    if std::env::var_os("LEDGERMQ_KEEP").is_some() {
        copy_tree(store, &work_dir().join(label))?;
    }
    Ok(())
}

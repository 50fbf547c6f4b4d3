//! Child processes that die with the test and keep a log.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

/// A running child; killed when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

/// `command` run so that the kernel kills it when the thread that started it ends, however that
/// happens (a test binary that is itself killed must not leave brokers behind).
pub fn bound_to_parent(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

impl Daemon {
    /// Starts `command` (see [`bound_to_parent`]), output appended to `log`.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Daemon> {
        let file = append(log)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Daemon {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// Takes over a child that was started elsewhere.
    pub fn adopt(name: &str, child: Child, log: &Path) -> Daemon {
        Daemon {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// File with everything that it printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Everything that it printed so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until `ready` says so; an error if the process ends first or `within` passes.
    pub fn wait_until(
        &mut self,
        what: &str,
        within: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let end = Instant::now() + within;
        loop {
            if ready() {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                bail!(
                    "{} ended ({status}) before {what}:\n{}",
                    self.name,
                    self.tail()
                );
            }
            if Instant::now() > end {
                bail!(
                    "{}: no {what} within {within:?}:\n{}",
                    self.name,
                    self.tail()
                );
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it listens on `port` of loopback.
    pub fn wait_port(&mut self, port: u16, within: Duration) -> Result<()> {
        self.wait_until(&format!("port {port}"), within, || listens(port))
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        if self.ended()?.is_none() {
            self.child.kill()?;
            self.child.wait()?;
        }
        Ok(())
    }

    /// Sends one signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).ok_or_else(|| anyhow!("no pid"))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Sends SIGTERM and waits for the end; an error (and SIGKILL) if it takes longer than `within`.
    pub fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        if self.ended()?.is_none() {
            self.signal(Signal::TERM)?;
        }
        self.wait_end(within)
    }

    /// Waits for the end; an error (and SIGKILL) if it takes longer than `within`.
    pub fn wait_end(&mut self, within: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > end {
                self.kill()?;
                bail!(
                    "{} did not end within {within:?}:\n{}",
                    self.name,
                    self.tail()
                );
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.kill();
        if std::thread::panicking() {
            eprintln!(
                "--- {} (pid {}), end of its log:\n{}",
                self.name,
                self.pid(),
                self.tail()
            );
        }
    }
}

/// Opens a log file for appending.
pub fn append(log: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| log.display().to_string())
}

/// Something accepts connections on `port` of loopback.
pub fn listens(port: u16) -> bool {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&addr, Duration::from_millis(500)).is_ok()
}

/// Ended by this signal.
pub fn signalled(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}

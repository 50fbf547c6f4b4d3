//! Our own programs: `mqbroker` and `mqctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::conf::Conf;
use crate::deps;
use crate::process::{Daemon, bound_to_parent};

/// Folder of our binaries: `LEDGERMQ_BIN`, or the debug ones, which are built at the first call.
pub fn bin_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        if let Some(dir) = std::env::var_os("LEDGERMQ_BIN") {
            return dir.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "-p", "broker", "--bins"])
            .current_dir(deps::repository())
            .status();
        assert!(
            status.is_ok_and(|s| s.success()),
            "mqbroker and mqctl do not build"
        );
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| deps::repository().join("target"), PathBuf::from);
        target.join("debug")
    })
}

/// A running `mqbroker`.
#[derive(Debug)]
pub struct OurBroker {
    /// Its process.
    pub daemon: Daemon,
}

impl OurBroker {
    /// Starts it with `-c` and this configuration and waits for its port.
    pub fn start(conf: &Conf, home: &Path) -> Result<OurBroker> {
        let mut broker = OurBroker::spawn(conf, home)?;
        broker
            .daemon
            .wait_port(conf.ports.listen, Duration::from_secs(60))?;
        Ok(broker)
    }

    /// Starts it with `-c` and this configuration without waiting for anything.
    pub fn spawn(conf: &Conf, home: &Path) -> Result<OurBroker> {
        fs::create_dir_all(home)?;
        let file = home.join("broker.conf");
        fs::write(&file, conf.text())?;
        let mut command = bound_to_parent(bin_dir().join("mqbroker"));
        command.arg("-c").arg(&file).current_dir(home);
        Ok(OurBroker {
            daemon: Daemon::spawn("mqbroker", command, &home.join("mqbroker.log"))?,
        })
    }

    /// Starts it with these arguments in `dir`.
    pub fn with_args(args: &[&str], dir: &Path) -> Result<OurBroker> {
        fs::create_dir_all(dir)?;
        let mut command = bound_to_parent(bin_dir().join("mqbroker"));
        command.args(args).current_dir(dir);
        Ok(OurBroker {
            daemon: Daemon::spawn("mqbroker", command, &dir.join("mqbroker.log"))?,
        })
    }

    /// Stops it with SIGTERM: it must end with status 0 within 10 s.
    pub fn stop(mut self) -> Result<()> {
        let status = self.daemon.terminate(Duration::from_secs(10))?;
        ensure!(
            status.success(),
            "mqbroker ended with {status}:\n{}",
            self.daemon.tail()
        );
        Ok(())
    }

    /// Stops it with SIGKILL.
    pub fn kill(mut self) -> Result<()> {
        self.daemon.kill()
    }
}

/// Runs `mqctl`.
pub fn mqctl(args: &[&str]) -> Result<Output> {
    Command::new(bin_dir().join("mqctl"))
        .args(args)
        .output()
        .context("starting mqctl")
}

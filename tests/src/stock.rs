//! The stock Java broker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::conf::Conf;
use crate::deps;
use crate::process::{Daemon, bound_to_parent};

/// A generation of the stock software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 4.9.7
    V4,
    /// 5.3.3
    V5,
}

impl Version {
    /// The version that a fixture names.
    pub fn named(version: &str) -> Version {
        if version.starts_with('5') {
            Version::V5
        } else {
            Version::V4
        }
    }

    /// As published.
    pub fn text(self) -> &'static str {
        match self {
            Version::V4 => "4.9.7",
            Version::V5 => "5.3.3",
        }
    }

    fn dir(self) -> PathBuf {
        deps::dir().join("java").join(self.text())
    }

    /// Class path: our test client, logging configuration, the stock jars.
    fn class_path(self) -> String {
        let conf = deps::repository().join("tests/clients/java/conf/5");
        let dir = self.dir();
        format!(
            "{}/classes:{}:{}/lib/*",
            dir.display(),
            conf.display(),
            dir.display()
        )
    }
}

/// What the stock code needs on a JDK 17, and what keeps a JVM small and quick to start.
const FLAGS: &str = "--add-exports java.base/sun.nio.ch=ALL-UNNAMED \
  --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
  --add-opens java.base/jdk.internal.ref=ALL-UNNAMED --add-exports java.base/jdk.internal.ref=ALL-UNNAMED \
  --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.util=ALL-UNNAMED \
  -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Duser.timezone=UTC -Dfile.encoding=UTF-8 \
  -Djava.net.preferIPv4Stack=false -XX:MaxDirectMemorySize=512m -Drocketmq.client.logUseSlf4j=false";

/// A JVM of this version that runs `main`, files under `home`.
pub fn java(version: Version, main: &str, home: &Path, heap_mib: u32) -> Result<Command> {
    let conf = home.join("conf");
    fs::create_dir_all(&conf)?;
    for entry in fs::read_dir(deps::repository().join("tests/clients/java/conf/4"))? {
        let entry = entry?;
        fs::copy(entry.path(), conf.join(entry.file_name()))?;
    }
    let mut command = bound_to_parent("java");
    command
        .args(FLAGS.split_whitespace())
        .arg(format!("-Xmx{heap_mib}m"))
        .arg(format!("-Drocketmq.home.dir={}", home.display()))
        .arg(format!("-Duser.home={}", home.display()))
        .arg(format!(
            "-Drocketmq.client.logRoot={}/client-logs",
            home.display()
        ))
        .arg("-cp")
        .arg(version.class_path())
        .arg(main);
    Ok(command)
}

/// A running stock broker.
#[derive(Debug)]
pub struct StockBroker {
    /// Its process.
    pub daemon: Daemon,
}

impl StockBroker {
    /// Starts it with `conf` and waits for its port; `home` takes its log and configuration.
    pub fn start(version: Version, conf: &Conf, home: &Path) -> Result<StockBroker> {
        fs::create_dir_all(home)?;
        let file = home.join("broker.conf");
        fs::write(&file, conf.text())?;
        let mut command = java(
            version,
            "org.apache.rocketmq.broker.BrokerStartup",
            home,
            512,
        )?;
        command.arg("-c").arg(&file);
        let name = format!("stock broker {}", version.text());
        let mut daemon = Daemon::spawn(&name, command, &home.join("broker.log"))?;
        daemon.wait_port(conf.ports.listen, Duration::from_secs(120))?;
        Ok(StockBroker { daemon })
    }

    /// Stops it with SIGTERM; the JVM ends with status 143.
    pub fn stop(mut self) -> Result<ExitStatus> {
        let status = self.daemon.terminate(Duration::from_secs(90))?;
        ensure!(
            status.code() == Some(143),
            "stock broker ended with {status}"
        );
        Ok(status)
    }
}

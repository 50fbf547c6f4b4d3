//! From the command line, the environment and a file to an effective configuration.

use super::addresses;
use super::check;
use super::keys::BrokerConfig;
use super::properties::PropertyFile;
use std::path::{Path, PathBuf};

/// The command line of `mqbroker`: Apache's flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Parser)]
#[command(
    name = "mqbroker",
    about = "A RocketMQ-compatible broker on a DLedger log",
    version,
    disable_version_flag = true
)]
pub struct Cli {
    /// Configuration file (Java properties)
    #[arg(short = 'c', long = "configFile", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name servers, host:port joined by ';'; wins over the file
    #[arg(short = 'n', long = "namesrvAddr", value_name = "LIST")]
    pub namesrv: Option<String>,
    /// Print all configuration items and exit
    #[arg(short = 'p', long = "printConfigItem")]
    pub print: bool,
    /// Print the important configuration items and exit
    #[arg(short = 'm', long = "printImportantConfig")]
    pub print_important: bool,
    /// Print the version and exit
    #[arg(short = 'v', long = "version", action = clap::ArgAction::Version)]
    pub version: Option<bool>,
}

/// What the machine contributes to the defaults; a value of its own so that tests can replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Home folder of the user.
    pub home: Option<PathBuf>,
    /// `NAMESRV_ADDR`.
    pub namesrv_addr: Option<String>,
    /// Host name.
    pub host_name: String,
    /// Our address as seen from outside.
    pub local_address: String,
}

impl Environment {
    /// Reads the real one.
    pub fn from_process() -> Self {
        let host_name = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .trim()
            .to_string();
        Self {
            home: std::env::var_os("HOME")
                .filter(|h| !h.is_empty())
                .map(PathBuf::from),
            namesrv_addr: std::env::var("NAMESRV_ADDR")
                .ok()
                .filter(|a| !a.trim().is_empty()),
            host_name: if host_name.is_empty() {
                "DEFAULT_BROKER".into()
            } else {
                host_name
            },
            local_address: addresses::local_address().to_string(),
        }
    }
}

/// Where the configuration came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// No `-c`: loopback, `./store`, embedded name server.
    Defaults,
    /// The file given by `-c`.
    File(PathBuf),
}

/// Why there is no configuration to start with; each `Display` is one line (several refusals: one line each).
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// A malformed escape.
    #[error("configuration {path}: {error}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The place.
        error: super::properties::MalformedEscape,
    },
    /// A value that makes no sense.
    #[error("{place}: key {key}: value '{value}' makes no sense, expected {expected}")]
    Value {
        /// File, command line or environment.
        place: String,
        /// The key.
        key: String,
        /// Its text.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// Values that make no sense together, or a default that cannot be found.
    #[error("{place}: {line}")]
    Nonsense {
        /// File or command line.
        place: String,
        /// The reason.
        line: String,
    },
    /// Configurations that are understood but refused.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
}

/// A configuration that was read; it may still be one that must be refused.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The effective configuration.
    pub config: BrokerConfig,
    /// Where it came from.
    pub source: ConfigSource,
    /// Lines for the log at start: defaults that were derived, keys without effect, unknown keys; each once.
    pub notes: Vec<String>,
    /// Reasons not to start, one readable line each.
    pub refusals: Vec<String>,
}

impl Loaded {
    /// Reads the file of `-c` if any, applies the environment, the command line and the defaults, and checks.
    pub fn read(cli: &Cli, env: &Environment) -> Result<Self, ConfigError> {
        let Some(path) = &cli.config else {
            return Self::build(&PropertyFile::default(), ConfigSource::Defaults, cli, env);
        };
        let unreadable = |error| ConfigError::Unreadable {
            path: path.clone(),
            error,
        };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let file = PropertyFile::parse(&bytes).map_err(|error| ConfigError::Malformed {
            path: path.clone(),
            error,
        })?;
        Self::build(&file, ConfigSource::File(path.clone()), cli, env)
    }

    /// The same from a file already parsed.
    pub fn build(
        file: &PropertyFile,
        source: ConfigSource,
        cli: &Cli,
        env: &Environment,
    ) -> Result<Self, ConfigError> {
        let place = match &source {
            ConfigSource::Defaults => "command line".to_string(),
            ConfigSource::File(path) => format!("configuration {}", path.display()),
        };
        let mut config = BrokerConfig::default();
        let mut notes = Vec::new();
        if let Some(list) = &env.namesrv_addr {
            set(
                &mut config,
                "environment variable NAMESRV_ADDR",
                "namesrvAddr",
                list.trim(),
            )?;
        }
        let mut seen: Vec<&str> = Vec::new();
        for (key, _) in file.pairs() {
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let value = file.get(key).unwrap_or_default();
            notes.extend(set(&mut config, &place, key, value)?);
        }
        if let Some(list) = &cli.namesrv {
            set(&mut config, "command line", "namesrvAddr", list.trim())?;
        }
        let given = matches!(source, ConfigSource::File(_));
        let nonsense = |line| ConfigError::Nonsense {
            place: place.clone(),
            line,
        };
        check::nonsense(&config).map_err(nonsense)?;
        notes.extend(resolve_defaults(&mut config, env, given).map_err(nonsense)?);
        check::group(&config)
            .and_then(|()| check::nonsense(&config))
            .map_err(nonsense)?;
        notes.extend(consequences(&config));
        let refusals = check::refusals(&config, given);
        Ok(Self {
            config,
            source,
            notes,
            refusals,
        })
    }

    /// `Err` with all refusals if there are any.
    pub fn runnable(&self) -> Result<(), ConfigError> {
        if self.refusals.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Refused(self.refusals.clone()))
        }
    }
}

/// Applies one pair; the line to log if it has no effect.
fn set(
    config: &mut BrokerConfig,
    place: &str,
    key: &str,
    value: &str,
) -> Result<Option<String>, ConfigError> {
    let nonsense = |expected: String| ConfigError::Value {
        place: place.to_string(),
        key: key.to_string(),
        value: value.to_string(),
        expected,
    };
    config.apply(key, value).map_err(nonsense)
}

/// Fills what depends on the machine or on other keys; lines for the log.
fn resolve_defaults(
    c: &mut BrokerConfig,
    env: &Environment,
    file: bool,
) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    if !file {
        c.bind_address = "127.0.0.1".into();
        c.enable_dleger_commit_log = true;
        c.embedded_namesrv_enable = c.namesrv_addr.is_empty();
        fill(&mut c.broker_ip1, || "127.0.0.1".into());
        fill(&mut c.store_path_root_dir, || "./store".into());
    }
    fill(&mut c.broker_ip1, || env.local_address.clone());
    fill(&mut c.broker_ip2, || env.local_address.clone());
    fill(&mut c.broker_name, || env.host_name.clone());
    if c.store_path_root_dir.is_empty() {
        let home = env.home.as_ref().ok_or(
            "key storePathRootDir is missing, and there is no home folder for its default",
        )?;
        c.store_path_root_dir = home.join("store").to_string_lossy().into_owned();
        notes.push(format!(
            "storePathRootDir={} by default",
            c.store_path_root_dir
        ));
    }
    let (root, group) = (c.store_path_root_dir.clone(), c.broker_name.clone());
    let below_root = |name: String| Path::new(&root).join(name).to_string_lossy().into_owned();
    let derived =
        c.dleger_group.is_empty() || c.dleger_self_id.is_empty() || c.dleger_peers.is_empty();
    fill(&mut c.dleger_group, || group);
    // A list of one member says who this one is.
    let only = c
        .peers()
        .ok()
        .filter(|p| p.len() == 1)
        .map(|p| p.members()[0].id.to_string());
    fill(&mut c.dleger_self_id, || {
        only.unwrap_or_else(|| "n0".into())
    });
    let own = format!(
        "{}-{}",
        c.dleger_self_id,
        addresses::join(&c.broker_ip1, c.listen_port + 30_000)
    );
    fill(&mut c.dleger_peers, || own);
    // Without a file there is nothing that the operator could have meant otherwise.
    if derived && file {
        notes.push(format!(
            "DLedger keys in force: dLegerGroup={} dLegerSelfId={} dLegerPeers={} (those not given have the defaults of a group of one)",
            c.dleger_group, c.dleger_self_id, c.dleger_peers
        ));
    }
    let data = format!("dledger-{}/data", c.dleger_self_id);
    fill(&mut c.store_path_commit_log, || {
        below_root("commitlog".into())
    });
    fill(&mut c.store_path_dledger_commit_log, || below_root(data));
    if c.ha_listen_port == 0 {
        c.ha_listen_port = c.listen_port + 1;
    }
    Ok(notes)
}

fn fill(slot: &mut String, default: impl FnOnce() -> String) {
    if slot.is_empty() {
        *slot = default();
    }
}

/// Lines about what a configuration means that its author may not expect.
fn consequences(c: &BrokerConfig) -> Vec<String> {
    let mut lines = Vec::new();
    if c.namesrv_addr.is_empty() && !c.embedded_namesrv_enable {
        lines.push("no name server is configured (namesrvAddr, -n or NAMESRV_ADDR): clients will not find this broker".into());
    }
    lines
}

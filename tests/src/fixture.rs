//! Store directories written by stock brokers, kept compressed under `tests/data/fixtures`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::ledger::Ledger;

/// Folder of the test data of this package (`tests/data`).
pub fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// One fixture: a store as a real broker left it, with the list of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixture {
    /// Name of its folder under `tests/data/fixtures`.
    pub name: &'static str,
    /// Version of the broker that wrote it: `4.9.7` or `5.3.3`.
    pub version: &'static str,
    /// Written in plain mode, so that opening it is an upgrade.
    pub plain: bool,
    /// The broker was killed while it was sent to: the ledger lists the sends only.
    pub crash: bool,
}

const fn fixture(name: &'static str, version: &'static str, plain: bool, crash: bool) -> Fixture {
    Fixture {
        name,
        version,
        plain,
        crash,
    }
}

/// Single member, clean stop.
pub const A: Fixture = fixture("A-dledger-497", "4.9.7", false, false);
/// Single member, killed.
pub const B: Fixture = fixture("B-dledger-497-kill9", "4.9.7", false, true);
/// Single member, 5.x, clean stop.
pub const C: Fixture = fixture("C-dledger-533", "5.3.3", false, false);
/// Plain mode, clean stop.
pub const E: Fixture = fixture("E-plain-497", "4.9.7", true, false);
/// Plain mode, killed.
pub const G: Fixture = fixture("G-plain-497-kill9", "4.9.7", true, true);
/// E, upgraded in place by Java.
pub const H: Fixture = fixture("H-upgraded-497", "4.9.7", false, false);
/// Three members (`n0`, `n1`, `n2`).
pub const I: Fixture = fixture("I-dledger-3-497", "4.9.7", false, false);
/// Plain mode, the first commitlog files expired.
pub const L0: Fixture = fixture("L0-plain-front-deleted-497", "4.9.7", true, false);
/// L0, upgraded in place by Java.
pub const L: Fixture = fixture("L-upgraded-front-deleted-497", "4.9.7", false, false);

/// All fixtures.
pub const ALL: [Fixture; 9] = [A, B, C, E, G, H, I, L0, L];

impl Fixture {
    /// Folder that holds its archive, ledger and broker configuration.
    pub fn dir(&self) -> PathBuf {
        data_dir().join("fixtures").join(self.name)
    }

    /// Unpacks the store into a new temporary folder, holes and modification times kept.
    pub fn unpack(&self) -> Result<Unpacked> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("{}-", self.name))
            .tempdir()?;
        self.unpack_into(dir.path())?;
        Ok(Unpacked {
            fixture: *self,
            dir,
        })
    }

    /// Unpacks the archive into `target`, which then has `store/` (fixture I: `n0/`, `n1/`, `n2/`).
    pub fn unpack_into(&self, target: &Path) -> Result<()> {
        let archive = self.dir().join("store.tar.zst");
        let output = Command::new("tar")
            .args(["--zstd", "--sparse", "--no-same-owner", "-xf"])
            .arg(&archive)
            .arg("-C")
            .arg(target)
            .output()
            .context("tar is needed to unpack fixtures")?;
        if !output.status.success() {
            bail!(
                "unpacking {}: {} (are tar and zstd installed?)",
                archive.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    /// What was sent to the store and, for clean stops, everything that it served.
    pub fn ledger(&self) -> Result<Ledger> {
        Ledger::read(&self.dir().join("ledger.jsonl.gz"))
    }

    /// Killed stores only: what the same Java version served after it had reopened a copy.
    pub fn java_reopen(&self) -> Result<Ledger> {
        Ledger::read(&self.dir().join("java-reopen.jsonl.gz"))
    }

    /// The broker configuration that wrote it; `@STORE@` stands for the store's folder.
    pub fn broker_conf(&self, member: Option<&str>) -> Result<String> {
        let name = member.map_or_else(|| "broker.conf".into(), |m| format!("broker-{m}.conf"));
        let path = self.dir().join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

/// An unpacked fixture; its folder is removed when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    /// Which fixture this is.
    pub fixture: Fixture,
    dir: TempDir,
}

impl Unpacked {
    /// The temporary folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The store folder of a single broker.
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The store folder of one member of fixture I: `n0`, `n1` or `n2`.
    pub fn member(&self, id: &str) -> PathBuf {
        self.dir.path().join(id)
    }

    /// Keeps the folder on disk and returns its path: to look at after a failure.
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// Copies a directory tree with holes and times kept (`cp -a --sparse=always`).
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .args(["-a", "--sparse=always"])
        .arg(from)
        .arg(to)
        .status()?;
    ensure!(
        status.success(),
        "copying {} to {}",
        from.display(),
        to.display()
    );
    Ok(())
}

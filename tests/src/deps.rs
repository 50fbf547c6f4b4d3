//! Where `scripts/deps` puts the stock clients and brokers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The folder of fetched dependencies (`.deps`, or `LEDGERMQ_DEPS`); fetches them at the first call.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let script = repository().join("scripts/deps");
        let status = Command::new(&script).status();
        assert!(
            status.as_ref().is_ok_and(|s| s.success()),
            "{} failed ({status:?}): the interop tests need its results",
            script.display()
        );
        std::env::var_os("LEDGERMQ_DEPS").map_or_else(|| repository().join(".deps"), PathBuf::from)
    })
}

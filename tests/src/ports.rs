//! Free TCP ports for the brokers of a test.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;

use anyhow::{Result, bail};
use rand::Rng;

/// Ports handed out by this process: never handed out twice.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Below the range that Linux picks ports of outgoing connections from (32768…60999).
const RANGE: std::ops::Range<u16> = 12_000..30_000;

/// The ports of one broker.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// `listenPort`; the broker also takes this − 2 (the fast port) and, Java in plain mode, + 1.
    pub listen: u16,
    /// The port of its replicated log.
    pub peer: u16,
}

impl Ports {
    /// Finds free ports.
    pub fn free() -> Result<Ports> {
        let base = free_block(5)?;
        Ok(Ports {
            listen: base + 2,
            peer: base + 4,
        })
    }

    /// `127.0.0.1:listenPort`.
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.listen)
    }
}

/// One free port.
pub fn free() -> Result<u16> {
    free_block(1)
}

/// The first of `n` adjacent free ports.
pub fn free_block(n: u16) -> Result<u16> {
    let mut taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
    let mut rng = rand::rng();
    for _ in 0..1000 {
        let base = rng.random_range(RANGE);
        let block = base..base + n;
        if block.clone().all(|p| !taken.contains(&p) && is_free(p)) {
            taken.extend(block);
            return Ok(base);
        }
    }
    bail!("no {n} adjacent free ports in {RANGE:?}")
}

/// Nobody listens there on any address.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

//! SIGKILL at random moments under load: nothing acknowledged is lost or moved, queue offsets are dense, queues
//! and key index equal a rebuild.
//!
//! `LEDGERMQ_ROUNDS` kills (30), `LEDGERMQ_SEED` to repeat a run (the moments of the kernel's scheduler aside).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use remoting::client::{Client, ClientConfig};
use tempfile::TempDir;
use tests::compare::none;
use tests::conf::Conf;
use tests::load::{Book, Load, Shape, TOPICS, pull_all};
use tests::ours::OurBroker;
use tests::scan::Scan;

const SLOTS: usize = 1000;
/// After so many kills a new store is begun, so that checks stay quick.
const KILLS_PER_STORE: u32 = 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| {
        v.parse()
            .unwrap_or_else(|_| panic!("{name}={v} is no number"))
    })
}

/// One store and all that happened to it.
struct Victim {
    /// Removed at the end, kept after a failure.
    dir: Option<TempDir>,
    home: PathBuf,
    conf: Conf,
    book: Arc<Book>,
    rng: StdRng,
    slowest_start: Duration,
    /// Kills that interrupted the load.
    under_load: u32,
}

impl Victim {
    fn new(seed: u64) -> Victim {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        // Nobody listens at that name server: the load needs none.
        let conf = Conf::small(&home.join("store"), "127.0.0.1:9").unwrap();
        let rng = StdRng::seed_from_u64(seed);
        Victim {
            home: home.to_owned(),
            dir: Some(dir),
            conf,
            book: Arc::default(),
            rng,
            slowest_start: Duration::ZERO,
            under_load: 0,
        }
    }

    fn start(&mut self) -> OurBroker {
        self.conf = self.conf.clone().moved().unwrap();
        let begin = Instant::now();
        let broker = OurBroker::start(&self.conf, &self.home).unwrap();
        self.slowest_start = self.slowest_start.max(begin.elapsed());
        broker
    }

    fn store(&self) -> &Path {
        &self.conf.store
    }

    /// Kills it after a random while under load, in some rounds while it still starts.
    async fn round(&mut self) {
        if self.rng.random_range(0..5) == 0 {
            self.conf = self.conf.clone().moved().unwrap();
            let broker = OurBroker::spawn(&self.conf, &self.home).unwrap();
            let wait = self.rng.random_range(0..120);
            tokio::time::sleep(Duration::from_millis(wait)).await;
            broker.kill().unwrap();
        }
        let broker = self.start();
        let shape = Shape {
            senders: self.rng.random_range(1..24),
            body_max: self.rng.random_range(100..2500),
            requests_max: 15_000,
        };
        let load = Load::start(
            &self.conf.ports.addr(),
            &self.book,
            shape,
            self.rng.random(),
        );
        let wait = self.rng.random_range(5..400);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        broker.kill().unwrap();
        self.under_load += u32::from(load.finish().await.unwrap());
    }

    /// Right after a kill: whatever was acknowledged is in the page cache, so it is in the files.
    fn check_files(&self) {
        let scan = Scan::of(self.store(), SLOTS).unwrap();
        none("in the files after the kill", &self.book.check(&scan));
    }

    /// Serves every message at its place to a client, then stops cleanly; then all bytes must agree.
    async fn check_served(&mut self) {
        let broker = self.start();
        let client = Client::new(ClientConfig::default(), None);
        let addr = self.conf.ports.addr();
        let mut served = Scan::default();
        for (topic, queues) in TOPICS {
            for queue in 0..queues {
                let records = pull_all(&client, &addr, topic, queue).await.unwrap();
                served
                    .records
                    .extend(records.into_iter().map(|r| (r.phys, r)));
            }
        }
        client.close().await;
        none("served after the kill", &self.book.check(&served));
        broker.stop().unwrap();
        let scan = Scan::of(self.store(), SLOTS).unwrap();
        none("after recovery and a clean stop", &scan.problems());
        none("in the files after the stop", &self.book.check(&scan));
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            eprintln!("the store is kept in {}", dir.keep().display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_nothing_acknowledged_is_lost() {
    let rounds = setting("LEDGERMQ_ROUNDS").unwrap_or(30) as u32;
    let seed = setting("LEDGERMQ_SEED").unwrap_or_else(|| rand::rng().random());
    println!("crash: {rounds} kills, LEDGERMQ_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut done, mut tried, mut acknowledged) = (0, 0, 0);
    let (mut slowest, mut under_load) = (Duration::ZERO, 0);
    while done < rounds {
        let mut victim = Victim::new(rng.random());
        for _ in 0..KILLS_PER_STORE.min(rounds - done) {
            victim.round().await;
            victim.check_files();
            if victim.rng.random_bool(0.5) {
                victim.check_served().await;
            }
            done += 1;
        }
        victim.check_served().await;
        tried += victim.book.messages().len();
        acknowledged += victim.book.acknowledged();
        under_load += victim.under_load;
        slowest = slowest.max(victim.slowest_start);
        println!(
            "crash: {done} kills ({under_load} under load), {tried} messages sent, {acknowledged} acknowledged, slowest start {slowest:?}"
        );
    }
    assert!(
        under_load > rounds / 2,
        "only {under_load} kills under load"
    );
    assert!(
        acknowledged > rounds as usize * 10,
        "the load is too small to mean anything: {acknowledged}"
    );
}

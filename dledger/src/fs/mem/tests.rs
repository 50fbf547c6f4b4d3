use std::path::Path;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;

fn rng() -> SmallRng {
    SmallRng::seed_from_u64(1)
}

fn store() -> (MemFs, Arc<dyn Map>) {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/s")).unwrap();
    let map = fs
        .map(Path::new("/s/f"), MapMode::Create { size: 16_384 })
        .unwrap();
    (fs, map)
}

#[test]
fn unsynced_names_and_pages_are_lost() {
    let (fs, map) = store();
    let lost = fs.crash_image(CrashPolicy::LoseUnsynced, &mut rng());
    assert!(!lost.exists(Path::new("/s/f")));

    fs.sync_dir(Path::new("/s")).unwrap();
    map.write(0, 5000, &mut |b| b.fill(7));
    map.sync(0, 1).unwrap();
    let lost = fs.crash_image(CrashPolicy::LoseUnsynced, &mut rng());
    let bytes = lost.read(Path::new("/s/f")).unwrap();
    assert_eq!(bytes.len(), 16_384);
    assert!(bytes[..4096].iter().all(|b| *b == 7), "the synced page");
    assert!(bytes[4096..].iter().all(|b| *b == 0), "the unsynced page");

    let kept = fs.crash_image(CrashPolicy::KeepAll, &mut rng());
    assert!(
        kept.read(Path::new("/s/f")).unwrap()[..5000]
            .iter()
            .all(|b| *b == 7)
    );
}

#[test]
fn a_failed_sync_loses_the_pages_for_good() {
    let (fs, map) = store();
    fs.sync_dir(Path::new("/s")).unwrap();
    map.write(0, 10, &mut |b| b.fill(7));
    fs.fail_next_sync(1);
    assert!(map.sync(0, 10).is_err());
    map.sync(0, 10).unwrap();
    let lost = fs.crash_image(CrashPolicy::LoseUnsynced, &mut rng());
    assert_eq!(lost.read(Path::new("/s/f")).unwrap()[0], 0);
}

#[test]
fn a_full_disk_is_an_error_of_the_reservation() {
    let (fs, map) = store();
    fs.set_capacity(Some(8192));
    map.prepare(0, 8192).unwrap();
    assert!(crate::fs::is_disk_full(&map.prepare(8192, 1).unwrap_err()));
    map.write(0, 8192, &mut |b| b.fill(1));
    assert_eq!(fs.space(Path::new("/s")).unwrap().available, 0);
}

#[test]
fn a_stopped_disk_takes_nothing_more() {
    let (fs, map) = store();
    map.write(0, 4, &mut |b| b.fill(1));
    fs.stop_after(1);
    map.write(0, 4, &mut |b| b.fill(2));
    map.write(0, 4, &mut |b| b.fill(3));
    assert!(fs.write(Path::new("/s/g"), b"x").is_err());
    assert!(fs.stopped());
    let image = fs.crash_image(CrashPolicy::KeepAll, &mut rng());
    assert_eq!(image.read(Path::new("/s/f")).unwrap()[..4], [2; 4]);
    assert!(!image.exists(Path::new("/s/g")));
    image.write(Path::new("/s/g"), b"x").unwrap();
}

#[test]
fn write_durable_is_old_or_new_in_every_image() {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/s")).unwrap();
    let path = Path::new("/s/t");
    fs.write_durable(path, b"old").unwrap();
    for steps in 0..8 {
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let fs = fs.crash_image(CrashPolicy::KeepAll, &mut rng);
            fs.stop_after(steps);
            let done = fs.write_durable(path, b"new!").is_ok();
            let image = fs.crash_image(CrashPolicy::TornPages { keep: 0.5 }, &mut rng);
            let bytes = image.read(path).unwrap();
            assert!(
                bytes == b"new!" || (bytes == b"old" && !done),
                "steps {steps} seed {seed}"
            );
        }
    }
}

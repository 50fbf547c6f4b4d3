//! The tables in `config/*.json` that stock brokers wrote: read, and written back byte for byte.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use broker::config::{Cli, ConfigSource, Environment, Loaded, PropertyFile};
use broker::tables::{ConsumerOffsets, GroupTable, SCHEDULE_TOPIC, Table, TopicTable, save};
use dledger::fs::RealFs;
use tests::fixture::{self, Fixture};

/// The folders of the stores in a fixture, each with its broker configuration.
fn stores(fixture: &Fixture, root: &Path) -> Vec<(PathBuf, PathBuf)> {
    let conf = |name: &str| fixture.dir().join(name);
    if *fixture == fixture::I {
        ["n0", "n1", "n2"]
            .map(|n| (root.join(n), conf(&format!("broker-{n}.conf"))))
            .to_vec()
    } else {
        vec![(root.join("store"), conf("broker.conf"))]
    }
}

fn config(path: &Path) -> Result<Loaded> {
    let file = PropertyFile::parse(&std::fs::read(path)?)?;
    let source = ConfigSource::File(path.to_path_buf());
    Ok(Loaded::build(
        &file,
        source,
        &Cli::default(),
        &Environment::from_process(),
    )?)
}

#[test]
fn every_fixture_is_read_and_written_back() -> Result<()> {
    let fs = RealFs::shared();
    for fixture in &fixture::ALL {
        let folder = tempfile::tempdir()?;
        fixture.unpack_into(folder.path())?;
        for (store, conf) in stores(fixture, folder.path()) {
            let dir = store.join("config");
            let loaded = config(&conf)?;
            assert!(
                loaded.notes.iter().all(|n| !n.contains("not known")),
                "{:?}",
                loaded.notes
            );
            let topics = TopicTable::open(fs.clone(), &dir, &loaded.config)?;
            let offsets = ConsumerOffsets::open(fs.clone(), &dir)?;
            // The broker of B and G never wrote its groups.
            let groups = GroupTable::open(fs.clone(), &dir)?;
            let had_groups = dir.join("subscriptionGroup.json").exists();
            assert_eq!(topics.get(SCHEDULE_TOPIC).map(|t| t.write_queues), Some(18));
            for (name, table, had) in [
                ("topics.json", &topics as &dyn Table, true),
                ("consumerOffset.json", &offsets, true),
                ("subscriptionGroup.json", &groups, had_groups),
            ] {
                let path = dir.join(name);
                let what = || format!("{} {}", fixture.name, path.display());
                if had {
                    let before = std::fs::read_to_string(&path).with_context(what)?;
                    assert!(!table.file().is_dirty(), "{}", what());
                    assert!(
                        table.render() == written(&before, fixture),
                        "{}:\n{}",
                        what(),
                        table.render()
                    );
                }
                save(table)?;
            }
            let offset_count = offsets.topics_of("FixOrderly").len();
            let again = ConsumerOffsets::open(fs.clone(), &dir)?;
            assert_eq!(again.topics_of("FixOrderly").len(), offset_count);
            // Not ours to touch.
            assert!(dir.join("delayOffset.json").exists());
        }
    }
    Ok(())
}

/// What we write for a file of that broker: the same bytes, but that our derived map of 5.x is sorted.
fn written(before: &str, fixture: &Fixture) -> String {
    if *fixture != fixture::C {
        return before.to_string();
    }
    let sorted = [
        (
            "[\"FixOrders\",\"%RETRY%FixTagged\"]",
            "[\"%RETRY%FixTagged\",\"FixOrders\"]",
        ),
        (
            "[\"FixEvents\",\"%RETRY%FixRetryGroup\"]",
            "[\"%RETRY%FixRetryGroup\",\"FixEvents\"]",
        ),
    ];
    let mut text = before.to_string();
    for (from, to) in sorted {
        text = text.replace(from, to);
    }
    if let Some((head, rest)) = text.split_once("\"groupTopicMap\":{\n")
        && let Some((map, tail)) = rest.split_once("\n\t},")
    {
        let mut lines: Vec<&str> = map.lines().map(|l| l.trim_end_matches(',')).collect();
        lines.sort_unstable();
        return format!(
            "{head}\"groupTopicMap\":{{\n{}\n\t}},{tail}",
            lines.join(",\n")
        );
    }
    text
}

use super::*;
use crate::config::BrokerConfig;
use dledger::fs::{CrashPolicy, Fs, MemFs};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DIR: &str = "/store/config";

fn config() -> BrokerConfig {
    BrokerConfig {
        broker_name: "broker-a".into(),
        ..BrokerConfig::default()
    }
}

fn disk() -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    Arc::new(fs)
}

fn write(fs: &MemFs, name: &str, text: &str) {
    fs.write(&Path::new(DIR).join(name), text.as_bytes())
        .unwrap();
}

fn read(fs: &MemFs, name: &str) -> Option<String> {
    fs.read(&Path::new(DIR).join(name))
        .ok()
        .map(|b| String::from_utf8(b).unwrap())
}

fn topics(fs: &Arc<MemFs>) -> Result<TopicTable, TableError> {
    TopicTable::open(fs.clone() as Arc<dyn Fs>, Path::new(DIR), &config())
}

fn groups(fs: &Arc<MemFs>) -> GroupTable {
    GroupTable::open(fs.clone() as Arc<dyn Fs>, Path::new(DIR)).unwrap()
}

fn offsets(fs: &Arc<MemFs>) -> ConsumerOffsets {
    ConsumerOffsets::open(fs.clone() as Arc<dyn Fs>, Path::new(DIR)).unwrap()
}

mod topic_table {
    use super::*;

    #[test]
    fn a_new_broker_has_javas_topics() {
        let table = topics(&disk()).unwrap();
        let (version, all) = table.snapshot();
        let all: Vec<_> = all
            .iter()
            .map(|t| (t.name.as_str(), t.read_queues, t.write_queues, t.perm))
            .collect();
        let expected = [
            ("SELF_TEST_TOPIC", 1, 1, 6),
            ("TBW102", 8, 8, 7),
            ("BenchmarkTest", 1024, 1024, 6),
            ("DefaultCluster", 16, 16, 7),
            ("broker-a", 1, 1, 7),
            ("OFFSET_MOVED_EVENT", 1, 1, 6),
            ("SCHEDULE_TOPIC_XXXX", 18, 18, 6),
            ("DefaultCluster_REPLY_TOPIC", 1, 1, 6),
        ];
        assert_eq!(all, expected);
        assert_eq!(version.counter, 0);
        for name in expected.map(|t| t.0) {
            assert!(table.is_system(name), "{name}");
        }
        assert!(table.is_system("rmq_sys_anything") && !table.is_system("orders"));
    }

    #[test]
    fn switches_change_the_builtin_topics() {
        let config = BrokerConfig {
            auto_create_topic_enable: false,
            cluster_topic_enable: false,
            broker_topic_enable: false,
            trace_topic_enable: true,
            ..config()
        };
        let table = TopicTable::open(disk(), Path::new(DIR), &config).unwrap();
        assert!(!table.contains(TBW102));
        assert_eq!(table.get("DefaultCluster").unwrap().perm, perm::INHERIT);
        assert_eq!(table.get("broker-a").unwrap().perm, perm::INHERIT);
        assert!(table.contains("RMQ_SYS_TRACE_TOPIC"));
    }

    #[test]
    fn the_file_has_javas_form_and_comes_back() {
        let fs = disk();
        let table = topics(&fs).unwrap();
        table.put(TopicConfig::new("orders", 8));
        save(&table).unwrap();
        let text = read(&fs, "topics.json").unwrap();
        let version = table.version();
        let start = format!(
            "{{\n\t\"dataVersion\":{{\n\t\t\"counter\":1,\n\t\t\"timestamp\":{}\n\t}},\n\t\"topicConfigTable\":{{\n\t\t\"SELF_TEST_TOPIC\":{{\n\t\t\t\"order\":false,\n",
            version.timestamp
        );
        assert!(text.starts_with(&start), "{text}");
        let end = "\t\t\"orders\":{\n\t\t\t\"order\":false,\n\t\t\t\"perm\":6,\n\t\t\t\"readQueueNums\":8,\n\t\t\t\"topicFilterType\":\"SINGLE_TAG\",\n\t\t\t\"topicName\":\"orders\",\n\t\t\t\"topicSysFlag\":0,\n\t\t\t\"writeQueueNums\":8\n\t\t}\n\t}\n}";
        assert!(text.ends_with(end), "{text}");
        let again = topics(&fs).unwrap();
        assert_eq!(again.version(), version);
        assert!(!again.file().is_dirty());
        assert_eq!(again.render(), text);
    }

    #[test]
    fn what_is_not_known_survives() {
        let fs = disk();
        let text = "{\"dataVersion\":{\"counter\":7,\"stateVersion\":3,\"timestamp\":9},\"future\":[1,{\"a\":null}],\"topicConfigTable\":{\"t\":{\"attributes\":{\"message.type\":\"FIFO\"},\"newMember\":{\"x\":1},\"perm\":4,\"topicName\":\"t\"}}}";
        write(&fs, "topics.json", text);
        let table = topics(&fs).unwrap();
        let topic = table.get("t").unwrap();
        assert_eq!(
            (topic.read_queues, topic.write_queues, topic.perm),
            (16, 16, 4)
        );
        assert_eq!(topic.attribute("message.type"), Some("FIFO"));
        // The built-in topics were missing: a new version.
        assert_eq!(
            (table.version().counter, table.version().state_version),
            (8, Some(3))
        );
        let mut wider = TopicConfig::new("t", 32);
        wider.perm = 6;
        assert!(table.put(wider));
        save(&table).unwrap();
        let json::Node::Map(map) =
            json::parse(read(&fs, "topics.json").unwrap().as_bytes()).unwrap()
        else {
            panic!()
        };
        assert_eq!(
            map.get("future")
                .and_then(json::Node::as_list)
                .map(<[_]>::len),
            Some(2)
        );
        let topic = map
            .get("topicConfigTable")
            .and_then(|t| t.as_map()?.get("t")?.as_map().cloned())
            .unwrap();
        assert_eq!(
            json::compact(&topic),
            "{\"attributes\":{\"message.type\":\"FIFO\"},\"newMember\":{\"x\":1},\"order\":false,\"perm\":6,\"readQueueNums\":32,\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"t\",\"topicSysFlag\":0,\"writeQueueNums\":32}"
        );
        assert_eq!(read(&fs, "topics.json.bak").as_deref(), Some(text));
    }

    #[test]
    fn a_send_creates_a_topic_after_its_default() {
        let table = topics(&disk()).unwrap();
        let config = config();
        let made = table
            .create_for_send(&config, "orders", TBW102, 4, false)
            .unwrap();
        assert_eq!(
            (
                made.read_queues,
                made.write_queues,
                made.perm,
                made.sys_flag
            ),
            (4, 4, 6, 0)
        );
        assert_eq!(
            table
                .create_for_send(&config, "many", TBW102, 100, true)
                .unwrap()
                .write_queues,
            8
        );
        assert_eq!(table.get("many").unwrap().sys_flag, 1);
        assert_eq!(
            table
                .create_for_send(&config, "none", TBW102, -3, false)
                .unwrap()
                .write_queues,
            0
        );
        assert_eq!(
            table
                .create_for_send(&config, "orders", "nothing", 9, false)
                .unwrap(),
            made
        );
        let refused = |topic, default| {
            table
                .create_for_send(&config, topic, default, 4, false)
                .unwrap_err()
        };
        assert_eq!(refused("a", "nothing"), NotCreated::NoDefault);
        assert_eq!(refused("a", "orders"), NotCreated::NotInheritable);
        let retry = table
            .create_for_send(&config, "%RETRY%g", "nothing", 4, true)
            .unwrap();
        assert_eq!((retry.write_queues, retry.perm, retry.sys_flag), (1, 6, 2));
        let off = BrokerConfig {
            auto_create_topic_enable: false,
            ..config.clone()
        };
        let refused = table
            .create_for_send(&off, "b", TBW102, 4, false)
            .unwrap_err();
        assert_eq!(refused, NotCreated::NotInheritable);
        assert_eq!(table.version().counter, 4);
    }

    #[test]
    fn the_default_topic_follows_the_switch() {
        let fs = disk();
        let table = topics(&fs).unwrap();
        let off = BrokerConfig {
            auto_create_topic_enable: false,
            ..config()
        };
        table.follow(&off);
        assert_eq!(table.get(TBW102).unwrap().perm, 6);
        let counter = table.version().counter;
        table.follow(&off);
        assert_eq!(table.version().counter, counter);
        save(&table).unwrap();
        // A later start with the switch on gets it back, where Java would keep what the file says.
        let again = topics(&fs).unwrap();
        assert_eq!(again.get(TBW102).unwrap().perm, 7);
        assert!(again.file().is_dirty());
        let never = TopicTable::open(disk(), Path::new(DIR), &off).unwrap();
        assert!(!never.contains(TBW102));
        never.follow(&config());
        assert_eq!(never.get(TBW102).unwrap().write_queues, 8);
    }

    #[test]
    fn changes_are_told_with_their_version() {
        let table = topics(&disk()).unwrap();
        let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let sink = seen.clone();
        table.listen(move |change, version| {
            let (name, put) = match change {
                TopicChange::Put(t) => (t.name.clone(), true),
                TopicChange::Removed(t) => (t.name.clone(), false),
            };
            sink.lock().push((name, put, version.counter));
        });
        assert!(table.put(TopicConfig::new("a", 1)));
        assert!(!table.put(TopicConfig::new("a", 1)), "unchanged");
        table.create_internal("%RETRY%g", 1, false);
        table.create_internal("%RETRY%g", 5, false);
        table.apply_order(["a", "unknown", "a"].into_iter());
        assert!(table.get("a").unwrap().order);
        assert!(table.remove("a").is_some() && table.remove("a").is_none());
        let expected = [
            ("a", true, 1),
            ("%RETRY%g", true, 2),
            ("a", true, 3),
            ("a", false, 4),
        ]
        .map(|(n, p, c)| (n.to_string(), p, c));
        assert_eq!(*seen.lock(), expected);
    }

    #[test]
    fn the_body_of_request_21_is_compact() {
        let table = topics(&disk()).unwrap();
        let body = table.body();
        let start = format!(
            "{{\"dataVersion\":{},\"topicConfigTable\":{{\"SELF_TEST_TOPIC\":{{\"order\":false,\"perm\":6,",
            table.version().to_json()
        );
        assert!(body.starts_with(&start), "{body}");
        assert!(!body.contains(['\n', '\t', ' ']));
    }

    #[test]
    fn ten_thousand_topics_are_quickly_found_and_written() {
        let fs = disk();
        let table = topics(&fs).unwrap();
        for i in 0..10_000 {
            table.put(TopicConfig::new(format!("topic-{i}"), 8));
        }
        save(&table).unwrap();
        let again = topics(&fs).unwrap();
        assert_eq!(again.len(), 10_008);
        assert_eq!(again.get("topic-9999").unwrap().write_queues, 8);
    }
}

mod group_table {
    use super::*;

    #[test]
    fn builtin_groups_and_automatic_creation() {
        let fs = disk();
        let table = groups(&fs);
        assert_eq!(table.all().len(), 7);
        assert_eq!(table.version().counter, 0);
        let mut config = config();
        assert!(table.get_or_create(&config, "g").is_some());
        config.auto_create_subscription_group = false;
        assert!(table.get_or_create(&config, "g").is_some());
        assert!(table.get_or_create(&config, "h").is_none());
        assert!(table.get_or_create(&config, "CID_RMQ_SYS_TRANS").is_some());
        assert!(table.remove("g") && !table.remove("g"));
        assert_eq!(table.version().counter, 3);
        save(&table).unwrap();
        let again = groups(&fs);
        assert!(again.get("CID_RMQ_SYS_TRANS").is_some() && again.get("g").is_none());
        assert!(!again.file().is_dirty());
    }

    #[test]
    fn groups_of_5x_keep_their_members() {
        let fs = disk();
        let group = "{\"attributes\":{},\"brokerId\":0,\"consumeBroadcastEnable\":true,\"consumeEnable\":true,\"consumeFromMinEnable\":true,\"consumeMessageOrderly\":false,\"consumeTimeoutMinute\":15,\"groupName\":\"g\",\"groupRetryPolicy\":{\"type\":\"CUSTOMIZED\"},\"groupSysFlag\":0,\"notifyConsumerIdsChangedEnable\":true,\"retryMaxTimes\":16,\"retryQueueNums\":1,\"whichBrokerWhenConsumeSlowly\":1}";
        let text = format!(
            "{{\"dataVersion\":{{\"counter\":1,\"stateVersion\":0,\"timestamp\":5}},\"forbiddenTable\":{{\"g\":{{\"t\":1}}}},\"subscriptionGroupTable\":{{\"g\":{group}}}}}"
        );
        write(&fs, "subscriptionGroup.json", &text);
        let table = groups(&fs);
        assert_eq!(json::compact(&table.get("g").unwrap().to_map()), group);
        // A definition of a 4.9 tool changes what it names and nothing else.
        let mut changed = GroupConfig::new("g");
        changed.retry_max_times = 3;
        assert!(table.put(changed));
        let expected = group.replace("\"retryMaxTimes\":16", "\"retryMaxTimes\":3");
        assert_eq!(json::compact(&table.get("g").unwrap().to_map()), expected);
        assert!(
            table
                .body()
                .contains("\"forbiddenTable\":{\"g\":{\"t\":1}}")
        );
    }
}

mod consumer_offsets {
    use super::*;

    #[test]
    fn commits_and_queries() {
        let table = offsets(&disk());
        assert_eq!(table.query("g", "t", 0), None);
        assert_eq!(table.commit("g", "t", 0, 5), Commit::Stored);
        assert_eq!(table.commit("g", "t", 0, 5), Commit::Stored);
        assert_eq!(table.commit("g", "t", 0, 3), Commit::Lowered { from: 5 });
        assert_eq!(table.commit("g", "t", 0, -1), Commit::Refused);
        assert_eq!(table.commit("g", "t", -1, 1), Commit::Refused);
        assert_eq!(table.query("g", "t", 0), Some(3));
        table.commit("g", "u", 2, 9);
        table.commit("h", "t", 1, 7);
        assert_eq!(
            table.topics_of("g").into_iter().collect::<Vec<_>>(),
            ["t", "u"]
        );
        assert_eq!(
            table.groups_of("t").into_iter().collect::<Vec<_>>(),
            ["g", "h"]
        );
        table.copy("g", "k", "t");
        table.copy("g", "k", "none");
        assert_eq!(
            table.queues("k", "t").into_iter().collect::<Vec<_>>(),
            [(0, 3)]
        );
        assert!(table.remove_topic("t") && !table.remove_topic("t"));
        assert_eq!(table.groups_of("t").len(), 0);
        assert!(table.remove_group("g") && !table.remove_group("g"));
    }

    #[test]
    fn the_file_has_javas_form() {
        let fs = disk();
        let table = offsets(&fs);
        for (topic, group, queue, offset) in [
            ("TopicA", "groupA", 1, 118),
            ("TopicA", "groupA", 0, 120),
            ("%RETRY%groupA", "groupA", 0, 3),
        ] {
            table.commit(group, topic, queue, offset);
        }
        save(&table).unwrap();
        let text = "{\n\t\"offsetTable\":{\n\t\t\"TopicA@groupA\":{0:120,1:118\n\t\t},\n\t\t\"%RETRY%groupA@groupA\":{0:3\n\t\t}\n\t}\n}";
        assert_eq!(read(&fs, "consumerOffset.json").as_deref(), Some(text));
        assert_eq!(
            table.body(),
            "{\"offsetTable\":{\"TopicA@groupA\":{0:120,1:118},\"%RETRY%groupA@groupA\":{0:3}}}"
        );
        assert_eq!(offsets(&fs).render(), text);
    }

    #[test]
    fn both_generations_and_odd_entries_are_kept() {
        let fs = disk();
        let text = "{\"dataVersion\":{\"counter\":1,\"stateVersion\":0,\"timestamp\":7},\"groupTopicMap\":{\"old\":[\"x\"]},\"later\":1,\"offsetTable\":{\"t@g\":{\"0\":5,1:7},\"a@b@c\":{0:1},\"alone\":{0:2}}}";
        write(&fs, "consumerOffset.json", text);
        let table = offsets(&fs);
        assert_eq!(
            (table.query("g", "t", 0), table.query("g", "t", 1)),
            (Some(5), Some(7))
        );
        table.commit("g", "t", 0, 6);
        save(&table).unwrap();
        let json::Node::Map(map) =
            json::parse(read(&fs, "consumerOffset.json").unwrap().as_bytes()).unwrap()
        else {
            panic!()
        };
        let version =
            DataVersion::from_map(map.get("dataVersion").and_then(json::Node::as_map).unwrap());
        assert_eq!((version.counter, version.state_version), (2, Some(0)));
        assert_eq!(map.i64("later"), Some(1));
        let compact = json::compact(&map);
        assert!(
            compact.contains("\"groupTopicMap\":{\"g\":[\"t\"]}"),
            "{compact}"
        );
        assert!(
            compact.contains("\"offsetTable\":{\"t@g\":{0:6,1:7},\"a@b@c\":{0:1},\"alone\":{0:2}}"),
            "{compact}"
        );
    }

    #[test]
    fn nothing_is_written_while_nothing_changes() {
        let fs = disk();
        let table = offsets(&fs);
        table.commit("g", "t", 0, 1);
        save(&table).unwrap();
        let before = fs.ops();
        table.commit("g", "t", 0, 1);
        assert!(!table.file().is_dirty());
        save(&table).unwrap();
        assert_eq!(fs.ops(), before);
    }
}

mod files {
    use super::*;

    const GOOD: &str = "{\"offsetTable\":{\"t@g\":{0:1}}}";
    const OTHER: &str = "{\"offsetTable\":{\"t@g\":{0:2}}}";

    fn load(files: &[(&str, &str)]) -> Result<Option<i64>, String> {
        let fs = disk();
        files
            .iter()
            .for_each(|(suffix, text)| write(&fs, &format!("consumerOffset.json{suffix}"), text));
        let table = ConsumerOffsets::open(fs, Path::new(DIR)).map_err(|e| e.to_string())?;
        Ok(table.query("g", "t", 0))
    }

    #[test]
    fn the_fallbacks_of_both_generations() {
        assert_eq!(load(&[]), Ok(None));
        assert_eq!(
            load(&[("", GOOD), (".bak", OTHER), (".tmp", OTHER)]),
            Ok(Some(1))
        );
        assert_eq!(
            load(&[("", "{\"offs"), (".bak", OTHER)]),
            Ok(Some(2)),
            "5.3 was killed while writing"
        );
        assert_eq!(load(&[("", ""), (".bak", OTHER)]), Ok(Some(2)));
        assert_eq!(
            load(&[(".tmp", GOOD), (".bak", OTHER)]),
            Ok(Some(1)),
            "4.9 was killed before its rename"
        );
        assert_eq!(
            load(&[(".tmp", "{\"of"), (".bak", OTHER)]),
            Ok(Some(2)),
            "4.9 was killed while writing"
        );
        assert_eq!(
            load(&[("", "")]),
            Ok(None),
            "the first write of all was interrupted"
        );
        assert_eq!(load(&[("", "{\"offsetTable\":null}")]), Ok(None));
    }

    #[test]
    fn a_table_that_existed_is_never_taken_for_empty() {
        for files in [
            &[("", "{\"offs")][..],
            &[("", "{\"offs"), (".bak", "")],
            &[("", "{\"offs"), (".bak", "x")],
            &[("", ""), (".bak", "")],
            &[(".bak", "x")],
            &[("", "[]")],
            &[("", "{\"offsetTable\":[]}")],
            &[("", "{}}")],
        ] {
            let problem = load(files).expect_err(&format!("{files:?}"));
            assert!(
                problem.contains("/store/config/consumerOffset.json cannot be read"),
                "{problem}"
            );
            assert!(
                problem.contains("to start with an empty table"),
                "{problem}"
            );
            assert_eq!(problem.lines().count(), 1);
        }
    }

    /// A kill or a power failure at every step of a write leaves the old or the new table, never less.
    #[test]
    fn a_crash_at_every_step_leaves_a_whole_table() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut points = 0;
        for step in 0.. {
            let fs = disk();
            let table = offsets(&fs);
            table.commit("g", "t", 0, 1);
            save(&table).unwrap();
            table.commit("g", "t", 0, 2);
            save(&table).unwrap();
            fs.stop_after(step);
            table.commit("g", "t", 0, 3);
            let done = save(&table).is_ok();
            let torn = CrashPolicy::TornPages { keep: 0.5 };
            for policy in [CrashPolicy::KeepAll, CrashPolicy::LoseUnsynced, torn] {
                for _ in 0..3 {
                    let image = Arc::new(fs.crash_image(policy, &mut rng));
                    let found = offsets(&image).query("g", "t", 0);
                    let allowed: &[_] = if done {
                        &[Some(3)]
                    } else {
                        &[Some(2), Some(3)]
                    };
                    assert!(allowed.contains(&found), "step {step}: {found:?}");
                    points += 1;
                }
            }
            if done {
                break;
            }
        }
        assert!(points > 30, "{points}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_writes_at_once_and_a_last_time() {
        let fs = disk();
        let table = Arc::new(topics(&fs).unwrap());
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep_saved(table.clone(), SaveTime::AtOnce, stop.clone()));
        table.put(TopicConfig::new("a", 1));
        assert!(table.file().saved(Duration::from_secs(5)).await);
        assert!(read(&fs, "topics.json").unwrap().contains("\"a\":{"));
        table.put(TopicConfig::new("b", 1));
        stop.cancel();
        task.await.unwrap();
        assert!(read(&fs, "topics.json").unwrap().contains("\"b\":{"));
        let offsets = Arc::new(offsets(&fs));
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep_saved(
            offsets.clone(),
            SaveTime::Every(Duration::from_secs(3600)),
            stop.clone(),
        ));
        offsets.commit("g", "t", 0, 4);
        assert!(!offsets.file().saved(Duration::from_millis(30)).await);
        stop.cancel();
        task.await.unwrap();
        assert!(offsets.file().saved(Duration::ZERO).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_failed_write_is_tried_again() {
        let fs = disk();
        let table = Arc::new(topics(&fs).unwrap());
        fs.fail_next_sync(1);
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep_saved(table.clone(), SaveTime::AtOnce, stop.clone()));
        table.put(TopicConfig::new("a", 1));
        assert!(table.file().saved(Duration::from_secs(10)).await);
        assert!(read(&fs, "topics.json").unwrap().contains("\"a\":{"));
        stop.cancel();
        task.await.unwrap();
    }
}

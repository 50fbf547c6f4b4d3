use super::*;
use crate::tables::DataVersion;
use std::path::PathBuf;

fn env() -> Environment {
    Environment {
        home: Some(PathBuf::from("/home/mq")),
        namesrv_addr: None,
        host_name: "host-1".into(),
        local_address: "10.1.2.3".into(),
    }
}

fn load(text: &str) -> Result<Loaded, ConfigError> {
    load_with(text, &Cli::default(), &env())
}

fn load_with(text: &str, cli: &Cli, env: &Environment) -> Result<Loaded, ConfigError> {
    let file = PropertyFile::parse(text.as_bytes()).unwrap();
    Loaded::build(
        &file,
        ConfigSource::File("/etc/mq/broker.conf".into()),
        cli,
        env,
    )
}

fn error(text: &str) -> String {
    load(text).expect_err(text).to_string()
}

#[test]
fn without_a_file_everything_is_local() {
    let loaded = Loaded::read(&Cli::default(), &env()).unwrap();
    loaded.runnable().unwrap();
    let c = &loaded.config;
    assert_eq!(c.root(), std::path::Path::new("./store"));
    assert_eq!(c.broker_addr(), "127.0.0.1:10911");
    assert_eq!(c.listen_addr().to_string(), "127.0.0.1:10911");
    assert_eq!(c.fast_listen_addr().to_string(), "127.0.0.1:10909");
    assert!(c.embedded_namesrv_enable);
    assert_eq!(c.embedded_namesrv_addr().to_string(), "127.0.0.1:9876");
    assert_eq!(c.dleger_peers, "n0-127.0.0.1:40911");
    assert_eq!(
        c.dledger_data_path(),
        PathBuf::from("./store/dledger-n0/data")
    );
    let cli = Cli {
        namesrv: Some("10.0.0.9:9876".into()),
        ..Cli::default()
    };
    let loaded = Loaded::read(&cli, &env()).unwrap();
    assert!(!loaded.config.embedded_namesrv_enable);
    assert_eq!(loaded.config.name_servers(), ["10.0.0.9:9876"]);
}

#[test]
fn a_file_gets_javas_defaults() {
    let loaded = load("enableDLegerCommitLog=true\nbrokerName=broker-a\n").unwrap();
    loaded.runnable().unwrap();
    let c = &loaded.config;
    assert_eq!(c.root(), std::path::Path::new("/home/mq/store"));
    assert_eq!(
        c.commit_log_path(),
        PathBuf::from("/home/mq/store/commitlog")
    );
    assert_eq!(c.broker_addr(), "10.1.2.3:10911");
    assert_eq!(c.ha_server_addr(), "10.1.2.3:10912");
    assert_eq!(c.listen_addr().to_string(), "0.0.0.0:10911");
    assert!(!c.embedded_namesrv_enable);
    assert_eq!(
        (c.dleger_group.as_str(), c.dleger_self_id.as_str()),
        ("broker-a", "n0")
    );
    assert_eq!(c.dleger_peers, "n0-10.1.2.3:40911");
    assert_eq!(c.raft_port(), Some(40_911));
    assert_eq!(
        (
            c.mapped_file_size_commit_log,
            c.file_reserved_time,
            c.max_message_size
        ),
        (1 << 30, 72, 4 << 20)
    );
    assert!(c.delete_when.contains(4) && !c.delete_when.contains(5));
    let note = loaded
        .notes
        .iter()
        .find(|n| n.starts_with("DLedger keys in force"))
        .unwrap();
    assert!(
        note.contains("dLegerGroup=broker-a dLegerSelfId=n0 dLegerPeers=n0-10.1.2.3:40911"),
        "{note}"
    );
    assert_eq!(
        load("enableDLegerCommitLog=true")
            .unwrap()
            .config
            .broker_name,
        "host-1"
    );
}

#[test]
fn the_command_line_wins_over_the_file_and_the_file_over_the_environment() {
    let mut env = env();
    env.namesrv_addr = Some("e:1".into());
    assert_eq!(
        load_with("", &Cli::default(), &env)
            .unwrap()
            .config
            .namesrv_addr,
        "e:1"
    );
    assert_eq!(
        load_with("namesrvAddr=f:2", &Cli::default(), &env)
            .unwrap()
            .config
            .namesrv_addr,
        "f:2"
    );
    let cli = Cli {
        namesrv: Some("c:3;d:4".into()),
        ..Cli::default()
    };
    assert_eq!(
        load_with("namesrvAddr=f:2", &cli, &env)
            .unwrap()
            .config
            .name_servers(),
        ["c:3", "d:4"]
    );
}

#[test]
fn nonsense_stops_with_one_line_that_names_key_value_and_expectation() {
    let cases = [
        (
            "listenPort=abc",
            "key listenPort: value 'abc' makes no sense, expected a 32-bit integer",
        ),
        ("listenPort=2", "expected a number from 3 to 65535"),
        (
            "fileReservedTime=72h",
            "expected a 32-bit integer without suffix",
        ),
        ("autoCreateTopicEnable=yes", "expected true or false"),
        ("flushDiskType=async", "expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("deleteWhen=24", "expected hours from 00 to 23"),
        ("messageDelayLevel=1s 5x", "which '5x' is not"),
        ("namesrvAddr=10.0.0.1", "which '10.0.0.1' is not"),
        ("bindAddress=localhost", "expected an IP address"),
        (
            "sendMessageThreadPoolNums=many",
            "key sendMessageThreadPoolNums: value 'many'",
        ),
        ("aclEnable=on", "expected true or false"),
        (
            "maxHashSlotNum=100000000\nmaxIndexNum=100000000",
            "is too large",
        ),
        (
            "listenPort=40000",
            "leaves no port for the default of dLegerPeers",
        ),
        (
            "dLegerPeers=n0-a:10911\ndLegerSelfId=n0",
            "port 10911 of this member is taken by listenPort",
        ),
        ("dLegerPeers=n0-a:10909\ndLegerSelfId=n0", "port 10909"),
        ("dLegerPeers=n1:40911", "peers entry \"n1:40911\" has no id"),
        (
            "dLegerPeers=n0-a:1;;n1-b:2",
            "entry 2 of the peers string is empty",
        ),
        (
            "dLegerPeers=n0-a:1\ndLegerSelfId=n3",
            "the own member id \"n3\" is not in the peers string",
        ),
        ("dLegerPeers=n0-a:70000", "the port \"70000\""),
        ("dLegerPeers=n0-a:1;n0-b:2", "listed twice"),
        (
            "dLegerPeers=n1-a:1;m1-b:2\ndLegerSelfId=n1",
            "the same number",
        ),
        (
            "ledgermqAccept=two-histories,nothing",
            "which 'nothing' is not",
        ),
        (
            "dLegerSelfId=node1",
            "key dLegerSelfId: value 'node1' makes no sense: member id",
        ),
    ];
    for (text, expected) in cases {
        let line = error(&format!("enableDLegerCommitLog=true\n{text}"));
        assert!(
            line.starts_with("configuration /etc/mq/broker.conf: "),
            "{line}"
        );
        assert!(line.contains(expected), "{text}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    let cli = Cli {
        namesrv: Some("nowhere".into()),
        ..Cli::default()
    };
    let line = load_with("", &cli, &env()).unwrap_err().to_string();
    assert!(
        line.starts_with("command line: key namesrvAddr: value 'nowhere'"),
        "{line}"
    );
}

#[test]
fn peers_may_be_hosts_with_dashes_and_ipv6_and_name_this_member() {
    let c = load("enableDLegerCommitLog=true\ndLegerPeers=n7-my-host-0.svc-a.ns:40911;").unwrap();
    c.runnable().unwrap();
    assert_eq!(
        (c.config.dleger_self_id.as_str(), c.config.raft_port()),
        ("n7", Some(40_911))
    );
    assert!(
        c.config
            .store_path_dledger_commit_log
            .ends_with("/dledger-n7/data")
    );
    let c = load("enableDLegerCommitLog=true\nbrokerIP1=::1")
        .unwrap()
        .config;
    assert_eq!(
        (c.dleger_peers.as_str(), c.broker_addr().as_str()),
        ("n0-[::1]:40911", "[::1]:10911")
    );
    let c = load("enableDLegerCommitLog=true\ndLegerPeers=n9-h:1;n10-i:2\ndLegerSelfId=n10")
        .unwrap()
        .config;
    assert_eq!(c.raft_port(), Some(2));
}

#[test]
fn findings_are_accepted_by_name() {
    let c = load("enableDLegerCommitLog=true\nledgermqAccept=legacy-missing, two-histories")
        .unwrap()
        .config;
    assert_eq!(c.accepted_findings().len(), 2);
}

#[test]
fn trailing_blanks_that_java_tolerated_or_not_are_harmless() {
    let c = load("enableDLegerCommitLog=true \nlistenPort=20911  \ndLegerSelfId=n0 \n")
        .unwrap()
        .config;
    assert_eq!((c.listen_port, c.dleger_self_id.as_str()), (20_911, "n0"));
}

#[test]
fn keys_without_effect_are_named_once() {
    let text = "enableDLegerCommitLog=true\nsendMessageThreadPoolNums=4\nsendMessageThreadPoolNums=16\nbrokerId=0\nlistenport=1\nlistenPort=\n";
    let notes = load(text).unwrap().notes;
    let named = |key: &str| {
        notes
            .iter()
            .filter(|n| n.starts_with(&format!("key {key} ")))
            .collect::<Vec<_>>()
    };
    assert_eq!(named("sendMessageThreadPoolNums").len(), 1);
    assert!(named("sendMessageThreadPoolNums")[0].contains("no thread pools"));
    assert!(named("brokerId")[0].contains("registers as 0"));
    assert!(named("listenport")[0].contains("is not known"));
    assert!(named("listenPort")[0].contains("the default stays"));
    let sync = load("enableDLegerCommitLog=true\nflushDiskType=SYNC_FLUSH").unwrap();
    sync.runnable().unwrap();
}

#[test]
fn what_is_refused_says_why_and_what_to_do() {
    let cases = [
        ("", "enableDLegerCommitLog"),
        (
            "enableDLegerCommitLog=false",
            "Add enableDLegerCommitLog=true to agree",
        ),
        (
            "enableDLegerCommitLog=true\nbrokerRole=SLAVE",
            "key brokerRole",
        ),
        (
            "enableDLegerCommitLog=true\nstorePathCommitLog=/a,/b",
            "names several paths",
        ),
        (
            "enableDLegerCommitLog=true\nstorePathDLedgerCommitLog=/a,/b",
            "key storePathDLedgerCommitLog",
        ),
        (
            "enableDLegerCommitLog=true\nreadOnlyCommitLogStorePaths=/a",
            "key readOnlyCommitLogStorePaths",
        ),
        (
            "enableDLegerCommitLog=true\nenableControllerMode=true",
            "remove the key",
        ),
        (
            "enableDLegerCommitLog=true\naclEnable=true",
            "access control",
        ),
        (
            "enableDLegerCommitLog=true\nauthenticationEnabled=true",
            "access control",
        ),
        (
            "enableDLegerCommitLog=true\nenableConsumeQueueExt=true",
            "extensions",
        ),
        (
            "enableDLegerCommitLog=true\nstoreType=defaultRocksDB",
            "RocksDB",
        ),
        (
            "enableDLegerCommitLog=true\nenableLmq=true",
            "light message queues",
        ),
        (
            "enableDLegerCommitLog=true\nduplicationEnable=true",
            "duplicating",
        ),
        (
            "enableDLegerCommitLog=true\ndLegerPeers=n0-a:1;n1-b:2\ndLegerSelfId=n0",
            "2 members",
        ),
    ];
    for (text, expected) in cases {
        let loaded = load(text).unwrap();
        let ConfigError::Refused(lines) = loaded.runnable().expect_err(text) else {
            panic!("{text}")
        };
        assert!(
            lines.iter().any(|l| l.contains(expected)),
            "{text}: {lines:?}"
        );
        assert!(
            lines
                .iter()
                .all(|l| l.starts_with("key ") && !l.contains('\n')),
            "{lines:?}"
        );
    }
    for fine in [
        "aclEnable=false",
        "storeType=default",
        "enableControllerMode=FALSE",
        "readOnlyCommitLogStorePaths=",
    ] {
        load(&format!("enableDLegerCommitLog=true\n{fine}"))
            .unwrap()
            .runnable()
            .unwrap();
    }
}

#[test]
fn printing_shows_effective_values() {
    let c = load("enableDLegerCommitLog=true\nbrokerName=broker-a\nmyOwn=x\ndeleteWhen=2;04")
        .unwrap()
        .config;
    let all = c.print_all();
    for line in [
        "brokerName=broker-a",
        "deleteWhen=02;04",
        "myOwn=x",
        "transactionCheckInterval=60000",
        "storeType=default",
    ] {
        assert!(all.lines().any(|l| l == line), "{line}");
    }
    assert!(all.lines().count() > 400);
    let important = c.print_important();
    assert!(
        important.contains("dLegerPeers=n0-10.1.2.3:40911\n") && important.lines().count() < 40
    );
}

#[test]
fn no_key_is_in_two_tables() {
    let mut names: Vec<&str> = HONOURED.iter().map(|k| k.name).collect();
    names.extend(ACCEPTED.iter().map(|k| k.name));
    names.extend(REFUSED.iter().map(|k| k.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for key in ACCEPTED {
        assert!(
            key.default.is_empty() || key.kind.accepts(key.default),
            "{}",
            key.name
        );
    }
    let defaults = BrokerConfig::default();
    for key in HONOURED {
        let value = defaults.get(key.name).unwrap();
        if !value.is_empty() && key.name != "haListenPort" {
            assert_eq!(
                BrokerConfig::default().apply(key.name, &value),
                Ok(None),
                "{}",
                key.name
            );
        }
    }
}

fn settings(text: &str) -> (tempfile::TempDir, Settings) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broker.conf");
    std::fs::write(&path, text).unwrap();
    let cli = Cli {
        config: Some(path),
        ..Cli::default()
    };
    (folder, Settings::new(Loaded::read(&cli, &env()).unwrap()))
}

const CONF: &str = "# our broker\nenableDLegerCommitLog=true\n\nfileReservedTime = 48 \n! note\nlistenPort=20911\n";

#[test]
fn an_online_update_changes_the_value_and_one_line_of_the_file() {
    let (folder, settings) = settings(CONF);
    let before: DataVersion = settings.version();
    let done = settings
        .update(b"fileReservedTime=71\nbrokerPermission=4\n")
        .unwrap();
    assert!(done.permission_changed);
    assert_eq!(done.remark, None);
    assert_eq!(settings.get().file_reserved_time, 71);
    assert_eq!(settings.version().counter, before.counter + 1);
    let file = std::fs::read_to_string(folder.path().join("broker.conf")).unwrap();
    let expected =
        CONF.replace("fileReservedTime = 48 ", "fileReservedTime=71") + "brokerPermission=4\n";
    assert_eq!(file, expected);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("broker.conf.bak")).unwrap(),
        CONF
    );
    assert_eq!(
        settings.update(b"fileReservedTime=71"),
        Ok(settings_unchanged()).map(|mut u: Updated| {
            u.changed = vec![("fileReservedTime".into(), "71".into())];
            u
        })
    );
}

fn settings_unchanged() -> Updated {
    Updated::default()
}

impl PartialEq for UpdateError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

#[test]
fn an_online_update_is_all_or_nothing_and_says_what_is_wrong() {
    let (folder, settings) = settings(CONF);
    for (body, expected) in [
        (
            "fileReservedTime=71\nnoSuchKey=1",
            "key noSuchKey is not known",
        ),
        (
            "fileReservedTime=abc",
            "key fileReservedTime: value 'abc' makes no sense, expected a 32-bit integer",
        ),
        ("fileReservedTime=", "expected a value"),
        (
            "aclEnable=true\nfileReservedTime=70",
            "is refused: access control",
        ),
        ("listenPort=0", "expected a number from 3 to 65535"),
        ("a=\\u12", "hexadecimal"),
    ] {
        let line = settings.update(body.as_bytes()).unwrap_err().to_string();
        assert!(line.contains(expected), "{body}: {line}");
        assert!(line.starts_with("nothing was changed"), "{line}");
    }
    for body in [
        "brokerConfigPath=/x",
        "rocketmqHome=/x",
        "configBlackList=",
        "fileReservedTime=70\nconfigBlackList=x",
    ] {
        assert!(
            matches!(
                settings.update(body.as_bytes()),
                Err(UpdateError::BlackListed)
            ),
            "{body}"
        );
    }
    assert_eq!(settings.get().file_reserved_time, 48);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("broker.conf")).unwrap(),
        CONF
    );
    assert_eq!(settings.update(b"").unwrap(), Updated::default());
}

#[test]
fn what_waits_for_a_restart_or_has_no_effect_is_said() {
    let (folder, settings) = settings(CONF);
    let done = settings
        .update(b"listenPort=30911\nsendMessageThreadPoolNums=9")
        .unwrap();
    let remark = done.remark.unwrap();
    assert!(
        remark.contains("listenPort takes effect at the next start"),
        "{remark}"
    );
    assert!(
        remark.contains("sendMessageThreadPoolNums has no effect"),
        "{remark}"
    );
    assert_eq!(settings.get().listen_port, 20_911);
    let file = std::fs::read_to_string(folder.path().join("broker.conf")).unwrap();
    assert!(file.contains("listenPort=30911\n") && file.contains("sendMessageThreadPoolNums=9\n"));
}

#[test]
fn a_link_to_the_file_stays_a_link_and_a_folder_that_is_gone_is_an_error() {
    let (folder, _) = settings(CONF);
    let link = folder.path().join("link.conf");
    std::os::unix::fs::symlink(folder.path().join("broker.conf"), &link).unwrap();
    let cli = Cli {
        config: Some(link.clone()),
        ..Cli::default()
    };
    let settings = Settings::new(Loaded::read(&cli, &env()).unwrap());
    settings.update(b"fileReservedTime=1").unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(
        std::fs::read_to_string(&link)
            .unwrap()
            .contains("fileReservedTime=1\n")
    );
    drop(folder);
    std::fs::write(link.parent().unwrap(), "in the way").unwrap();
    let refused = settings.update(b"fileReservedTime=2").unwrap_err();
    assert!(
        matches!(refused, UpdateError::Unwritable { .. }),
        "{refused}"
    );
    assert_eq!(settings.get().file_reserved_time, 1);
    std::fs::remove_file(link.parent().unwrap()).unwrap();
}

#[test]
fn the_page_of_keys_is_up_to_date() {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/configuration.md"
    ));
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let (intro, table) = page.split_once("## Honoured").unwrap_or((&page, ""));
    let wanted = markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{intro}{wanted}")).unwrap();
        return;
    }
    assert!(
        format!("## Honoured{table}") == wanted,
        "docs/configuration.md is stale: run this test with UPDATE_DOCS=1"
    );
}

#[test]
fn the_samples_are_read_without_complaint() {
    let conf = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../conf"));
    for (name, members) in [
        ("broker.conf", 1),
        ("dledger/broker-n0.conf", 3),
        ("dledger/broker-n1.conf", 3),
        ("dledger/broker-n2.conf", 3),
    ] {
        let cli = Cli {
            config: Some(conf.join(name)),
            ..Cli::default()
        };
        let loaded = Loaded::read(&cli, &env()).unwrap();
        assert_eq!(
            loaded.config.dleger_peers.split(';').count(),
            members,
            "{name}"
        );
        let unknown: Vec<_> = loaded
            .notes
            .iter()
            .filter(|n| n.contains("not known"))
            .collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        assert!(
            loaded.refusals.iter().all(|r| r.contains("3 members")),
            "{name}: {:?}",
            loaded.refusals
        );
        assert!(loaded.config.raft_port().is_some());
    }
}

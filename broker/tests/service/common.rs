//! A broker on free ports over a store of its own, and a raw client.

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use broker::app::App;
use broker::config::{Cli, Environment, Loaded};
use remoting::headers::SendMessageHeader;
use remoting::{Client, ClientConfig, Command, request_code as code};

pub const TIMEOUT: Duration = Duration::from_secs(10);

pub struct TestBroker {
    pub app: App,
    pub addr: String,
    pub fast: String,
    pub client: Client,
    pub dir: tempfile::TempDir,
}

static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

/// A port that is free together with the one two below it.
fn free_port() -> u16 {
    let base = 20_000 + (std::process::id() % 20_000) as u16;
    loop {
        let port = base + NEXT_PORT.fetch_add(4, Ordering::Relaxed);
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port - 2) {
            return port;
        }
    }
}

pub fn conf(dir: &Path, port: u16, extra: &str) -> Loaded {
    let file = dir.join("broker.conf");
    let store = dir.join("store");
    let text = format!(
        "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n\
         listenPort={port}\nstorePathRootDir={}\nmappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=6000\n\
         maxHashSlotNum=1000\nmaxIndexNum=4000\nfileReservedTime=100000\nenableDLegerCommitLog=true\n\
         embeddedNamesrvEnable=false\n\
         dLegerPeers=n0-127.0.0.1:40911\ndLegerSelfId=n0\n{extra}\n",
        store.display()
    );
    std::fs::write(&file, text).unwrap();
    let cli = Cli {
        config: Some(file),
        ..Cli::default()
    };
    let env = Environment {
        home: Some(dir.to_owned()),
        namesrv_addr: None,
        host_name: "host".to_owned(),
        local_address: "127.0.0.1".to_owned(),
    };
    let loaded = Loaded::read(&cli, &env).unwrap();
    loaded.runnable().unwrap();
    loaded
}

impl TestBroker {
    pub async fn start() -> Self {
        Self::with("").await
    }

    pub async fn with(extra: &str) -> Self {
        Self::over(tempfile::tempdir().unwrap(), extra).await
    }

    pub async fn over(dir: tempfile::TempDir, extra: &str) -> Self {
        let port = free_port();
        let app = App::start(conf(dir.path(), port, extra)).await.unwrap();
        TestBroker {
            addr: app.local_addr().unwrap().to_string(),
            fast: app.fast_addr().unwrap().to_string(),
            client: Client::new(ClientConfig::default(), None),
            app,
            dir,
        }
    }

    /// Stops the broker cleanly and gives its directory back.
    pub async fn stop(self) -> tempfile::TempDir {
        self.client.close().await;
        self.app.stop().await.unwrap();
        self.dir
    }

    /// Waits until everything that was stored can be seen.
    pub async fn settled(&self) {
        while self.app.store().behind_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn call(&self, command: Command) -> Command {
        self.client
            .call(&self.addr, command, TIMEOUT)
            .await
            .unwrap()
    }

    pub async fn ask(&self, code: i32, fields: &[(&str, &str)]) -> Command {
        self.call(request(code, fields)).await
    }

    pub async fn ask_body(&self, code: i32, body: &str) -> Command {
        self.call(Command::request(code).with_body(body.to_owned()))
            .await
    }

    /// Sends a message and expects it to be stored; gives its queue offset.
    pub async fn send(&self, topic: &str, queue_id: i32, properties: &str, body: &str) -> i64 {
        let answer = self
            .call(send_command(topic, queue_id, properties, body))
            .await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        answer.ext.require_i64("queueOffset").unwrap()
    }

    /// Pulls with a subscription of its own, without waiting.
    pub async fn pull(&self, topic: &str, queue_id: i32, offset: i64, expression: &str) -> Command {
        self.settled().await;
        self.call(pull_command(topic, queue_id, offset, expression, 4, 0))
            .await
    }
}

pub fn request(code: i32, fields: &[(&str, &str)]) -> Command {
    fields
        .iter()
        .fold(Command::request(code), |command, (name, value)| {
            command.field(name, value)
        })
}

pub fn send_header<'a>(
    topic: &'a str,
    queue_id: i32,
    properties: &'a str,
) -> SendMessageHeader<'a> {
    SendMessageHeader {
        producer_group: "P",
        topic,
        default_topic: "TBW102",
        default_topic_queue_nums: 4,
        queue_id,
        born_timestamp: 1_700_000_000_000,
        properties,
        ..SendMessageHeader::default()
    }
}

pub fn send_command(topic: &str, queue_id: i32, properties: &str, body: &str) -> Command {
    Command::with_header(
        code::SEND_MESSAGE_V2,
        &send_header(topic, queue_id, properties),
    )
    .with_body(body.to_owned())
}

pub fn pull_command(
    topic: &str,
    queue_id: i32,
    offset: i64,
    expression: &str,
    sys_flag: i32,
    suspend_ms: u64,
) -> Command {
    request(
        code::PULL_MESSAGE,
        &[
            ("consumerGroup", "G"),
            ("topic", topic),
            ("queueId", &queue_id.to_string()),
            ("queueOffset", &offset.to_string()),
            ("maxMsgNums", "32"),
            ("sysFlag", &sys_flag.to_string()),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", &suspend_ms.to_string()),
            ("subscription", expression),
            ("subVersion", "0"),
        ],
    )
}

/// The records of a pull's body: topic, queue offset, body and properties of each.
pub fn records(body: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let size = commitlog::frame::frame_size(rest).unwrap();
        let frame = commitlog::frame::FrameView::parse(&rest[..size]).unwrap();
        frame.validate(frame.physical_offset()).unwrap();
        records.push(Record {
            topic: frame.topic().to_owned(),
            queue_id: frame.queue_id(),
            queue_offset: frame.queue_offset(),
            physical_offset: frame.physical_offset(),
            reconsume_times: frame.reconsume_times(),
            body: String::from_utf8_lossy(frame.body()).into_owned(),
            properties: remoting::message::properties::to_map(frame.properties()),
        });
        rest = &rest[size..];
    }
    records
}

#[derive(Debug)]
pub struct Record {
    pub topic: String,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub physical_offset: i64,
    pub reconsume_times: i32,
    pub body: String,
    pub properties: std::collections::BTreeMap<String, String>,
}

pub fn bodies(answer: &Command) -> Vec<String> {
    records(&answer.body)
        .into_iter()
        .map(|record| record.body)
        .collect()
}

/// Text of a body.
pub fn text(answer: &Command) -> String {
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// A heartbeat of a consumer.
pub fn heartbeat(client: &str, group: &str, topics: &[(&str, &str)]) -> String {
    let subscription = |(topic, expression): &(&str, &str)| {
        format!(
            r#"{{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"{expression}","subVersion":7,"tagsSet":[],"topic":"{topic}"}}"#
        )
    };
    let subscriptions: Vec<_> = topics.iter().map(subscription).collect();
    format!(
        r#"{{"clientID":"{client}","consumerDataSet":[{{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"{group}","messageModel":"CLUSTERING","subscriptionDataSet":[{}],"unitMode":false}}],"producerDataSet":[{{"groupName":"P"}}]}}"#,
        subscriptions.join(",")
    )
}

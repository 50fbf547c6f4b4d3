//! `mqctl send`.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use rand::RngCore;
use remoting::message::{DEFAULT_TOPIC, properties, property, validate_topic};
use remoting::{Command, request_code, response_code};

use super::session::{CALL_TIMEOUT, Queue, Session};

/// Arguments of `mqctl send`.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// Name servers, separated by `;`.
    #[arg(short, long, env = "NAMESRV_ADDR", default_value = "127.0.0.1:9876")]
    namesrv: String,
    /// Topic; brokers that allow it create it with the first message.
    #[arg(short, long)]
    topic: String,
    /// Body as text.
    #[arg(short, long, conflicts_with = "file")]
    body: Option<String>,
    /// Body from a file (`-`: standard input).
    #[arg(short, long)]
    file: Option<std::path::PathBuf>,
    /// Tag.
    #[arg(long)]
    tag: Option<String>,
    /// Keys, separated by blanks.
    #[arg(short, long)]
    key: Option<String>,
    /// A user property, `name=value`; may be repeated.
    #[arg(short = 'P', long = "property")]
    properties: Vec<String>,
    /// Queue; without it they take turns.
    #[arg(short, long)]
    queue: Option<i32>,
    /// How often to send the message.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// Sends, and prints one line an acknowledgement: broker, queue, queue offset, message id.
pub async fn run(args: SendArgs) -> anyhow::Result<ExitCode> {
    validate_topic(&args.topic).context("--topic")?;
    let body = body(&args)?;
    let session = Session::new(&args.namesrv)?;
    let mut queues = session.write_queues(&args.topic).await?;
    if let Some(id) = args.queue {
        queues.retain(|q| q.queue_id == id);
    }
    if queues.is_empty() {
        bail!(
            "no writable queue {}of topic {} has a master",
            args.queue.map(|q| format!("{q} ")).unwrap_or_default(),
            args.topic
        );
    }
    for n in 0..args.count {
        let queue = &queues[(n % queues.len() as u64) as usize];
        let request = request(&args, queue, body.clone())?;
        let answer = session
            .call(
                &queue.addr,
                request,
                CALL_TIMEOUT,
                &[response_code::SUCCESS],
            )
            .await?;
        println!(
            "{} queue {} offset {} id {}",
            queue.broker_name,
            answer.ext.get("queueId").unwrap_or("?"),
            answer.ext.get("queueOffset").unwrap_or("?"),
            answer.ext.get("msgId").unwrap_or("?"),
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn body(args: &SendArgs) -> anyhow::Result<Bytes> {
    match (&args.body, &args.file) {
        (Some(text), _) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut buffer = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut buffer)?;
            Ok(Bytes::from(buffer))
        }
        (None, Some(path)) => Ok(Bytes::from(
            std::fs::read(path).with_context(|| path.display().to_string())?,
        )),
        (None, None) => bail!("give the message with --body or --file"),
    }
}

fn request(args: &SendArgs, queue: &Queue, body: Bytes) -> anyhow::Result<Command> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let command = Command::request(request_code::SEND_MESSAGE_V2)
        .field("a", "MQCTL_PRODUCER")
        .field("b", &args.topic)
        .field("c", DEFAULT_TOPIC)
        .field("d", "4")
        .field("e", &queue.queue_id.to_string())
        .field("f", "0")
        .field("g", &now.to_string())
        .field("h", "0")
        .field("i", &property_text(args)?)
        .field("j", "0")
        .field("k", "false")
        .field("m", "false")
        .field("n", &queue.broker_name);
    Ok(command.with_body(body))
}

fn property_text(args: &SendArgs) -> anyhow::Result<String> {
    let mut text = String::new();
    properties::push_str(&mut text, property::UNIQ_KEY, &unique_key());
    if let Some(key) = &args.key {
        properties::push_str(&mut text, property::KEYS, key);
    }
    if let Some(tag) = &args.tag {
        properties::push_str(&mut text, property::TAGS, tag);
    }
    for pair in &args.properties {
        let (name, value) = pair
            .split_once('=')
            .with_context(|| format!("--property {pair}: name=value is expected"))?;
        if name.is_empty() || value.is_empty() || pair.contains(['\u{1}', '\u{2}']) {
            bail!("--property {pair}: name and value must not be empty nor hold 0x01 or 0x02");
        }
        properties::push_str(&mut text, name, value);
    }
    if text.len() > properties::LEN_MAX {
        bail!(
            "the properties take {} bytes, {} is the limit",
            text.len(),
            properties::LEN_MAX
        );
    }
    Ok(text)
}

/// 32 hex digits as clients make them: random here, since a tool's process lives for a moment only.
fn unique_key() -> String {
    let mut bytes = [0u8; 16];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Wrap {
        #[command(flatten)]
        args: SendArgs,
    }

    fn args(words: &[&str]) -> SendArgs {
        Wrap::parse_from([&["x", "--topic", "T", "--body", "b"], words].concat()).args
    }

    #[test]
    fn properties_are_encoded_and_checked() {
        let text = property_text(&args(&["--tag", "A", "--key", "k1 k2", "-P", "a=b=c"])).unwrap();
        assert_eq!(properties::get(text.as_bytes(), "TAGS"), Some("A"));
        assert_eq!(properties::get(text.as_bytes(), "KEYS"), Some("k1 k2"));
        assert_eq!(properties::get(text.as_bytes(), "a"), Some("b=c"));
        assert_eq!(
            properties::get(text.as_bytes(), "UNIQ_KEY").map(str::len),
            Some(32)
        );
        for bad in ["novalue", "=v", "n=", "n=\u{1}"] {
            assert!(property_text(&args(&["-P", bad])).is_err(), "{bad:?}");
        }
    }
}

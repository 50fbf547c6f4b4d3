//! What stock clients do with a broker from its first moment on: sends of every kind, every consumer, queries,
//! administration. Runs against any broker, stock or ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::clients;
use crate::lab::Lab;

/// A lab and the name server that its clients are told.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The Java clients.
    pub lab: &'a Lab,
    /// Address of the name server.
    pub ns: &'a str,
}

/// Queue id, queue offset.
type Place = (i64, i64);

fn of_type(lines: &[Value], kind: &str) -> Vec<Value> {
    lines
        .iter()
        .filter(|l| l["type"] == kind)
        .cloned()
        .collect()
}

fn place(line: &Value) -> Place {
    (
        line["queueId"].as_i64().unwrap_or(-1),
        line["queueOffset"].as_i64().unwrap_or(-1),
    )
}

impl Target<'_> {
    /// Runs a command of the lab against this name server.
    pub fn run(&self, cmd: &str, mut args: Value) -> Result<Vec<Value>> {
        args["ns"] = self.ns.into();
        self.lab
            .run(cmd, args)
            .with_context(|| format!("{cmd} by the Java {} client", self.lab.version.text()))
    }

    /// Every way to send, every consumer, over one topic: what is consumed is what was sent.
    pub fn send_and_consume(&self, topic: &str) -> Result<()> {
        let mut bodies = BTreeMap::new();
        for mode in ["sync", "async", "oneway", "batch", "orderly"] {
            let args =
                json!({"topic": topic, "count": 20, "mode": mode, "keyPrefix": mode, "size": 200});
            let sent = of_type(&self.run("send", args)?, "send");
            ensure!(sent.len() == 20, "{mode}: {} of 20 sent", sent.len());
            for s in &sent {
                let ok = s["status"]
                    == if mode == "oneway" {
                        "ONEWAY"
                    } else {
                        "SEND_OK"
                    };
                ensure!(ok, "{mode}: {s}");
                bodies.insert(s["keys"].to_string(), s["bodySha"].clone());
            }
        }
        let pulled = of_type(
            &self.run(
                "pull",
                json!({"group": format!("{topic}-pull"), "topic": topic}),
            )?,
            "consumed",
        );
        let places = same_bodies(&bodies, &pulled).context("pull consumer")?;
        dense(&places)?;
        for orderly in [false, true] {
            let group = format!("{topic}-push-{orderly}");
            let args = json!({"group": group, "topic": topic, "expect": 100, "orderly": orderly, "extraMs": 300});
            let consumed = of_type(&self.run("push", args)?, "consumed");
            let got = same_bodies(&bodies, &consumed)
                .with_context(|| format!("push, orderly {orderly}"))?;
            ensure!(
                got == places,
                "push consumer got {} places of {}",
                got.len(),
                places.len()
            );
            if orderly {
                in_order(&consumed)?;
            }
        }
        for assign in [false, true] {
            let group = format!("{topic}-lite-{assign}");
            let args = json!({"group": group, "topic": topic, "expect": 100, "assign": assign});
            let polled = of_type(&self.run("litepull", args)?, "consumed");
            same_bodies(&bodies, &polled).with_context(|| format!("lite pull, assign {assign}"))?;
        }
        Ok(())
    }

    /// Tag filters, a hot long poll, a consumer that resumes at its committed offset.
    pub fn filters_and_offsets(&self, topic: &str) -> Result<()> {
        for tag in ["Aa", "BB", "TagC"] {
            self.run(
                "send",
                json!({"topic": topic, "count": 10, "tag": tag, "keyPrefix": tag}),
            )?;
        }
        // Aa and BB have equal hashes: the client must tell them apart.
        let group = format!("{topic}-tags");
        let args = json!({"group": group, "topic": topic, "expr": "Aa || TagC", "expect": 20, "extraMs": 500});
        let consumed = of_type(&self.run("push", args)?, "consumed");
        ensure!(consumed.len() == 20, "{} messages by tag", consumed.len());
        ensure!(
            consumed
                .iter()
                .all(|m| m["tags"] == "Aa" || m["tags"] == "TagC"),
            "wrong tags: {consumed:?}"
        );
        let args = json!({"ns": self.ns, "group": group, "topic": topic, "expr": "Aa || TagC", "expect": 5, "extraMs": 500});
        let waiting = self.lab.begin("push", args)?;
        waiting.wait_for("started", Duration::from_secs(30))?;
        let begin = Instant::now();
        self.run(
            "send",
            json!({"topic": topic, "count": 5, "tag": "TagC", "keyPrefix": "late"}),
        )?;
        let late = of_type(&waiting.finish(Duration::from_secs(60))?, "consumed");
        ensure!(
            late.len() == 5,
            "the group began again: {} messages instead of 5",
            late.len()
        );
        ensure!(
            begin.elapsed() < Duration::from_secs(20),
            "a held pull was not woken: {:?}",
            begin.elapsed()
        );
        Ok(())
    }

    /// A held pull is answered as soon as a message arrives.
    pub fn held_pull(&self, topic: &str) -> Result<()> {
        self.run("send", json!({"topic": topic, "count": 1}))?;
        let group = format!("{topic}-held");
        let args = json!({"ns": self.ns, "group": group, "topic": topic, "expect": 2});
        let waiting = self.lab.begin("push", args)?;
        waiting.wait_for("consumed", Duration::from_secs(60))?;
        let begin = Instant::now();
        self.run("send", json!({"topic": topic, "count": 1}))?;
        waiting.wait_for("consumed", Duration::from_secs(60))?;
        // Far below the 15 s that a client lets a pull be held.
        ensure!(
            begin.elapsed() < Duration::from_secs(5),
            "woken after {:?}",
            begin.elapsed()
        );
        waiting.finish(Duration::from_secs(30)).map(drop)
    }

    /// Queries by key, unique key and offset id.
    pub fn queries(&self, topic: &str) -> Result<()> {
        let sent = of_type(
            &self.run(
                "send",
                json!({"topic": topic, "count": 5, "keyPrefix": "query"}),
            )?,
            "send",
        );
        for s in &sent {
            let find = |what: &str| -> Result<Vec<Value>> {
                let end = Instant::now() + Duration::from_secs(20);
                loop {
                    let found = self.run("query", json!({"topic": topic, "key": s[what]}))?;
                    let found = of_type(&found, "consumed");
                    // The index follows the log; a moment may pass.
                    if !found.is_empty() || Instant::now() > end {
                        return Ok(found);
                    }
                }
            };
            let by_key = find("keys")?;
            ensure!(
                by_key.len() == 1 && place(&by_key[0]) == place(s),
                "by key: {by_key:?} for {s}"
            );
            for id in ["offsetMsgId", "msgId"] {
                let seen = self.run("view", json!({"topic": topic, "msgId": s[id]}))?;
                ensure!(place(&seen[0]) == place(s), "by {id}: {seen:?} for {s}");
                ensure!(
                    seen[0]["bodySha"] == s["bodySha"],
                    "by {id}: {seen:?} for {s}"
                );
            }
        }
        Ok(())
    }

    /// The Go client: sends of every kind, both consumers; the Java consumer reads them as well.
    pub fn go(&self, topic: &str) -> Result<()> {
        for mode in ["sync", "async", "oneway", "batch"] {
            clients::go(&[
                "send", "-ns", self.ns, "-topic", topic, "-mode", mode, "-tag", "TagA",
            ])?;
        }
        for orderly in ["-orderly=false", "-orderly=true"] {
            let group = format!("{topic}{orderly}").replace(['=', '-'], "_");
            let args = [
                "consume", "-ns", self.ns, "-topic", topic, "-group", &group, "-expect", "40",
                orderly,
            ];
            let consumed = of_type(&clients::go(&args)?, "consumed");
            let places: BTreeSet<Place> = consumed.iter().map(place).collect();
            ensure!(
                places.len() == 40,
                "Go consumed {} of 40 places ({orderly})",
                places.len()
            );
        }
        let args =
            json!({"group": format!("{topic}-java"), "topic": topic, "expr": "TagA", "expect": 40});
        self.run("push", args).map(drop)
    }

    /// The Python client: sends, push and pull consumer.
    pub fn python(&self, topic: &str) -> Result<()> {
        let (ns, topic_arg) = (format!("ns={}", self.ns), format!("topic={topic}"));
        for mode in ["mode=sync", "mode=oneway", "mode=orderly"] {
            clients::python(&["send", &ns, &topic_arg, mode, "tag=TagA", "count=10"])?;
        }
        let consumed = clients::python(&["consume", &ns, &topic_arg, "expect=30", "expr=TagA"])?;
        let places: BTreeSet<Place> = of_type(&consumed, "consumed").iter().map(place).collect();
        ensure!(
            places.len() == 30,
            "Python consumed {} of 30 places",
            places.len()
        );
        clients::python(&["pull", &ns, &topic_arg, "expect=30"])?;
        Ok(())
    }

    /// mqadmin: looks at the cluster, makes, changes and deletes a topic and a group, reads and sets configuration.
    pub fn admin(&self, topic: &str) -> Result<()> {
        let addr = self.run("ready", json!({}))?[0]["addr"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let (cluster, broker) = self.names()?;
        let says = |command: &str, wanted: &str| self.admin_says(command, wanted);
        says("clusterList", &broker)?;
        says(
            &format!("updateTopic -b {addr} -t {topic} -r 3 -w 3"),
            "success",
        )?;
        self.run("ready", json!({"topic": topic}))?;
        says(&format!("topicRoute -t {topic}"), "\"readQueueNums\":3")?;
        says(&format!("topicStatus -t {topic}"), &broker)?;
        says("topicList", topic)?;
        says(
            &format!("updateSubGroup -b {addr} -g admin-group"),
            "success",
        )?;
        self.run("send", json!({"topic": topic, "count": 6}))?;
        let args = json!({"group": "admin-group", "topic": topic, "expect": 6});
        self.run("push", args)?;
        says("consumerProgress -g admin-group", topic)?;
        says(&format!("brokerStatus -b {addr}"), "commitLogMaxOffset")?;
        says(&format!("getBrokerConfig -b {addr}"), "brokerName")?;
        let update = format!("updateBrokerConfig -b {addr} -k fileReservedTime -v 499");
        says(&update, "success")?;
        says(&format!("getBrokerConfig -b {addr}"), "499")?;
        says(
            &format!("deleteSubGroup -b {addr} -g admin-group"),
            "success",
        )?;
        says(&format!("deleteTopic -c {cluster} -t {topic}"), "success")?;
        let left = self.lab.admin(&["topicList", "-n", self.ns])?;
        ensure!(
            !left.lines().any(|l| l.trim() == topic),
            "{topic} is still listed:\n{left}"
        );
        Ok(())
    }

    /// One mqadmin command against this name server; its output must contain `wanted`.
    fn admin_says(&self, command: &str, wanted: &str) -> Result<()> {
        let mut argv: Vec<&str> = command.split_whitespace().collect();
        argv.extend(["-n", self.ns]);
        let out = self.lab.admin(&argv)?;
        if !out.contains(wanted) {
            bail!("mqadmin {command} does not say {wanted:?}:\n{out}");
        }
        Ok(())
    }

    /// Name of the cluster and of its first broker, from the name server's answer to 106.
    pub fn names(&self) -> Result<(String, String)> {
        let answer = self.lab.rpc(self.ns, 106, json!({}))?;
        let body = answer["body"].as_str().unwrap_or_default();
        let text = String::from_utf8(STANDARD.decode(body)?)?;
        let table = text
            .split("clusterAddrTable\":{\"")
            .nth(1)
            .unwrap_or_default();
        let mut names = table.split('"').map(str::to_owned);
        match (names.next(), names.nth(1)) {
            (Some(cluster), Some(broker)) => Ok((cluster, broker)),
            _ => bail!("no cluster in the answer to 106: {text}"),
        }
    }
}

/// Every consumed message has a key and body that were sent; all were consumed. Their places.
fn same_bodies(sent: &BTreeMap<String, Value>, consumed: &[Value]) -> Result<BTreeSet<Place>> {
    let mut left: BTreeMap<_, _> = sent.iter().collect();
    for m in consumed {
        let key = m["keys"].to_string();
        ensure!(
            sent.get(&key) == Some(&m["bodySha"]),
            "body of {key} differs: {m}"
        );
        left.remove(&key);
    }
    ensure!(
        left.is_empty(),
        "{} messages not consumed: {:?}",
        left.len(),
        left.keys().take(5)
    );
    Ok(consumed.iter().map(place).collect())
}

/// The offsets of each queue are 0, 1, 2, …
fn dense(places: &BTreeSet<Place>) -> Result<()> {
    let mut next: BTreeMap<i64, i64> = BTreeMap::new();
    for (queue, offset) in places {
        let n = next.entry(*queue).or_default();
        ensure!(
            n == offset,
            "queue {queue}: offset {offset} where {n} was due"
        );
        *n += 1;
    }
    Ok(())
}

/// Queue offsets rise within each queue.
fn in_order(consumed: &[Value]) -> Result<()> {
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    for m in consumed {
        let (queue, offset) = place(m);
        let before = last.insert(queue, offset);
        ensure!(
            before.is_none_or(|b| b < offset),
            "queue {queue}: {offset} after {before:?}"
        );
    }
    Ok(())
}

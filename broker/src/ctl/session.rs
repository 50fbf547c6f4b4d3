//! What `send` and `consume` share: routes from a name server, calls with readable errors.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use remoting::{Client, ClientConfig, Command, request_code, response_code};
use serde::Deserialize;

/// Longest wait for an ordinary answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Permission bits of a topic.
pub const PERM_WRITE: i32 = 2;
/// See [`PERM_WRITE`].
pub const PERM_READ: i32 = 4;

/// A client of one name server.
pub struct Session {
    pub client: Client,
    name_server: String,
}

/// One readable or writable queue of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub broker_name: String,
    pub addr: String,
    pub queue_id: i32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Route {
    #[serde(default)]
    broker_datas: Vec<BrokerData>,
    #[serde(default)]
    queue_datas: Vec<QueueData>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BrokerData {
    broker_name: String,
    broker_addrs: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueData {
    broker_name: String,
    read_queue_nums: i32,
    write_queue_nums: i32,
    perm: i32,
}

impl Session {
    /// A session with the first of the `;`-separated name servers that answers.
    pub fn new(name_servers: &str) -> anyhow::Result<Session> {
        let first = name_servers
            .split(';')
            .map(str::trim)
            .find(|s| !s.is_empty());
        let Some(first) = first else {
            bail!("no name server is given");
        };
        Ok(Session {
            client: Client::new(ClientConfig::default(), None),
            name_server: first.to_owned(),
        })
    }

    /// Calls and turns everything but the listed codes into an error.
    pub async fn call(
        &self,
        addr: &str,
        request: Command,
        timeout: Duration,
        fine: &[i32],
    ) -> anyhow::Result<Command> {
        let code = request.code;
        let answer = self
            .client
            .call(addr, request, timeout)
            .await
            .with_context(|| format!("request {code} to {addr}"))?;
        if !fine.contains(&answer.code) {
            bail!(
                "{addr} answered request {code} with code {}: {}",
                answer.code,
                answer.remark()
            );
        }
        Ok(answer)
    }

    async fn route(&self, topic: &str) -> anyhow::Result<Option<Route>> {
        let request = Command::request(request_code::GET_ROUTEINFO_BY_TOPIC)
            .field("topic", topic)
            .field("acceptStandardJsonOnly", "true");
        let fine = [response_code::SUCCESS, response_code::TOPIC_NOT_EXIST];
        let answer = self
            .call(&self.name_server, request, CALL_TIMEOUT, &fine)
            .await?;
        if answer.code == response_code::TOPIC_NOT_EXIST {
            return Ok(None);
        }
        let route = remoting::fastjson::from_slice(&answer.body)
            .with_context(|| format!("route of {topic} from {}", self.name_server))?;
        Ok(Some(route))
    }

    /// Queues to write to; a topic that does not exist yet takes those of the auto-create topic, at most four.
    pub async fn write_queues(&self, topic: &str) -> anyhow::Result<Vec<Queue>> {
        if let Some(route) = self.route(topic).await? {
            return Ok(queues(&route, PERM_WRITE, |q| q.write_queue_nums));
        }
        let template = self
            .route(remoting::message::DEFAULT_TOPIC)
            .await?
            .with_context(|| format!("topic {topic} does not exist and brokers create none"))?;
        Ok(queues(&template, PERM_WRITE, |q| q.write_queue_nums.min(4)))
    }

    /// Queues to read from, empty while the topic does not exist.
    pub async fn read_queues(&self, topic: &str) -> anyhow::Result<Vec<Queue>> {
        let route = self.route(topic).await?;
        Ok(route.map_or_else(Vec::new, |r| queues(&r, PERM_READ, |q| q.read_queue_nums)))
    }
}

fn queues(route: &Route, perm: i32, count: impl Fn(&QueueData) -> i32) -> Vec<Queue> {
    let mut out = Vec::new();
    for data in route.queue_datas.iter().filter(|q| q.perm & perm != 0) {
        let master = route
            .broker_datas
            .iter()
            .find(|b| b.broker_name == data.broker_name)
            .and_then(|b| b.broker_addrs.get("0"));
        let Some(addr) = master else { continue };
        out.extend((0..count(data)).map(|queue_id| Queue {
            broker_name: data.broker_name.clone(),
            addr: addr.clone(),
            queue_id,
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_need_a_master_and_the_permission() {
        let text = br#"{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"c"},
            {"brokerAddrs":{1:"h:2"},"brokerName":"b","cluster":"c"}],"filterServerTable":{},
            "queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":1},
            {"brokerName":"b","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2}]}"#;
        let route: Route = remoting::fastjson::from_slice(text).unwrap();
        let read = queues(&route, PERM_READ, |q| q.read_queue_nums);
        assert_eq!(read.len(), 2);
        assert!(read.iter().all(|q| q.addr == "h:1"));
        assert_eq!(queues(&route, PERM_WRITE, |q| q.write_queue_nums).len(), 1);
        let mut closed = route;
        closed.queue_datas[0].perm = PERM_READ;
        assert!(queues(&closed, PERM_WRITE, |q| q.write_queue_nums).is_empty());
    }
}

//! The route table: which broker serves which topic, and which brokers live. Pure: time comes in as a parameter.

use super::registration::{BrokerIdentity, Registration};
use crate::tables::{DataVersion, TopicConfig, perm};
use std::collections::{BTreeMap, BTreeSet};

/// Time without a sign of life after which a broker is forgotten, ms.
const TIMEOUT_MS: i64 = 120_000;

/// Who keeps a broker's entry alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The broker in this process: lives as long as the process.
    Local,
    /// A connection, by its id.
    Connection(u64),
}

/// Queues of a topic on one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueData {
    /// Queues to read.
    pub read_queues: i32,
    /// Queues to write.
    pub write_queues: i32,
    /// Permission bits.
    pub perm: i32,
    /// Unit bits.
    pub sys_flag: i32,
}

/// Addresses of the brokers with one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerData {
    /// Cluster.
    pub cluster: String,
    /// Address by id.
    pub addrs: BTreeMap<i64, String>,
    /// As 5.x brokers say.
    pub acting_master: Option<bool>,
}

#[derive(Debug)]
struct Live {
    name: String,
    id: i64,
    ha_addr: String,
    version: DataVersion,
    owner: Owner,
    last_ms: i64,
    timeout_ms: i64,
}

/// What a registering slave learns about its master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MasterHint {
    /// Replication address of the master.
    pub ha_addr: String,
    /// Main address of the master.
    pub addr: String,
}

/// Brokers and queues of one topic, by broker name.
pub type Route<'a> = (
    Vec<(&'a str, &'a BrokerData)>,
    Vec<(&'a str, &'a QueueData)>,
);

/// The table.
#[derive(Debug, Default)]
pub struct Routes {
    brokers: BTreeMap<String, BrokerData>,
    topics: BTreeMap<String, BTreeMap<String, QueueData>>,
    /// By (cluster, address).
    live: BTreeMap<(String, String), Live>,
}

impl Routes {
    /// Takes a registration; a slave gets the addresses of its master.
    pub fn register(
        &mut self,
        registration: &Registration,
        owner: Owner,
        now_ms: i64,
    ) -> Option<MasterHint> {
        let who = &registration.identity;
        // A candidate without a role would be taken for the first slave and cost the topics their permission.
        if who.id < 0 || self.is_outdone(registration) {
            return None;
        }
        let broker = self.brokers.entry(who.name.clone()).or_default();
        broker.cluster.clone_from(&who.cluster);
        broker.acting_master = registration.acting_master;
        // The same address under another id is a broker whose role changed.
        broker
            .addrs
            .retain(|id, addr| *id == who.id || *addr != who.addr);
        let replaced = broker.addrs.insert(who.id, who.addr.clone());
        let smallest = broker.addrs.keys().next() == Some(&who.id);
        if let Some(old) = replaced.as_ref().filter(|old| **old != who.addr) {
            self.live.remove(&(who.cluster.clone(), old.clone()));
        }
        let key = (who.cluster.clone(), who.addr.clone());
        // Who also registers over a connection is not forgotten with the connection.
        let local = self.live.get(&key).is_some_and(|l| l.owner == Owner::Local);
        let owner = if local { Owner::Local } else { owner };
        let known = self
            .live
            .get(&key)
            .filter(|l| l.id == who.id)
            .map(|l| l.version.clone());
        let changed = known.is_none_or(|v| !v.same_as(&registration.version)) || replaced.is_none();
        let may_act = registration.acting_master.is_some();
        if who.id == 0 || (smallest && may_act) {
            let read_only = who.id != 0 && registration.acting_master == Some(true);
            registration
                .topics
                .iter()
                .for_each(|topic| self.apply(&who.name, topic, changed, read_only));
        }
        self.live.insert(
            key,
            Live {
                name: who.name.clone(),
                id: who.id,
                ha_addr: registration.ha_addr.clone(),
                version: registration.version.clone(),
                owner,
                last_ms: now_ms,
                timeout_ms: registration
                    .timeout_ms
                    .filter(|t| *t > 0)
                    .unwrap_or(TIMEOUT_MS),
            },
        );
        if who.id == 0 {
            None
        } else {
            self.master_of(&who.name)
        }
    }

    /// 5.x: whoever holds the id with a higher state version keeps it.
    fn is_outdone(&self, registration: &Registration) -> bool {
        let who = &registration.identity;
        let holder = self
            .brokers
            .get(&who.name)
            .and_then(|b| b.addrs.get(&who.id))
            .filter(|a| **a != who.addr);
        let holder = holder.and_then(|addr| self.live.get(&(who.cluster.clone(), addr.clone())));
        holder.is_some_and(|l| {
            l.version.state_version.unwrap_or(0) > registration.version.state_version.unwrap_or(0)
        })
    }

    fn apply(&mut self, broker: &str, topic: &TopicConfig, changed: bool, read_only: bool) {
        let queues = self.topics.entry(topic.name.clone()).or_default();
        if changed || !queues.contains_key(broker) {
            let perm = if read_only {
                topic.perm & !perm::WRITE
            } else {
                topic.perm
            };
            queues.insert(
                broker.to_string(),
                QueueData {
                    read_queues: topic.read_queues,
                    write_queues: topic.write_queues,
                    perm,
                    sys_flag: topic.sys_flag,
                },
            );
        }
    }

    fn master_of(&self, name: &str) -> Option<MasterHint> {
        let broker = self.brokers.get(name)?;
        let addr = broker.addrs.get(&0)?;
        let live = self.live.get(&(broker.cluster.clone(), addr.clone()))?;
        Some(MasterHint {
            ha_addr: live.ha_addr.clone(),
            addr: addr.clone(),
        })
    }

    /// Forgets one broker.
    pub fn unregister(&mut self, who: &BrokerIdentity) {
        self.live.remove(&(who.cluster.clone(), who.addr.clone()));
        if let Some(broker) = self.brokers.get_mut(&who.name) {
            // Only the address that goes: the id may be another's by now.
            broker
                .addrs
                .retain(|id, addr| *id != who.id || *addr != who.addr);
            if broker.addrs.is_empty() {
                self.brokers.remove(&who.name);
                self.topics.values_mut().for_each(|queues| {
                    queues.remove(&who.name);
                });
                self.topics.retain(|_, queues| !queues.is_empty());
            }
        }
    }

    /// Forgets the brokers that registered over a connection that is gone.
    pub fn connection_closed(&mut self, connection: u64) -> usize {
        self.forget(|live| live.owner == Owner::Connection(connection))
    }

    /// Forgets the brokers that were silent for too long; the connections that they registered over.
    pub fn expire(&mut self, now_ms: i64) -> Vec<u64> {
        let silent = |l: &Live| l.owner != Owner::Local && now_ms - l.last_ms > l.timeout_ms;
        let owners = self.live.values().filter(|l| silent(l)).map(|l| l.owner);
        let connections = owners
            .filter_map(|o| {
                if let Owner::Connection(id) = o {
                    Some(id)
                } else {
                    None
                }
            })
            .collect();
        self.forget(silent);
        connections
    }

    fn forget(&mut self, gone: impl Fn(&Live) -> bool) -> usize {
        let gone: Vec<BrokerIdentity> = self
            .live
            .iter()
            .filter(|(_, live)| gone(live))
            .map(|((cluster, addr), live)| BrokerIdentity {
                cluster: cluster.clone(),
                name: live.name.clone(),
                addr: addr.clone(),
                id: live.id,
            })
            .collect();
        gone.iter().for_each(|who| self.unregister(who));
        gone.len()
    }

    /// Request 322: a sign of life; the version known, if any.
    pub fn touch(&mut self, who: &BrokerIdentity, now_ms: i64) -> Option<DataVersion> {
        let live = self
            .live
            .get_mut(&(who.cluster.clone(), who.addr.clone()))?;
        live.last_ms = now_ms;
        Some(live.version.clone())
    }

    /// Brokers and queues of a topic; `None` without either.
    pub fn route(&self, topic: &str) -> Option<Route<'_>> {
        let queues: Vec<_> = self
            .topics
            .get(topic)?
            .iter()
            .map(|(name, q)| (name.as_str(), q))
            .collect();
        let brokers = queues
            .iter()
            .filter_map(|(name, _)| self.brokers.get_key_value(*name));
        let brokers: Vec<_> = brokers.map(|(name, b)| (name.as_str(), b)).collect();
        (!brokers.is_empty() && !queues.is_empty()).then_some((brokers, queues))
    }

    /// All brokers by name.
    pub fn brokers(&self) -> &BTreeMap<String, BrokerData> {
        &self.brokers
    }

    /// Names of the brokers by cluster.
    pub fn clusters(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut clusters: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, broker) in &self.brokers {
            clusters.entry(&broker.cluster).or_default().insert(name);
        }
        clusters
    }

    /// All topics.
    pub fn topics(&self) -> Vec<&str> {
        self.topics.keys().map(String::as_str).collect()
    }

    /// Topics that brokers of the cluster serve.
    pub fn topics_of_cluster(&self, cluster: &str) -> Vec<&str> {
        let of_cluster = |broker: &str| {
            self.brokers
                .get(broker)
                .is_some_and(|b| b.cluster == cluster)
        };
        let serving = self
            .topics
            .iter()
            .filter(|(_, queues)| queues.keys().any(|broker| of_cluster(broker)));
        serving.map(|(topic, _)| topic.as_str()).collect()
    }

    /// Topics whose first broker's `topicSysFlag` satisfies `wanted`.
    pub fn topics_by_flag(&self, wanted: impl Fn(i32) -> bool) -> Vec<&str> {
        let flagged = self
            .topics
            .iter()
            .filter(|(_, queues)| queues.values().next().is_some_and(|q| wanted(q.sys_flag)));
        flagged.map(|(topic, _)| topic.as_str()).collect()
    }

    /// Any broker's address, the masters' first.
    pub fn some_addr(&self) -> Option<&str> {
        self.brokers
            .values()
            .find_map(|b| b.addrs.values().next())
            .map(String::as_str)
    }

    /// Forgets a topic, everywhere or on the brokers of one cluster.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(queues) = self.topics.get_mut(topic) else {
            return;
        };
        match cluster.filter(|c| !c.is_empty()) {
            None => queues.clear(),
            Some(cluster) => {
                let brokers = &self.brokers;
                queues.retain(|broker, _| brokers.get(broker).is_none_or(|b| b.cluster != cluster));
            }
        }
        if queues.is_empty() {
            self.topics.remove(topic);
        }
    }

    /// Forgets a topic on one broker.
    pub fn delete_topic_of_broker(&mut self, topic: &str, broker: &str) {
        if let Some(queues) = self.topics.get_mut(topic) {
            queues.remove(broker);
            if queues.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    /// Changes the permission of every topic on a broker (requests 205, 327); how many there are.
    pub fn set_write(&mut self, broker: &str, writable: bool) -> usize {
        let mut count = 0;
        for queue in self
            .topics
            .values_mut()
            .filter_map(|queues| queues.get_mut(broker))
        {
            queue.perm = if writable {
                perm::READ | perm::WRITE
            } else {
                queue.perm & !perm::WRITE
            };
            count += 1;
        }
        count
    }

    /// Request 217: queues of one topic, for brokers that live.
    pub fn add_queues(&mut self, topic: &str, queues: Vec<(String, QueueData)>) {
        for (broker, queue) in queues
            .into_iter()
            .filter(|(broker, _)| self.brokers.contains_key(broker))
        {
            self.topics
                .entry(topic.to_string())
                .or_default()
                .insert(broker, queue);
        }
    }
}

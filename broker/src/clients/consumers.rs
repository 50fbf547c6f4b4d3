//! Consumers by group, as their heartbeats announced them.
//!
//! Java keys a group's members by connection, so a client that comes back on a new connection is
//! first listed twice and every reconnect makes the whole group rebalance. Here the membership is
//! the set of client ids: a client that comes back within [`RETURNS_WITHIN`] of losing its
//! connection has never left.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use remoting::body::{ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData};

use super::{CLIENT_EXPIRES_AFTER, Channel, Member};
use crate::filter::TagFilter;

/// A client whose connection broke stays a member for this long, so that a reconnect is not seen.
pub const RETURNS_WITHIN: Duration = Duration::from_secs(1);

/// What a group reads of one topic.
#[derive(Debug)]
pub struct Subscription {
    /// As the heartbeat gave it.
    pub data: SubscriptionData,
    /// Its tags, ready for comparison.
    pub filter: Arc<TagFilter>,
}

impl Subscription {
    /// Makes the filter of a subscription ready.
    pub fn new(data: SubscriptionData) -> Self {
        let filter =
            TagFilter::from_codes(&data.sub_string, data.class_filter_mode, &data.code_set);
        Subscription {
            filter: Arc::new(filter),
            data,
        }
    }
}

/// How a group consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// Pull, push or pop.
    pub consume_type: ConsumeType,
    /// Broadcasting or clustering.
    pub message_model: MessageModel,
    /// Where a new member of the group begins.
    pub consume_from_where: ConsumeFromWhere,
}

#[derive(Debug)]
struct Group<C> {
    manner: Manner,
    members: HashMap<u64, Member<C>>,
    /// Clients that lost their connection, and until when they may come back.
    departing: HashMap<Arc<str>, Instant>,
    subscriptions: HashMap<String, Arc<Subscription>>,
}

impl<C> Group<C> {
    fn client_ids(&self) -> BTreeSet<Arc<str>> {
        self.members
            .values()
            .map(|member| &member.client_id)
            .chain(self.departing.keys())
            .cloned()
            .collect()
    }

    fn has_client(&self, client_id: &str) -> bool {
        self.departing.contains_key(client_id)
            || self
                .members
                .values()
                .any(|member| &*member.client_id == client_id)
    }

    /// Replaces older subscriptions, drops topics that are not named any more. True if the set of
    /// topics changed: a newer expression alone does not move queues.
    fn subscribe(&mut self, subscriptions: Vec<SubscriptionData>) -> bool {
        let named: HashSet<&str> = subscriptions
            .iter()
            .map(|data| data.topic.as_str())
            .collect();
        let before = self.subscriptions.len();
        self.subscriptions
            .retain(|topic, _| named.contains(topic.as_str()));
        let mut changed = self.subscriptions.len() != before;
        for data in subscriptions {
            match self.subscriptions.get_mut(&data.topic) {
                Some(known) if data.sub_version <= known.data.sub_version => {}
                Some(known) => *known = Arc::new(Subscription::new(data)),
                None => {
                    changed = true;
                    self.subscriptions
                        .insert(data.topic.clone(), Arc::new(Subscription::new(data)));
                }
            }
        }
        changed
    }
}

/// What a pull finds out about its group.
#[derive(Debug)]
pub enum Lookup {
    /// No member of the group has sent a heartbeat.
    NoGroup,
    /// The group is there.
    Group {
        /// How it consumes.
        manner: Manner,
        /// What it reads of the topic, if it does.
        subscription: Option<Arc<Subscription>>,
    },
}

/// A group as the admin tools see it.
#[derive(Debug)]
pub struct GroupView<C> {
    /// How it consumes.
    pub manner: Manner,
    /// Its members, one per connection.
    pub members: Vec<Member<C>>,
    /// What it reads.
    pub subscriptions: Vec<Arc<Subscription>>,
}

/// All consumers that are connected.
#[derive(Debug)]
pub struct Consumers<C> {
    groups: RwLock<HashMap<String, Group<C>>>,
}

impl<C> Default for Consumers<C> {
    fn default() -> Self {
        Consumers {
            groups: RwLock::new(HashMap::new()),
        }
    }
}

impl<C: Channel> Consumers<C> {
    /// Takes a heartbeat. True if the group must be told: a client id or a topic is new, or a topic
    /// is gone.
    pub fn register(
        &self,
        group: &str,
        member: Member<C>,
        manner: Manner,
        subscriptions: Vec<SubscriptionData>,
    ) -> bool {
        let mut groups = self.groups.write();
        let entry = groups.entry(group.to_owned()).or_insert_with(|| Group {
            manner,
            members: HashMap::new(),
            departing: HashMap::new(),
            subscriptions: HashMap::new(),
        });
        entry.manner = manner;
        let is_new = !entry.has_client(&member.client_id);
        entry.departing.remove(&member.client_id);
        entry.members.insert(member.channel.id(), member);
        entry.subscribe(subscriptions) | is_new
    }

    /// Removes a channel from a group at its own wish. True if the group must be told.
    pub fn unregister(&self, group: &str, channel_id: u64) -> bool {
        let mut groups = self.groups.write();
        let Some(entry) = groups.get_mut(group) else {
            return false;
        };
        let Some(member) = entry.members.remove(&channel_id) else {
            return false;
        };
        let gone = !entry.has_client(&member.client_id);
        if entry.members.is_empty() && entry.departing.is_empty() {
            groups.remove(group);
        }
        gone
    }

    /// Notes that a channel broke. True if a client may have left by it: ask [`Consumers::departed`]
    /// once [`RETURNS_WITHIN`] has passed.
    pub fn closed(&self, channel_id: u64, now: Instant) -> bool {
        let mut departing = false;
        for entry in self.groups.write().values_mut() {
            let Some(member) = entry.members.remove(&channel_id) else {
                continue;
            };
            if !entry.has_client(&member.client_id) {
                entry
                    .departing
                    .insert(member.client_id, now + RETURNS_WITHIN);
                departing = true;
            }
        }
        departing
    }

    /// Lets those go that did not come back in time; gives the groups that must be told.
    pub fn departed(&self, now: Instant) -> Vec<String> {
        let mut changed = Vec::new();
        self.groups.write().retain(|name, entry| {
            let before = entry.departing.len();
            entry.departing.retain(|_, until| *until > now);
            if entry.departing.len() != before {
                changed.push(name.clone());
            }
            !entry.members.is_empty() || !entry.departing.is_empty()
        });
        changed
    }

    /// Removes those that were silent for too long: their channels, to be closed, and the groups
    /// that must be told.
    pub fn expire(&self, now: Instant) -> (Vec<C>, Vec<String>) {
        let (mut channels, mut changed) = (Vec::new(), Vec::new());
        self.groups.write().retain(|name, entry| {
            let before = entry.members.len();
            entry.members.retain(|_, member| {
                let live = now.saturating_duration_since(member.seen) <= CLIENT_EXPIRES_AFTER;
                if !live {
                    channels.push(member.channel.clone());
                }
                live
            });
            if entry.members.len() != before {
                changed.push(name.clone());
            }
            !entry.members.is_empty() || !entry.departing.is_empty()
        });
        (channels, changed)
    }

    /// What a pull of this group and topic needs to know.
    pub fn lookup(&self, group: &str, topic: &str) -> Lookup {
        match self.groups.read().get(group) {
            None => Lookup::NoGroup,
            Some(entry) => Lookup::Group {
                manner: entry.manner,
                subscription: entry.subscriptions.get(topic).cloned(),
            },
        }
    }

    /// The client ids of a group, sorted, each once.
    pub fn client_ids(&self, group: &str) -> Vec<Arc<str>> {
        self.groups
            .read()
            .get(group)
            .map(|entry| entry.client_ids().into_iter().collect())
            .unwrap_or_default()
    }

    /// The members of a group, one per connection.
    pub fn members(&self, group: &str) -> Vec<Member<C>> {
        self.groups
            .read()
            .get(group)
            .map(|entry| entry.members.values().cloned().collect())
            .unwrap_or_default()
    }

    /// The member with this client id that was heard of last.
    pub fn find(&self, group: &str, client_id: &str) -> Option<Member<C>> {
        self.members(group)
            .into_iter()
            .filter(|member| &*member.client_id == client_id)
            .max_by_key(|member| member.seen)
    }

    /// A group with all that is known of it; `None` if nobody of it is connected.
    pub fn view(&self, group: &str) -> Option<GroupView<C>> {
        let groups = self.groups.read();
        let entry = groups
            .get(group)
            .filter(|entry| !entry.members.is_empty())?;
        Some(GroupView {
            manner: entry.manner,
            members: entry.members.values().cloned().collect(),
            subscriptions: entry.subscriptions.values().cloned().collect(),
        })
    }

    /// Groups that are connected and read a topic.
    pub fn groups_of_topic(&self, topic: &str) -> BTreeSet<String> {
        let groups = self.groups.read();
        let reads = groups
            .iter()
            .filter(|(_, entry)| entry.subscriptions.contains_key(topic));
        reads.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
pub(super) mod tests;

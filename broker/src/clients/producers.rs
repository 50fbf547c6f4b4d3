//! Producers by group, as their heartbeats announced them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;

use super::{CLIENT_EXPIRES_AFTER, Channel, Member};

#[derive(Debug)]
struct Table<C> {
    groups: HashMap<String, HashMap<u64, Member<C>>>,
    by_client: HashMap<Arc<str>, C>,
}

/// All producers that are connected.
#[derive(Debug)]
pub struct Producers<C> {
    table: RwLock<Table<C>>,
}

impl<C> Default for Producers<C> {
    fn default() -> Self {
        let table = Table {
            groups: HashMap::new(),
            by_client: HashMap::new(),
        };
        Producers {
            table: RwLock::new(table),
        }
    }
}

impl<C: Channel> Producers<C> {
    /// Takes a heartbeat.
    pub fn register(&self, group: &str, member: Member<C>) {
        let mut table = self.table.write();
        table
            .by_client
            .insert(member.client_id.clone(), member.channel.clone());
        if let Some(members) = table.groups.get_mut(group) {
            members.insert(member.channel.id(), member);
            return;
        }
        table.groups.insert(
            group.to_owned(),
            HashMap::from([(member.channel.id(), member)]),
        );
    }

    /// Removes a channel from one group.
    pub fn unregister(&self, group: &str, channel_id: u64) {
        self.table.write().remove(channel_id, |name| name == group);
    }

    /// Removes a channel that is gone from all groups.
    pub fn closed(&self, channel_id: u64) {
        self.table.write().remove(channel_id, |_| true);
    }

    /// Removes those that were silent for too long and gives their channels, to be closed.
    pub fn expire(&self, now: Instant) -> Vec<C> {
        let mut table = self.table.write();
        let mut expired = Vec::new();
        for members in table.groups.values() {
            let silent = members
                .values()
                .filter(|member| now.saturating_duration_since(member.seen) > CLIENT_EXPIRES_AFTER);
            expired.extend(silent.map(|member| member.channel.clone()));
        }
        for channel in &expired {
            table.remove(channel.id(), |_| true);
        }
        expired
    }

    /// The channel of a client, by the name that it gave itself.
    pub fn find(&self, client_id: &str) -> Option<C> {
        self.table.read().by_client.get(client_id).cloned()
    }

    /// The members of a group; `None` if it has none.
    pub fn members(&self, group: &str) -> Option<Vec<Member<C>>> {
        Some(
            self.table
                .read()
                .groups
                .get(group)?
                .values()
                .cloned()
                .collect(),
        )
    }

    /// Every group with its members.
    pub fn all(&self) -> Vec<(String, Vec<Member<C>>)> {
        let table = self.table.read();
        table
            .groups
            .iter()
            .map(|(name, members)| (name.clone(), members.values().cloned().collect()))
            .collect()
    }
}

impl<C: Channel> Table<C> {
    fn remove(&mut self, channel_id: u64, of_group: impl Fn(&str) -> bool) {
        self.groups.retain(|name, members| {
            if of_group(name) {
                members.remove(&channel_id);
            }
            !members.is_empty()
        });
        let still_there = self
            .groups
            .values()
            .any(|members| members.contains_key(&channel_id));
        if !still_there {
            self.by_client
                .retain(|_, channel| channel.id() != channel_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::consumers::tests::{TestChannel, member};
    use super::*;

    #[test]
    fn a_producer_is_found_until_its_channel_goes() {
        let producers = Producers::<TestChannel>::default();
        let now = Instant::now();
        producers.register("P", member("a", 1, now));
        producers.register("Q", member("a", 1, now));
        producers.unregister("P", 1);
        assert!(producers.members("P").is_none());
        assert_eq!(producers.find("a"), Some(TestChannel(1)));
        producers.closed(1);
        assert_eq!(producers.find("a"), None);
        assert!(producers.all().is_empty());
    }

    #[test]
    fn silent_producers_expire() {
        let producers = Producers::<TestChannel>::default();
        let now = Instant::now();
        producers.register("P", member("a", 1, now));
        assert!(producers.expire(now + CLIENT_EXPIRES_AFTER).is_empty());
        let later = now + CLIENT_EXPIRES_AFTER + std::time::Duration::from_millis(1);
        assert_eq!(producers.expire(later), [TestChannel(1)]);
        assert!(producers.all().is_empty());
    }
}

//! Random runs of the raft core with a checker behind every step. The network drops, repeats and reorders; members
//! crash at any effect and come back with what they had persisted. Replication itself is played by the test: it copies
//! a prefix of the leader's log to a follower, as pushes do, and lets the acknowledgement travel.

use std::collections::HashMap;

use dledger::raft::message::{Peer, VoteRequest, VoteResult};
use dledger::raft::{
    Acknowledge, Answer, Call, Config, Core, Effect, Effects, HardState, Input, LogState,
    RequestId, RoleKind,
};
use proptest::prelude::*;

/// A message on its way. Requests carry their sender, answers carry what they answer.
#[derive(Clone, Debug)]
enum Packet {
    Request {
        from: Peer,
        to: Peer,
        call: Call,
    },
    Answer {
        from: Peer,
        to: Peer,
        call: Call,
        answer: Option<Answer>,
    },
    Acknowledged {
        from: Peer,
        to: Peer,
        term: i64,
        index: i64,
    },
}

impl Packet {
    fn to(&self) -> Peer {
        match self {
            Packet::Request { to, .. }
            | Packet::Answer { to, .. }
            | Packet::Acknowledged { to, .. } => *to,
        }
    }
}

struct Node {
    core: Core,
    /// What a crash leaves: term and vote, and the terms of the entries. A term has one leader, so index and term name
    /// an entry.
    disk: HardState,
    log: Vec<i64>,
}

/// A group of cores, a bag of packets, and what must never happen.
struct Group {
    nodes: Vec<Node>,
    packets: Vec<Packet>,
    /// Who led in a term.
    leaders: HashMap<i64, Peer>,
    /// Whom a member voted for in a term, as told to others.
    spoken: HashMap<(Peer, i64), Peer>,
    /// What was committed by anybody, ever.
    committed: Vec<i64>,
    now: i64,
    starts: u64,
}

#[derive(Clone, Debug)]
enum Act {
    Advance(i64),
    Deliver(usize),
    Repeat(usize),
    Drop(usize),
    Crash(u8),
    /// Crash while the effects of the next input are being carried out, after that many of them.
    CrashWithin(u8, usize),
    Append(u8),
    /// That follower takes its leader's log up to a fraction of it.
    Replicate(u8, u8),
}

fn log_state(log: &[i64]) -> LogState {
    let end_index = log.len() as i64 - 1;
    LogState {
        end_index,
        end_term: log.last().copied().unwrap_or(-1),
        committed: -1,
        synced: end_index,
    }
}

fn new_core(members: usize, me: Peer, seed: u64, disk: HardState, log: &[i64], now: i64) -> Core {
    let mut config = Config::new(members as u8, me);
    config.seed = seed;
    Core::new(config, disk, log_state(log), now)
}

impl Group {
    /// Members whose logs are prefixes of one history.
    fn new(lengths: &[usize]) -> Group {
        const HISTORY: [i64; 6] = [0, 0, 1, 1, 1, 3];
        let members = lengths.len();
        let nodes = lengths.iter().enumerate().map(|(n, &length)| {
            let log = HISTORY[..length].to_vec();
            let disk = HardState {
                term: log.last().copied().unwrap_or(0),
                vote: None,
            };
            let core = new_core(members, Peer(n as u8), n as u64, disk, &log, 0);
            Node { core, disk, log }
        });
        Group {
            nodes: nodes.collect(),
            packets: Vec::new(),
            leaders: HashMap::new(),
            spoken: HashMap::new(),
            committed: Vec::new(),
            now: 0,
            starts: 100,
        }
    }

    fn node(&mut self, peer: Peer) -> &mut Node {
        &mut self.nodes[usize::from(peer.0)]
    }

    fn peer(&self, number: u8) -> Peer {
        Peer(number % self.nodes.len() as u8)
    }

    fn restart(&mut self, me: Peer) {
        self.starts += 1;
        let (members, seed, now) = (self.nodes.len(), self.starts, self.now);
        let node = self.node(me);
        node.core = new_core(members, me, seed, node.disk, &node.log, now);
    }

    /// Steps a member and carries out its effects; after `limit` of them it crashes.
    fn step(&mut self, me: Peer, input: Input, asked: Option<(Peer, Call)>, limit: Option<usize>) {
        let mut effects = Effects::new();
        let before = self.node(me).core.term();
        self.node(me).core.step(input, &mut effects);
        assert!(self.node(me).core.term() >= before, "the term went back");
        for (count, effect) in effects.as_slice().iter().enumerate() {
            if limit == Some(count) {
                self.restart(me);
                return;
            }
            self.carry_out(me, *effect, asked);
        }
    }

    fn carry_out(&mut self, me: Peer, effect: Effect, asked: Option<(Peer, Call)>) {
        let disk = self.node(me).disk;
        match effect {
            Effect::Persist(hard) => {
                let forward =
                    hard.term > disk.term || (hard.term == disk.term && disk.vote.is_none());
                assert!(forward, "{disk:?} to {hard:?}");
                self.node(me).disk = hard;
            }
            Effect::Send { to, call } => {
                let (Call::Vote {
                    request: VoteRequest { term, .. },
                    ..
                }
                | Call::Heartbeat { term, .. }) = call;
                assert!(
                    disk.term >= term,
                    "a term was spoken before it was persisted"
                );
                self.packets.push(Packet::Request { from: me, to, call });
            }
            Effect::Reply { answer, .. } => {
                let (from, call) = asked.expect("an answer needs a question");
                self.check_answer(me, from, &call, &answer, disk);
                self.packets.push(Packet::Answer {
                    from: me,
                    to: from,
                    call,
                    answer: Some(answer),
                });
            }
            Effect::Role {
                role: RoleKind::Leader,
                term,
                leader,
            } => {
                assert_eq!(leader, Some(me));
                assert_eq!(
                    (disk.term, disk.vote),
                    (term, Some(me)),
                    "leads without a persisted vote"
                );
                // Also over restarts: a term is led by one member, once (D3).
                assert_eq!(
                    self.leaders.insert(term, me),
                    None,
                    "a second lead in term {term}"
                );
                let committed = self.committed.clone();
                assert!(
                    self.node(me).log.starts_with(&committed),
                    "a leader without what is committed"
                );
            }
            Effect::AppendNoOp { term } => {
                assert!(
                    self.nodes.len() > 1 && !self.node(me).log.is_empty(),
                    "a no-op without need"
                );
                assert_eq!(self.append(me), Some(term));
            }
            Effect::Commit { index } => self.check_commit(me, index),
            Effect::Role { .. } => {}
        }
    }

    fn check_answer(
        &mut self,
        me: Peer,
        from: Peer,
        call: &Call,
        answer: &Answer,
        disk: HardState,
    ) {
        if let (Call::Vote { request, .. }, Answer::Vote(vote)) = (call, answer)
            && vote.result == VoteResult::Accept
        {
            assert_eq!(
                disk,
                HardState {
                    term: request.term,
                    vote: Some(from)
                },
                "an unpersisted vote was spoken"
            );
            let earlier = self.spoken.insert((me, request.term), from);
            assert!(
                earlier.is_none() || earlier == Some(from),
                "two votes in term {}",
                request.term
            );
        }
    }

    /// What is committed is on a majority, is what was committed there before, and was committed through an entry of
    /// the leader's own term (D7).
    fn check_commit(&mut self, me: Peer, index: i64) {
        let term = self.node(me).core.term();
        let prefix = self.node(me).log[..=index as usize].to_vec();
        assert!(
            self.nodes.len() == 1 || prefix.last() == Some(&term),
            "an old term was committed by counting"
        );
        let holders = self
            .nodes
            .iter()
            .filter(|n| n.log.starts_with(&prefix))
            .count();
        assert!(
            holders > self.nodes.len() / 2,
            "committed without a majority"
        );
        let common = prefix.len().min(self.committed.len());
        assert_eq!(
            prefix[..common],
            self.committed[..common],
            "a committed entry changed"
        );
        if prefix.len() > common {
            self.committed = prefix;
        }
    }

    /// Appends at a leader; gives the term of the entry.
    fn append(&mut self, me: Peer) -> Option<i64> {
        let term = self.node(me).core.may_append().ok()?;
        self.node(me).log.push(term);
        let index = self.node(me).log.len() as i64 - 1;
        self.step(me, Input::Appended { index }, None, None);
        Some(term)
    }

    /// What compare, truncate and append do together: the follower's log gets equal to a prefix of its leader's.
    fn replicate(&mut self, me: Peer, share: u8) {
        let term = self.node(me).core.term();
        let Some(leader) = self.node(me).core.leader().filter(|&leader| leader != me) else {
            return;
        };
        let their = &self.node(leader).core;
        if their.role() != RoleKind::Leader
            || their.term() != term
            || self.node(leader).log.is_empty()
        {
            return;
        }
        let length = 1 + usize::from(share) % self.node(leader).log.len();
        let prefix = self.node(leader).log[..length].to_vec();
        if !self.node(me).log.starts_with(&prefix) {
            self.node(me).log = prefix;
            let LogState {
                end_index,
                end_term,
                ..
            } = log_state(&self.node(me).log);
            self.step(
                me,
                Input::Stored {
                    end_index,
                    end_term,
                },
                None,
                None,
            );
        }
        self.packets.push(Packet::Acknowledged {
            from: me,
            to: leader,
            term,
            index: length as i64 - 1,
        });
    }

    fn deliver(&mut self, packet: Packet, limit: Option<usize>) {
        match packet {
            Packet::Request { from, to, call } => {
                let id = RequestId(1);
                let input = match call {
                    Call::Vote { request, .. } => Input::Vote {
                        id,
                        from: Some(from),
                        request,
                    },
                    Call::Heartbeat { term, .. } => Input::Heartbeat {
                        id,
                        from: Some(from),
                        term,
                    },
                };
                self.step(to, input, Some((from, call)), limit);
            }
            Packet::Answer {
                from,
                to,
                call: Call::Vote { round, .. },
                answer,
            } => {
                let answer = match answer {
                    Some(Answer::Vote(vote)) => Some(vote),
                    _ => None,
                };
                self.step(
                    to,
                    Input::VoteAnswered {
                        from,
                        round,
                        answer,
                    },
                    None,
                    limit,
                );
            }
            Packet::Answer {
                from,
                to,
                call: Call::Heartbeat { term, sent_at },
                answer,
            } => {
                let answer = match answer {
                    Some(Answer::Heartbeat(beat)) => Some(beat),
                    _ => None,
                };
                self.step(
                    to,
                    Input::HeartbeatAnswered {
                        from,
                        term,
                        sent_at,
                        answer,
                    },
                    None,
                    limit,
                );
            }
            Packet::Acknowledged {
                from,
                to,
                term,
                index,
            } => {
                self.step(to, Input::Acknowledged { from, term, index }, None, limit);
            }
        }
    }

    /// A lost request and a lost answer both look like a failed call.
    fn lose(&mut self, packet: Packet) {
        let (from, to, call) = match packet {
            Packet::Request { from, to, call } => (to, from, call),
            Packet::Answer { from, to, call, .. } => (from, to, call),
            Packet::Acknowledged { .. } => return,
        };
        self.packets.push(Packet::Answer {
            from,
            to,
            call,
            answer: None,
        });
    }

    fn act(&mut self, act: &Act) {
        let count = self.packets.len();
        match *act {
            Act::Advance(by) => {
                self.now += by;
                for n in 0..self.nodes.len() as u8 {
                    self.step(Peer(n), Input::Time(self.now), None, None);
                }
            }
            Act::Deliver(at) if count > 0 => {
                let packet = self.packets.swap_remove(at % count);
                self.deliver(packet, None);
            }
            Act::Repeat(at) if count > 0 => {
                let packet = self.packets[at % count].clone();
                self.deliver(packet, None);
            }
            Act::Drop(at) if count > 0 => {
                let packet = self.packets.swap_remove(at % count);
                self.lose(packet);
            }
            Act::Crash(n) => self.restart(self.peer(n)),
            Act::CrashWithin(n, after) => {
                let me = self.peer(n);
                if let Some(at) = self.packets.iter().position(|p| p.to() == me) {
                    let packet = self.packets.swap_remove(at);
                    self.deliver(packet, Some(after));
                }
            }
            Act::Append(n) => drop(self.append(self.peer(n))),
            Act::Replicate(n, share) => self.replicate(self.peer(n), share),
            Act::Deliver(_) | Act::Repeat(_) | Act::Drop(_) => {}
        }
    }

    /// With a good network a leader is found, known to all, and everything that it holds gets committed, without any
    /// further append (R117).
    fn settle(&mut self) {
        for _ in 0..4000 {
            while let Some(packet) = self.packets.pop() {
                self.deliver(packet, None);
            }
            for n in 0..self.nodes.len() as u8 {
                self.replicate(Peer(n), u8::MAX);
                let last = self.nodes.iter().map(|n| n.log.len()).max().unwrap_or(0);
                for share in 0..last {
                    self.replicate(Peer(n), share as u8);
                }
            }
            let leader = self
                .nodes
                .iter()
                .position(|n| n.core.role() == RoleKind::Leader);
            if let Some(leader) = leader {
                let (known, log) = (Some(Peer(leader as u8)), self.nodes[leader].core.log());
                let all = self.nodes.iter().all(|n| n.core.leader() == known);
                if all && log.committed == log.end_index {
                    return;
                }
            }
            self.act(&Act::Advance(50));
        }
        panic!("no leader with everything committed after {} ms", self.now);
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1i64..3000).prop_map(Act::Advance),
        16 => any::<usize>().prop_map(Act::Deliver),
        2 => any::<usize>().prop_map(Act::Repeat),
        3 => any::<usize>().prop_map(Act::Drop),
        1 => any::<u8>().prop_map(Act::Crash),
        1 => (any::<u8>(), 0usize..4).prop_map(|(n, after)| Act::CrashWithin(n, after)),
        4 => any::<u8>().prop_map(Act::Append),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(n, share)| Act::Replicate(n, share)),
    ];
    proptest::collection::vec(act, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// One leader a term, no term or vote that goes back, nothing committed that changes or is missing at a later
    /// leader; and when the network heals, a leader is found and commits what it has.
    #[test]
    fn groups_are_safe_and_come_to_rest(
        lengths in proptest::collection::vec(0usize..=6, 1..=5),
        acts in acts(),
    ) {
        let mut group = Group::new(&lengths);
        for act in &acts {
            group.act(act);
        }
        group.settle();
    }

    /// A group of one: what is committed stays committed over crashes that lose what was not synced (class S), and
    /// every start leads in a new term.
    #[test]
    fn a_single_member_keeps_its_promises(
        acts in proptest::collection::vec((0u8..4, 1i64..5), 1..200),
        synced_class in any::<bool>(),
    ) {
        let acknowledge = if synced_class { Acknowledge::Synced } else { Acknowledge::Written };
        let make = |disk, log| {
            let mut config = Config::new(1, Peer(0));
            config.acknowledge = acknowledge;
            Core::new(config, disk, log, 0)
        };
        let mut disk = HardState { term: 0, vote: None };
        let mut log = LogState { end_index: -1, end_term: -1, committed: -1, synced: -1 };
        let mut core = make(disk, log);
        let (mut told, mut now, mut led) = (-1, 0, Vec::new());
        let mut effects = Effects::new();
        for (act, amount) in acts {
            match (act, core.may_append()) {
                (0, Ok(_)) => core.step(Input::Appended { index: core.log().end_index + amount }, &mut effects),
                (1, _) => core.step(Input::Synced { index: core.log().synced + amount }, &mut effects),
                (2, _) => { now += amount; core.step(Input::Time(now), &mut effects) }
                (3, _) => {
                    let end = if synced_class { core.log().synced } else { core.log().end_index };
                    let end_term = if end < 0 { -1 } else { core.log().end_term };
                    log = LogState { end_index: end, end_term, committed: -1, synced: end };
                    core = make(disk, log);
                }
                _ => {}
            }
            for effect in effects.drain() {
                match effect {
                    Effect::Persist(hard) => { prop_assert!(hard.term > disk.term); disk = hard; }
                    Effect::Role { role: RoleKind::Leader, term, .. } => {
                        prop_assert!(!led.contains(&term));
                        led.push(term);
                    }
                    Effect::Commit { index } => {
                        let kept = if synced_class { core.log().synced } else { core.log().end_index };
                        prop_assert!(index <= kept);
                        told = told.max(index);
                    }
                    other => prop_assert!(false, "a group of one does not {other:?}"),
                }
            }
            prop_assert!(core.log().end_index >= told, "an acknowledged entry is gone");
        }
    }
}

//! Random runs of the raft core with a checker behind every step. The network drops, repeats and reorders; members
//! crash at any effect and come back with what they had persisted.

use std::collections::HashMap;

use dledger::raft::message::Peer;
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
}

struct Node {
    core: Core,
    /// What a crash leaves.
    disk: HardState,
    log: LogState,
}

/// A group of cores, a bag of packets, and what must never happen.
struct Group {
    nodes: Vec<Node>,
    packets: Vec<Packet>,
    /// Who led in a term.
    leaders: HashMap<i64, Peer>,
    /// Whom a member voted for in a term, as told to others.
    spoken: HashMap<(Peer, i64), Peer>,
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
}

fn config(members: u8, me: Peer, seed: u64) -> Config {
    let mut config = Config::new(members, me);
    config.seed = seed;
    config
}

impl Group {
    fn new(logs: &[(i64, i64)]) -> Group {
        let members = logs.len() as u8;
        let nodes = logs.iter().enumerate().map(|(n, &(end_index, end_term))| {
            let log = LogState {
                end_index,
                end_term,
                committed: -1,
                synced: end_index,
            };
            let disk = HardState {
                term: end_term.max(0),
                vote: None,
            };
            let core = Core::new(config(members, Peer(n as u8), n as u64), disk, log, 0);
            Node { core, disk, log }
        });
        Group {
            nodes: nodes.collect(),
            packets: Vec::new(),
            leaders: HashMap::new(),
            spoken: HashMap::new(),
            now: 0,
            starts: 100,
        }
    }

    fn restart(&mut self, me: Peer) {
        self.starts += 1;
        let members = self.nodes.len() as u8;
        let node = &mut self.nodes[usize::from(me.0)];
        node.log.committed = -1;
        node.core = Core::new(
            config(members, me, self.starts),
            node.disk,
            node.log,
            self.now,
        );
    }

    /// Steps a member and carries out its effects; after `limit` of them it crashes.
    fn step(&mut self, me: Peer, input: Input, asked: Option<(Peer, Call)>, limit: Option<usize>) {
        let mut effects = Effects::new();
        let before = self.nodes[usize::from(me.0)].core.term();
        self.nodes[usize::from(me.0)].core.step(input, &mut effects);
        assert!(
            self.nodes[usize::from(me.0)].core.term() >= before,
            "the term went back"
        );
        for (count, effect) in effects.as_slice().iter().enumerate() {
            if limit == Some(count) {
                self.restart(me);
                return;
            }
            self.carry_out(me, *effect, asked);
        }
    }

    fn carry_out(&mut self, me: Peer, effect: Effect, asked: Option<(Peer, Call)>) {
        let disk = self.nodes[usize::from(me.0)].disk;
        match effect {
            Effect::Persist(hard) => {
                assert!(
                    hard.term > disk.term || (hard.term == disk.term && disk.vote.is_none()),
                    "{disk:?} to {hard:?}"
                );
                self.nodes[usize::from(me.0)].disk = hard;
            }
            Effect::Send { to, call } => {
                let (Call::Vote {
                    request: dledger::raft::message::VoteRequest { term, .. },
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
                self.check_winner(me);
            }
            Effect::AppendNoOp { .. } => self.append(me),
            Effect::Commit { .. } => assert_eq!(self.nodes.len(), 1, "nothing is replicated here"),
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
            && vote.result == dledger::raft::message::VoteResult::Accept
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

    /// The log of a new leader is at least as good as those of a majority.
    fn check_winner(&self, me: Peer) {
        let key = |node: &Node| (node.log.end_term, node.log.end_index);
        let mine = key(&self.nodes[usize::from(me.0)]);
        let not_better = self.nodes.iter().filter(|n| key(n) <= mine).count();
        assert!(not_better > self.nodes.len() / 2, "a shorter log won");
    }

    fn append(&mut self, me: Peer) {
        let node = &mut self.nodes[usize::from(me.0)];
        if let Ok(term) = node.core.may_append() {
            node.log.end_index += 1;
            node.log.end_term = term;
            let index = node.log.end_index;
            self.step(me, Input::Appended { index }, None, None);
        }
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
                call,
                answer,
            } => {
                let input = match (call, answer) {
                    (Call::Vote { round, .. }, Some(Answer::Vote(vote))) => Input::VoteAnswered {
                        from,
                        round,
                        answer: Some(vote),
                    },
                    (Call::Vote { round, .. }, _) => Input::VoteAnswered {
                        from,
                        round,
                        answer: None,
                    },
                    (Call::Heartbeat { term, sent_at }, Some(Answer::Heartbeat(beat))) => {
                        Input::HeartbeatAnswered {
                            from,
                            term,
                            sent_at,
                            answer: Some(beat),
                        }
                    }
                    (Call::Heartbeat { term, sent_at }, _) => Input::HeartbeatAnswered {
                        from,
                        term,
                        sent_at,
                        answer: None,
                    },
                };
                self.step(to, input, None, limit);
            }
        }
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
            // A lost request and a lost answer both look like a failed call.
            Act::Drop(at) if count > 0 => {
                let (from, to, call) = match self.packets.swap_remove(at % count) {
                    Packet::Request { from, to, call } => (to, from, call),
                    Packet::Answer { from, to, call, .. } => (from, to, call),
                };
                self.packets.push(Packet::Answer {
                    from,
                    to,
                    call,
                    answer: None,
                });
            }
            Act::Crash(n) => self.restart(Peer(n % self.nodes.len() as u8)),
            Act::CrashWithin(n, after) => {
                let me = Peer(n % self.nodes.len() as u8);
                let mine = |p: &Packet| matches!(p, Packet::Request { to, .. } | Packet::Answer { to, .. } if *to == me);
                if let Some(at) = self.packets.iter().position(mine) {
                    let packet = self.packets.swap_remove(at);
                    self.deliver(packet, Some(after));
                }
            }
            Act::Append(n) => self.append(Peer(n % self.nodes.len() as u8)),
            Act::Deliver(_) | Act::Repeat(_) | Act::Drop(_) => {}
        }
    }

    /// With a good network, a leader is found and known to all.
    fn settle(&mut self) {
        for _ in 0..4000 {
            while let Some(packet) = self.packets.pop() {
                self.deliver(packet, None);
            }
            let leader = self
                .nodes
                .iter()
                .position(|n| n.core.role() == RoleKind::Leader);
            if let Some(leader) = leader
                && self
                    .nodes
                    .iter()
                    .all(|n| n.core.leader() == Some(Peer(leader as u8)))
            {
                return;
            }
            self.act(&Act::Advance(50));
        }
        panic!("no leader after {} ms", self.now);
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
        2 => any::<u8>().prop_map(Act::Append),
    ];
    proptest::collection::vec(act, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Elections: one leader a term, no term or vote that goes back, no shorter log that wins; and when the network
    /// heals, a leader is found.
    #[test]
    fn elections_are_safe_and_end(
        logs in proptest::collection::vec((-1i64..4, 0i64..3), 1..=5),
        acts in acts(),
    ) {
        let logs: Vec<_> = logs.into_iter().map(|(i, t)| if i < 0 { (-1, -1) } else { (i, t) }).collect();
        let mut group = Group::new(&logs);
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

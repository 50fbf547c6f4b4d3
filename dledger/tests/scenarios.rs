//! Runs the scripts in `tests/scenarios/*.txt` against the raft core.
//!
//! A script is a list of inputs, each followed by the effects that it must have, as lines that begin with `>`:
//!
//! ```text
//! # Why this script exists.
//! member 0 of 3 term=4 vote=1 end=10/4 committed=10
//! time 0
//! > send 1 vote round=1 term=4 end=10/4
//! ```
//!
//! With `REWRITE=1` in the environment the expected lines are written anew; review them as a diff.

use std::fmt::Write as _;
use std::path::Path;

use dledger::raft::message::{Code, HeartbeatAnswer, Peer, VoteAnswer, VoteRequest, VoteResult};
use dledger::raft::{
    Abstain, Acknowledge, Answer, Call, Config, Core, Effect, Effects, HardState, Input, LogState,
    RequestId,
};

/// `word word key=value …`
struct Line<'a> {
    words: Vec<&'a str>,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Line<'a> {
        let (mut words, mut pairs) = (Vec::new(), Vec::new());
        for token in text.split_whitespace() {
            match token.split_once('=') {
                Some(pair) => pairs.push(pair),
                None => words.push(token),
            }
        }
        Line { words, pairs }
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.text(key).map(|v| {
            v.parse()
                .unwrap_or_else(|_| panic!("{key}={v} is no number"))
        })
    }

    /// `end=10/4`: index and term.
    fn end(&self, key: &str) -> Option<(i64, i64)> {
        let (index, term) = self.text(key)?.split_once('/').expect("index/term");
        Some((index.parse().expect("index"), term.parse().expect("term")))
    }

    fn word(&self, place: usize) -> &'a str {
        self.words
            .get(place)
            .unwrap_or_else(|| panic!("a word is missing at place {place}"))
    }

    /// A member number, or `x` for a sender that is not in the list.
    fn peer(&self, place: usize) -> Option<Peer> {
        self.word(place).parse().ok().map(Peer)
    }
}

fn start(line: &Line<'_>) -> Core {
    let me = line.peer(1).expect("own number");
    let mut config = Config::new(line.word(3).parse().expect("members"), me);
    config.seed = line.number("seed").unwrap_or(1) as u64;
    config.pending_max = line.number("pending").unwrap_or(config.pending_max);
    if line.text("class") == Some("S") {
        config.acknowledge = Acknowledge::Synced;
    }
    config.abstain = match line.text("abstain") {
        None => Abstain::No,
        Some("while-empty") => Abstain::WhileEmpty,
        Some(index) => Abstain::Until(index.parse().expect("index")),
    };
    let (end_index, end_term) = line.end("end").unwrap_or((-1, -1));
    let committed = line.number("committed").unwrap_or(-1);
    let synced = line.number("synced").unwrap_or(end_index);
    let vote = line.number("vote").map(|v| Peer(v as u8));
    let hard = HardState {
        term: line.number("term").unwrap_or(0),
        vote,
    };
    Core::new(
        config,
        hard,
        LogState {
            end_index,
            end_term,
            committed,
            synced,
        },
        line.number("now").unwrap_or(0),
    )
}

fn code(name: &str) -> Code {
    match name {
        "SUCCESS" => Code::Success,
        "UNKNOWN_MEMBER" => Code::UnknownMember,
        "UNEXPECTED_MEMBER" => Code::UnexpectedMember,
        "EXPIRED_TERM" => Code::ExpiredTerm,
        "INCONSISTENT_LEADER" => Code::InconsistentLeader,
        "TERM_NOT_READY" => Code::TermNotReady,
        "UNKNOWN" => Code::Unknown,
        other => panic!("unknown code {other}"),
    }
}

fn input(line: &Line<'_>) -> Input {
    let id = RequestId(line.number("id").unwrap_or(1) as u64);
    let term = line.number("term").unwrap_or(-1);
    match line.word(0) {
        "time" => Input::Time(line.word(1).parse().expect("milliseconds")),
        "appended" => Input::Appended {
            index: line.word(1).parse().expect("index"),
        },
        "synced" => Input::Synced {
            index: line.word(1).parse().expect("index"),
        },
        "stored" => {
            let (end_index, end_term) = line.end("end").expect("end");
            Input::Stored {
                end_index,
                end_term,
            }
        }
        "ack" => Input::Acknowledged {
            from: line.peer(1).expect("peer"),
            term,
            index: line.number("index").expect("index"),
        },
        "poisoned" => Input::Poisoned,
        "vote" => {
            let (end_index, end_term) = line.end("end").unwrap_or((-1, -1));
            Input::Vote {
                id,
                from: line.peer(1),
                request: VoteRequest {
                    term,
                    end_index,
                    end_term,
                },
            }
        }
        "heartbeat" => Input::Heartbeat {
            id,
            from: line.peer(1),
            term,
        },
        "vote-answer" => {
            let answer = (line.word(2) != "failed").then(|| VoteAnswer {
                result: VoteResult::from_name(line.word(2)),
                term,
            });
            let round = line.number("round").expect("round") as u64;
            Input::VoteAnswered {
                from: line.peer(1).expect("peer"),
                round,
                answer,
            }
        }
        "heartbeat-answer" => {
            let theirs = line.number("theirs").unwrap_or(-1);
            let answer = (line.word(2) != "failed").then(|| HeartbeatAnswer {
                code: code(line.word(2)),
                term: theirs,
            });
            let sent_at = line.number("sent").expect("sent");
            Input::HeartbeatAnswered {
                from: line.peer(1).expect("peer"),
                term,
                sent_at,
                answer,
            }
        }
        other => panic!("unknown input {other}"),
    }
}

fn show_peer(peer: Option<Peer>) -> String {
    peer.map_or_else(|| "none".to_owned(), |p| p.0.to_string())
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Persist(hard) => {
            format!("persist term={} vote={}", hard.term, show_peer(hard.vote))
        }
        Effect::Send {
            to,
            call: Call::Vote { round, request },
        } => {
            let VoteRequest {
                term,
                end_index,
                end_term,
            } = request;
            format!(
                "send {} vote round={round} term={term} end={end_index}/{end_term}",
                to.0
            )
        }
        Effect::Send {
            to,
            call: Call::Heartbeat { term, sent_at },
        } => {
            format!("send {} heartbeat term={term} sent={sent_at}", to.0)
        }
        Effect::Reply {
            id,
            answer: Answer::Vote(VoteAnswer { result, term }),
        } => {
            format!("reply {} {} term={term}", id.0, result.name())
        }
        Effect::Reply {
            id,
            answer: Answer::Heartbeat(HeartbeatAnswer { code, term }),
        } => {
            format!("reply {} {code:?} term={term}", id.0)
        }
        Effect::Role { role, term, leader } => {
            format!("role {role:?} term={term} leader={}", show_peer(*leader))
        }
        Effect::AppendNoOp { term } => format!("append-no-op term={term}"),
        Effect::Commit { index } => format!("commit {index}"),
    }
}

/// What the script should read, given its inputs and comments.
fn run(script: &str) -> String {
    let mut written = String::new();
    let mut core: Option<Core> = None;
    let mut effects = Effects::new();
    for text in script
        .lines()
        .map(str::trim_end)
        .filter(|l| !l.starts_with('>'))
    {
        let _ = writeln!(written, "{text}");
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let line = Line::parse(text);
        match (line.word(0), &mut core) {
            ("member", core) => *core = Some(start(&line)),
            (_, None) => panic!("a script begins with a member"),
            ("show", Some(core)) => {
                let (log, hard) = (core.log(), core.hard_state());
                let _ = writeln!(
                    written,
                    "> {:?} term={} vote={} leader={} end={}/{} committed={} synced={} due={:?} append={:?}",
                    core.role(),
                    hard.term,
                    show_peer(hard.vote),
                    show_peer(core.leader()),
                    log.end_index,
                    log.end_term,
                    log.committed,
                    log.synced,
                    core.next_deadline(),
                    core.may_append(),
                );
            }
            (_, Some(core)) => {
                core.step(input(&line), &mut effects);
                for effect in effects.drain() {
                    let _ = writeln!(written, "> {}", show(&effect));
                }
            }
        }
    }
    written
}

#[test]
fn scripts_have_the_effects_that_they_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let rewrite = std::env::var_os("REWRITE").is_some();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the scenarios folder") {
        let path = entry.expect("a folder entry").path();
        let script = std::fs::read_to_string(&path).expect("a readable script");
        count += 1;
        let written = run(&script);
        if written == script {
            continue;
        }
        if rewrite {
            std::fs::write(&path, &written).expect("a writable script");
        } else {
            let at = written
                .lines()
                .zip(script.lines())
                .position(|(w, s)| w != s)
                .unwrap_or(0);
            let pick = |text: &str| text.lines().nth(at).unwrap_or("<end>").to_owned();
            wrong.push(format!(
                "{}:{}: expected {:?}, got {:?}",
                path.display(),
                at + 1,
                pick(&script),
                pick(&written)
            ));
        }
    }
    assert!(count > 0, "no scripts in {}", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

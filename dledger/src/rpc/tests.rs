use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::raft::message::{HeartbeatAnswer, VoteAnswer, VoteRequest, VoteResult};

/// Decodes and encodes again; the text must be the same.
fn same<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let body: T = decode(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(String::from_utf8(encode(&body)).unwrap(), text);
    body
}

fn same_push(text: &str) -> PushBody {
    let mut body: PushBody = decode(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"));
    body.derive();
    assert_eq!(String::from_utf8(encode(&body)).unwrap(), text);
    body
}

#[test]
fn votes_and_heartbeats_are_written_as_java_does() {
    let text = r#"{"code":200,"group":"g","leaderId":"n1","ledgerEndIndex":-1,"ledgerEndTerm":-1,"localId":"n1","remoteId":"n0","term":0}"#;
    let request = VoteRequest {
        term: 0,
        end_index: -1,
        end_term: -1,
    };
    let body = same::<VoteBody>(text);
    assert_eq!(body, VoteBody::new("g", "n1", "n0", &request));
    assert_eq!(body.request(), request);

    let text = r#"{"code":200,"group":"broker-a","leaderId":"n0","localId":"n0","remoteId":"n2","term":0,"voteResult":"REJECT_ALREADY_VOTED"}"#;
    let answer = VoteAnswer {
        result: VoteResult::RejectAlreadyVoted,
        term: 0,
    };
    assert_eq!(same::<VoteAnswerBody>(text).answer(), answer);
    let asked = VoteBody::new("broker-a", "n0", "n2", &request);
    assert_eq!(
        String::from_utf8(encode(&asked.answer(&answer))).unwrap(),
        text
    );

    let text = r#"{"code":200,"group":"broker-a","leaderId":"n2","localId":"n2","remoteId":"n0","term":1}"#;
    assert_eq!(
        same::<BaseBody>(text),
        BaseBody::heartbeat("broker-a", "n2", "n0", 1)
    );
    let success = HeartbeatAnswer {
        code: Code::Success,
        term: -1,
    };
    let text = r#"{"code":200,"term":-1}"#;
    assert_eq!(same::<BaseBody>(text), BaseBody::heartbeat_answer(&success));
    assert_eq!(same::<BaseBody>(text).as_heartbeat_answer(), success);
}

#[test]
fn reads_what_java_reads() {
    let answer = |text: &str| {
        decode::<VoteAnswerBody>(text.as_bytes())
            .unwrap()
            .answer()
            .result
    };
    assert_eq!(answer(r#"{"voteResult":1}"#), VoteResult::Accept);
    assert_eq!(
        answer(r#"{"voteResult":"NO_SUCH_RESULT"}"#),
        VoteResult::Unknown
    );
    assert_eq!(answer(r#"{"voteResult":99}"#), VoteResult::Unknown);
    assert_eq!(
        answer(r#"{"voteResult":null,"unknown":{"a":[1]}}"#),
        VoteResult::Unknown
    );
    let body: VoteBody = decode(b"{}").unwrap();
    assert_eq!(
        (body.code, body.term, body.ledger_end_index, body.leader_id),
        (200, -1, -1, None)
    );
    let push: PushBody =
        decode(br#"{"type":"COMMIT","batch":true,"count":"x","commitIndex":3}"#).unwrap();
    assert_eq!(
        (push.push_type, push.commit_index, push.entries().len()),
        (PushType::Commit, 3, 0)
    );
    assert!(decode::<PushBody>(b"not json").is_err());
    assert!(decode::<EntryBody>(br#"{"body":"***"}"#).is_err());
}

#[test]
fn pushes_are_written_as_java_does() {
    let text = r#"{"batch":false,"batchEntry":[],"code":200,"commitIndex":24,"count":0,"firstEntryIndex":-1,"group":"broker-a","lastEntryIndex":-1,"leaderId":"n1","localId":"n1","remoteId":"n0","term":1,"totalSize":0,"type":"COMMIT"}"#;
    let body = same_push(text);
    assert_eq!(
        body,
        PushBody::new("broker-a", "n1", "n0", 1, PushType::Commit, 24, Vec::new())
    );

    let entry = r#"{"body":"AQID","bodyCrc":0,"chainCrc":0,"channel":0,"index":2,"magic":1,"pos":1234,"size":51,"term":3}"#;
    let text = format!(
        r#"{{"batch":false,"batchEntry":[],"code":200,"commitIndex":-1,"count":1,"entry":{entry},"firstEntryIndex":2,"group":"g","lastEntryIndex":2,"leaderId":"n1","localId":"n1","remoteId":"n0","term":0,"totalSize":0,"type":"COMPARE"}}"#
    );
    let body = same_push(&text);
    let carried = body.entries()[0].entry();
    assert_eq!(
        (carried.body.as_ref(), carried.size, carried.pos),
        (&[1u8, 2, 3][..], 51, 1234)
    );
    assert_eq!(EntryBody::new(&carried), body.entries()[0]);
    assert!(body.entries()[0].has_lasting_magic());

    // R20: without a count the index is the last one.
    let answer = |text: &str| same::<PushAnswerBody>(text).acknowledged_to();
    assert_eq!(
        answer(
            r#"{"beginIndex":0,"code":200,"count":3,"endIndex":9,"group":"g","index":7,"term":3}"#
        ),
        Some(9)
    );
    assert_eq!(
        answer(
            r#"{"beginIndex":0,"code":200,"count":0,"endIndex":7,"group":"g","index":7,"term":3}"#
        ),
        Some(7)
    );
    assert_eq!(
        answer(r#"{"beginIndex":0,"code":200,"count":0,"endIndex":24,"group":"g","term":1}"#),
        None
    );
}

#[test]
fn the_addressee_is_checked_before_the_group() {
    assert_eq!(check_addressee(Some("g"), Some("n0"), "g", "n0"), Ok(()));
    assert_eq!(check_addressee(Some("x"), Some("n1"), "g", "n0"), Err(401));
    assert_eq!(check_addressee(None, Some("n0"), "g", "n0"), Err(400));
    assert_eq!(check_addressee(Some("g"), None, "g", "n0"), Err(401));
}

/// Recorded member-to-member traffic of stock brokers: every body comes out as it went in.
#[test]
fn recorded_traffic_round_trips() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/traces"));
    let files = std::fs::read_dir(&folder).expect("the recordings");
    let mut seen = std::collections::BTreeMap::<(i64, bool), usize>::new();
    for path in files.flatten().map(|f| f.path()) {
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default()
            .to_owned();
        if !name.starts_with("dledger-") || !name.ends_with(".jsonl.gz") {
            continue;
        }
        let lines = BufReader::new(flate2::read::GzDecoder::new(File::open(&path).unwrap()));
        for line in lines.lines() {
            let frame: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            // What an operator wrote by hand has blanks and other members.
            let by_hand = frame["via"]
                .as_str()
                .is_none_or(|via| via.starts_with("operator"));
            let Some(body) = frame["body"].as_str().filter(|_| !by_hand) else {
                continue;
            };
            // The brokers' own requests are there too, and some of their bodies are no text.
            let text = String::from_utf8(STANDARD.decode(body).unwrap()).unwrap_or_default();
            let answer = frame["dir"] == "s2c";
            let code = if answer {
                &frame["req"]
            } else {
                &frame["code"]
            };
            let code = code.as_i64().unwrap_or_default();
            if round_trip(code, answer, &text) {
                *seen.entry((code, answer)).or_default() += 1;
            }
        }
    }
    for wanted in [
        (51001, false),
        (51001, true),
        (51002, false),
        (51002, true),
        (51004, false),
        (51004, true),
    ] {
        assert!(
            seen.contains_key(&wanted),
            "{wanted:?} is in no recording: {seen:?}"
        );
    }
}

fn round_trip(code: i64, answer: bool, text: &str) -> bool {
    match (i32::try_from(code).unwrap_or_default(), answer) {
        (request_code::VOTE, false) => drop(same::<VoteBody>(text)),
        (request_code::VOTE, true) => drop(same::<VoteAnswerBody>(text)),
        (request_code::HEART_BEAT, _) => drop(same::<BaseBody>(text)),
        (request_code::PUSH, false) => drop(same_push(text)),
        (request_code::PUSH, true) => drop(same::<PushAnswerBody>(text)),
        (request_code::LEADERSHIP_TRANSFER, false) => drop(same::<TransferBody>(text)),
        (request_code::LEADERSHIP_TRANSFER, true) => drop(same::<BaseBody>(text)),
        (request_code::METADATA, true) => drop(same::<MetadataAnswerBody>(text)),
        (request_code::GET, true) => drop(same::<GetAnswerBody>(text)),
        _ => return false,
    }
    true
}

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::body::{ConsumerOffsetTable, MessageQueue, ResetOffsetBody, TopicConfig};

fn read(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn bare_and_quoted_keys_read_alike() {
    let bare: ConsumerOffsetTable = from_slice(br#"{"offsetTable":{"t@g":{0:5,1:7}}}"#).unwrap();
    let quoted: ConsumerOffsetTable =
        from_slice(br#"{"offsetTable":{"t@g":{"0":5,"1":7}}}"#).unwrap();
    assert_eq!(bare, quoted);
    assert_eq!(bare.offset_table["t@g"], BTreeMap::from([(0, 5), (1, 7)]));
}

#[test]
fn object_keys_read_and_write() {
    let text = r#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5,{"brokerName":"broker-a","queueId":1,"topic":"T"}:6}}"#;
    let body: ResetOffsetBody = from_slice(text.as_bytes()).unwrap();
    assert_eq!(body.offset_table[&MessageQueue::new("T", "broker-a", 1)], 6);
    assert_eq!(to_string(&body).unwrap(), text);
    // A key that is a text holding the object.
    let quoted: ResetOffsetBody = from_slice(&to_vec_standard(&body).unwrap()).unwrap();
    assert_eq!(quoted, body);
}

#[test]
fn tolerances() {
    assert_eq!(
        read("{a:1,'b':'x',\"c\":[1,,2,],}"),
        json!({"a":1,"b":"x","c":[1,2]})
    );
    assert_eq!(read(" /* c */ {\"a\" : null } // end"), json!({"a":null}));
    assert_eq!(read("{\"a\":1,\"a\":2}"), json!({"a":2}));
    assert_eq!(
        read("[1L,2.5,-3,1e3,true,undefined,18446744073709551615]"),
        json!([1, 2.5, -3, 1000.0, true, null, u64::MAX])
    );
    assert_eq!(
        read(r#""\u0041\x41\n\/\'\u00e9\ud83d\ude00\ud800""#),
        json!("AA\n/'é😀?")
    );
    assert_eq!(read("\u{feff}{}"), json!({}));
    assert_eq!(read("{\"s\":Set[1,2]}"), json!({"s":[1,2]}));
}

#[test]
fn refusals() {
    for bad in [
        "",
        "{",
        "[",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "\"x",
        "{1}",
        "[1 2]",
        "{} x",
        "word",
        "\"\\q\"",
        "/*",
        "{{}:",
        "\"\\u12\"",
    ] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(parse(b"\"\xff\"").is_err());
    let deep = "[".repeat(65) + &"]".repeat(65);
    assert!(
        parse(deep.as_bytes())
            .unwrap_err()
            .to_string()
            .contains("too deeply")
    );
    let keys = "{".repeat(100_000);
    assert!(parse(keys.as_bytes()).is_err());
    let limits = ParseLimits {
        len_max: 3,
        ..ParseLimits::default()
    };
    assert!(parse_with(b"1234", limits).is_err());
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Default)]
#[serde(default)]
struct Sample {
    list: Vec<i64>,
    map: BTreeMap<i32, Option<String>>,
    none: Option<i32>,
    number: f64,
    text: String,
}

#[test]
fn prints_as_fastjson() {
    let sample = Sample {
        list: vec![1, 2],
        map: BTreeMap::from([
            (0, None),
            (1, Some("a".to_owned())),
            (2, None),
            (3, Some("b".to_owned())),
        ]),
        none: None,
        number: 0.0,
        text: "q\"b\\n\n\u{1}é\u{85}\u{2028}/\u{7f}".to_owned(),
    };
    let text = to_string(&sample).unwrap();
    assert_eq!(
        text,
        "{\"list\":[1,2],\"map\":{1:\"a\",3:\"b\"},\"number\":0.0,\
         \"text\":\"q\\\"b\\\\n\\n\\u0001é\\u0085\\u2028/\\u007F\"}"
    );
    let standard = to_vec_standard(&sample).unwrap();
    let plain: Value = serde_json::from_slice(&standard).unwrap();
    assert_eq!(plain["map"], json!({"1":"a","3":"b"}));
    assert!(standard.is_ascii());
    let pretty = String::from_utf8(
        to_vec_pretty(&BTreeMap::from([("a", json!({})), ("b", json!([]))])).unwrap(),
    )
    .unwrap();
    assert_eq!(pretty, "{\n\t\"a\":{},\n\t\"b\":[]\n}");
}

#[test]
fn pretty_config_files_are_javas_bytes() {
    let offsets = "{\n\t\"offsetTable\":{\n\t\t\"FixEvents@G\":{0:245,1:337\n\t\t},\n\t\t\"FixSingle@O\":{0:60\n\t\t}\n\t}\n}";
    let table: ConsumerOffsetTable = from_slice(offsets.as_bytes()).unwrap();
    assert_eq!(
        String::from_utf8(to_vec_pretty(&table).unwrap()).unwrap(),
        offsets
    );
    let topic = "{\n\t\"order\":false,\n\t\"perm\":6,\n\t\"readQueueNums\":4,\n\t\"topicFilterType\":\"SINGLE_TAG\",\n\t\
                 \"topicName\":\"FixOrders\",\n\t\"topicSysFlag\":0,\n\t\"writeQueueNums\":4\n}";
    let config: TopicConfig = from_slice(topic.as_bytes()).unwrap();
    assert_eq!(
        String::from_utf8(to_vec_pretty(&config).unwrap()).unwrap(),
        topic
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|v| Value::from(f64::from(v) / 4.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn round_trip(value in any_value()) {
        for text in [to_vec(&value).unwrap(), to_vec_pretty(&value).unwrap(), to_vec_standard(&value).unwrap()] {
            prop_assert_eq!(&parse(&text).unwrap(), &value);
            // What we write for plain values is also plain JSON.
            prop_assert_eq!(&serde_json::from_slice::<Value>(&text).unwrap(), &value);
        }
    }

    #[test]
    fn plain_json_reads_the_same(value in any_value()) {
        prop_assert_eq!(&parse(value.to_string().as_bytes()).unwrap(), &value);
    }

    #[test]
    fn any_bytes_end(text in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&text);
    }

    #[test]
    fn any_json_like_text_ends(text in "[\\{\\}\\[\\]:,\"'a0\\\\u/ *-]{0,60}") {
        if let Ok(value) = parse(text.as_bytes()) {
            prop_assert_eq!(&parse(&to_vec(&value).unwrap()).unwrap(), &value);
        }
    }
}

use super::*;
use proptest::prelude::*;

fn map(text: &str) -> Map {
    match parse(text.as_bytes()) {
        Ok(Node::Map(map)) => map,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn both_forms_of_integer_keys_are_read() {
    for text in [
        "{\"offsetTable\":{\"t@g\":{0:5,1:7}}}",
        "{ offsetTable : {'t@g':{\"0\":5 , \"1\":7,},},}\r\n",
    ] {
        let table = map(text);
        let offsets = table
            .get("offsetTable")
            .and_then(Node::as_map)
            .and_then(|t| t.get("t@g"))
            .and_then(Node::as_map);
        let offsets: Vec<_> = offsets
            .unwrap()
            .iter()
            .map(|(k, v)| (k.to_string(), v.as_i64().unwrap()))
            .collect();
        assert_eq!(offsets, [("0".into(), 5), ("1".into(), 7)]);
    }
}

#[test]
fn javas_files_come_back_byte_for_byte() {
    let offsets = "{\n\t\"dataVersion\":{\n\t\t\"counter\":1\n\t},\n\t\"groupTopicMap\":{\n\t\t\"g\":[\"a\",\"%RETRY%g\"]\n\t},\n\t\"offsetTable\":{\n\t\t\"a@g\":{0:270,1:272\n\t\t},\n\t\t\"b@g\":{0:0\n\t\t}\n\t}\n}";
    assert_eq!(pretty(&map(offsets)), offsets);
    let empty = "{\n\t\"filterDataByTopic\":{}\n}";
    assert_eq!(pretty(&map(empty)), empty);
    let line = "{\"offsetTable\":{1:28,2:25,3:24}}";
    assert_eq!(compact(&map(line)), line);
}

#[test]
fn strings_are_escaped_as_fastjson_does() {
    let text = "a\"\\/\n\u{1}\u{7f}ä😀\u{2028}";
    let written = compact(&Map::new().with("k", text));
    assert_eq!(written, "{\"k\":\"a\\\"\\\\/\\n\\u0001\\u007Fä😀\\u2028\"}");
    assert_eq!(map(&written).str("k"), Some(text));
    assert_eq!(
        map("{'k':'\\ud83d\\ude00\\u00e4\\ud800'}").str("k"),
        Some("😀ä\u{fffd}")
    );
}

#[test]
fn broken_texts_are_refused_with_the_place() {
    for text in [
        "",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":\"x",
        "{\"a\":1}x",
        "{\"a\":nan}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\ä\"}",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(parse(b"{\"a\":\xff}").unwrap_err().position, 5);
    let deep = "[".repeat(10_000);
    assert_eq!(
        parse(deep.as_bytes()).unwrap_err().problem,
        "nested too deeply"
    );
}

#[test]
fn members_keep_their_place() {
    let mut bean = map("{\"b\":1,\"d\":2}");
    bean.set_member("c", 3.into());
    bean.set_member("b", 4.into());
    assert_eq!(compact(&bean), "{\"b\":4,\"c\":3,\"d\":2}");
    assert_eq!(bean.remove("b"), Some(Node::from(4)));
    assert_eq!(bean.len(), 2);
}

fn any_node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        Just(Node::Null),
        any::<bool>().prop_map(Node::Bool),
        any::<i64>().prop_map(Node::from),
        any::<String>().prop_map(Node::Text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Node::List),
            proptest::collection::vec((any::<String>(), inner.clone()), 0..4).prop_map(|entries| {
                let mut map = Map::new();
                entries.into_iter().for_each(|(k, v)| map.push(&k, v));
                Node::Map(map)
            }),
            proptest::collection::vec((any::<i32>(), inner), 1..4).prop_map(|entries| {
                let mut map = Map::new();
                entries
                    .into_iter()
                    .for_each(|(k, v)| map.push_integer(k.into(), v));
                Node::Map(map)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(node in any_node()) {
        let whole = Map::new().with("root", node);
        prop_assert_eq!(&map(&compact(&whole)), &whole);
        prop_assert_eq!(&map(&pretty(&whole)), &whole);
    }

    #[test]
    fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[\\{\\}\\[\\]:,\"'\\\\u0-9a-z ]{0,60}") {
        let _ = parse(&bytes);
        let _ = parse(text.as_bytes());
    }
}

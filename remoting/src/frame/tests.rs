use proptest::prelude::*;

use super::*;
use crate::codes::response_code;

fn frame_of(header: &[u8], kind: u8, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u32((4 + header.len() + body.len()) as u32);
    out.put_u32(u32::from(kind) << 24 | header.len() as u32);
    out.put_slice(header);
    out.put_slice(body);
    out
}

fn json(header: &str) -> Result<Command, FrameError> {
    let mut bytes = frame_of(header.as_bytes(), 0, b"");
    Ok(decode(&mut bytes, &Limits::default())?.expect("whole"))
}

fn binary(header: &[u8]) -> Result<Command, FrameError> {
    let mut bytes = frame_of(header, 1, b"");
    Ok(decode(&mut bytes, &Limits::default())?.expect("whole"))
}

#[test]
fn golden_send() {
    let header = r#"{"code":310,"extFields":{"a":"PG","i":"TAGS\u0001A\u0002","m":"false"},"flag":0,"language":"JAVA","opaque":5,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    let mut bytes = frame_of(header.as_bytes(), 0, b"body");
    let whole = bytes.clone();
    let command = decode(&mut bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(command.ext.get("i"), Some("TAGS\u{1}A\u{2}"));
    assert_eq!(&command.body[..], b"body");
    let mut again = BytesMut::new();
    command.encode(&mut again).unwrap();
    assert_eq!(again, whole);
}

#[test]
fn body_and_fields_are_slices_of_the_buffer() {
    let mut bytes = frame_of(
        br#"{"code":310,"extFields":{"b":"TopicA"}}"#,
        0,
        b"some body",
    );
    let memory = bytes.as_ptr_range();
    let command = decode(&mut bytes, &Limits::default()).unwrap().unwrap();
    assert!(memory.contains(&command.body.as_ptr()));
    assert!(memory.contains(&command.ext.get("b").unwrap().as_ptr()));
}

#[test]
fn cpp_quirks() {
    let command = json("{\"code\":310,\"extFields\":{\"d\":4,\"e\":0,\"k\":false,\"a\":\"g\",\"x\":null},\"flag\":0,\"language\":\"CPP\",\"opaque\":7,\"version\":333}\n").unwrap();
    assert_eq!(command.ext.require_i32("d"), Ok(4));
    assert_eq!(command.ext.get("k"), Some("false"));
    assert_eq!(command.ext.get("x"), None);
    assert_eq!(command.language, Language::Cpp);
}

#[test]
fn tolerated_headers() {
    let command = json(r#" { code : "34" , 'language':"ZIG", opaque:1.0, "flag":null, "more":{"a":[1,{"b":"}"}]},, "remark":"a\"b\\\n\u00e9\ud83d\ude00\ud800" , } "#).unwrap();
    assert_eq!(
        (command.code, command.opaque, command.flag, command.version),
        (34, 1, 0, 0)
    );
    assert_eq!(command.language, Language::Other);
    assert_eq!(command.remark(), "a\"b\\\né😀?");
    assert_eq!(json("{\"language\":9}").unwrap().language, Language::Go);
    assert_eq!(
        json("{\"language\":200}").unwrap().language,
        Language::Other
    );
    assert!(!json("{\"extFields\":null}").unwrap().ext.is_present());
    assert!(json("{\"extFields\":{}}").unwrap().ext.is_present());
    let nested = json(r#"{"extFields":{"o":{"x":1},"l":[1,2]}}"#).unwrap();
    assert_eq!(nested.ext.get("o"), Some("{\"x\":1}"));
    assert_eq!(nested.ext.get("l"), Some("[1,2]"));
}

#[test]
fn refused_headers() {
    for bad in [
        "",
        "{",
        "}",
        "[]",
        "{}x",
        "{}}",
        "{\"code\"}",
        "{\"code\":}",
        "{\"code\":1 2}",
        "{\"code\":x}",
        "{\"code\":3000000000}",
        "{\"a\":\"b",
        "{\"a\":\"\\",
        "{\"a\":\"\\u12",
        "{\"a\":\"\\uzzzz\"}",
        "{\"a\":\"\\q\"}",
        "{{}:1}",
        "{\"a\":[",
        "{\"a\":{\"b\":\"",
        "{\"a\":\"\\x4",
        "{\"extFields\":{\"a\":1}",
        "{\"extFields\":{\"a\"",
        "{:1}",
    ] {
        assert!(matches!(json(bad), Err(FrameError::Header { .. })), "{bad}");
    }
    let mut bytes = frame_of(b"{\"remark\":\"\xff\"}", 0, b"");
    assert!(decode(&mut bytes, &Limits::default()).is_err());
}

#[test]
fn bounded_nesting_and_fields() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(
        json(&deep)
            .unwrap_err()
            .to_string()
            .contains("nested too deeply")
    );
    let fields: Vec<String> = (0..2000).map(|i| format!("\"f{i}\":\"1\"")).collect();
    let many = format!("{{\"extFields\":{{{}}}}}", fields.join(","));
    assert!(
        json(&many)
            .unwrap_err()
            .to_string()
            .contains("too many fields")
    );
}

#[test]
fn binary_headers() {
    let golden = [
        &[
            0, 105, 0, 1, 0xDF, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 18, 0, 5,
        ][..],
        b"topic",
        &[0, 0, 0, 7],
        b"TrTopic",
    ]
    .concat();
    let command = binary(&golden).unwrap();
    assert_eq!(
        (command.code, command.version, command.opaque),
        (105, 479, 9)
    );
    assert_eq!(command.ext.get("topic"), Some("TrTopic"));
    let mut again = BytesMut::new();
    command.encode(&mut again).unwrap();
    assert_eq!(&again[8..], &golden[..]);
    for cut in 0..golden.len() {
        assert!(binary(&golden[..cut]).is_err(), "{cut}");
    }
    let minimum = [0u8; 21];
    assert!(!binary(&minimum).unwrap().ext.is_present());
    for (at, value) in [(13, 0xFF), (13, 0x7F), (17, 0xFF), (17, 0x7F)] {
        let mut bad = golden.clone();
        bad[at] = value;
        assert!(binary(&bad).is_err(), "{at}");
    }
}

#[test]
fn empty_texts_are_null_in_binary_and_kept_in_json() {
    let mut command = Command::request(35)
        .field("clientID", "c")
        .field("producerGroup", "");
    let mut bytes = BytesMut::new();
    command.encode(&mut bytes).unwrap();
    assert_eq!(
        decode(&mut bytes, &Limits::default())
            .unwrap()
            .unwrap()
            .ext
            .get("producerGroup"),
        Some("")
    );
    command.serialize = SerializeType::RocketMq;
    command.encode(&mut bytes).unwrap();
    let back = decode(&mut bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(back.ext.get("producerGroup"), None);
    assert_eq!(back.ext.get("clientID"), Some("c"));
}

#[test]
fn codes_beyond_16_bits_travel_in_json() {
    let mut command = Command::request(200_050);
    command.serialize = SerializeType::RocketMq;
    let mut bytes = BytesMut::new();
    command.encode(&mut bytes).unwrap();
    let back = decode(&mut bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!((back.code, back.serialize), (200_050, SerializeType::Json));
}

#[test]
fn responses_as_java_prints_them() {
    let response = Response::ok()
        .field("queueId", 0)
        .field(
            "msgId",
            FieldValue::OffsetId("127.0.0.1:22611".parse().unwrap(), 16783),
        )
        .field("TRACE_ON", true)
        .field("MSG_REGION", "DefaultRegion")
        .field("queueOffset", 18i64);
    let bytes = encode_response(&response, 2, SerializeType::Json, 479).unwrap();
    let expected = r#"{"code":0,"extFields":{"queueId":"0","msgId":"7F00000100005853000000000000418F","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"18"},"flag":1,"language":"JAVA","opaque":2,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(std::str::from_utf8(&bytes[8..]).unwrap(), expected);
    let refusal =
        encode_response(&Response::unsupported(99999), 7, SerializeType::Json, 407).unwrap();
    let expected = r#"{"code":3,"flag":1,"language":"JAVA","opaque":7,"remark":" request type 99999 not supported","serializeTypeCurrentRPC":"JSON","version":407}"#;
    assert_eq!(std::str::from_utf8(&refusal[8..]).unwrap(), expected);
    let empty = encode_response(
        &Response::code(1).with_fields(),
        7,
        SerializeType::Json,
        407,
    )
    .unwrap();
    assert!(
        std::str::from_utf8(&empty[8..])
            .unwrap()
            .contains("\"extFields\":{},")
    );
    for kind in [SerializeType::Json, SerializeType::RocketMq] {
        let body = response
            .clone()
            .body("part one, ")
            .body(Bytes::new())
            .body("part two");
        let mut bytes = BytesMut::from(&encode_response(&body, -3, kind, 409).unwrap()[..]);
        let back = decode(&mut bytes, &Limits::default()).unwrap().unwrap();
        assert!(back.is_response() && !back.is_oneway());
        assert_eq!(
            (back.opaque, back.version, &back.body[..]),
            (-3, 409, &b"part one, part two"[..])
        );
        assert_eq!(
            back.ext.get("msgId"),
            Some("7F00000100005853000000000000418F")
        );
        let relayed = Response::relay(&back);
        assert_eq!(relayed.fields.len(), 5);
    }
}

#[test]
fn junk_is_told_from_incomplete() {
    let junk = |bytes: &[u8]| decode(&mut BytesMut::from(bytes), &Limits::default());
    assert!(matches!(
        junk(b"PRI * HTTP"),
        Err(FrameError::Length(_, _, Guess::Http))
    ));
    assert!(matches!(
        junk(&[0x7f, 0xff, 0xff, 0xff]),
        Err(FrameError::Length(..))
    ));
    assert!(matches!(junk(&[0; 4]), Err(FrameError::Length(0, ..))));
    assert!(matches!(
        junk(&[0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]),
        Err(FrameError::SerializeType(0xff))
    ));
    assert!(matches!(
        junk(&[0, 0, 0, 4, 0, 0xff, 0xff, 0xff]),
        Err(FrameError::HeaderLength { .. })
    ));
    assert!(matches!(
        junk(&[0, 0, 0, 8, 0, 0, 0, 0xff, 0x7b, 0x7d, 0x7d, 0x7d]),
        Err(FrameError::HeaderLength { .. })
    ));
    assert!(matches!(
        junk(&[0, 0, 0, 8, 7, 0, 0, 2]),
        Err(FrameError::SerializeType(7))
    ));
    assert!(matches!(junk(&[0x16, 3, 1]), Err(FrameError::Tls)));
    assert!(matches!(
        junk(&[0, 0, 0, 4, 0, 0, 0, 0]),
        Err(FrameError::Header { .. })
    ));
    for incomplete in [
        &b""[..],
        &[0],
        &[0, 0, 0, 9],
        &[0, 0, 0, 9, 0, 0],
        &[0, 0, 0, 9, 0, 0, 0, 2, b'{'],
    ] {
        assert_eq!(junk(incomplete), Ok(None));
    }
    let header = br#"{"code":34,"extFields":{"a":"b"},"opaque":1}"#;
    let whole = frame_of(header, 0, b"body");
    for cut in 0..whole.len() {
        let mut part = BytesMut::from(&whole[..cut]);
        assert_eq!(decode(&mut part, &Limits::default()), Ok(None), "{cut}");
        assert_eq!(part.len(), cut);
    }
}

#[test]
fn unknown_response_codes_keep_their_number() {
    let command = json(r#"{"code":1500,"flag":1}"#).unwrap();
    assert_eq!(response_code::name(command.code), Some("GO_AWAY"));
}

fn any_command() -> impl Strategy<Value = Command> {
    let ext = proptest::option::of(proptest::collection::btree_map(
        "[a-zA-Z_\u{1}\"é]{1,9}",
        any::<String>(),
        0..20,
    ));
    let remark = proptest::option::of(any::<String>());
    let body = proptest::collection::vec(any::<u8>(), 0..300);
    (
        any::<i16>(),
        0..14i64,
        0..612i32,
        any::<i32>(),
        0..4i32,
        remark,
        ext,
        body,
    )
        .prop_map(
            |(code, language, version, opaque, flag, remark, ext, body)| Command {
                code: code.into(),
                language: Language::from_code(language),
                version,
                opaque,
                flag,
                remark,
                ext: ext.map_or_else(ExtFields::new, |map| {
                    map.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect()
                }),
                body: body.into(),
                serialize: SerializeType::Json,
            },
        )
}

proptest! {
    #[test]
    fn json_round_trip(command in any_command()) {
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes).unwrap();
        let header = std::str::from_utf8(&bytes[8..bytes.len() - command.body.len()]).unwrap();
        prop_assert!(serde_json::from_str::<serde_json::Value>(header).is_ok());
        prop_assert_eq!(decode(&mut bytes, &Limits::default()).unwrap().unwrap(), command);
        prop_assert!(bytes.is_empty());
    }

    #[test]
    fn binary_round_trip(command in any_command()) {
        let mut command = Command { serialize: SerializeType::RocketMq, ..command };
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes).unwrap();
        let back = decode(&mut bytes, &Limits::default()).unwrap().unwrap();
        // Empty texts and maps do not exist in this form.
        let kept: Vec<_> = command.ext.iter().filter(|(n, v)| !n.is_empty() && !v.is_empty()).collect();
        prop_assert!(back.ext.iter().eq(kept.iter().copied()));
        command.remark = command.remark.filter(|r| !r.is_empty());
        command.ext = back.ext.clone();
        prop_assert_eq!(back, command);
    }

    #[test]
    fn any_header_bytes(kind in 0u8..2, header in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut bytes = frame_of(&header, kind, b"");
        if let Ok(Some(command)) = decode(&mut bytes, &Limits::default()) {
            let mut again = BytesMut::new();
            command.encode(&mut again).unwrap();
        }
    }

    #[test]
    fn json_like_headers(text in "[\\{\\}\\[\\]:,\"'a0\\\\u \\x01é-]{0,80}") {
        let _ = json(&text);
        let _ = json(&format!("{{\"extFields\":{{{text}}}}}"));
    }

    #[test]
    fn any_stream(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut buf = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = decode(&mut buf, &Limits::default()) {}
    }
}

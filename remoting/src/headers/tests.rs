use super::*;
use crate::Command;

fn ext(pairs: &[(&str, &str)]) -> ExtFields {
    pairs.iter().copied().collect()
}

const V2: [(&str, &str); 8] = [
    ("a", "PG"),
    ("b", "TopicA"),
    ("c", "TBW102"),
    ("d", "4"),
    ("e", "-1"),
    ("f", "0"),
    ("g", "1700000000000"),
    ("h", "7"),
];

#[test]
fn send_headers_both_ways() {
    let header = SendMessageHeader {
        producer_group: "PG",
        topic: "TopicA",
        default_topic: "TBW102",
        default_topic_queue_nums: 4,
        queue_id: -1,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        flag: 7,
        properties: "TAGS\u{1}A\u{2}",
        reconsume_times: 2,
        unit_mode: true,
        max_reconsume_times: Some(16),
        batch: true,
        broker_name: Some("broker-a"),
    };
    let v2 = Command::with_header(310, &header);
    assert_eq!(v2.header::<SendMessageHeader<'_>>().unwrap(), header);
    let mut v1 = ExtFields::new();
    header.write_v1(&mut v1);
    assert_eq!(SendMessageHeader::try_from(&v1).unwrap(), header);
    assert_eq!(v1.get("producerGroup"), Some("PG"));
    let least =
        SendMessageHeader::try_from(&ext(&V2)).map(|h| (h.properties.len(), h.batch, h.flag));
    assert_eq!(least, Ok((0, false, 7)));
}

#[test]
fn send_header_names_what_is_wrong() {
    for missing in 0..V2.len() {
        let mut fields = V2.to_vec();
        let (name, _) = fields.remove(missing);
        let fields = ext(&fields);
        let error = SendMessageHeader::try_from(&fields).unwrap_err();
        assert!(error.field().ends_with(&format!("({name})")), "{error}");
    }
    let mut fields = V2;
    fields[4].1 = "four";
    let fields = ext(&fields);
    let error = SendMessageHeader::try_from(&fields)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the header field 'queueId (e)' is not a 32-bit integer: 'four'"
    );
}

#[test]
fn booleans_in_many_shapes() {
    for (text, value) in [
        ("true", true),
        ("TRUE", true),
        ("1", true),
        ("0", false),
        ("false", false),
        ("x", false),
    ] {
        let mut fields = V2.to_vec();
        fields.push(("m", text));
        fields.push(("k", text));
        let fields = ext(&fields);
        let header = SendMessageHeader::try_from(&fields).unwrap();
        assert_eq!((header.batch, header.unit_mode), (value, value), "{text}");
    }
}

#[test]
fn required_and_optional() {
    let fields = ext(&[
        ("consumerGroup", "G"),
        ("topic", "T"),
        ("queueId", "3"),
        ("more", "x"),
    ]);
    let header = QueryConsumerOffsetHeader::try_from(&fields).unwrap();
    assert_eq!(
        (
            header.consumer_group,
            header.queue_id,
            header.set_zero_if_not_found
        ),
        ("G", 3, None)
    );
    let fields = ext(&[("Topic", "T"), ("queueId", "3"), ("timestamp", "1")]);
    let error = SearchOffsetHeader::try_from(&fields)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the header field 'topic' is missing");
    let fields = ext(&[("topic", "T"), ("queueId", "3"), ("committed", "")]);
    assert_eq!(QueueHeader::try_from(&fields).unwrap().committed, None);
}

#[test]
fn macro_headers_round_trip() {
    let header = ResetOffsetHeader {
        topic: "T",
        group: "G",
        timestamp: -1,
        is_force: true,
        queue_id: None,
        offset: Some(5),
        ..Default::default()
    };
    let command = Command::with_header(222, &header);
    assert_eq!(command.header::<ResetOffsetHeader<'_>>().unwrap(), header);
    let names: Vec<_> = command.ext.iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["topic", "group", "timestamp", "isForce", "offset"]);
}

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

fn v4(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn v6(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port))
}

fn message<'a>(
    topic: &'a str,
    body: &'a [u8],
    properties: PropertySource<'a>,
) -> MessageToStore<'a> {
    MessageToStore {
        topic,
        queue_id: 3,
        flag: 7,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_001,
        born_host: v4(50_000),
        store_host: v4(10_911),
        reconsume_times: 2,
        prepared_offset: 99,
        body,
        properties,
    }
}

fn encode(m: &MessageToStore<'_>, queue_offset: i64, physical_offset: i64) -> Vec<u8> {
    let encoded = m.prepare().unwrap();
    let mut out = vec![0xEE; encoded.encoded_len()];
    encoded.encode_into(&mut out, queue_offset, physical_offset, 1_700_000_000_002);
    out
}

#[test]
fn crc_is_masked_and_zero_for_nothing() {
    assert_eq!(body_crc(b"hello"), 907_060_870);
    assert_eq!(body_crc(b""), 0);
}

#[test]
fn smallest_frame_is_91_bytes() {
    let m = message("T", b"", PropertySource::default());
    assert_eq!(encode(&m, 0, 0).len(), 92);
}

#[test]
fn fields_come_back() {
    let m = message("TopicTest", b"hello", PropertySource::raw(b"TAGS\x01TagA"));
    let bytes = encode(&m, 5, 4096);
    let f = FrameView::parse(&bytes).unwrap();
    assert_eq!(
        (f.topic(), f.body(), f.properties()),
        ("TopicTest", &b"hello"[..], &b"TAGS\x01TagA"[..])
    );
    assert_eq!(
        (
            f.queue_id(),
            f.flag(),
            f.queue_offset(),
            f.physical_offset()
        ),
        (3, 7, 5, 4096)
    );
    assert_eq!(
        (f.born_timestamp(), f.store_timestamp()),
        (1_700_000_000_001, 1_700_000_000_002)
    );
    assert_eq!((f.born_host(), f.store_host()), (v4(50_000), v4(10_911)));
    assert_eq!(
        (f.reconsume_times(), f.prepared_offset(), f.magic()),
        (2, 99, MAGIC_V1)
    );
    assert_eq!(f.property("TAGS"), Some("TagA"));
    f.validate(4096).unwrap();
    assert_eq!(
        f.validate(4097),
        Err(FrameError::PhysicalOffset {
            stored: 4096,
            found: 4097
        })
    );
}

#[test]
fn hosts_of_both_families_set_the_flags() {
    for (born, store, flags) in [
        (v4(1), v4(2), 0),
        (v6(1), v4(2), 0x10),
        (v4(1), v6(2), 0x20),
        (v6(1), v6(65_535), 0x30),
    ] {
        let mut m = message("T", b"x", PropertySource::default());
        (m.born_host, m.store_host, m.sys_flag) = (born, store, 0x301 | 0x30);
        let bytes = encode(&m, 1, 2);
        let f = FrameView::parse(&bytes).unwrap();
        assert_eq!(
            (f.born_host(), f.store_host(), f.sys_flag()),
            (born, store, 0x301 | flags)
        );
        f.validate(2).unwrap();
    }
}

#[test]
fn long_topics_make_v2_frames() {
    let topic = "%RETRY%".to_string() + &"g".repeat(123);
    let m = message(&topic, b"x", PropertySource::default());
    let bytes = encode(&m, 1, 2);
    let f = FrameView::parse(&bytes).unwrap();
    assert_eq!((f.magic(), f.topic()), (MAGIC_V2, topic.as_str()));
    let topic = "t".repeat(127);
    let bytes = encode(&message(&topic, b"x", PropertySource::default()), 1, 2);
    assert_eq!(FrameView::parse(&bytes).unwrap().magic(), MAGIC_V1);
}

#[test]
fn refusals() {
    let m = message("", b"", PropertySource::default());
    assert_eq!(m.prepare().unwrap_err(), EncodeError::TopicEmpty);
    let long = vec![b'p'; 32_768];
    let m = message("T", b"", PropertySource::raw(&long));
    assert_eq!(
        m.prepare().unwrap_err(),
        EncodeError::PropertiesTooLong(32_768)
    );
    let m = message("T", b"", PropertySource::raw(&long[1..]));
    assert!(m.prepare().is_ok());
}

#[test]
fn every_cut_is_seen_and_none_panics() {
    let m = message("TopicTest", b"hello", PropertySource::raw(b"A\x01b"));
    let bytes = encode(&m, 5, 4096);
    for len in 0..bytes.len() {
        assert!(FrameView::parse(&bytes[..len]).is_err(), "{len}");
    }
    let mut longer = bytes.clone();
    longer.extend_from_slice(&[1, 2, 3]);
    assert_eq!(FrameView::parse(&longer).unwrap().bytes(), &bytes[..]);
    let mut bad = bytes.clone();
    bad[88] ^= 1;
    assert!(matches!(
        FrameView::parse(&bad).unwrap().validate(4096),
        Err(FrameError::BodyCrc { .. })
    ));
    bad[4] ^= 1;
    assert!(matches!(FrameView::parse(&bad), Err(FrameError::Magic(_))));
    assert!(matches!(
        FrameView::parse(&[0; 200]),
        Err(FrameError::Magic(0))
    ));
}

#[test]
fn patches() {
    let m = message("T", b"x", PropertySource::default());
    let mut bytes = encode(&m, 0, 0);
    patch_queue_offset(&mut bytes, 77);
    patch_physical_offset(&mut bytes, 88);
    assert_eq!(bytes, encode(&m, 77, 88));
    patch_physical_offset(&mut [0; 10], 1);
}

#[test]
fn properties_are_changed_without_copies() {
    let mut p = PropertySource::raw(b"A\x011\x02WAIT\x01true\x02B\x012\x02");
    assert_eq!(p.encoded_len(), 18);
    p.remove("WAIT");
    p.set("CLUSTER", "c");
    assert_eq!(
        (p.get("A"), p.get("B"), p.get("WAIT"), p.get("CLUSTER")),
        (Some("1"), Some("2"), None, Some("c"))
    );
    let m = message("T", b"", p);
    let bytes = encode(&m, 0, 0);
    assert_eq!(
        FrameView::parse(&bytes).unwrap().properties(),
        b"A\x011\x02B\x012\x02CLUSTER\x01c"
    );

    let mut p = PropertySource::raw(b"WAIT\x01true");
    p.remove("WAIT");
    assert_eq!(p.encoded_len(), 0);
    p.add("X", "y");
    p.set("X", "z");
    assert_eq!((p.encoded_len(), p.get("X")), (3, Some("z")));

    let p = PropertySource::raw(b"UNIQ_KEY\x01own\x02A\x01b\x02UNIQ_KEY\x01batch");
    assert_eq!(p.get("UNIQ_KEY"), Some("batch"));
    assert_eq!(p.get("KEY"), None);
}

fn arb_piece() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(1u8), Just(2u8), b'a'..b'd'], 0..24)
}

proptest! {
    #[test]
    fn any_message_round_trips(
        topic in "[a-zA-Z0-9_%-]{1,200}", body in prop::collection::vec(any::<u8>(), 0..300),
        raw in arb_piece(), name in "[a-c]{1,2}", value in "[a-z]{0,5}",
        queue in any::<i32>(), flags in any::<i32>(), queue_offset in any::<i64>(), physical in any::<i64>(),
        six in any::<(bool, bool)>(),
    ) {
        let mut properties = PropertySource::raw(&raw);
        properties.set(&name, &value);
        let mut m = message(&topic, &body, properties);
        (m.queue_id, m.sys_flag) = (queue, flags);
        if six.0 { m.born_host = v6(9) }
        if six.1 { m.store_host = v6(10) }
        let bytes = encode(&m, queue_offset, physical);
        let f = FrameView::parse(&bytes).unwrap();
        f.validate(physical).unwrap();
        prop_assert_eq!(f.size(), frame_size(&bytes).unwrap());
        prop_assert_eq!((f.topic(), f.body()), (topic.as_str(), &body[..]));
        prop_assert_eq!((f.queue_id(), f.queue_offset(), f.sys_flag() & !0x30), (queue, queue_offset, flags & !0x30));
        prop_assert_eq!(f.properties().len(), m.properties.encoded_len());
        if !value.is_empty() {
            prop_assert_eq!(f.property(&name), Some(value.as_str()));
        }
    }

    #[test]
    fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), v2 in any::<bool>()) {
        let _ = FrameView::parse(&bytes);
        if bytes.len() >= 8 {
            bytes[4..8].copy_from_slice(&(if v2 { MAGIC_V2 } else { MAGIC_V1 }).to_be_bytes());
            let _ = FrameView::parse(&bytes);
        }
    }
}

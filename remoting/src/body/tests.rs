use super::*;
use crate::fastjson::{from_slice, to_string};

#[test]
fn heartbeats_of_many_clients() {
    let cpp = r#"{"clientID":"c@1","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G","messageModel":1,
        "subscriptionDataSet":[{"classFilterMode":false,"codeSet":["65"],"subString":"A","subVersion":"1795950727791","tagsSet":["A"],"topic":"T"}]}]}
"#;
    // Tag hashes as text are not sent by any client that we know, so only the rest is lenient.
    let heartbeat: HeartbeatData = from_slice(cpp.replace("\"65\"", "65").as_bytes()).unwrap();
    let consumer = &heartbeat.consumer_data_set[0];
    assert_eq!(consumer.consume_type, ConsumeType::Passively);
    assert_eq!(consumer.message_model, MessageModel::Clustering);
    assert_eq!(consumer.consume_from_where, ConsumeFromWhere::FirstOffset);
    assert_eq!(
        consumer.subscription_data_set[0].sub_version,
        1_795_950_727_791
    );
    assert_eq!(
        consumer.subscription_data_set[0].expression_type.as_deref(),
        Some("TAG")
    );
    assert!(heartbeat.producer_data_set.is_empty());
}

#[test]
fn unknown_words_cost_the_entry_only() {
    for (word, expected) in [
        ("\"CONSUME_PASSIVELY\"", ConsumeType::Passively),
        ("\"CONSUME_ACTIVELY\"", ConsumeType::Actively),
        ("\"PUSH\"", ConsumeType::Unknown),
        ("null", ConsumeType::Unknown),
        ("17", ConsumeType::Unknown),
        ("{}", ConsumeType::Unknown),
    ] {
        let text = format!(
            r#"{{"clientID":"c","consumerDataSet":[{{"consumeType":{word},"groupName":"A"}},{{"consumeType":"CONSUME_PASSIVELY","groupName":"B"}},{{"groupName":"C"}}]}}"#
        );
        let heartbeat: HeartbeatData = from_slice(text.as_bytes()).unwrap();
        let types: Vec<_> = heartbeat
            .consumer_data_set
            .iter()
            .map(|c| c.consume_type)
            .collect();
        assert_eq!(
            types,
            [expected, ConsumeType::Passively, ConsumeType::Unknown]
        );
    }
}

#[test]
fn unknown_members_survive() {
    let text = r#"{"order":false,"perm":6,"readQueueNums":1,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":1,"future":{"x":[1]}}"#;
    let config: TopicConfig = from_slice(text.as_bytes()).unwrap();
    assert_eq!(config.other["future"]["x"][0], 1);
    assert_eq!(to_string(&config).unwrap(), text);
    let group: SubscriptionGroupConfig = from_slice(br#"{"groupName":"G","future":1}"#).unwrap();
    assert_eq!(group.retry_max_times, 16);
    assert!(to_string(&group).unwrap().ends_with(",\"future\":1}"));
}

#[test]
fn attributes_only_where_they_were() {
    let four: TopicConfig = from_slice(br#"{"topicName":"T"}"#).unwrap();
    assert!(!to_string(&four).unwrap().contains("attributes"));
    let five: TopicConfig = from_slice(br#"{"attributes":{},"topicName":"T"}"#).unwrap();
    assert!(to_string(&five).unwrap().starts_with("{\"attributes\":{},"));
}

#[test]
fn topic_config_as_java_prints_it() {
    let text = TopicConfig::new("TrTopic", 2, 6).to_string();
    let expected = "TopicConfig [topicName=TrTopic, readQueueNums=2, writeQueueNums=2, perm=RW-, \
                    topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false]";
    assert_eq!(text, expected);
}

#[test]
fn routes_for_old_and_new_clients() {
    let route = TopicRouteData {
        broker_datas: vec![BrokerData {
            broker_addrs: [
                (0, "10.0.0.1:10911".to_owned()),
                (1, "10.0.0.2:10911".to_owned()),
            ]
            .into(),
            broker_name: "broker-a".to_owned(),
            cluster: "DefaultCluster".to_owned(),
            enable_acting_master: Some(false),
            zone_name: None,
        }],
        queue_datas: vec![QueueData {
            broker_name: "broker-a".to_owned(),
            perm: 6,
            read_queue_nums: 4,
            topic_sys_flag: 0,
            write_queue_nums: 4,
        }],
        ..TopicRouteData::default()
    };
    let old = String::from_utf8(route.encode(317, false).unwrap()).unwrap();
    let expected = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
    assert_eq!(old, expected);
    let new = String::from_utf8(route.encode(401, false).unwrap()).unwrap();
    assert_eq!(
        new,
        expected.replace("{0:", "{\"0\":").replace(",1:", ",\"1\":")
    );
    assert_eq!(route.encode(0, true).unwrap(), new.as_bytes());
    let back: TopicRouteData = from_slice(old.as_bytes()).unwrap();
    assert_eq!(back, route);
}

#[test]
fn damaged_registrations() {
    let body = RegisterBrokerBody {
        topic_config_serialize_wrapper: TopicConfigSerializeWrapper {
            topic_config_table: [("T".to_owned(), TopicConfig::new("T", 3, 6))].into(),
            ..TopicConfigSerializeWrapper::default()
        },
        ..RegisterBrokerBody::default()
    };
    let packed = body.encode_compressed().unwrap();
    let back = RegisterBrokerBody::decode_compressed(&packed).unwrap();
    assert_eq!(back, body);
    for cut in 0..packed.len() {
        assert!(
            RegisterBrokerBody::decode_compressed(&packed[..cut]).is_err(),
            "{cut}"
        );
    }
    assert!(RegisterBrokerBody::decode_compressed(b"{}").is_err());
    assert_eq!(
        RegisterBrokerBody::decode(b"").unwrap(),
        RegisterBrokerBody::default()
    );
}

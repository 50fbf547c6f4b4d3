use remoting::Language;

use super::*;

/// A channel that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::clients) struct TestChannel(pub u64);

impl Channel for TestChannel {
    fn id(&self) -> u64 {
        self.0
    }
}

pub(in crate::clients) fn member(
    client_id: &str,
    channel: u64,
    now: Instant,
) -> Member<TestChannel> {
    Member {
        client_id: client_id.into(),
        channel: TestChannel(channel),
        language: Language::Java,
        version: 407,
        seen: now,
        seen_ms: 0,
    }
}

fn manner() -> Manner {
    Manner {
        consume_type: ConsumeType::Passively,
        message_model: MessageModel::Clustering,
        consume_from_where: ConsumeFromWhere::LastOffset,
    }
}

fn subscription(topic: &str, expression: &str, version: i64) -> SubscriptionData {
    SubscriptionData {
        topic: topic.to_owned(),
        sub_string: expression.to_owned(),
        sub_version: version,
        ..SubscriptionData::default()
    }
}

fn ids(consumers: &Consumers<TestChannel>) -> Vec<String> {
    consumers
        .client_ids("G")
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn only_new_members_and_topics_are_a_change() {
    let consumers = Consumers::default();
    let now = Instant::now();
    let first = vec![subscription("T", "*", 1)];
    assert!(consumers.register("G", member("a", 1, now), manner(), first.clone()));
    assert!(!consumers.register("G", member("a", 1, now), manner(), first.clone()));
    assert!(consumers.register("G", member("b", 2, now), manner(), first.clone()));
    assert!(!consumers.register(
        "G",
        member("b", 2, now),
        manner(),
        vec![subscription("T", "x", 2)]
    ));
    let Lookup::Group {
        subscription: Some(newer),
        ..
    } = consumers.lookup("G", "T")
    else {
        panic!()
    };
    assert_eq!(newer.data.sub_version, 2);
    assert!(!newer.filter.takes_all());
    // An older version does not replace a newer one.
    assert!(!consumers.register("G", member("b", 2, now), manner(), first));
    assert!(consumers.register(
        "G",
        member("b", 2, now),
        manner(),
        vec![subscription("U", "*", 1)]
    ));
    assert!(consumers.groups_of_topic("T").is_empty());
    assert_eq!(ids(&consumers), ["a", "b"]);
}

#[test]
fn a_quick_reconnect_is_no_change() {
    let consumers = Consumers::default();
    let now = Instant::now();
    let topics = || vec![subscription("T", "*", 1)];
    consumers.register("G", member("a", 1, now), manner(), topics());
    assert!(consumers.closed(1, now));
    assert_eq!(ids(&consumers), ["a"]);
    assert!(!consumers.register("G", member("a", 2, now), manner(), topics()));
    assert!(consumers.departed(now + RETURNS_WITHIN).is_empty());
    assert_eq!(ids(&consumers), ["a"]);
}

#[test]
fn who_does_not_come_back_has_left() {
    let consumers = Consumers::default();
    let now = Instant::now();
    consumers.register("G", member("a", 1, now), manner(), vec![]);
    consumers.register("G", member("b", 2, now), manner(), vec![]);
    assert!(consumers.closed(1, now));
    assert!(consumers.departed(now).is_empty());
    assert_eq!(consumers.departed(now + RETURNS_WITHIN), ["G"]);
    assert_eq!(ids(&consumers), ["b"]);
    assert!(consumers.unregister("G", 2));
    assert!(matches!(consumers.lookup("G", "T"), Lookup::NoGroup));
}

#[test]
fn a_second_connection_of_a_client_keeps_it_a_member() {
    let consumers = Consumers::default();
    let now = Instant::now();
    consumers.register("G", member("a", 1, now), manner(), vec![]);
    consumers.register("G", member("a", 2, now), manner(), vec![]);
    assert_eq!(ids(&consumers), ["a"]);
    assert!(!consumers.closed(1, now));
    assert!(!consumers.unregister("G", 1));
    assert!(consumers.unregister("G", 2));
}

#[test]
fn silent_members_expire() {
    let consumers = Consumers::default();
    let now = Instant::now();
    consumers.register("G", member("a", 1, now), manner(), vec![]);
    let later = now + CLIENT_EXPIRES_AFTER + Duration::from_millis(1);
    assert_eq!(
        consumers.expire(later),
        (vec![TestChannel(1)], vec!["G".to_owned()])
    );
    assert!(consumers.view("G").is_none());
}

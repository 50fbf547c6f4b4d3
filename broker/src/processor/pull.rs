//! Pulls: 11, and 361 of lite pull consumers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remoting::body::MessageModel;
use remoting::headers::PullMessageHeader;
use remoting::{Command, Connection, Reply, Response, response_code};

use super::client::filter_of_request;
use super::{FAQ, Refusal};
use crate::clients::consumers::Lookup;
use crate::config::BrokerConfig;
use crate::filter::{SQL92_NOT_SUPPORTED, TagFilter, is_tag_type};
use crate::hold::Wanted;
use crate::service::Broker;
use crate::stats::GetCount;
use crate::store::{Fetched, GetLimits, GetRequest, GetStatus};

/// The request carries an offset to commit.
const FLAG_COMMIT_OFFSET: i32 = 1;
/// The request may be held.
const FLAG_SUSPEND: i32 = 2;
/// The request carries its subscription.
const FLAG_SUBSCRIPTION: i32 = 4;
/// Class filters, which no version serves any more, take everything.
const FLAG_CLASS_FILTER: i32 = 8;

/// No pull is held longer, whatever it asks for.
const HOLD_MAX: Duration = Duration::from_secs(120);

/// Messages further than this from the end of the log may have left the page cache: they are read on
/// a blocking thread, so that a disk that is slow holds up nobody else.
const WARM_BYTES: i64 = 256 << 20;

/// The dispatcher follows the commit within a moment; a pull waits for it no longer than this.
const DISPATCH_TIME: Duration = Duration::from_secs(1);

/// A pull that was checked, ready to be executed, more than once if it is held.
#[derive(Debug)]
pub struct HeldPull {
    conn: Arc<Connection>,
    reply: Reply,
    group: Arc<str>,
    topic: Arc<str>,
    queue_id: i32,
    offset: i64,
    max_messages: usize,
    max_bytes: Option<usize>,
    filter: Arc<TagFilter>,
    /// How long it may still be held; `None`: answer now.
    suspend: Option<Duration>,
    /// It has waited once for what was stored before it came.
    caught_up: bool,
}

/// Answers a pull, now or later.
pub(super) fn handle(broker: &Arc<Broker>, conn: &Arc<Connection>, request: Command, reply: Reply) {
    let header: PullMessageHeader<'_> = match request.header() {
        Ok(header) => header,
        Err(error) => return reply.send(error.into()),
    };
    match check(broker, conn, &header) {
        Err(refusal) => reply.send(Response::from(refusal).with_fields()),
        Ok(filter) => {
            commit_offset(broker, &header);
            execute(broker, HeldPull::new(broker, conn, &header, filter, reply));
        }
    }
}

fn unknown_group(group: &str) -> Refusal {
    Refusal::new(
        response_code::SUBSCRIPTION_GROUP_NOT_EXIST,
        format!("subscription group [{group}] does not exist, {FAQ}"),
    )
}

/// The checks before the store is asked, in Java's order; gives the filter.
fn check(
    broker: &Broker,
    conn: &Connection,
    header: &PullMessageHeader<'_>,
) -> Result<Arc<TagFilter>, Refusal> {
    let (group, topic) = (header.consumer_group, header.topic);
    let no_permission = |remark: String| Refusal::new(response_code::NO_PERMISSION, remark);
    if !broker.is_readable() {
        return Err(no_permission(format!(
            "the broker[{}] pulling message is forbidden",
            broker.host_name()
        )));
    }
    super::client::check_group_name(group)?;
    let config = broker.group(group).ok_or_else(|| unknown_group(group))?;
    if !config.consume_enable {
        return Err(no_permission(format!(
            "subscription group no permission, {group}"
        )));
    }
    let Some(topic_config) = broker.topics.get(topic) else {
        return Err(Refusal::new(
            response_code::TOPIC_NOT_EXIST,
            format!("topic[{topic}] not exist, apply first please! {FAQ}"),
        ));
    };
    if !topic_config.is_readable() {
        return Err(no_permission(format!(
            "the topic[{topic}] pulling message is forbidden"
        )));
    }
    let (queue_id, queues) = (header.queue_id, topic_config.read_queues);
    if queue_id < 0 || queue_id >= queues {
        return Err(Refusal::error(format!(
            "queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{queues}] consumer:[/{}]",
            conn.peer()
        )));
    }
    if header.sys_flag & FLAG_SUBSCRIPTION != 0 {
        return filter_in_request(header);
    }
    filter_of_heartbeat(broker, header, config.consume_broadcast_enable)
}

fn filter_in_request(header: &PullMessageHeader<'_>) -> Result<Arc<TagFilter>, Refusal> {
    if !is_tag_type(header.expression_type) {
        return Err(Refusal::error(SQL92_NOT_SUPPORTED));
    }
    if header.sys_flag & FLAG_CLASS_FILTER != 0 {
        return Ok(Arc::new(TagFilter::all()));
    }
    filter_of_request(header.subscription).map(Arc::new)
}

fn filter_of_heartbeat(
    broker: &Broker,
    header: &PullMessageHeader<'_>,
    broadcast_enabled: bool,
) -> Result<Arc<TagFilter>, Refusal> {
    let missing = |what: &str| {
        Refusal::new(
            response_code::SUBSCRIPTION_NOT_EXIST,
            format!("the consumer's {what} not exist{FAQ}"),
        )
    };
    let Lookup::Group {
        manner,
        subscription,
    } = broker.consumers.lookup(header.consumer_group, header.topic)
    else {
        return Err(missing("group info"));
    };
    if !broadcast_enabled && manner.message_model == MessageModel::Broadcasting {
        return Err(Refusal::new(
            response_code::NO_PERMISSION,
            format!(
                "the consumer group[{}] can not consume by broadcast way",
                header.consumer_group
            ),
        ));
    }
    let Some(subscription) = subscription else {
        return Err(missing("subscription"));
    };
    if subscription.data.sub_version < header.sub_version {
        return Err(Refusal::new(
            response_code::SUBSCRIPTION_NOT_LATEST,
            "the consumer's subscription not latest",
        ));
    }
    if !is_tag_type(subscription.data.expression_type.as_deref()) {
        return Err(Refusal::error(SQL92_NOT_SUPPORTED));
    }
    Ok(subscription.filter.clone())
}

fn commit_offset(broker: &Broker, header: &PullMessageHeader<'_>) {
    if header.sys_flag & FLAG_COMMIT_OFFSET != 0 && header.commit_offset >= 0 {
        broker.offsets.commit(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.commit_offset,
        );
    }
}

impl HeldPull {
    fn new(
        broker: &Broker,
        conn: &Arc<Connection>,
        header: &PullMessageHeader<'_>,
        filter: Arc<TagFilter>,
        reply: Reply,
    ) -> Self {
        let wanted = Duration::from_millis(header.suspend_timeout_millis.max(0) as u64);
        let suspend =
            (header.sys_flag & FLAG_SUSPEND != 0).then(|| broker.hold_time(wanted).min(HOLD_MAX));
        HeldPull {
            conn: conn.clone(),
            reply,
            group: header.consumer_group.into(),
            topic: header.topic.into(),
            queue_id: header.queue_id,
            offset: header.queue_offset,
            max_messages: header.max_msg_nums.max(0) as usize,
            max_bytes: header
                .max_msg_bytes
                .filter(|&bytes| bytes > 0)
                .map(|bytes| bytes as usize),
            filter,
            suspend: suspend.filter(|time| !time.is_zero()),
            caught_up: false,
        }
    }
}

/// Looks the messages up where it holds up nobody, and answers or holds the pull.
pub(crate) fn execute(broker: &Arc<Broker>, pull: HeldPull) {
    let behind = broker.store.behind(&pull.topic, pull.queue_id, pull.offset);
    if behind.is_some_and(|behind| behind > WARM_BYTES) {
        let again = broker.clone();
        broker.blocking(move || {
            let begun = Instant::now();
            let fetched = fetch(&again, &pull);
            fetched.touch();
            finish(&again, pull, fetched, begun.elapsed());
        });
    } else {
        let begun = Instant::now();
        let fetched = fetch(broker, &pull);
        finish(broker, pull, fetched, begun.elapsed());
    }
}

fn fetch(broker: &Broker, pull: &HeldPull) -> Fetched {
    let mut limits = broker.with_config(|config| limits(config, broker.physical_memory()));
    if let Some(bytes) = pull.max_bytes {
        limits.in_memory.0 = limits.in_memory.0.min(bytes);
        limits.on_disk.0 = limits.on_disk.0.min(bytes);
    }
    let request = GetRequest {
        topic: &pull.topic,
        queue_id: pull.queue_id,
        offset: pull.offset,
        max_messages: pull.max_messages,
        filter: &pull.filter,
    };
    broker.store.get_messages(&request, &limits)
}

/// How much one pull may carry away, as configured.
pub(crate) fn limits(config: &BrokerConfig, physical_memory: i64) -> GetLimits {
    let size = |value: i32| value.max(0) as usize;
    GetLimits {
        in_memory: (
            size(config.max_transfer_bytes_on_message_in_memory),
            size(config.max_transfer_count_on_message_in_memory),
        ),
        on_disk: (
            size(config.max_transfer_bytes_on_message_in_disk),
            size(config.max_transfer_count_on_message_in_disk),
        ),
        memory_distance: physical_memory / 100
            * i64::from(config.access_message_in_memory_max_ratio),
    }
}

/// Response code of a lookup.
fn code_of(status: GetStatus, offset: i64) -> i32 {
    match status {
        GetStatus::Found => response_code::SUCCESS,
        GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => {
            response_code::PULL_RETRY_IMMEDIATELY
        }
        GetStatus::NoMessageInQueue if offset != 0 => response_code::PULL_OFFSET_MOVED,
        GetStatus::NoMessageInQueue | GetStatus::OffsetFoundNull | GetStatus::OffsetOverflowOne => {
            response_code::PULL_NOT_FOUND
        }
        GetStatus::OffsetOverflowBadly | GetStatus::OffsetTooSmall => {
            response_code::PULL_OFFSET_MOVED
        }
    }
}

fn finish(broker: &Arc<Broker>, mut pull: HeldPull, fetched: Fetched, elapsed: Duration) {
    let code = code_of(fetched.status, pull.offset);
    let at_end = !matches!(fetched.status, GetStatus::Found | GetStatus::OffsetTooSmall);
    if at_end && !std::mem::replace(&mut pull.caught_up, true) {
        let stored = broker.store.stored_end(&pull.topic, pull.queue_id);
        if stored > fetched.max_offset {
            return hold_until_dispatched(broker, pull, stored);
        }
    }
    if code == response_code::PULL_NOT_FOUND
        && let Some(suspend) = pull.suspend.take()
    {
        return hold(broker, pull, suspend);
    }
    if fetched.status == GetStatus::Found {
        broker.stats.got(&GetCount {
            topic: &pull.topic,
            group: &pull.group,
            queue_id: pull.queue_id,
            messages: fetched.messages.len() as u32,
            bytes: fetched.bytes as u64,
            elapsed,
            by_queue: broker.with_config(|config| config.enable_detail_stat),
        });
    } else {
        broker.stats.missed();
    }
    let mut response = Response::code(code)
        .remark(Cow::Borrowed(fetched.status.name()))
        .field("suggestWhichBrokerId", 0_i64)
        .field("nextBeginOffset", fetched.next_offset)
        .field("minOffset", fetched.min_offset)
        .field("maxOffset", fetched.max_offset);
    response.body.extend(fetched.messages);
    pull.reply.send(response);
}

/// What was acknowledged before a pull came is found by it: if the dispatcher has not come so far, the
/// pull waits for it, which takes no longer than a moment.
fn hold_until_dispatched(broker: &Arc<Broker>, pull: HeldPull, stored: i64) {
    let filter = Arc::new(TagFilter::all());
    keep(broker, pull, stored - 1, filter, DISPATCH_TIME);
}

/// Keeps a pull until something arrives that it wants.
fn hold(broker: &Arc<Broker>, pull: HeldPull, suspend: Duration) {
    let (offset, filter) = (pull.offset, pull.filter.clone());
    keep(broker, pull, offset, filter, suspend);
}

/// Keeps a pull. What arrived between its lookup and now is seen by looking once more after it was
/// registered.
fn keep(
    broker: &Arc<Broker>,
    mut pull: HeldPull,
    offset: i64,
    filter: Arc<TagFilter>,
    time: Duration,
) {
    let (topic, queue_id) = (pull.topic.clone(), pull.queue_id);
    let wanted = Wanted {
        topic: topic.clone(),
        queue_id,
        offset,
        filter,
        conn_id: pull.conn.id(),
        deadline: Instant::now() + time,
    };
    pull.reply.park();
    match broker.holds.insert(wanted, pull) {
        Err(pull) => execute(broker, pull),
        Ok(id) => {
            let there = || broker.store.queue_range(&topic, queue_id).1 > offset;
            if (broker.is_stopping() || there())
                && let Some(pull) = broker.holds.take(&topic, queue_id, id)
            {
                execute(broker, pull);
            }
        }
    }
}

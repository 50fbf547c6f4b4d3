//! Sends and what belongs to them: 10, 310, 320, 324, 325, 36, 37, 39, 326.

use super::{Header, headers};
use crate::ext_fields::{ExtFields, HeaderError, parse_bool, parse_i32, parse_i64};

/// Header of a send. One struct for both spellings: long names (codes 10 and 324) and one-letter names (310, 320, 325).
/// Reading takes either, whatever the code: clients have mixed them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendMessageHeader<'a> {
    /// `a`, `producerGroup`.
    pub producer_group: &'a str,
    /// `b`, `topic`.
    pub topic: &'a str,
    /// `c`, `defaultTopic`: topic by which an unknown topic is created, normally TBW102.
    pub default_topic: &'a str,
    /// `d`, `defaultTopicQueueNums`.
    pub default_topic_queue_nums: i32,
    /// `e`, `queueId`; negative lets the broker choose.
    pub queue_id: i32,
    /// `f`, `sysFlag`: bits of [`crate::message::sys_flag`].
    pub sys_flag: i32,
    /// `g`, `bornTimestamp`, in ms.
    pub born_timestamp: i64,
    /// `h`, `flag`: the user's.
    pub flag: i32,
    /// `i`, `properties`: a property string; empty if absent.
    pub properties: &'a str,
    /// `j`, `reconsumeTimes`; 0 if absent.
    pub reconsume_times: i32,
    /// `k`, `unitMode`; false if absent.
    pub unit_mode: bool,
    /// `l`, `maxReconsumeTimes`.
    pub max_reconsume_times: Option<i32>,
    /// `m`, `batch`: the body is a batch. Decisive, not the code.
    pub batch: bool,
    /// `n`, `bname`.
    pub broker_name: Option<&'a str>,
}

/// The fields that must be there, in the order of their bits.
const REQUIRED: [&str; 8] = [
    "producerGroup (a)",
    "topic (b)",
    "defaultTopic (c)",
    "defaultTopicQueueNums (d)",
    "queueId (e)",
    "sysFlag (f)",
    "bornTimestamp (g)",
    "flag (h)",
];

fn text<'a>(field: &'static str, value: &'a [u8]) -> Result<&'a str, HeaderError> {
    std::str::from_utf8(value)
        .map_err(|_| HeaderError::invalid(field, "UTF-8", &String::from_utf8_lossy(value)))
}

impl<'a> TryFrom<&'a ExtFields> for SendMessageHeader<'a> {
    type Error = HeaderError;

    /// One pass over the fields, no allocation.
    fn try_from(ext: &'a ExtFields) -> Result<Self, HeaderError> {
        let mut header = SendMessageHeader::default();
        let mut seen = 0u8;
        for (name, value) in ext.iter_bytes() {
            let field = match name {
                b"a" | b"producerGroup" => 0,
                b"b" | b"topic" => 1,
                b"c" | b"defaultTopic" => 2,
                b"d" | b"defaultTopicQueueNums" => 3,
                b"e" | b"queueId" => 4,
                b"f" | b"sysFlag" => 5,
                b"g" | b"bornTimestamp" => 6,
                b"h" | b"flag" => 7,
                _ => {
                    header.read_optional(name, value)?;
                    continue;
                }
            };
            header.read_required(field, value)?;
            seen |= 1 << field;
        }
        match seen.trailing_ones() as usize {
            8 => Ok(header),
            missing => Err(HeaderError::Missing {
                field: REQUIRED[missing],
            }),
        }
    }
}

impl<'a> SendMessageHeader<'a> {
    fn read_required(&mut self, field: usize, value: &'a [u8]) -> Result<(), HeaderError> {
        let name = REQUIRED[field];
        match field {
            0 => self.producer_group = text(name, value)?,
            1 => self.topic = text(name, value)?,
            2 => self.default_topic = text(name, value)?,
            3 => self.default_topic_queue_nums = parse_i32(name, value)?,
            4 => self.queue_id = parse_i32(name, value)?,
            5 => self.sys_flag = parse_i32(name, value)?,
            6 => self.born_timestamp = parse_i64(name, value)?,
            _ => self.flag = parse_i32(name, value)?,
        }
        Ok(())
    }

    fn read_optional(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), HeaderError> {
        match name {
            b"i" | b"properties" => self.properties = text("properties (i)", value)?,
            b"j" | b"reconsumeTimes" if !value.is_empty() => {
                self.reconsume_times = parse_i32("reconsumeTimes (j)", value)?;
            }
            b"k" | b"unitMode" => self.unit_mode = parse_bool(value),
            b"l" | b"maxReconsumeTimes" if !value.is_empty() => {
                self.max_reconsume_times = Some(parse_i32("maxReconsumeTimes (l)", value)?);
            }
            b"m" | b"batch" => self.batch = parse_bool(value),
            b"n" | b"bname" => self.broker_name = Some(text("bname (n)", value)?),
            _ => {}
        }
        Ok(())
    }

    fn write_as(&self, ext: &mut ExtFields, names: &[&str; 14]) {
        ext.push(names[0], self.producer_group);
        ext.push(names[1], self.topic);
        ext.push(names[2], self.default_topic);
        ext.push_int(names[3], i64::from(self.default_topic_queue_nums));
        ext.push_int(names[4], i64::from(self.queue_id));
        ext.push_int(names[5], i64::from(self.sys_flag));
        ext.push_int(names[6], self.born_timestamp);
        ext.push_int(names[7], i64::from(self.flag));
        ext.push(names[8], self.properties);
        ext.push_int(names[9], i64::from(self.reconsume_times));
        ext.push_bool(names[10], self.unit_mode);
        if let Some(max) = self.max_reconsume_times {
            ext.push_int(names[11], i64::from(max));
        }
        ext.push_bool(names[12], self.batch);
        ext.push_some(names[13], self.broker_name);
    }

    /// Writes the long names, for codes 10 and 324.
    pub fn write_v1(&self, ext: &mut ExtFields) {
        const NAMES: [&str; 14] = [
            "producerGroup",
            "topic",
            "defaultTopic",
            "defaultTopicQueueNums",
            "queueId",
            "sysFlag",
            "bornTimestamp",
            "flag",
            "properties",
            "reconsumeTimes",
            "unitMode",
            "maxReconsumeTimes",
            "batch",
            "bname",
        ];
        self.write_as(ext, &NAMES);
    }
}

/// Writes the one-letter names, for codes 310, 320 and 325.
impl Header for SendMessageHeader<'_> {
    fn write(&self, ext: &mut ExtFields) {
        self.write_as(
            ext,
            &[
                "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
            ],
        );
    }
}

headers! {
    /// Ext fields of a send's answer.
    SendMessageResponseHeader {
        msg_id: &'a str = "msgId",
        queue_id: i32 = "queueId",
        queue_offset: i64 = "queueOffset",
        transaction_id: Option<&'a str> = "transactionId",
        region: Option<&'a str> = "MSG_REGION",
        trace_on: Option<&'a str> = "TRACE_ON",
    }

    /// CONSUMER_SEND_MSG_BACK 36.
    ConsumerSendMsgBackHeader {
        offset: i64 = "offset",
        group: &'a str = "group",
        delay_level: i32 = "delayLevel",
        origin_msg_id: Option<&'a str> = "originMsgId",
        origin_topic: Option<&'a str> = "originTopic",
        unit_mode: Option<bool> = "unitMode",
        max_reconsume_times: Option<i32> = "maxReconsumeTimes",
        broker_name: Option<&'a str> = "bname",
    }

    /// END_TRANSACTION 37.
    EndTransactionHeader {
        topic: Option<&'a str> = "topic",
        producer_group: &'a str = "producerGroup",
        /// Queue offset of the half message.
        tran_state_table_offset: i64 = "tranStateTableOffset",
        /// Physical offset of the half message.
        commit_log_offset: i64 = "commitLogOffset",
        /// 0 unknown, 8 commit, 12 rollback.
        commit_or_rollback: i32 = "commitOrRollback",
        from_transaction_check: Option<bool> = "fromTransactionCheck",
        msg_id: Option<&'a str> = "msgId",
        transaction_id: Option<&'a str> = "transactionId",
        broker_name: Option<&'a str> = "bname",
    }

    /// CHECK_TRANSACTION_STATE 39, sent by the broker.
    CheckTransactionStateHeader {
        topic: Option<&'a str> = "topic",
        tran_state_table_offset: i64 = "tranStateTableOffset",
        commit_log_offset: i64 = "commitLogOffset",
        msg_id: Option<&'a str> = "msgId",
        transaction_id: Option<&'a str> = "transactionId",
        offset_msg_id: Option<&'a str> = "offsetMsgId",
        broker_name: Option<&'a str> = "bname",
    }

    /// PUSH_REPLY_MESSAGE_TO_CLIENT 326, sent by the broker.
    PushReplyMessageHeader {
        producer_group: &'a str = "producerGroup",
        topic: &'a str = "topic",
        default_topic: &'a str = "defaultTopic",
        default_topic_queue_nums: i32 = "defaultTopicQueueNums",
        queue_id: i32 = "queueId",
        sys_flag: i32 = "sysFlag",
        born_timestamp: i64 = "bornTimestamp",
        flag: i32 = "flag",
        properties: Option<&'a str> = "properties",
        reconsume_times: Option<i32> = "reconsumeTimes",
        unit_mode: Option<bool> = "unitMode",
        /// `ip:port`.
        born_host: &'a str = "bornHost",
        /// `ip:port`.
        store_host: &'a str = "storeHost",
        store_timestamp: i64 = "storeTimestamp",
    }
}

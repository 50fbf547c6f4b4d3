//! Rules for the names of topics and groups, and the names that the system keeps for itself (classes TopicValidator,
//! Validators and MixAll).

/// Topic by which unknown topics are created.
pub const DEFAULT_TOPIC: &str = topic::AUTO_CREATE;
/// Prefix of a group's retry topic.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Prefix of a group's dead letter topic.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Prefix of light queues.
pub const LMQ_PREFIX: &str = "%LMQ%";
/// Longest topic name that a send accepts, in characters.
pub const TOPIC_LEN_MAX: usize = 127;
/// Longest group name, in characters.
pub const GROUP_LEN_MAX: usize = 255;
/// Regular expression of names as it appears in remarks.
pub const NAME_PATTERN: &str = "^[%|a-zA-Z0-9_-]+$";

/// Topics of the system.
#[allow(missing_docs)]
pub mod topic {
    pub const AUTO_CREATE: &str = "TBW102";
    pub const SCHEDULE: &str = "SCHEDULE_TOPIC_XXXX";
    pub const BENCHMARK: &str = "BenchmarkTest";
    pub const TRANS_HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
    pub const TRACE: &str = "RMQ_SYS_TRACE_TOPIC";
    pub const TRANS_OP_HALF: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
    pub const TRANS_CHECK_MAX_TIME: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
    pub const SELF_TEST: &str = "SELF_TEST_TOPIC";
    pub const OFFSET_MOVED_EVENT: &str = "OFFSET_MOVED_EVENT";
    pub const CHECKPOINT: &str = "CHECKPOINT_TOPIC";
    /// Prefix of further system topics of 5.x.
    pub const SYSTEM_PREFIX: &str = "rmq_sys_";
}

const SYSTEM_TOPICS: [&str; 10] = [
    topic::AUTO_CREATE,
    topic::SCHEDULE,
    topic::BENCHMARK,
    topic::TRANS_HALF,
    topic::TRACE,
    topic::TRANS_OP_HALF,
    topic::TRANS_CHECK_MAX_TIME,
    topic::SELF_TEST,
    topic::OFFSET_MOVED_EVENT,
    topic::CHECKPOINT,
];

const SEND_FORBIDDEN: [&str; 6] = [
    topic::SCHEDULE,
    topic::TRANS_HALF,
    topic::TRANS_OP_HALF,
    topic::TRANS_CHECK_MAX_TIME,
    topic::SELF_TEST,
    topic::OFFSET_MOVED_EVENT,
];

const SYSTEM_GROUPS: [&str; 8] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// What is wrong with a name. Its text is Java's remark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty or only blanks.
    #[error("The specified {0} is blank.")]
    Blank(&'static str),
    /// A character outside the pattern.
    #[error("The specified {0} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")]
    Illegal(&'static str),
    /// Too long.
    #[error("The specified {0} is longer than {0} max length.")]
    TooLong(&'static str),
}

/// Whether a character may stand in a name.
pub fn is_name_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'%' | b'|' | b'_' | b'-')
}

fn validate(name: &str, what: &'static str, len_max: usize) -> Result<(), NameError> {
    match () {
        _ if name.trim().is_empty() => Err(NameError::Blank(what)),
        _ if !name.bytes().all(is_name_char) => Err(NameError::Illegal(what)),
        _ if name.len() > len_max => Err(NameError::TooLong(what)),
        _ => Ok(()),
    }
}

/// Checks the name of a topic.
pub fn validate_topic(name: &str) -> Result<(), NameError> {
    validate(name, "topic", TOPIC_LEN_MAX)
}

/// Checks the name of a group.
pub fn validate_group(name: &str) -> Result<(), NameError> {
    validate(name, "group", GROUP_LEN_MAX)
}

/// Whether a topic is the system's, so that it may be neither changed nor deleted by request. A broker adds its own
/// (cluster name, broker name, reply topic).
pub fn is_system_topic(name: &str) -> bool {
    SYSTEM_TOPICS.contains(&name) || name.starts_with(topic::SYSTEM_PREFIX)
}

/// Whether a topic is a light queue, which is filled through other topics and never by a send of its own.
pub fn is_light_queue(name: &str) -> bool {
    name.starts_with(LMQ_PREFIX)
}

/// Whether sends by clients to this topic are refused.
pub fn is_send_forbidden(name: &str) -> bool {
    SEND_FORBIDDEN.contains(&name)
}

/// Whether a group is the system's.
pub fn is_system_group(name: &str) -> bool {
    SYSTEM_GROUPS.contains(&name) || name.starts_with("CID_RMQ_SYS_")
}

/// A group's retry topic.
pub fn retry_topic(group: &str) -> String {
    [RETRY_PREFIX, group].concat()
}

/// A group's dead letter topic.
pub fn dlq_topic(group: &str) -> String {
    [DLQ_PREFIX, group].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(validate_topic("%RETRY%a-b_c|9"), Ok(()));
        assert_eq!(
            validate_topic(" ").unwrap_err().to_string(),
            "The specified topic is blank."
        );
        let illegal = validate_topic("a b").unwrap_err().to_string();
        assert_eq!(
            illegal,
            format!(
                "The specified topic contains illegal characters, allowing only {NAME_PATTERN}"
            )
        );
        let long = validate_topic(&"x".repeat(128)).unwrap_err().to_string();
        assert_eq!(long, "The specified topic is longer than topic max length.");
        assert_eq!(validate_topic(&"x".repeat(127)), Ok(()));
        assert_eq!(validate_group(&"x".repeat(255)), Ok(()));
        assert!(validate_group(&"x".repeat(256)).is_err());
        assert!(
            is_system_topic("rmq_sys_wheel_timer")
                && is_system_topic("TBW102")
                && !is_system_topic("a")
        );
        assert!(is_send_forbidden("SELF_TEST_TOPIC") && !is_send_forbidden("TBW102"));
        assert!(is_system_group("CID_RMQ_SYS_x") && !is_system_group("g"));
    }
}

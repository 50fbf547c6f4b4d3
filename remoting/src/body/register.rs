//! Body of REGISTER_BROKER 103, plain and compressed.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::{DataVersion, TopicConfig, TopicConfigSerializeWrapper, TopicFilterType};
use crate::fastjson::{self, ParseError};

/// Largest body after inflating, in bytes.
const INFLATED_MAX: u64 = 64 * 1024 * 1024;

/// Topics of a broker that registers itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBrokerBody {
    /// Dead, but still sent.
    pub filter_server_list: Vec<String>,
    /// The topics.
    pub topic_config_serialize_wrapper: TopicConfigSerializeWrapper,
}

/// Why a registration's body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RegisterBodyError {
    /// Not JSON.
    #[error(transparent)]
    Json(#[from] ParseError),
    /// Not zlib.
    #[error("cannot be inflated: {0}")]
    Inflate(#[from] io::Error),
    /// Too large.
    #[error("inflates to more than {INFLATED_MAX} bytes")]
    TooLarge,
    /// A part is cut short or not what it should be.
    #[error("the compressed form is damaged: {0}")]
    Damaged(&'static str),
}

impl RegisterBrokerBody {
    /// Reads a body as JSON. No body at all means no topics.
    pub fn decode(body: &[u8]) -> Result<RegisterBrokerBody, RegisterBodyError> {
        if body.is_empty() {
            return Ok(RegisterBrokerBody::default());
        }
        Ok(fastjson::from_slice(body)?)
    }

    /// Reads a compressed body: zlib over `version | topic count, topics as text | filter servers`, each part behind its
    /// length. What 5.x appends (static topics) is not read.
    pub fn decode_compressed(body: &[u8]) -> Result<RegisterBrokerBody, RegisterBodyError> {
        let mut plain = Vec::new();
        ZlibDecoder::new(body)
            .take(INFLATED_MAX + 1)
            .read_to_end(&mut plain)?;
        if plain.len() as u64 > INFLATED_MAX {
            return Err(RegisterBodyError::TooLarge);
        }
        let mut plain = Bytes::from(plain);
        let mut wrapper = TopicConfigSerializeWrapper {
            data_version: fastjson::from_slice::<DataVersion>(&part(&mut plain)?)?,
            ..TopicConfigSerializeWrapper::default()
        };
        let count = int(&mut plain)?;
        for _ in 0..count {
            let text = part(&mut plain)?;
            let topic = parse_topic(&text).ok_or(RegisterBodyError::Damaged("a topic"))?;
            wrapper
                .topic_config_table
                .insert(topic.topic_name.clone(), topic);
        }
        let filter_server_list = match plain.remaining() {
            0 => Vec::new(),
            _ => fastjson::from_slice(&part(&mut plain)?)?,
        };
        Ok(RegisterBrokerBody {
            filter_server_list,
            topic_config_serialize_wrapper: wrapper,
        })
    }

    /// Writes the compressed form of 4.9, for name servers of 4.9 when the plain one is too large for a frame.
    pub fn encode_compressed(&self) -> Result<Vec<u8>, fastjson::WriteError> {
        let mut plain = Vec::new();
        let wrapper = &self.topic_config_serialize_wrapper;
        put_part(&mut plain, &fastjson::to_vec(&wrapper.data_version)?);
        plain.extend_from_slice(&(wrapper.topic_config_table.len() as u32).to_be_bytes());
        for topic in wrapper.topic_config_table.values() {
            let (name, read, write) = (
                &topic.topic_name,
                topic.read_queue_nums,
                topic.write_queue_nums,
            );
            let text = format!(
                "{name} {read} {write} {} {}",
                topic.perm,
                topic.topic_filter_type.name()
            );
            put_part(&mut plain, text.as_bytes());
        }
        put_part(&mut plain, &fastjson::to_vec(&self.filter_server_list)?);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(&plain).and_then(|()| encoder.finish());
        written.map_err(serde::ser::Error::custom)
    }
}

fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

fn int(plain: &mut Bytes) -> Result<usize, RegisterBodyError> {
    if plain.remaining() < 4 {
        return Err(RegisterBodyError::Damaged("it ends early"));
    }
    usize::try_from(plain.get_i32()).map_err(|_| RegisterBodyError::Damaged("a length is negative"))
}

fn part(plain: &mut Bytes) -> Result<Bytes, RegisterBodyError> {
    let len = int(plain)?;
    if len > plain.remaining() {
        return Err(RegisterBodyError::Damaged("a length is beyond the end"));
    }
    Ok(plain.split_to(len))
}

/// `name read write perm filterType`, and in 5.x the attributes as JSON.
fn parse_topic(text: &[u8]) -> Option<TopicConfig> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.splitn(6, ' ');
    let topic_name = words.next().filter(|name| !name.is_empty())?.to_owned();
    let mut number = || words.next()?.parse().ok();
    let (read_queue_nums, write_queue_nums, perm) = (number()?, number()?, number()?);
    let topic_filter_type = TopicFilterType::from_name(words.next()?);
    let attributes = words
        .next()
        .and_then(|json| fastjson::from_slice(json.as_bytes()).ok());
    Some(TopicConfig {
        attributes,
        perm,
        read_queue_nums,
        topic_filter_type,
        topic_name,
        write_queue_nums,
        ..TopicConfig::default()
    })
}

//! Encoding: a message that was checked and measured before the lock is written straight into its place.

use std::net::{IpAddr, SocketAddr};

use bytes::BufMut;

use remoting::message::{MAGIC_V1, MAGIC_V2, body_crc, sys_flag};

use super::{EncodeError, MAX_PROPERTIES, MAX_TOPIC_V1, MIN_FRAME, PropertySource};

/// A message as the broker accepted it. Everything is borrowed; nothing is copied before it is encoded.
#[derive(Debug, Clone)]
pub struct MessageToStore<'a> {
    /// Topic, 1 to 127 bytes (V2 frames: up to 32 767).
    pub topic: &'a str,
    /// Queue of the topic.
    pub queue_id: i32,
    /// Flag of the application, stored as it is.
    pub flag: i32,
    /// System flags; the address family bits are set from the hosts when the frame is encoded.
    pub sys_flag: i32,
    /// When the client made the message, ms.
    pub born_timestamp: i64,
    /// Address of the client.
    pub born_host: SocketAddr,
    /// Address of this broker, as message ids name it.
    pub store_host: SocketAddr,
    /// How often consumers gave it back.
    pub reconsume_times: i32,
    /// Physical offset of the half message that a commit or rollback message decides; otherwise 0.
    pub prepared_offset: i64,
    /// Body as received (compressed if the client compressed it).
    pub body: &'a [u8],
    /// Properties.
    pub properties: PropertySource<'a>,
}

impl<'a> MessageToStore<'a> {
    /// Measures the message and computes its CRC: all that can fail or takes time, done before the lock.
    pub fn prepare(&self) -> Result<Encoded<'_, 'a>, EncodeError> {
        Encoded::new(self, self.flag, self.body, &self.properties)
    }

    /// As [`prepare`](Self::prepare), for one item of a batch: flag, body and properties are the item's own.
    pub fn prepare_item<'m>(
        &'m self,
        flag: i32,
        body: &'m [u8],
        properties: &'m PropertySource<'a>,
    ) -> Result<Encoded<'m, 'a>, EncodeError> {
        Encoded::new(self, flag, body, properties)
    }
}

/// A message ready to be written: its size and CRC are known, nothing about it can fail any more.
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'m, 'a> {
    message: &'m MessageToStore<'a>,
    flag: i32,
    body: &'m [u8],
    properties: &'m PropertySource<'a>,
    body_crc: i32,
    sys_flag: i32,
    properties_len: usize,
    frame_len: usize,
}

impl<'m, 'a> Encoded<'m, 'a> {
    fn new(
        message: &'m MessageToStore<'a>,
        flag: i32,
        body: &'m [u8],
        properties: &'m PropertySource<'a>,
    ) -> Result<Self, EncodeError> {
        let topic_len = message.topic.len();
        if topic_len == 0 {
            return Err(EncodeError::TopicEmpty);
        }
        if topic_len > i16::MAX as usize {
            return Err(EncodeError::TopicTooLong {
                len: topic_len,
                max: i16::MAX as usize,
            });
        }
        let properties_len = properties.encoded_len();
        if properties_len > MAX_PROPERTIES {
            return Err(EncodeError::PropertiesTooLong(properties_len));
        }
        let mut flags = message.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
        let mut frame_len = MIN_FRAME + body.len() + topic_len + properties_len;
        if message.born_host.is_ipv6() {
            flags |= sys_flag::BORN_HOST_V6;
            frame_len += 12;
        }
        if message.store_host.is_ipv6() {
            flags |= sys_flag::STORE_HOST_V6;
            frame_len += 12;
        }
        if topic_len > MAX_TOPIC_V1 {
            frame_len += 1;
        }
        if frame_len > i32::MAX as usize {
            return Err(EncodeError::FrameTooLarge {
                len: frame_len,
                max: i32::MAX as usize,
            });
        }
        let body_crc = body_crc(body);
        Ok(Encoded {
            message,
            flag,
            body,
            properties,
            body_crc,
            sys_flag: flags,
            properties_len,
            frame_len,
        })
    }

    /// Bytes of the frame.
    pub fn encoded_len(&self) -> usize {
        self.frame_len
    }

    /// Bytes of the body.
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Bytes of the property string.
    pub fn properties_len(&self) -> usize {
        self.properties_len
    }

    /// System flags as stored.
    pub fn sys_flag(&self) -> i32 {
        self.sys_flag
    }

    /// Writes the frame into `out`, which must be exactly [`encoded_len`](Self::encoded_len) bytes.
    ///
    /// # Panics
    /// If `out` has another length: the caller reserved the wrong place.
    pub fn encode_into(
        &self,
        mut out: &mut [u8],
        queue_offset: i64,
        physical_offset: i64,
        store_timestamp: i64,
    ) {
        assert_eq!(
            out.len(),
            self.frame_len,
            "place reserved for a frame of another size"
        );
        let m = self.message;
        let v2 = m.topic.len() > MAX_TOPIC_V1;
        let out = &mut out;
        out.put_i32(self.frame_len as i32);
        out.put_i32(if v2 { MAGIC_V2 } else { MAGIC_V1 });
        out.put_i32(self.body_crc);
        out.put_i32(m.queue_id);
        out.put_i32(self.flag);
        out.put_i64(queue_offset);
        out.put_i64(physical_offset);
        out.put_i32(self.sys_flag);
        out.put_i64(m.born_timestamp);
        put_host(out, &m.born_host);
        out.put_i64(store_timestamp);
        put_host(out, &m.store_host);
        out.put_i32(m.reconsume_times);
        out.put_i64(m.prepared_offset);
        out.put_i32(self.body.len() as i32);
        out.put_slice(self.body);
        if v2 {
            out.put_i16(m.topic.len() as i16);
        } else {
            out.put_u8(m.topic.len() as u8);
        }
        out.put_slice(m.topic.as_bytes());
        out.put_i16(self.properties_len as i16);
        self.properties.encode(out);
    }
}

/// IP bytes, then the port as i32.
fn put_host(out: &mut &mut [u8], host: &SocketAddr) {
    match host.ip() {
        IpAddr::V4(ip) => out.put_slice(&ip.octets()),
        IpAddr::V6(ip) => out.put_slice(&ip.octets()),
    }
    out.put_i32(i32::from(host.port()));
}

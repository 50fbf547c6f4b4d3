//! Reading a frame in place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use remoting::message::{MAGIC_V1, MAGIC_V2, body_crc, properties, sys_flag};

use super::{FrameError, MIN_FRAME, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT};

/// The total size that a frame at the start of `bytes` names, if its magic is a message's and the size is
/// possible. Looks at eight bytes only.
pub fn frame_size(bytes: &[u8]) -> Option<usize> {
    let size = read_i32(bytes, 0)?;
    let magic = read_i32(bytes, 4)?;
    let sound = (magic == MAGIC_V1 || magic == MAGIC_V2) && size >= MIN_FRAME as i32;
    sound.then_some(size as usize)
}

/// A frame whose structure was checked; accessors cannot fail.
#[derive(Debug, Clone, Copy)]
pub struct FrameView<'a> {
    bytes: &'a [u8],
    store_timestamp_at: usize,
    store_host_at: usize,
    body_at: usize,
    body_len: usize,
    topic: &'a str,
    properties: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// Checks the structure of the frame at the start of `bytes` (which may go on behind it): magic, lengths,
    /// total size, topic. The body is not read; see [`validate`](Self::validate).
    pub fn parse(bytes: &'a [u8]) -> Result<FrameView<'a>, FrameError> {
        let short = |need| FrameError::Truncated {
            need,
            have: bytes.len(),
        };
        let stored_size = read_i32(bytes, 0).ok_or(short(8))?;
        let magic = read_i32(bytes, 4).ok_or(short(8))?;
        if magic != MAGIC_V1 && magic != MAGIC_V2 {
            return Err(FrameError::Magic(magic));
        }
        let flags = read_i32(bytes, 36).ok_or(short(MIN_FRAME))?;
        let store_timestamp_at = if flags & sys_flag::BORN_HOST_V6 == 0 {
            56
        } else {
            68
        };
        let store_host_at = store_timestamp_at + 8;
        let body_len_at = store_host_at
            + if flags & sys_flag::STORE_HOST_V6 == 0 {
                8
            } else {
                20
            }
            + 12;
        let body_len = read_i32(bytes, body_len_at).ok_or(short(body_len_at + 4))?;
        let body_len = usize::try_from(body_len).map_err(|_| FrameError::Length("body"))?;
        let body_at = body_len_at + 4;
        let topic_len_at = body_at + body_len;
        let (topic_len, topic_at) = if magic == MAGIC_V2 {
            let len = read_i16(bytes, topic_len_at).ok_or(short(topic_len_at + 2))?;
            (i32::from(len), topic_len_at + 2)
        } else {
            let len = *bytes.get(topic_len_at).ok_or(short(topic_len_at + 1))? as i8;
            (i32::from(len), topic_len_at + 1)
        };
        let topic_len = usize::try_from(topic_len).map_err(|_| FrameError::Length("topic"))?;
        let properties_len_at = topic_at + topic_len;
        let properties_len =
            read_i16(bytes, properties_len_at).ok_or(short(properties_len_at + 2))?;
        let properties_len =
            usize::try_from(properties_len).map_err(|_| FrameError::Length("properties"))?;
        let end = properties_len_at + 2 + properties_len;
        if i64::from(stored_size) != end as i64 {
            return Err(FrameError::Size {
                stored: stored_size,
                summed: end,
            });
        }
        let bytes = bytes.get(..end).ok_or(short(end))?;
        let topic = std::str::from_utf8(&bytes[topic_at..properties_len_at])
            .map_err(|_| FrameError::Topic)?;
        let properties = &bytes[properties_len_at + 2..];
        Ok(FrameView {
            bytes,
            store_timestamp_at,
            store_host_at,
            body_at,
            body_len,
            topic,
            properties,
        })
    }

    /// Checks what a torn or misplaced write would break: that the frame says that it lies at
    /// `physical_offset`, and the CRC of the body.
    pub fn validate(&self, physical_offset: i64) -> Result<(), FrameError> {
        let stored = self.physical_offset();
        if stored != physical_offset {
            return Err(FrameError::PhysicalOffset {
                stored,
                found: physical_offset,
            });
        }
        self.validate_crc()
    }

    /// Checks the CRC of the body. As Java does it, an empty body is not checked.
    pub fn validate_crc(&self) -> Result<(), FrameError> {
        let (stored, computed) = (self.body_crc(), body_crc(self.body()));
        if self.body_len > 0 && stored != computed {
            return Err(FrameError::BodyCrc { stored, computed });
        }
        Ok(())
    }

    /// The frame's bytes, exactly.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the frame.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Magic: [`MAGIC_V1`] or [`MAGIC_V2`].
    pub fn magic(&self) -> i32 {
        self.i32_at(4)
    }

    /// CRC of the body as stored.
    pub fn body_crc(&self) -> i32 {
        self.i32_at(8)
    }

    /// Queue of the topic.
    pub fn queue_id(&self) -> i32 {
        self.i32_at(12)
    }

    /// Flag of the application.
    pub fn flag(&self) -> i32 {
        self.i32_at(16)
    }

    /// Offset in the queue (0 for prepared and rollback messages).
    pub fn queue_offset(&self) -> i64 {
        self.i64_at(QUEUE_OFFSET_AT)
    }

    /// Where the frame says that it lies.
    pub fn physical_offset(&self) -> i64 {
        self.i64_at(PHYSICAL_OFFSET_AT)
    }

    /// System flags.
    pub fn sys_flag(&self) -> i32 {
        self.i32_at(36)
    }

    /// Transaction type bits of the system flags.
    pub fn transaction_type(&self) -> i32 {
        sys_flag::transaction_type(self.sys_flag())
    }

    /// When the client made the message, ms.
    pub fn born_timestamp(&self) -> i64 {
        self.i64_at(40)
    }

    /// Address of the client.
    pub fn born_host(&self) -> SocketAddr {
        self.host_at(48, self.sys_flag() & sys_flag::BORN_HOST_V6 != 0)
    }

    /// When the message was stored, ms.
    pub fn store_timestamp(&self) -> i64 {
        self.i64_at(self.store_timestamp_at)
    }

    /// Address of the broker that stored it.
    pub fn store_host(&self) -> SocketAddr {
        self.host_at(
            self.store_host_at,
            self.sys_flag() & sys_flag::STORE_HOST_V6 != 0,
        )
    }

    /// How often consumers gave it back.
    pub fn reconsume_times(&self) -> i32 {
        self.i32_at(self.body_at - 16)
    }

    /// Physical offset of the half message that this one decides.
    pub fn prepared_offset(&self) -> i64 {
        self.i64_at(self.body_at - 12)
    }

    /// Body as stored (still compressed if the client compressed it).
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body_at..self.body_at + self.body_len]
    }

    /// Topic.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// Property string: `name 0x01 value`, joined by 0x02, perhaps with a trailing 0x02.
    pub fn properties(&self) -> &'a [u8] {
        self.properties
    }

    /// Value of a property; the last one if the name is there twice, none if it is empty or not UTF-8.
    pub fn property(&self, name: &str) -> Option<&'a str> {
        properties::get(self.properties, name)
    }

    fn i32_at(&self, at: usize) -> i32 {
        read_i32(self.bytes, at).unwrap_or_default() // within the fixed part, which `parse` found whole
    }

    fn i64_at(&self, at: usize) -> i64 {
        read_i64(self.bytes, at).unwrap_or_default() // as above
    }

    fn host_at(&self, at: usize, v6: bool) -> SocketAddr {
        let len = if v6 { 16 } else { 4 };
        let ip = match <[u8; 16]>::try_from(&self.bytes[at..at + len]) {
            Ok(octets) => IpAddr::V6(Ipv6Addr::from(octets)),
            Err(_) => {
                let mut octets = [0; 4];
                octets.copy_from_slice(&self.bytes[at..at + 4]);
                IpAddr::V4(Ipv4Addr::from(octets))
            }
        };
        SocketAddr::new(ip, self.i32_at(at + len) as u16)
    }
}

/// Big-endian i32 at `at`, none beyond the end.
pub(crate) fn read_i32(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Big-endian i64 at `at`, none beyond the end.
pub(crate) fn read_i64(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Big-endian i16 at `at`, none beyond the end.
fn read_i16(bytes: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

//! Offset message ids: upper-case hex of `address (4 or 16 bytes) | port i32 | physical offset i64`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// An offset message id as text, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OffsetId {
    hex: [u8; 56],
    len: usize,
}

impl OffsetId {
    /// Id of the message at a physical offset of the broker that listens at `host`.
    pub fn new(host: SocketAddr, physical_offset: i64) -> OffsetId {
        let mut id = OffsetId {
            hex: [0; 56],
            len: 0,
        };
        match host.ip() {
            IpAddr::V4(ip) => id.put(&ip.octets()),
            IpAddr::V6(ip) => id.put(&ip.octets()),
        }
        id.put(&u32::from(host.port()).to_be_bytes());
        id.put(&physical_offset.to_be_bytes());
        id
    }

    fn put(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.hex[self.len] = HEX[usize::from(b >> 4)];
            self.hex[self.len + 1] = HEX[usize::from(b & 15)];
            self.len += 2;
        }
    }

    /// The 32 or 56 hex digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.hex[..self.len]).unwrap_or_default()
    }

    /// Host and physical offset of an id. A client-made UNIQ_KEY has the same shape and gives nonsense.
    pub fn parse(text: &str) -> Option<(SocketAddr, i64)> {
        let address_len = match text.len() {
            32 => 4,
            56 => 16,
            _ => return None,
        };
        let mut bytes = [0u8; 28];
        for (i, pair) in text.as_bytes().chunks_exact(2).enumerate() {
            let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
            bytes[i] = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        let ip = match address_len {
            4 => IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
            _ => IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
        };
        let rest = &bytes[address_len..];
        let port = u16::try_from(i32::from_be_bytes(*rest.first_chunk::<4>()?)).ok()?;
        let offset = i64::from_be_bytes(*rest[4..].first_chunk::<8>()?);
        Some((SocketAddr::new(ip, port), offset))
    }
}

impl fmt::Display for OffsetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for OffsetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let v4: SocketAddr = "127.0.0.1:22611".parse().unwrap();
        let id = OffsetId::new(v4, 16783);
        assert_eq!(id.as_str(), "7F00000100005853000000000000418F");
        assert_eq!(OffsetId::parse(id.as_str()), Some((v4, 16783)));
        assert_eq!(
            OffsetId::parse(&id.as_str().to_lowercase()),
            Some((v4, 16783))
        );
        let v6: SocketAddr = "[fe80::1]:10911".parse().unwrap();
        let id = OffsetId::new(v6, i64::MAX);
        assert_eq!(id.as_str().len(), 56);
        assert_eq!(OffsetId::parse(id.as_str()), Some((v6, i64::MAX)));
        for bad in [
            "",
            "7F",
            "7F00000100005853000000000000418G",
            "C000020236824E0E2F2A92EA9860000000",
        ] {
            assert_eq!(OffsetId::parse(bad), None);
        }
        // A client's UNIQ_KEY: the port does not fit.
        assert_eq!(OffsetId::parse("C000020236824E0E2F2A92EA98600000"), None);
    }
}

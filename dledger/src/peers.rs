//! Who is in the group: member ids and the peers string of the configuration.
//!
//! The form is Apache's `dLegerPeers`: `id-host:port` separated by `;`, for example
//! `n0-10.0.0.1:40911;n1-my-host.example:40911;n2-[::1]:40911`. An entry is split at its *first* dash, so
//! that host names may contain dashes; an IPv6 address stands in brackets. Every error names the part that is wrong.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The largest group that is served; quorum arithmetic and the raft core count members in a `u8`.
pub const MEMBERS_MAX: usize = 15;

/// The name of a member: one ASCII letter and an integer (`n0`). The integer gives the broker id of a follower.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(Arc<str>);

impl MemberId {
    /// Parses an id; the error states the rule.
    pub fn parse(text: &str) -> Result<MemberId, PeersError> {
        let mut chars = text.chars();
        let letter = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
        let digits = chars.as_str();
        let number = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && digits.parse::<i32>().is_ok();
        if letter && number {
            Ok(MemberId(Arc::from(text)))
        } else {
            Err(PeersError::BadId {
                id: text.to_owned(),
            })
        }
    }

    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The integer after the letter.
    pub fn number(&self) -> i32 {
        // Checked when the id was parsed.
        self.0[1..].parse().unwrap_or(0)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One member of the group and where its raft port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's id.
    pub id: MemberId,
    /// Host name, IPv4 address, or IPv6 address in brackets, as written. It is resolved at each connect, never here.
    pub host: String,
    /// The raft port.
    pub port: u16,
}

impl Member {
    /// `host:port`, as the wire carries it.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The members of a group, in the order of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    members: Vec<Member>,
}

/// What is wrong with a peers string; each text is one readable line that names the faulty part.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PeersError {
    #[error(
        "the peers string is empty; expected id-host:port entries separated by ';', for example n0-127.0.0.1:40911"
    )]
    Empty,
    #[error("entry {number} of the peers string is empty; entries are separated by one ';'")]
    EmptyEntry { number: usize },
    #[error(
        "peers entry \"{entry}\" has no id; expected id-host:port, for example n0-127.0.0.1:40911"
    )]
    NoId { entry: String },
    #[error(
        "member id \"{id}\" is not allowed; an id is one letter and an integer, for example n0"
    )]
    BadId { id: String },
    #[error("peers entry \"{entry}\" has no port; expected id-host:port")]
    NoPort { entry: String },
    #[error("peers entry \"{entry}\" has the port \"{port}\"; a port is a number from 1 to 65535")]
    BadPort { entry: String, port: String },
    #[error(
        "peers entry \"{entry}\" has the host \"{host}\"; expected a name, an IPv4 address, or an IPv6 address in brackets"
    )]
    BadHost { entry: String, host: String },
    #[error("member id \"{id}\" is listed twice in the peers string")]
    SameId { id: String },
    #[error(
        "members \"{first}\" and \"{second}\" have the same number, and so would have the same broker id"
    )]
    SameNumber { first: String, second: String },
    #[error("members \"{first}\" and \"{second}\" have the same address {address}")]
    SameAddress {
        first: String,
        second: String,
        address: String,
    },
    #[error("the peers string lists {count} members; at most {MEMBERS_MAX} are served")]
    TooMany { count: usize },
    #[error("the own member id \"{id}\" is not in the peers string {peers}")]
    SelfMissing { id: String, peers: String },
}

impl Peers {
    /// Parses a peers string. Blanks around entries are dropped and one trailing `;` is allowed, as in Java.
    pub fn parse(text: &str) -> Result<Peers, PeersError> {
        let text = text.trim();
        let text = text.strip_suffix(';').unwrap_or(text).trim_end();
        if text.is_empty() {
            return Err(PeersError::Empty);
        }
        let mut members = Vec::new();
        for (position, entry) in text.split(';').enumerate() {
            let entry = entry.trim();
            if entry.is_empty() {
                return Err(PeersError::EmptyEntry {
                    number: position + 1,
                });
            }
            members.push(parse_member(entry)?);
        }
        check_distinct(&members)?;
        Ok(Peers { members })
    }

    /// The members in configured order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many members the group has.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The position of a member in configured order.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.members.iter().position(|m| m.id.as_str() == id)
    }

    /// The member with that id, or the error that names it.
    pub fn require(&self, id: &MemberId) -> Result<&Member, PeersError> {
        self.members
            .iter()
            .find(|m| m.id == *id)
            .ok_or_else(|| PeersError::SelfMissing {
                id: id.to_string(),
                peers: self.to_string(),
            })
    }
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, member) in self.members.iter().enumerate() {
            let separator = if position == 0 { "" } else { ";" };
            write!(
                f,
                "{separator}{}-{}:{}",
                member.id, member.host, member.port
            )?;
        }
        Ok(())
    }
}

fn parse_member(entry: &str) -> Result<Member, PeersError> {
    let Some((id, address)) = entry.split_once('-') else {
        return Err(PeersError::NoId {
            entry: entry.to_owned(),
        });
    };
    // "my-host:40911" splits at its dash too; a left part that looks like an address means that the id is missing.
    if id.contains(':') || id.contains('.') || id.contains('[') {
        return Err(PeersError::NoId {
            entry: entry.to_owned(),
        });
    }
    let id = MemberId::parse(id.trim())?;
    let (host, port) = split_port(entry, address.trim())?;
    check_host(entry, host)?;
    let port_number = port
        .parse::<u16>()
        .ok()
        .filter(|&p| p != 0 && port.bytes().all(|b| b.is_ascii_digit()));
    match port_number {
        Some(port) => Ok(Member {
            id,
            host: host.to_owned(),
            port,
        }),
        None => Err(PeersError::BadPort {
            entry: entry.to_owned(),
            port: port.to_owned(),
        }),
    }
}

fn split_port<'a>(entry: &str, address: &'a str) -> Result<(&'a str, &'a str), PeersError> {
    let no_port = || PeersError::NoPort {
        entry: entry.to_owned(),
    };
    if address.starts_with('[') {
        let end = address.find(']').ok_or_else(|| PeersError::BadHost {
            entry: entry.to_owned(),
            host: address.to_owned(),
        })?;
        let port = address[end + 1..].strip_prefix(':').ok_or_else(no_port)?;
        return Ok((&address[..=end], port));
    }
    address.rsplit_once(':').ok_or_else(no_port)
}

fn check_host(entry: &str, host: &str) -> Result<(), PeersError> {
    let good = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        }
    };
    if good {
        Ok(())
    } else {
        Err(PeersError::BadHost {
            entry: entry.to_owned(),
            host: host.to_owned(),
        })
    }
}

fn check_distinct(members: &[Member]) -> Result<(), PeersError> {
    if members.len() > MEMBERS_MAX {
        return Err(PeersError::TooMany {
            count: members.len(),
        });
    }
    let mut numbers: HashMap<i32, &MemberId> = HashMap::new();
    let mut addresses: HashMap<String, &MemberId> = HashMap::new();
    for member in members {
        if let Some(other) = numbers.insert(member.id.number(), &member.id) {
            return Err(if *other == member.id {
                PeersError::SameId {
                    id: other.to_string(),
                }
            } else {
                PeersError::SameNumber {
                    first: other.to_string(),
                    second: member.id.to_string(),
                }
            });
        }
        let address = member.address();
        if let Some(other) = addresses.insert(address.clone(), &member.id) {
            return Err(PeersError::SameAddress {
                first: other.to_string(),
                second: member.id.to_string(),
                address,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r103_splits_at_the_first_dash_and_takes_ipv6_in_brackets() {
        let peers =
            Peers::parse("n0-my-host-0.svc-a.ns:40911;n1-[::1]:40912;n2-10.0.0.3:40913").unwrap();
        let addresses: Vec<String> = peers.members().iter().map(Member::address).collect();
        assert_eq!(
            addresses,
            ["my-host-0.svc-a.ns:40911", "[::1]:40912", "10.0.0.3:40913"]
        );
        assert_eq!(
            peers.to_string(),
            "n0-my-host-0.svc-a.ns:40911;n1-[::1]:40912;n2-10.0.0.3:40913"
        );
    }

    #[test]
    fn r104_ids_of_different_length() {
        let peers = Peers::parse("n9-h:1;n10-h:2;n11-h:3").unwrap();
        assert_eq!(peers.position("n10"), Some(1));
        assert!(peers.require(&MemberId::parse("n9").unwrap()).is_ok());
        assert_eq!(MemberId::parse("n10").unwrap().number(), 10);
    }

    #[test]
    fn r105_ids_are_one_letter_and_an_integer() {
        for good in ["n0", "n10", "a7"] {
            assert!(MemberId::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "node1",
            "1",
            "a",
            "",
            "n-1",
            "n+1",
            "n1x",
            "é1",
            "n99999999999",
        ] {
            assert!(
                matches!(MemberId::parse(bad), Err(PeersError::BadId { .. })),
                "{bad}"
            );
        }
        assert!(matches!(
            Peers::parse("n1-a:1;m1-b:1"),
            Err(PeersError::SameNumber { .. })
        ));
    }

    #[test]
    fn r106_faulty_parts_are_named() {
        let error = |text: &str| Peers::parse(text).unwrap_err().to_string();
        assert!(error("n1:40911;n2-h:1").contains("\"n1:40911\" has no id"));
        assert!(error("10.0.0.1:40911").contains("has no id"));
        assert!(error("my-host:40911").contains("\"my\" is not allowed"));
        assert!(error("n0-a:1;n0-b:2").contains("\"n0\" is listed twice"));
        assert!(error("n0-a:1;n1-a:1").contains("same address a:1"));
        assert!(error("n0-a:1;;n1-b:1").contains("entry 2"));
        assert!(error(";;").contains("empty"));
        assert!(error("").contains("empty"));
        assert!(error("n0-a:0").contains("port \"0\""));
        assert!(error("n0-a:70000").contains("port \"70000\""));
        assert!(error("n0-a:+1").contains("port \"+1\""));
        assert!(error("n0-a").contains("no port"));
        assert!(error("n0-:1").contains("host \"\""));
        assert!(error("n0-::1:40911").contains("brackets"));
        assert!(error("n0-[::g]:40911").contains("brackets"));
        assert!(error("n0-a b:1").contains("host \"a b\""));
        let peers = Peers::parse(" n0-a:1 ; n1-b:2 ;").unwrap();
        assert_eq!(peers.to_string(), "n0-a:1;n1-b:2");
        let missing = peers
            .require(&MemberId::parse("n3").unwrap())
            .unwrap_err()
            .to_string();
        assert!(missing.contains("\"n3\" is not in the peers string n0-a:1;n1-b:2"));
    }
}

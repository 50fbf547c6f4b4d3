//! Addresses in the configuration: name server lists, the bind address, our own address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Checks a list `host:port;host:port`; empty is allowed.
pub fn check_list(list: &str) -> Result<(), String> {
    match split_list(list).find(|a| !is_host_port(a)) {
        Some(bad) => Err(format!(
            "addresses host:port joined by ;, which '{bad}' is not"
        )),
        None => Ok(()),
    }
}

/// The addresses of a `;` separated list, blanks and empty items dropped.
pub fn split_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(';').map(str::trim).filter(|a| !a.is_empty())
}

/// Checks an address to listen on: an IP address.
pub fn check_bind(address: &str) -> Result<(), String> {
    match parse_ip(address) {
        Some(_) => Ok(()),
        None => Err("an IP address".into()),
    }
}

/// An IP address, IPv6 with or without brackets.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    text.strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text)
        .parse()
        .ok()
}

fn is_host_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let host_ok = parse_ip(host).is_some() || (!host.is_empty() && host.chars().all(plain));
    host_ok && port.parse::<u16>().is_ok_and(|p| p != 0)
}

/// `host:port`, with brackets around an IPv6 address.
pub fn join(host: &str, port: i32) -> String {
    match parse_ip(host) {
        Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

/// The first address that `host` names, IPv4 preferred since stored hosts of IPv4 are what old clients read.
pub fn resolve(host: &str, port: u16) -> std::io::Result<SocketAddr> {
    if let Some(ip) = parse_ip(host) {
        return Ok(SocketAddr::new(ip, port));
    }
    let all: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let first = all.iter().find(|a| a.is_ipv4()).or(all.first());
    first
        .copied()
        .ok_or_else(|| std::io::Error::other(format!("{host} has no address")))
}

/// The address of the interface that the default route uses; no packet is sent. Loopback if there is no route.
pub fn local_address() -> IpAddr {
    // 192.0.2.0/24 and 2001:db8::/32 are documentation networks: never local, so the default route decides.
    for (bind, probe) in [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")] {
        let address =
            UdpSocket::bind(bind).and_then(|s| s.connect(probe).and_then(|()| s.local_addr()));
        if let Ok(address) = address
            && !address.ip().is_unspecified()
        {
            return address.ip();
        }
    }
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for good in [
            "",
            "a:1",
            "a:1;b:2;",
            " a:1 ; [::1]:9876 ",
            "my-host.svc:65535",
        ] {
            assert_eq!(check_list(good), Ok(()), "{good}");
        }
        for bad in [
            "a", "a:", ":1", "a:0", "a:65536", "a:x", "a b:1", "[::g]:1", "a:1,b:2",
        ] {
            assert!(check_list(bad).is_err(), "{bad}");
        }
        assert_eq!(
            split_list(" a:1 ;; b:2;").collect::<Vec<_>>(),
            ["a:1", "b:2"]
        );
    }

    #[test]
    fn joining_and_resolving() {
        assert_eq!(join("10.0.0.1", 10911), "10.0.0.1:10911");
        assert_eq!(join("::1", 1), "[::1]:1");
        assert_eq!(join("[::1]", 1), "[::1]:1");
        assert_eq!(join("host", 1), "host:1");
        assert_eq!(resolve("[::1]", 5).unwrap().to_string(), "[::1]:5");
        assert!(!local_address().is_unspecified());
    }
}

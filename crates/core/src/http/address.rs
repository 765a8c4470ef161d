//! Which addresses, names and ports are refused. Addresses and names outside the public Internet are refused unless the
//! user allows them. Ports of other protocols are always refused.
//!
//! Invariant: the decision is about the address that is connected to, not about its spelling in a URL. An IPv6 address
//! that embeds an IPv4 address is judged as that IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::base::outcome::Failure;

/// The addresses of a name, IPv6 first, and their time to live; or why there are none.
pub type DnsResult = Result<(Vec<IpAddr>, Duration), Failure>;

/// The kind of special address that this is, which is the reason why it is refused. `None` for an ordinary public
/// address.
pub fn refusal(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(v4) => refusal_v4(v4),
        IpAddr::V6(v6) => refusal_v6(v6),
    }
}

/// Why a host name is refused before it is resolved; `None` if its addresses decide.
///
/// These names are reserved for the local machine and network (RFC 6761, RFC 6762, ICANN's `.internal`). A query for
/// them would only reveal them to the resolver. Names that are not on this list are still checked by their addresses
/// ([`refusal`]).
pub fn name_refusal(host: &str) -> Option<&'static str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last_label = host.rsplit('.').next().unwrap_or(host);
    [("localhost", "loopback"), ("local", "link-local"), ("internal", "private")]
        .into_iter()
        .find(|(label, _)| last_label.eq_ignore_ascii_case(label))
        .map(|(_, why)| why)
}

/// True if DNS can carry the host name: labels of 1 to 63 bytes, 253 in total. Other names are not looked up.
pub fn is_resolvable(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut label_len = 0;
    let has_valid_labels = host.bytes().all(|byte| {
        let is_dot = byte == b'.';
        let is_valid = if is_dot { label_len > 0 } else { label_len < 63 };
        label_len = if is_dot { 0 } else { label_len + 1 };
        is_valid
    });
    host.len() <= 253 && has_valid_labels && label_len > 0
}

/// Checks an IPv4 address against the ranges that are not public according to IANA's registries, and against one public
/// address that a cloud platform uses internally.
fn refusal_v4(ip: Ipv4Addr) -> Option<&'static str> {
    // Network, prefix length and reason. The first match counts, so broadcast comes before the reserved range around
    // it.
    const TABLE: &[(Ipv4Addr, u32, &str)] = &[
        (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
        (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
        (Ipv4Addr::new(100, 64, 0, 0), 10, "shared (carrier-grade NAT)"),
        (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
        (Ipv4Addr::new(168, 63, 129, 16), 32, "cloud platform (Azure)"),
        (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
        (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
        (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments"),
        (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
        (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay"),
        (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
        (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking"),
        (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
        (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
        (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
        (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast"),
        (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
    ];
    let bits = ip.to_bits();
    TABLE.iter().find(|(net, prefix, _)| (bits ^ net.to_bits()) >> (32 - prefix) == 0).map(|(_, _, why)| *why)
}

fn refusal_v6(ip: Ipv6Addr) -> Option<&'static str> {
    // Network, prefix length and reason. The first match counts, so narrow ranges come before wider ones around them.
    const TABLE: &[(Ipv6Addr, u32, &str)] = &[
        (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
        (Ipv6Addr::LOCALHOST, 128, "loopback"),
        (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "NAT64 local use"),
        (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, "discard"),
        (Ipv6Addr::new(0x100, 0, 0, 1, 0, 0, 0, 0), 64, "dummy"),
        (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "Teredo"),
        (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, "benchmarking"),
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
        (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol assignments"),
        (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
        (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, "segment routing"),
        (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
        (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local"),
        (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
    ];
    let bits = ip.to_bits();
    if let Some((_, _, why)) = TABLE.iter().find(|(net, prefix, _)| (bits ^ net.to_bits()) >> (128 - prefix) == 0) {
        return Some(why);
    }
    if let Some(v4) = embedded_v4(ip) {
        return refusal_v4(v4);
    }
    // Outside 2000::/3 no address is assigned as global unicast.
    (bits >> 125 != 1).then_some("reserved")
}

/// The IPv4 address to which packets for this IPv6 address are translated. Teredo is missing because all its addresses
/// are refused.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = ip.to_bits();
    #[expect(clippy::cast_possible_truncation, reason = "only 32 of the 128 bits are used")]
    let (low, after_prefix) = (bits as u32, (bits >> 80) as u32);
    match ip.segments() {
        // v4-mapped ::ffff:0:0/96, v4-translated ::ffff:0:0:0/96, v4-compatible ::/96, NAT64 64:ff9b::/96
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            Some(Ipv4Addr::from_bits(low))
        }
        // 6to4 2002::/16
        [0x2002, ..] => Some(Ipv4Addr::from_bits(after_prefix)),
        _ => None,
    }
}

/// True if a port belongs to another protocol, where an HTTP request could do harm.
pub fn is_blocked_port(port: u16) -> bool {
    BLOCKED_PORTS.binary_search(&port).is_ok()
}

/// The "bad port" list of the Fetch standard, in ascending order.
const BLOCKED_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn why(ip: &str) -> Option<&'static str> {
        refusal(ip.parse().unwrap())
    }

    #[test]
    fn ranges_are_refused_at_both_ends_and_not_beyond() {
        for (first, last, before, after) in [
            ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
            ("10.0.0.0", "10.255.255.255", Some("9.255.255.255"), Some("11.0.0.0")),
            ("100.64.0.0", "100.127.255.255", Some("100.63.255.255"), Some("100.128.0.0")),
            ("127.0.0.0", "127.255.255.255", Some("126.255.255.255"), Some("128.0.0.0")),
            ("169.254.0.0", "169.254.255.255", Some("169.253.255.255"), Some("169.255.0.0")),
            ("172.16.0.0", "172.31.255.255", Some("172.15.255.255"), Some("172.32.0.0")),
            ("192.0.0.0", "192.0.0.255", Some("191.255.255.255"), Some("192.0.1.0")),
            ("192.0.2.0", "192.0.2.255", Some("192.0.1.255"), Some("192.0.3.0")),
            ("192.88.99.0", "192.88.99.255", Some("192.88.98.255"), Some("192.88.100.0")),
            ("192.168.0.0", "192.168.255.255", Some("192.167.255.255"), Some("192.169.0.0")),
            ("198.18.0.0", "198.19.255.255", Some("198.17.255.255"), Some("198.20.0.0")),
            ("203.0.113.0", "203.0.113.255", Some("203.0.112.255"), Some("203.0.114.0")),
            ("224.0.0.0", "255.255.255.255", Some("223.255.255.255"), None),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None, None),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None, None),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some("2001:db7::"), Some("2001:db9::")),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Some("3ffe::1"), Some("3fff:1000::")),
        ] {
            assert!(why(first).is_some() && why(last).is_some(), "{first} to {last}");
            for outside in [before, after].into_iter().flatten() {
                assert_eq!(why(outside), None, "{outside}");
            }
        }
    }

    #[test]
    fn ipv6_addresses_that_embed_ipv4_are_judged_as_ipv4() {
        for form in ["::ffff:{}", "::{}", "64:ff9b::{}", "::ffff:0:{}"] {
            assert_eq!(why(&form.replace("{}", "127.0.0.1")), Some("loopback"), "{form}");
            assert_eq!(why(&form.replace("{}", "169.254.169.254")), Some("link-local"), "{form}");
            assert_eq!(why(&form.replace("{}", "8.8.8.8")), None, "{form}");
        }
        assert_eq!(why("2002:a00:1::"), Some("private"));
        assert_eq!(why("2002:808:808::1"), None);
        assert_eq!(why("2001:0:808:808::1"), Some("Teredo"));
        assert_eq!(why("::1"), Some("loopback"));
    }

    #[test]
    fn names_of_the_local_network_are_refused() {
        for host in ["localhost", "LOCALHOST", "localhost.", "a.localhost", "router.local", "metadata.google.internal"]
        {
            assert!(name_refusal(host).is_some(), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "notlocalhost", "internal.example", "mylocal"] {
            assert_eq!(name_refusal(host), None, "{host}");
        }
    }

    #[test]
    fn only_names_that_dns_can_carry_are_resolvable() {
        let long = |label_len: usize, labels: usize| vec!["a".repeat(label_len); labels].join(".");
        for host in ["a", "example.com.", &long(63, 3), &long(1, 127)] {
            assert!(is_resolvable(host), "{host}");
        }
        for host in ["", ".", "a..b", ".a", &long(64, 1), &long(63, 4), &long(1, 128)] {
            assert!(!is_resolvable(host), "{host}");
        }
    }

    #[test]
    fn blocked_ports_are_sorted_and_exclude_web_ports() {
        assert!(BLOCKED_PORTS.is_sorted());
        assert_eq!(BLOCKED_PORTS.len(), 83, "the length of the list in the standard");
        for port in [22, 25, 6000, 6667, 10080] {
            assert!(is_blocked_port(port));
        }
        for port in [80, 443, 3000, 6379, 8000, 8080, 8443, 65535] {
            assert!(!is_blocked_port(port));
        }
    }
}

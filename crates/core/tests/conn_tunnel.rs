//! Proxy handshakes with scripted replies.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "not the core, only its tests")]

mod conn_kit;

use std::net::IpAddr;
use std::sync::Arc;

use argiope_core::http::conn::{Conn, Step, Tunnel};
use argiope_core::http::proxy::Proxies;
use argiope_core::{ErrorKind, Failure, Url};
use conn_kit::{After, REQUEST, Recorder, at, finish, limits, write_all};

const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// A connection through this proxy, with a request waiting.
fn conn(proxy: &str, url: &str, ip: Option<&str>) -> Conn {
    let (now, limits, url) = (at(0), limits(), Url::parse(url).expect("an address"));
    let proxies = Proxies::new(Some(proxy), |_| None).expect("a proxy");
    let proxy = proxies.of(url.as_ref()).expect("it is used");
    let ip = ip.map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let tunnel = Tunnel::new(proxy, url.as_ref(), ip, now + limits.connect);
    let mut conn = Conn::plain(Arc::new(limits.clone()), now).through(tunnel);
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    conn
}

/// Feeds the replies of the proxy, byte by byte or at once. Returns the bytes that were sent, and the body of the page.
fn run_handshake(mut conn: Conn, replies: &[&[u8]], is_byte_by_byte: bool) -> (Vec<u8>, Result<Vec<u8>, Failure>) {
    let mut recorder = Recorder::default();
    let mut sent = write_all(&mut conn, at(0));
    for piece in replies {
        for part in piece.chunks(if is_byte_by_byte { 1 } else { piece.len().max(1) }) {
            conn.feed(part, at(1), &mut recorder);
        }
        sent.extend(write_all(&mut conn, at(1)));
    }
    let end = finish(&mut conn, &[], After::Close, &mut recorder);
    (sent, end.failure.map_or(Ok(recorder.body), Err))
}

/// Runs the handshake with replies at once and byte by byte. Both must have the same result.
fn run_both_ways(open: impl Fn() -> Conn, replies: &[&[u8]]) -> (Vec<u8>, Result<Vec<u8>, Failure>) {
    let whole = run_handshake(open(), replies, false);
    assert_eq!(run_handshake(open(), replies, true), whole);
    whole
}

#[test]
fn the_request_is_sent_after_a_successful_connect() {
    let open = || conn("http://me:pw@proxy:1", "https://h.example/x", None);
    let connect_request =
        b"CONNECT h.example:443 HTTP/1.1\r\nHost: h.example:443\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n";
    let response = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Fine\r\nContent-Length: 5\r\n\r\n";
    let (sent, page) = run_both_ways(open, &[response, PAGE]);
    assert_eq!(
        sent,
        [&connect_request[..], REQUEST].concat(),
        "the request is sent after the reply of the proxy, without the login"
    );
    assert_eq!(page, Ok(b"hi".to_vec()));
    // A proxy that sends the first bytes of the host with its reply.
    let (_, page) = run_handshake(open(), &[&[&response[..], PAGE].concat()], false);
    assert_eq!(page, Ok(b"hi".to_vec()));
}

#[test]
fn http_requests_need_no_tunnel() {
    let (sent, page) = run_both_ways(|| conn("http://proxy:1", "http://h.example/x", None), &[PAGE]);
    assert_eq!((sent.as_slice(), page), (REQUEST, Ok(b"hi".to_vec())));
}

#[test]
fn socks_requests_have_a_name_or_address_and_a_login() {
    // The greeting of the client, and two replies of the proxy: no login is needed, and the connection is made.
    let (hello, fine, made): (&[u8], &[u8], &[u8]) = (&[5, 1, 0], &[5, 0], &[5, 0, 0, 1, 9, 9, 9, 9, 0, 80]);
    // A request for a name of nine bytes and port 8080.
    let by_name = [&[5, 1, 0, 3, 9][..], b"h.example", &[0x1f, 0x90]].concat();
    let cases: [(&str, &str, Option<&str>, Vec<u8>); 4] = [
        ("socks5h://p", "http://h.example:8080/", None, by_name),
        ("socks5://p", "http://h.example/", Some("192.0.2.7"), vec![5, 1, 0, 1, 192, 0, 2, 7, 0, 80]),
        ("socks5h://p", "http://192.0.2.7/", None, vec![5, 1, 0, 1, 192, 0, 2, 7, 0, 80]),
        ("socks5://p", "http://h/", Some("::1"), [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat()),
    ];
    for (proxy, url, ip, request) in cases {
        let (sent, page) = run_both_ways(|| conn(proxy, url, ip), &[fine, made, PAGE]);
        assert_eq!(sent, [hello, &request, REQUEST].concat(), "{url}");
        assert_eq!(page, Ok(b"hi".to_vec()), "{url}");
    }
    let open = || conn("socks5h://me:p%3Aw@p", "http://h/", None);
    let bound_name = [&[5, 0, 0, 3, 3][..], b"abc", &[0, 80]].concat();
    let (sent, page) = run_both_ways(open, &[&[5, 2], &[1, 0], &bound_name, PAGE]);
    // The greeting offers two methods, no login and a password. The login follows.
    let login = [&[5, 2, 0, 2, 1, 2][..], b"me", &[3], b"p:w"].concat();
    assert_eq!(sent, [&login, &[5, 1, 0, 3, 1, b'h', 0, 80][..], REQUEST].concat());
    assert_eq!(page, Ok(b"hi".to_vec()));
    // A proxy that does not request a login receives none.
    let (sent, _) = run_both_ways(open, &[fine, made, PAGE]);
    assert!(!sent.windows(3).any(|three| three == b"p:w"));
}

#[test]
fn refusals_of_a_proxy_are_reported() {
    // The proxy, its replies, the expected error, and a part of its message.
    let cases: &[(&str, &[&[u8]], ErrorKind, &str)] = &[
        ("http://p", &[b"HTTP/1.1 407 No\r\n\r\n"], ErrorKind::Protocol, "407"),
        ("http://p", &[b"HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nno!"], ErrorKind::Protocol, "403"),
        ("http://p", &[b"HTTP/1.1 502 No\r\n\r\n"], ErrorKind::Unreachable, "502"),
        ("http://p", &[b"220 mail\r\n"], ErrorKind::Protocol, "not HTTP"),
        ("http://p", &[b"HTTP/1.1 200 "], ErrorKind::Reset, "the proxy closed"),
        ("http://p", &[], ErrorKind::Reset, "the proxy closed"),
        ("socks5h://p", &[&[4, 0]], ErrorKind::Protocol, "SOCKS 5"),
        ("socks5h://p", &[&[5, 0xff]], ErrorKind::Protocol, "user name and password"),
        ("socks5h://p", &[&[5, 2]], ErrorKind::Protocol, "is not supported"),
        ("socks5h://a:b@p", &[&[5, 2], &[1, 1]], ErrorKind::Protocol, "rejected the user name"),
        ("socks5h://p", &[&[5, 0], &[5, 5, 0, 1]], ErrorKind::ConnectRefused, "refused"),
        ("socks5h://p", &[&[5, 0], &[5, 4]], ErrorKind::Unreachable, "unreachable"),
        ("socks5h://p", &[&[5, 0], &[5, 2]], ErrorKind::Protocol, "rules"),
        ("socks5h://p", &[&[5, 0], &[5, 0, 0, 9]], ErrorKind::Protocol, "SOCKS 5"),
        ("socks5h://p", &[&[5, 0], &[5, 0, 0, 3]], ErrorKind::Reset, "the proxy closed"),
    ];
    for (proxy, replies, kind, text) in cases {
        let (sent, page) = run_both_ways(|| conn(proxy, "https://h/", None), replies);
        let failure = page.expect_err(text);
        assert_eq!(failure.kind, *kind, "{failure}");
        assert!(failure.message.contains(text), "{failure}");
        assert!(!sent.ends_with(REQUEST), "the request must not be sent to the proxy");
    }
}

#[test]
fn replies_of_a_proxy_are_limited_in_time_and_size() {
    let mut silent = conn("http://p", "https://h/", None);
    write_all(&mut silent, at(0));
    assert_eq!((silent.step(), silent.deadline()), (Step::Read, at(2_000)));
    silent.expire(at(2_000), &mut Recorder::default());
    assert_eq!(silent.end().failure.map(|failure| failure.kind), Some(ErrorKind::ConnectTimeout));

    let mut endless = conn("http://p", "https://h/", None);
    write_all(&mut endless, at(0));
    let mut fed = 0;
    endless.feed(b"HTTP/1.1 200 OK\r\n", at(1), &mut Recorder::default());
    while endless.step() == Step::Read {
        endless.feed(b"X: y\r\n", at(1), &mut Recorder::default());
        fed += 6;
    }
    // The limit is 16 KiB.
    assert!(fed < 17 << 10, "{fed} bytes");
    assert_eq!(endless.end().failure.map(|failure| failure.kind), Some(ErrorKind::Protocol));
}

#[test]
fn interim_replies_of_a_proxy_count_towards_its_limit() {
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let mut endless = conn("http://p", "https://h/", None);
    write_all(&mut endless, at(0));
    let mut fed = 0;
    while endless.step() == Step::Read && fed < 1 << 20 {
        endless.feed(interim, at(1), &mut Recorder::default());
        fed += interim.len();
    }
    assert!(fed < 17 << 10, "{fed} bytes");
    assert_eq!(endless.end().failure.map(|failure| failure.kind), Some(ErrorKind::Protocol));
    // All replies at once have the same result as one after the other.
    let (_, page) = run_both_ways(|| conn("http://p", "https://h/", None), &[&interim.repeat(1_000)]);
    assert_eq!(page.expect_err("too long").kind, ErrorKind::Protocol);
}

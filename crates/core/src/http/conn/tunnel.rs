//! [`Tunnel`]: the exchange with a proxy that sets up a connection to the host.
//!
//! `CONNECT` (RFC 9110, 9.3.6) or SOCKS 5 (RFC 1928, 1929), sans-IO like everything in `conn`.
//!
//! Invariant: no byte of the proxy's response reaches the page. No byte for the host is sent before the proxy has
//! accepted the request. A response to `CONNECT` has at most [`MAX_PROXY_HEAD`] bytes. The format of SOCKS bounds its
//! responses.

use std::net::IpAddr;

use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::base::url::UrlRef;
use crate::http::proxy::{Proxy, ProxyKind};

use super::Conn;
use super::head::{self, Head, ParsedHead};
use super::limits::Limits;

/// Limit on the bytes of a response to `CONNECT`, interim responses included.
pub(crate) const MAX_PROXY_HEAD: usize = 16 << 10;
const SOCKS_VERSION: u8 = 5;
/// The second byte of a SOCKS response, if the login or the request succeeded.
const SOCKS_SUCCESS: u8 = 0;
/// The length of a SOCKS response that is not the last one: a version, and the chosen method or the result of the
/// login.
const SHORT_RESPONSE: usize = 2;
/// SOCKS authentication methods.
const NO_AUTH: u8 = 0;
const BY_PASSWORD: u8 = 2;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
/// SOCKS address types.
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;

/// A connection that is being set up through a proxy.
pub struct Tunnel {
    stage: Stage,
    /// Bytes for the proxy, and how many of them were written.
    out: Vec<u8>,
    sent: usize,
    /// Received bytes that are not parsed yet.
    received: Vec<u8>,
    /// Bytes of interim responses that were parsed and dropped.
    interim_bytes: usize,
    pub(super) deadline: Time,
}

/// What the tunnel waits for.
enum Stage {
    /// Waiting for the response to `CONNECT`.
    Connect,
    /// Waiting for the authentication method; then the login or the request is sent.
    Method { login: Option<Vec<u8>>, request: Vec<u8> },
    /// Waiting for the result of the login; then the request is sent.
    Login { request: Vec<u8> },
    /// Waiting for the result of the request.
    Reply,
}

impl Tunnel {
    /// A tunnel through this proxy to the host of `url`, or to `ip` if the proxy does not resolve names. `None` if the
    /// proxy forwards whole requests, which needs no tunnel.
    pub fn new(proxy: &Proxy, url: UrlRef<'_>, ip: Option<IpAddr>, deadline: Time) -> Option<Self> {
        if proxy.relays(url) {
            return None;
        }
        let (host, port) = (url.host(), url.port());
        let (stage, out) = if proxy.kind == ProxyKind::Http {
            let login = proxy.authorization();
            let login = login.map(|login| format!("Proxy-Authorization: {login}\r\n")).unwrap_or_default();
            let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{login}\r\n");
            (Stage::Connect, request.into_bytes())
        } else {
            let request = socks_request(host, ip.filter(|_| !proxy.resolves()), port);
            let login = proxy.login.as_ref().map(|login| {
                const LOGIN_VERSION: u8 = 1;
                // The length is one byte. Longer names and passwords are refused when the proxy URL is parsed.
                let length = |text: &[u8]| u8::try_from(text.len()).unwrap_or(u8::MAX);
                let (name, password) = (&*login.name, &*login.password);
                [&[LOGIN_VERSION, length(name)], name, &[length(password)], password].concat()
            });
            // The number of offered methods, then the methods.
            let greeting = if login.is_some() {
                vec![SOCKS_VERSION, 2, NO_AUTH, BY_PASSWORD]
            } else {
                vec![SOCKS_VERSION, 1, NO_AUTH]
            };
            (Stage::Method { login, request }, greeting)
        };
        Some(Self { stage, out, sent: 0, received: Vec::new(), interim_bytes: 0, deadline })
    }

    pub(super) fn pending(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes).min(self.out.len());
    }

    /// Processes bytes from the proxy. Once the tunnel is set up, returns the bytes after the proxy's response, which
    /// come from the host. They may be empty.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let before = self.received.len();
        self.received.extend_from_slice(bytes);
        if matches!(self.stage, Stage::Connect) {
            return self.parse_connect_response(before);
        }
        while let Some(is_last) = self.parse_socks_response()? {
            if is_last {
                return Ok(Some(std::mem::take(&mut self.received)));
            }
        }
        Ok(None)
    }

    /// Parses the response to `CONNECT`. Returns the same as `feed`. The first `searched` received bytes do not contain
    /// the end of a head.
    fn parse_connect_response(&mut self, mut searched: usize) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let room = MAX_PROXY_HEAD.saturating_sub(self.interim_bytes);
            let Some(end) = head::end_of_head(&self.received, searched) else {
                head::check_opening(&self.received).map_err(|_| not_http())?;
                if self.received.len() > room {
                    return Err(not_http());
                }
                return Ok(None);
            };
            if end > room {
                return Err(not_http());
            }
            let limits = Limits { max_head: MAX_PROXY_HEAD, ..Limits::default() };
            let raw = self.received.get(..end).unwrap_or_default();
            let Ok(ParsedHead::Whole(head, _)) = Head::parse(raw, &limits) else { return Err(not_http()) };
            self.received.drain(..end);
            match head.status {
                100..=199 => (searched, self.interim_bytes) = (0, self.interim_bytes + end),
                200..=299 => return Ok(Some(std::mem::take(&mut self.received))),
                status => return Err(refused_by_proxy(status)),
            }
        }
    }

    /// Parses one SOCKS response. Returns whether it is the last one; `None` if it is not complete.
    fn parse_socks_response(&mut self) -> Result<Option<bool>, Failure> {
        let not_socks = || Failure::new(ErrorKind::Protocol, "the proxy does not use SOCKS 5");
        match (&mut self.stage, self.received.as_slice()) {
            (_, []) => Ok(None),
            (Stage::Method { .. } | Stage::Reply, [version, ..]) if *version != SOCKS_VERSION => Err(not_socks()),
            (Stage::Method { login, request }, [_, method, ..]) => {
                let request = std::mem::take(request);
                match (*method, login.take()) {
                    (NO_AUTH, _) => self.next_stage(request, Stage::Reply),
                    (BY_PASSWORD, Some(login)) => self.next_stage(login, Stage::Login { request }),
                    (NO_ACCEPTABLE_METHOD, None) => {
                        return Err(protocol_failure(
                            "the proxy requires a user name and password: put them into the proxy URL",
                        ));
                    }
                    _ => {
                        return Err(protocol_failure(
                            "the proxy requires an authentication method that is not supported",
                        ));
                    }
                }
                Ok(Some(false))
            }
            (Stage::Login { request }, [_, SOCKS_SUCCESS, ..]) => {
                let request = std::mem::take(request);
                self.next_stage(request, Stage::Reply);
                Ok(Some(false))
            }
            (Stage::Login { .. }, [_, _, ..]) => Err(protocol_failure("the proxy rejected the user name or password")),
            (Stage::Reply, [_, code, ..]) if *code != SOCKS_SUCCESS => Err(socks_failure(*code)),
            (Stage::Reply, [_, _, _, kind, rest @ ..]) => {
                let address_len = match (*kind, rest.first()) {
                    (ADDRESS_IPV4, _) => 4,
                    (ADDRESS_IPV6, _) => 16,
                    (ADDRESS_NAME, Some(length)) => 1 + usize::from(*length),
                    (ADDRESS_NAME, None) => return Ok(None),
                    _ => return Err(not_socks()),
                };
                // Version, reply code, a reserved byte and the address type; the address; the port.
                let reply_len = 4 + address_len + 2;
                if self.received.len() < reply_len {
                    return Ok(None);
                }
                self.received.drain(..reply_len);
                Ok(Some(true))
            }
            _ => Ok(None),
        }
    }

    /// Drops the response that was just parsed, and sends `out`. Then the tunnel waits for the response of `stage`.
    fn next_stage(&mut self, out: Vec<u8>, stage: Stage) {
        self.received.drain(..SHORT_RESPONSE);
        (self.out, self.sent, self.stage) = (out, 0, stage);
    }
}

impl Conn {
    /// Sets up the connection through the tunnel first, if there is one.
    #[must_use]
    pub fn through(mut self, tunnel: Option<Tunnel>) -> Self {
        self.tunnel = tunnel.map(Box::new);
        self
    }
}

fn socks_request(host: &str, ip: Option<IpAddr>, port: u16) -> Vec<u8> {
    const CONNECT: u8 = 1;
    const RESERVED: u8 = 0;
    let mut request = vec![SOCKS_VERSION, CONNECT, RESERVED];
    match ip.or_else(|| crate::http::proxy::ip_literal(host)) {
        Some(IpAddr::V4(ipv4)) => request.extend([&[ADDRESS_IPV4][..], &ipv4.octets()].concat()),
        Some(IpAddr::V6(ipv6)) => request.extend([&[ADDRESS_IPV6][..], &ipv6.octets()].concat()),
        None => {
            // The length is one byte. Host names that DNS can carry are shorter than 255 bytes, so they are not cut.
            let name = host.as_bytes().get(..255).unwrap_or(host.as_bytes());
            request.extend([&[ADDRESS_NAME, u8::try_from(name.len()).unwrap_or(u8::MAX)], name].concat());
        }
    }
    request.extend(port.to_be_bytes());
    request
}

fn not_http() -> Failure {
    Failure::new(ErrorKind::Protocol, "the proxy's response to CONNECT is not HTTP, or is longer than 16 KiB")
}

fn protocol_failure(message: &str) -> Failure {
    Failure::new(ErrorKind::Protocol, message)
}

/// Translates the HTTP status of a proxy that did not make the connection.
pub(crate) fn refused_by_proxy(status: u16) -> Failure {
    match status {
        407 => protocol_failure(
            "the proxy answered 407: it requires another user name and password; put them into the proxy URL",
        ),
        500..=599 => Failure::new(ErrorKind::Unreachable, format!("the proxy could not connect: it answered {status}")),
        _ => Failure::new(ErrorKind::Protocol, format!("the proxy refused to connect: it answered {status}")),
    }
}

/// Translates the reply code of a SOCKS proxy that did not make the connection (RFC 1928, section 6).
fn socks_failure(code: u8) -> Failure {
    let (kind, message) = match code {
        2 => (ErrorKind::Protocol, "its rules do not allow it"),
        3 => (ErrorKind::Unreachable, "the network is unreachable"),
        4 => (ErrorKind::Unreachable, "the host is unreachable"),
        5 => (ErrorKind::ConnectRefused, "the host refused"),
        6 => (ErrorKind::Unreachable, "the TTL expired"),
        7 | 8 => (ErrorKind::Protocol, "it does not support this kind of address"),
        _ => (ErrorKind::Unreachable, "it gives no reason"),
    };
    Failure::new(kind, format!("the proxy could not connect: {message}"))
}

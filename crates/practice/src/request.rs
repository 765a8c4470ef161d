//! Parsing of requests, as far as the practice server needs it.
//!
//! Invariant: nothing is copied. A [`ReceivedRequest`] borrows from the received bytes, and `parse` returns how many it
//! used.

use memchr::{memchr, memmem};

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReceivedRequest<'a> {
    pub(crate) method: &'a str,
    /// Path and query as requested. An absolute target, as sent to a proxy, loses its scheme and host.
    pub(crate) target: &'a str,
    /// The `Host` header; empty if there is none.
    pub(crate) host: &'a str,
    /// The body, as long as `Content-Length` says.
    pub(crate) body: &'a [u8],
    /// Whether the connection closes after the response: the client requests it, or uses HTTP/1.0 without keep-alive, or
    /// sends a body that is not read.
    pub(crate) is_last: bool,
    pub(crate) user_agent: &'a str,
    /// All header lines.
    lines: &'a [u8],
}

/// The result of `parse`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedRequest<'a> {
    /// A complete request, and its length in bytes.
    Whole(ReceivedRequest<'a>, usize),
    /// More bytes are needed.
    Partial,
    /// The bytes are not an HTTP/1 request.
    Malformed,
}

/// The longest body that is parsed. Only two kinds of requests can have bodies of this length: those over HTTP/2, which
/// are rewritten as HTTP/1.1 text, and those to raw servers. A site closes an HTTP/1.1 connection at the smaller
/// `MAX_INPUT` of `connection.rs`.
const MAX_BODY: usize = 4 << 20;

/// The longest head a practice server reads.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// Parses the request at the start of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> ParsedRequest<'_> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > MAX_HEAD { ParsedRequest::Malformed } else { ParsedRequest::Partial };
    };
    let head = &bytes[..end + 2];
    let first_line_end = memchr(b'\n', head).map_or(head.len(), |at| at + 1);
    let (first_line, lines) = head.split_at(first_line_end);
    let Ok(first_line) = str::from_utf8(first_line) else { return ParsedRequest::Malformed };
    let mut words = first_line.trim_end().split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return ParsedRequest::Malformed;
    };
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return ParsedRequest::Malformed;
    }
    let mut request = ReceivedRequest {
        method,
        target: path_of(target),
        host: "",
        body: &[],
        is_last: version == "HTTP/1.0",
        user_agent: "",
        lines,
    };
    let mut body_length = 0;
    let mut has_unread_body = false;
    for (name, value) in headers(lines) {
        // For speed, the length is compared first.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => request.host = value,
            10 if name.eq_ignore_ascii_case("connection") => {
                if value.eq_ignore_ascii_case("close") {
                    request.is_last = true;
                } else if value.eq_ignore_ascii_case("keep-alive") {
                    request.is_last = false;
                }
            }
            10 if name.eq_ignore_ascii_case("user-agent") => request.user_agent = value,
            14 if name.eq_ignore_ascii_case("content-length") => match value.parse() {
                Ok(declared) if declared <= MAX_BODY => body_length = declared,
                _ => has_unread_body = true,
            },
            17 if name.eq_ignore_ascii_case("transfer-encoding") => has_unread_body = true,
            _ => {}
        }
    }
    // Even with `Connection: keep-alive`, the bytes of such a body must not be parsed as the next request.
    request.is_last |= has_unread_body;
    match bytes.get(end + 4..end + 4 + body_length) {
        Some(body) => ParsedRequest::Whole(ReceivedRequest { body, ..request }, end + 4 + body_length),
        None => ParsedRequest::Partial,
    }
}

impl<'a> ReceivedRequest<'a> {
    /// Header lines in order, without those that are not UTF-8.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        headers(self.lines)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The host without its port, which is the unit of politeness.
    pub(crate) fn host_name(&self) -> &'a str {
        host_name(self.host)
    }
}

/// The names and values of header lines; lines that are not UTF-8 are skipped.
fn headers(lines: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            if let Some((name, value)) = str::from_utf8(line).ok().and_then(|line| line.split_once(':')) {
                return Some((name, value.trim()));
            }
        }
        None
    })
}

/// `example.test:8080` without the port; brackets of IPv6 stay.
pub(crate) fn host_name(host: &str) -> &str {
    match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => &host[..at],
        _ => host,
    }
}

/// Path and query of a target, which may be a whole URL.
fn path_of(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else { return target };
    rest.find('/').map_or("/", |at| &rest[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_and_its_length_returned() {
        let bytes = b"GET /a?b HTTP/1.1\r\nHost: x.test:80\r\nUser-Agent: me/1\r\nX: y\r\n\r\nGET /next";
        let ParsedRequest::Whole(request, used) = parse(bytes) else { panic!("not whole") };
        assert_eq!((request.method, request.target, request.host_name()), ("GET", "/a?b", "x.test"));
        assert_eq!((request.user_agent, request.is_last), ("me/1", false));
        assert_eq!(request.header("x"), Some("y"));
        assert_eq!(&bytes[used..], b"GET /next");
    }

    #[test]
    fn a_body_belongs_to_its_request() {
        let bytes = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nx=1GET /next";
        let ParsedRequest::Whole(request, used) = parse(bytes) else { panic!("not whole") };
        assert_eq!((request.method, request.body, request.is_last), ("POST", &b"x=1"[..], false));
        assert_eq!(&bytes[used..], b"GET /next");
        assert_eq!(parse(&bytes[..used - 1]), ParsedRequest::Partial);
    }

    #[test]
    fn every_prefix_of_a_request_is_partial() {
        let bytes = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), ParsedRequest::Partial, "cut at {cut}");
        }
    }

    #[test]
    fn keep_alive_depends_on_version_and_header() {
        let is_last =
            |text: &str| matches!(parse(text.as_bytes()), ParsedRequest::Whole(request, _) if request.is_last);
        assert!(!is_last("GET / HTTP/1.1\r\n\r\n"));
        assert!(is_last("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert!(is_last("GET / HTTP/1.0\r\n\r\n"));
        assert!(!is_last("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn a_request_whose_body_is_not_read_is_the_last_one() {
        let too_long = format!("Content-Length: {}", MAX_BODY + 1);
        for line in ["Transfer-Encoding: chunked", "Content-Length: x", &too_long] {
            for text in [
                format!("POST / HTTP/1.1\r\n{line}\r\nConnection: keep-alive\r\n\r\n"),
                format!("POST / HTTP/1.1\r\nConnection: keep-alive\r\n{line}\r\n\r\n"),
            ] {
                let ParsedRequest::Whole(request, _) = parse(text.as_bytes()) else { panic!("not whole") };
                assert!(request.is_last, "{text}");
            }
        }
    }

    #[test]
    fn input_that_is_not_http_is_malformed() {
        assert_eq!(parse(b"\x16\x03\x01 tls\r\n\r\n"), ParsedRequest::Malformed);
        assert_eq!(parse(b"GET /\r\n\r\n"), ParsedRequest::Malformed);
        assert_eq!(parse(&vec![b'a'; MAX_HEAD + 1]), ParsedRequest::Malformed);
    }

    #[test]
    fn the_port_of_a_host_and_the_origin_of_a_target_are_removed() {
        assert_eq!(host_name("a.test:80"), "a.test");
        assert_eq!(host_name("[::1]:80"), "[::1]");
        assert_eq!(host_name("[::1]"), "[::1]");
        assert_eq!(host_name("a.test"), "a.test");
        assert_eq!(path_of("http://a.test:1/x?y"), "/x?y");
        assert_eq!(path_of("http://a.test"), "/");
        assert_eq!(path_of("/go?to=http://b/"), "/go?to=http://b/");
    }
}

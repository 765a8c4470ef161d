//! Header blocks of requests, and heads of responses from header blocks.
//!
//! Invariant: the head of a response contains no byte that ends a line in HTTP/1.1 syntax, and no framing field except
//! `content-length`.

use crate::base::outcome::{ErrorKind, Failure};
use crate::http::conn::request::RequestHead;
use crate::http::conn::{Head, HeadFields};

use super::hpack::{self, HpackError};

/// Connection-specific fields: they have no meaning in HTTP/2 and make a head malformed (RFC 9113, 8.2.2).
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// The header block of a request.
pub fn request_block(is_https: bool, request: &RequestHead<'_>) -> Vec<u8> {
    let mut block = Vec::with_capacity(256);
    hpack::encode(&mut block, b":method", request.method().as_bytes());
    hpack::encode(&mut block, b":scheme", if is_https { b"https" } else { b"http" });
    hpack::encode(&mut block, b":authority", request.url.authority().as_bytes());
    hpack::encode(&mut block, b":path", request.target().as_bytes());
    let mut lower_name = Vec::new();
    request.for_each_field(|name, value| {
        lower_name.clear();
        lower_name.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
        if !CONNECTION_FIELDS.contains(&lower_name.as_slice()) {
            hpack::encode(&mut block, &lower_name, value.trim_ascii());
        }
    });
    block
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) head: Head,
    /// How many bytes of data follow, if the head says so.
    pub(super) content_length: Option<u64>,
}

/// What is wrong with a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// The header block could not be decoded: an error of the connection.
    Compression(&'static str),
    /// An error of the stream.
    Stream(Failure),
}

impl From<HpackError> for HeadFault {
    fn from(error: HpackError) -> Self {
        match error {
            HpackError::Malformed(why) => Self::Compression(why),
            HpackError::TooLarge => Self::Stream(too_large()),
        }
    }
}

pub(super) fn too_large() -> Failure {
    Failure::new(ErrorKind::HeaderTooLarge, "the fields of the head take more than the limit")
}

fn malformed(why: &'static str) -> HeadFault {
    HeadFault::Stream(Failure::new(ErrorKind::Protocol, why))
}

/// Decodes the head of a response. `limit` is that of [`hpack::decode`].
pub(super) fn response(block: &[u8], limit: usize) -> Result<ResponseHead, HeadFault> {
    let mut status = None;
    let mut fields = HeadFields::default();
    let (mut content_length, mut fault) = (None, None);
    hpack::decode(block, limit, |name, value| {
        if fault.is_some() {
            return;
        }
        if name.first() == Some(&b':') {
            match (name, status, fields.is_empty()) {
                (b":status", None, true) => match status_code(value) {
                    Some(code) => status = Some(code),
                    None => fault = Some("a :status that is not three digits"),
                },
                (b":status", ..) => fault = Some("a second :status, or one after a field"),
                _ => fault = Some("a pseudo-header field that responses do not have"),
            }
            return;
        }
        fault = field_fault(name, value);
        if fault.is_none() {
            if name == b"content-length" {
                content_length = parse_digits(value);
            }
            fields.push(name, value);
        }
    })?;
    if let Some(why) = fault {
        return Err(malformed(why));
    }
    let Some(status) = status else { return Err(malformed("a response without :status")) };
    if status == 101 {
        return Err(malformed("101 does not exist in HTTP/2"));
    }
    // A response without a body may have a content-length too. It then does not say how many bytes follow.
    let has_body = status >= 200 && status != 204 && status != 304;
    let head = Head::from_fields(status, fields);
    Ok(ResponseHead { head, content_length: content_length.filter(|_| has_body) })
}

/// Checks trailers. Their fields are not used.
pub(super) fn trailers(block: &[u8], limit: usize) -> Result<(), HeadFault> {
    let mut fault = None;
    hpack::decode(block, limit, |name, value| {
        let why = if name.first() == Some(&b':') {
            Some("a pseudo-header field in trailers")
        } else {
            field_fault(name, value)
        };
        fault = fault.or(why);
    })?;
    fault.map_or(Ok(()), |why| Err(malformed(why)))
}

fn status_code(value: &[u8]) -> Option<u16> {
    let [first @ b'1'..=b'9', second @ b'0'..=b'9', third @ b'0'..=b'9'] = value else { return None };
    Some([first, second, third].iter().fold(0, |code, digit| code * 10 + u16::from(**digit - b'0')))
}

/// The number that the value consists of; `None` if it has other characters than digits, or is too large.
fn parse_digits(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// What makes a field malformed (RFC 9113, 8.2).
fn field_fault(name: &[u8], value: &[u8]) -> Option<&'static str> {
    let is_token = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(is_token) {
        return Some("a field name with an upper-case letter or a character that names cannot have");
    }
    if CONNECTION_FIELDS.contains(&name) {
        return Some("a connection-specific field, which HTTP/2 forbids");
    }
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    if !value.iter().all(is_text) {
        return Some("a field with a control character in its value");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::url::UrlRef;

    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
        }
        block
    }

    #[test]
    fn a_request_is_encoded_as_these_fields() {
        let url = UrlRef::from_normal("https://h.example:81/a?b").unwrap();
        let extra = [("Keep-Alive", "1"), ("X-A", " 1 "), ("X-B", "1\r\nX-C: 2")];
        let request = RequestHead { extra: &extra, ..RequestHead::get(url, "argiope/1") };
        let mut fields = Vec::new();
        hpack::decode(&request_block(true, &request), 1 << 16, |name, value| {
            fields.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
        })
        .unwrap();
        let expected = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "h.example:81"),
            (":path", "/a?b"),
            ("user-agent", "argiope/1"),
            ("accept-encoding", "gzip, deflate, br, zstd"),
            ("x-a", "1"),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_response_head_can_be_written_in_http1_syntax() {
        let head = response(&block(&[(":status", "404"), ("content-length", "12"), ("x", "a b")]), 1 << 16).unwrap();
        let text = b"HTTP/1.1 404 \r\ncontent-length: 12\r\nx: a b\r\n\r\n";
        assert_eq!((&*head.head.text(), head.head.size()), (&text[..], text.len()));
        assert_eq!((head.head.status, head.head.get("X"), head.content_length), (404, Some(&b"a b"[..]), Some(12)));
        let head = response(&block(&[(":status", "304"), ("content-length", "12")]), 1 << 16).unwrap();
        assert_eq!(head.content_length, None, "the length in a 304 is that of the page, which does not follow");
    }

    #[test]
    fn malformed_heads_and_trailers_are_refused() {
        let cases: [&[(&str, &str)]; 14] = [
            &[],
            &[("x", "1")],
            &[(":status", "20")],
            &[(":status", "099")],
            &[(":status", "101")],
            &[(":status", "200"), (":status", "200")],
            &[("x", "1"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "200"), ("Content-Type", "text/html")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[(":status", "200"), ("x", "a\r\nset-cookie: b")],
            &[(":status", "200"), ("x y", "1")],
            &[(":status", "200"), ("", "1")],
        ];
        for fields in cases {
            match response(&block(fields), 1 << 16) {
                Err(HeadFault::Stream(failure)) => assert_eq!(failure.kind, ErrorKind::Protocol, "{fields:?}"),
                other => panic!("{fields:?}: {other:?}"),
            }
        }
        assert!(trailers(&block(&[("x-digest", "1")]), 1 << 16).is_ok());
        assert!(trailers(&block(&[(":status", "200")]), 1 << 16).is_err());
    }
}

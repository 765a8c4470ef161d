//! Translation of heads between HTTP/2 fields and HTTP/1.1 syntax.
//!
//! Invariant: a translated response head contains no byte that ends a line in HTTP/1.1 syntax, and no framing field
//! except `content-length`.

use crate::base::outcome::{ErrorKind, Failure};

use super::hpack::{self, HpackError};

/// Connection-specific fields: they have no meaning in HTTP/2 and make a head malformed (RFC 9113, 8.2.2).
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// The header block of a request that is given in HTTP/1.1 syntax.
pub fn request_block(is_https: bool, request: &[u8]) -> Vec<u8> {
    let mut lines = request.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut request_line = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
    let (method, target) = (request_line.next().unwrap_or(b"GET"), request_line.next().unwrap_or(b"/"));
    let fields = lines.filter_map(|line| {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        Some((name, value.get(1..).unwrap_or_default().trim_ascii()))
    });
    let is_host = |name: &[u8]| name.eq_ignore_ascii_case(b"host");
    let host = fields.clone().find(|(name, _)| is_host(name)).map_or(&b""[..], |(_, value)| value);
    let mut block = Vec::with_capacity(request.len());
    hpack::encode(&mut block, b":method", method);
    hpack::encode(&mut block, b":scheme", if is_https { b"https" } else { b"http" });
    hpack::encode(&mut block, b":authority", host);
    hpack::encode(&mut block, b":path", target);
    let mut lower_name = Vec::new();
    for (name, value) in fields.filter(|(name, _)| !is_host(name)) {
        lower_name.clear();
        lower_name.extend(name.iter().map(u8::to_ascii_lowercase));
        if !CONNECTION_FIELDS.contains(&lower_name.as_slice()) {
            hpack::encode(&mut block, &lower_name, value);
        }
    }
    block
}

/// The head of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    /// In HTTP/1.1 syntax, with the empty line at its end.
    pub(super) text: Vec<u8>,
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
    let mut text = Vec::with_capacity(block.len() * 2 + 64);
    // The status is filled in at the end.
    text.extend_from_slice(b"HTTP/1.1 000 \r\n");
    let (mut content_length, mut fault) = (None, None);
    let mut has_fields = false;
    hpack::decode(block, limit, |name, value| {
        if fault.is_some() {
            return;
        }
        if name.first() == Some(&b':') {
            match (name, status, has_fields) {
                (b":status", None, false) => match status_code(value) {
                    Some(code) => status = Some(code),
                    None => fault = Some("a :status that is not three digits"),
                },
                (b":status", ..) => fault = Some("a second :status, or one after a field"),
                _ => fault = Some("a pseudo-header field that responses do not have"),
            }
            return;
        }
        has_fields = true;
        fault = field_fault(name, value);
        if fault.is_none() {
            if name == b"content-length" {
                content_length = parse_digits(value);
            }
            for part in [name, b": ", value, b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
    })?;
    if let Some(why) = fault {
        return Err(malformed(why));
    }
    let Some(status) = status else { return Err(malformed("a response without :status")) };
    if status == 101 {
        return Err(malformed("101 does not exist in HTTP/2"));
    }
    text.extend_from_slice(b"\r\n");
    if let Some(status_digits) = text.get_mut(9..12) {
        status_digits.copy_from_slice(format!("{status:03}").as_bytes());
    }
    // A response without a body may have a content-length too. It then does not say how many bytes follow.
    let has_body = status >= 200 && status != 204 && status != 304;
    Ok(ResponseHead { status, text, content_length: content_length.filter(|_| has_body) })
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

    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
        }
        block
    }

    #[test]
    fn a_request_is_encoded_as_these_fields() {
        let request = b"GET /a?b HTTP/1.1\r\nHost: h.example:81\r\nUser-Agent: argiope/1\r\nConnection: close\r\nX-A:  1 \r\n\r\n";
        let mut fields = Vec::new();
        hpack::decode(&request_block(true, request), 1 << 16, |name, value| {
            fields.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
        })
        .unwrap();
        let expected = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "h.example:81"),
            (":path", "/a?b"),
            ("user-agent", "argiope/1"),
            ("x-a", "1"),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_response_head_is_written_in_http1_syntax() {
        let head = response(&block(&[(":status", "404"), ("content-length", "12"), ("x", "a b")]), 1 << 16).unwrap();
        assert_eq!(head.text, b"HTTP/1.1 404 \r\ncontent-length: 12\r\nx: a b\r\n\r\n");
        assert_eq!((head.status, head.content_length), (404, Some(12)));
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

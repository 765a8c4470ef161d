//! The bytes of a request.
//!
//! Invariant: one request, exactly: nothing that is handed in can end a line or begin a second request. Fields that
//! could are left out.

use crate::url::UrlRef;

/// The content codings that are asked for; all of them can be decoded.
pub const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";

/// What to ask for, and as whom.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub url: UrlRef<'a>,
    pub user_agent: &'a str,
    /// The kinds of documents that are welcome; left out where empty.
    pub accept: &'a str,
    /// More fields, as (name, value). They replace a field of the same name that would be sent anyway, but `Host`.
    pub extra: &'a [(&'a str, &'a str)],
    /// Ask only for what has changed: the `ETag` of the answer that is known.
    pub etag: Option<&'a str>,
    /// Ask only for what has changed: the `Last-Modified` of the answer that is known.
    pub last_modified: Option<&'a str>,
}

impl Request<'_> {
    /// A GET of HTTP/1.1. There is no Referer, and keeping the connection is that version's own default.
    pub fn to_bytes(&self) -> Vec<u8> {
        let target = self.url.target();
        let mut bytes = Vec::with_capacity(256 + target.len());
        bytes.extend_from_slice(b"GET ");
        bytes.extend_from_slice(if target.is_empty() { b"/" } else { target.as_bytes() });
        bytes.extend_from_slice(b" HTTP/1.1\r\n");
        push(&mut bytes, "Host", self.url.authority());
        let own = [
            ("User-Agent", Some(self.user_agent)),
            ("Accept", Some(self.accept)),
            ("Accept-Encoding", Some(ACCEPT_ENCODING)),
            ("If-None-Match", self.etag),
            ("If-Modified-Since", self.last_modified),
        ];
        for (name, value) in own {
            let replaced = self.extra.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if let (Some(value), false) = (value.filter(|value| !value.is_empty()), replaced) {
                push(&mut bytes, name, value);
            }
        }
        for (name, value) in self.extra {
            if !FIXED.iter().any(|fixed| name.eq_ignore_ascii_case(fixed)) {
                push(&mut bytes, name, value);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// Fields that say where a message goes and where it ends: not for users to set.
const FIXED: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "upgrade"];

fn push(bytes: &mut Vec<u8>, name: &str, value: &str) {
    if is_name(name) && is_value(value) {
        for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
}

/// May this stand as the name of a header field?
pub fn is_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// May this stand as the value of a header field?
pub fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl FnOnce(&mut Request<'static>)) -> String {
        let url = UrlRef::from_normal("http://example.org:8080/a/b?c=d").unwrap();
        let mut request =
            Request { url, user_agent: "argiope/1", accept: "*/*", extra: &[], etag: None, last_modified: None };
        change(&mut request);
        String::from_utf8(request.to_bytes()).unwrap()
    }

    #[test]
    fn a_request_byte_by_byte() {
        assert_eq!(
            text(|_| {}),
            "GET /a/b?c=d HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: argiope/1\r\nAccept: */*\r\n\
             Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
        );
    }

    #[test]
    fn conditions_and_more_fields() {
        let text = text(|request| {
            request.etag = Some("W/\"x\"");
            request.last_modified = Some("Sun, 06 Nov 1994 08:49:37 GMT");
            request.extra = &[("X-A", "1"), ("accept", "text/html")];
        });
        assert!(text.contains("\r\nIf-None-Match: W/\"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
        assert!(text.ends_with("\r\nX-A: 1\r\naccept: text/html\r\n\r\n"));
        assert!(!text.contains("*/*"));
    }

    #[test]
    fn nothing_can_break_out_of_its_line() {
        let text = text(|request| {
            request.etag = Some("x\r\nX-Evil: 1");
            request.extra = &[
                ("X-B", "1\nX-Evil: 2"),
                ("X:C", "1"),
                ("", "1"),
                ("Host", "evil"),
                ("Content-Length", "5"),
                ("X-D", "\0"),
            ];
        });
        assert_eq!(text.lines().count(), 6);
        assert!(!text.contains("vil"));
    }
}

//! The bytes of a request.
//!
//! Invariant: the bytes are exactly one request. Fields whose name or value could end a line, and so begin another
//! field or request, are left out.

use std::borrow::Cow;

use crate::base::custom_request::Method;
use crate::base::url::UrlRef;
use crate::http::proxy::Proxy;

/// The content codings that are requested. All of them can be decoded.
pub const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";

/// A request: target and header fields.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: Method,
    /// Length of the body that follows; `None` if there is no body.
    pub content_length: Option<usize>,
    pub url: UrlRef<'a>,
    /// The path and query to send in place of those of the URL.
    pub target: Option<&'a str>,
    pub user_agent: &'a str,
    /// Value of `Accept`; left out if empty.
    pub accept: &'a str,
    /// Additional fields as (name, value). They replace default fields of the same name. Fields that users cannot set
    /// are left out, see [`is_fixed`].
    pub extra: &'a [(&'a str, &'a str)],
    /// Conditional request: the `ETag` of the known response.
    pub etag: Option<&'a str>,
    /// Conditional request: the `Last-Modified` of the known response.
    pub last_modified: Option<&'a str>,
    /// Value of `Cookie`.
    pub cookie: Option<&'a [u8]>,
    /// The proxy that forwards this request; `None` if the request goes to the host, directly or through a tunnel.
    pub proxy: Option<&'a Proxy>,
    /// Send HEAD in place of `method`.
    pub head_only: bool,
}

impl<'a> RequestHead<'a> {
    /// A GET without further fields.
    pub fn get(url: UrlRef<'a>, user_agent: &'a str) -> Self {
        Self {
            method: Method::Get,
            content_length: None,
            url,
            target: None,
            user_agent,
            accept: "",
            extra: &[],
            etag: None,
            last_modified: None,
            cookie: None,
            proxy: None,
            head_only: false,
        }
    }

    /// The head of an HTTP/1.1 request. It has no `Referer`. Keep-alive is the default of HTTP/1.1, so it is not
    /// requested.
    pub fn to_bytes(&self) -> Vec<u8> {
        let target = if self.proxy.is_some() { self.absolute_target() } else { self.target().into() };
        let mut bytes = Vec::with_capacity(256 + target.len());
        for part in [self.method(), " ", &target, " HTTP/1.1\r\n"] {
            bytes.extend_from_slice(part.as_bytes());
        }
        push_field(&mut bytes, "Host", self.url.authority().as_bytes());
        self.for_each_field(|name, value| push_field(&mut bytes, name, value));
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// The method that is sent.
    pub fn method(&self) -> &'static str {
        if self.head_only { "HEAD" } else { self.method.as_str() }
    }

    /// The target that the host receives.
    pub fn target(&self) -> &str {
        match self.target.unwrap_or(self.url.target()) {
            "" => "/",
            target => target,
        }
    }

    /// The target that a proxy receives: the whole URL.
    fn absolute_target(&self) -> Cow<'a, str> {
        let url = self.url.as_str();
        match self.target {
            None => url.into(),
            Some(target) => format!("{}{target}", url.strip_suffix(self.url.target()).unwrap_or(url)).into(),
        }
    }

    /// Passes on all fields but `Host`, in order. Fields whose name or value is invalid are left out.
    pub fn for_each_field(&self, mut field: impl FnMut(&str, &[u8])) {
        let mut field = |name: &str, value: &[u8]| {
            if is_name(name) && is_value(value) {
                field(name, value);
            }
        };
        let login = self.proxy.and_then(Proxy::authorization);
        let default_fields = [
            ("Proxy-Authorization", login.as_deref().map(str::as_bytes)),
            ("User-Agent", Some(self.user_agent.as_bytes())),
            ("Accept", Some(self.accept.as_bytes())),
            ("Accept-Encoding", Some(ACCEPT_ENCODING.as_bytes())),
            ("If-None-Match", self.etag.map(str::as_bytes)),
            ("If-Modified-Since", self.last_modified.map(str::as_bytes)),
            ("Cookie", self.cookie),
        ];
        for (name, value) in default_fields {
            let is_replaced = self.extra.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if let (Some(value), false) = (value.filter(|value| !value.is_empty()), is_replaced) {
                field(name, value);
            }
        }
        for (name, value) in self.extra.iter().filter(|(name, _)| !is_fixed(name)) {
            field(name, value.as_bytes());
        }
        if let Some(length) = self.content_length {
            field("Content-Length", length.to_string().as_bytes());
        }
    }
}

/// Fields that route or frame the message. Users cannot set them.
const FIXED: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "upgrade"];

/// True for a field that routes or frames the message.
pub fn is_fixed(name: &str) -> bool {
    FIXED.iter().any(|fixed| name.eq_ignore_ascii_case(fixed))
}

fn push_field(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        bytes.extend_from_slice(part);
    }
}

/// True if this is a valid header field name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(super::head::is_token)
}

/// True if this is a valid header field value.
pub fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request for a fixed URL, after `change`, as text.
    fn text(change: impl FnOnce(&mut RequestHead<'static>)) -> String {
        let url = UrlRef::from_normal("http://example.org:8080/a/b?c=d").unwrap();
        let mut request = RequestHead { accept: "*/*", ..RequestHead::get(url, "argiope/1") };
        change(&mut request);
        String::from_utf8(request.to_bytes()).unwrap()
    }

    #[test]
    fn a_request_has_exactly_these_bytes() {
        assert_eq!(
            text(|_| {}),
            "GET /a/b?c=d HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: argiope/1\r\nAccept: */*\r\n\
             Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
        );
    }

    #[test]
    fn a_request_with_a_body_has_its_own_content_length() {
        let text = text(|request| {
            (request.method, request.content_length) = (Method::Post, Some(11));
            request.extra = &[("Content-Type", "application/x-www-form-urlencoded"), ("content-length", "7")];
        });
        assert!(text.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{text}");
        let end = "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn conditional_and_additional_fields_are_sent() {
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
    fn a_forwarding_proxy_gets_the_whole_url_and_the_login() {
        let proxies = crate::http::proxy::Proxies::new(Some("http://me:pw@p:1"), |_| None).unwrap();
        let url = UrlRef::from_normal("http://example.org:8080/a/b?c=d").unwrap();
        let proxy = &**proxies.of(url).unwrap();
        let bytes = RequestHead {
            method: Method::Get,
            content_length: None,
            url,
            target: None,
            user_agent: "a",
            accept: "",
            extra: &[],
            etag: None,
            last_modified: None,
            cookie: None,
            proxy: Some(proxy),
            head_only: false,
        }
        .to_bytes();
        let text = String::from_utf8(bytes).unwrap();
        let start = "GET http://example.org:8080/a/b?c=d HTTP/1.1\r\nHost: example.org:8080\r\nProxy-Authorization: Basic bWU6cHc=\r\n";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn a_cookie_header_of_the_user_replaces_that_of_the_jar() {
        let jar = text(|request| request.cookie = Some(b"a=1; b=2"));
        assert!(jar.ends_with("\r\nCookie: a=1; b=2\r\n\r\n"), "{jar}");
        let replaced = text(|request| (request.cookie, request.extra) = (Some(&b"a=1"[..]), &[("cookie", "mine=1")]));
        assert!(replaced.ends_with("\r\ncookie: mine=1\r\n\r\n") && !replaced.contains("a=1"), "{replaced}");
    }

    #[test]
    fn fields_with_line_breaks_are_left_out() {
        let text = text(|request| {
            request.cookie = Some(b"x\r\nX-Evil: 0");
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
        assert_eq!(text.lines().count(), 6, "the request line, four default fields and the empty line");
        assert!(!text.to_lowercase().contains("evil"));
    }
    #[test]
    fn a_target_replaces_that_of_the_url_also_through_a_proxy() {
        let url = UrlRef::from_normal("http://h.example/a?b").unwrap();
        let direct = RequestHead { target: Some("/c?d"), ..RequestHead::get(url, "a/1") };
        assert!(direct.to_bytes().starts_with(b"GET /c?d HTTP/1.1\r\nHost: h.example\r\n"));
        assert_eq!(direct.absolute_target(), "http://h.example/c?d");
    }
}

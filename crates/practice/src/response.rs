//! Scripted responses, as plain data.
//!
//! A [`Response`] describes one response and what happens to the connection after it: content, framing, speed and ending.
//! It contains no closures, so it can be compared, printed and cloned. It can also describe incorrect responses: wrong
//! lengths, truncated bodies, closing without a response.
//!
//! `script.rs` compiles the description into the bytes and pauses that a connection sends.

use std::time::Duration;

/// How the end of the body is indicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// `Content-Length` with the true length.
    Length,
    /// `Content-Length` with a wrong length.
    FalseLength(u64),
    /// `Transfer-Encoding: chunked` with chunks of these sizes; the last size repeats.
    Chunked(Vec<usize>),
    /// No length: the body ends with the connection (HTTP/1.0 style).
    UntilClose,
}

/// What happens to the connection after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    /// The connection stays open for the next request.
    KeepAlive,
    /// The response says `Connection: close`, and the server closes.
    Close,
    /// The response says `Connection: keep-alive`, but the server closes: the client's idle connection becomes stale. A
    /// truncated HTTP/1.1 response has no `Connection` header.
    UnannouncedClose,
    /// The connection is reset (TCP RST).
    Reset,
    /// Nothing more is sent and the connection stays open, even if the response is incomplete.
    Hang,
}

/// A body that is sent in small pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drip {
    /// Bytes per piece (at least 1).
    pub bytes: usize,
    /// Time between two pieces.
    pub every: Duration,
}

/// The content of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, then filler text up to `length` bytes. Filler costs no memory.
    Filled { start: Vec<u8>, length: u64 },
}

/// One scripted response. Created by a constructor, refined by methods:
///
/// ```
/// # use argiope_practice::Response;
/// # use std::time::Duration;
/// let slow = Response::links(["/a", "/b"]).delay(Duration::from_millis(200)).header("X-Speed", "slow");
/// let busy = Response::status(503).header("Retry-After", "1");
/// let truncated = Response::html("half of a pa").truncate_at(6);
/// # let _ = (slow, busy, truncated);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub(crate) status: u16,
    /// The reason phrase, if it is not that of the status.
    pub(crate) reason: Option<String>,
    pub(crate) http10: bool,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: ResponseBody,
    pub(crate) framing: ResponseFraming,
    /// Interim responses (1xx) that come first, as bytes.
    pub(crate) interim: Vec<Vec<u8>>,
    /// The pause before the first byte.
    pub(crate) delay: Duration,
    /// The pause between head and body.
    pub(crate) body_delay: Duration,
    /// Whether the response waits until the web is released.
    pub(crate) held: bool,
    pub(crate) drip: Option<Drip>,
    /// Whether `drip` applies to the head as well.
    pub(crate) drip_head: bool,
    /// The response ends after this many bytes of the body. Chunk headers count too.
    pub(crate) truncate_at: Option<u64>,
    pub(crate) ending: ResponseEnd,
    /// Bytes that are sent in place of head and body.
    pub(crate) raw: Option<Vec<u8>>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    /// Whether requests for the page are counted as violations.
    pub(crate) is_violation: bool,
    /// The response to HEAD, if it is another one.
    pub(crate) on_head: Option<Box<Response>>,
}

impl Response {
    fn new(status: u16, content_type: Option<&str>, body: Vec<u8>) -> Response {
        Response {
            status,
            reason: None,
            http10: false,
            headers: Vec::new(),
            content_type: content_type.map(str::to_owned),
            body: ResponseBody::Bytes(body),
            framing: ResponseFraming::Length,
            interim: Vec::new(),
            delay: Duration::ZERO,
            body_delay: Duration::ZERO,
            held: false,
            drip: None,
            drip_head: false,
            truncate_at: None,
            ending: ResponseEnd::KeepAlive,
            raw: None,
            etag: None,
            last_modified: None,
            is_violation: false,
            on_head: None,
        }
    }

    /// Sends another response to HEAD requests. If that is a raw response, it is sent completely, like the body that some
    /// servers send to HEAD.
    pub fn on_head(mut self, other: Response) -> Response {
        self.on_head = Some(Box::new(other));
        self
    }

    /// 200 with an HTML body, sent as UTF-8.
    pub fn html(body: impl Into<Vec<u8>>) -> Response {
        Response::new(200, Some("text/html; charset=utf-8"), body.into())
    }

    /// 200 with an HTML page that contains an `a` element for each of these links.
    pub fn links<S: AsRef<str>>(links: impl IntoIterator<Item = S>) -> Response {
        let mut html = String::from("<!doctype html>\n<title>Links</title>\n<ul>\n");
        for link in links {
            let href = link.as_ref().replace('&', "&amp;").replace('"', "&quot;");
            html.push_str(&format!("<li><a href=\"{href}\">{}</a></li>\n", href.replace('<', "&lt;")));
        }
        html.push_str("</ul>\n");
        Response::html(html)
    }

    /// 200 with plain text.
    pub fn text(body: impl Into<Vec<u8>>) -> Response {
        Response::new(200, Some("text/plain; charset=utf-8"), body.into())
    }

    /// 200 with exactly these bytes and no `Content-Type`.
    pub fn bytes(body: impl Into<Vec<u8>>) -> Response {
        Response::new(200, None, body.into())
    }

    /// 200 with an HTML page of `length` bytes: `start`, then filler text that takes no memory.
    pub fn filled(start: impl Into<Vec<u8>>, length: u64) -> Response {
        let mut response = Response::html("");
        response.body = ResponseBody::Filled { start: start.into(), length };
        response
    }

    /// A response with this status and a short HTML body (none for 1xx, 204 and 304).
    pub fn status(status: u16) -> Response {
        let body = match status {
            100..=199 | 204 | 304 => String::new(),
            _ => format!("<!doctype html>\n<title>{status}</title>\n<p>{}</p>\n", reason(status)),
        };
        Response { status, ..Response::html(body) }
    }

    /// A redirect to `target`, which is written to `Location` unchanged.
    pub fn redirect(target: &str, status: u16) -> Response {
        Response::status(status).header("Location", target)
    }

    /// Exactly these bytes on the wire, then the connection closes (unless [`Response::ending`] is set).
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Response {
        let mut response = Response::bytes("").ending(ResponseEnd::UnannouncedClose);
        response.raw = Some(bytes.into());
        response
    }

    /// Never responds: the request is read, and nothing happens until the client disconnects.
    pub fn hang() -> Response {
        Response::raw("").ending(ResponseEnd::Hang)
    }

    /// Resets the connection (TCP RST) instead of responding.
    pub fn reset() -> Response {
        Response::raw("").ending(ResponseEnd::Reset)
    }

    /// Closes the connection without a response.
    pub fn close() -> Response {
        Response::raw("")
    }

    /// Adds a header. Names may be repeated; values may be any bytes.
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Response {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Adds `count` headers of `size` bytes each.
    pub fn huge_head(mut self, count: usize, size: usize) -> Response {
        self.headers.extend((0..count).map(|n| (format!("X-Huge-{n}"), vec![b'h'; size])));
        self
    }

    /// Replaces the content type (`None` omits the header).
    pub fn content_type<'a>(mut self, value: impl Into<Option<&'a str>>) -> Response {
        self.content_type = value.into().map(str::to_owned);
        self
    }

    /// Declares a charset in the content type. The body is unchanged: see [`Response::encoded`].
    pub fn charset(mut self, label: &str) -> Response {
        let essence = self.content_type.as_deref().and_then(|t| t.split(';').next()).unwrap_or("text/html");
        self.content_type = Some(format!("{essence}; charset={label}"));
        self
    }

    /// Encodes a UTF-8 body in this charset (a WHATWG label) and declares it in the content type.
    /// An unknown label leaves the bytes unchanged.
    pub fn encoded(mut self, label: &str) -> Response {
        if let (ResponseBody::Bytes(bytes), Some(encoding)) =
            (&mut self.body, encoding_rs::Encoding::for_label(label.as_bytes()))
        {
            *bytes = encoding.encode(&String::from_utf8_lossy(bytes)).0.into_owned();
        }
        self.charset(label)
    }

    /// Replaces the body.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Response {
        self.body = ResponseBody::Bytes(bytes.into());
        self
    }

    /// Replaces the status, keeping everything else.
    pub fn with_status(mut self, status: u16) -> Response {
        self.status = status;
        self
    }

    /// Replaces the reason phrase.
    pub fn reason(mut self, phrase: &str) -> Response {
        self.reason = Some(phrase.to_owned());
        self
    }

    /// Declares that the body is already encoded this way (`gzip`, `br`, ...): only adds the header.
    pub fn content_encoding(self, coding: &str) -> Response {
        self.header("Content-Encoding", coding)
    }

    /// Compresses the body with gzip and adds the header.
    pub fn gzip(mut self) -> Response {
        use std::io::{Read, Write};
        let (start, length) = match &self.body {
            ResponseBody::Bytes(bytes) => (bytes.clone(), bytes.len() as u64),
            ResponseBody::Filled { start, length } => (start.clone(), *length),
        };
        let mut filler = crate::filler::Reader::new(length.saturating_sub(start.len() as u64));
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut block = vec![0; 1 << 16];
        // Writing into a Vec cannot fail.
        let _ = encoder.write_all(&start);
        while let Ok(n @ 1..) = filler.read(&mut block) {
            let _ = encoder.write_all(&block[..n]);
        }
        self.body = ResponseBody::Bytes(encoder.finish().unwrap_or_default());
        self.content_encoding("gzip")
    }

    /// Waits before the response until [`RunningWeb::release`](crate::RunningWeb::release) is called.
    pub fn held(mut self) -> Response {
        self.held = true;
        self
    }

    /// Waits this long before the first byte.
    pub fn delay(mut self, delay: Duration) -> Response {
        self.delay = delay;
        self
    }

    /// Sends the head at once and waits this long before the body.
    pub fn body_delay(mut self, delay: Duration) -> Response {
        self.body_delay = delay;
        self
    }

    /// Sends the body in pieces of `bytes`, with the time `every` between them. Filler is sent without pauses.
    pub fn drip(mut self, bytes: usize, every: Duration) -> Response {
        self.drip = Some(Drip { bytes: bytes.max(1), every });
        self
    }

    /// Sends head and body in pieces.
    pub fn drip_all(mut self, bytes: usize, every: Duration) -> Response {
        self.drip_head = true;
        self.drip(bytes, every)
    }

    /// Splits the body into chunks of these sizes; the last size repeats.
    pub fn chunked(mut self, sizes: impl Into<Vec<usize>>) -> Response {
        self.framing = ResponseFraming::Chunked(sizes.into());
        self
    }

    /// Declares no length: the body ends with the connection.
    pub fn until_close(mut self) -> Response {
        self.framing = ResponseFraming::UntilClose;
        self.ending = ResponseEnd::Close;
        self
    }

    /// Declares a wrong length.
    pub fn false_length(mut self, length: u64) -> Response {
        self.framing = ResponseFraming::FalseLength(length);
        self
    }

    /// Uses HTTP/1.0 (the connection closes unless another ending is set).
    pub fn http10(mut self) -> Response {
        self.http10 = true;
        if self.ending == ResponseEnd::KeepAlive {
            self.ending = ResponseEnd::Close;
        }
        self
    }

    /// Stops after this many bytes of the body (chunk headers count too) and closes, regardless of the declared length.
    pub fn truncate_at(mut self, bytes: u64) -> Response {
        self.truncate_at = Some(bytes);
        if self.ending == ResponseEnd::KeepAlive {
            self.ending = ResponseEnd::UnannouncedClose;
        }
        self
    }

    /// Sets what happens to the connection after the last byte.
    pub fn ending(mut self, ending: ResponseEnd) -> Response {
        self.ending = ending;
        self
    }

    /// Sends `Connection: close` and closes.
    pub fn close_after(self) -> Response {
        self.ending(ResponseEnd::Close)
    }

    /// Sends `Connection: keep-alive` and closes nevertheless: the next request on this connection fails.
    pub fn keep_alive_then_close(self) -> Response {
        self.ending(ResponseEnd::UnannouncedClose)
    }

    /// Sends an interim response (1xx) first. May be called more than once.
    pub fn interim(mut self, status: u16, headers: &[(&str, &str)]) -> Response {
        let mut bytes = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        self.interim.push(bytes);
        self
    }

    /// Sends this entity tag (without quotes), and responds with 304 if `If-None-Match` contains it or is `*`.
    pub fn etag(mut self, tag: &str) -> Response {
        self.etag = Some(tag.to_owned());
        self.header("ETag", format!("\"{tag}\""))
    }

    /// Sends this date, and responds with 304 if `If-Modified-Since` repeats it. If the response has an entity tag too
    /// and the request has `If-None-Match`, only the tag counts.
    pub fn last_modified(mut self, date: &str) -> Response {
        self.last_modified = Some(date.to_owned());
        self.header("Last-Modified", date)
    }

    /// Counts requests for this page as violations, for example because robots.txt disallows it.
    pub fn counts_as_violation(mut self) -> Response {
        self.is_violation = true;
        self
    }
}

/// The reason phrase of a status; a placeholder if it is not registered.
pub(crate) fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Status")
}

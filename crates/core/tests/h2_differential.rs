//! The HTTP/2 client against another implementation: the server of the crate `h2`, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use argiope_core::http::conn::request::RequestHead;
use argiope_core::http::conn::{Head, Limits, Step};
use argiope_core::http::h2::{H2Conn, H2Request, StreamEvents, StreamFault, request_block};
use argiope_core::{ErrorKind, Time, Url};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const NOW: Time = Time::from_micros(1_000_000);

/// The response of the server to `/n`.
#[derive(Clone, Debug)]
struct Page {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    /// Sent in these pieces.
    body: Vec<Vec<u8>>,
    /// Whether trailers end the body.
    trailers: bool,
    /// The code of the reset that the server sends instead of the end.
    reset: Option<u32>,
}

/// The result of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StreamResult {
    head: String,
    body: Vec<u8>,
    is_whole: bool,
    fault: Option<StreamFault>,
}

#[derive(Default)]
struct Streams {
    results: BTreeMap<u32, StreamResult>,
    /// Number of bytes that are not consumed yet, by stream.
    unconsumed: BTreeMap<u32, usize>,
    /// Whether bytes are consumed late instead of at once.
    consumes_late: bool,
}

impl StreamEvents for Streams {
    fn head(&mut self, key: u32, head: &Head, _now: Time) {
        self.results.entry(key).or_default().head.push_str(&String::from_utf8_lossy(&head.text()));
    }

    fn data(&mut self, key: u32, bytes: &[u8], _now: Time) -> usize {
        self.results.entry(key).or_default().body.extend_from_slice(bytes);
        if !self.consumes_late {
            return bytes.len();
        }
        *self.unconsumed.entry(key).or_default() += bytes.len();
        0
    }

    fn end(&mut self, key: u32, _wire: u64, _now: Time) {
        self.results.entry(key).or_default().is_whole = true;
    }

    fn failed(&mut self, key: u32, _wire: u64, fault: StreamFault, _now: Time) {
        self.results.entry(key).or_default().fault = Some(fault);
    }
}

/// Serves until the client closes the connection.
async fn serve(io: DuplexStream, pages: Vec<Page>, max_streams: u32) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(max_streams);
    let mut connection = builder.handshake::<_, Bytes>(io).await.expect("a handshake");
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(request) = connection.accept().await {
        let Ok((request, mut respond)) = request else { break };
        assert_eq!(request.uri().scheme_str(), Some("https"));
        assert_eq!(request.uri().authority().map(|name| name.as_str()), Some("h.example"));
        assert_eq!(request.headers()["user-agent"], "argiope/1");
        let number: usize = request.uri().path().trim_start_matches('/').parse().expect("a number");
        let page = pages[number].clone();
        tasks.spawn_local(async move {
            let mut response = Response::builder().status(page.status);
            for (name, value) in &page.fields {
                response = response.header(name, HeaderValue::from_bytes(value).expect("a value"));
            }
            let is_empty = page.body.is_empty() && !page.trailers && page.reset.is_none();
            let Ok(mut stream) = respond.send_response(response.body(()).expect("a response"), is_empty) else {
                return;
            };
            if is_empty {
                return;
            }
            for piece in page.body {
                let mut rest = Bytes::from(piece);
                while !rest.is_empty() {
                    stream.reserve_capacity(rest.len());
                    let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
                    let some = rest.split_to(room.min(rest.len()));
                    if stream.send_data(some, false).is_err() {
                        return;
                    }
                }
            }
            if let Some(code) = page.reset {
                stream.send_reset(code.into());
            } else if page.trailers {
                let mut trailers = HeaderMap::new();
                trailers.insert(HeaderName::from_static("x-checksum"), HeaderValue::from_static("1"));
                let _ = stream.send_trailers(trailers);
            } else {
                let _ = stream.send_data(Bytes::new(), true);
            }
        });
    }
    tasks.shutdown().await;
}

/// Requests all pages over one connection, reading this many bytes at a time.
fn fetch(pages: &[Page], piece: usize, max_streams: u32, consumes_late: bool) -> BTreeMap<u32, StreamResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let pages = pages.to_vec();
    local.block_on(&runtime, async move {
        let (mut io, other) = tokio::io::duplex(1 << 14);
        let count = pages.len();
        let server = tokio::task::spawn_local(serve(other, pages, max_streams));
        let limits = Arc::new(Limits::default());
        let window = 1 << 18;
        let mut conn = H2Conn::new(limits, window, NOW);
        let mut streams = Streams { consumes_late, ..Streams::default() };
        for key in 0..count {
            let url = Url::parse(&format!("https://h.example/{key}")).expect("a URL");
            let is_https = true;
            let request = RequestHead::get(url.as_ref(), "argiope/1");
            conn.open(key as u32, H2Request::plain(request_block(is_https, &request)));
        }
        let mut buffer = vec![0; piece];
        while !conn.is_idle() {
            match conn.step() {
                Step::Write(bytes) => {
                    let n = io.write(bytes).await.expect("a write");
                    conn.wrote(n);
                }
                Step::Read => {
                    if streams.consumes_late && !streams.unconsumed.is_empty() {
                        // The consumer resumes when nothing else is left to do, and takes everything at once.
                        tokio::task::yield_now().await;
                        for (key, bytes) in std::mem::take(&mut streams.unconsumed) {
                            conn.consumed(key, bytes);
                        }
                        if matches!(conn.step(), Step::Write(_)) {
                            continue;
                        }
                    }
                    match io.read(&mut buffer).await.expect("a read") {
                        0 => conn.closed(NOW, &mut streams),
                        n => conn.feed(&buffer[..n], NOW, &mut streams),
                    }
                }
                _ => break,
            }
        }
        drop(io);
        server.abort();
        streams.results
    })
}

/// The result of a page that is not reset.
fn expected(page: &Page) -> StreamResult {
    let mut head = format!("HTTP/1.1 {} \r\n", page.status);
    for (name, value) in &page.fields {
        head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value)));
    }
    head.push_str("\r\n");
    StreamResult { head, body: page.body.concat(), is_whole: page.reset.is_none(), fault: None }
}

/// Requests all pages with [`fetch`], and checks the results.
fn check(pages: &[Page], piece: usize, max_streams: u32, consumes_late: bool) {
    let results = fetch(pages, piece, max_streams, consumes_late);
    for (key, page) in pages.iter().enumerate() {
        let mut found = results[&(key as u32)].clone();
        if page.reset.is_some() {
            let fault = found.fault.take().expect("a fault");
            assert_eq!(fault.failure().kind, ErrorKind::Reset);
            // The reset discards what was still in the queue of the server.
            assert!(page.body.concat().starts_with(&found.body), "page {key}");
            continue;
        }
        // The server groups fields with the same name and otherwise keeps the order.
        let sorted = |head: &str| {
            let mut lines: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let expected_result = expected(page);
        assert_eq!(sorted(&found.head), sorted(&expected_result.head), "page {key}");
        found.head.clone_from(&expected_result.head);
        assert_eq!(found, expected_result, "page {key}");
    }
}

fn page() -> impl Strategy<Value = Page> {
    let name = "[a-z][a-z0-9-]{0,12}";
    let value = proptest::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff, Just(b'\t')], 0..60)
        .prop_map(|bytes| bytes.trim_ascii().to_vec());
    let names = prop_oneof![
        name.prop_filter("not about the connection", |name| {
            !["connection", "keep-alive", "upgrade", "te", "content-length"].contains(&name.as_str())
        }),
        Just("set-cookie".to_owned()),
        Just("content-type".to_owned()),
    ];
    let body = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40_000), 0..4);
    let status = prop_oneof![Just(200_u16), Just(404), Just(500), Just(206), 200_u16..600];
    (
        status,
        proptest::collection::vec((names, value), 0..12),
        body,
        any::<bool>(),
        // One page in ten is reset with CANCEL.
        proptest::option::weighted(0.1, 8_u32..9),
    )
        .prop_map(|(status, fields, body, trailers, reset)| Page { status, fields, body, trailers, reset })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn pages_arrive_as_they_were_sent(
        pages in proptest::collection::vec(page(), 1..8),
        piece in prop_oneof![1_usize..20, Just(4_096), Just(65_536)],
        max_streams in 1_u32..10,
    ) {
        check(&pages, piece, max_streams, false);
    }
}

#[test]
fn a_body_larger_than_all_windows_arrives_whole() {
    let body = vec![vec![b'x'; 3 << 20], b"end".to_vec()];
    let large = Page { status: 200, fields: Vec::new(), body, trailers: false, reset: None };
    check(&[large.clone(), large.clone(), large.clone()], 65_536, 100, false);
    // The same with a consumer that takes everything late.
    check(&[large.clone(), large], 65_536, 100, true);
}

#[test]
fn streams_beyond_the_limit_of_the_server_are_served_later() {
    let small = |n: u32| Page {
        status: 200,
        fields: vec![("x-number".into(), n.to_string().into_bytes())],
        body: vec![n.to_string().repeat(50).into_bytes()],
        trailers: n.is_multiple_of(3),
        reset: None,
    };
    let pages: Vec<Page> = (0..300).map(small).collect();
    check(&pages, 65_536, 7, false);
}

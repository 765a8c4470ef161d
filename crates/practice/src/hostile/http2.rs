//! HTTP/2 frames that are invalid, excessive, or sent at the wrong time. They are written by hand, because the crate
//! `h2`, which serves the rest of the practice web, cannot violate the protocol.
//!
//! Every case is a TLS server that negotiates HTTP/2. A client that retries with HTTP/1.1 gets an ordinary page, unless
//! the case says otherwise.

use super::raw::RawConnection;
use super::tls::CaseAuthority;
use super::{Case, CaseBuilder, Expect, demand};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

// Flags.
const NO_FLAGS: u8 = 0;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Bytes before the payload of a frame: length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// The largest payload that a client accepts unless its SETTINGS say otherwise.
const MAX_PAYLOAD: usize = 16_384;

/// The stream number of frames that belong to the connection.
const CONNECTION: u32 = 0;
/// In GOAWAY: no stream was handled.
const NO_STREAM: u32 = 0;
/// A parameter of SETTINGS.
const MAX_CONCURRENT_STREAMS: u16 = 3;
// Error codes.
const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

/// HPACK: the entry `:status: 200` of the static table.
const STATUS_200: u8 = 0x88;
/// HPACK: the first entry of the dynamic table.
const DYNAMIC_ENTRY: u8 = 0xbe;
/// HPACK: the start of a literal field that is added to the dynamic table.
const LITERAL_INDEXED: u8 = 0x40;

const PROTOCOL: Expect = Expect::error("protocol");
const HTML: [(&str, &str); 2] = [(":status", "200"), ("content-type", "text/html")];

pub(super) fn cases() -> Vec<Case> {
    let mut all = catalogue_cases();
    all.extend(more_framing());
    all.extend(more_streams());
    all
}

/// The cases of the catalogue.
fn catalogue_cases() -> Vec<Case> {
    vec![
        Case::new("H201", "ALPN h2, then HTTP/1 bytes", PROTOCOL, |case| {
            let connections = serve_http2_or_http1(
                case,
                |peer| {
                    peer.request()?;
                    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
                    peer.wait_until_closed()
                },
                // The fallback to HTTP/1.1 gets invalid bytes too. The request is read first: closing a socket that has
                // unread input resets the connection, and the reset may overtake the bytes.
                |peer| {
                    peer.http1_request()?;
                    peer.send(&[0; 64])?;
                    peer.wait_until_closed()
                },
            )?;
            case.check("HTTP/1.1 is tried once", move |_| expect_count(&connections, 2..=2));
            Ok(())
        }),
        Case::new("H202", "GOAWAY at once", Expect::Ok, |case| {
            let connections = serve_http2(case, |peer| {
                if peer.number == 0 {
                    peer.settings(&[])?;
                    peer.goaway(NO_STREAM, NO_ERROR)?;
                    return peer.wait_until_closed();
                }
                peer.serve_pages()
            })?;
            case.check("requested again on one new connection", move |_| expect_count(&connections, 2..=2));
            Ok(())
        }),
        Case::new("H203", "GOAWAY before any response, on every connection", PROTOCOL, |case| {
            let connections = serve_http2(case, |peer| {
                peer.settings(&[])?;
                peer.request()?;
                peer.goaway(NO_STREAM, NO_ERROR)?;
                peer.wait_until_closed()
            })?;
            case.check("the number of connections is limited", move |_| expect_count(&connections, 2..=8));
            Ok(())
        }),
        Case::new("H204", "every stream is reset", Expect::error("reset"), |case| {
            let connections = serve_http2(case, |peer| {
                peer.settings(&[])?;
                while let Some(stream) = peer.request()? {
                    peer.frame(RST_STREAM, NO_FLAGS, stream, &CANCEL.to_be_bytes())?;
                }
                Ok(())
            })?;
            case.check("the connection is used again", move |_| expect_count(&connections, 1..=2));
            Ok(())
        }),
        Case::new("H205", "REFUSED_STREAM three times", Expect::Ok, |case| {
            let refused = AtomicUsize::new(0);
            case.set("max-tries", 8);
            serve_http2(case, move |peer| {
                peer.settings(&[])?;
                while let Some(stream) = peer.request()? {
                    if refused.fetch_add(1, SeqCst) < 3 {
                        peer.frame(RST_STREAM, NO_FLAGS, stream, &REFUSED_STREAM.to_be_bytes())?;
                    } else {
                        peer.send_page(stream)?;
                    }
                }
                Ok(())
            })
            .map(|_| ())
        }),
        Case::new("H206", "CONTINUATION without end", Expect::error("header_too_large"), |case| {
            on_request(case, |peer, stream| {
                peer.frame(HEADERS, NO_FLAGS, stream, &[STATUS_200])?;
                peer.forever(|peer| peer.frame(CONTINUATION, NO_FLAGS, stream, &field("x", &"v".repeat(1_000))))
            })
        }),
        Case::new("H207", "empty DATA without end", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                peer.forever(|peer| peer.frame(DATA, NO_FLAGS, stream, b""))
            })
        }),
        Case::new(
            "H208",
            "a large dynamic entry, referred to 100,000 times",
            Expect::error("header_too_large"),
            |case| {
                on_request(case, |peer, stream| {
                    let mut block = vec![STATUS_200, LITERAL_INDEXED];
                    block.extend(hpack_string("x"));
                    block.extend(hpack_string(&"v".repeat(4_000)));
                    block.resize(block.len() + 100_000, DYNAMIC_ENTRY);
                    let mut pieces = block.chunks(MAX_PAYLOAD).peekable();
                    let mut kind = HEADERS;
                    while let Some(piece) = pieces.next() {
                        let flags = if pieces.peek().is_none() { END_HEADERS } else { NO_FLAGS };
                        peer.frame(kind, flags, stream, piece)?;
                        kind = CONTINUATION;
                    }
                    peer.wait_until_closed()
                })
            },
        ),
        Case::new("H209", "100,000 PING and SETTINGS", PROTOCOL, |case| {
            on_request(case, |peer, _| {
                for _ in 0..50_000 {
                    peer.frame(PING, NO_FLAGS, CONNECTION, &[0; 8])?;
                    peer.settings(&[])?;
                }
                peer.wait_until_closed()
            })
        }),
        Case::new("H210", "one byte, then only PING", Expect::truncated("time", "timeout_idle"), |case| {
            case.set("max-tries", 1);
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                peer.frame(DATA, NO_FLAGS, stream, b"x")?;
                peer.forever(|peer| {
                    std::thread::sleep(Duration::from_millis(100));
                    peer.frame(PING, NO_FLAGS, CONNECTION, &[0; 8])
                })
            })
        }),
        Case::new("H211", "no streams are allowed", Expect::error("timeout_first_byte"), |case| {
            serve_http2(case, |peer| {
                peer.settings(&[(MAX_CONCURRENT_STREAMS, 0)])?;
                peer.wait_until_closed()
            })
            .map(|_| ())
        }),
        Case::new("H212", "less than the content-length", Expect::truncated("disconnect", "protocol"), |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &[(":status", "200"), ("content-length", "10")])?;
                peer.frame(DATA, END_STREAM, stream, b"12345")?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H213", "PUSH_PROMISE, although push is disabled", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                // The promised stream is 2. Its request in HPACK: GET, https, `/`.
                peer.frame(PUSH_PROMISE, END_HEADERS, stream, &[&[0, 0, 0, 2][..], &[0x82, 0x87, 0x84]].concat())?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H214", "an upper-case field name, a connection-specific field", PROTOCOL, |case| {
            // Every try gets the next of these fields.
            let turn = AtomicUsize::new(0);
            let invalid = [("Content-Type", "text/html"), ("connection", "close"), ("transfer-encoding", "chunked")];
            on_request(case, move |peer, stream| {
                let field = invalid[turn.fetch_add(1, SeqCst) % invalid.len()];
                peer.head(stream, NO_FLAGS, &[(":status", "200"), field])?;
                peer.wait_until_closed()
            })
        })
        .choosing("refused, as RFC 9113, 8.2 requires: accepting them makes request smuggling possible"),
        Case::new("H215", "10,000 interim heads", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                for _ in 0..10_000 {
                    peer.head(stream, NO_FLAGS, &[(":status", "103"), ("link", "</a>; rel=preload")])?;
                }
                peer.wait_until_closed()
            })
        }),
        Case::new("H216", "421 Misdirected Request", Expect::Ok, |case| {
            let connections = on_request_counted(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[(":status", "421")])?;
                peer.wait_until_closed()
            })?;
            case.check("requested again on another connection", move |report| {
                expect_count(&connections, 2..=2)?;
                demand(report.first_judged()["http"] == "1.1", "not HTTP/1.1")
            });
            Ok(())
        }),
        Case::new("H217", "Alt-Svc to an internal host", Expect::Ok, |case| {
            let contacts = Arc::new(AtomicUsize::new(0));
            let internal = {
                let contacts = Arc::clone(&contacts);
                case.raw(move |conn| {
                    contacts.fetch_add(1, SeqCst);
                    conn.wait_until_closed()
                })?
            };
            case.check("the internal host is not contacted", move |_| {
                demand(contacts.load(SeqCst) == 0, "it was contacted")
            });
            let service = format!("h2=\"{internal}\"; ma=86400, h3=\"{internal}\"; ma=86400");
            on_request(case, move |peer, stream| {
                peer.head(
                    stream,
                    NO_FLAGS,
                    &[(":status", "200"), ("content-type", "text/html"), ("alt-svc", &service)],
                )?;
                peer.frame(DATA, END_STREAM, stream, b"<title>here</title>")?;
                peer.wait_until_closed()
            })
        }),
    ]
}

/// Malformed frames that are not in the catalogue.
fn more_framing() -> Vec<Case> {
    vec![
        Case::new("H2X01", "SETTINGS of seven bytes", PROTOCOL, |case| {
            on_request(case, |peer, _| send_and_wait(peer, SETTINGS, NO_FLAGS, CONNECTION, &[0; 7]))
        }),
        Case::new("H2X02", "a frame that is longer than allowed", PROTOCOL, |case| {
            // 0xaa is an unknown frame type.
            on_request(case, |peer, _| send_and_wait(peer, 0xaa, NO_FLAGS, CONNECTION, &[0; 20_000]))
        }),
        Case::new("H2X03", "a window that overflows", PROTOCOL, |case| {
            on_request(case, |peer, _| {
                send_and_wait(peer, WINDOW_UPDATE, NO_FLAGS, CONNECTION, &[0x7f, 0xff, 0xff, 0xff])
            })
        }),
        Case::new("H2X04", "a window update of 0", PROTOCOL, |case| {
            on_request(case, |peer, stream| send_and_wait(peer, WINDOW_UPDATE, NO_FLAGS, stream, &[0; 4]))
        }),
        Case::new("H2X05", "a stream of the server's own", PROTOCOL, |case| {
            on_request(case, |peer, _| send_and_wait(peer, HEADERS, END_HEADERS, 2, &[STATUS_200]))
        }),
        Case::new("H2X06", "a body before its head", PROTOCOL, |case| {
            on_request(case, |peer, stream| send_and_wait(peer, DATA, END_STREAM, stream, b"body"))
        }),
        Case::new("H2X07", "padding that is longer than its frame", PROTOCOL, |case| {
            on_request(case, |peer, stream| send_and_wait(peer, DATA, PADDED, stream, &[200, 1, 2]))
        }),
        Case::new("H2X08", "PING in the middle of a header block", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.frame(HEADERS, NO_FLAGS, stream, &[STATUS_200])?;
                send_and_wait(peer, PING, NO_FLAGS, CONNECTION, &[0; 8])
            })
        }),
        Case::new("H2X09", "a reference to a dynamic entry", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                send_and_wait(peer, HEADERS, END_HEADERS, stream, &[STATUS_200, DYNAMIC_ENTRY])
            })
        }),
        Case::new("H2X10", "a Huffman-coded string with a bad end", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                // A field whose name is in the static table. Its value is one byte of Huffman code, whose padding is
                // not the ones that the format requires.
                send_and_wait(peer, HEADERS, END_HEADERS, stream, &[STATUS_200, 0x0f, 0x00, 0x81, 0x00])
            })
        }),
        Case::new("H2X11", "a response without :status", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[("content-type", "text/html")])?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H2X12", "two :status", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[(":status", "200"), (":status", "404")])?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H2X13", "a line break in a value", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[(":status", "200"), ("x", "a\r\nset-cookie: b=c")])?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H2X14", "unknown frames without end", PROTOCOL, |case| {
            // 0xbb is an unknown frame type.
            on_request(case, |peer, _| peer.forever(|peer| peer.frame(0xbb, NO_FLAGS, CONNECTION, b"?")))
        }),
        Case::new("H2X15", "PRIORITY without end", PROTOCOL, |case| {
            on_request(case, |peer, stream| peer.forever(|peer| peer.frame(PRIORITY, NO_FLAGS, stream, &[0; 5])))
        }),
        Case::new("H2X16", "nothing but padding without end", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                let padding = [&[255][..], &[0; 255]].concat();
                peer.forever(|peer| peer.frame(DATA, PADDED, stream, &padding))
            })
        }),
        Case::new("H2X17", "more than 5,000 fields", Expect::error("header_too_large"), |case| {
            on_request(case, |peer, stream| {
                let fields: Vec<u8> = (0..5_000).flat_map(|n| field(&format!("x-{n}"), "1")).collect();
                peer.frame(HEADERS, NO_FLAGS, stream, &[STATUS_200])?;
                for piece in fields.chunks(16_000) {
                    peer.frame(CONTINUATION, NO_FLAGS, stream, piece)?;
                }
                send_and_wait(peer, CONTINUATION, END_HEADERS | END_STREAM, stream, b"")
            })
        }),
        Case::new("H2X18", "RST_STREAM without end", Expect::error("reset"), |case| {
            on_request(case, |peer, stream| {
                peer.forever(|peer| peer.frame(RST_STREAM, NO_FLAGS, stream, &CANCEL.to_be_bytes()))
            })
        }),
        Case::new("H2X19", "WINDOW_UPDATE without end", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.forever(|peer| peer.frame(WINDOW_UPDATE, NO_FLAGS, stream, &[0, 0, 0, 1]))
            })
        }),
        Case::new("H2X20", "empty CONTINUATION without end", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.frame(HEADERS, NO_FLAGS, stream, &[STATUS_200])?;
                peer.forever(|peer| peer.frame(CONTINUATION, NO_FLAGS, stream, b""))
            })
        }),
    ]
}

/// Unusual ends of streams and connections that are not in the catalogue.
fn more_streams() -> Vec<Case> {
    vec![
        Case::new("H2X21", "more than the content-length", Expect::truncated("disconnect", "protocol"), |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &[(":status", "200"), ("content-length", "5")])?;
                send_and_wait(peer, DATA, END_STREAM, stream, b"1234567890")
            })
        }),
        Case::new("H2X22", "HTTP_1_1_REQUIRED", Expect::Ok, |case| {
            let connections = on_request_counted(case, |peer, stream| {
                send_and_wait(peer, RST_STREAM, NO_FLAGS, stream, &HTTP_1_1_REQUIRED.to_be_bytes())
            })?;
            case.check("HTTP/1.1 from then on", move |report| {
                expect_count(&connections, 2..=2)?;
                demand(report.first_judged()["http"] == "1.1", "not HTTP/1.1")
            });
            Ok(())
        }),
        Case::new("H2X23", "ENHANCE_YOUR_CALM, then a page", Expect::Ok, |case| {
            serve_http2(case, |peer| {
                if peer.number > 0 {
                    return peer.serve_pages();
                }
                peer.settings(&[])?;
                peer.request()?;
                peer.goaway(NO_STREAM, ENHANCE_YOUR_CALM)?;
                peer.wait_until_closed()
            })
            .map(|_| ())
        }),
        Case::new("H2X24", "a second head that does not end the stream", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                peer.head(stream, NO_FLAGS, &HTML)?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H2X25", "the connection ends in a body", Expect::truncated("disconnect", "reset"), |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                peer.frame(DATA, NO_FLAGS, stream, b"<title>half</title>")?;
                // The error ends this connection's function, which closes the socket.
                Err(io::ErrorKind::ConnectionAborted.into())
            })
        }),
        Case::new("H2X26", "a reset after the end", Expect::Ok, |case| {
            on_request(case, |peer, stream| {
                peer.send_page(stream)?;
                send_and_wait(peer, RST_STREAM, NO_FLAGS, stream, &NO_ERROR.to_be_bytes())
            })
        }),
        Case::new("H2X27", "all optional parts of a response", Expect::Ok, |case| {
            on_request(case, |peer, stream| {
                // An unknown frame type with all flags.
                peer.frame(0xcc, 0xff, stream, b"unknown")?;
                peer.frame(PRIORITY, NO_FLAGS, stream, &[0, 0, 0, 0, 7])?;
                // An unknown parameter.
                peer.frame(SETTINGS, NO_FLAGS, CONNECTION, &[0xf0, 0x0d, 1, 2, 3, 4])?;
                peer.head(stream, NO_FLAGS, &[(":status", "103"), ("link", "</a>")])?;
                // The block starts with a size update of the dynamic table.
                let block = [&[0x20][..], &field(":status", "200"), &field("content-type", "text/html")].concat();
                let (first, rest) = block.split_at(5);
                // Two bytes of padding, and a priority (flag 0x20): a dependency on stream 0, and a weight.
                peer.frame(HEADERS, PADDED | 0x20, stream, &[&[2, 0, 0, 0, 0, 9][..], first, &[0; 2]].concat())?;
                peer.frame(CONTINUATION, END_HEADERS, stream, rest)?;
                peer.frame(DATA, PADDED, stream, b"\x05<title>here</title>.....")?;
                peer.frame(PING, NO_FLAGS, CONNECTION, b"12345678")?;
                peer.head(stream, END_STREAM, &[("x-checksum", "1")])?;
                peer.wait_until_closed()
            })
        }),
        Case::new("H2X28", "more than the window", Expect::truncated("disconnect", "protocol"), |case| {
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                // More than the size limit of a page, at once, ignoring the flow-control window.
                for _ in 0..400 {
                    peer.frame(DATA, NO_FLAGS, stream, &[b'x'; MAX_PAYLOAD])?;
                }
                peer.wait_until_closed()
            })
        })
        .choosing("a connection whose server ignores flow control is closed; earlier bytes are kept"),
        Case::new("H2X29", "silence after the handshake", Expect::error("timeout_first_byte"), |case| {
            serve_http2(case, |peer| peer.wait_until_closed()).map(|_| ())
        }),
        Case::new("H2X30", "a body that drips", Expect::truncated("time", "too_slow"), |case| {
            case.set("max-tries", 1);
            on_request(case, |peer, stream| {
                peer.head(stream, NO_FLAGS, &HTML)?;
                peer.forever(|peer| {
                    std::thread::sleep(Duration::from_millis(200));
                    peer.frame(DATA, NO_FLAGS, stream, b"x")
                })
            })
        }),
        Case::new("H2X31", "an idle connection that the server ends with GOAWAY", Expect::Ok, |case| {
            serve_http2(case, |peer| {
                peer.settings(&[])?;
                if let Some(stream) = peer.request()? {
                    peer.send_page(stream)?;
                    peer.goaway(stream, NO_ERROR)?;
                }
                Ok(())
            })
            .map(|_| ())
        }),
    ]
}

/// Sends one frame and waits until the client closes the connection.
fn send_and_wait(peer: &mut Peer<'_>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    peer.frame(kind, flags, stream, payload)?;
    peer.wait_until_closed()
}

/// The number of connections so far.
type Connections = Arc<AtomicUsize>;

/// Checks the number of connections.
fn expect_count(connections: &Connections, expected: std::ops::RangeInclusive<usize>) -> super::CaseVerdict {
    let found = connections.load(SeqCst);
    demand(expected.contains(&found), format!("{found} connections, not {expected:?}"))
}

/// A server that runs this function for every HTTP/2 connection, and sends a page to clients that use HTTP/1.1.
fn serve_http2(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    serve_http2_or_http1(case, behaviour, |peer| {
        peer.http1_request()?;
        let body = "<title>here</title>";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len());
        peer.send(&[head.as_bytes(), body.as_bytes()].concat())?;
        peer.wait_until_closed()
    })
}

/// A server that sends its settings, then runs this function for every request, with the stream id.
fn on_request(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>, u32) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    on_request_counted(case, behaviour).map(|_| ())
}

/// Like [`on_request`]; returns the number of connections.
fn on_request_counted(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>, u32) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    serve_http2(case, move |peer| {
        peer.settings(&[])?;
        while let Some(stream) = peer.request()? {
            behaviour(peer, stream)?;
        }
        Ok(())
    })
}

/// A server with one function for HTTP/2 connections and another for HTTP/1.1.
fn serve_http2_or_http1(
    case: &mut CaseBuilder,
    http2: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
    http1: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    let authority = CaseAuthority::new("Known")?;
    case.trust(authority.root.pem());
    case.set("robots", "ignore");
    let connections = Connections::default();
    let counted = Arc::clone(&connections);
    let config_cell: OnceLock<Result<Arc<ServerConfig>, String>> = OnceLock::new();
    let address = case.raw(move |conn: &mut RawConnection| {
        let ip = conn.stream().local_addr()?.ip();
        let number = counted.fetch_add(1, SeqCst);
        let config = config_cell.get_or_init(|| {
            let describe = |error: io::Error| error.to_string();
            let (chain, key) = (vec![authority.leaf(ip).map_err(describe)?], authority.leaf_key().map_err(describe)?);
            let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?;
            let config = builder.with_no_client_auth().with_single_cert(chain, key);
            let mut config = config.map_err(|error| error.to_string())?;
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            Ok(Arc::new(config))
        });
        let config = config.as_ref().map_err(|why| io::Error::other(why.as_str()))?;
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let mut peer = Peer { session, socket: conn.stream(), input: Vec::new(), has_preface: false, number };
        while peer.session.is_handshaking() {
            let Peer { session, socket, .. } = &mut peer;
            session.complete_io(socket)?;
        }
        if peer.session.alpn_protocol() == Some(b"h2") { http2(&mut peer) } else { http1(&mut peer) }
    })?;
    case.root(format!("https://{address}/"));
    Ok(connections)
}

/// The server's side of an HTTP/2 connection, which sends arbitrary frames.
struct Peer<'a> {
    session: ServerConnection,
    socket: &'a std::net::TcpStream,
    /// Decrypted bytes that were not parsed yet.
    input: Vec<u8>,
    /// Whether the client's preface was read.
    has_preface: bool,
    /// The number of the connection, counted from 0.
    number: usize,
}

impl Peer<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Peer { session, socket, .. } = self;
        let mut stream = rustls::Stream::new(session, socket);
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Reads some bytes; false at the end of the connection.
    fn read(&mut self) -> io::Result<bool> {
        let Peer { session, socket, input, .. } = self;
        let mut buffer = [0; 4_096];
        let count = rustls::Stream::new(session, socket).read(&mut buffer)?;
        input.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }

    /// Sends a frame.
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.send(&bytes)
    }

    /// Sends SETTINGS with these parameters.
    fn settings(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        let payload: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        self.frame(SETTINGS, NO_FLAGS, CONNECTION, &payload)
    }

    /// Sends GOAWAY with the last handled stream and an error code.
    fn goaway(&mut self, last: u32, code: u32) -> io::Result<()> {
        self.frame(GOAWAY, NO_FLAGS, CONNECTION, &[last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// Sends HEADERS with these fields.
    fn head(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> io::Result<()> {
        let block: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
        self.frame(HEADERS, flags | END_HEADERS, stream, &block)
    }

    /// Sends an ordinary page.
    fn send_page(&mut self, stream: u32) -> io::Result<()> {
        self.head(stream, NO_FLAGS, &HTML)?;
        self.frame(DATA, END_STREAM, stream, b"<title>here</title>")
    }

    /// Sends ordinary pages until the client disconnects.
    fn serve_pages(&mut self) -> io::Result<()> {
        self.settings(&[])?;
        while let Some(stream) = self.request()? {
            self.send_page(stream)?;
        }
        Ok(())
    }

    /// Reads frames up to the next request; returns its stream id.
    fn request(&mut self) -> io::Result<Option<u32>> {
        loop {
            let used = if !self.has_preface && self.input.len() >= crate::http2::PREFACE.len() {
                self.has_preface = true;
                crate::http2::PREFACE.len()
            } else if let [a, b, c, kind, _, stream @ ..] = &self.input[..]
                && self.has_preface
                && stream.len() >= 4
                && self.input.len() >= FRAME_HEAD + u32::from_be_bytes([0, *a, *b, *c]) as usize
            {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                let id = u32::from_be_bytes([stream[0], stream[1], stream[2], stream[3]]);
                let is_request = *kind == HEADERS;
                self.input.drain(..FRAME_HEAD + length);
                if is_request {
                    return Ok(Some(id));
                }
                continue;
            } else if self.read()? {
                continue;
            } else {
                return Ok(None);
            };
            self.input.drain(..used);
        }
    }

    /// Reads an HTTP/1.1 request.
    fn http1_request(&mut self) -> io::Result<()> {
        while !self.input.ends_with(b"\r\n\r\n") {
            if !self.read()? {
                return Ok(());
            }
        }
        self.input.clear();
        Ok(())
    }

    /// Repeats this until the client disconnects.
    fn forever(&mut self, mut step: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        loop {
            step(self)?;
        }
    }

    /// Reads and discards until the client closes.
    fn wait_until_closed(&mut self) -> io::Result<()> {
        while self.read()? {
            self.input.clear();
        }
        Ok(())
    }
}

/// A header field as a literal without indexing.
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &hpack_string(name), &hpack_string(value)].concat()
}

/// A string in HPACK format, without Huffman coding.
fn hpack_string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A length below 127 fits into seven bits. The excess of a longer one follows, seven bits per byte.
    if text.len() < 127 {
        bytes.push(text.len() as u8);
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

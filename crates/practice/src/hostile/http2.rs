//! HTTP/2 frames that are wrong, excessive, or sent at the wrong time. They are written by hand, because the crate
//! `h2`, which serves the rest of the practice web, cannot violate the protocol.
//!
//! Every case is a TLS server that negotiates HTTP/2. A client that retries with HTTP/1.1 gets an ordinary page, unless
//! the case says otherwise.

use super::raw::RawConnection;
use super::tls::TestAuthority;
use super::{Case, CaseBuilder, Expect, demand};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const MAX_CONCURRENT_STREAMS: u16 = 3;
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

const PROTOCOL: Expect = Expect::error("protocol");
const HTML: [(&str, &str); 2] = [(":status", "200"), ("content-type", "text/html")];

pub(super) fn cases() -> Vec<Case> {
    let mut all = catalogued();
    all.extend(own_framing());
    all.extend(own_streams());
    all
}

/// The cases of the catalogue.
fn catalogued() -> Vec<Case> {
    vec![
        Case::new("H201", "ALPN h2, then HTTP/1 bytes", PROTOCOL, |case| {
            let connections = frames_or(
                case,
                |peer| {
                    peer.request()?;
                    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
                    peer.wait_for_the_end()
                },
                // The fallback to HTTP/1.1 gets invalid bytes too. The request is read first: closing a socket that has
                // unread input resets the connection, and the reset may overtake the bytes.
                |peer| {
                    peer.http1_request()?;
                    peer.send(&[0; 64])?;
                    peer.wait_for_the_end()
                },
            )?;
            case.check("HTTP/1.1 is tried once", move |_| count(&connections, 2..=2));
            Ok(())
        }),
        Case::new("H202", "GOAWAY at once", Expect::Ok, |case| {
            let connections = frames(case, |peer| {
                if peer.nth == 0 {
                    peer.settings(&[])?;
                    peer.goaway(0, 0)?;
                    return peer.wait_for_the_end();
                }
                peer.page()
            })?;
            case.check("asked again on one new connection", move |_| count(&connections, 2..=2));
            Ok(())
        }),
        Case::new("H203", "GOAWAY before any response, on every connection", PROTOCOL, |case| {
            let connections = frames(case, |peer| {
                peer.settings(&[])?;
                peer.request()?;
                peer.goaway(0, 0)?;
                peer.wait_for_the_end()
            })?;
            case.check("connections have an end", move |_| count(&connections, 2..=8));
            Ok(())
        }),
        Case::new("H204", "every stream is reset", Expect::error("reset"), |case| {
            let connections = frames(case, |peer| {
                peer.settings(&[])?;
                while let Some(stream) = peer.request()? {
                    peer.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())?;
                }
                Ok(())
            })?;
            case.check("the connection is used again", move |_| count(&connections, 1..=2));
            Ok(())
        }),
        Case::new("H205", "REFUSED_STREAM three times", Expect::Ok, |case| {
            let refused = AtomicUsize::new(0);
            case.set("max-tries", 8);
            frames(case, move |peer| {
                peer.settings(&[])?;
                while let Some(stream) = peer.request()? {
                    if refused.fetch_add(1, SeqCst) < 3 {
                        peer.frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())?;
                    } else {
                        peer.answer(stream)?;
                    }
                }
                Ok(())
            })
            .map(|_| ())
        }),
        Case::new("H206", "CONTINUATION without end", Expect::error("header_too_large"), |case| {
            after_request(case, |peer, stream| {
                peer.frame(HEADERS, 0, stream, &[0x88])?;
                peer.forever(|peer| peer.frame(CONTINUATION, 0, stream, &field("x", &"v".repeat(1_000))))
            })
        }),
        Case::new("H207", "empty DATA without end", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                peer.forever(|peer| peer.frame(DATA, 0, stream, b""))
            })
        }),
        Case::new(
            "H208",
            "a large dynamic entry, referred to 100,000 times",
            Expect::error("header_too_large"),
            |case| {
                after_request(case, |peer, stream| {
                    let mut block = vec![0x88, 0x40];
                    block.extend(string("x"));
                    block.extend(string(&"v".repeat(4_000)));
                    block.resize(block.len() + 100_000, 0xbe);
                    let mut pieces = block.chunks(16_384).peekable();
                    let mut kind = HEADERS;
                    while let Some(piece) = pieces.next() {
                        let flags = if pieces.peek().is_none() { END_HEADERS } else { 0 };
                        peer.frame(kind, flags, stream, piece)?;
                        kind = CONTINUATION;
                    }
                    peer.wait_for_the_end()
                })
            },
        ),
        Case::new("H209", "100,000 PING and SETTINGS", PROTOCOL, |case| {
            after_request(case, |peer, _| {
                for _ in 0..50_000 {
                    peer.frame(PING, 0, 0, &[0; 8])?;
                    peer.settings(&[])?;
                }
                peer.wait_for_the_end()
            })
        }),
        Case::new("H210", "one byte, then only PING", Expect::truncated("time", "timeout_idle"), |case| {
            case.set("max-tries", 1);
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                peer.frame(DATA, 0, stream, b"x")?;
                peer.forever(|peer| {
                    std::thread::sleep(Duration::from_millis(100));
                    peer.frame(PING, 0, 0, &[0; 8])
                })
            })
        }),
        Case::new("H211", "no streams are allowed", Expect::error("timeout_first_byte"), |case| {
            frames(case, |peer| {
                peer.settings(&[(MAX_CONCURRENT_STREAMS, 0)])?;
                peer.wait_for_the_end()
            })
            .map(|_| ())
        }),
        Case::new("H212", "less than the content-length", Expect::truncated("disconnect", "protocol"), |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &[(":status", "200"), ("content-length", "10")])?;
                peer.frame(DATA, END_STREAM, stream, b"12345")?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H213", "PUSH_PROMISE, although push is disabled", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.frame(PUSH_PROMISE, END_HEADERS, stream, &[&[0, 0, 0, 2][..], &[0x82, 0x87, 0x84]].concat())?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H214", "an upper-case field name, a field about the connection", PROTOCOL, |case| {
            let turn = AtomicUsize::new(0);
            let wrong = [("Content-Type", "text/html"), ("connection", "close"), ("transfer-encoding", "chunked")];
            after_request(case, move |peer, stream| {
                let field = wrong[turn.fetch_add(1, SeqCst) % wrong.len()];
                peer.head(stream, 0, &[(":status", "200"), field])?;
                peer.wait_for_the_end()
            })
        })
        .choosing("refused, as RFC 9113, 8.2 requires: accepting them makes request smuggling possible"),
        Case::new("H215", "10,000 interim heads", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                for _ in 0..10_000 {
                    peer.head(stream, 0, &[(":status", "103"), ("link", "</a>; rel=preload")])?;
                }
                peer.wait_for_the_end()
            })
        }),
        Case::new("H216", "421 Misdirected Request", Expect::Ok, |case| {
            let connections = after_request_counted(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[(":status", "421")])?;
                peer.wait_for_the_end()
            })?;
            case.check("asked again on a connection of its own", move |report| {
                count(&connections, 2..=2)?;
                demand(report.first_judged()["http"] == "1.1", "not HTTP/1.1")
            });
            Ok(())
        }),
        Case::new("H217", "Alt-Svc to an internal host", Expect::Ok, |case| {
            let came = Arc::new(AtomicUsize::new(0));
            let inside = {
                let came = Arc::clone(&came);
                case.raw(move |conn| {
                    came.fetch_add(1, SeqCst);
                    conn.wait_for_the_end()
                })?
            };
            case.check("the internal host is not contacted", move |_| demand(came.load(SeqCst) == 0, "it was"));
            let service = format!("h2=\"{inside}\"; ma=86400, h3=\"{inside}\"; ma=86400");
            after_request(case, move |peer, stream| {
                peer.head(stream, 0, &[(":status", "200"), ("content-type", "text/html"), ("alt-svc", &service)])?;
                peer.frame(DATA, END_STREAM, stream, b"<title>here</title>")?;
                peer.wait_for_the_end()
            })
        }),
    ]
}

/// Malformed frames that are not in the catalogue.
fn own_framing() -> Vec<Case> {
    vec![
        Case::new("H2X01", "SETTINGS of seven bytes", PROTOCOL, |case| {
            after_request(case, |peer, _| wrong(peer, SETTINGS, 0, 0, &[0; 7]))
        }),
        Case::new("H2X02", "a frame that is longer than allowed", PROTOCOL, |case| {
            after_request(case, |peer, _| wrong(peer, 0xaa, 0, 0, &[0; 20_000]))
        }),
        Case::new("H2X03", "a window that overflows", PROTOCOL, |case| {
            after_request(case, |peer, _| wrong(peer, WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]))
        }),
        Case::new("H2X04", "a window update of 0", PROTOCOL, |case| {
            after_request(case, |peer, stream| wrong(peer, WINDOW_UPDATE, 0, stream, &[0; 4]))
        }),
        Case::new("H2X05", "a stream of the server's own", PROTOCOL, |case| {
            after_request(case, |peer, _| wrong(peer, HEADERS, END_HEADERS, 2, &[0x88]))
        }),
        Case::new("H2X06", "a body before its head", PROTOCOL, |case| {
            after_request(case, |peer, stream| wrong(peer, DATA, END_STREAM, stream, b"body"))
        }),
        Case::new("H2X07", "padding that is longer than its frame", PROTOCOL, |case| {
            after_request(case, |peer, stream| wrong(peer, DATA, PADDED, stream, &[200, 1, 2]))
        }),
        Case::new("H2X08", "PING in the middle of a header block", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.frame(HEADERS, 0, stream, &[0x88])?;
                wrong(peer, PING, 0, 0, &[0; 8])
            })
        }),
        Case::new("H2X09", "a reference to a dynamic entry", PROTOCOL, |case| {
            after_request(case, |peer, stream| wrong(peer, HEADERS, END_HEADERS, stream, &[0x88, 0xbe]))
        }),
        Case::new("H2X10", "a Huffman-coded string with a bad end", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                wrong(peer, HEADERS, END_HEADERS, stream, &[0x88, 0x0f, 0x00, 0x81, 0x00])
            })
        }),
        Case::new("H2X11", "a response without :status", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[("content-type", "text/html")])?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H2X12", "two :status", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[(":status", "200"), (":status", "404")])?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H2X13", "a line break in a value", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, END_STREAM, &[(":status", "200"), ("x", "a\r\nset-cookie: b=c")])?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H2X14", "unknown frames without end", PROTOCOL, |case| {
            after_request(case, |peer, _| peer.forever(|peer| peer.frame(0xbb, 0, 0, b"?")))
        }),
        Case::new("H2X15", "PRIORITY without end", PROTOCOL, |case| {
            after_request(case, |peer, stream| peer.forever(|peer| peer.frame(PRIORITY, 0, stream, &[0; 5])))
        }),
        Case::new("H2X16", "nothing but padding without end", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                let padding = [&[255][..], &[0; 255]].concat();
                peer.forever(|peer| peer.frame(DATA, PADDED, stream, &padding))
            })
        }),
        Case::new("H2X17", "more than 5,000 fields", Expect::error("header_too_large"), |case| {
            after_request(case, |peer, stream| {
                let fields: Vec<u8> = (0..5_000).flat_map(|n| field(&format!("x-{n}"), "1")).collect();
                peer.frame(HEADERS, 0, stream, &[0x88])?;
                for piece in fields.chunks(16_000) {
                    peer.frame(CONTINUATION, 0, stream, piece)?;
                }
                wrong(peer, CONTINUATION, END_HEADERS | END_STREAM, stream, b"")
            })
        }),
        Case::new("H2X18", "RST_STREAM without end", Expect::error("reset"), |case| {
            after_request(case, |peer, stream| {
                peer.forever(|peer| peer.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()))
            })
        }),
        Case::new("H2X19", "WINDOW_UPDATE without end", PROTOCOL, |case| {
            after_request(case, |peer, stream| peer.forever(|peer| peer.frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1])))
        }),
        Case::new("H2X20", "empty CONTINUATION without end", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.frame(HEADERS, 0, stream, &[0x88])?;
                peer.forever(|peer| peer.frame(CONTINUATION, 0, stream, b""))
            })
        }),
    ]
}

/// Unusual ends of streams and connections that are not in the catalogue.
fn own_streams() -> Vec<Case> {
    vec![
        Case::new("H2X21", "more than the content-length", Expect::truncated("disconnect", "protocol"), |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &[(":status", "200"), ("content-length", "5")])?;
                wrong(peer, DATA, END_STREAM, stream, b"1234567890")
            })
        }),
        Case::new("H2X22", "HTTP_1_1_REQUIRED", Expect::Ok, |case| {
            let connections = after_request_counted(case, |peer, stream| {
                wrong(peer, RST_STREAM, 0, stream, &HTTP_1_1_REQUIRED.to_be_bytes())
            })?;
            case.check("HTTP/1.1 from then on", move |report| {
                count(&connections, 2..=2)?;
                demand(report.first_judged()["http"] == "1.1", "not HTTP/1.1")
            });
            Ok(())
        }),
        Case::new("H2X23", "ENHANCE_YOUR_CALM, then a page", Expect::Ok, |case| {
            frames(case, |peer| {
                if peer.nth > 0 {
                    return peer.page();
                }
                peer.settings(&[])?;
                peer.request()?;
                peer.goaway(0, ENHANCE_YOUR_CALM)?;
                peer.wait_for_the_end()
            })
            .map(|_| ())
        }),
        Case::new("H2X24", "a second head that does not end the stream", PROTOCOL, |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                peer.head(stream, 0, &HTML)?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H2X25", "the connection ends in a body", Expect::truncated("disconnect", "reset"), |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                peer.frame(DATA, 0, stream, b"<title>half</title>")?;
                Err(io::ErrorKind::ConnectionAborted.into())
            })
        }),
        Case::new("H2X26", "a reset after the end", Expect::Ok, |case| {
            after_request(case, |peer, stream| {
                peer.answer(stream)?;
                wrong(peer, RST_STREAM, 0, stream, &[0; 4])
            })
        }),
        Case::new("H2X27", "everything that may be there", Expect::Ok, |case| {
            after_request(case, |peer, stream| {
                peer.frame(0xcc, 0xff, stream, b"unknown")?;
                peer.frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 7])?;
                peer.frame(SETTINGS, 0, 0, &[0xf0, 0x0d, 1, 2, 3, 4])?;
                peer.head(stream, 0, &[(":status", "103"), ("link", "</a>")])?;
                let block = [&[0x20][..], &field(":status", "200"), &field("content-type", "text/html")].concat();
                let (first, rest) = block.split_at(5);
                peer.frame(HEADERS, PADDED | 0x20, stream, &[&[2, 0, 0, 0, 0, 9][..], first, &[0; 2]].concat())?;
                peer.frame(CONTINUATION, END_HEADERS, stream, rest)?;
                peer.frame(DATA, PADDED, stream, b"\x05<title>here</title>.....")?;
                peer.frame(PING, 0, 0, b"12345678")?;
                peer.head(stream, END_STREAM, &[("x-checksum", "1")])?;
                peer.wait_for_the_end()
            })
        }),
        Case::new("H2X28", "more than the window", Expect::truncated("disconnect", "protocol"), |case| {
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                // Sends the whole body limit at once, ignoring the flow-control window.
                for _ in 0..400 {
                    peer.frame(DATA, 0, stream, &[b'x'; 16_384])?;
                }
                peer.wait_for_the_end()
            })
        })
        .choosing("a connection whose server ignores flow control is closed; earlier bytes are kept"),
        Case::new("H2X29", "silence after the handshake", Expect::error("timeout_first_byte"), |case| {
            frames(case, |peer| peer.wait_for_the_end()).map(|_| ())
        }),
        Case::new("H2X30", "a body that drips", Expect::truncated("time", "too_slow"), |case| {
            case.set("max-tries", 1);
            after_request(case, |peer, stream| {
                peer.head(stream, 0, &HTML)?;
                peer.forever(|peer| {
                    std::thread::sleep(Duration::from_millis(200));
                    peer.frame(DATA, 0, stream, b"x")
                })
            })
        }),
        Case::new("H2X31", "an idle connection that the server ends with GOAWAY", Expect::Ok, |case| {
            frames(case, |peer| {
                peer.settings(&[])?;
                if let Some(stream) = peer.request()? {
                    peer.answer(stream)?;
                    peer.goaway(stream, 0)?;
                }
                Ok(())
            })
            .map(|_| ())
        }),
    ]
}

/// Sends one frame and waits for the reaction of the client.
fn wrong(peer: &mut Peer<'_>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    peer.frame(kind, flags, stream, payload)?;
    peer.wait_for_the_end()
}

type Connections = Arc<AtomicUsize>;

fn count(connections: &Connections, expected: std::ops::RangeInclusive<usize>) -> super::CaseVerdict {
    let found = connections.load(SeqCst);
    demand(expected.contains(&found), format!("{found} connections, not {expected:?}"))
}

/// A server that runs this function for every HTTP/2 connection.
fn frames(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    frames_or(case, behaviour, |peer| {
        peer.http1_request()?;
        let body = "<title>here</title>";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len());
        peer.send(&[head.as_bytes(), body.as_bytes()].concat())?;
        peer.wait_for_the_end()
    })
}

/// A server that sends its settings, then runs this function for every request.
fn after_request(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>, u32) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    after_request_counted(case, behaviour).map(|_| ())
}

fn after_request_counted(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>, u32) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    frames(case, move |peer| {
        peer.settings(&[])?;
        while let Some(stream) = peer.request()? {
            behaviour(peer, stream)?;
        }
        Ok(())
    })
}

/// A server with one function for HTTP/2 connections and another for HTTP/1.1.
fn frames_or(
    case: &mut CaseBuilder,
    http2: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
    http1: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    let authority = TestAuthority::new("Known")?;
    case.trust(authority.root.pem());
    case.set("robots", "ignore");
    let connections = Connections::default();
    let counted = Arc::clone(&connections);
    let made: OnceLock<Result<Arc<ServerConfig>, String>> = OnceLock::new();
    let address = case.raw(move |conn: &mut RawConnection| {
        let site = conn.stream().local_addr()?.ip();
        let nth = counted.fetch_add(1, SeqCst);
        let config = made.get_or_init(|| {
            let words = |error: io::Error| error.to_string();
            let (chain, key) = (vec![authority.leaf(site).map_err(words)?], authority.leaf_key().map_err(words)?);
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
        let mut peer = Peer { session, socket: conn.stream(), input: Vec::new(), is_greeted: false, nth };
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
    input: Vec<u8>,
    /// Whether the client's preface was read.
    is_greeted: bool,
    /// The number of the connection, counted from 0.
    nth: usize,
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

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.send(&bytes)
    }

    fn settings(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        let payload: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        self.frame(SETTINGS, 0, 0, &payload)
    }

    fn goaway(&mut self, last: u32, code: u32) -> io::Result<()> {
        self.frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    fn head(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> io::Result<()> {
        let block: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
        self.frame(HEADERS, flags | END_HEADERS, stream, &block)
    }

    /// An ordinary page.
    fn answer(&mut self, stream: u32) -> io::Result<()> {
        self.head(stream, 0, &HTML)?;
        self.frame(DATA, END_STREAM, stream, b"<title>here</title>")
    }

    /// Sends ordinary pages until the client disconnects.
    fn page(&mut self) -> io::Result<()> {
        self.settings(&[])?;
        while let Some(stream) = self.request()? {
            self.answer(stream)?;
        }
        Ok(())
    }

    /// Reads frames up to the next request; returns its stream id.
    fn request(&mut self) -> io::Result<Option<u32>> {
        loop {
            let used = if !self.is_greeted && self.input.len() >= crate::http2::PREFACE.len() {
                self.is_greeted = true;
                crate::http2::PREFACE.len()
            } else if let [a, b, c, kind, _, stream @ ..] = &self.input[..]
                && self.is_greeted
                && stream.len() >= 4
                && self.input.len() >= 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize
            {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                let id = u32::from_be_bytes([stream[0], stream[1], stream[2], stream[3]]);
                let is_request = *kind == HEADERS;
                self.input.drain(..9 + length);
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
    fn forever(&mut self, mut again: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        loop {
            again(self)?;
        }
    }

    fn wait_for_the_end(&mut self) -> io::Result<()> {
        while self.read()? {
            self.input.clear();
        }
        Ok(())
    }
}

/// A header field as a literal without indexing.
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &string(name), &string(value)].concat()
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
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

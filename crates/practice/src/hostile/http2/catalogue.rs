//! The HTTP/2 cases of the catalogue.

use super::peer::{field, hpack_string};
use super::{
    CANCEL, CONNECTION, CONTINUATION, DATA, DYNAMIC_ENTRY, END_HEADERS, END_STREAM, HEADERS, HTML, LITERAL_INDEXED,
    MAX_CONCURRENT_STREAMS, MAX_PAYLOAD, NO_ERROR, NO_FLAGS, NO_STREAM, PING, PROTOCOL, PUSH_PROMISE, REFUSED_STREAM,
    RST_STREAM, STATUS_200, expect_count, on_request, on_request_counted, serve_http2, serve_http2_or_http1,
};
use crate::hostile::{Case, Expect, demand};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

pub(super) fn cases() -> Vec<Case> {
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
            case.check("at most one connection per try", move |_| expect_count(&connections, 1..=2));
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

//! Unusual ends of streams and connections that are not in the catalogue.

use super::peer::field;
use super::{
    CONNECTION, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, HTML, HTTP_1_1_REQUIRED,
    MAX_PAYLOAD, NO_ERROR, NO_FLAGS, NO_STREAM, PADDED, PING, PRIORITY, PROTOCOL, RST_STREAM, SETTINGS, expect_count,
    on_request, on_request_counted, send_and_wait, serve_http2,
};
use crate::hostile::{Case, Expect, demand};
use std::io;
use std::time::Duration;

pub(super) fn cases() -> Vec<Case> {
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

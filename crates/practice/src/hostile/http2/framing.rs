//! Malformed, misplaced and endless frames that are not in the catalogue.

use super::peer::field;
use super::{
    CANCEL, CONNECTION, CONTINUATION, DATA, DYNAMIC_ENTRY, END_HEADERS, END_STREAM, HEADERS, HTML, NO_FLAGS, PADDED,
    PING, PRIORITY, PROTOCOL, RST_STREAM, SETTINGS, STATUS_200, WINDOW_UPDATE, on_request, send_and_wait,
};
use crate::hostile::{Case, Expect};

pub(super) fn cases() -> Vec<Case> {
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
        Case::new("H2X09", "a reference to a dynamic entry that does not exist", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                send_and_wait(peer, HEADERS, END_HEADERS, stream, &[STATUS_200, DYNAMIC_ENTRY])
            })
        }),
        Case::new("H2X10", "a Huffman-coded string with a bad end", PROTOCOL, |case| {
            on_request(case, |peer, stream| {
                // A field whose name is in the static table. Its value is one byte of Huffman code. The padding bits
                // are 0, but must be 1.
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

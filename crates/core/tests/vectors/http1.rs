//! The web platform tests about response heads and lengths.

use argiope_core::ErrorKind;
use serde_json::Value;

use crate::conn_kit::{After, limits, run_with_every_split};
use crate::tally::{Deviations, Tally};
use crate::{bytes, cases, read, text};

const DEVIATIONS: Deviations = &[
    (
        "a Content-Length that is not a number is refused, because the end of the response is unknown (browsers read until \
         the connection closes)",
        &[
            r"Content-Length: aaaah\r\nContent-Length: aaaah",
            "Content-Length: aaaah, aaaah",
            "Content-Length: aaaah",
            "Content-Length: 42s",
            "Content-Length: 30s",
            "Content-Length: -1",
            "Content-Length: 0x20",
            r#"Content-Length: \"30\""#,
            "Content-Length: ",
        ],
    ),
    (
        "a colon is an ordinary character in a value and in a reason phrase, and ends a name (the vectors expect a browser \
         to ignore the X-Frame-Options field that contains it)",
        &[
            "h1_COLON_after-colon",
            "h1_COLON_before-colon",
            "h1_COLON_after-value",
            "h1_COLON_in-value",
            "h1_COLON_after-reason",
            "h1_COLON_before-reason",
            "h1_COLON_in-name",
        ],
    ),
    (
        "a bare LF ends a line, so these heads are read as with CRLF",
        &["h1_LF_after-reason", "h1_LF_after-value", "h1_LF_leading", "lonecr_5"],
    ),
    (
        "a field with a blank in its name is dropped, as in browsers, unless it determines the framing",
        &["h1_SP_before-colon", "h1_SP_in-name", "h1_HTAB_before-colon", "h1_HTAB_in-name"],
    ),
    ("`200  OK` occurs twice in the vectors, once as valid and once as invalid", &["h1_SP_after-num"]),
];

#[test]
#[ignore = "needs vectors/wpt_http1.json"]
fn wpt_http1() {
    wpt();
}

pub fn wpt() -> Tally {
    let vectors = read("wpt_http1.json");
    let mut tally = Tally::new("wpt_http1.json", DEVIATIONS);
    for case in cases(&vectors, "content_length") {
        let input = text(case, "input");
        // The vectors assume a body of 42 bytes.
        let response = format!("HTTP/1.1 200 OK\r\n{input}\r\n\r\n{}", "x".repeat(42));
        let result = run_with_every_split(&limits(), response.as_bytes(), After::Close);
        let got = if result.kind.is_none() { Some(result.body.len() as u64) } else { None };
        assert!(matches!(result.kind, None | Some(ErrorKind::Protocol)), "{input:?}: {:?}", result.kind);
        tally.case(&input.escape_debug().to_string(), got, case["output"].as_u64());
    }
    for case in cases(&vectors, "h1_parsing") {
        check_head(&mut tally, case, &bytes(case, "response"));
    }
    for case in cases(&vectors, "lone_cr") {
        check_head(&mut tally, case, text(case, "response").as_bytes());
    }
    tally.finish(147)
}

fn check_head(tally: &mut Tally, case: &Value, response: &[u8]) {
    let result = run_with_every_split(&limits(), response, After::Close);
    assert!(matches!(result.kind, None | Some(ErrorKind::Protocol)), "{}: {:?}", response.escape_ascii(), result.kind);
    tally.case(text(case, "id"), result.kind.is_none(), text(case, "expected") == "ok");
}

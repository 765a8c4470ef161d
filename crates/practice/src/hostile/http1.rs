//! HTTP/1.1 heads and framing that are wrong, contradictory or endless.

use super::{Case, CaseReport, CaseVerdict, Expect, demand};
use crate::hostile::report::archived;
use crate::response::{Response, ResponseEnd};

/// A page with these header lines, unchanged. The connection stays open.
fn page_with_fields(fields: &str, body: &str) -> Response {
    raw(&format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\r\n{body}"))
}

/// These bytes. The connection stays open.
fn raw(bytes: &str) -> Response {
    Response::raw(bytes).ending(ResponseEnd::KeepAlive)
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// Checks that the body has this many bytes.
fn expect_body_length(report: &CaseReport, bytes: u64) -> CaseVerdict {
    let record = report.first_judged();
    demand(record["bytes_body"] == bytes, format!("not {bytes} bytes: {record}"))
}

/// Checks that the connection of the request for `path` was not used again.
fn expect_connection_not_reused(report: &CaseReport, path: &str) -> CaseVerdict {
    let connection =
        report.requests.iter().rev().find(|request| request.path == path).map(|request| request.connection);
    let last = report.requests.iter().rev().find(|request| Some(request.connection) == connection);
    demand(last.is_some_and(|request| request.path == path), format!("used again: {:?}", report.requests))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = lengths();
    cases.extend(chunks());
    cases.extend(status_lines());
    cases.extend(fields());
    cases.extend(unexpected_bodies());
    cases
}

/// Content-Length.
fn lengths() -> Vec<Case> {
    vec![
        Case::new("H102", "a negative Content-Length", Expect::error("protocol"), |case| {
            case.page(page_with_fields("Content-Length: -12\r\n", "hello"))
        }),
        Case::new("H103", "a Content-Length that is not a number", Expect::error("protocol"), |case| {
            case.page(page_with_fields("Content-Length: banana\r\n", "hello"))
        }),
        Case::new("H104", "a Content-Length above 64 bits", Expect::error("protocol"), |case| {
            case.page(page_with_fields("Content-Length: 99999999999999999999999999\r\n", "hello"))
        })
        .choosing("a length that does not fit into 64 bits is refused like one that is not a number"),
        Case::new("H106", "two equal values of Content-Length", Expect::Ok, |case| {
            case.check("five bytes", |report| expect_body_length(report, 5));
            case.page(page_with_fields("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"))
        }),
        Case::new("H107", "two different values of Content-Length", Expect::error("protocol"), |case| {
            case.page(page_with_fields("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"))
        }),
        Case::new("H108", "a list of Content-Length", Expect::Ok, |case| {
            case.check("42 bytes", |report| expect_body_length(report, 42));
            case.page(page_with_fields("Content-Length: 42,42\r\n", &"x".repeat(42)))
        }),
        Case::new("H110", "chunks and a Content-Length", Expect::Ok, |case| {
            let both_framings =
                page_with_fields(&format!("{CHUNKED}Content-Length: 3\r\n"), "a\r\n0123456789\r\n0\r\n\r\n");
            let site = case.site()?.page("/", both_framings.clone()).page("/next", both_framings);
            case.root(site.url("/"));
            case.root(site.url("/next"));
            case.add_site(site);
            case.check("the chunks determine the length", |report| expect_body_length(report, 10));
            case.check("the connection is not used again", |report| {
                expect_connection_not_reused(report, "/").and_then(|()| expect_connection_not_reused(report, "/next"))
            });
            Ok(())
        }),
    ]
}

/// Chunked bodies.
fn chunks() -> Vec<Case> {
    vec![
        Case::new("H111", "a chunk size above 64 bits", Expect::error("protocol"), |case| {
            case.page(page_with_fields(CHUNKED, "ffffffffffffffff0\r\nhello"))
        }),
        Case::new("H113", "chunks without a last one", Expect::truncated("disconnect", "reset"), |case| {
            case.page(page_with_fields(CHUNKED, "5\r\nhello\r\n5\r\nworld\r\n").ending(ResponseEnd::UnannouncedClose))
        }),
        Case::new("H114", "endless chunks", Expect::truncated("length", "too_large"), |case| {
            case.raise_timeout();
            case.raw_page(|conn, _| {
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{CHUNKED}\r\n"))?;
                let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
                conn.send_forever(&chunk)
            })
        }),
        Case::new("H115", "a million chunks of one byte", Expect::Ok, |case| {
            case.raise_timeout();
            case.check("a megabyte", |report| expect_body_length(report, 1 << 20));
            case.page(Response::filled("<title>crumbs</title>", 1 << 20).chunked([1]))
        }),
        Case::new("H116", "chunks with large extensions", Expect::error("protocol"), |case| {
            case.raw_page(|conn, _| {
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{CHUNKED}\r\n"))?;
                let chunk = format!("1;{}\r\nx\r\n", "e".repeat(16 << 10));
                conn.send_forever(chunk.as_bytes())
            })
        }),
        Case::new("H117", "ten megabytes of trailers", Expect::error("header_too_large"), |case| {
            case.raw_page(|conn, _| {
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{CHUNKED}\r\n5\r\nhello\r\n0\r\n"))?;
                let trailer = format!("X-Trailer: {}\r\n", "t".repeat(1 << 10));
                for _ in 0..10 << 10 {
                    conn.send(&trailer)?;
                }
                conn.send("\r\n")
            })
        }),
    ]
}

/// Status lines.
fn status_lines() -> Vec<Case> {
    vec![
        Case::new("H121", "an HTTP/0.9 response", Expect::error("protocol"), |case| {
            case.page(Response::raw("<html>hi"))
        }),
        Case::new("H123", "a negative status", Expect::error("protocol"), |case| {
            case.page(raw("HTTP/1.1 -12 OK\r\nContent-Length: 5\r\n\r\nhello"))
        }),
        Case::new("H124", "a status of one digit, of a hundred digits", Expect::error("protocol"), |case| {
            let long = format!("HTTP/1.1 2{} OK\r\nContent-Length: 5\r\n\r\nhello", "0".repeat(99));
            let short = raw("HTTP/1.1 2 OK\r\nContent-Length: 5\r\n\r\nhello");
            case.pages([("/one", short), ("/hundred", raw(&long))])
        }),
        Case::new("H125", "unknown statuses", Expect::HttpErrorOrRedirect, |case| {
            case.check("the body is read", |report| {
                demand(report.judged_records().all(|record| record["bytes_body"] == 6), "a body is missing")
            });
            let denied = |status| Response::html("denied").with_status(status).reason("Request denied");
            case.pages([("/999", denied(999)), ("/600", denied(600))])
        }),
        Case::new("H126", "no reason phrase", Expect::Ok, |case| {
            case.check("five bytes", |report| expect_body_length(report, 5));
            case.page(raw("HTTP/1.1 200\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"))
        }),
        Case::new("H127", "lines that end in LF alone", Expect::Ok, |case| {
            case.check("five bytes", |report| expect_body_length(report, 5));
            case.page(raw("HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 5\n\nhello"))
        })
        .choosing("a bare LF ends a line in heads and between chunks alike, as RFC 9112 2.2 allows"),
    ]
}

/// Header fields.
fn fields() -> Vec<Case> {
    vec![
        Case::new("H128", "a lone CR in a field", Expect::error("protocol"), |case| {
            let site = case.site()?.page("/after", Response::html("after"));
            let with_cr = "HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: evil=1\r\nContent-Length: 5\r\n\r\nhello";
            let site = site.page("/", raw(with_cr));
            case.root(site.url("/"));
            case.expect_at(site.url("/"));
            // Requested later, because a host is crawled in order.
            case.root(site.url("/after"));
            case.add_site(site);
            case.check("its cookie is not sent", |report| {
                let sent = report.requests.iter().flat_map(|request| &request.headers);
                demand(!sent.clone().any(|(name, _)| name.eq_ignore_ascii_case("cookie")), "a cookie was sent")
            });
            Ok(())
        }),
        Case::new("H130", "a field without a colon", Expect::error("protocol"), |case| {
            case.page(page_with_fields("JustText\r\nContent-Length: 5\r\n", "hello"))
        }),
        Case::new("H131", "a space before the colon", Expect::error("protocol"), |case| {
            case.page(page_with_fields("Content-Length : 5\r\n", "hello"))
        }),
        Case::new("H132", "a folded field", Expect::Ok, |case| {
            case.set("with", vec!["headers"]);
            case.check("joined by one space, and not another field", |report| {
                let headers = &report.first_judged()["headers"];
                let text = headers.to_string();
                demand(text.contains("one X-B: two") && !text.to_ascii_lowercase().contains("\"x-b\""), text)
            });
            case.page(page_with_fields("X-A: one\r\n X-B: two\r\nContent-Length: 5\r\n", "hello"))
        })
        .choosing("a folded value is joined by one space"),
        Case::new("H133", "a field of ten megabytes", Expect::error("header_too_large"), |case| {
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\nX-Big: ")?;
                for _ in 0..160 {
                    conn.send([b'a'; 64 << 10])?;
                }
                conn.send("\r\nContent-Length: 0\r\n\r\n")
            })
        }),
        Case::new("H134", "ten thousand fields", Expect::error("header_too_large"), |case| {
            case.page(page_with_fields(&format!("{}Content-Length: 5\r\n", "A: b\r\n".repeat(10_000)), "hello"))
        }),
        Case::new("H135", "150 and 256 fields", Expect::Ok, |case| {
            // Content-Type and Content-Length are two of them.
            let page_with_count = |count: usize| {
                page_with_fields(&format!("{}Content-Length: 5\r\n", "A: b\r\n".repeat(count - 2)), "hello")
            };
            case.pages([("/150", page_with_count(150)), ("/256", page_with_count(256))])
        }),
        Case::new("H136", "fields that are not ASCII", Expect::Ok, |case| {
            case.set("warc", true);
            case.set("with", vec!["headers"]);
            let disposition: &[u8] = b"attachment; filename=\"\xc3\xa9 \xe9\"";
            case.check("the archive has the same bytes", move |report| {
                let archive = archived(report)?;
                let is_archived = memchr::memmem::find(&archive, disposition).is_some();
                demand(is_archived, "the field is not in the archive as it was sent")
            });
            let page = Response::html("page").header("Location", b"/\xe9\xc3\xa9".as_slice());
            case.page(page.header("Content-Disposition", disposition))
        }),
    ]
}

/// Body bytes after responses that cannot have a body.
fn unexpected_bodies() -> Vec<Case> {
    vec![
        Case::new("H137", "204 and 304 with a body", Expect::Ok, |case| {
            let with_body = |status| raw(&format!("HTTP/1.1 {status} Nothing\r\nContent-Length: 5\r\n\r\nhello"));
            let site = case.site()?.page("/204", with_body(204)).page("/304", with_body(304));
            let unchanged = site.url("/304");
            case.root(site.url("/204"));
            case.root(&*unchanged);
            case.expect_at(site.url("/204"));
            case.add_site(site);
            case.check("no body is read", move |report| {
                expect_body_length(report, 0)?;
                let record = report.record(&unchanged).ok_or("304 has no record")?;
                demand(record["status"] == 304 && record["outcome"] == "http_error", record.to_string())?;
                demand(record["bytes_body"].as_u64().unwrap_or(0) == 0, record.to_string())
            });
            case.check("the connections are not used again", |report| {
                expect_connection_not_reused(report, "/204").and_then(|()| expect_connection_not_reused(report, "/304"))
            });
            Ok(())
        }),
        Case::new("H138", "bytes after a response without a body (a crawl never sends HEAD)", Expect::Ok, |case| {
            let site = case.site()?.page("/next", Response::html("<title>next</title>"));
            let evil = "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n<title>evil</title>";
            let link = format!("HTTP/1.1 200 OK\r\nLink: </next>; rel=next\r\nContent-Length: 0\r\n\r\nhello{evil}");
            let site = site.page("/", raw(&link));
            case.root(site.url("/"));
            case.expect_at(site.url("/"));
            case.expect_at(site.url("/next"));
            case.add_site(site);
            case.check("they do not become the next response", |report| {
                let titles: Vec<_> = report.judged_records().map(|record| record["title"].as_str()).collect();
                demand(titles == [None, Some("next")], format!("{titles:?}"))
            });
            case.check("HEAD is never sent", |report| {
                demand(report.requests.iter().all(|request| request.method == "GET"), format!("{:?}", report.requests))
            });
            Ok(())
        })
        .also("crates/core/tests/conn.rs", "connections_are_reused_if_the_response_allows_it"),
    ]
}

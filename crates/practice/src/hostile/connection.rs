//! Connections that end, stall, are slow or send wrong data before, within and after a response.

use super::{Case, Expect, demand};
use crate::response::{Response, ResponseEnd};
use std::net::TcpStream;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = endings();
    cases.extend(drips());
    cases.extend(interims());
    cases
}

/// The first half of a page of ten thousand bytes, then this ending.
fn half_a_page(ending: ResponseEnd) -> Response {
    Response::filled("<title>half</title>", 10_000).truncate_at(5_000).ending(ending)
}

/// Connections that end too early, or too late.
fn endings() -> Vec<Case> {
    vec![
        Case::new("CON02", "a SYN without a reply", Expect::error("connect_timeout"), |case| {
            // The server has no backlog and never accepts. A few connections fill the queue, and the system drops the SYN of
            // any other.
            let listener = std::net::TcpListener::bind((case.address(), 0))?;
            rustix::net::listen(&listener, 0)?;
            let address = listener.local_addr()?;
            let mut queued = Vec::new();
            while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                queued.push(stream);
            }
            case.keep((listener, queued));
            case.set("robots", "ignore");
            case.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON03", "accept then close", Expect::error("empty_reply"), |case| {
            case.check("at most one silent retry, and only on a reused connection", |report| {
                // The connections that had carried another request, the one for robots.txt.
                let used: Vec<u64> = report
                    .requests
                    .iter()
                    .filter(|request| request.path != "/")
                    .map(|request| request.connection)
                    .collect();
                let (on_reused, on_new): (Vec<_>, Vec<_>) = report
                    .requests
                    .iter()
                    .filter(|request| request.path == "/")
                    .partition(|request| used.contains(&request.connection));
                let (on_reused, on_new) = (on_reused.len(), on_new.len());
                // The test runner allows two tries. A silent retry does not count as a try.
                demand(on_reused <= 1 && on_new <= 2, format!("{on_reused} on reused, {on_new} on new connections"))
            });
            case.page(Response::close())
        }),
        Case::new("CON04", "accept then reset", Expect::error("reset"), |case| {
            let address = case.raw(|conn| conn.reset())?;
            case.set("robots", "ignore");
            case.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON05", "accept and silence", Expect::error("timeout_first_byte"), |case| {
            case.page(Response::hang())
        }),
        Case::new("CON10", "reset within the body", Expect::truncated("disconnect", "reset"), |case| {
            // A reset discards data that the client has not read yet, so wait for the client to read.
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10000\r\n\r\n")?;
                conn.send(vec![b'x'; 5_000])?;
                conn.pause(SECOND / 2)?;
                conn.reset()
            })?;
            case.check("the received part is kept, and the page is requested again", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000 && record["tries"] == 2, record.to_string())
            });
            Ok(())
        }),
        Case::new("CON11", "close within the body", Expect::truncated("disconnect", "reset"), |case| {
            case.check("the received part is kept, and the page is requested again", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000 && record["tries"] == 2, record.to_string())
            });
            case.page(half_a_page(ResponseEnd::UnannouncedClose))
        }),
        Case::new("CON12", "reset within the head", Expect::error("reset"), |case| {
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\nContent-Ty")?;
                conn.pause(SECOND / 2)?;
                conn.reset()
            })
        }),
        Case::new("CON14", "a second response that was not requested", Expect::Ok, |case| {
            let body = "<title>hello</title><a href=/next>next</a>";
            let unrequested =
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<title>evil</title>";
            let both = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}{unrequested}",
                body.len()
            );
            let site = case.site()?.page("/", Response::raw(both).ending(ResponseEnd::KeepAlive));
            let site = site.page("/next", Response::html("<title>next</title>"));
            case.root(site.url("/"));
            case.expect_at(site.url("/"));
            case.expect_at(site.url("/next"));
            case.add_site(site);
            case.check("no response is taken for that of another request", |report| {
                let titles: Vec<_> = report.judged_records().map(|record| record["title"].as_str()).collect();
                demand(titles == [Some("hello"), Some("next")], format!("{titles:?}"))
            });
            case.check("the connection is not used again", |report| {
                let first =
                    report.requests.iter().find(|request| request.path == "/").map(|request| request.connection);
                let next =
                    report.requests.iter().find(|request| request.path == "/next").map(|request| request.connection);
                demand(first != next, format!("both on connection {next:?}"))
            });
            Ok(())
        }),
        Case::new("CON17", "half-close before the request is read", Expect::error("empty_reply"), |case| {
            let address = case.raw(|conn| {
                conn.close_sending()?;
                conn.wait_until_closed()
            })?;
            case.set("robots", "ignore");
            case.root(format!("http://{address}/"));
            Ok(())
        }),
    ]
}

/// Responses that arrive slowly or stop.
fn drips() -> Vec<Case> {
    vec![
        Case::new("CON06", "a status line that drips", Expect::error("timeout_first_byte"), |case| {
            case.page(Response::html("late").drip_all(1, SECOND))
        }),
        Case::new("CON07", "headers that drip forever", Expect::error("timeout_first_byte"), |case| {
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\n")?;
                loop {
                    conn.send("X-More: yes\r\n")?;
                    conn.pause(SECOND / 2)?;
                }
            })
        }),
        Case::new("CON09", "a body that stalls", Expect::truncated("time", "timeout_idle"), |case| {
            case.check("the received part is kept", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000, record.to_string())
            });
            case.page(half_a_page(ResponseEnd::Hang))
        }),
    ]
}

/// Interim responses.
fn interims() -> Vec<Case> {
    vec![
        Case::new("CON19", "a storm of 100 Continue", Expect::error("protocol"), |case| {
            case.raw_page(|conn, _| {
                for _ in 0..10_000 {
                    conn.send("HTTP/1.1 100 Continue\r\n\r\n".repeat(100))?;
                }
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            })
        }),
        Case::new("CON20", "early hints", Expect::Ok, |case| {
            let hints = [("Link", "</early>; rel=next"), ("X-Early", "1")];
            case.set("with", vec!["headers"]);
            case.check("header fields of an interim response are ignored", |report| {
                let headers = report.first_judged()["headers"].to_string().to_ascii_lowercase();
                demand(headers.contains("x-late") && !headers.contains("x-early"), headers)?;
                demand(report.request_count("/early") == 0, "a link of an interim response was followed")
            });
            case.page(Response::html("page").interim(103, &hints).header("X-Late", "1"))
        }),
        Case::new("CON21", "101 Switching Protocols without a request for it", Expect::error("protocol"), |case| {
            let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            // The head is followed by the start of a WebSocket frame.
            case.page(Response::raw([head.as_bytes(), &[0x81, 0x05, 0xff, 0x00, 0x1b]].concat()))
        }),
    ]
}

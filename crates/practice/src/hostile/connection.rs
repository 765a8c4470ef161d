//! Connections that end, stall, drip or send wrong data before, within and after a response.

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

fn endings() -> Vec<Case> {
    vec![
        Case::new("CON02", "a SYN without a reply", Expect::error("connect_timeout"), |case| {
            // Without a backlog and without accepting, the first connections fill the queue, and the system drops the rest.
            let listener = std::net::TcpListener::bind((case.address(), 0))?;
            rustix::net::listen(&listener, 0)?;
            let address = listener.local_addr()?;
            let mut waiting = Vec::new();
            while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                waiting.push(stream);
            }
            case.keep((listener, waiting));
            case.set("robots", "ignore");
            case.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON03", "accept then close", Expect::error("empty_reply"), |case| {
            case.check("asked again in silence only after a connection that was used before", |report| {
                let used: Vec<u64> = report.seen.iter().filter(|s| s.path != "/").map(|s| s.connection).collect();
                let (again, fresh): (Vec<_>, Vec<_>) =
                    report.seen.iter().filter(|s| s.path == "/").partition(|s| used.contains(&s.connection));
                demand(again.len() <= 1 && fresh.len() <= 2, format!("{} and {} times", again.len(), fresh.len()))
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
            // A reset discards what the client has not read yet, so give it time to read.
            case.raw_page(|conn, _| {
                conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10000\r\n\r\n")?;
                conn.send(vec![b'x'; 5_000])?;
                conn.pause(SECOND / 2)?;
                conn.reset()
            })?;
            case.check("what came is kept, and it is asked for again", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000 && record["tries"] == 2, record.to_string())
            });
            Ok(())
        }),
        Case::new("CON11", "an end within the body", Expect::truncated("disconnect", "reset"), |case| {
            case.check("what came is kept, and it is asked for again", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000 && record["tries"] == 2, record.to_string())
            });
            case.page(half_a_page(ResponseEnd::SilentClose))
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
            let poison = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<title>evil</title>";
            let wire = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}{poison}",
                body.len()
            );
            let site = case.site()?.page("/", Response::raw(wire).ending(ResponseEnd::KeepAlive));
            let site = site.page("/next", Response::html("<title>next</title>"));
            case.root(site.url("/"));
            case.judge(site.url("/"));
            case.judge(site.url("/next"));
            case.open(site);
            case.check("no answer is taken for that to another request", |report| {
                let titles: Vec<_> = report.judged_records().map(|record| record["title"].as_str()).collect();
                demand(titles == [Some("hello"), Some("next")], format!("{titles:?}"))
            });
            case.check("the connection is not used again", |report| {
                let poisoned = report.seen.iter().find(|seen| seen.path == "/").map(|seen| seen.connection);
                let next = report.seen.iter().find(|seen| seen.path == "/next").map(|seen| seen.connection);
                demand(poisoned != next, format!("both on connection {next:?}"))
            });
            Ok(())
        }),
        Case::new("CON17", "half-close before the request is read", Expect::error("empty_reply"), |case| {
            let address = case.raw(|conn| {
                conn.shut()?;
                conn.wait_for_the_end()
            })?;
            case.set("robots", "ignore");
            case.root(format!("http://{address}/"));
            Ok(())
        }),
    ]
}

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
            case.check("what came is kept", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000, record.to_string())
            });
            case.page(half_a_page(ResponseEnd::Hang))
        }),
    ]
}

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
            case.check("the fields of an interim answer are not those of the answer", |report| {
                let headers = report.first_judged()["headers"].to_string().to_ascii_lowercase();
                demand(headers.contains("x-late") && !headers.contains("x-early"), headers)?;
                demand(report.asked("/early") == 0, "a link of an interim answer was followed")
            });
            case.page(Response::html("page").interim(103, &hints).header("X-Late", "1"))
        }),
        Case::new("CON21", "another protocol, unasked", Expect::error("protocol"), |case| {
            let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            case.page(Response::raw([head.as_bytes(), &[0x81, 0x05, 0xff, 0x00, 0x1b]].concat()))
        }),
    ]
}

//! Connections that end, stall, drip or lie before, within and after an answer.

use super::{Case, Expect, demand};
use crate::answer::{Answer, Ending};
use std::net::TcpStream;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = endings();
    cases.extend(drips());
    cases.extend(interims());
    cases
}

/// Half of a page of ten thousand bytes, and then this.
fn half_a_page(ending: Ending) -> Answer {
    Answer::filled("<title>half</title>", 10_000).truncate_at(5_000).ending(ending)
}

fn endings() -> Vec<Case> {
    vec![
        Case::new("CON02", "nobody answers a SYN", Expect::error("connect_timeout"), |stage| {
            // With no backlog and nobody to accept, the first connections fill the queue, and the system drops the rest.
            let listener = std::net::TcpListener::bind((stage.address(), 0))?;
            rustix::net::listen(&listener, 0)?;
            let address = listener.local_addr()?;
            let mut waiting = Vec::new();
            while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                waiting.push(stream);
            }
            stage.keep((listener, waiting));
            stage.set("robots", "ignore");
            stage.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON03", "accept then close", Expect::error("empty_reply"), |stage| {
            stage.check("asked again in silence only after a connection that was used before", |report| {
                let used: Vec<u64> = report.seen.iter().filter(|s| s.path != "/").map(|s| s.connection).collect();
                let (again, fresh): (Vec<_>, Vec<_>) =
                    report.seen.iter().filter(|s| s.path == "/").partition(|s| used.contains(&s.connection));
                demand(again.len() <= 1 && fresh.len() <= 2, format!("{} and {} times", again.len(), fresh.len()))
            });
            stage.page(Answer::close())
        }),
        Case::new("CON04", "accept then reset", Expect::error("reset"), |stage| {
            let address = stage.raw(|talk| talk.reset())?;
            stage.set("robots", "ignore");
            stage.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON05", "accept and silence", Expect::error("timeout_first_byte"), |stage| {
            stage.page(Answer::hang())
        }),
        Case::new("CON10", "reset within the body", Expect::truncated("disconnect", "reset"), |stage| {
            // A reset overtakes what the client has not read yet: it is given the time to.
            stage.spoken(|talk, _| {
                talk.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10000\r\n\r\n")?;
                talk.send(vec![b'x'; 5_000])?;
                talk.pause(SECOND / 2)?;
                talk.reset()
            })?;
            stage.check("what came is kept, and it is asked for again", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000 && record["tries"] == 2, record.to_string())
            });
            Ok(())
        }),
        Case::new("CON11", "an end within the body", Expect::truncated("disconnect", "reset"), |stage| {
            stage.check("what came is kept, and it is asked for again", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000 && record["tries"] == 2, record.to_string())
            });
            stage.page(half_a_page(Ending::SilentClose))
        }),
        Case::new("CON12", "reset within the head", Expect::error("reset"), |stage| {
            stage.spoken(|talk, _| {
                talk.send("HTTP/1.1 200 OK\r\nContent-Ty")?;
                talk.pause(SECOND / 2)?;
                talk.reset()
            })
        }),
        Case::new("CON14", "a second answer that nobody asked for", Expect::Ok, |stage| {
            let body = "<title>hello</title><a href=/next>next</a>";
            let poison = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<title>evil</title>";
            let wire = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}{poison}",
                body.len()
            );
            let site = stage.site()?.page("/", Answer::raw(wire).ending(Ending::KeepAlive));
            let site = site.page("/next", Answer::html("<title>next</title>"));
            stage.root(site.url("/"));
            stage.judge(site.url("/"));
            stage.judge(site.url("/next"));
            stage.open(site);
            stage.check("no answer is taken for that to another request", |report| {
                let titles: Vec<_> = report.judged_records().map(|record| record["title"].as_str()).collect();
                demand(titles == [Some("hello"), Some("next")], format!("{titles:?}"))
            });
            stage.check("the connection is not used again", |report| {
                let poisoned = report.seen.iter().find(|seen| seen.path == "/").map(|seen| seen.connection);
                let next = report.seen.iter().find(|seen| seen.path == "/next").map(|seen| seen.connection);
                demand(poisoned != next, format!("both on connection {next:?}"))
            });
            Ok(())
        }),
        Case::new("CON17", "half-close before the request is read", Expect::error("empty_reply"), |stage| {
            let address = stage.raw(|talk| {
                talk.shut()?;
                talk.wait_for_the_end()
            })?;
            stage.set("robots", "ignore");
            stage.root(format!("http://{address}/"));
            Ok(())
        }),
    ]
}

fn drips() -> Vec<Case> {
    vec![
        Case::new("CON06", "a status line that drips", Expect::error("timeout_first_byte"), |stage| {
            stage.page(Answer::html("late").drip_all(1, SECOND))
        }),
        Case::new("CON07", "headers that drip for ever", Expect::error("timeout_first_byte"), |stage| {
            stage.spoken(|talk, _| {
                talk.send("HTTP/1.1 200 OK\r\n")?;
                loop {
                    talk.send("X-More: yes\r\n")?;
                    talk.pause(SECOND / 2)?;
                }
            })
        }),
        Case::new("CON09", "a body that stalls", Expect::truncated("time", "timeout_idle"), |stage| {
            stage.check("what came is kept", |report| {
                let record = report.first_judged();
                demand(record["bytes_body"] == 5_000, record.to_string())
            });
            stage.page(half_a_page(Ending::Hang))
        }),
    ]
}

fn interims() -> Vec<Case> {
    vec![
        Case::new("CON19", "a storm of 100 Continue", Expect::error("protocol"), |stage| {
            stage.spoken(|talk, _| {
                for _ in 0..10_000 {
                    talk.send("HTTP/1.1 100 Continue\r\n\r\n".repeat(100))?;
                }
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            })
        }),
        Case::new("CON20", "early hints", Expect::Ok, |stage| {
            let hints = [("Link", "</early>; rel=next"), ("X-Early", "1")];
            stage.set("with", vec!["headers"]);
            stage.check("the fields of an interim answer are not those of the answer", |report| {
                let headers = report.first_judged()["headers"].to_string().to_ascii_lowercase();
                demand(headers.contains("x-late") && !headers.contains("x-early"), headers)?;
                demand(report.asked("/early") == 0, "a link of an interim answer was followed")
            });
            stage.page(Answer::html("page").interim(103, &hints).header("X-Late", "1"))
        }),
        Case::new("CON21", "another protocol, unasked", Expect::error("protocol"), |stage| {
            let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            stage.page(Answer::raw([head.as_bytes(), &[0x81, 0x05, 0xff, 0x00, 0x1b]].concat()))
        }),
    ]
}

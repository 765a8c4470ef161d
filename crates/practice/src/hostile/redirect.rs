//! Redirects that loop, grow, lie about their targets or lead where nobody may go.

use super::raw::Talk;
use super::{Case, Expect, Reply, Stage, demand};
use crate::answer::Answer;
use crate::certificate::Certificate;
use crate::site::Site;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const INVALID: Expect = Expect::error("redirect_invalid");
const BLOCKED: Expect = Expect::error("redirect_blocked");

/// More than any crawler should read of what it throws away: what sits in sockets on both sides is part of it.
const THROWN_AWAY: usize = 16 << 20;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("RED01", "a page that leads to itself", Expect::Status, |stage| {
            stage.check("asked once", |report| demand(report.asked("/") == 1, "asked again"));
            stage.page(Answer::redirect("/", 302))
        }),
        Case::new("RED02", "two pages that lead to each other", Expect::Status, |stage| {
            let site = stage.site()?.redirect("/a", "/b", 302).redirect("/b", "/a", 302);
            stage.root(site.url("/a"));
            stage.judge(site.url("/a"));
            stage.judge(site.url("/b"));
            stage.open(site);
            stage.check("each asked once", |report| {
                demand(report.asked("/a") == 1 && report.asked("/b") == 1, "a page was asked for again")
            });
            Ok(())
        }),
        Case::new("RED03", "a chain of fifty", Expect::error("redirect_limit"), |stage| {
            let mut site = stage.site()?;
            for n in 0..50 {
                site = site.redirect(&format!("/{n}"), &format!("/{}", n + 1), 302);
            }
            stage.root(site.url("/0"));
            stage.judge(site.url("/10"));
            stage.open(site);
            stage.check("followed ten times and no further", |report| {
                demand(report.asked("/10") == 1 && report.asked("/11") == 0, "the limit did not hold")
            });
            Ok(())
        }),
        Case::new("RED04", "a chain that grows", INVALID, |stage| {
            let mut site = stage.site()?;
            let path = |size: usize| format!("/?x={}", "a".repeat(size));
            for step in 6..=12 {
                site = site.redirect(&path(1 << step), &path(2 << step), 302);
            }
            stage.root(site.url(&path(64)));
            stage.judge(site.url(&path(2_048)));
            stage.open(site);
            stage.check("it ends at the longest URL", move |report| {
                demand(report.asked(&path(4_096)) == 0, "a URL that is too long was asked for")
            });
            Ok(())
        }),
        Case::new("RED05", "a page that wants its cookie back", Expect::Ok, |stage| {
            let address = stage.raw(|talk| {
                while let Some(path) = talk.request()? {
                    let answer = match path.as_str() {
                        "/robots.txt" => NOT_FOUND.to_owned(),
                        _ if talk.header("cookie").is_some_and(|cookie| cookie.contains("seen=1")) => page("let in"),
                        _ => found("/", "Set-Cookie: seen=1\r\n"),
                    };
                    talk.send(answer)?;
                }
                Ok(())
            })?;
            stage.root(format!("http://{address}/"));
            stage.check("asked twice", |report| demand(report.asked("/") == 2, "not asked once more"));
            Ok(())
        }),
        Case::new("RED06", "a page that sets another cookie every time", Expect::error("redirect_limit"), |stage| {
            let count = AtomicUsize::new(0);
            let address = stage.raw(move |talk| {
                while let Some(path) = talk.request()? {
                    let n = count.fetch_add(1, SeqCst);
                    let answer = match path.as_str() {
                        "/robots.txt" => NOT_FOUND.to_owned(),
                        _ => found("/", &format!("Set-Cookie: n{n}={n}\r\n")),
                    };
                    talk.send(answer)?;
                }
                Ok(())
            })?;
            stage.root(format!("http://{address}/"));
            stage.check("asked for at most as often as redirects are followed", |report| {
                demand(report.asked("/") <= 11, format!("asked {} times", report.asked("/")))
            });
            Ok(())
        }),
        Case::new("RED07", "no Location", Expect::Status, |stage| {
            stage.page(Answer::links(["/elsewhere"]).with_status(302))
        }),
        Case::new("RED08", "an empty Location", Expect::Status, |stage| {
            stage.pages([("/a", Answer::redirect("", 302)), ("/b", Answer::redirect("  ", 301))])
        }),
        Case::new("RED09", "a Location that is no URL", INVALID, |stage| {
            stage.page(Answer::redirect("http://[::1", 302))
        }),
        Case::new("RED10", "two Locations", INVALID, |stage| {
            let site = stage.site()?.page("/", Answer::redirect("/a", 302).header("Location", "/b"));
            stage.root(site.url("/"));
            stage.open(site);
            stage.check("neither is followed", |report| {
                demand(report.asked("/a") + report.asked("/b") == 0, "one of them was followed")
            });
            Ok(())
        }),
        Case::new("RED11", "spaces and raw UTF-8 in a Location", Expect::Ok, |stage| {
            let site = stage.site()?.redirect("/", "/a b/\u{e9}", 302).page("/a%20b/%C3%A9", Answer::html("here"));
            stage.root(site.url("/"));
            stage.judge(site.url("/a%20b/%C3%A9"));
            stage.open(site);
            Ok(())
        }),
        Case::new("RED12", "a Location without a scheme, and with backslashes", Expect::Ok, |stage| {
            let site = stage.site()?.page("/there", Answer::html("here"));
            let port = site.address().port();
            stage.name("friend.test", Reply::address(site.address().ip()));
            stage.name("evil.test", Reply::address(site.address().ip()));
            stage.root(site.url("/a"));
            stage.root(site.url("/b"));
            stage.root(site.url_as("friend.test", "/robots.txt"));
            stage.judge(site.url_as("friend.test", "/there"));
            let site = site.redirect("/a", &format!("//friend.test:{port}/there"), 302).redirect(
                "/b",
                &format!("\\\\evil.test:{port}\\there"),
                302,
            );
            stage.open(site);
            stage.check("a host out of scope is not even looked up", |report| {
                demand(!report.names_asked.iter().any(|name| name == "evil.test"), "it was looked up")
            });
            Ok(())
        }),
        Case::new("RED13", "a Location on the local disk", BLOCKED, |stage| {
            stage.page(Answer::redirect("file:///etc/passwd", 302))
        }),
        Case::new("RED14", "Locations that are not of the web", BLOCKED, |stage| {
            stage.pages([
                ("/a", Answer::redirect("javascript:alert(1)", 302)),
                ("/b", Answer::redirect("data:text/html,<a href=/x>", 302)),
                ("/c", Answer::redirect("ftp://ftp.example.com/", 302)),
                ("/d", Answer::redirect("gopher://gopher.example.com/", 301)),
            ])
        }),
        Case::new("RED15", "into the machine itself", Expect::error("private_address"), |stage| {
            let came = Arc::new(AtomicUsize::new(0));
            let inside = {
                let came = Arc::clone(&came);
                stage.raw(move |talk| {
                    came.fetch_add(1, SeqCst);
                    talk.wait_for_the_end()
                })?
            };
            stage.set("scope", "any");
            stage.judge(format!("http://{inside}/"));
            stage.check("no connection is made", move |_| demand(came.load(SeqCst) == 0, "somebody came"));
            let site = stage.site()?.redirect("/", &format!("http://{inside}/"), 302);
            stage.root(site.url("/"));
            stage.open(site);
            Ok(())
        }),
        Case::new("RED16", "out of scope", Expect::Skip, |stage| {
            stage.name("other.test", Reply::address([127, 0, 0, 1]));
            stage.judge("http://other.test/");
            let site = stage.site()?.redirect("/", "http://other.test/", 302);
            stage.root(site.url("/"));
            stage.open(site);
            stage.check("the host is not even looked up", |report| {
                demand(report.names_asked.is_empty(), "it was looked up")
            });
            Ok(())
        }),
        Case::new("RED17", "into a disallowed path", Expect::Skip, |stage| {
            let site = stage.site()?.robots("User-agent: *\nDisallow: /private\n").redirect("/", "/private", 302);
            stage.root(site.url("/"));
            stage.judge(site.url("/private"));
            stage.open(site);
            stage.check("the private page is never asked for", |report| {
                demand(report.asked("/private") == 0, "it was asked for")
            });
            Ok(())
        }),
        Case::new("RED18", "from https down to http", Expect::Ok, |stage| {
            let secure = stage.secure_site(Certificate::Good)?;
            let plain = Site::http(&format!("{}:0", secure.address().ip()))?.page("/plain", Answer::html("open"));
            stage.root(secure.url("/"));
            stage.judge(plain.url("/plain"));
            stage.set("allow-private", true);
            stage.set("user", "somebody:secret");
            stage.set("header", vec!["X-Token: secret"]);
            stage.open(secure.redirect("/", &plain.url("/plain"), 301));
            stage.open(plain);
            stage.check("nothing secret goes along", |report| {
                let has = |path: &str, name: &str| {
                    let mut seen = report.seen.iter().filter(|seen| seen.path == path);
                    seen.any(|seen| seen.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name)))
                };
                demand(has("/", "authorization") && has("/", "x-token"), "the root did not get them")?;
                demand(!has("/plain", "authorization") && !has("/plain", "x-token"), "they went along")
            });
            Ok(())
        }),
        Case::new("RED20", "a redirect with an endless body", Expect::Ok, |stage| {
            let head = "HTTP/1.1 302 Found\r\nLocation: /next\r\nTransfer-Encoding: chunked\r\n\r\n";
            thrown_away(stage, head.into(), format!("10000\r\n{}\r\n", "x".repeat(0x1_0000)).into())
        }),
        Case::new("RED21", "a redirect whose body is a bomb", Expect::Ok, |stage| {
            // 64 MiB in 64 KiB, again and again.
            let bomb = Answer::filled("", 64 << 20).gzip();
            let site = stage.site()?.page("/", bomb.with_status(302).header("Location", "/next"));
            stage.root(site.url("/"));
            stage.judge(site.url("/next"));
            let root = site.url("/");
            stage.check("its body is not unpacked", move |report| {
                let bytes = report.record(&root).and_then(|record| record["bytes_body"].as_u64());
                demand(bytes == Some(0), format!("{bytes:?} bytes were unpacked"))
            });
            stage.open(site.page("/next", Answer::html("here")));
            Ok(())
        }),
        Case::new("RED23", "a Refresh header", Expect::Ok, |stage| {
            let site = stage.site()?.page("/", Answer::html("").header("Refresh", "0; url=/next"));
            stage.root(site.url("/"));
            stage.judge(site.url("/next"));
            stage.open(site.page("/next", Answer::html("here")));
            Ok(())
        }),
        Case::new("RED24", "every URL leads to a host that was never seen", Expect::Skip, |stage| {
            let count = AtomicUsize::new(0);
            let address = stage.raw(move |talk| {
                let port = talk.stream().local_addr()?.port();
                while let Some(path) = talk.request()? {
                    let n = count.fetch_add(1, SeqCst);
                    let answer = match path.as_str() {
                        "/robots.txt" => NOT_FOUND.to_owned(),
                        _ => found(&format!("http://h{n}.farm.test:{port}/{n}"), ""),
                    };
                    talk.send(answer)?;
                }
                Ok(())
            })?;
            stage.name("farm.test", Reply::address(address.ip()));
            stage.name("*.farm.test", Reply::address(address.ip()));
            stage.set("scope", "domain");
            stage.set("allow-private", true);
            stage.root(format!("http://farm.test:{}/", address.port()));
            // Nobody can know which host would be the twentieth: it must not be there.
            stage.judge(format!("http://h99.farm.test:{}/99", address.port()));
            stage.check("the chain ends with the tenth redirect", |report| {
                let pages = report.seen.iter().filter(|seen| seen.path != "/robots.txt").count();
                demand(pages <= 11, format!("{pages} pages were asked for"))
            });
            Ok(())
        }),
    ]
}

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

fn found(target: &str, more: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\n{more}Content-Length: 0\r\n\r\n")
}

fn page(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

/// A redirect to `/next` whose body never ends. What is sent of it is counted.
fn thrown_away(stage: &mut Stage, head: Vec<u8>, piece: Vec<u8>) -> io::Result<()> {
    let sent = Arc::new(AtomicUsize::new(0));
    let address = {
        let sent = Arc::clone(&sent);
        stage.raw(move |talk: &mut Talk| {
            while let Some(path) = talk.request()? {
                match path.as_str() {
                    "/robots.txt" => talk.send(NOT_FOUND)?,
                    "/next" => talk.send(page("here"))?,
                    _ => {
                        talk.send(&head)?;
                        loop {
                            talk.send(&piece)?;
                            sent.fetch_add(piece.len(), SeqCst);
                        }
                    }
                }
            }
            Ok(())
        })?
    };
    stage.root(format!("http://{address}/"));
    stage.judge(format!("http://{address}/next"));
    stage.check("little of what is thrown away is read", move |_| {
        let sent = sent.load(SeqCst);
        demand(sent < THROWN_AWAY, format!("{sent} bytes were taken"))
    });
    Ok(())
}

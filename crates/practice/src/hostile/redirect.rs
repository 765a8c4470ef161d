//! Redirects that loop, grow, or lead to forbidden targets.

use super::{Case, CaseBuilder, DnsReply, Expect, demand};
use crate::raw::RawConnection;
use crate::response::Response;
use crate::site::CertificateKind;
use crate::site::Site;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const INVALID: Expect = Expect::error("redirect_invalid");
const BLOCKED: Expect = Expect::error("redirect_blocked");

/// A crawler that discards a body must stop reading before the server has sent this many bytes. The buffers of both
/// sockets are included, so this is more than a crawler should read.
const MAX_DISCARDED: usize = 16 << 20;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("RED01", "a redirect to itself", Expect::HttpErrorOrRedirect, |case| {
            case.check("requested once", |report| demand(report.request_count("/") == 1, "requested again"));
            case.page(Response::redirect("/", 302))
        }),
        Case::new("RED02", "two redirects to each other", Expect::HttpErrorOrRedirect, |case| {
            let site = case.site()?.redirect("/a", "/b", 302).redirect("/b", "/a", 302);
            case.root(site.url("/a"));
            case.expect_at(site.url("/a"));
            case.expect_at(site.url("/b"));
            case.add_site(site);
            case.check("each requested once", |report| {
                demand(report.request_count("/a") == 1 && report.request_count("/b") == 1, "a page was requested again")
            });
            Ok(())
        }),
        Case::new("RED03", "a chain of fifty", Expect::error("redirect_limit"), |case| {
            let mut site = case.site()?;
            for n in 0..50 {
                site = site.redirect(&format!("/{n}"), &format!("/{}", n + 1), 302);
            }
            case.root(site.url("/0"));
            case.expect_at(site.url("/10"));
            case.add_site(site);
            case.check("ten redirects are followed", |report| {
                demand(
                    report.request_count("/10") == 1 && report.request_count("/11") == 0,
                    "more or fewer than ten were followed",
                )
            });
            Ok(())
        }),
        Case::new("RED04", "a chain that grows", INVALID, |case| {
            let mut site = case.site()?;
            let path = |size: usize| format!("/?x={}", "a".repeat(size));
            // From 64 to 8,192 bytes, twice as long at each step.
            for exponent in 6..=12 {
                site = site.redirect(&path(1 << exponent), &path(2 << exponent), 302);
            }
            case.root(site.url(&path(64)));
            case.expect_at(site.url(&path(2_048)));
            case.add_site(site);
            case.check("the chain ends at the maximum length of a URL", move |report| {
                // With scheme and host, this URL is longer than 4,096 bytes, the maximum.
                demand(report.request_count(&path(4_096)) == 0, "a URL that is too long was requested")
            });
            Ok(())
        }),
        Case::new("RED05", "a redirect to itself that requires a cookie", Expect::Ok, |case| {
            let address = case.raw(|conn| {
                while let Some(path) = conn.request()? {
                    let response = match path.as_str() {
                        "/robots.txt" => NOT_FOUND.to_owned(),
                        _ if conn.header("cookie").is_some_and(|cookie| cookie.contains("seen=1")) => page("let in"),
                        _ => found("/", "Set-Cookie: seen=1\r\n"),
                    };
                    conn.send(response)?;
                }
                Ok(())
            })?;
            case.root(format!("http://{address}/"));
            case.check("requested twice", |report| {
                demand(report.request_count("/") == 2, "not requested a second time")
            });
            Ok(())
        }),
        Case::new("RED06", "a page that sets another cookie every time", Expect::error("redirect_limit"), |case| {
            let count = AtomicUsize::new(0);
            let address = case.raw(move |conn| {
                while let Some(path) = conn.request()? {
                    let n = count.fetch_add(1, SeqCst);
                    let response = match path.as_str() {
                        "/robots.txt" => NOT_FOUND.to_owned(),
                        _ => found("/", &format!("Set-Cookie: n{n}={n}\r\n")),
                    };
                    conn.send(response)?;
                }
                Ok(())
            })?;
            case.root(format!("http://{address}/"));
            case.check("requested at most as often as redirects are followed", |report| {
                // The first request and ten redirects.
                demand(report.request_count("/") <= 11, format!("requested {} times", report.request_count("/")))
            });
            Ok(())
        }),
        Case::new("RED07", "no Location", Expect::HttpErrorOrRedirect, |case| {
            case.page(Response::links(["/elsewhere"]).with_status(302))
        }),
        Case::new("RED08", "an empty Location", Expect::HttpErrorOrRedirect, |case| {
            case.pages([("/a", Response::redirect("", 302)), ("/b", Response::redirect("  ", 301))])
        }),
        Case::new("RED09", "a Location that is not a URL", INVALID, |case| {
            case.page(Response::redirect("http://[::1", 302))
        }),
        Case::new("RED10", "two Locations", INVALID, |case| {
            let site = case.site()?.page("/", Response::redirect("/a", 302).header("Location", "/b"));
            case.root(site.url("/"));
            case.add_site(site);
            case.check("neither is followed", |report| {
                demand(report.request_count("/a") + report.request_count("/b") == 0, "one of them was followed")
            });
            Ok(())
        }),
        Case::new("RED11", "spaces and raw UTF-8 in a Location", Expect::Ok, |case| {
            let site = case.site()?.redirect("/", "/a b/\u{e9}", 302).page("/a%20b/%C3%A9", Response::html("here"));
            case.root(site.url("/"));
            case.expect_at(site.url("/a%20b/%C3%A9"));
            case.add_site(site);
            Ok(())
        }),
        Case::new("RED12", "a Location without a scheme, and with backslashes", Expect::Ok, |case| {
            let site = case.site()?.page("/there", Response::html("here"));
            let port = site.address().port();
            case.name("friend.test", DnsReply::address(site.address().ip()));
            case.name("evil.test", DnsReply::address(site.address().ip()));
            case.root(site.url("/a"));
            case.root(site.url("/b"));
            // Any root with this name makes the host part of the scope.
            case.root(site.url_as("friend.test", "/robots.txt"));
            case.expect_at(site.url_as("friend.test", "/there"));
            let site = site.redirect("/a", &format!("//friend.test:{port}/there"), 302).redirect(
                "/b",
                &format!("\\\\evil.test:{port}\\there"),
                302,
            );
            case.add_site(site);
            case.check("a host out of scope is not even looked up", |report| {
                demand(!report.queried_names.iter().any(|name| name == "evil.test"), "it was looked up")
            });
            Ok(())
        }),
        Case::new("RED13", "a Location on the local disk", BLOCKED, |case| {
            case.page(Response::redirect("file:///etc/passwd", 302))
        }),
        Case::new("RED14", "Locations with other schemes", BLOCKED, |case| {
            case.pages([
                ("/a", Response::redirect("javascript:alert(1)", 302)),
                ("/b", Response::redirect("data:text/html,<a href=/x>", 302)),
                ("/c", Response::redirect("ftp://ftp.example.com/", 302)),
                ("/d", Response::redirect("gopher://gopher.example.com/", 301)),
            ])
        }),
        Case::new("RED15", "redirects to the local machine", Expect::error("private_address"), |case| {
            let connections = Arc::new(AtomicUsize::new(0));
            let internal = {
                let connections = Arc::clone(&connections);
                case.raw(move |conn| {
                    connections.fetch_add(1, SeqCst);
                    conn.wait_until_closed()
                })?
            };
            case.set("scope", "any");
            // The root is on the local machine too, but the user has named it.
            case.expect_at(format!("http://{internal}/"));
            case.check("no connection is made", move |_| {
                demand(connections.load(SeqCst) == 0, "a connection was made")
            });
            let site = case.site()?.redirect("/", &format!("http://{internal}/"), 302);
            case.root(site.url("/"));
            case.add_site(site);
            Ok(())
        }),
        Case::new("RED16", "out of scope", Expect::NotFetched, |case| {
            case.name("other.test", DnsReply::address([127, 0, 0, 1]));
            case.expect_at("http://other.test/");
            let site = case.site()?.redirect("/", "http://other.test/", 302);
            case.root(site.url("/"));
            case.add_site(site);
            case.check("the host is not even looked up", |report| {
                demand(report.queried_names.is_empty(), "it was looked up")
            });
            Ok(())
        }),
        Case::new("RED17", "into a disallowed path", Expect::NotFetched, |case| {
            let site = case.site()?.robots("User-agent: *\nDisallow: /private\n").redirect("/", "/private", 302);
            case.root(site.url("/"));
            case.expect_at(site.url("/private"));
            case.add_site(site);
            case.check("the private page is never requested", |report| {
                demand(report.request_count("/private") == 0, "it was requested")
            });
            Ok(())
        }),
        Case::new("RED18", "from https down to http", Expect::Ok, |case| {
            let secure = case.secure_site(CertificateKind::Good)?;
            let plain = Site::http(&format!("{}:0", secure.address().ip()))?.page("/plain", Response::html("open"));
            case.root(secure.url("/"));
            case.expect_at(plain.url("/plain"));
            case.set("allow-private", true);
            case.set("user", "somebody:secret");
            case.set("header", vec!["X-Token: secret"]);
            case.add_site(secure.redirect("/", &plain.url("/plain"), 301));
            case.add_site(plain);
            case.check("the credentials are not sent over http", |report| {
                let has = |path: &str, name: &str| {
                    let mut seen = report.requests.iter().filter(|request| request.path == path);
                    seen.any(|request| request.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name)))
                };
                demand(has("/", "authorization") && has("/", "x-token"), "the root did not receive them")?;
                demand(!has("/plain", "authorization") && !has("/plain", "x-token"), "they were sent")
            });
            Ok(())
        }),
        Case::new("RED20", "a redirect with an endless body", Expect::Ok, |case| {
            let head = "HTTP/1.1 302 Found\r\nLocation: /next\r\nTransfer-Encoding: chunked\r\n\r\n";
            redirect_with_endless_body(case, head.into(), format!("10000\r\n{}\r\n", "x".repeat(0x1_0000)).into())
        }),
        Case::new("RED21", "a redirect whose body is a bomb", Expect::Ok, |case| {
            // A body that decompresses to 64 MiB.
            let bomb = Response::filled("", 64 << 20).gzip();
            let site = case.site()?.page("/", bomb.with_status(302).header("Location", "/next"));
            case.root(site.url("/"));
            case.expect_at(site.url("/next"));
            let root = site.url("/");
            case.check("its body is not decompressed", move |report| {
                let bytes = report.record(&root).and_then(|record| record["bytes_body"].as_u64());
                demand(bytes == Some(0), format!("{bytes:?} bytes were decompressed"))
            });
            case.add_site(site.page("/next", Response::html("here")));
            Ok(())
        }),
        Case::new("RED23", "a Refresh header", Expect::Ok, |case| {
            let site = case.site()?.page("/", Response::html("").header("Refresh", "0; url=/next"));
            case.root(site.url("/"));
            case.expect_at(site.url("/next"));
            case.add_site(site.page("/next", Response::html("here")));
            Ok(())
        }),
        Case::new("RED24", "every URL redirects to a new host", Expect::NotFetched, |case| {
            let count = AtomicUsize::new(0);
            let address = case.raw(move |conn| {
                let port = conn.stream().local_addr()?.port();
                while let Some(path) = conn.request()? {
                    let n = count.fetch_add(1, SeqCst);
                    let response = match path.as_str() {
                        "/robots.txt" => NOT_FOUND.to_owned(),
                        _ => found(&format!("http://h{n}.farm.test:{port}/{n}"), ""),
                    };
                    conn.send(response)?;
                }
                Ok(())
            })?;
            case.name("farm.test", DnsReply::address(address.ip()));
            case.name("*.farm.test", DnsReply::address(address.ip()));
            case.set("scope", "domain");
            case.set("allow-private", true);
            case.root(format!("http://farm.test:{}/", address.port()));
            // The chain ends long before this host.
            case.expect_at(format!("http://h99.farm.test:{}/99", address.port()));
            case.check("the chain ends with the tenth redirect", |report| {
                let pages = report.requests.iter().filter(|request| request.path != "/robots.txt").count();
                // The root and ten redirects.
                demand(pages <= 11, format!("{pages} pages were requested"))
            });
            Ok(())
        }),
    ]
}

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// A redirect with these additional header lines.
fn found(target: &str, more: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\n{more}Content-Length: 0\r\n\r\n")
}

fn page(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

/// A redirect to `/next` with an endless body that repeats `piece`. Checks how many bytes were sent.
fn redirect_with_endless_body(case: &mut CaseBuilder, head: Vec<u8>, piece: Vec<u8>) -> io::Result<()> {
    let sent = Arc::new(AtomicUsize::new(0));
    let address = {
        let sent = Arc::clone(&sent);
        case.raw(move |conn: &mut RawConnection| {
            while let Some(path) = conn.request()? {
                match path.as_str() {
                    "/robots.txt" => conn.send(NOT_FOUND)?,
                    "/next" => conn.send(page("here"))?,
                    _ => {
                        conn.send(&head)?;
                        loop {
                            conn.send(&piece)?;
                            sent.fetch_add(piece.len(), SeqCst);
                        }
                    }
                }
            }
            Ok(())
        })?
    };
    case.root(format!("http://{address}/"));
    case.expect_at(format!("http://{address}/next"));
    case.check("only a part of the discarded body is read", move |_| {
        let sent = sent.load(SeqCst);
        demand(sent < MAX_DISCARDED, format!("{sent} bytes were sent"))
    });
    Ok(())
}

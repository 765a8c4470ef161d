//! Endless webs, whose servers generate pages on request.
//!
//! The trap budgets are low, so that the crawl of an endless web ends soon. The checks count requests.

use super::builder::CaseBuilder;
use super::{Case, DnsReply, Expect, demand};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A text that is long enough for the comparison of pages.
const TEXT: &str = "The quick brown fox jumps over the lazy dog, and then it comes back and jumps over it once again.";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("TRP02", "session id in the query", Expect::Ok, |case| {
            case.set("strip-param", vec!["@sessions"]);
            endless(case, "/", |path, unique| {
                let page = path.trim_start_matches('/').split('?').next().unwrap_or_default();
                let links = (0..50).map(|link| format!("/page{link}?sid={unique}{link}"));
                page_with(&format!("Page {page}. {TEXT}"), links)
            })?;
            // The root and fifty pages.
            check_pages_at_most(case, 51);
            Ok(())
        }),
        Case::new("TRP03", "session id in the path", Expect::Ok, |case| {
            case.set("strip-param", vec!["@sessions"]);
            endless(case, "/", |path, unique| {
                let links = (0..20).flat_map(|link| {
                    [format!("/s(abc{unique})/page{link}"), format!("/page{link};jsessionid={unique}{link}")]
                });
                page_with(&format!("You are at {path}. {TEXT}"), links)
            })?;
            // The root and twenty pages: without their session ids, the two links to a page are equal.
            check_pages_at_most(case, 21);
            Ok(())
        }),
        Case::new("TRP04", "faceted navigation", Expect::Ok, |case| {
            case.set("strip-param", vec!["@order"]);
            case.set("trap-budget", 16);
            endless(case, "/list", |path, _| {
                let query = path.split_once('?').map_or("", |(_, query)| query);
                let separator = if query.is_empty() { "" } else { "&" };
                let unused_facets = (0..10).filter(|facet| !query.contains(&format!("f{}=", letter(*facet))));
                let links = unused_facets.flat_map(|facet| {
                    // The new facet comes first or last: the order is irrelevant.
                    (0..10).map(move |value| match value % 2 {
                        0 => format!("/list?{query}{separator}f{}={value}", letter(facet)),
                        _ => format!("/list?f{}={value}{separator}{query}", letter(facet)),
                    })
                });
                page_with(&format!("Filtered by {query}. {TEXT}"), links)
            })?;
            // The list; a hundred single facets; sixteen pairs of facets, which `trap-budget` allows, with a hundred pairs
            // of values each; and the budget for links with other combinations, which is four times `trap-budget`.
            check_pages_at_most(case, 1 + 100 + 1_600 + 64);
            Ok(())
        }),
        Case::new("TRP05", "relative link growth", Expect::Ok, |case| {
            case.set("trap-budget", 16);
            endless(case, "/a/", |path, _| page_with(&format!("{path} {TEXT}"), ["a/".to_owned()]))?;
            // `/a/`, `/a/a/`, and the one path that `trap-budget` allows.
            check_pages_at_most(case, 3);
            check_rule(case, "path_repeats");
            Ok(())
        }),
        Case::new("TRP06", "alternating segments", Expect::Ok, |case| {
            case.set("trap-budget", 16);
            endless(case, "/", |path, _| {
                let next = if path.ends_with("x/") { "y/" } else { "x/" };
                page_with(&format!("{path} {TEXT}"), [next.to_owned()])
            })?;
            case.check("one path that repeats a third time is requested", |report| {
                let repeating = report.requests.iter().filter(|request| request.path.contains("x/y/x/y/x/y")).count();
                demand(repeating == 1, format!("{repeating} such paths"))
            });
            // From `/` to `/x/y/x/y/x/`, and the one path that `trap-budget` allows.
            check_pages_at_most(case, 7);
            check_rule(case, "path_repeats");
            Ok(())
        }),
        Case::new("TRP07", "soft 404", Expect::Ok, |case| {
            case.set("trap-budget", 16);
            endless(case, "/", |_, unique| page_with(TEXT, (0..10).map(|link| format!("/{unique}x{link}.html"))))?;
            // The root has ten links that cost no budget; all other pages repeat its text.
            check_pages_at_most(case, 1 + 10 + 16);
            check_rule(case, "stale_pattern");
            Ok(())
        }),
        Case::new("TRP08", "mirror hosts", Expect::Ok, |case| {
            const HOSTS: usize = 100;
            case.set("scope", "any");
            case.set("allow-private", true);
            // All hosts share one address.
            case.set("per-ip", 0);
            let address = serve(case, |_, _, _| page_with(TEXT, ["/other".to_owned()]))?;
            for host in 0..HOSTS {
                let name = format!("mirror{host}.test");
                case.name(&name, DnsReply::address(address.ip()));
                case.root(format!("http://{name}:{}/", address.port()));
            }
            case.check("identical pages are counted", |report| {
                let printed = report.run(&["report", "crawl"]).map_err(|error| error.to_string())?;
                let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
                let line = printed.lines().find(|line| line.trim_start().starts_with("duplicates"));
                let count = line.and_then(|line| line.split_whitespace().last()).unwrap_or_default();
                // Every host has two pages, all identical. The first of all is not a duplicate.
                demand(count == (2 * HOSTS - 1).to_string(), printed)
            });
            Ok(())
        }),
        Case::new("TRP09", "infinite subdomains", Expect::Ok, |case| {
            case.set("scope", "domain");
            case.set("allow-private", true);
            // A domain may have one host per 64 of the budget, besides the root host.
            case.set("trap-budget", 64 * 8);
            let address = add_wildcard_hosts(case, 1)?;
            case.root(format!("http://trap.test:{}/", address.port()));
            check_hosts_at_most(case, 1 + 8);
            Ok(())
        }),
        Case::new("TRP10", "tarpit maze", Expect::Ok, |case| {
            let address = case.raw(|conn| {
                while let Some(path) = conn.request()? {
                    if path == "/robots.txt" {
                        conn.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
                        continue;
                    }
                    // The same URL always gives the same page, and different URLs give different pages.
                    let maze = (0..38).map(|link| format!("/maze/{}", word(&path, link)));
                    let entries = (0..4).map(|link| format!("/maze/{}", word("", link)));
                    let links: Vec<String> = if path == "/" { entries.collect() } else { maze.collect() };
                    let page = page_with(&format!("You are at {path}. {TEXT}"), links);
                    if path == "/" {
                        conn.send(page)?;
                        continue;
                    }
                    for byte in page.bytes() {
                        conn.send([byte])?;
                        conn.pause(Duration::from_millis(500))?;
                    }
                }
                Ok(())
            })?;
            case.root(format!("http://{address}/"));
            // The root, and its four links with two attempts each: their pages time out before they yield further
            // links.
            check_pages_at_most(case, 1 + 4 * 2);
            Ok(())
        }),
        Case::new("TRP11", "honeypot link", Expect::Ok, |case| {
            let page = "<a href=\"/page\">page</a><a style=\"display:none\" href=\"/trap\">secret</a>";
            let site = case.site()?.robots("User-agent: *\nDisallow: /trap\n");
            let site = site.page("/", crate::Response::html(page)).page("/page", crate::Response::html(page));
            case.root(site.url("/"));
            case.add_site(site.page("/trap", crate::Response::html("caught")));
            case.check("the trap is never requested", |report| {
                demand(report.request_count("/trap") == 0, "it was requested")?;
                demand(report.request_count("/page") == 1, "the other page was not requested exactly once")
            });
            Ok(())
        }),
        Case::new("TRP12", "infinite pagination", Expect::Ok, |case| {
            case.set("trap-budget", 4);
            endless(case, "/list?page=0", |path, _| {
                let page: u64 = path.rsplit('=').next().and_then(|page| page.parse().ok()).unwrap_or(0);
                page_with(&format!("Page {page}. {TEXT}"), [format!("/list?page={}", page + 1)])
            })?;
            // The 65 pages up to depth 64 cost no budget. The budget for further links is four times `trap-budget`.
            check_pages_at_most(case, 65 + 16);
            check_rule(case, "alike_pattern");
            Ok(())
        }),
        Case::new("TRP14", "tracking parameters", Expect::Ok, |case| {
            case.set("strip-param", vec!["@tracking"]);
            endless(case, "/", |path, unique| {
                let links =
                    (0..10).map(|link| format!("/p{link}?utm_source={unique}&fbclid={link}&utm_medium=x&gclid=y"));
                page_with(&format!("{path} {TEXT}"), links)
            })?;
            // The root and ten pages.
            check_pages_at_most(case, 11);
            Ok(())
        }),
        Case::new("TRP15", "never-same page", Expect::Ok, |case| {
            case.set("max-pages-per-host", 100);
            endless(case, "/list", |_, unique| {
                page_with(
                    &unique_text(unique),
                    (0..10).map(|link| format!("/list?{}", word(&unique.to_string(), link))),
                )
            })?;
            check_pages_at_most(case, 100);
            check_rule(case, "max_pages_per_host");
            Ok(())
        }),
        Case::new("TRP16", "redirect maze", Expect::Ok, |case| {
            case.set("max-pages-per-host", 20);
            endless(case, "/", |path, unique| match path {
                "/" => page_with(TEXT, (0..5).map(|maze| format!("/maze/{maze}"))),
                _ => format!("HTTP/1.1 302 Found\r\nLocation: /maze{unique}\r\nContent-Length: 0\r\n\r\n"),
            })?;
            // Each maze alone would be abandoned after ten redirects; the limit for all of them together is smaller.
            check_pages_at_most(case, 20);
            check_rule(case, "max_pages_per_host");
            Ok(())
        }),
    ]
}

/// A server whose pages each link to `links` new host names below `trap.test`.
pub(super) fn add_wildcard_hosts(case: &mut CaseBuilder, links: u64) -> io::Result<SocketAddr> {
    let address = serve(case, move |_, unique, port| {
        page_with(
            &unique_text(unique),
            (0..links).map(|link| format!("//n{}.trap.test:{port}/", unique * links + link)),
        )
    })?;
    case.name("trap.test", DnsReply::address(address.ip()));
    case.name("*.trap.test", DnsReply::address(address.ip()));
    Ok(address)
}

/// Checks that at most this many hosts were contacted, and that the report names the rule `domain_hosts`.
pub(super) fn check_hosts_at_most(case: &mut CaseBuilder, max: usize) {
    case.check("the number of hosts is limited", move |report| {
        let hosts: std::collections::BTreeSet<&str> =
            report.requests.iter().map(|request| request.host.as_str()).collect();
        demand(hosts.len() <= max, format!("{} hosts", hosts.len()))
    });
    check_rule(case, "domain_hosts");
}

/// One endless site; the crawl starts at this path. `respond` gets the path and a unique number.
fn endless(
    case: &mut CaseBuilder,
    root: &str,
    respond: impl Fn(&str, u64) -> String + Send + Sync + 'static,
) -> io::Result<()> {
    let address = serve(case, move |path, unique, _| respond(path, unique))?;
    case.root(format!("http://{address}{root}"));
    Ok(())
}

/// A server that calls `respond` for every request, with the path, a unique number, and the port. Returns its address.
fn serve(
    case: &mut CaseBuilder,
    respond: impl Fn(&str, u64, u16) -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let unique = AtomicU64::new(1_000);
    case.raw(move |conn| {
        let port = conn.stream().local_addr()?.port();
        while let Some(path) = conn.request()? {
            let response = match &*path {
                "/robots.txt" => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
                path => respond(path, unique.fetch_add(1, Ordering::Relaxed), port),
            };
            conn.send(response)?;
        }
        Ok(())
    })
}

/// A complete response: a page with this text and these links.
fn page_with(text: &str, links: impl IntoIterator<Item = String>) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let mut body = format!("<!doctype html>\n<title>A page</title>\n<p>{}</p>\n", escape(text));
    for link in links {
        body.push_str(&format!("<a href=\"{}\">on</a>\n", escape(&link)));
    }
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Checks that the report names this rule.
fn check_rule(case: &mut CaseBuilder, rule: &'static str) {
    case.check("the report names the rule that skipped links", move |report| {
        demand(report.stderr.contains(rule), format!("{rule} is not in {}", report.stderr))?;
        let last = report.records.iter().rev().find(|record| record["type"] == "run");
        let traps = last.map(|record| record["traps"].to_string()).unwrap_or_default();
        demand(traps.contains(rule), format!("{rule} is not in {traps}"))
    });
}

/// Checks that at most this many pages were requested, without the question for a page that does not exist.
fn check_pages_at_most(case: &mut CaseBuilder, max: usize) {
    case.check("the crawl has an end", move |report| {
        let is_page = |path: &str| path != "/robots.txt" && !path.contains("/argiope-");
        let count = report.requests.iter().filter(|request| is_page(&request.path)).count();
        demand(count <= max, format!("{count} requests"))
    });
}

/// A letter instead of a digit, because the crawler treats all numbers alike.
fn letter(number: usize) -> char {
    char::from(b'a' + (number % 26) as u8)
}

/// A pseudo-random word of eight letters, the same for the same place and number. The constants mix the bits.
fn word(place: &str, number: u64) -> String {
    let seed = place.bytes().fold(number.wrapping_mul(0x9E37_79B9_7F4A_7C15), |seed, byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3).rotate_left(5)
    });
    (0..8).map(|at| letter((seed >> (at * 7)) as usize & 0x7F)).collect()
}

/// A unique text.
fn unique_text(seed: u64) -> String {
    (0..20).map(|number| word(&seed.to_string(), number)).collect::<Vec<_>>().join(" ")
}

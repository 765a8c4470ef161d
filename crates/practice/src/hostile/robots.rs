//! robots.txt files that are missing, endless, hostile or obstructive.

use super::{Case, CaseBuilder, Expect, demand};
use crate::response::Response;
use std::io;
use std::time::Duration;

/// A robots.txt that disallows everything. As the body of an error response, it must be ignored.
const DISALLOW_ALL: &str = "User-agent: *\nDisallow: /\n";

const SCENARIOS: &str = "crates/testkit/tests/sim_scenarios.rs";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("ROB01", "404", Expect::Ok, |case| with_robots(case, Response::html(DISALLOW_ALL).with_status(404))),
        Case::new("ROB02", "410", Expect::Ok, |case| with_robots(case, Response::html(DISALLOW_ALL).with_status(410))),
        Case::new("ROB03", "401", Expect::Ok, |case| with_robots(case, Response::html(DISALLOW_ALL).with_status(401)))
            .choosing("401 allows everything, as every 4xx but 429 does (RFC 9309, section 2.3.1.3)"),
        Case::new("ROB04", "403", Expect::Ok, |case| with_robots(case, Response::html(DISALLOW_ALL).with_status(403)))
            .choosing("403 allows everything, as every 4xx but 429 does (RFC 9309, section 2.3.1.3)"),
        Case::new("ROB05", "429 with Retry-After", Expect::NotFetched, |case| {
            case.check("requested again, and not too early", |report| {
                let starts: Vec<Duration> =
                    report.requests.iter().filter(|request| request.path == "/robots.txt").map(|request| request.start).collect();
                let [first, second] = starts[..] else { return Err(format!("requested {} times", starts.len())) };
                demand(second - first >= Duration::from_secs(3), format!("requested again after {:?}", second - first))
            });
            with_unreachable_robots(case, Response::status(429).header("Retry-After", "3"))
        }),
        Case::new("ROB06", "500", Expect::NotFetched, |case| with_unreachable_robots(case, Response::status(500))),
        Case::new("ROB07", "503", Expect::NotFetched, |case| with_unreachable_robots(case, Response::status(503))),
        Case::elsewhere(
            "ROB09",
            "5xx for more than thirty days",
            Expect::NotFetched,
            SCENARIOS,
            "links_of_an_unreachable_robots_txt_have_the_documented_outcome",
        )
        .choosing(
            "a host whose robots.txt stays unreachable is given up on with `robots_unreachable`, and asked again by the \
             next crawl; a missing response never counts as permission",
        ),
        Case::new("ROB12", "a redirect to a login page", Expect::Ok, |case| {
            let login = "<!doctype html><title>Log in</title><form>User-agent: *<input name=\"Disallow: /\"></form>";
            let site = case.site()?.redirect("/robots.txt", "/login", 302).page("/login", Response::html(login));
            case.root(site.url("/"));
            case.add_site(site.page("/", Response::html("here")));
            Ok(())
        }),
        Case::new("ROB13", "an HTML page instead of rules", Expect::Ok, |case| {
            with_robots(case, Response::html("<!doctype html>\n<title>Not here</title>\n<p>Sorry!</p>\n"))
        }),
        Case::new("ROB15", "an endless file", Expect::Ok, |case| {
            let address = case.raw(|conn| {
                while let Some(path) = conn.request()? {
                    if path == "/robots.txt" {
                        conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nUser-agent: *\n")?;
                        conn.send_forever("Disallow: /x\n".repeat(1_000).as_bytes())?;
                    }
                    let page = "<a href=/x>x</a><a href=/y>y</a>";
                    conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len()))?;
                }
                Ok(())
            })?;
            case.root(format!("http://{address}/"));
            case.check("the received rules are obeyed", |report| {
                demand(report.request_count("/x") == 0 && report.request_count("/y") == 1, "the rules were not obeyed")
            });
            Ok(())
        }),
        Case::new("ROB17", "a decompression bomb", Expect::Ok, |case| {
            // Rules first, then 256 MiB of filler.
            let bomb = Response::filled("User-agent: *\nDisallow: /x\n", 256 << 20).gzip().content_type("text/plain");
            case.check("the received rules are obeyed", |report| {
                demand(report.request_count("/x") == 0 && report.request_count("/y") == 1, "the rules were not obeyed")
            });
            let site = case.site()?.page("/robots.txt", bomb).page("/", Response::links(["/x", "/y"]));
            case.root(site.url("/"));
            case.add_site(site.fallback(Response::html("here")));
            Ok(())
        }),
        Case::new("ROB20", "a pattern that takes exponential time elsewhere", Expect::Ok, |case| {
            let path = format!("/{}", "a".repeat(4_000));
            let rule = format!("User-agent: *\nDisallow: /{}b$\n", "*a".repeat(60));
            let site = case.site()?.robots(&rule).page(&path, Response::html("here"));
            case.root(site.url(&path));
            case.add_site(site);
            Ok(())
        }),
        Case::new("ROB21", "36,000 rules", Expect::Ok, |case| {
            // More than 500 KiB, the part of a robots.txt that RFC 9309 requires crawlers to read. The links below match
            // the first rules.
            let rules: String = (0..36_000).map(|n| format!("Disallow:/{n}\n")).collect();
            let links: Vec<String> = (0..9_000).map(|n| format!("/{n}")).collect();
            let site = case.site()?.robots(&format!("User-agent: *\n{rules}")).page("/", Response::links(links));
            case.root(site.url("/"));
            case.add_site(site);
            case.check("all links are judged, and none is requested", |report| {
                let denied = report.pages().filter(|page| page["outcome"] == "robots").count();
                demand(denied == 9_000 && report.request_count("/8999") == 0, format!("{denied} were denied"))
            });
            Ok(())
        }),
        Case::elsewhere(
            "ROB24",
            "robots.txt changes while the crawl runs",
            Expect::NotFetched,
            SCENARIOS,
            "a_renewed_robots_txt_that_forbids_more_is_obeyed",
        ),
        Case::new("ROB25", "X-Robots-Tag", Expect::Ok, |case| {
            let tagged = |tag: &str| Response::links(["/next"]).header("X-Robots-Tag", tag);
            let site = case.site()?;
            let (ours, theirs) = (site.url("/"), site.url("/theirs"));
            for url in [&ours, &theirs] {
                case.root(url.as_str());
            }
            let page = tagged("argiope: noindex, nofollow").header("X-Robots-Tag", "otherbot: none");
            case.add_site(site.page("/", page).page("/theirs", Response::html("x").header("X-Robots-Tag", "otherbot: none")));
            case.check("only tags for this crawler are obeyed", move |report| {
                let flag = |url: &str, name: &str| report.record(url).is_some_and(|record| record[name] == true);
                demand(flag(&ours, "noindex") && flag(&ours, "nofollow"), "our tag was ignored")?;
                demand(!flag(&theirs, "noindex") && !flag(&theirs, "nofollow"), "the tag for another crawler was obeyed")?;
                demand(report.request_count("/next") == 0, "a link was followed")
            });
            Ok(())
        }),
    ]
}

/// A site whose robots.txt sends this response; its front page is judged.
fn with_robots(case: &mut CaseBuilder, robots: Response) -> io::Result<()> {
    let site = case.site()?.page("/robots.txt", robots).page("/", Response::html("here"));
    case.root(site.url("/"));
    case.add_site(site);
    Ok(())
}

/// Like `with_robots`, but checks that the page is not fetched.
fn with_unreachable_robots(case: &mut CaseBuilder, robots: Response) -> io::Result<()> {
    let site = case.site()?;
    let root = site.url("/");
    case.check("the page is never requested, and its record says why", move |report| {
        demand(report.request_count("/") == 0, "it was requested")?;
        let kind = report.record(&root).map(|record| record["error"]["kind"].clone());
        demand(kind.as_ref().is_some_and(|kind| kind == "robots_unreachable"), format!("the kind is {kind:?}"))
    });
    case.root(site.url("/"));
    case.add_site(site.page("/robots.txt", robots).page("/", Response::html("here")));
    Ok(())
}

//! Statuses that request a delay, and unusual ones.

use super::{Case, CaseReport, CaseVerdict, Expect, demand};
use crate::response::Response;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage";

/// Checks that there were two requests besides robots.txt, the second at least `at_least` after the first.
fn check_delay(report: &CaseReport, at_least: Duration) -> CaseVerdict {
    let starts: Vec<Duration> =
        report.requests.iter().filter(|request| request.path != "/robots.txt").map(|request| request.start).collect();
    let [first, second] = starts[..] else { return Err(format!("requested {} times", starts.len())) };
    demand(second - first >= at_least, format!("after {:?}", second - first))
}

/// The three date formats of HTTP. `Fixed` is the current one (IMF-fixdate).
#[derive(Clone, Copy)]
enum DateFormat {
    Fixed,
    Rfc850,
    Asctime,
}

/// A time in HTTP format.
fn date(at: SystemTime, date_format: DateFormat) -> String {
    let format = match date_format {
        DateFormat::Fixed => "%a, %d %b %Y %H:%M:%S GMT",
        DateFormat::Rfc850 => "%A, %d-%b-%y %H:%M:%S GMT",
        DateFormat::Asctime => "%a %b %e %H:%M:%S %Y",
    };
    jiff::Timestamp::try_from(at).unwrap_or_default().strftime(format).to_string()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = delays();
    cases.extend(unusual());
    cases
}

/// Statuses that make the crawler wait or retry.
fn delays() -> Vec<Case> {
    vec![
        Case::new("STA01", "429 with seconds to wait", Expect::Ok, |case| {
            let site = case.site()?;
            let busy = Response::status(429).header("Retry-After", "3");
            case.root(site.url("/"));
            case.add_site(site.fail_times("/", 1, busy, Response::html("page")));
            case.check("three seconds pass before the second request", |report| {
                // With a margin of 10 ms.
                check_delay(report, Duration::from_millis(2_990))
            });
            Ok(())
        }),
        Case::new("STA02", "429 with a date to wait for", Expect::Ok, |case| {
            for date_format in [DateFormat::Fixed, DateFormat::Rfc850, DateFormat::Asctime] {
                let requests = AtomicUsize::new(0);
                case.raw_page(move |conn, _| {
                    if requests.fetch_add(1, SeqCst) > 0 {
                        return conn.send(PAGE);
                    }
                    let until = date(SystemTime::now() + Duration::from_secs(3), date_format);
                    let now = date(SystemTime::now(), DateFormat::Fixed);
                    let head = format!("Date: {now}\r\nRetry-After: {until}\r\nContent-Length: 0\r\n");
                    conn.send(format!("HTTP/1.1 429 Too Many Requests\r\n{head}Connection: close\r\n\r\n"))
                })?;
            }
            case.check("at least two seconds pass, because dates have no fractions", |report| {
                let hosts: std::collections::BTreeSet<&str> =
                    report.requests.iter().map(|request| &*request.host).collect();
                for host in &hosts {
                    let requests = report.requests.iter().filter(|request| request.host == *host).cloned().collect();
                    // With a margin of 100 ms.
                    check_delay(&CaseReport { requests, ..CaseReport::default() }, Duration::from_millis(1_900))?;
                }
                demand(hosts.len() == 3, "not three hosts")
            });
            Ok(())
        }),
        Case::new("STA03", "an invalid Retry-After", Expect::HttpErrorOrRedirect, |case| {
            // One attempt each, so that the crawl does not wait for the Retry-After.
            case.set("max-tries", 1);
            for value in
                ["99999999999", "-5", "banana", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 2099 00:00:00 GMT"]
            {
                case.page(Response::status(429).header("Retry-After", value))?;
            }
            Ok(())
        })
        .also("crates/core/src/crawl/schedule/retry.rs", "retry_after_replaces_the_wait_within_limits"),
        Case::new("STA05", "429 to every third request", Expect::Ok, |case| {
            let site_pages: Vec<String> = (0..8).map(|n| format!("/{n}")).collect();
            let links: String = site_pages.iter().map(|path| format!("<a href={path}>x</a>")).collect();
            let requests = AtomicUsize::new(0);
            case.set("max-tries", 6);
            case.raw_page(move |conn, path| {
                if requests.fetch_add(1, SeqCst) % 3 == 2 {
                    let head = "Content-Length: 0\r\nConnection: close\r\n";
                    return conn.send(format!("HTTP/1.1 429 Too Many Requests\r\n{head}\r\n"));
                }
                let body = if path == "/" { links.as_str() } else { "page" };
                let head = format!("Content-Type: text/html\r\nContent-Length: {}\r\n", body.len());
                conn.send(format!("HTTP/1.1 200 OK\r\n{head}Connection: close\r\n\r\n{body}"))
            })?;
            case.check("every page is fetched in the end", |report| {
                let ok = report.pages().filter(|page| page["outcome"] == "ok");
                // Without the control host.
                let ours = ok.filter(|page| !page["url"].as_str().unwrap_or_default().contains("127.99."));
                // The front page and the eight pages.
                demand(ours.count() == 9, "a page is missing")
            });
            Ok(())
        })
        .also(
            "crates/core/src/crawl/schedule/lane/tests.rs",
            "retry_after_is_obeyed_and_overload_without_it_backs_off_twice_as_long_each_time",
        ),
        Case::new("STA06", "500 to the first request for every second page", Expect::Ok, |case| {
            let mut site = case.site()?;
            let paths: Vec<String> = (0..10).map(|n| format!("/{n}")).collect();
            for (n, path) in paths.iter().enumerate() {
                case.root(site.url(path));
                site = site.fail_times(path, n % 2, Response::status(500), Response::html("page"));
            }
            case.add_site(site);
            case.check("each page is requested at most twice, and some page twice", |report| {
                let most = (0..10).map(|n| report.request_count(&format!("/{n}"))).max();
                demand(most == Some(2), format!("{most:?}"))
            });
            Ok(())
        }),
        Case::new("STA07", "503 forever", Expect::HttpErrorOrRedirect, |case| {
            let paths: Vec<String> = (0..3).map(|n| format!("/{n}")).collect();
            let site = case.site()?.page("/", Response::links(&paths)).fallback(Response::status(503));
            case.root(site.url("/"));
            for path in &paths {
                case.expect_at(site.url(path));
            }
            case.add_site(site.page("/robots.txt", Response::status(404)));
            case.check("each page is requested at most twice, and some page twice", |report| {
                let most = (0..3).map(|n| report.request_count(&format!("/{n}"))).max();
                demand(most == Some(2), format!("{most:?}"))
            });
            Ok(())
        })
        .also("crates/core/src/crawl/schedule/workbench/tests.rs", "a_host_that_is_always_overloaded_is_given_up"),
    ]
}

/// Statuses that a crawler rarely receives.
fn unusual() -> Vec<Case> {
    vec![
        Case::new("STA08", "a partial response that was not requested", Expect::Truncated("length", None), |case| {
            case.page(Response::html("0123456789").with_status(206).header("Content-Range", "bytes 0-9/100"))
        }),
        Case::new("STA09", "304 to an unconditional request", Expect::HttpErrorOrRedirect, |case| {
            case.page(Response::status(304))
        }),
        Case::elsewhere(
            "STA10",
            "304 with other validators",
            Expect::Ok,
            "crates/cli/tests/directory_recrawl.rs",
            "a_304_updates_the_etag_and_keeps_the_digest",
        ),
        Case::new("STA12", "invalid modification dates", Expect::Ok, |case| {
            let dated = |value: &str| Response::html("page").header("Last-Modified", value);
            case.pages([
                ("/future", dated("Thu, 01 Jan 2099 00:00:00 GMT")),
                ("/words", dated("yesterday")),
                ("/empty", dated("")),
            ])
        }),
        Case::new("STA13", "login pages and consent walls", Expect::HttpErrorOrRedirect, |case| {
            let gate = |status| Response::status(status).header("Proxy-Authenticate", "Basic realm=\"gate\"");
            case.check("no credentials are sent", |report| {
                let mut sent = report.requests.iter().flat_map(|request| &request.headers);
                demand(
                    !sent.any(|(name, _)| name.to_ascii_lowercase().contains("authorization")),
                    "a header with credentials was sent",
                )
            });
            case.pages([("/407", gate(407)), ("/511", gate(511))])
        }),
        Case::new("STA14", "rare statuses", Expect::HttpErrorOrRedirect, |case| {
            case.check("the records have these statuses", |report| {
                let statuses: Vec<_> = report.judged_records().map(|record| record["status"].as_u64()).collect();
                demand(statuses == [Some(451), Some(402), Some(418)], format!("{statuses:?}"))
            });
            case.pages([
                ("/451", Response::status(451)),
                ("/402", Response::status(402)),
                ("/418", Response::status(418)),
            ])
        }),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_date_in_three_formats() {
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(date(at, DateFormat::Fixed), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(at, DateFormat::Rfc850), "Sunday, 06-Nov-94 08:49:37 GMT");
        assert_eq!(date(at, DateFormat::Asctime), "Sun Nov  6 08:49:37 1994");
        assert_eq!(
            date(UNIX_EPOCH + Duration::from_secs(951_782_400), DateFormat::Fixed),
            "Tue, 29 Feb 2000 00:00:00 GMT"
        );
    }
}

//! Cookies and credentials that must not reach other hosts.
//!
//! Besides the cookies under test, the hosts set the valid cookie `own=1`. The next request shows which ones were kept.

use super::{Case, CaseBuilder, CaseReport, CaseVerdict, DnsReply, Expect, demand};
use crate::response::Response;
use crate::site::Site;
use std::io;
use std::net::Ipv4Addr;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("SEC01", "credentials on a redirect to another host", Expect::Ok, |case| {
            let (from, to) = (case.site()?, case.site()?);
            let target = to.url_as("b.test", "/");
            case.name("a.test", DnsReply::address(from.address().ip()));
            case.name("b.test", DnsReply::address(to.address().ip()));
            case.root(from.url_as("a.test", "/"));
            case.expect_at(target.as_str());
            case.add_site(
                from.page("/", Response::redirect(&target, 302).header("Set-Cookie", "own=1; Domain=a.test")),
            );
            case.add_site(to.page("/", Response::html("b")));
            case.set("user", "me:secret");
            case.set("header", vec!["X-Key: secret"]);
            allow_any_host(case);
            case.check("only the first host receives them", |report| {
                let received = |host: &str, name: &str| {
                    let of_host = report.requests.iter().filter(|request| request.host == host);
                    of_host.flat_map(|request| &request.headers).any(|(known, _)| known.eq_ignore_ascii_case(name))
                };
                demand(
                    received("a.test", "authorization") && received("a.test", "x-key"),
                    "the first host does not receive them",
                )?;
                let secrets = ["authorization", "cookie", "proxy-authorization", "x-key", "referer"];
                let leak = secrets.into_iter().find(|name| received("b.test", name));
                demand(leak.is_none(), format!("the second host receives {leak:?}"))
            });
            Ok(())
        }),
        Case::new("SEC06", "a public suffix in mixed case", Expect::Ok, |case| {
            cookie_case(case, "evil.co.uk", &["a=1; Domain=Co.UK"], &["victim.co.uk"])?;
            case.check("the cookie is sent to no other host", |report| {
                expect_cookie(report, "evil.co.uk", Some("own=1"))?;
                expect_cookie(report, "victim.co.uk", None)
            });
            Ok(())
        }),
        Case::new("SEC07", "a cookie domain with a trailing dot", Expect::Ok, |case| {
            cookie_case(case, "evil.co.uk.", &["a=1; Domain=co.uk."], &["victim.co.uk", "victim.co.uk."])?;
            case.check("the cookie is sent to no other host", |report| {
                expect_cookie(report, "evil.co.uk.", Some("own=1"))?;
                expect_cookie(report, "victim.co.uk", None)?;
                expect_cookie(report, "victim.co.uk.", None)
            });
            Ok(())
        }),
        Case::new("SEC08", "a cookie for the end of an IP address", Expect::Ok, |case| {
            let host = case.address().to_string();
            let (_, end) = host.split_once('.').unwrap_or_default();
            cookie_case(case, &host, &[&format!("a=1; Domain={end}"), &format!("b=1; Domain=.{end}")], &[])?;
            case.check("the cookie is not kept", move |report| expect_cookie(report, &host, Some("own=1")));
            Ok(())
        }),
        Case::new("SEC09", "a cookie domain that is the tail of another name", Expect::Ok, |case| {
            cookie_case(case, "notexample.test", &["a=1; Domain=example.test"], &["example.test", "www.example.test"])?;
            case.check("the cookie is sent to no other host", |report| {
                expect_cookie(report, "notexample.test", Some("own=1"))?;
                expect_cookie(report, "example.test", None)?;
                expect_cookie(report, "www.example.test", None)
            });
            Ok(())
        }),
        Case::new("SEC10", "secure cookies over http, invalid cookie prefixes", Expect::Ok, |case| {
            let cookies = ["a=1; Secure", "__Host-b=1", "__Host-c=1; Secure; Path=/", "__Secure-d=1", "=__Host-e=1"];
            cookie_case(case, "a.test", &cookies, &[])?;
            case.check("none of them is kept", |report| expect_cookie(report, "a.test", Some("own=1")));
            Ok(())
        }),
        Case::new("SEC11", "ten thousand cookies at once", Expect::Ok, |case| {
            let cookies: Vec<String> = (0..10_000).map(|n| format!("n{n:05}=1")).collect();
            cookie_case(case, "a.test", &cookies.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
            // The head is larger than the usual limit. Set-Cookie lines do not count as header fields; they have a limit of
            // their own, which is 50.
            case.set("max-head", "512K");
            case.check("few are kept", |report| {
                let header = cookie_sent(report, "a.test")?.unwrap_or_default();
                let (count, length) = (header.split("; ").count(), header.len());
                demand((2..=50).contains(&count) && length < 8_192, format!("{count} cookies, {length} bytes"))
            });
            Ok(())
        }),
        Case::new("SEC12", "a cookie of 1 MiB", Expect::Ok, |case| {
            cookie_case(case, "a.test", &[&format!("a={}", "x".repeat(1 << 20))], &[])?;
            // With the usual limit, the whole response would be rejected.
            case.set("max-head", "2M");
            case.check("it is dropped", |report| expect_cookie(report, "a.test", Some("own=1")));
            Ok(())
        }),
        Case::new("SEC13", "a Max-Age above 64 bits", Expect::Ok, |case| {
            let cookies = [
                "a=1; Max-Age=99999999999999999999",
                "b=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT",
                "c=1; Max-Age=-99999999999999999999",
                "d=1; Expires=Fri, 31 Dec 99999999999999999999 23:59:59 GMT", // an invalid date is ignored
            ];
            cookie_case(case, "a.test", &cookies, &[])?;
            case.check("c has expired, and the others are kept", |report| {
                expect_cookie(report, "a.test", Some("own=1; a=1; b=1; d=1"))
            });
            Ok(())
        }),
        Case::elsewhere(
            "SEC16",
            "two identities, one origin",
            Expect::Ok,
            "crates/testkit/src/engine_suite/identity.rs",
            "crawls_share_nothing",
        ),
    ]
}

/// Lets the crawl follow links to all hosts of the case, which have loopback addresses.
fn allow_any_host(case: &mut CaseBuilder) {
    case.set("scope", "any");
    case.set("allow-private", true);
}

/// One address with several names. The front page of the first name sets these cookies and links to `/next` on every name.
fn cookie_case(case: &mut CaseBuilder, first: &str, cookies: &[&str], others: &[&str]) -> io::Result<()> {
    let site = match first.parse::<Ipv4Addr>() {
        Ok(address) => Site::http(&format!("{address}:0"))?,
        Err(_) => case.site()?,
    };
    let hosts: Vec<&str> = std::iter::once(first).chain(others.iter().copied()).collect();
    let links = Response::links(hosts.iter().map(|host| site.url_as(host, "/next"))).header("Set-Cookie", "own=1");
    let front = cookies.iter().fold(links, |page, cookie| page.header("Set-Cookie", *cookie));
    for host in hosts {
        case.name(host.trim_end_matches('.'), DnsReply::address(site.address().ip()));
    }
    case.root(site.url_as(first, "/"));
    case.add_site(site.page("/", front).page("/next", Response::html("next")));
    allow_any_host(case);
    Ok(())
}

/// The `Cookie` header, if any, of the request for `/next` on this host; an error if there was no such request.
fn cookie_sent(report: &CaseReport, host: &str) -> Result<Option<String>, String> {
    let mut requests = report.requests.iter();
    let request = requests
        .find(|request| request.host == host && request.path == "/next")
        .ok_or_else(|| format!("{host} got no request for /next"))?;
    let cookie = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    Ok(cookie.map(|(_, value)| value.clone()))
}

/// Checks the `Cookie` header of the request for `/next` on this host.
fn expect_cookie(report: &CaseReport, host: &str, expected: Option<&str>) -> CaseVerdict {
    let sent = cookie_sent(report, host)?;
    demand(sent.as_deref() == expected, format!("{host} received {sent:?}"))
}

//! Pages that are expensive, broken or misleading to parse.
//!
//! For some cases the catalogue expects that a limit stops the parser. Reading the whole page in linear time is correct
//! too.

use super::{Case, Expect, demand};
use crate::response::Response;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = expensive();
    cases.extend(unusual_urls());
    cases.extend(followed_or_not());
    cases
}

/// Pages that take much time or memory to parse.
fn expensive() -> Vec<Case> {
    vec![
        Case::new("HTM02", "lists within lists", Expect::Ok, |case| {
            case.raise_timeout();
            case.check("read to the end", |report| {
                demand(report.request_count("/deep") == 1, "the last link was not found")
            });
            case.page(Response::html(format!("{}<a href=/deep>x</a>", "<ul><li>".repeat(64_000))))
        }),
        Case::new("HTM03", "elements that close each other", Expect::Ok, |case| {
            case.raise_timeout();
            case.check("read to the end", |report| {
                demand(report.request_count("/last") == 1, "the last link was not found")
            });
            let tags = ["<a>", "<i>", "</a>"].map(|tag| tag.repeat(40_000)).concat();
            case.page(Response::html(format!("{tags}<a href=/last>x</a>")))
        }),
        Case::new("HTM04", "a flood of attributes", Expect::Ok, |case| {
            case.raise_timeout();
            let flood: String = (0..800_000).map(|n| format!(" {n:x}")).collect();
            // The tag is larger than the page limit of the test.
            case.set("max-size", "16M");
            case.check("read to the end", |report| {
                demand(report.request_count("/after") == 1, "the next link was not found")
            });
            case.page(Response::html(format!("<p{flood}>x</p><a href=/after>x</a>")))
        }),
        Case::new("HTM06", "a million links", Expect::Ok, |case| {
            case.raise_timeout();
            let links: String = (0..1_000_000).map(|n| format!("<a href={n:x}>")).collect();
            case.set("max-size", "32M");
            case.set("max-pages", 30);
            case.check("ten thousand are kept, and the record says so", |report| {
                let record = report.first_judged();
                demand(record["links"] == 10_000 && record["capped"] == true, record.to_string())
            });
            case.page(Response::html(links))
        }),
        Case::new("HTM07", "constructs without an end", Expect::Ok, |case| {
            let unclosed = ["<!-- ", "<script>", "<title>", "<![CDATA[", "<a href=\"/open", "<textarea>", "<!doctype "];
            let mut site = case.site()?;
            for (n, open) in unclosed.into_iter().enumerate() {
                let path = format!("/{n}");
                case.root(site.url(&path));
                case.expect_at(site.url(&format!("/before{n}")));
                site = site.page(&path, Response::html(format!("<a href=/before{n}>x</a>{open}<a href=/in{n}>")));
            }
            case.add_site(site.fallback(Response::html("page")));
            Ok(())
        }),
        Case::new("HTM18", "a filter that takes exponential time in other engines", Expect::Ok, |case| {
            let site = case.site()?.fallback(Response::html("page"));
            let long = format!("/{}!", "a".repeat(3_000));
            case.set("exclude", vec!["(a+)+$"]);
            case.root(site.url("/"));
            case.expect_at(site.url(&long));
            case.add_site(site.page("/", Response::links([&long])));
            Ok(())
        }),
    ]
}

/// Links with unusual URLs.
fn unusual_urls() -> Vec<Case> {
    vec![
        Case::new("HTM08", "misleading base elements", Expect::Ok, |case| {
            let evil = case.site()?.fallback(Response::html("evil"));
            let site = case.site()?.fallback(Response::html("page"));
            let bases = format!("<base href=\"{}\"><base href=\"{}\">", evil.url("/"), site.url("/second/"));
            // The first base element counts although its scheme is unusable: links are relative to the page itself.
            let script = "<base href=\"javascript:alert(1)\"><base href=\"/good/\"><a href=kept>x</a>";
            let pages = site
                .page("/", Response::html(format!("{bases}<a href=lost>x</a>")))
                .page("/script", Response::html(script));
            case.root(pages.url("/"));
            case.root(pages.url("/script"));
            case.expect_at(pages.url("/"));
            case.expect_at(pages.url("/script"));
            case.add_site(evil);
            case.add_site(pages);
            case.check("the first base element applies, and the scope decides on the result", |report| {
                let requested: Vec<&str> = report.requests.iter().map(|request| request.path.as_str()).collect();
                let has_wrong_base =
                    ["/lost", "/second/lost", "/good/kept"].iter().any(|path| requested.contains(path));
                demand(!has_wrong_base && requested.contains(&"/kept"), format!("{requested:?}"))
            });
            Ok(())
        }),
        Case::new("HTM09", "schemes of all sorts", Expect::Ok, |case| {
            let schemes = [
                "javascript:alert(1)",
                "data:text/html,<a href=/data>",
                "mailto:a@example.org",
                "tel:+123",
                "blob:http://h/x",
                "about:blank",
                "file:///etc/passwd",
                "view-source:http://h/",
                "intent://h/#Intent;end",
                "ftp://h/",
                "ws://h/",
            ];
            case.check("only http and https", |report| {
                let urls: Vec<&str> = report.pages().filter_map(|page| page["url"].as_str()).collect();
                demand(urls.iter().all(|url| url.starts_with("http://127.")), format!("{urls:?}"))?;
                demand(report.request_count("/data") == 0, "a link in a data: URL was followed")
            });
            case.page(Response::links(schemes))
        }),
        Case::new("HTM11", "URLs that are too long", Expect::Ok, |case| {
            case.raise_timeout();
            let long_links = [65_536, 8_000_000].map(|length| format!("<a href=/{}>x</a>", "x".repeat(length)));
            case.set("max-size", "32M");
            case.check("dropped, and the record says so", |report| {
                demand(report.requests.iter().all(|request| request.path.len() < 100), "one was requested")?;
                let record = report.first_judged();
                demand(record["odd"][0] == "url_too_long", format!("the record does not say so: {record}"))
            });
            case.page(Response::html(format!("{}<a href=/short>x</a>", long_links.concat())))
        }),
        Case::new("HTM12", "line ends within a path", Expect::Ok, |case| {
            case.check("a link causes one request without additional headers", |report| {
                let smuggled =
                    report.requests.iter().find(|request| request.headers.iter().any(|(name, _)| name == "X"));
                demand(smuggled.is_none(), format!("a header was smuggled: {smuggled:?}"))?;
                let mut requested: Vec<&str> = report.requests.iter().map(|request| request.path.as_str()).collect();
                requested.sort_unstable();
                let expected = ["/", "/a%00b", "/a%0d%0aX:%20y", "/aX:%20y", "/robots.txt"];
                demand(requested == expected, format!("{requested:?}"))
            });
            case.page(Response::html("<a href='/a%00b'>1</a><a href='/a%0d%0aX: y'>2</a><a href='/a\r\nX: y'>3</a>"))
        }),
        Case::new("HTM13", "invalid ports", Expect::Ok, |case| {
            let site = case.site()?;
            let ip = site.address().ip();
            case.set("allow-private", true);
            case.root(site.url("/"));
            case.expect_at(site.url("/"));
            let links = [format!("http://{ip}:0/"), format!("http://{ip}:65536/"), format!("http://{ip}:/")];
            case.add_site(site.page("/", Response::links(links)));
            let (zero, empty) = (format!("http://{ip}:0/"), format!("http://{ip}/"));
            case.check("0 and 65536 are not ports, and an empty port is the default one", move |report| {
                let urls: Vec<&str> = report.pages().filter_map(|page| page["url"].as_str()).collect();
                demand(!urls.iter().any(|url| url.contains(":65536")), "65536 was taken for a port")?;
                demand(report.record(&empty).is_some(), format!("{empty} was not tried"))?;
                let refused = report.record(&zero).is_none_or(|record| record["outcome"] == "refused");
                demand(refused, "port 0 was tried")
            });
            Ok(())
        }),
        Case::new("HTM14", "character references within a URL", Expect::Ok, |case| {
            case.check("read as the standard reads attributes", |report| {
                let requested: Vec<&str> = report.requests.iter().map(|request| request.path.as_str()).collect();
                demand(requested.contains(&"/a?x=1&y=2&copy=3"), format!("{requested:?}"))
            });
            case.page(Response::html("<a href=\"/a?x=1&amp;y=2&copy=3\">x</a>"))
        }),
    ]
}

/// Markup that decides whether a link is followed.
fn followed_or_not() -> Vec<Case> {
    vec![
        Case::new("HTM15", "pages with nofollow", Expect::Ok, |case| {
            let meta = |name, n| format!("<meta name={name} content=\"noindex,nofollow\"><a href=/{n}>x</a>");
            case.check("obeyed, and the record says so", |report| {
                let hidden = ["/rel", "/all", "/ours"].iter().any(|path| report.request_count(path) > 0);
                demand(!hidden, "a nofollow link was followed")?;
                demand(report.request_count("/others") == 1, "a rule for another crawler was obeyed")?;
                let has_nofollow: Vec<bool> =
                    report.judged_records().map(|record| record["nofollow"] == true).collect();
                demand(has_nofollow == [false, true, true, false], format!("{has_nofollow:?}"))
            });
            case.pages([
                ("/0", Response::html("<a rel=nofollow href=/rel>x</a>")),
                ("/1", Response::html(meta("robots", "all"))),
                ("/2", Response::html(meta("argiope", "ours"))),
                ("/3", Response::html(meta("otherbot", "others"))),
            ])
        }),
        Case::new("HTM17", "template, noscript, svg, srcdoc", Expect::Ok, |case| {
            case.check("as docs/records.md says", |report| {
                let requested = |path: &str| report.request_count(path) > 0;
                demand(requested("/noscript") && requested("/svg"), "noscript or svg was left out")?;
                demand(!requested("/template") && !requested("/srcdoc"), "template or srcdoc was followed")
            });
            let inside = "<template><a href=/template>x</a></template><noscript><a href=/noscript>x</a></noscript>";
            let more = "<svg><a href=/svg>x</a></svg><iframe srcdoc='<a href=/srcdoc>x</a>'></iframe>";
            case.page(Response::html(format!("{inside}{more}")))
        }),
    ]
}

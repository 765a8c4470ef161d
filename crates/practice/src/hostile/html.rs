//! Pages that are expensive, broken or misleading to parse.
//!
//! Where the catalogue expects a limit to stop the parser, reading everything in linear time is correct too.

use super::{Case, Expect, demand};
use crate::response::Response;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = expensive();
    cases.extend(addresses());
    cases.extend(meanings());
    cases
}

/// Pages that take much time or memory to parse.
fn expensive() -> Vec<Case> {
    vec![
        Case::new("HTM02", "lists within lists", Expect::Ok, |case| {
            case.raise_timeout();
            case.check("read to the end", |report| demand(report.asked("/deep") == 1, "the last link was not found"));
            case.page(Response::html(format!("{}<a href=/deep>x</a>", "<ul><li>".repeat(64_000))))
        }),
        Case::new("HTM03", "elements that close each other", Expect::Ok, |case| {
            case.raise_timeout();
            case.check("read to the end", |report| demand(report.asked("/last") == 1, "the last link was not found"));
            let tags = ["<a>", "<i>", "</a>"].map(|tag| tag.repeat(40_000)).concat();
            case.page(Response::html(format!("{tags}<a href=/last>x</a>")))
        }),
        Case::new("HTM04", "a flood of attributes", Expect::Ok, |case| {
            case.raise_timeout();
            let flood: String = (0..800_000).map(|n| format!(" {n:x}")).collect();
            // The tag is larger than the page limit of the test.
            case.set("max-size", "16M");
            case.check("read to the end", |report| demand(report.asked("/after") == 1, "the next link was not found"));
            case.page(Response::html(format!("<p{flood}>x</p><a href=/after>x</a>")))
        }),
        Case::new("HTM06", "a million links", Expect::Ok, |case| {
            case.raise_timeout();
            let links: String = (0..1_000_000).map(|n| format!("<a href={n:x}>")).collect();
            case.set("max-size", "32M");
            case.set("max-pages", 30);
            case.check("ten thousand are kept, and it is told", |report| {
                let record = report.first_judged();
                demand(record["links"] == 10_000 && record["capped"] == true, record.to_string())
            });
            case.page(Response::html(links))
        }),
        Case::new("HTM07", "constructs without an end", Expect::Ok, |case| {
            let open = ["<!-- ", "<script>", "<title>", "<![CDATA[", "<a href=\"/open", "<textarea>", "<!doctype "];
            let mut site = case.site()?;
            for (n, open) in open.into_iter().enumerate() {
                let path = format!("/{n}");
                case.root(site.url(&path));
                case.judge(site.url(&format!("/before{n}")));
                site = site.page(&path, Response::html(format!("<a href=/before{n}>x</a>{open}<a href=/in{n}>")));
            }
            case.open(site.fallback(Response::html("page")));
            Ok(())
        }),
        Case::new("HTM18", "a filter that is slow elsewhere", Expect::Ok, |case| {
            let site = case.site()?.fallback(Response::html("page"));
            let long = format!("/{}!", "a".repeat(3_000));
            case.set("exclude", vec!["(a+)+$"]);
            case.root(site.url("/"));
            case.judge(site.url(&long));
            case.open(site.page("/", Response::links([&long])));
            Ok(())
        }),
    ]
}

/// Links with unusual URLs.
fn addresses() -> Vec<Case> {
    vec![
        Case::new("HTM08", "misleading base elements", Expect::Ok, |case| {
            let evil = case.site()?.fallback(Response::html("evil"));
            let site = case.site()?.fallback(Response::html("page"));
            let bases = format!("<base href=\"{}\"><base href=\"{}\">", evil.url("/"), site.url("/second/"));
            let script = "<base href=\"javascript:alert(1)\"><base href=\"/good/\"><a href=kept>x</a>";
            let pages = site
                .page("/", Response::html(format!("{bases}<a href=lost>x</a>")))
                .page("/script", Response::html(script));
            case.root(pages.url("/"));
            case.root(pages.url("/script"));
            case.judge(pages.url("/"));
            case.judge(pages.url("/script"));
            case.open(evil);
            case.open(pages);
            case.check("the first base counts, and what it makes is judged by scope", |report| {
                let asked: Vec<&str> = report.seen.iter().map(|seen| seen.path.as_str()).collect();
                let strayed = ["/lost", "/second/lost", "/good/kept"].iter().any(|path| asked.contains(path));
                demand(!strayed && asked.contains(&"/kept"), format!("{asked:?}"))
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
                demand(report.asked("/data") == 0, "what a data: address holds was followed")
            });
            case.page(Response::links(schemes))
        }),
        Case::new("HTM11", "URLs that are too long", Expect::Ok, |case| {
            case.raise_timeout();
            let longs = [65_536, 8_000_000].map(|length| format!("<a href=/{}>x</a>", "x".repeat(length)));
            case.set("max-size", "32M");
            case.check("dropped, and told", |report| {
                demand(report.seen.iter().all(|seen| seen.path.len() < 100), "one was asked for")?;
                let record = report.first_judged();
                demand(record["odd"][0] == "url_too_long", format!("it is not told: {record}"))
            });
            case.page(Response::html(format!("{}<a href=/short>x</a>", longs.concat())))
        }),
        Case::new("HTM12", "line ends within a path", Expect::Ok, |case| {
            case.check("a request is one request", |report| {
                let strange = report.seen.iter().find(|seen| seen.headers.iter().any(|(name, _)| name == "X"));
                demand(strange.is_none(), format!("a line was smuggled: {strange:?}"))?;
                let mut asked: Vec<&str> = report.seen.iter().map(|seen| seen.path.as_str()).collect();
                asked.sort_unstable();
                let expected = ["/", "/a%00b", "/a%0d%0aX:%20y", "/aX:%20y", "/robots.txt"];
                demand(asked == expected, format!("{asked:?}"))
            });
            case.page(Response::html("<a href='/a%00b'>1</a><a href='/a%0d%0aX: y'>2</a><a href='/a\r\nX: y'>3</a>"))
        }),
        Case::new("HTM13", "invalid ports", Expect::Ok, |case| {
            let site = case.site()?;
            let ip = site.address().ip();
            case.set("allow-private", true);
            case.root(site.url("/"));
            case.judge(site.url("/"));
            let links = [format!("http://{ip}:0/"), format!("http://{ip}:65536/"), format!("http://{ip}:/")];
            case.open(site.page("/", Response::links(links)));
            let (zero, empty) = (format!("http://{ip}:0/"), format!("http://{ip}/"));
            case.check("0 and 65536 are no ports, an empty one is the usual one", move |report| {
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
                let asked: Vec<&str> = report.seen.iter().map(|seen| seen.path.as_str()).collect();
                demand(asked.contains(&"/a?x=1&y=2&copy=3"), format!("{asked:?}"))
            });
            case.page(Response::html("<a href=\"/a?x=1&amp;y=2&copy=3\">x</a>"))
        }),
    ]
}

/// Markup that decides whether a link is followed.
fn meanings() -> Vec<Case> {
    vec![
        Case::new("HTM15", "pages with nofollow", Expect::Ok, |case| {
            let meta = |name, n| format!("<meta name={name} content=\"noindex,nofollow\"><a href=/{n}>x</a>");
            case.check("obeyed, and told", |report| {
                let hidden = ["/rel", "/all", "/ours"].iter().any(|path| report.asked(path) > 0);
                demand(!hidden, "a nofollow link was followed")?;
                demand(report.asked("/others") == 1, "what is said to others was obeyed")?;
                let told: Vec<bool> = report.judged_records().map(|record| record["nofollow"] == true).collect();
                demand(told == [false, true, true, false], format!("{told:?}"))
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
                let asked = |path: &str| report.asked(path) > 0;
                demand(asked("/noscript") && asked("/svg"), "noscript or svg was left out")?;
                demand(!asked("/template") && !asked("/srcdoc"), "template or srcdoc was followed")
            });
            let inside = "<template><a href=/template>x</a></template><noscript><a href=/noscript>x</a></noscript>";
            let more = "<svg><a href=/svg>x</a></svg><iframe srcdoc='<a href=/srcdoc>x</a>'></iframe>";
            case.page(Response::html(format!("{inside}{more}")))
        }),
    ]
}

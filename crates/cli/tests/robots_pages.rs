//! Directives and links of pages, headers and sitemaps in live crawls, checked by the requests that the server
//! received.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use argiope_core::crawl::rules::{Config, EngineName, RobotsPolicy, With};
use argiope_core::{ErrorKind, Outcome};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use argiope_testkit::crawling::{Crawled, config, crawl};

fn site() -> Site {
    Site::http("127.7.0.1:0").expect("a loopback address").fallback(Response::html("<title>page</title>"))
}

fn serve(sites: impl IntoIterator<Item = Site>) -> RunningWeb {
    sites.into_iter().fold(PracticeWeb::new(), PracticeWeb::site).start().expect("the practice web starts")
}

/// Crawls a site from its front page. Returns the crawled pages, and the paths that were requested except the front page.
fn crawl_site(site: Site, change: impl FnOnce(&mut Config)) -> (Crawled, BTreeSet<String>) {
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(EngineName::Tokio, &[&root]);
    change(&mut config);
    let crawled = crawl(&config);
    let requested = web.log().into_iter().map(|seen| seen.path).filter(|path| path != "/").collect();
    (crawled, requested)
}

fn path_set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// The paths that a crawl with this front page requests.
fn requested_from(front: Response, change: impl FnOnce(&mut Config)) -> BTreeSet<String> {
    crawl_site(site().page("/", front), change).1
}

#[test]
fn nofollow_of_a_page_of_a_header_and_of_a_link() {
    let page = |head: &str| Response::html(format!("{head}<a href=/a>a</a> <a href=/b rel='ugc nofollow'>b</a>"));
    for (front, requested) in [
        (page(""), &["/a"][..]),
        (page("<meta name=robots content='index, NOFOLLOW'>"), &[]),
        (page("<meta name=Argiope content=none>"), &[]),
        (page("<meta name=otherbot content=none>"), &["/a"]),
        (page("<meta name=robots content=noindex>"), &["/a"]),
        (page("").header("X-Robots-Tag", "nofollow"), &[]),
        (page("").header("X-Robots-Tag", "argiope: nofollow"), &[]),
        (page("").header("X-Robots-Tag", "otherbot: nofollow"), &["/a"]),
        (page("").header("X-Robots-Tag", "otherbot: nofollow").header("X-Robots-Tag", "none"), &[]),
    ] {
        assert_eq!(requested_from(front, |_| ()), path_set(requested));
    }
    let front = page("<meta name=robots content=none>").header("X-Robots-Tag", "nofollow");
    assert_eq!(requested_from(front, |config| config.follow_nofollow = true), path_set(&["/a", "/b"]));
}

#[test]
fn directives_and_metadata_of_a_page_are_recorded() {
    let front = Response::html(
        "<link rel=canonical href=/real#x><link rel=alternate hreflang=de href=/de><link rel=alternate hreflang=x-default \
         href=/any><link rel=alternate hreflang=de href=/de2><meta name=robots content=noindex>",
    );
    let (crawled, requested) = crawl_site(site().page("/", front), |_| ());
    assert!(requested.is_empty(), "{requested:?}");
    let record = &crawled.lines[0];
    let base = crawled.pages[0].link.url.as_str();
    assert_eq!(record["canonical"], format!("{base}real"));
    assert_eq!(record["noindex"], true);
    assert_eq!(record["hreflang"]["de"], format!("{base}de"));
    assert_eq!(record["hreflang"]["x-default"], format!("{base}any"));
    assert_eq!(record["hreflang"].as_object().map(serde_json::Map::len), Some(2));
}

/// Elements that can contain a URL, and whether the URL is requested: by default, with `--assets`, or never.
#[test]
fn pages_are_followed_and_assets_are_fetched_on_request() {
    let front = Response::html(
        "<base href='/b/'><a href=a?x=1&amp;y=2>1</a><map><area href=area></map><iframe src=iframe></iframe>\
         <link rel=next href=next><link rel=prev href=prev><noscript><a href=noscript>n</a></noscript>\
         <meta http-equiv=refresh content='0; url=refresh'><svg><a xlink:href=svg>s</a></svg>\
         <img src=img srcset='set1 1x, set2 2x'><script src=script></script><link rel=stylesheet href=style>\
         <video src=video poster=poster></video><picture><source srcset=source></picture>\
         <form action=form></form><form method=post action=post></form><a href=mailto:x@y>m</a><a href=ftp://h/>f</a>\
         <!-- <a href=comment> --><script>'<a href=inscript>'</script><template><a href=template></template>\
         <textarea><a href=textarea></textarea><iframe srcdoc='<a href=srcdoc>'></iframe><a name=x href=a?x=1&y=2#z>",
    )
    .header("Refresh", "5; url=/h/refresh")
    .header("Link", "</h/next>; rel=next, </h/style>; rel=stylesheet");
    let site = || site().page("/", front.clone());
    let followed = [
        "/b/a?x=1&y=2",
        "/b/area",
        "/b/iframe",
        "/b/next",
        "/b/prev",
        "/b/noscript",
        "/b/refresh",
        "/b/svg",
        "/h/refresh",
        "/h/next",
    ];
    let assets = ["/b/img", "/b/set1", "/b/set2", "/b/script", "/b/style", "/b/video", "/b/poster", "/b/source"];
    let (crawled, requested) = crawl_site(site(), |config| config.with = vec![With::Links]);
    assert_eq!(requested, path_set(&followed));
    let page = &crawled.lines[0];
    assert_eq!(page["links"], followed.len());
    let kinds: BTreeSet<&str> =
        page["link_list"].as_array().expect("a list").iter().filter_map(|link| link["kind"].as_str()).collect();
    assert!(kinds.contains("asset") && kinds.contains("form"), "{kinds:?}");
    let (_, requested) = crawl_site(site(), |config| config.assets = true);
    assert_eq!(requested, path_set(&[&followed[..], &assets].concat()));
}

#[test]
fn xhtml_and_atom_have_links_too() {
    let xhtml =
        "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><a href='/x'/><title/><a href='/y'/></html>";
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/z'/><entry><link href='/e'/></entry></feed>";
    let site = site()
        .page("/", Response::bytes(xhtml).content_type("application/xhtml+xml"))
        .page("/x", Response::bytes(atom).content_type("application/atom+xml"));
    let requested = crawl_site(site, |_| ()).1;
    assert!(requested.is_superset(&path_set(&["/x", "/y", "/e"])), "{requested:?}");
}

/// Queries are encoded in the charset of the page, paths always as UTF-8.
#[test]
fn queries_are_encoded_in_the_charset_of_the_page() {
    let page = "<a href='/ü?ü=\u{20ac}'>x</a><title>ü</title>";
    let meta = |label: &str| format!("<meta charset={label}>{page}");
    for (front, charset, requested) in [
        (Response::html(page).encoded("windows-1252").charset("windows-1252"), "windows-1252", "/%C3%BC?%FC=%80"),
        (
            Response::html(meta("latin1")).encoded("windows-1252").content_type("text/html"),
            "windows-1252",
            "/%C3%BC?%FC=%80",
        ),
        (Response::html(meta("utf-8")).content_type("text/html"), "utf-8", "/%C3%BC?%C3%BC=%E2%82%AC"),
        (Response::html(page).content_type("text/html"), "utf-8", "/%C3%BC?%C3%BC=%E2%82%AC"),
        (Response::html(meta("koi8-r")).charset("utf-8"), "utf-8", "/%C3%BC?%C3%BC=%E2%82%AC"),
    ] {
        let (crawled, seen) = crawl_site(site().page("/", front), |_| ());
        assert_eq!(seen, path_set(&[requested]));
        assert_eq!(crawled.pages[0].findings.charset, Some(charset));
        assert_eq!(crawled.pages[0].findings.title.as_deref(), Some("ü"));
    }
    // A byte order mark overrides the declared charset.
    let marked = [&b"\xef\xbb\xbf"[..], page.as_bytes()].concat();
    assert_eq!(
        requested_from(Response::html(marked).charset("shift_jis"), |_| ()),
        path_set(&["/%C3%BC?%C3%BC=%E2%82%AC"])
    );
    let greek = Response::html("<a href='/?\u{3b1}\u{20ac}'>x</a>".as_bytes()).charset("utf-8");
    assert_eq!(requested_from(greek, |_| ()), path_set(&["/?%CE%B1%E2%82%AC"]));
    let japanese = Response::html(b"<a href='/?\x93\xfa\x96{'>x</a>".as_slice()).charset("shift_jis");
    assert_eq!(requested_from(japanese, |_| ()), path_set(&["/?%93%FA%96{"]));
}

#[test]
fn strip_param_removes_parameters_from_links() {
    let links = ["/p?sid=1&a=1", "/p?a=1&SID=2", "/p?a=1", "/q;jsessionid=9?utm_source=x", "/q"];
    let site = || {
        let site = site();
        let map = format!("{}\n", site.url("/s?utm_medium=y&k=v"));
        site.robots("Sitemap: /map.txt\n")
            .page("/", Response::links(links))
            .page("/map.txt", Response::text(map))
            .redirect("/q", "/r?sid=7", 302)
    };
    let obey = |config: &mut Config| config.robots = RobotsPolicy::Obey;
    let strip = |config: &mut Config| {
        config.robots = RobotsPolicy::Obey;
        config.strip_param = vec!["@sessions".to_owned(), "utm_*".to_owned()];
    };
    let site_files = ["/robots.txt", "/map.txt"];
    let whole = [&links[..], &["/s?utm_medium=y&k=v", "/r?sid=7"], &site_files].concat();
    assert_eq!(crawl_site(site(), obey).1, path_set(&whole));
    let (crawled, requested) = crawl_site(site(), strip);
    // Redirect targets are not changed: a host that insists on a session id would cause a loop.
    assert_eq!(requested, path_set(&[&["/p?a=1", "/q", "/s?k=v", "/r?sid=7"][..], &site_files].concat()));
    let front = crawled.pages.iter().find(|visit| visit.link.url.path() == "/").expect("the front page");
    assert_eq!(front.findings.links, 2);
}

/// The visit of a sitemap.
fn sitemap_visit<'a>(crawled: &'a Crawled, path: &str) -> &'a argiope_core::crawl::visit::Visit {
    let found = crawled.site_files.iter().find(|visit| visit.link.url.path() == path);
    found.unwrap_or_else(|| panic!("{path} was not read"))
}

fn urlset(paths: &[String]) -> String {
    let mut text = String::from("<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>");
    for path in paths {
        let _ = write!(text, "<url><loc>{path}</loc><lastmod>2020-01-01</lastmod></url>");
    }
    text + "</urlset>"
}

#[test]
fn sitemaps_that_robots_txt_names_are_read_in_every_form() {
    let site = site();
    let url = |path: &str| site.url(path);
    let index = format!(
        "<sitemapindex><sitemap><loc>{}</loc></sitemap><sitemap><loc>{}</loc></sitemap></sitemapindex>",
        url("/set.xml.gz"),
        url("/index.xml")
    );
    let set_text = urlset(&[url("/1"), "http://elsewhere.example/x".to_owned(), url("/2")]);
    let rss = format!("<rss><channel><item><link>{}</link></item></channel></rss>", url("/3"));
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='/4'/></entry></feed>";
    let text = format!("{}\n{}\n", url("/5"), url("/6"));
    // A sitemap with a content coding, and a gzip file whose name does not show it. The file contains the line `/7`.
    let coded = Response::bytes(set_text.as_bytes()).gzip();
    let packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xd3\x37\xe7\x02\x00\xe5\x91\x82\xbc\x03\x00\x00\x00";
    let site = site
        .robots("Sitemap: /index.xml\nSitemap: /rss\nSitemap: /atom\nSitemap: /text\nSitemap: /packed\n")
        .page("/", Response::html("no links"))
        .page("/index.xml", Response::text(index))
        .page("/set.xml.gz", coded)
        .page("/packed", Response::bytes(packed.as_slice()))
        .page("/rss", Response::text(rss))
        .page("/atom", Response::text(atom))
        .page("/text", Response::text(text));
    let (crawled, requested) = crawl_site(site, |config| config.robots = RobotsPolicy::Obey);
    let files = ["/robots.txt", "/index.xml", "/set.xml.gz", "/rss", "/atom", "/text", "/packed"];
    assert_eq!(requested, path_set(&[&files[..], &["/1", "/2", "/3", "/4", "/5", "/6", "/7"]].concat()));
    assert_eq!(crawled.site_files.len(), 7, "an index that names itself is read once");
    assert_eq!(crawled.lines.iter().filter(|line| line["for"] == "sitemap").count(), 6);
}

#[test]
fn the_default_sitemap_is_requested_on_demand_and_sitemaps_can_be_disabled() {
    let site = || {
        site()
            .robots("Sitemap: /named.txt\n")
            .page("/", Response::html("no links"))
            .page("/named.txt", Response::text("/a\n"))
            .page("/sitemap.xml", Response::text("/b\n"))
    };
    let run = |change: fn(&mut Config)| {
        crawl_site(site(), |config| {
            config.robots = RobotsPolicy::Obey;
            change(config);
        })
        .1
    };
    assert_eq!(run(|_| ()), path_set(&["/robots.txt", "/named.txt", "/a"]));
    assert!(run(|config| config.sitemap = true).is_superset(&path_set(&["/sitemap.xml", "/b"])));
    assert_eq!(run(|config| config.no_sitemap = true), path_set(&["/robots.txt"]));
    let ignoring = crawl_site(site(), |config| config.sitemap = true).1;
    assert_eq!(ignoring, path_set(&["/sitemap.xml", "/b"]), "without robots.txt too");
}

#[test]
fn bad_sitemaps_yield_the_urls_before_the_error_and_report_it() {
    let site = site();
    let url = |path: &str| site.url(path);
    let entity_bomb = format!(
        "<!DOCTYPE x [<!ENTITY a 'ha'>{}]><urlset><url><loc>{}</loc></url><url><loc>/&z9;</loc></url></urlset>",
        (0..10).fold(String::new(), |text, n| text + &format!("<!ENTITY z{n} '{}'>", "&a;".repeat(10))),
        url("/before-entities")
    );
    let broken = urlset(&[url("/before-fault")]).replace("</urlset>", "<url><loc></url><<</urlset><url>");
    // A few more than the sitemap protocol allows.
    let entries: Vec<String> = (0..50_010).map(|_| url("/same")).collect();
    let mut site = site
        .page("/", Response::html("no links"))
        .page("/entities", Response::text(entity_bomb))
        .page("/broken", Response::text(broken))
        .page("/many", Response::text(urlset(&entries)));
    for level in 0..6 {
        let next = site.url(&format!("/level{}", level + 1));
        let index = format!("<sitemapindex><sitemap><loc>{next}</loc></sitemap></sitemapindex>");
        site = site.page(&format!("/level{level}"), Response::text(index));
    }
    let robots = "Sitemap: /entities\nSitemap: /broken\nSitemap: /many\nSitemap: /level0\n";
    let (crawled, requested) = crawl_site(site.robots(robots), |config| config.robots = RobotsPolicy::Obey);
    assert!(requested.is_superset(&path_set(&["/before-entities", "/before-fault", "/same"])), "{requested:?}");
    let fault = |path: &str| sitemap_visit(&crawled, path).facts.error.as_ref().map(|failure| failure.kind);
    assert_eq!(fault("/entities"), Some(ErrorKind::ParseLimit));
    assert_eq!(fault("/broken"), Some(ErrorKind::Decode));
    assert_eq!(fault("/many"), Some(ErrorKind::ParseLimit));
    assert!(
        requested.contains("/level2") && !requested.contains("/level3"),
        "nested no deeper than that: {requested:?}"
    );
}

/// A sitemap may exceed the size limit of pages, up to the limit of the protocol.
#[test]
fn large_sitemaps_are_read_completely() {
    let site = site();
    let filler = format!("<!--{}-->", "x".repeat(100_000)).repeat(120);
    let text = urlset(&[site.url("/last")]).replace("<url>", &format!("{filler}<url>"));
    assert!(text.len() > 12_000_000);
    let site = site.robots("Sitemap: /large\n").page("/", Response::html("")).page("/large", Response::text(text));
    let (crawled, requested) = crawl_site(site, |config| config.robots = RobotsPolicy::Obey);
    assert!(requested.contains("/last"), "{requested:?}");
    assert_eq!(
        (sitemap_visit(&crawled, "/large").facts.outcome, &sitemap_visit(&crawled, "/large").facts.error),
        (Outcome::Ok, &None)
    );
}

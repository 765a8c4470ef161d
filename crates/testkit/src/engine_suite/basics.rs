//! Cases about the basics: links, scope, redirects, limits, and the end of a crawl.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::{EngineName, Pace, ScopeKind, Size, Span};
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::{ErrorKind, Outcome};
use argiope_practice::{CrawlReach, Graph, GraphPlan, PracticeWeb, Response, Site};

use super::{serve, site};
use crate::crawling::{config, crawl};

pub fn links_and_cycles(engine: EngineName) {
    let site = site("127.1.0.1")
        .page("/", Response::links(["/a", "/b", "/#top", "/a#x"]))
        .page("/a", Response::links(["/b", "/c?x=1", "/"]))
        .page("/b", Response::links(["/a"]))
        .page("/c?x=1", Response::links(["c?x=2", "/gone"]))
        .page("/c?x=2", Response::html("end"));
    let root = site.url("/");
    let url = |path| site.url(path);
    let expected: BTreeSet<String> = ["/", "/a", "/b", "/c?x=1", "/c?x=2", "/gone"].map(url).into();
    let web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!(crawled.urls(), expected.iter().map(String::as_str).collect());
    assert_eq!(crawled.summary.end, End::Finished);
    assert_eq!(crawled.summary.left, 0);
    let first = crawled.page(&root);
    // Without fragments, its links are `/`, `/a` and `/b`. The root itself is not new.
    assert_eq!((first.findings.links, first.findings.new_links, first.link.depth), (3, 2, 0));
    let gone = crawled.pages.iter().find(|visit| visit.link.url.path() == "/gone").expect("visited");
    assert_eq!((gone.facts.outcome, gone.facts.status, gone.link.depth), (Outcome::HttpError, Some(404), 3));
    assert_eq!(gone.link.via.as_ref().map(|via| via.path()), Some("/c"));
    assert_eq!(web.requests(), 6);
}

/// Two sites on two addresses, and the URL of the second, to which the first links.
fn two_hosts() -> (Site, Site, String) {
    let second = site("127.1.0.3").page("/", Response::html("second"));
    let away = second.url("/");
    let first = site("127.1.0.2").page("/", Response::links(["/a", &away])).page("/a", Response::html("a"));
    (first, second, away)
}

pub fn a_prohibited_host(engine: EngineName) {
    let (first, second, away) = two_hosts();
    let root = first.url("/");
    let web = serve([first, second]);
    let crawled = crawl(&config(engine, &[&root]));
    assert!(!crawled.urls().contains(away.as_str()));
    assert!(web.log().iter().all(|request| request.site == 0));
    assert_eq!(crawled.page(&root).findings.rejected.iter().map(|rejected| rejected.count).sum::<u32>(), 1);
}

/// Crawls several host names on one address with this scope, and returns the names that were visited. The path of a page
/// is its host name; the path of the root is empty.
fn crawl_host_names(engine: EngineName, scope_kind: ScopeKind) -> BTreeSet<String> {
    let names = ["example.com", "www.example.com", "sub.example.com", "example.org"];
    let mut site = site("127.1.0.4");
    let port = site.address().port();
    let links: Vec<String> = names.iter().map(|name| format!("http://{name}:{port}/{name}")).collect();
    site = site.page("/", Response::links(&links));
    for name in names {
        site = site.page(&format!("/{name}"), Response::html(name));
    }
    let address = site.address();
    let _web = serve([site]);
    let mut config = config(engine, &[&format!("http://example.com:{port}/")]);
    config.scope = scope_kind;
    config.resolve =
        names.iter().map(|name| format!("{name}:{port}:{}", address.ip()).parse().expect("a mapping")).collect();
    let crawled = crawl(&config);
    crawled.pages.iter().map(|visit| visit.link.url.path().trim_start_matches('/').to_owned()).collect()
}

/// The scope `host` includes a host with and without `www.`, but no other subdomain.
pub fn strict_hosts(engine: EngineName) {
    assert_eq!(
        crawl_host_names(engine, ScopeKind::Host),
        ["", "example.com", "www.example.com"].map(String::from).into()
    );
}

/// The scope `domain` includes all subdomains.
pub fn lenient_hosts(engine: EngineName) {
    let expected = ["", "example.com", "www.example.com", "sub.example.com"].map(String::from).into();
    assert_eq!(crawl_host_names(engine, ScopeKind::Domain), expected);
}

pub fn exclude_and_include(engine: EngineName) {
    let site = site("127.1.0.5")
        .page("/", Response::links(["/doc/a", "/doc/b.zip", "/other"]))
        .page("/doc/a", Response::links(["/doc/private"]))
        .page("/doc/b.zip", Response::bytes("zip"))
        .page("/doc/private", Response::html("private"))
        .page("/other", Response::html("other"));
    let root = site.url("/");
    let expected: BTreeSet<String> = ["/", "/doc/a"].map(|path| site.url(path)).into();
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.include = vec!["/doc/".into()];
    config.exclude = vec![r"\.zip$".into(), "private".into()];
    assert_eq!(crawl(&config).urls(), expected.iter().map(String::as_str).collect());
}

pub fn several_roots(engine: EngineName) {
    let first = site("127.1.0.6").page("/", Response::links(["/a"])).page("/a", Response::html("a"));
    let second = site("127.1.0.7").page("/start", Response::links(["/b"])).page("/b", Response::html("b"));
    let (first_root, second_root) = (first.url("/"), second.url("/start"));
    let expected: BTreeSet<String> = [first.url("/"), first.url("/a"), second.url("/start"), second.url("/b")].into();
    let _web = serve([first, second]);
    assert_eq!(
        crawl(&config(engine, &[&first_root, &second_root])).urls(),
        expected.iter().map(String::as_str).collect()
    );
}

pub fn a_deep_root(engine: EngineName) {
    let site = site("127.1.0.8")
        .page("/x/y/z", Response::links(["../up", "sibling"]))
        .page("/x/up", Response::html("up"))
        .page("/x/y/sibling", Response::html("sibling"));
    let root = site.url("/x/y/z");
    let expected: BTreeSet<String> = ["/x/y/z", "/x/up", "/x/y/sibling"].map(|path| site.url(path)).into();
    let _web = serve([site]);
    assert_eq!(crawl(&config(engine, &[&root])).urls(), expected.iter().map(String::as_str).collect());
}

/// Pages are crawled up to the maximum depth. A redirect does not increase the depth.
pub fn depth(engine: EngineName) {
    let site = site("127.1.0.9")
        .page("/", Response::links(["/1"]))
        .redirect("/1", "/one", 302)
        .page("/one", Response::links(["/2"]))
        .page("/2", Response::links(["/3"]))
        .page("/3", Response::html("too deep"));
    let root = site.url("/");
    let expected: BTreeSet<String> = ["/", "/1", "/one", "/2"].map(|path| site.url(path)).into();
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.depth = Some(2);
    assert_eq!(crawl(&config).urls(), expected.iter().map(String::as_str).collect());
}

pub fn prefix_and_page_scope(engine: EngineName) {
    let site = site("127.1.0.10")
        .page("/docs/start", Response::links(["/docs/a", "/blog/b"]))
        .page("/docs/a", Response::html("a"))
        .page("/blog/b", Response::html("b"));
    let root = site.url("/docs/start");
    let with_prefix: BTreeSet<String> = ["/docs/start", "/docs/a"].map(|path| site.url(path)).into();
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.scope = ScopeKind::Prefix;
    assert_eq!(crawl(&config).urls(), with_prefix.iter().map(String::as_str).collect());
    config.scope = ScopeKind::Page;
    assert_eq!(crawl(&config).urls(), [root.as_str()].into());
}

pub fn redirect_chains(engine: EngineName) {
    let site = site("127.1.0.11")
        .redirect("/", "/1", 301)
        .redirect("/1", "/2", 302)
        .redirect("/2", "3", 307)
        .redirect("/3", "/end", 308)
        .page("/end", Response::html("<title>End</title>"));
    let root = site.url("/");
    let end = site.url("/end");
    let _web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!(crawled.pages.len(), 5);
    let first = crawled.page(&root);
    assert_eq!((first.facts.outcome, first.facts.status), (Outcome::Redirect, Some(301)));
    assert!(first.facts.redirect.as_ref().is_some_and(|target| target.path() == "/1"));
    let last = crawled.page(&end);
    assert_eq!((last.facts.outcome, last.link.depth, last.findings.title.as_deref()), (Outcome::Ok, 0, Some("End")));
}

pub fn redirect_cycles(engine: EngineName) {
    let site = site("127.1.0.12").redirect("/", "/a", 302).redirect("/a", "/b", 302).redirect("/b", "/", 302);
    let root = site.url("/");
    let web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!(crawled.pages.len(), 3);
    assert!(crawled.pages.iter().all(|visit| visit.facts.outcome == Outcome::Redirect));
    let errors: Vec<_> = crawled.pages.iter().filter_map(|visit| visit.facts.error.as_ref()).collect();
    assert_eq!(errors.iter().map(|error| error.kind).collect::<Vec<_>>(), [ErrorKind::RedirectLoop]);
    assert_eq!(web.requests(), 3, "one request per URL");
}

pub fn redirects_join(engine: EngineName) {
    let site = site("127.1.0.13")
        .page("/", Response::links(["/a", "/b", "/c"]))
        .redirect("/a", "/x", 302)
        .redirect("/b", "/x", 302)
        .redirect("/c", "/a", 302)
        .page("/x", Response::html("x"));
    let root = site.url("/");
    let web = serve([site]);
    assert_eq!(crawl(&config(engine, &[&root])).pages.len(), 5);
    assert_eq!(web.log().iter().filter(|request| request.path == "/x").count(), 1);
}

pub fn the_limit_of_redirects(engine: EngineName) {
    let mut site = site("127.1.0.14");
    for n in 0..8 {
        site = site.redirect(&format!("/{n}"), &format!("/{}", n + 1), 302);
    }
    let (root, last) = (site.url("/0"), site.url("/5"));
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.max_redirects = 5;
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 6);
    let stopped = crawled.page(&last);
    assert_eq!(stopped.facts.outcome, Outcome::Redirect);
    assert_eq!(stopped.facts.error.as_ref().map(|failure| failure.kind), Some(ErrorKind::RedirectLimit));
}

pub fn an_off_scope_redirect(engine: EngineName) {
    let (_, second, away) = two_hosts();
    let first = site("127.1.0.15").page("/", Response::links(["/leave"])).redirect("/leave", &away, 302);
    let (root, leave) = (first.url("/"), first.url("/leave"));
    let web = serve([first, second]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!(crawled.pages.len(), 2);
    assert_eq!(crawled.page(&leave).facts.outcome, Outcome::Redirect);
    assert!(web.log().iter().all(|request| request.site == 0), "the other host received a request");
}

pub fn a_bad_redirect(engine: EngineName) {
    let site = site("127.1.0.16")
        .page("/", Response::links(["/ftp", "/odd", "/none"]))
        .redirect("/ftp", "ftp://host/file", 302)
        .redirect("/odd", "http://[bad", 302)
        .page("/none", Response::status(302));
    let (root, ftp, odd, none) = (site.url("/"), site.url("/ftp"), site.url("/odd"), site.url("/none"));
    let _web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    let kind = |url: &str| crawled.page(url).facts.error.as_ref().map(|failure| failure.kind);
    assert_eq!(kind(&ftp), Some(ErrorKind::RedirectBlocked));
    assert_eq!(kind(&odd), Some(ErrorKind::RedirectInvalid));
    assert_eq!((crawled.page(&none).facts.outcome, kind(&none)), (Outcome::HttpError, None));
}

pub fn non_html(engine: EngineName) {
    let site = site("127.1.0.17")
        .page("/", Response::links(["/text", "/image"]))
        .page("/text", Response::text("<a href=/hidden>no link</a>"))
        .page("/image", Response::bytes("<a href=/hidden>").content_type("image/png"));
    let (root, text, image) = (site.url("/"), site.url("/text"), site.url("/image"));
    let _web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!(crawled.pages.len(), 3);
    assert_eq!(crawled.page(&text).findings.content_type.as_deref(), Some("text/plain"));
    assert_eq!(crawled.page(&image).findings.content_type.as_deref(), Some("image/png"));
    assert_eq!(crawled.page(&image).findings.links, 0);
}

pub fn non_http_links(engine: EngineName) {
    let links = ["mailto:a@b.c", "javascript:alert(1)", "ftp://h/f", "data:text/html,x", "tel:+1", "/a"];
    let site = site("127.1.0.18").page("/", Response::links(links)).page("/a", Response::html("a"));
    let root = site.url("/");
    let _web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!((crawled.pages.len(), crawled.page(&root).findings.links), (2, 1));
}

pub fn exact_max_pages(engine: EngineName) {
    let graph = GraphPlan { pages: 3_000, links: 20, size: 2_000, ..GraphPlan::default() };
    let (web, root, _) = graph_web(graph);
    let mut config = config(engine, &[&root]);
    config.pace = Pace::Full;
    config.concurrency = 200;
    config.max_pages = Some(1_000);
    let crawled = crawl(&config);
    let requested_paths: BTreeSet<String> = web.log().into_iter().map(|request| request.path).collect();
    assert_eq!((crawled.pages.len(), requested_paths.len(), web.requests()), (1_000, 1_000, 1_000));
    assert_eq!(crawled.summary.end, End::MaxPages);
    assert!(crawled.summary.left > 0);
}

/// Serves a graph. Returns the server, the first root and the graph.
fn graph_web(plan: GraphPlan) -> (argiope_practice::RunningWeb, String, Arc<Graph>) {
    let site = Site::http("0.0.0.0:0").expect("all of loopback");
    let is_https = false;
    let graph = Arc::new(Graph::new(plan, site.address().port(), is_https));
    let root = graph.url(graph.roots().next().expect("a root"));
    let web = PracticeWeb::new().site(site.graph(&graph)).start().expect("the practice web starts");
    (web, root, graph)
}

pub fn a_graph_is_crawled_completely(engine: EngineName) {
    let plan = GraphPlan {
        pages: 800,
        links: 12,
        size: 3_000,
        missing: 50,
        broken: 20,
        redirects: 50,
        ..GraphPlan::default()
    };
    let (_web, root, graph) = graph_web(plan);
    let expected = graph.reachable(graph.roots().take(1), CrawlReach::RootHosts);
    let mut config = config(engine, &[&root]);
    config.pace = Pace::Full;
    config.concurrency = 50;
    config.max_tries = 1;
    let crawled = crawl(&config);
    let found: BTreeSet<&str> = crawled.urls();
    assert_eq!(found, expected.keys().map(String::as_str).collect());
    for visit in &crawled.pages {
        let expect = &expected[visit.link.url.as_str()];
        assert_eq!(visit.facts.status, Some(expect.status), "{}", visit.link.url);
    }
}

pub fn ends_at_once(engine: EngineName) {
    // The last responses are an error, a failure and a last attempt that fails. The crawl must end before any timeout.
    let site = site("127.1.0.21")
        .page("/", Response::links(["/error", "/reset", "/again"]))
        .page("/error", Response::status(404))
        .page("/reset", Response::reset())
        .page("/again", Response::status(500));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.max_tries = 2;
    let an_hour = Span::from_secs(60 * 60);
    (config.timeout, config.connect_timeout, config.idle_timeout) = (an_hour, an_hour, an_hour);
    let crawled = crawl(&config);
    let last = web.log().iter().map(|request| web.started() + request.start).max().expect("requests were made");
    assert_eq!(crawled.pages.len(), 4);
    assert!(Instant::now() - last < Duration::from_secs(30), "the crawl waited before it ended");
}

pub fn ten_thousand_links(engine: EngineName) {
    let links: Vec<String> = (0..10_000).map(|n| format!("/p/{n}")).collect();
    let site = site("127.1.0.22").page("/", Response::links(&links)).fallback(Response::html("page"));
    let root = site.url("/");
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.pace = Pace::Full;
    config.concurrency = 64;
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 10_001);
    assert_eq!((crawled.page(&root).findings.links, crawled.page(&root).findings.new_links), (10_000, 10_000));
}

pub fn wide_hosts_use_all_slots(engine: EngineName) {
    let links: Vec<String> = (0..200).map(|n| format!("/p/{n}")).collect();
    let slow = Response::html("page").delay(Duration::from_millis(50));
    let site = site("127.1.0.23").page("/", Response::links(&links)).fallback(slow);
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.pace = Pace::Full;
    config.concurrency = 40;
    assert_eq!(crawl(&config).pages.len(), 201);
    assert_eq!(web.stats().max_at_once, 40, "concurrency is 40");
}

pub fn many_slow_responses(engine: EngineName) {
    // All responses are slow enough for wake-up coalescing. Some pages need many reads, or are decoded in many
    // portions.
    let links: Vec<String> = (0..600).map(|n| format!("/p/{n}")).collect();
    let delay = Duration::from_millis(150);
    let large = "<p>a page that is large</p>".repeat(40_000);
    let site = site("127.1.0.26")
        .page("/", Response::links(&links).delay(delay))
        .page("/p/200", Response::html(large.as_str()).delay(delay))
        .page("/p/300", Response::html(large.as_str()).gzip().delay(delay))
        .fallback(Response::html("page").delay(delay));
    let (root, pages) = (site.url("/"), ["/p/200", "/p/300"].map(|path| site.url(path)));
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.pace = Pace::Full;
    config.concurrency = 300;
    let crawled = crawl(&config);
    assert_eq!((crawled.pages.len(), web.stats().max_at_once), (601, 300));
    assert!(pages.iter().all(|url| crawled.page(url).facts.bytes_body == large.len() as u64));
}

pub fn max_bytes(engine: EngineName) {
    let plan = GraphPlan { pages: 500, links: 20, size: 10_000, ..GraphPlan::default() };
    let (_web, root, _) = graph_web(plan);
    let mut config = config(engine, &[&root]);
    config.concurrency = 1;
    config.max_bytes = Some(Size(100_000));
    let crawled = crawl(&config);
    assert_eq!(crawled.summary.end, End::MaxBytes);
    // The request that exceeds the limit is completed.
    let bytes: u64 = crawled.pages.iter().map(|visit| visit.facts.bytes_wire).sum();
    assert!((100_000..130_000).contains(&bytes), "{bytes}");
}

pub fn max_time(engine: EngineName) {
    let site = site("127.1.0.25").page("/", Response::links(["/hang"])).page("/hang", Response::hang());
    let root = site.url("/");
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    // Long enough for the root even on a busy machine.
    config.max_time = Some(Span::from_secs(3));
    let crawled = crawl(&config);
    assert_eq!((crawled.summary.end, crawled.pages.len(), crawled.summary.left), (End::MaxTime, 1, 1));
}

//! Cases about politeness, retries, robots.txt and forbidden requests. They check the requests that the server
//! received.

use std::time::Duration;

use argiope_core::crawl::rules::{EngineName, HeaderLine, Pace, RobotsPolicy, Span};
use argiope_core::{ErrorKind, Outcome};
use argiope_practice::{PracticeWeb, Response, SeenRequest};

use super::{serve, site};
use crate::crawling::{config, crawl};

pub fn retries_that_succeed(engine: EngineName) {
    let site = site("127.3.0.1")
        .page("/", Response::links(["/flaky", "/reset"]))
        .fail_times("/flaky", 2, Response::status(503), Response::html("<title>well</title>"))
        .fail_times("/reset", 1, Response::reset(), Response::html("ok"));
    let (root, flaky, reset) = (site.url("/"), site.url("/flaky"), site.url("/reset"));
    let web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!((crawled.page(&flaky).facts.outcome, crawled.page(&flaky).link.tries), (Outcome::Ok, 3));
    assert_eq!((crawled.page(&reset).facts.outcome, crawled.page(&reset).link.tries), (Outcome::Ok, 2));
    assert_eq!(web.requests(), 6);
}

pub fn retries_that_give_up(engine: EngineName) {
    let site = site("127.3.0.2")
        .page("/", Response::links(["/down", "/gone"]))
        .page("/down", Response::status(502))
        .page("/gone", Response::status(410));
    let (root, down, gone) = (site.url("/"), site.url("/down"), site.url("/gone"));
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.max_tries = 3;
    let crawled = crawl(&config);
    let result =
        |url: &str| (crawled.page(url).facts.outcome, crawled.page(url).facts.status, crawled.page(url).link.tries);
    assert_eq!(result(&down), (Outcome::HttpError, Some(502), 3));
    assert_eq!(result(&gone), (Outcome::HttpError, Some(410), 1), "a permanent error is not retried");
    assert_eq!(web.requests(), 5);
}

pub fn concurrency_is_reached_and_not_exceeded(engine: EngineName) {
    let sites: Vec<_> = (1..=8)
        .map(|n| {
            let links: Vec<String> = (0..20).map(|n| format!("/{n}")).collect();
            site(&format!("127.3.1.{n}"))
                .page("/", Response::links(&links))
                .fallback(Response::html("page").delay(Duration::from_millis(40)))
        })
        .collect();
    let roots: Vec<String> = sites.iter().map(|site| site.url("/")).collect();
    let web = serve(sites);
    let mut config = config(engine, &roots.iter().map(String::as_str).collect::<Vec<_>>());
    config.pace = Pace::Full;
    config.concurrency = 12;
    assert_eq!(crawl(&config).pages.len(), 8 * 21);
    assert_eq!(web.stats().max_at_once, 12);
}

pub fn per_host_is_respected(engine: EngineName) {
    let links: Vec<String> = (0..40).map(|n| format!("/{n}")).collect();
    let site = site("127.3.0.4")
        .page("/", Response::links(&links))
        .fallback(Response::html("page").delay(Duration::from_millis(20)));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.per_host = Some(4);
    assert_eq!(crawl(&config).pages.len(), 41);
    assert_eq!(web.stats().max_at_once, 4, "the window grows to its limit and not further");
}

pub fn per_ip_limits_hosts_together(engine: EngineName) {
    let mut site = site("127.3.0.5").fallback(Response::html("page").delay(Duration::from_millis(20)));
    let (ip, port) = (site.address().ip(), site.address().port());
    let names: Vec<String> = (0..10).map(|n| format!("host{n}.example")).collect();
    let roots: Vec<String> = names.iter().map(|name| format!("http://{name}:{port}/")).collect();
    let links: Vec<String> = (0..5).map(|n| format!("/{n}")).collect();
    site = site.page("/", Response::links(&links));
    let web = serve([site]);
    let mut config = config(engine, &roots.iter().map(String::as_str).collect::<Vec<_>>());
    config.pace = Pace::Full;
    config.per_ip = Some(3);
    config.resolve = names.iter().map(|name| format!("{name}:{port}:{ip}").parse().expect("a mapping")).collect();
    assert_eq!(crawl(&config).pages.len(), 60);
    assert_eq!(web.stats().max_at_once, 3);
}

/// The connection of a busy host is kept and reused even if the pool of idle connections is full.
pub fn a_full_idle_pool_does_not_prevent_reuse(engine: EngineName) {
    let mut site = site("127.3.0.7").page("/", Response::html("a page of its own"));
    for page in 0..40 {
        site = site.page(&format!("/{page}"), Response::links([format!("/{}", page + 1)]));
    }
    let site = site.page("/40", Response::html("the last one"));
    let (ip, port) = (site.address().ip(), site.address().port());
    let names: Vec<String> = (0..700).map(|n| format!("host{n}.example")).collect();
    let mut roots: Vec<String> = names.iter().map(|name| format!("http://{name}:{port}/")).collect();
    // Hosts are requested in this order, so the idle pool is full when the last one is requested.
    roots.push(format!("http://last.example:{port}/0"));
    let web = serve([site]);
    let mut config = config(engine, &roots.iter().map(String::as_str).collect::<Vec<_>>());
    config.pace = Pace::Full;
    config.concurrency = 4;
    let all_names = names.iter().map(String::as_str).chain(["last.example"]);
    config.resolve = all_names.map(|name| format!("{name}:{port}:{ip}").parse().expect("a mapping")).collect();
    assert_eq!(crawl(&config).pages.len(), 700 + 41);
    let connections = web.stats().connections;
    // One per host and a margin of two. Without reuse, there would be one per page, 741.
    assert!(connections <= 703, "{connections} connections for 701 hosts");
}

/// A delay that is long compared to the latencies of a busy machine.
pub(super) const DELAY: Duration = Duration::from_millis(400);

/// Checks that requests start at least `delay` apart. Requests reach the server with a varying latency, so a single gap
/// may be too short by half a delay. The sum of all gaps may be too short by a quarter of one delay.
pub(super) fn assert_spaced(log: &[SeenRequest], delay: Duration) {
    let mut starts: Vec<Duration> = log.iter().map(|request| request.start).collect();
    starts.sort_unstable();
    let gaps: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let total: Duration = gaps.iter().sum();
    assert!(total + delay / 4 >= delay * gaps.len() as u32, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap >= delay / 2), "{gaps:?}");
}

pub fn the_delay_is_respected(engine: EngineName) {
    // The delay also applies to robots.txt, retries and redirects.
    let site = site("127.3.0.6")
        .robots("User-agent: *\nDisallow:\n")
        .page("/", Response::links(["/a", "/b", "/c"]))
        .redirect("/a", "/d", 302)
        .fail_times("/b", 1, Response::status(500), Response::html("b"))
        .fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.robots = RobotsPolicy::Obey;
    config.delay = Span(DELAY);
    crawl(&config);
    assert_eq!(web.requests(), 7);
    assert_spaced(&web.log(), DELAY);
}

pub fn crawl_delay_is_respected(engine: EngineName) {
    let site = site("127.3.0.7")
        .robots(&format!("User-agent: *\nCrawl-delay: {}\n", DELAY.as_secs_f32()))
        .page("/", Response::links(["/a", "/b", "/c"]))
        .fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.robots = RobotsPolicy::Obey;
    assert_eq!(crawl(&config).pages.len(), 4);
    let pages: Vec<SeenRequest> = web.log().into_iter().filter(|request| request.path != "/robots.txt").collect();
    assert_spaced(&pages, DELAY);
    assert_eq!(web.stats().max_at_once, 1);
}

pub fn retry_after_is_respected(engine: EngineName) {
    let site =
        site("127.3.0.8").fail_times("/", 1, Response::status(429).header("Retry-After", "1"), Response::html("ok"));
    let root = site.url("/");
    let web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    assert_eq!((crawled.pages[0].facts.outcome, crawled.pages[0].link.tries), (Outcome::Ok, 2));
    assert_spaced(&web.log(), Duration::from_secs(1));
}

pub fn robots_are_obeyed(engine: EngineName) {
    let site = site("127.3.0.9")
        .robots("User-agent: *\nDisallow: /secret/\nAllow: /secret/open\nDisallow: /*.pdf$\n")
        .page("/", Response::links(["/secret/x", "/secret/open", "/a.pdf", "/a.pdf?x"]))
        .fallback(Response::html("page"));
    let (root, secret, pdf) = (site.url("/"), site.url("/secret/x"), site.url("/a.pdf"));
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.robots = RobotsPolicy::Obey;
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 5);
    assert_eq!(crawled.page(&secret).facts.outcome, Outcome::Robots);
    assert_eq!(crawled.page(&pdf).facts.outcome, Outcome::Robots);
    let log = web.log();
    assert_eq!(log[0].path, "/robots.txt", "robots.txt is requested first");
    assert_eq!(log.iter().filter(|request| request.path == "/robots.txt").count(), 1, "robots.txt is requested once");
    assert!(log.iter().all(|request| request.path != "/secret/x" && request.path != "/a.pdf"));
    assert_eq!(crawled.site_files.len(), 1);
    assert_eq!(crawled.lines.iter().filter(|line| line["type"] == "aux" && line["for"] == "robots").count(), 1);
}

pub fn robots_of_every_origin(engine: EngineName) {
    let second = site("127.3.0.10").robots("User-agent: *\nDisallow: /no\n").fallback(Response::html("second"));
    let (yes, no) = (second.url("/yes"), second.url("/no"));
    let first = site("127.3.0.10").robots("User-agent: *\nDisallow: /yes\n").page("/", Response::links([&yes, &no]));
    let root = first.url("/");
    let web = serve([first, second]);
    let mut config = config(engine, &[&root, &yes]);
    config.robots = RobotsPolicy::Obey;
    let crawled = crawl(&config);
    assert_eq!(crawled.page(&yes).facts.outcome, Outcome::Ok, "another port is another origin");
    assert_eq!(crawled.page(&no).facts.outcome, Outcome::Robots);
    assert_eq!(web.log().iter().filter(|request| request.path == "/robots.txt").count(), 2);
}

pub fn an_unreachable_robots_txt_forbids_all_pages(engine: EngineName) {
    let site = site("127.3.0.11").page("/robots.txt", Response::status(503)).fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.robots = RobotsPolicy::Obey;
    config.max_tries = 2;
    let crawled = crawl(&config);
    let page = crawled.page(&root);
    assert_eq!(page.facts.outcome, Outcome::Robots);
    assert_eq!(page.facts.error.as_ref().map(|failure| failure.kind), Some(ErrorKind::RobotsUnreachable));
    assert!(web.log().iter().all(|request| request.path == "/robots.txt"));
    assert_eq!(web.requests(), 2, "robots.txt is requested twice");
}

pub fn a_missing_robots_txt_allows_all_pages(engine: EngineName) {
    for status in [404, 403, 401] {
        let site = site("127.3.0.12").page("/robots.txt", Response::status(status)).fallback(Response::html("page"));
        let root = site.url("/");
        let _web = serve([site]);
        let mut config = config(engine, &[&root]);
        config.robots = RobotsPolicy::Obey;
        assert_eq!(crawl(&config).page(&root).facts.outcome, Outcome::Ok, "{status}");
    }
}

pub fn private_addresses_are_refused(engine: EngineName) {
    // The root may be private because the user named it; its links may not.
    let second = site("127.3.0.14").fallback(Response::html("secret"));
    let secret = second.url("/");
    let first = site("127.3.0.13").page("/", Response::links([&secret])).redirect("/hop", &secret, 302);
    let (root, hop) = (first.url("/"), first.url("/hop"));
    let web = serve([first, second]);
    let mut config = config(engine, &[&root, &hop]);
    config.scope = argiope_core::crawl::rules::ScopeKind::Any;
    let crawled = crawl(&config);
    let page = crawled.page(&secret);
    assert_eq!(
        (page.facts.outcome, page.facts.error.as_ref().map(|f| f.kind)),
        (Outcome::Refused, Some(ErrorKind::PrivateAddress))
    );
    assert!(web.log().iter().all(|request| request.site == 0));
    config.allow_private = true;
    assert_eq!(crawl(&config).page(&secret).facts.outcome, Outcome::Ok);
}

pub fn headers_go_to_root_origins_only(engine: EngineName) {
    let second = site("127.3.0.16").fallback(Response::html("away"));
    let away = second.url("/");
    let first = site("127.3.0.15").page("/", Response::links([&away]));
    let root = first.url("/");
    let web = PracticeWeb::new().site(first).site(second).keep_headers().start().expect("the practice web starts");
    let mut config = config(engine, &[&root]);
    config.scope = argiope_core::crawl::rules::ScopeKind::Any;
    config.allow_private = true;
    config.header = vec!["X-Key: secret".parse::<HeaderLine>().expect("a header")];
    assert_eq!(crawl(&config).pages.len(), 2);
    for request in web.log() {
        let sent = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-key"));
        assert_eq!(sent, request.site == 0, "headers go to the origins of the roots only");
    }
}

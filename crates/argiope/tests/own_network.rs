//! What a program decides about its connections: retries, a response cache, agents by host, the target of a request, and
//! certificates from memory. Over real sockets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use argiope::config::Span;
use argiope::{CannedResponse, Crawl, CrawlBuilder, ErrorKind, Outcome, Page, Request, RetryChoice, RobotsPolicy};
use argiope_practice::{CertificateKind, PracticeWeb, Response, RunningWeb, Site};

fn serve(site: Site) -> (RunningWeb, String) {
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

fn http(address: &str) -> Site {
    Site::http(address).expect("a loopback address").fallback(Response::html("x"))
}

/// A crawl of `/` without robots.txt, links and long waits between attempts.
fn single(root: &str) -> CrawlBuilder {
    Crawl::builder(root).robots(RobotsPolicy::Ignore).no_sitemap().configure(|config| {
        config.depth = Some(0);
        config.retry_wait = Span(Duration::from_millis(10));
    })
}

fn pages(builder: CrawlBuilder) -> Vec<Page> {
    builder.start_blocking().expect("it starts").collect()
}

#[test]
fn a_closure_decides_what_is_tried_again() {
    let site = http("127.5.9.1:0").sequence(
        "/",
        [Response::status(403), Response::html("<title>Wait</title>"), Response::html("<title>In</title>")],
    );
    let (web, root) = serve(site.page("/broken", Response::status(500)));
    let wait = |attempt: &argiope::PageAttempt<'_>| match (attempt.status(), attempt.title()) {
        (Some(403), _) | (_, Some("Wait")) => RetryChoice::Again,
        (Some(500), _) => RetryChoice::GiveUp,
        _ => RetryChoice::AsUsual,
    };
    let found = pages(single(&root).root(format!("{root}broken")).retry_if(wait));
    let page = |path: &str| found.iter().find(|page| page.url().path() == path).expect("a page");
    assert_eq!((page("/").title(), page("/").link().tries), (Some("In"), 3));
    assert_eq!((page("/broken").status(), page("/broken").link().tries), (Some(500), 1));
    assert_eq!((found.len(), web.requests()), (2, 4));
}

#[test]
fn a_retry_that_the_closure_wishes_keeps_the_limits_and_sends_no_form_twice() {
    let (web, root) = serve(http("127.5.9.2:0").page("/", Response::status(404)).page("/form", Response::status(404)));
    let form = Request::post(&format!("{root}form")).expect("a URL").form([("a", "b")]);
    let found = pages(single(&root).root(form).max_tries(3).retry_if(|_| RetryChoice::Again));
    assert_eq!(found.len(), 2);
    let count = |method: &str| web.log().iter().filter(|request| request.method == method).count();
    assert_eq!((count("GET"), count("POST")), (3, 1));
    let panicking = pages(single(&root).retry_if(|_| panic!("a bug in the closure")));
    let error = panicking[0].error().expect("an error");
    assert_eq!((panicking[0].outcome(), error.kind), (Outcome::Failed, ErrorKind::Hook));
    assert!(error.message.contains("retry_if panicked: a bug in the closure"), "{}", error.message);
}

#[test]
fn a_second_crawl_is_answered_from_the_pages_of_the_first() {
    let site = http("127.5.9.3:0").page("/", Response::links(["/a", "/b"]));
    let (web, root) = serve(site.page("/robots.txt", Response::text("User-agent: *\nDisallow: /b\n")));
    let cache: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    for page in Crawl::builder(&root).start_blocking().expect("it starts").filter(Page::is_ok) {
        cache.lock().expect("no panic").insert(page.url().to_string(), page.html().into_owned());
    }
    let before = web.requests();
    let known = Arc::clone(&cache);
    let answered = pages(Crawl::builder(&root).answer_with(move |url| {
        known.lock().expect("no panic").get(url.as_str()).map(|html| CannedResponse::html(html.as_str()))
    }));
    let mut paths: Vec<_> = answered.iter().filter(|page| page.is_ok()).map(|page| page.url().path()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/", "/a"]);
    let sent: Vec<_> = web.log().split_off(before as usize).into_iter().map(|request| request.path).collect();
    assert_eq!(sent, ["/robots.txt"], "only what the cache does not have is requested");
    let failed = pages(single(&root).answer_with(|_| panic!("a bug in the closure")));
    assert_eq!(failed[0].error().map(|error| error.kind), Some(ErrorKind::Hook));
}

#[test]
fn an_agent_for_a_host_is_sent_with_its_robots_txt_and_looked_up_there() {
    let robots = "User-agent: partner\nDisallow: /closed\n\nUser-agent: *\nDisallow: /\n";
    let site = |address: &str| {
        let page = Response::links(["/open", "/closed"]);
        http(address).page("/robots.txt", Response::text(robots)).page("/", page)
    };
    let (partner, other) = (site("127.5.9.4:0"), site("127.5.9.5:0"));
    let roots = [partner.url("/"), other.url("/")];
    let web = PracticeWeb::new().site(partner).site(other).start().expect("the practice web starts");
    let crawl = Crawl::builder(roots[0].as_str()).root(roots[1].as_str()).user_agent("me/1.0");
    let found = pages(crawl.user_agent_for("127.5.9.4", "Partner/2.0 (by me)").no_sitemap());
    let fetched: Vec<_> = web.log().into_iter().map(|seen| (seen.site, seen.path, seen.user_agent)).collect();
    for (site, _, agent) in &fetched {
        assert_eq!(agent, ["Partner/2.0 (by me)", "me/1.0"][*site]);
    }
    let mut paths: Vec<_> = fetched.iter().map(|(site, path, _)| (*site, path.as_str())).collect();
    paths.sort_unstable();
    assert_eq!(paths, [(0, "/"), (0, "/open"), (0, "/robots.txt"), (1, "/robots.txt")]);
    assert_eq!(found.iter().filter(|page| page.outcome() == Outcome::Robots).count(), 2);
    for (host, agent) in [("a b", "x/1"), ("h.example", "(nameless)"), ("h.example", "a\nb")] {
        let refused = Crawl::builder(roots[0].as_str()).user_agent_for(host, agent).start_blocking();
        assert!(refused.is_err(), "{host} {agent:?}");
    }
}

#[test]
fn a_closure_signs_the_target_and_the_page_keeps_its_url() {
    let (web, root) = serve(http("127.5.9.6:0").page("/a?b=1&sig=7", Response::html("<a href=c>c</a>")));
    let crawl = single(&format!("{root}a?b=1")).on_request(|request| {
        assert!(request.set_target("no slash").is_err() && request.set_target("/a b").is_err());
        assert!(request.set_target("/a#b").is_err() && request.set_target("/a\r\nX: y").is_err());
        let signed = format!("{}?{}&sig=7", request.url().path(), request.url().query().unwrap_or_default());
        request.set_target(&signed).expect("it can be sent");
    });
    let found = pages(crawl);
    assert_eq!((found[0].url().as_str(), found[0].status()), (format!("{root}a?b=1").as_str(), Some(200)));
    assert_eq!(found[0].links()[0].url.path(), "/c");
    assert_eq!(web.log().iter().map(|seen| seen.path.as_str()).collect::<Vec<_>>(), ["/a?b=1&sig=7"]);
}

#[test]
fn certificates_from_memory_are_trusted_and_sent() {
    let site = Site::https("127.5.9.7:0", CertificateKind::Good).expect("a loopback address");
    let (web, root) = serve(site.requiring_client_certificate().fallback(Response::html("x")));
    let (certificate, key) = web.authority().issue(vec!["me.example".to_owned()]).expect("a certificate");
    let trusting = || single(&root).max_tries(1).trust_certificates(web.ca_pem());
    assert!(!pages(single(&root).max_tries(1))[0].is_ok(), "the authority is not trusted");
    assert!(!pages(trusting())[0].is_ok(), "the host requires a certificate");
    assert!(pages(trusting().client_certificate(&certificate, &key))[0].is_ok());
    let crawler = argiope::Crawler::new();
    for _ in 0..2 {
        let shared = crawler.crawl(root.as_str()).robots(RobotsPolicy::Ignore).trust_certificates(web.ca_pem());
        assert!(pages(shared.client_certificate(&certificate, &key))[0].is_ok());
    }
    let wrong = trusting().client_certificate(&certificate, "no key").start_blocking();
    assert!(wrong.is_err_and(|error| error.to_string().contains("key")));
    assert!(single(&root).trust_certificates("no certificate").start_blocking().is_err());
}

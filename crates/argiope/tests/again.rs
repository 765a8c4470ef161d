//! Fetching a URL again: keys, redirects of forms, and what became of requests that were added.

use std::time::Duration;

use argiope::{CannedResponse, CannedWeb, Crawl, DeliveredBodies, Fed, Method, Outcome, Request, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, Site};

const HOST: &str = "https://site.example";

fn page(path: &str, html: &str) -> (String, CannedResponse) {
    (format!("{HOST}{path}"), CannedResponse::html(html))
}

#[test]
fn a_key_makes_a_request_distinct() {
    let status = format!("{HOST}/status");
    let web: CannedWeb = [page("/", "<a href=/status>"), (status.clone(), CannedResponse::html("first"))]
        .into_iter()
        .chain([(status.clone(), CannedResponse::html("second")), (status.clone(), CannedResponse::html("third"))])
        .collect();
    let mut pages = Crawl::builder(format!("{HOST}/")).with_transport(web).start_blocking().expect("it starts");
    let mut bodies = Vec::new();
    while let Some(page) = pages.next() {
        if page.url().path() == "/status" {
            bodies.push(page.html().into_owned());
        }
        let plain = || Request::get(&status).expect("a URL");
        if bodies.len() == 1 {
            let fed = [plain(), plain().key("again"), plain().key("again"), plain().key("and again")];
            let report = pages.feed(fed).expect("the crawl is open").wait();
            assert_eq!(report.requests(), [Fed::Known, Fed::Added, Fed::Known, Fed::Added]);
            assert_eq!((report.added(), report.known(), report.refused()), (2, 2, 0));
        }
    }
    assert_eq!(bodies, ["first", "second", "third"]);
    assert!(pages.feed([status]).is_err());
}

#[test]
fn a_redirect_keeps_the_key() {
    let web = CannedWeb::from([page("/", "<a href=/old><a href=/new>"), page("/new", "x")])
        .page(&format!("{HOST}/old"), CannedResponse::redirect("/new"));
    let mut pages = Crawl::builder(format!("{HOST}/")).with_transport(web).start_blocking().expect("it starts");
    let mut paths = Vec::new();
    while let Some(page) = pages.next() {
        paths.push(page.url().path().to_owned());
        if paths.len() == 3 {
            pages.feed([Request::get(&format!("{HOST}/old")).expect("a URL").key("2")]).expect("the crawl is open");
        }
    }
    paths.sort_unstable();
    assert_eq!(paths, ["/", "/new", "/new", "/old", "/old"]);
}

/// A login form answers with a redirect to the page that shows the form.
#[test]
fn the_page_behind_a_login_form_is_fetched_although_it_is_known() {
    let web = CannedWeb::from([page("/", "<form method=post action=/login><input name=user></form><a href=/account>")])
        .page(&format!("{HOST}/account"), CannedResponse::html("please log in"))
        .page(&format!("{HOST}/account"), CannedResponse::html("welcome"))
        .page(&format!("{HOST}/login"), CannedResponse::status(303).header("Location", "/account"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut pages = Crawl::builder(format!("{HOST}/"))
        .with_transport(web)
        .directory(folder.path().join("c"))
        .start_blocking()
        .expect("it starts");
    let mut seen = Vec::new();
    while let Some(page) = pages.next() {
        if page.url().path() == "/account" {
            seen.push(page.html().into_owned());
        }
        if seen.len() == 1 && page.url().path() == "/account" {
            let form =
                Request::post(&format!("{HOST}/login")).expect("a URL").form([("user", "me")]).user_data("login");
            pages.feed([form]).expect("the crawl is open");
        } else if seen.len() == 2 {
            assert_eq!((page.method(), page.user_data().as_str()), (Method::Get, Some("login")));
        }
    }
    assert_eq!(seen, ["please log in", "welcome"]);
}

#[test]
fn redirects_after_a_form_that_go_in_circles_end() {
    let web = CannedWeb::from([page("/", "x")])
        .page(&format!("{HOST}/login"), CannedResponse::redirect("/a"))
        .page(&format!("{HOST}/a"), CannedResponse::redirect("/b"))
        .page(&format!("{HOST}/b"), CannedResponse::redirect("/a"));
    let form = Request::post(&format!("{HOST}/login")).expect("a URL").form([("user", "me")]);
    let mut pages = Crawl::builder(form).with_transport(web).start_blocking().expect("it starts");
    let outcomes: Vec<_> = pages.by_ref().map(|page| (page.outcome(), page.error().map(|error| error.kind))).collect();
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    assert!(outcomes.iter().all(|(outcome, _)| *outcome == Outcome::Redirect));
    assert_eq!(outcomes[2].1, Some(argiope::ErrorKind::RedirectLoop), "{outcomes:?}");
}

/// The reader waits for answers of the crawl while more pages are ready than the crawl holds for it.
#[test]
fn answers_arrive_while_many_pages_are_unread() {
    const PAGES: usize = 3_000;
    let paths: Vec<String> = (0..PAGES).map(|number| format!("/{number}")).collect();
    let site = Site::http("127.5.4.33:0").expect("a loopback address").page("/", Response::links(&paths));
    let site = site.fallback(Response::html("x"));
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let folder = tempfile::tempdir().expect("a folder");
    for directory in [None, Some(folder.path().join("c"))] {
        let before = web.requests();
        let mut builder = Crawl::builder(&root).robots(RobotsPolicy::Ignore).bodies(DeliveredBodies::None);
        builder = builder.configure(|config| {
            config.per_host = Some(32);
            config.per_ip = Some(0);
            config.out = directory.clone();
            config.pace = argiope::Pace::Full;
        });
        let mut pages = builder.start_blocking().expect("it starts");
        let (_, first) = pages.next_acked().expect("the root");
        assert!(web.wait_until(Duration::from_secs(30), |web| web.requests() - before > 1_024));
        let report = pages.feed([root.as_str()]).expect("the crawl is open").wait();
        assert_eq!(report.known(), 1);
        first.done_durably_blocking().expect("the crawl runs");
        assert!(web.requests() - before < 2_000, "the crawl waits for its reader");
        assert_eq!(pages.by_ref().count(), PAGES);
        pages.close().expect("it ends");
    }
}

//! Tests of the keeper's cookie jar in virtual time. Cookies that a response sets are sent with later requests until
//! they expire.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::{Config, RobotsPolicy, Span};
use argiope_core::crawl::schedule::keeper::{Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::cookies::SetCookie;
use argiope_core::{Outcome, Time, Url};
use argiope_store::MemoryFrontier;

const FINGERPRINT_KEY: u64 = 1;

/// Cookies expire at a wall-clock time, so the crawl starts at a realistic one: in January 2027.
const CLOCK: WallClock = WallClock { start: 1_800_000_000_000_000 };

/// The path and cookies of a request.
type PathAndCookies = (String, String);

/// Runs a crawl in which `fill_in` changes each visit. Returns all requests, and the outcome and number of tries of
/// each settled visit, in order.
fn crawl(config: &Config, fill_in: impl Fn(&mut Visit)) -> (Vec<PathAndCookies>, Vec<(Outcome, u8)>) {
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("the settings are valid"));
    let mut keeper = Keeper::new(MemoryFrontier::new(FINGERPRINT_KEY), rules, CLOCK);
    let (mut now, mut requests, mut settled) = (Time::ZERO, Vec::new(), Vec::new());
    keeper.begin(now).expect("the crawl begins");
    loop {
        match keeper.next(now).expect("the frontier works") {
            Next::Resolve(lane, _) => {
                keeper.resolved(lane, Ok((vec![[203, 0, 113, 1].into()], Duration::from_secs(9_999))), now);
            }
            Next::Fetch(job) => {
                let cookie = job.extras.as_ref().and_then(|extras| extras.cookie.as_ref());
                let cookie = cookie.map(|cookie| String::from_utf8_lossy(cookie.as_bytes()).into_owned());
                requests.push((job.link.url.path().to_owned(), cookie.unwrap_or_default()));
                let mut visit = Visit::requested(job, Outcome::Ok, now);
                visit.facts.status = Some(200);
                fill_in(&mut visit);
                keeper.finished(Box::new(visit), now).expect("the frontier works");
            }
            Next::Wait(until) => now = until,
            Next::Done(_) => break,
        }
        settled.extend(keeper.take_settled());
    }
    settled.extend(keeper.take_settled());
    let results = settled.iter().map(|settled| (settled.visit.facts.outcome, settled.visit.link.tries));
    (requests, results.collect())
}

/// Settings for a crawl of these paths, one request per minute.
fn config(paths: &[&str]) -> Config {
    Config {
        roots: paths.iter().map(|path| format!("http://h.example{path}")).collect(),
        robots: RobotsPolicy::Ignore,
        allow_private: true,
        per_host: Some(1),
        delay: Span::from_secs(60),
        ..Config::default()
    }
}

fn set_cookie(visit: &mut Visit, line: &str) {
    visit.for_keeper.set_cookies_mut().extend(SetCookie::parse(line.as_bytes()));
}

#[test]
fn a_cookie_is_sent_until_it_expires() {
    let set_two_cookies = |visit: &mut Visit| {
        if visit.link.url.path() == "/a" {
            set_cookie(visit, "short=1; Max-Age=90");
            set_cookie(visit, "long=2");
        }
    };
    let (requests, settled) = crawl(&config(&["/a", "/b", "/c"]), set_two_cookies);
    let expected = [("/a", ""), ("/b", "short=1; long=2"), ("/c", "long=2")];
    assert_eq!(requests, expected.map(|(path, cookie)| (path.to_owned(), cookie.to_owned())));
    assert_eq!(settled, vec![(Outcome::Ok, 1); 3]);
    let (requests, _) = crawl(&Config { no_cookies: true, ..config(&["/a", "/b"]) }, set_two_cookies);
    assert!(requests.iter().all(|(_, cookie)| cookie.is_empty()), "{requests:?}");
}

#[test]
fn a_redirect_to_itself_with_a_new_cookie_is_retried_and_recorded_once() {
    let redirect_twice = |visit: &mut Visit| {
        if visit.link.tries < 3 {
            let attempt = visit.link.tries;
            set_cookie(visit, &format!("n{attempt}=1"));
            visit.facts.outcome = Outcome::Redirect;
            visit.facts.status = Some(302);
            visit.facts.redirect = Url::parse("http://h.example/").ok();
        }
    };
    let (requests, settled) = crawl(&config(&["/"]), redirect_twice);
    assert_eq!(requests.iter().map(|(_, cookie)| cookie.as_str()).collect::<Vec<_>>(), ["", "n1=1", "n1=1; n2=1"]);
    assert_eq!(settled, [(Outcome::Ok, 3)]);
    // Setting the same cookie again does not cause a retry, and neither does a redirect beyond the limit.
    let (requests, settled) = crawl(&config(&["/"]), |visit| {
        redirect_twice(visit);
        visit.for_keeper.set_cookies_mut().clear();
        set_cookie(visit, "same=1");
    });
    assert_eq!((requests.len(), settled), (2, vec![(Outcome::Redirect, 2)]));
    let (requests, settled) = crawl(&Config { max_redirects: 1, ..config(&["/"]) }, redirect_twice);
    assert_eq!((requests.len(), settled), (2, vec![(Outcome::Redirect, 2)]));
}

//! Tests of the keeper's cookie jar in virtual time. Cookies that a response sets are sent with later requests until
//! they expire.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::cookies::SetCookie;
use argiope_core::output::record::WallClock;
use argiope_core::rules::{Config, RobotsPolicy, Span};
use argiope_core::schedule::keeper::{Keeper, Order};
use argiope_core::visit::Visit;
use argiope_core::{Outcome, Time, Url};
use argiope_store::MemoryFrontier;

const CLOCK: WallClock = WallClock { start: 1_800_000_000_000_000 };

/// The path and cookies of a request.
type Asked = (String, String);

/// Runs a crawl in which `answer` fills in each visit. Returns all requests, and the outcome and number of tries of
/// each settled visit, in order.
fn crawl(config: &Config, answer: impl Fn(&mut Visit)) -> (Vec<Asked>, Vec<(Outcome, u8)>) {
    let rules = Arc::new(config.compile(1).expect("the settings are right"));
    let mut keeper = Keeper::new(MemoryFrontier::new(1), rules, CLOCK);
    let (mut now, mut asked, mut settled) = (Time::ZERO, Vec::new(), Vec::new());
    keeper.begin(now).expect("it begins");
    loop {
        match keeper.next(now).expect("the frontier works") {
            Order::Resolve(lane, _) => {
                keeper.resolved(lane, Ok((vec![[203, 0, 113, 1].into()], Duration::from_secs(9_999))), now);
            }
            Order::Fetch(job) => {
                let cookie = job.extras.as_ref().and_then(|extras| extras.cookie.as_ref());
                let cookie = cookie.map(|cookie| String::from_utf8_lossy(cookie.as_bytes()).into_owned());
                asked.push((job.link.url.path().to_owned(), cookie.unwrap_or_default()));
                let slot = Some((job.lane, job.slot));
                let mut visit = Visit::bare(job.link, job.purpose, Outcome::Ok, now);
                visit.message.slot = slot;
                visit.facts.status = Some(200);
                visit.link.tries += 1;
                answer(&mut visit);
                keeper.finished(Box::new(visit), now).expect("the frontier works");
            }
            Order::Wait(until) => now = until,
            Order::Done(_) => break,
        }
        let ended = keeper.take_settled();
        settled.extend(ended.into_iter().map(|settled| (settled.visit.facts.outcome, settled.visit.link.tries)));
    }
    settled.extend(
        keeper.take_settled().into_iter().map(|settled| (settled.visit.facts.outcome, settled.visit.link.tries)),
    );
    (asked, settled)
}

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

fn set(visit: &mut Visit, line: &str) {
    visit.message.set_cookies.extend(SetCookie::parse(line.as_bytes()));
}

#[test]
fn a_cookie_is_sent_until_it_expires() {
    let first = |visit: &mut Visit| {
        if visit.link.url.path() == "/a" {
            set(visit, "short=1; Max-Age=90");
            set(visit, "long=2");
        }
    };
    let (asked, settled) = crawl(&config(&["/a", "/b", "/c"]), first);
    let expected = [("/a", ""), ("/b", "short=1; long=2"), ("/c", "long=2")];
    assert_eq!(asked, expected.map(|(path, cookie)| (path.to_owned(), cookie.to_owned())));
    assert_eq!(settled, vec![(Outcome::Ok, 1); 3]);
    let (asked, _) = crawl(&Config { no_cookies: true, ..config(&["/a", "/b"]) }, first);
    assert!(asked.iter().all(|(_, cookie)| cookie.is_empty()), "{asked:?}");
}

#[test]
fn a_redirect_to_itself_with_a_new_cookie_is_retried_and_recorded_once() {
    let gate = |visit: &mut Visit| {
        if visit.link.tries < 3 {
            let n = visit.link.tries;
            set(visit, &format!("n{n}=1"));
            visit.facts.outcome = Outcome::Redirect;
            visit.facts.status = Some(302);
            visit.facts.redirect = Url::parse("http://h.example/").ok();
        }
    };
    let (asked, settled) = crawl(&config(&["/"]), gate);
    assert_eq!(asked.iter().map(|(_, cookie)| cookie.as_str()).collect::<Vec<_>>(), ["", "n1=1", "n1=1; n2=1"]);
    assert_eq!(settled, [(Outcome::Ok, 3)]);
    // Setting the same cookie again does not cause a retry, and after the last redirect none is left.
    let (asked, settled) = crawl(&config(&["/"]), |visit| {
        gate(visit);
        visit.message.set_cookies.clear();
        set(visit, "same=1");
    });
    assert_eq!((asked.len(), settled), (2, vec![(Outcome::Redirect, 2)]));
    let (asked, settled) = crawl(&Config { max_redirects: 1, ..config(&["/"]) }, gate);
    assert_eq!((asked.len(), settled), (2, vec![(Outcome::Redirect, 2)]));
}

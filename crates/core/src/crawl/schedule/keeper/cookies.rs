//! [`Cookies`]: the keeper's cookie jar. All requests of a crawl share one jar, also those for robots.txt and sitemaps.
//! So every request has the cookies that earlier responses set.
//!
//! Cookies last as long as the run. They are not written to the crawl directory, because they often grant access to an
//! account; a resumed crawl gets new ones.

use crate::base::job::{Job, PartAccess, Purpose};
use crate::base::outcome::Outcome;
use crate::base::time::{Time, WallClock};
use crate::crawl::rules::Rules;
use crate::crawl::visit::Visit;
use crate::http::cookies::CookieJar;

/// Cookies may use `--max-memory` divided by this.
const COOKIE_MEMORY_DIVISOR: u64 = 16;

/// The cookies that hosts set.
pub(super) struct Cookies {
    /// `None` if cookies are disabled.
    jar: Option<CookieJar>,
    clock: WallClock,
}

impl Cookies {
    pub fn new(rules: &Rules, clock: WallClock) -> Self {
        let mut jar = rules.cookies.clone();
        if let (Some(jar), Some(limit)) = (&mut jar, rules.max_memory) {
            jar.set_capacity(usize::try_from(limit / COOKIE_MEMORY_DIVISOR).unwrap_or(usize::MAX));
        }
        Self { jar, clock }
    }

    /// Adds the cookies that match the job's URL.
    pub fn add_to(&mut self, job: &mut Job, now: Time) {
        let Some(jar) = &mut self.jar else { return };
        if job.purpose.access() == PartAccess::Other {
            return;
        }
        let mut cookie = jar.header(job.link.url.as_ref(), self.clock.at(now).as_second());
        if let Purpose::Part(part) = &job.purpose {
            cookie = part.cookies.joined_with(cookie.as_ref());
        }
        if cookie.is_some() {
            job.extras_mut().cookie = cookie;
        }
    }

    /// Stores the cookies that a response set. Returns whether the URL must be fetched again with them: some sites set a
    /// cookie and redirect to the same URL.
    pub fn keep(&mut self, visit: &mut Visit, now: Time) -> bool {
        let seconds = self.clock.at(now).as_second();
        let Some(jar) = &mut self.jar else { return false };
        // Otherwise a page could log the crawl out of another site.
        if visit.purpose.access() == PartAccess::Other {
            return false;
        }
        let url = visit.link.url.as_ref();
        let set = std::mem::take(&mut visit.for_keeper.set_cookies);
        // `count` instead of `any`: every cookie must be stored, also after one that changed the jar.
        let changed = set.iter().filter(|cookie| jar.store(cookie, url, seconds)).count();
        changed > 0 && is_cookie_redirect(visit)
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.jar.as_ref().map_or(0, CookieJar::bytes)
    }
}

/// Whether a URL redirects to itself, as some sites do to test for cookies. With a new cookie the response may differ;
/// without one it would be the same again. robots.txt redirects are followed elsewhere.
fn is_cookie_redirect(visit: &Visit) -> bool {
    visit.facts.outcome == Outcome::Redirect
        && visit.facts.redirect.as_ref() == Some(&visit.link.url)
        && visit.link.redirects > 0
        // Only a GET without a body.
        && visit.link.request_identity(0) == 0
        && matches!(visit.purpose, Purpose::Page | Purpose::Sitemap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::link::Link;
    use crate::base::url::Url;
    use crate::crawl::rules::Config;
    use crate::http::cookies::SetCookie;

    #[test]
    fn a_redirect_to_itself_is_followed_once_for_each_new_cookie() {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let rules = config.compile(0).expect("valid settings");
        let mut cookies = Cookies::new(&rules, WallClock::default());
        let url = Url::parse("http://h.example/").expect("a URL");
        let mut redirect = |target: &Url, cookie: &str| {
            let mut visit =
                Visit::with_outcome(Link::root(url.clone(), 5), Purpose::Page, Outcome::Redirect, Time::ZERO);
            visit.facts.redirect = Some(target.clone());
            visit.for_keeper.set_cookies = vec![SetCookie::parse(cookie.as_bytes()).expect("a cookie")];
            cookies.keep(&mut visit, Time::ZERO)
        };
        assert!(redirect(&url, "seen=1"));
        assert!(!redirect(&url, "seen=1"), "the cookie is known, so the response would be the same");
        assert!(!redirect(&url.join("/other").expect("a URL"), "seen=2"), "the target is a link of its own");
    }
}

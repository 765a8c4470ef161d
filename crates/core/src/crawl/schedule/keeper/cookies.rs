//! The keeper's cookie jar. All requests of a crawl share one jar, also those for robots.txt and sitemaps. So every
//! request has the cookies that earlier responses set.
//!
//! Cookies last as long as the run. They are not written to the crawl directory, because they often grant access to an
//! account; a resumed crawl gets new ones.

use super::Keeper;
use crate::base::job::{Job, Purpose};
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::crawl::schedule::frontier::{Frontier, History};
use crate::crawl::visit::Visit;

impl<F: Frontier + History> Keeper<F> {
    /// Adds the cookies that match the job's URL.
    pub(super) fn add_cookies(&mut self, job: &mut Job, now: Time) {
        let seconds = self.seconds(now);
        let Some(jar) = &mut self.jar else { return };
        let mut cookie = jar.header(job.link.url.as_ref(), seconds);
        if let Purpose::Part(part) = &job.purpose {
            cookie = part.cookies.joined_with(cookie.as_ref());
        }
        if cookie.is_some() {
            job.extras_mut().cookie = cookie;
        }
    }

    /// Stores the cookies that a response set. Returns whether that changed the jar.
    pub(super) fn keep_cookies(&mut self, visit: &mut Visit, now: Time) -> bool {
        let seconds = self.seconds(now);
        let Some(jar) = &mut self.jar else { return false };
        let url = visit.link.url.as_ref();
        let set = std::mem::take(&mut visit.for_keeper.set_cookies);
        // `count` instead of `any`: every cookie must be stored, also after one that changed the jar.
        set.iter().filter(|cookie| jar.store(cookie, url, seconds)).count() > 0
    }

    /// Seconds since the Unix epoch.
    fn seconds(&self, now: Time) -> i64 {
        self.clock.at(now).as_second()
    }
}

/// Whether a URL redirects to itself, as some sites do to test for cookies. With a new cookie the response may differ;
/// without one it would be the same again. robots.txt redirects are followed elsewhere.
pub(super) fn is_cookie_redirect(visit: &Visit) -> bool {
    visit.facts.outcome == Outcome::Redirect
        && visit.facts.redirect.as_ref() == Some(&visit.link.url)
        && visit.link.redirects > 0
        // Only a GET without a body.
        && visit.link.request_identity(0) == 0
        && matches!(visit.purpose, Purpose::Page | Purpose::Sitemap)
}

//! What a keeper does with cookies: it owns the one jar, so that every request knows what every answer before it set.
//!
//! All fetches of a crawl share them, those of robots.txt and sitemaps too: a host meets one visitor. They last as long
//! as the run. None is written to the crawl directory: they are keys to somebody's account as often as not, and a crawl
//! that is gone on with is given new ones.

use super::Keeper;
use crate::outcome::Outcome;
use crate::schedule::frontier::Frontier;
use crate::schedule::job::{Job, Purpose};
use crate::time::Time;
use crate::visit::Visit;

impl<F: Frontier> Keeper<F> {
    /// A job brings along the cookies that its address may see.
    pub(super) fn add_cookies(&mut self, job: &mut Job, now: Time) {
        let seconds = self.seconds(now);
        let cookie = self.jar.as_mut().and_then(|jar| jar.header(job.link.url.as_ref(), seconds));
        if cookie.is_some() {
            job.rare_mut().cookie = cookie;
        }
    }

    /// Keeps what an answer set. Says whether any of it was new.
    pub(super) fn keep_cookies(&mut self, visit: &mut Visit, now: Time) -> bool {
        let seconds = self.seconds(now);
        let Some(jar) = &mut self.jar else { return false };
        let url = visit.link.url.as_ref();
        let set = std::mem::take(&mut visit.message.set_cookies);
        // All of them are kept: no short cut at the first new one.
        set.iter().filter(|cookie| jar.store(cookie, url, seconds)).count() > 0
    }

    fn seconds(&self, now: Time) -> i64 {
        self.clock.at(now).as_second()
    }
}

/// Whether an address sent us back to itself, as some do to see whether cookies are kept. With a new cookie the answer
/// may be another one; without, it could only be the same again. robots.txt follows all its redirects as it is.
pub(super) fn sent_back(visit: &Visit) -> bool {
    visit.facts.outcome == Outcome::Redirect
        && visit.facts.redirect.as_ref() == Some(&visit.link.url)
        && visit.link.redirects > 0
        && matches!(visit.purpose, Purpose::Page | Purpose::Sitemap)
}

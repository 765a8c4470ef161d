//! [`Redirects`]: marks redirects that close a loop, and knows what is tried in place of roots without a scheme.
//!
//! A redirect whose target is already known is not requested again, so a loop ends by itself. The recent
//! redirects distinguish a redirect that closes a loop from a redirect to a page that was fetched before.

use hashbrown::HashMap;

use super::admission::redirected_request;
use crate::base::link::{Link, LinkKind};
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::url::Url;
use crate::crawl::rules::Rules;
use crate::crawl::visit::Visit;

/// Redirects per generation. There are two generations, so the last 32,768 to 65,536 redirects are stored.
const CAPACITY: usize = 1 << 15;
/// Longer loops are not recognised.
const MAX_LOOP_LENGTH: usize = 64;

/// Recent redirects as fingerprints of URLs, and fallbacks of roots.
#[derive(Default)]
pub(super) struct Redirects {
    /// The current generation: the target of each redirect.
    recent: HashMap<u64, u64>,
    /// The previous generation.
    older: HashMap<u64, u64>,
    /// For roots without a scheme: the http URL to try if https cannot be had ([`Rules::allows_plain_http`]).
    fallbacks: HashMap<Url, Url>,
}

impl Redirects {
    pub fn new(rules: &Rules) -> Self {
        // A root without a scheme has two candidates: https, then http.
        let two_candidates = rules.roots.iter().filter_map(|root| root.candidates.first_chunk());
        let fallbacks = two_candidates.map(|[first, second]| (first.clone(), second.clone())).collect();
        Self { fallbacks, ..Self::default() }
    }

    /// Adds an error to a redirect that closes a loop. Its outcome stays `Redirect`. `key` is the key of fingerprints.
    pub fn mark_loop(&mut self, visit: &mut Visit, key: u64) {
        let (Outcome::Redirect, None, Some(target)) = (visit.facts.outcome, &visit.facts.error, &visit.facts.redirect)
        else {
            return;
        };
        let identity = visit.link.request_identity(key);
        // The target of a redirect has the same fingerprint when it is the source of the next redirect.
        let target_identity = redirected_request(visit).map_or(0, |request| request.identity(key));
        let from = visit.link.url.as_ref().fingerprint(key) ^ identity;
        let to = target.as_ref().fingerprint(key) ^ target_identity;
        if self.add(from, to) {
            let message = format!("the redirect to {target} closes a loop");
            visit.facts.error = Some(Failure::new(ErrorKind::RedirectLoop, message));
        }
    }

    /// Adds a redirect. Returns whether it closes a loop.
    fn add(&mut self, from: u64, to: u64) -> bool {
        if self.recent.len() >= CAPACITY {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(from, to);
        let mut url = to;
        for _ in 0..MAX_LOOP_LENGTH {
            if url == from {
                return true;
            }
            match self.recent.get(&url).or_else(|| self.older.get(&url)) {
                Some(next) => url = *next,
                None => return false,
            }
        }
        false
    }

    /// The link to try after this visit, if its root could not be had over https.
    pub fn take_fallback(&mut self, visit: &Visit, rules: &Rules) -> Option<Link> {
        let is_failed_root = visit.link.kind == LinkKind::Root && visit.facts.outcome == Outcome::Failed;
        let error = visit.facts.error.as_ref().filter(|_| is_failed_root)?;
        if !rules.allows_plain_http(&visit.link.url, error) {
            return None;
        }
        Some(Link::root(self.fallbacks.remove(&visit.link.url)?, rules.max_redirects))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_redirect_that_closes_a_loop_is_recognised() {
        let mut redirects = Redirects::default();
        assert!(redirects.add(1, 1), "a loop of one");
        assert!(!redirects.add(2, 3));
        assert!(!redirects.add(3, 4));
        assert!(redirects.add(4, 2));
        assert!(!redirects.add(5, 3), "a redirect to a loop is not part of it");
        assert!(!redirects.add(6, 7));
    }

    #[test]
    fn memory_is_bounded_and_recent_redirects_are_kept() {
        let mut redirects = Redirects::default();
        for number in 0..200_000 {
            assert!(!redirects.add(number * 2, number * 2 + 1_000_001));
        }
        assert!(redirects.recent.len() + redirects.older.len() <= 2 * CAPACITY);
        assert!(!redirects.add(9_000_000_001, 9_000_000_003));
        assert!(redirects.add(9_000_000_003, 9_000_000_001));
    }
}

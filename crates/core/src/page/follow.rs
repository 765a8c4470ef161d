//! Judges the links and the redirect of a visit by scope.
//!
//! Invariant: the links that a visit reports are in scope, followable and distinct. Every rejection is counted under
//! the rule that decided. Real and simulated fetches both use this module.

use hashbrown::HashSet;

use crate::base::link::LinkKind;
use crate::base::link_list::{FoundLink, LinkList};
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::url::{BadUrl, Url, UrlRef, without_user_info};
use crate::base::user_code::call_closure;
use crate::page::follow_list::FollowList;
use crate::page::scope::{ScopeRule, ScopeVerdict};
use crate::rules::Rules;
use crate::visit::{Rejected, Visit};

/// Characters of a Location that a message quotes.
const MAX_QUOTED_LOCATION: usize = 200;
/// Characters kept of the example URL for each rule that rejected links.
const MAX_EXAMPLE: usize = 1_000;
/// Total bytes of URLs that one page may add. With a long base URL, a few bytes of markup become a long URL.
pub(crate) const MAX_FOLLOW_BYTES: usize = 4 << 20;

/// A link of a page, as passed to a [`LinkFilter`]. A URL that a page links to several times is passed once, with the
/// text and the `rel` attribute of its first link that has them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PageLink<'a> {
    /// The target.
    pub url: UrlRef<'a>,
    /// The kind of element that contains the link.
    pub kind: LinkKind,
    /// Whether it is marked `rel=nofollow`.
    pub nofollow: bool,
    /// The text of its element, with white space collapsed, up to 512 bytes. For an image it contains the alternative
    /// text.
    pub text: &'a str,
    /// The `rel` attribute of its element.
    pub rel: &'a str,
    /// The page that it is on.
    pub page: &'a Url,
    /// The number of links from a root to the target, along this path.
    pub depth: u32,
}

/// Decides about links that are in scope. One filter serves all workers.
pub trait LinkFilter: std::fmt::Debug + Send + Sync {
    /// Whether the link is followed.
    fn follows(&self, link: &PageLink<'_>) -> bool;
}

/// Judges the links of a page by scope, and adds those to follow to the visit. `nofollow`: the page forbids following
/// its links.
pub fn judge_links(visit: &mut Visit, links: &LinkList, nofollow: bool, rules: &Rules) {
    if nofollow && !rules.follow_nofollow {
        return;
    }
    let mut seen = HashSet::with_capacity(links.len());
    let depth = visit.link.depth.saturating_add(1);
    visit.for_keeper.found = FollowList::new(rules.fingerprint_key, depth, rules.max_redirects);
    visit.for_keeper.found.reserve(links.len(), links.bytes().min(MAX_FOLLOW_BYTES));
    let mut judging = rules.scope.host_caching_judge();
    // The resources of an embedded page are not followed: they could be on any host. Only HTML pages have `facts`.
    let is_embedded = visit.link.kind == LinkKind::Asset && visit.findings.facts.is_some();
    let (mut bytes, mut panic) = (0, None);
    for link in links.iter() {
        let is_wanted = link.kind.is_page() || (rules.assets && !is_embedded && link.kind == LinkKind::Asset);
        if !is_wanted {
            continue;
        }
        if link.nofollow && !rules.follow_nofollow {
            log_skip(visit, link.url, "nofollow", rules);
            continue;
        }
        let stripped = rules.strip_params.strip(link.url);
        let url = stripped.as_ref().map_or(link.url, Url::as_ref);
        let fingerprint = url.fingerprint(rules.fingerprint_key);
        if !seen.insert(fingerprint) {
            continue;
        }
        match judging.judge(url, depth, link.kind) {
            ScopeVerdict::Follow if !passes_filter(visit, url, &link, depth, rules, &mut panic) => {
                log_skip(visit, url, "filter", rules);
            }
            ScopeVerdict::Follow => {
                bytes += url.as_str().len();
                if bytes > MAX_FOLLOW_BYTES {
                    visit.findings.capped = true;
                    visit.findings.links_cut = visit.findings.links_cut.saturating_add(1);
                    continue;
                }
                visit.for_keeper.found.push_hashed(url, link.kind, fingerprint);
            }
            ScopeVerdict::Reject(rule) => {
                count_rejection(&mut visit.findings.rejected, rule, url);
                log_skip(visit, url, rule.as_str(), rules);
            }
        }
    }
    visit.for_keeper.found.shrink();
    visit.findings.links = u32::try_from(visit.for_keeper.found.len()).unwrap_or(u32::MAX);
    if let Some(panic) = panic {
        visit.facts.error.get_or_insert(panic);
    }
}

/// Whether the filter accepts a link. A panic of the filter is stored in `panic`. After it, the filter is not called
/// again for this page, and the remaining links are not followed.
fn passes_filter(
    visit: &Visit,
    url: UrlRef<'_>,
    link: &FoundLink<'_>,
    depth: u32,
    rules: &Rules,
    panic: &mut Option<Failure>,
) -> bool {
    let Some(filter) = &rules.link_filter else { return true };
    if panic.is_some() {
        return false;
    }
    let FoundLink { kind, nofollow, anchor, rel, .. } = *link;
    let (text, rel) = (anchor.unwrap_or_default(), rel.unwrap_or_default());
    let page = &visit.link.url;
    let link = PageLink { url, kind, nofollow, text, rel, page, depth };
    call_closure("follow", || filter.follows(&link)).unwrap_or_else(|failure| {
        *panic = Some(Failure::new(failure.kind, format!("{} (at the link to {})", failure.message, url.as_str())));
        false
    })
}

/// Judges the target of a redirect by scope, and adds it to the visit as a new link that may follow one redirect less.
///
/// No parameters are stripped from the target: a host that redirects every request to a URL with a session id would
/// cause a loop.
pub fn judge_redirect(visit: &mut Visit, location: &[u8], rules: &Rules) {
    let location_text = String::from_utf8_lossy(location);
    let target = match visit.link.url.join(&location_text) {
        Ok(target) => target,
        Err(fault) => {
            let kind = if fault == BadUrl::Scheme { ErrorKind::RedirectBlocked } else { ErrorKind::RedirectInvalid };
            let location_text = without_user_info(&location_text);
            let shown: String = location_text.chars().take(MAX_QUOTED_LOCATION).collect();
            let ellipsis = if shown.len() < location_text.len() { "…" } else { "" };
            visit.facts.error.get_or_insert(Failure::new(kind, format!("Location {shown:?}{ellipsis}: {fault}")));
            return;
        }
    };
    if target.as_str().len() > rules.max_url {
        let message = format!("Location of {} bytes, longer than --max-url", target.as_str().len());
        visit.facts.error.get_or_insert(Failure::new(ErrorKind::RedirectInvalid, message));
        return;
    }
    visit.facts.redirect = Some(target.clone());
    if !visit.is_page() {
        return; // the keeper follows redirects of site files
    }
    if visit.link.redirects == 0 {
        let message = format!("gave up after {} redirects", rules.max_redirects);
        visit.facts.error.get_or_insert(Failure::new(ErrorKind::RedirectLimit, message));
        return;
    }
    // Resources may be on any host, so the new address of one is judged as a resource too.
    let judged_as = if visit.link.kind == LinkKind::Asset { LinkKind::Asset } else { LinkKind::Redirect };
    match rules.scope.judge(target.as_ref(), visit.link.depth, judged_as) {
        ScopeVerdict::Follow => {
            visit.for_keeper.found = FollowList::new(rules.fingerprint_key, visit.link.depth, visit.link.redirects - 1);
            visit.for_keeper.found.push(target.as_ref(), LinkKind::Redirect);
        }
        ScopeVerdict::Reject(rule) => {
            count_rejection(&mut visit.findings.rejected, rule, target.as_ref());
            log_skip(visit, target.as_ref(), rule.as_str(), rules);
        }
    }
}

/// Records a link that is not followed, with the reason, if `--log-skips` or `-vv` is set.
fn log_skip(visit: &mut Visit, url: UrlRef<'_>, reason: &'static str, rules: &Rules) {
    if rules.log_skips || rules.report_skips {
        visit.findings.skipped.push((url.as_str().into(), reason));
    }
}

fn count_rejection(rejected: &mut Vec<Rejected>, rule: ScopeRule, url: UrlRef<'_>) {
    match rejected.iter_mut().find(|known| known.rule == rule) {
        Some(known) => known.count += 1,
        None => rejected.push(Rejected { rule, count: 1, example: url.as_str().chars().take(MAX_EXAMPLE).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::job::Purpose;
    use crate::base::link::Link;
    use crate::base::outcome::Outcome;
    use crate::base::time::Time;
    use crate::base::time::WallClock;
    use crate::base::url::Url;
    use crate::output::record;
    use crate::rules::Config;

    #[test]
    fn messages_about_a_bad_location_omit_its_password() {
        let config = Config { roots: vec!["http://h.example/".into()], log_skips: true, ..Config::default() };
        let (fingerprint_key, redirects) = (1, 9);
        let rules = config.compile(fingerprint_key).expect("valid settings");
        for (location, kind) in [
            ("http://me:secret@[broken/", ErrorKind::RedirectInvalid),
            ("http://me:secret@h.example:99999/", ErrorKind::RedirectInvalid),
            ("//me:secret@h.example:x/", ErrorKind::RedirectInvalid),
            ("http:\\\\me:secret@[broken/", ErrorKind::RedirectInvalid),
            ("ht\ntp://me:sec\tret@[broken/", ErrorKind::RedirectInvalid),
            ("ftp://me:secret@h.example/", ErrorKind::RedirectBlocked),
        ] {
            let link = Link::root(Url::parse("http://h.example/page").expect("an address"), redirects);
            let mut visit = Visit::with_outcome(link, Purpose::Page, Outcome::Redirect, Time::ZERO);
            judge_redirect(&mut visit, location.as_bytes(), &rules);
            let mut line = Vec::new();
            record::encode(&visit, WallClock { start: 0 }, 0, None, &mut line);
            let output = format!("{visit:?} {}", String::from_utf8_lossy(&line));
            assert!(!output.contains("secret"), "{output}");
            assert_eq!(visit.facts.error.expect("the location cannot be followed").kind, kind, "{location}");
        }
    }
}

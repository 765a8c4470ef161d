//! Judges the links and the redirect of a page by scope: [`judge_links`], [`judge_redirect`].
//!
//! Invariant: the links that are followed are in scope, followable and distinct. Every rejection is counted under the
//! rule that decided. Real and simulated fetches both use this module.

use hashbrown::HashSet;

use crate::base::link::{Link, LinkKind};
use crate::base::link_list::{FoundLink, LinkList};
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::url::{BadUrl, StripParams, Url, UrlRef, without_user_info};
use crate::base::user_code::call_closure;
use crate::page::follow_list::FollowList;
use crate::page::scope::{Scope, ScopeRule, ScopeVerdict};

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

impl<'a> PageLink<'a> {
    /// A link of a page, without a text.
    pub fn new(url: UrlRef<'a>, kind: LinkKind, page: &'a Link) -> Self {
        let depth = page.depth.saturating_add(1);
        Self { url, kind, nofollow: false, text: "", rel: "", page: &page.url, depth }
    }
}

/// The page whose links are judged, as passed to a [`LinkFilter`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct LinkPage<'a> {
    /// The link that led to the page.
    pub link: &'a Link,
    /// The body, with content codings decoded; empty if it was not kept.
    pub body: &'a [u8],
    /// The charset of the body, if it is known.
    pub charset: Option<&'static str>,
    /// The title, with white space collapsed.
    pub title: Option<&'a str>,
}

impl<'a> LinkPage<'a> {
    /// A page with this body, in this charset.
    pub fn new(link: &'a Link, body: &'a [u8], charset: Option<&'static str>) -> Self {
        Self { link, body, charset, title: None }
    }
}

/// The decision about a link of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkVerdict {
    /// Follow the link with this priority. Links of a higher priority are requested first. Without priorities, links
    /// have the priority 0.
    With(i16),
    /// Follow the link after all links with a priority.
    Later,
    /// Do not follow the link from this page.
    Skip,
}

/// Judges one link after the other.
pub type LinkJudge<'a> = Box<dyn FnMut(&PageLink<'_>) -> LinkVerdict + 'a>;

/// Decides about links that are in scope. One filter serves all workers.
pub trait LinkFilter: std::fmt::Debug + Send + Sync {
    /// Starts to judge the links of a page.
    fn open<'a>(&'a self, page: LinkPage<'a>) -> LinkJudge<'a>;

    /// Whether it gives priorities. Each host then takes one link at a time from its queue, the one with the highest
    /// priority.
    fn ranks(&self) -> bool {
        false
    }

    /// The name of the method that sets the filter, for messages about a panic.
    fn name(&self) -> &'static str {
        "follow"
    }
}

/// What decides about the links of a page.
#[derive(Clone, Copy, Debug)]
pub struct FollowRules<'a> {
    /// Decides first.
    pub scope: &'a Scope,
    /// Decides about links that are in scope.
    pub link_filter: Option<&'a dyn LinkFilter>,
    /// Parameters that are removed from the URLs of links.
    pub strip_params: &'a StripParams,
    /// Whether links that are marked `nofollow`, and those of pages that forbid it, are followed nevertheless.
    pub follow_nofollow: bool,
    /// Whether links that are not followed are listed.
    pub list_skipped: bool,
    /// How many redirects each link of a page may follow.
    pub max_redirects: u8,
    /// Limit on the bytes of the target of a redirect.
    pub max_url: usize,
    /// The key of the fingerprints of the links.
    pub fingerprint_key: u64,
}

/// The page whose links are judged.
#[derive(Clone, Copy)]
pub struct JudgedPage<'a> {
    /// The link that led to the page.
    pub link: &'a Link,
    /// Whether it was examined as HTML.
    pub is_html: bool,
    /// Whether it forbids following its links.
    pub nofollow: bool,
    /// For the filter.
    pub content: LinkPage<'a>,
}

/// The links of a page, judged.
#[derive(Debug, Default)]
pub struct JudgedLinks {
    /// Links to follow: in scope, not nofollow, distinct.
    pub found: FollowList,
    /// Links that were rejected, counted by scope rule.
    pub rejected: Vec<Rejected>,
    /// Links that are not followed, with the reason, if they are listed.
    pub skipped: Vec<(Box<str>, &'static str)>,
    /// How many links beyond a limit are not followed.
    pub cut: u32,
    /// Why some links were not judged: the filter panicked.
    pub failure: Option<Failure>,
}

/// The links of a page that one scope rule rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The rule.
    pub rule: ScopeRule,
    /// How many links it rejected.
    pub count: u32,
    /// The first of them, truncated if it is very long.
    pub example: Box<str>,
}

/// Judges the links of a page by scope.
pub fn judge_links(page: JudgedPage<'_>, links: &LinkList, rules: &FollowRules<'_>) -> JudgedLinks {
    let mut judged = JudgedLinks::default();
    if page.nofollow && !rules.follow_nofollow {
        return judged;
    }
    let mut seen = HashSet::with_capacity(links.len());
    let depth = page.link.depth.saturating_add(1);
    judged.found = FollowList::new(rules.fingerprint_key, depth, rules.max_redirects);
    judged.found.reserve(links.len(), links.bytes().min(MAX_FOLLOW_BYTES));
    let mut judging = rules.scope.host_caching_judge();
    // The resources of an embedded page are not followed: they could be on any host.
    let is_embedded = page.link.kind == LinkKind::Asset && page.is_html;
    let mut bytes = 0;
    let mut filter = judged.open_filter(page.content, rules);
    for link in links.iter() {
        if !rules.scope.follows(link.kind) || (is_embedded && link.kind == LinkKind::Asset) {
            continue;
        }
        if link.nofollow && !rules.follow_nofollow {
            judged.skip(link.url, "nofollow", rules);
            continue;
        }
        let stripped = rules.strip_params.strip(link.url);
        let url = stripped.as_ref().map_or(link.url, Url::as_ref);
        let fingerprint = url.fingerprint(rules.fingerprint_key);
        if !seen.insert(fingerprint) {
            continue;
        }
        match judging.judge(url, depth, link.kind) {
            ScopeVerdict::Follow => {
                let Some(priority) = judged.priority(filter.as_mut(), page.link, url, &link, rules) else {
                    judged.skip(url, "filter", rules);
                    continue;
                };
                bytes += url.as_str().len();
                if bytes > MAX_FOLLOW_BYTES {
                    judged.cut = judged.cut.saturating_add(1);
                    continue;
                }
                judged.found.push_hashed(url, link.kind, fingerprint);
                judged.found.set_priority(priority);
            }
            ScopeVerdict::Reject(rule) => judged.reject(url, rule, rules),
        }
    }
    drop(filter);
    judged.found.shrink();
    judged
}

impl JudgedLinks {
    /// Starts the filter for a page.
    fn open_filter<'a>(&mut self, page: LinkPage<'a>, rules: &FollowRules<'a>) -> Option<LinkJudge<'a>> {
        let filter = rules.link_filter?;
        match call_closure(filter.name(), || filter.open(page)) {
            Ok(judge) => Some(judge),
            Err(failure) => {
                self.failure = Some(failure);
                Some(Box::new(|_| LinkVerdict::Skip))
            }
        }
    }

    /// The priority that the filter gives to a link; `None` if the link is not followed. After a panic of the filter, it
    /// is not called again for this page, and the remaining links are not followed.
    fn priority(
        &mut self,
        filter: Option<&mut LinkJudge<'_>>,
        page: &Link,
        url: UrlRef<'_>,
        link: &FoundLink<'_>,
        rules: &FollowRules<'_>,
    ) -> Option<i16> {
        let Some(filter) = filter else { return Some(0) };
        if self.failure.is_some() {
            return None;
        }
        let FoundLink { kind, nofollow, anchor, rel, .. } = *link;
        let (text, rel) = (anchor.unwrap_or_default(), rel.unwrap_or_default());
        let depth = page.depth.saturating_add(1);
        let name = rules.link_filter.map_or("follow", LinkFilter::name);
        let link = PageLink { url, kind, nofollow, text, rel, page: &page.url, depth };
        match call_closure(name, || filter(&link)) {
            Ok(LinkVerdict::With(priority)) => Some(priority),
            Ok(LinkVerdict::Later) => Some(i16::MIN),
            Ok(LinkVerdict::Skip) => None,
            Err(failure) => {
                let message = format!("{} (at the link to {})", failure.message, url.as_str());
                self.failure = Some(Failure::new(failure.kind, message));
                None
            }
        }
    }

    /// Counts a link that the scope rejected.
    fn reject(&mut self, url: UrlRef<'_>, rule: ScopeRule, rules: &FollowRules<'_>) {
        match self.rejected.iter_mut().find(|known| known.rule == rule) {
            Some(known) => known.count += 1,
            None => {
                let example = url.as_str().chars().take(MAX_EXAMPLE).collect();
                self.rejected.push(Rejected { rule, count: 1, example });
            }
        }
        self.skip(url, rule.as_str(), rules);
    }

    /// Lists a link that is not followed, with the reason, if `--log-skips` or `-vv` is set.
    fn skip(&mut self, url: UrlRef<'_>, reason: &'static str, rules: &FollowRules<'_>) {
        if rules.list_skipped {
            self.skipped.push((url.as_str().into(), reason));
        }
    }
}

/// The target of a redirect of a page: a new link that may follow one redirect less.
///
/// No parameters are stripped from the target: a host that redirects every request to a URL with a session id would
/// cause a loop.
///
/// # Errors
///
/// The redirect cannot be followed, whatever the scope is.
pub fn redirect_target(page: &Link, location: &[u8], max_url: usize) -> Result<Url, Failure> {
    let location_text = String::from_utf8_lossy(location);
    let target = page.url.join(&location_text).map_err(|fault| {
        let kind = if fault == BadUrl::Scheme { ErrorKind::RedirectBlocked } else { ErrorKind::RedirectInvalid };
        let location_text = without_user_info(&location_text);
        let shown: String = location_text.chars().take(MAX_QUOTED_LOCATION).collect();
        let ellipsis = if shown.len() < location_text.len() { "…" } else { "" };
        Failure::new(kind, format!("Location {shown:?}{ellipsis}: {fault}"))
    })?;
    if target.as_str().len() > max_url {
        let message = format!("Location of {} bytes, longer than the limit of {max_url}", target.as_str().len());
        return Err(Failure::new(ErrorKind::RedirectInvalid, message));
    }
    Ok(target)
}

/// Judges the target of a redirect of a page by scope.
pub fn judge_redirect(page: &Link, target: &Url, rules: &FollowRules<'_>) -> JudgedLinks {
    let mut judged = JudgedLinks::default();
    if page.redirects == 0 {
        let message = format!("gave up after {} redirects", rules.max_redirects);
        judged.failure = Some(Failure::new(ErrorKind::RedirectLimit, message));
        return judged;
    }
    // Resources may be on any host, so the new address of one is judged as a resource too.
    let judged_as = if page.kind == LinkKind::Asset { LinkKind::Asset } else { LinkKind::Redirect };
    match rules.scope.judge(target.as_ref(), page.depth, judged_as) {
        ScopeVerdict::Follow => {
            judged.found = FollowList::new(rules.fingerprint_key, page.depth, page.redirects - 1);
            judged.found.push(target.as_ref(), LinkKind::Redirect);
        }
        ScopeVerdict::Reject(rule) => judged.reject(target.as_ref(), rule, rules),
    }
    judged
}

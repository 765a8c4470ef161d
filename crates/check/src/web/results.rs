//! [`WebResults`]: the results of visited URLs, and the verdicts derived from them.

use std::collections::HashSet;

use argiope_core::base::outcome::{ErrorKind, Failure};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Outcome, Url};
use hashbrown::HashMap;

use crate::anchors::{AnchorSet, Fragment, FragmentId};
use crate::finding::{Fault, FaultKind, TargetVerdict};
use crate::options::{AdviceWords, CheckOptions};
use crate::remote::RemoteTarget;
use crate::text_fragment::{self, SearchBudget, TargetText};

/// Limit on the redirects from one URL, as a safeguard: the crawler stops earlier.
const MAX_REDIRECTS: usize = 50;

/// Maximum bytes of the texts of pages that are kept.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// The result of one URL.
#[derive(Debug)]
pub(super) struct VisitedUrl {
    outcome: Outcome,
    status: Option<u16>,
    error: Option<(ErrorKind, Box<str>)>,
    redirect: Option<Box<str>>,
    /// The anchors of an HTML page, if its body was requested.
    anchors: Option<AnchorSet>,
    text: KeptText,
    /// Whether the body was truncated.
    is_truncated: bool,
    /// Whether the body was requested. A request for the status alone may be a HEAD.
    has_body: bool,
    /// Whether it was not requested because its host has asked to come back later.
    is_put_off: bool,
}

/// What was read from an HTML page.
pub(super) struct PageTargets {
    pub anchors: AnchorSet,
    /// See [`document::page_text`](crate::document::page_text).
    pub text: Option<TargetText>,
}

/// The text of a page, which is kept only for links to a part of it.
#[derive(Debug)]
enum KeptText {
    /// The text was not asked for.
    NotKept,
    /// It is not HTML, or memory has no room for it.
    Unavailable,
    Text(TargetText),
}

/// The results of all visited URLs.
#[derive(Debug, Default)]
pub(super) struct WebResults {
    visited: HashMap<Box<str>, VisitedUrl>,
    /// Hosts that have answered with status 429 or 503.
    refusing_hosts: HashSet<Box<str>>,
    /// The URLs of pages whose text is kept.
    texts: HashSet<Box<str>>,
    /// The bytes of all kept texts.
    text_bytes: usize,
}

/// The end of a redirect chain.
enum ChainEnd<'a> {
    /// The last URL and its result.
    End(&'a str, &'a VisitedUrl),
    Loop,
    /// This URL has not been requested.
    Unknown(&'a str),
}

impl WebResults {
    /// Keeps the text of a page that will be requested.
    pub fn keep_text_of(&mut self, url: &str) {
        self.texts.insert(url.into());
    }

    /// Whether the text of a page is kept, and there is memory for it.
    pub fn keeps_text_of(&self, url: &Url) -> bool {
        self.texts.contains(url.as_str()) && self.text_bytes < MAX_TEXT_BYTES
    }

    /// Adds the result of a visit. `has_body`: the body was requested.
    pub fn add(&mut self, visit: &Visit, content: Option<PageTargets>, has_body: bool, advice: AdviceWords) {
        let facts = &visit.facts;
        let url = visit.link.url.as_str();
        if !has_body && self.visited.get(url).is_some_and(|known| known.has_body) {
            // The anchors are known. This visit followed a redirect from a URL that was requested for its status.
            return;
        }
        let (anchors, text) = content.map(|content| (content.anchors, content.text)).unzip();
        self.text_bytes += text.as_ref().and_then(Option::as_ref).map_or(0, |page| page.text.len());
        let text = match text.flatten() {
            Some(text) => KeptText::Text(text),
            None if self.texts.contains(url) => KeptText::Unavailable,
            None => KeptText::NotKept,
        };
        let host = visit.link.url.host();
        if matches!(facts.status, Some(429 | 503)) {
            self.refusing_hosts.insert(host.into());
        }
        let is_given_up = facts.error.as_ref().is_some_and(Failure::is_given_up);
        let visited = VisitedUrl {
            is_put_off: is_given_up && self.refusing_hosts.contains(host),
            outcome: facts.outcome,
            status: facts.status,
            error: facts.error.as_ref().map(|error| (error.kind, error.advised(advice).into())),
            redirect: facts.redirect.as_ref().map(|url| url.as_str().into()),
            anchors,
            text,
            is_truncated: facts.truncated.is_some(),
            has_body,
        };
        self.visited.insert(url.into(), visited);
    }

    /// Follows the redirects from a URL.
    fn follow<'a>(&'a self, url: &'a str) -> ChainEnd<'a> {
        let mut url = url;
        let mut seen = HashSet::new();
        loop {
            let Some(visited) = self.visited.get(url) else { return ChainEnd::Unknown(url) };
            // The redirect that closes a loop has an error, but also a target.
            let is_followed = visited.outcome == Outcome::Redirect
                && visited.error.as_ref().is_none_or(|(kind, _)| *kind == ErrorKind::RedirectLoop);
            match &visited.redirect {
                Some(target) if is_followed => {
                    if !seen.insert(url) || seen.len() > MAX_REDIRECTS {
                        return ChainEnd::Loop;
                    }
                    url = target;
                }
                _ => return ChainEnd::End(url, visited),
            }
        }
    }

    /// The URL that must be requested before the target can be checked: the target, or a redirect target. `None` if all are
    /// known.
    pub fn missing_url<'a>(&'a self, target: &'a RemoteTarget) -> Option<&'a str> {
        match self.follow(&target.url) {
            ChainEnd::Unknown(url) => Some(url),
            // A page of the site that was crawled: its text was not kept.
            ChainEnd::End(url, VisitedUrl { text: KeptText::NotKept, anchors: Some(_), .. }) => {
                target.fragment.as_deref().is_some_and(text_fragment::has_text).then_some(url)
            }
            ChainEnd::End(..) | ChainEnd::Loop => None,
        }
    }

    /// The verdict on a target that should have been requested. `budgets` are those of the pages that are searched for texts.
    pub fn verdict<'a>(
        &'a self,
        target: &'a RemoteTarget,
        options: &CheckOptions,
        budgets: &mut HashMap<&'a str, SearchBudget>,
    ) -> TargetVerdict {
        let Some(first) = self.visited.get(target.url.as_str()) else { return TargetVerdict::Faulty(not_requested()) };
        // With `--accept 302`, for example, the redirect itself is good.
        if first.status.is_some_and(|status| options.accept.contains(status)) && first.outcome == Outcome::Redirect {
            return TargetVerdict::Good;
        }
        let verdict = match self.follow(&target.url) {
            ChainEnd::Unknown(_) => return TargetVerdict::Faulty(not_requested()),
            ChainEnd::Loop => {
                let fault = Fault::broken(FaultKind::RedirectLoop, "the redirects form a loop");
                TargetVerdict::Faulty(Fault { status: first.status, ..fault })
            }
            ChainEnd::End(url, visited) => visited.verdict(target, options, budgets.entry(url).or_default()),
        };
        let TargetVerdict::Faulty(mut fault) = verdict else { return verdict };
        let is_loop = fault.kind == FaultKind::RedirectLoop;
        if let (Some(301 | 308), Some(moved), false) = (first.status, &first.redirect, is_loop) {
            fault.suggestion = Some(format!("moved permanently to {moved}"));
        }
        TargetVerdict::Faulty(fault)
    }

    /// Whether the network of this machine may be down: external hosts were tried, and none of them could be resolved or
    /// reached. That the site answers is no evidence against it, because it may be on this machine. That names do not exist
    /// is none either, because some resolvers without a network say so of all names.
    pub fn is_network_down(&self, is_external: impl Fn(&str) -> bool) -> bool {
        let mut was_tried = false;
        for (_, visited) in self.visited.iter().filter(|(url, _)| is_external(url)) {
            match visited.error.as_ref().map(|(kind, _)| *kind) {
                // These were refused before a connection, so they say nothing about the network.
                Some(ErrorKind::PrivateAddress | ErrorKind::BlockedPort) => {}
                Some(kind) if visited.status.is_none() && is_unreached(kind) => was_tried = true,
                _ => return false,
            }
        }
        was_tried
    }

    /// All URLs that were requested.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.visited.keys().map(|url| &**url)
    }

    /// The URLs that were fetched successfully, in ascending order, for suggestions.
    pub fn good_urls(&self) -> Vec<&str> {
        let good = self.visited.iter().filter(|(_, visited)| visited.outcome == Outcome::Ok);
        let mut urls: Vec<&str> = good.map(|(url, _)| &**url).collect();
        urls.sort_unstable();
        urls
    }
}

impl VisitedUrl {
    /// The fault of this URL itself, without fragment; `None` if its status is accepted.
    fn fault(&self, options: &CheckOptions) -> Option<Fault> {
        if self.status.is_some_and(|status| options.accept.contains(status)) {
            return None;
        }
        let message = self.error.as_ref().map_or("no response", |(_, message)| message);
        let kind = self.error.as_ref().map(|(kind, _)| *kind);
        let fault = match (self.outcome, kind) {
            (Outcome::Robots, Some(_)) => Fault::unknown(FaultKind::Robots, format!("robots.txt: {message}")),
            (Outcome::Robots, None) => Fault::unknown(FaultKind::Robots, "robots.txt disallows the request"),
            _ if self.is_put_off => Fault::unknown(FaultKind::HttpError, message),
            (_, Some(ErrorKind::PrivateAddress)) => Fault::unknown(FaultKind::PrivateAddress, message),
            (_, Some(ErrorKind::RedirectLoop)) => Fault::broken(FaultKind::RedirectLoop, message),
            (Outcome::Failed | Outcome::Refused, kind) => {
                let is_unknown = options.timeouts_unknown && kind.is_some_and(is_timeout);
                let message = kind.map_or_else(|| message.to_owned(), |kind| format!("{kind}: {message}"));
                match is_unknown {
                    true => Fault::unknown(FaultKind::Failed, message),
                    false => Fault::broken(FaultKind::Failed, message),
                }
            }
            (Outcome::Redirect, Some(kind)) => Fault::broken(FaultKind::Failed, format!("{kind}: {message}")),
            _ => match self.status {
                // Some sites respond with 429 or 999 to requests that do not come from a browser.
                Some(status @ (429 | 999)) => {
                    Fault::unknown(FaultKind::HttpError, format!("{status}: the host refuses to be checked now"))
                }
                Some(status) => {
                    Fault::broken(FaultKind::HttpError, format!("{status} {}", reason_phrase(status)).trim_end())
                }
                None => Fault::broken(FaultKind::Failed, message),
            },
        };
        Some(Fault { status: self.status, ..fault })
    }

    /// The verdict on a target that leads to this URL.
    fn verdict(&self, target: &RemoteTarget, options: &CheckOptions, budget: &mut SearchBudget) -> TargetVerdict {
        let fragment = target.fragment.as_deref();
        let fault = self.fault(options).or_else(|| match fragment.map(Fragment::parse) {
            Some(Fragment::Element(id)) => self.missing_element(&id),
            _ => None,
        });
        match (fault, fragment) {
            (Some(fault), _) => TargetVerdict::Faulty(fault),
            (None, Some(fragment)) if text_fragment::has_text(fragment) => self.search(fragment, budget),
            (None, _) => TargetVerdict::Good,
        }
    }

    /// Searches the page for the text that a fragment leads to.
    fn search(&self, fragment: &str, budget: &mut SearchBudget) -> TargetVerdict {
        let KeptText::Text(page) = &self.text else {
            let is_page = self.anchors.is_some();
            return if is_page { TargetVerdict::OverLimits } else { TargetVerdict::Good };
        };
        match text_fragment::search(fragment, page, budget) {
            TargetVerdict::Faulty(_) if self.is_truncated => TargetVerdict::Faulty(Fault::unknown(
                FaultKind::Fragment,
                "the page was not read to its end; its first part lacks the text",
            )),
            verdict => verdict,
        }
    }

    /// The fault if the page does not contain the element.
    fn missing_element(&self, element: &FragmentId<'_>) -> Option<Fault> {
        let anchors = self.anchors.as_ref().filter(|_| self.has_body)?;
        // GitHub adds a prefix to ids in user content, and a script resolves links to them.
        let github_id = format!("user-content-{}", element.text());
        let has_id = |text: &str| matches!(Fragment::parse(text), Fragment::Element(id) if anchors.has(id.hash()));
        if element.is_top() || anchors.has(element.hash()) || has_id(&github_id) {
            return None;
        }
        Some(if element.is_route() {
            let message = "scripts of the page interpret this fragment: whether it leads anywhere is not known";
            Fault::unknown(FaultKind::Fragment, message)
        } else if self.is_truncated {
            let message = format!("the page was not read to its end; its first part has no id {:?}", element.text());
            Fault::unknown(FaultKind::Fragment, message)
        } else {
            Fault::broken(FaultKind::Fragment, format!("no element has the id {:?}", element.text()))
        })
    }
}

/// The fault of a target that was not requested, or whose redirects were not followed to the end.
fn not_requested() -> Fault {
    Fault::unknown(FaultKind::Failed, "not requested, or its redirects were not followed to the end")
}

/// Whether a request failed before the host was reached.
fn is_unreached(kind: ErrorKind) -> bool {
    use ErrorKind as K;
    matches!(kind, K::DnsNxdomain | K::DnsServfail | K::DnsTimeout | K::DnsInvalid | K::ConnectTimeout | K::Unreachable)
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DnsTimeout
            | ErrorKind::ConnectTimeout
            | ErrorKind::TimeoutFirstByte
            | ErrorKind::TimeoutIdle
            | ErrorKind::TimeoutTotal
            | ErrorKind::TooSlow
    )
}

/// The reason phrase of an HTTP status; empty if it is not registered.
fn reason_phrase(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_was_not_requested_is_unknown() {
        let target = RemoteTarget { url: "https://h.example/".to_owned(), fragment: None };
        let verdict = WebResults::default().verdict(&target, &CheckOptions::default(), &mut HashMap::new());
        assert_eq!(verdict, TargetVerdict::Faulty(not_requested()));
    }
}

//! [`LinkedUrl`]: a link of a page, as [`Page::links`](crate::Page::links) lists it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use argiope_core::crawl::rules::{HostAgent, Rules};
use argiope_core::crawl::visit::Visit;
use argiope_core::page::examine::{ExamineLimits, Examiner};
use argiope_core::page::scope::{Scope, ScopeVerdict};
use argiope_core::{LinkKind, Url};

/// A link of a page, as [`Page::links`](crate::Page::links) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkedUrl {
    /// The target.
    pub url: Url,
    /// The text of its element, with white space collapsed, up to 512 bytes. For an image it contains the alternative
    /// text.
    pub text: String,
    /// The `rel` attribute of its element.
    pub rel: String,
    /// The kind of element that contains the link.
    pub kind: LinkKind,
    /// Whether it is marked `rel=nofollow`.
    pub nofollow: bool,
    /// Whether the target is in the scope of the crawl. Closures such as [`judge`](crate::CrawlBuilder::judge) may
    /// refuse it nevertheless.
    pub in_scope: bool,
}

impl fmt::Display for LinkedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// What is needed to find the links of a page. Pages share it. They do not share the rules of the crawl, because these
/// hold the closures of the user, which are dropped at the end of the crawl.
#[derive(Debug)]
pub(crate) struct LinkRules {
    scope: Scope,
    limits: ExamineLimits,
    host_agents: HashMap<Box<str>, HostAgent>,
    /// See [`CrawlBuilder::refuse_private_roots`](crate::CrawlBuilder::refuse_private_roots).
    pub refuses_private_roots: bool,
}

impl LinkRules {
    pub fn of(rules: &Rules) -> Self {
        let with_texts = true;
        // `find` sets the agent of the page's host.
        let (scope, limits) = (rules.scope.clone(), rules.examine_limits("", with_texts));
        let host_agents = rules.host_agents.iter().map(|(host, agent)| (host.clone(), agent.clone())).collect();
        Self { scope, limits, host_agents, refuses_private_roots: rules.refuses_private_roots }
    }
}

/// The links of a page, found as the crawl finds them.
pub(crate) fn find(visit: &Visit, body: &[u8], content_type: Option<&str>, rules: &LinkRules) -> Vec<LinkedUrl> {
    let declared = content_type.map(str::as_bytes);
    let mut limits = rules.limits.clone();
    if let Some(agent) = rules.host_agents.get(visit.link.url.host()) {
        limits.agent = Arc::clone(&agent.token);
    }
    let mut examiner = Examiner::new(&visit.link.url, declared, limits);
    examiner.feed(body);
    let found = examiner.finish();
    let depth = visit.link.depth.saturating_add(1);
    let mut judge = rules.scope.host_caching_judge();
    let links = found.links.iter().map(|link| LinkedUrl {
        url: link.url.to_url(),
        text: link.anchor.unwrap_or_default().to_owned(),
        rel: link.rel.unwrap_or_default().to_owned(),
        kind: link.kind,
        nofollow: link.nofollow,
        in_scope: judge.judge(link.url, depth, link.kind) == ScopeVerdict::Follow,
    });
    links.collect()
}

//! [`RedirectLoops`]: finds the members of redirect loops in a stream of pages.
//!
//! Only the redirect that closes a loop has an error in its record. Links to the other members are broken as well.

use std::collections::HashMap;
use std::time::Duration;

use argiope_core::{ErrorKind, Failure, Outcome, UrlRef};

use super::PageSummary;

/// Maximum number of redirects that are kept.
const MAX_REDIRECTS: usize = 10_000;

/// The redirects seen so far, by URL.
#[derive(Clone, Debug, Default)]
pub struct RedirectLoops {
    redirects: HashMap<Box<str>, SeenRedirect>,
}

/// A redirect without an error, with the fields that the groups of a report need.
#[derive(Clone, Debug)]
struct SeenRedirect {
    to: Box<str>,
    via: Option<Box<str>>,
    depth: u32,
    status: Option<u16>,
    content_type: Option<Box<str>>,
    bytes_body: u64,
    total: Option<Duration>,
}

/// A member of a redirect loop, other than the redirect that closes it.
#[derive(Clone, Debug)]
pub struct LoopMember {
    url: Box<str>,
    redirect: SeenRedirect,
    error: Failure,
}

impl RedirectLoops {
    /// Adds a page. If it closes a loop of redirects, returns the other members.
    pub fn add(&mut self, page: &PageSummary<'_>) -> Vec<LoopMember> {
        let mut members = Vec::new();
        match (page.redirect, page.error) {
            (Some(to), None) if self.redirects.len() < MAX_REDIRECTS => {
                let seen = SeenRedirect {
                    to: to.into(),
                    via: page.via.map(Into::into),
                    depth: page.depth,
                    status: page.status,
                    content_type: page.content_type.map(Into::into),
                    bytes_body: page.bytes_body,
                    total: page.total,
                };
                self.redirects.insert(page.url.into(), seen);
            }
            (Some(to), Some(error)) if error.kind == ErrorKind::RedirectLoop => {
                let mut url: Box<str> = to.into();
                while &*url != page.url
                    && let Some(redirect) = self.redirects.remove(&url)
                {
                    let next = redirect.to.clone();
                    let error = Failure::new(error.kind, "it is part of a loop of redirects");
                    members.push(LoopMember { url, redirect, error });
                    url = next;
                }
            }
            _ => {}
        }
        members
    }
}

impl LoopMember {
    /// The member as a broken page.
    pub fn summary(&self) -> PageSummary<'_> {
        let SeenRedirect { to, via, depth, status, content_type, bytes_body, total } = &self.redirect;
        PageSummary {
            url: &self.url,
            host: UrlRef::from_normal(&self.url).map_or("", |url| url.host()),
            via: via.as_deref(),
            is_root: via.is_none(),
            depth: *depth,
            is_guess: false,
            outcome: Outcome::Redirect,
            status: *status,
            error: Some(&self.error),
            redirect: Some(to),
            redirect_in_scope: true,
            content_type: content_type.as_deref(),
            charset: None,
            bytes_wire: 0,
            bytes_body: *bytes_body,
            truncated: None,
            needs_scripts: false,
            render: None,
            is_soft_404: false,
            digest: None,
            links: 0,
            new_links: 0,
            tries: 0,
            total: *total,
        }
    }
}

//! [`RedirectLoops`]: finds the members of redirect loops in a stream of pages.
//!
//! Only the redirect that closes a loop has an error in its record. Links to the other members are broken as well.

use std::collections::HashMap;
use std::time::Duration;

use argiope_core::{ErrorKind, Failure, Outcome, UrlRef};

use super::PageSummary;

/// How many redirects are kept to find the members of a loop.
const MAX_REDIRECTS: usize = 10_000;

/// The redirects seen so far, by URL.
#[derive(Clone, Debug, Default)]
pub struct RedirectLoops {
    redirects: HashMap<Box<str>, Followed>,
}

/// A redirect with a target, with the fields that the groups of a report count.
#[derive(Clone, Debug)]
struct Followed {
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
    followed: Followed,
    error: Failure,
}

impl RedirectLoops {
    /// Adds a page. If it closes a loop of redirects, returns the other members.
    pub fn add(&mut self, page: &PageSummary<'_>) -> Vec<LoopMember> {
        let mut members = Vec::new();
        match (page.redirect, page.error) {
            (Some(to), None) if self.redirects.len() < MAX_REDIRECTS => {
                let followed = Followed {
                    to: to.into(),
                    via: page.via.map(Into::into),
                    depth: page.depth,
                    status: page.status,
                    content_type: page.content_type.map(Into::into),
                    bytes_body: page.bytes_body,
                    total: page.total,
                };
                self.redirects.insert(page.url.into(), followed);
            }
            (Some(to), Some(error)) if error.kind == ErrorKind::RedirectLoop => {
                let mut at: Box<str> = to.into();
                while &*at != page.url
                    && let Some(followed) = self.redirects.remove(&at)
                {
                    let next = followed.to.clone();
                    let error = Failure::new(error.kind, "it is part of a loop of redirects");
                    members.push(LoopMember { url: at, followed, error });
                    at = next;
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
        let Followed { to, via, depth, status, content_type, bytes_body, total } = &self.followed;
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
            digest: None,
            links: 0,
            new_links: 0,
            tries: 0,
            total: *total,
        }
    }
}

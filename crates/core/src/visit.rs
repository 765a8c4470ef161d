//! [`Visit`]: all that was learned from one fetch.

use std::net::IpAddr;
use std::time::Duration;

use crate::http::cookies::SetCookie;
use crate::outcome::{ErrorKind, Failure, Outcome, Truncated};
use crate::output::warc::Exchange;
use crate::page::found::Found;
use crate::page::link::{Link, LinkList};
use crate::page::scope::ScopeRule;
use crate::page::url::Url;
use crate::schedule::job::{Job, LaneId, Purpose};
use crate::schedule::trap::Likeness;
use crate::time::Time;

/// All that was learned from one fetch, or from deciding that there would be none.
#[derive(Debug)]
pub struct Visit {
    pub link: Link,
    pub purpose: Purpose,
    /// The lane and slot to give back; none where nothing was asked of the host.
    pub slot: Option<(LaneId, u16)>,
    /// Whether the host was asked for it before, in vain.
    pub begun: bool,
    pub outcome: Outcome,
    pub error: Option<Failure>,
    pub status: Option<u16>,
    /// Where status is a redirect: its target.
    pub redirect: Option<Url>,
    pub content_type: Option<Box<str>>,
    pub charset: Option<&'static str>,
    pub title: Option<Box<str>>,
    /// The whole answer as received, after TLS.
    pub bytes_wire: u64,
    /// The body, decoded.
    pub bytes_body: u64,
    pub truncated: Option<Truncated>,
    /// Distinct links that are in scope and followable.
    pub links: u32,
    /// Of these, how many were not known before. The keeper fills it in.
    pub new_links: u32,
    pub timings: Timings,
    pub started: Time,
    pub ended: Time,
    pub ip: Option<IpAddr>,
    pub http: Option<&'static str>,
    pub digest: Option<[u8; 32]>,
    /// By what its text is compared with that of other pages.
    pub likeness: Option<Likeness>,
    pub etag: Option<Box<str>>,
    pub last_modified: Option<Box<str>>,
    pub canonical: Option<Url>,
    /// Languages, and where the page is in them.
    pub hreflang: Vec<(Box<str>, Url)>,
    pub noindex: bool,
    pub nofollow: bool,
    /// It came over TLS, and nobody checked from whom.
    pub insecure: bool,
    /// A cap on links, attributes or size bit while the page was searched.
    pub capped: bool,
    pub odd: Odd,
    /// How long the host asked us to wait.
    pub retry_after: Option<Duration>,
    /// Cookies that the answer set, for the keeper.
    pub set_cookies: Vec<SetCookie>,
    /// Links to follow: in scope, not nofollow, each once.
    pub found: Found,
    /// What each scope rule rejected.
    pub rejected: Vec<Rejected>,
    /// Links that are not followed and why, where they are to be told.
    pub skipped: Vec<(Box<str>, &'static str)>,
    /// Every link of the page, where records are to hold them.
    pub all_links: Option<Box<LinkList>>,
    /// The headers, where records are to hold them.
    pub headers: Option<Box<Headers>>,
    /// The exact bytes asked and answered, where somebody wants to see them.
    pub wire: Option<Box<Wire>>,
    /// The same, ready for the archive, where there is one.
    pub archive: Option<Box<Exchange>>,
    /// What a robots.txt or a sitemap said, for the keeper.
    pub errand: Option<Box<Errand>>,
}

/// Header names and values as text, in order.
pub type Headers = Vec<(Box<str>, Box<str>)>;

/// What one scope rule rejected of a visit's links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub rule: ScopeRule,
    pub count: u32,
    /// The first of them; the beginning of it where it is very long.
    pub example: Box<str>,
}

/// What went over the wire, after TLS.
#[derive(Debug)]
pub struct Wire {
    pub request: Vec<u8>,
    pub response: Vec<u8>,
    /// So many bytes of it are its head; 0 where none came to an end.
    pub head: usize,
    /// What TLS agreed on, where there was TLS and its handshake came to an end.
    pub secured: Option<crate::http::conn::Secured>,
    /// Their share of the budget for bodies, given back when they are dropped.
    pub held: crate::budget::Held,
}

impl Wire {
    /// The answer's head, and what came after it. Where its lines end is the parser's knowledge, not to be guessed again.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        self.response.split_at_checked(self.head).unwrap_or((&self.response, &[]))
    }
}

/// What an errand brought.
#[derive(Debug)]
pub enum Errand {
    /// The bytes of a robots.txt.
    Robots(Vec<u8>),
    /// A sitemap, read, and its share of the budget for what is held.
    Sitemap(crate::page::sitemap::Sitemap, crate::budget::Held),
}

/// How long each phase took, where it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    pub dns: Option<Duration>,
    pub connect: Option<Duration>,
    pub tls: Option<Duration>,
    /// From the start of the fetch to the first byte of the answer.
    pub ttfb: Option<Duration>,
    pub total: Option<Duration>,
}

/// What was wrong with an answer that could be read nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// The body was labelled with a coding and was plain text.
    pub coding_label: bool,
    /// There were bytes after the end of the coded stream; they were ignored.
    pub coding_garbage: bool,
    /// The charset that was declared is none.
    pub charset_unknown: bool,
    /// Links that are longer than `--max-url` were left out.
    pub url_too_long: bool,
}

impl Odd {
    /// The names of what is odd, as records have them.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.coding_label, "coding_label"),
            (self.coding_garbage, "coding_garbage"),
            (self.charset_unknown, "charset_unknown"),
            (self.url_too_long, "url_too_long"),
        ];
        all.into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
    }
}

impl Visit {
    /// A visit of which nothing is known yet but its end.
    pub fn bare(link: Link, purpose: Purpose, outcome: Outcome, now: Time) -> Self {
        Self {
            begun: link.tries > 0,
            link,
            purpose,
            slot: None,
            outcome,
            error: None,
            status: None,
            redirect: None,
            content_type: None,
            charset: None,
            title: None,
            bytes_wire: 0,
            bytes_body: 0,
            truncated: None,
            links: 0,
            new_links: 0,
            timings: Timings::default(),
            started: now,
            ended: now,
            ip: None,
            http: None,
            digest: None,
            likeness: None,
            etag: None,
            last_modified: None,
            canonical: None,
            hreflang: Vec::new(),
            noindex: false,
            nofollow: false,
            insecure: false,
            capped: false,
            odd: Odd::default(),
            retry_after: None,
            set_cookies: Vec::new(),
            found: Found::default(),
            rejected: Vec::new(),
            skipped: Vec::new(),
            all_links: None,
            headers: None,
            wire: None,
            archive: None,
            errand: None,
        }
    }

    /// A link that is not fetched: refused, forbidden, or of a host that cannot be reached.
    pub fn unasked(link: Link, outcome: Outcome, error: Option<Failure>, now: Time) -> Self {
        let purpose =
            if link.kind == crate::page::link::LinkKind::SitemapFile { Purpose::Sitemap } else { Purpose::Page };
        Self { error, ..Self::bare(link, purpose, outcome, now) }
    }

    /// A job that ended before there was an answer.
    pub fn failed(job: Job, failure: Failure, started: Time, now: Time) -> Self {
        let refused = matches!(failure.kind, ErrorKind::PrivateAddress | ErrorKind::BlockedPort);
        let dns = job.dns();
        let mut visit =
            Self::bare(job.link, job.purpose, if refused { Outcome::Refused } else { Outcome::Failed }, now);
        visit.slot = Some((job.lane, job.slot));
        visit.error = Some(failure);
        visit.started = started;
        visit.timings.dns = dns;
        visit.timings.total = Some(now - started);
        visit.link.tries = visit.link.tries.saturating_add(1);
        visit
    }

    /// Whether this is a page that its host was ever asked for: what a limit on pages counts.
    pub fn is_fetched_page(&self) -> bool {
        self.is_page() && (self.slot.is_some() || self.begun)
    }

    /// Whether this is a page in the sense of the record format, not an errand.
    pub fn is_page(&self) -> bool {
        self.purpose == Purpose::Page
    }
}

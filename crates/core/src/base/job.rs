//! [`Job`]: the permission to fetch one link now, over one slot of its lane. Moved, never cloned.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::link::Link;
use crate::base::quota::SlowResponseQuota;
use crate::base::time::{Time, WallClock};
use crate::base::url::{Origin, Url};

/// A lane's number within one frontier and on the workbench. A lane is a host name; lanes are numbered in order of
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

impl LaneId {
    /// The number, for use as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The permission to fetch one link over one slot of its lane. An engine returns every job as a
/// [`Visit`](crate::crawl::visit::Visit), even after a failure.
#[derive(Debug)]
pub struct Job {
    pub link: Link,
    pub purpose: Purpose,
    pub lane: LaneId,
    /// The slot of the lane. Each slot has at most one connection.
    pub slot: u16,
    /// The HTTP version of the lane's host, as far as known.
    pub http: LaneHttp,
    /// How many times a server returned the request without processing it. This does not count as a try.
    pub unprocessed: u8,
    /// Addresses to connect to, in order of preference. None of them is a refused address.
    pub addresses: Arc<[IpAddr]>,
    /// How many slow responses must be closed, because others wait for their slots. The jobs of a workbench share this.
    pub slow_responses: SlowResponseQuota,
    /// Fields that few jobs need, boxed to keep waiting jobs small.
    pub extras: Option<Box<JobExtras>>,
}

/// The HTTP version of a lane's host, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneHttp {
    /// No response yet: the host may support HTTP/2.
    #[default]
    Unknown,
    /// A connection has one job at a time: HTTP/1.1, or an engine that does not multiplex in any version.
    Serial,
    /// HTTP/2: the jobs of an origin share a connection.
    Multiplexed,
    /// The origin requires HTTP/1.1. HTTP/2 is not offered to it again.
    Http1Only,
}

/// Fields that few jobs need.
#[derive(Debug, Default)]
pub struct JobExtras {
    /// Duration of the DNS lookup, if this job waited for it.
    pub dns: Option<Duration>,
    /// In a recrawl: validators of the previous round, for a conditional request.
    pub conditional: Option<Conditional>,
    /// Headers that the request hook set.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The path and query that the request hook set in place of those of the URL.
    pub target: Option<Box<str>>,
    /// The cookies to send.
    pub cookie: Option<CookieHeader>,
    /// The wall clock, for archive records.
    pub wall: WallClock,
    /// Where to report that the request was sent, if the lane waits for that.
    pub send_reporter: Option<SendReporter>,
    /// Whether the response is a document that is in memory already, and that no server sent.
    pub is_document: bool,
}

/// The value of a `Cookie` header.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieHeader(Box<[u8]>);

impl CookieHeader {
    pub(crate) fn new(value: Vec<u8>) -> Self {
        Self(value.into_boxed_slice())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CookieHeader {
    /// Cookies are secrets and stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Reports to the keeper that a request was sent. Carried by jobs of hosts with a delay between requests, because the
/// delay counts from that time: opening a connection may take longer than the delay.
#[derive(Clone)]
pub struct SendReporter(Arc<dyn Fn(SentRequest) + Send + Sync>);

/// A request that was written to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest {
    pub lane: LaneId,
    pub slot: u16,
    pub at: Time,
}

impl SendReporter {
    pub fn new(report: impl Fn(SentRequest) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }
}

impl fmt::Debug for SendReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendReporter")
    }
}

impl Job {
    /// A job that no workbench has handed out: for a response that is in memory, or for an engine that is driven without
    /// a crawl. It has a connection to itself.
    pub fn detached(link: Link, purpose: Purpose, addresses: impl Into<Arc<[IpAddr]>>) -> Self {
        Self {
            link,
            purpose,
            lane: LaneId(0),
            slot: 0,
            http: LaneHttp::Serial,
            unprocessed: 0,
            addresses: addresses.into(),
            slow_responses: SlowResponseQuota::default(),
            extras: None,
        }
    }

    /// Duration of the DNS lookup, if this job waited for it.
    pub fn dns(&self) -> Option<Duration> {
        self.extras.as_ref()?.dns
    }

    /// Reports that the whole request was written at this time.
    pub fn report_sent(&self, at: Time) {
        if let Some(SendReporter(report)) = self.extras.as_ref().and_then(|extras| extras.send_reporter.as_ref()) {
            report(SentRequest { lane: self.lane, slot: self.slot, at });
        }
    }

    /// Whether its connection may carry other jobs of the origin at the same time.
    pub fn shares_connection(&self) -> bool {
        matches!(self.http, LaneHttp::Unknown | LaneHttp::Multiplexed)
    }

    /// The extra fields, created if absent.
    pub fn extras_mut(&mut self) -> &mut JobExtras {
        self.extras.get_or_insert_default()
    }
}

/// The purpose of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page, to be recorded and searched for links.
    Page,
    /// The robots.txt of this origin. After a redirect, the link's own origin differs.
    Robots(Box<Origin>),
    /// A sitemap.
    Sitemap,
    /// A part of a page that is being rendered: a script, a style, data. It is no link of the frontier.
    Part(Box<PagePart>),
    /// A page that does not exist, to learn how the host answers. It is no link of the frontier.
    Probe,
}

impl Purpose {
    /// What a request with this purpose may use of what the crawl has for its target.
    pub fn access(&self) -> PartAccess {
        if let Self::Part(part) = self { part.access } else { PartAccess::SameOrigin }
    }

    /// Whether the link is one of the frontier, which settles it.
    pub fn is_in_frontier(&self) -> bool {
        matches!(self, Self::Page | Self::Sitemap)
    }

    /// Whether the request is for a part of a rendered page.
    pub fn is_part(&self) -> bool {
        matches!(self, Self::Part(_))
    }

    /// Whether the request counts for `--rate`.
    pub fn is_rated(&self) -> bool {
        matches!(self, Self::Page | Self::Part(_) | Self::Probe)
    }
}

/// Which part of which rendered page a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// The number of the page in the browser.
    pub tab: u64,
    /// The number of the request in the browser.
    pub request: u64,
    /// What it is for, as in records: `script`, `style`, `xhr` and so on.
    pub kind: &'static str,
    /// What the request may use of what the crawl has for this URL.
    pub access: PartAccess,
    /// The cookies that the page has for this URL. They replace those of the crawl that have the same names.
    pub cookies: PageCookies,
}

/// What the request of a page may use of what the crawl has for its target. A page must not act with the logins that the
/// crawl has for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartAccess {
    /// The origin of the page itself: everything.
    SameOrigin,
    /// Another origin of the same site (registrable domain): cookies.
    SameSite,
    /// Another site, or a request of a frame from another origin: nothing, and no private address.
    Other,
}

impl PartAccess {
    /// The access of a page to this URL.
    pub fn between(page: &Url, target: &Url) -> Self {
        let site = |url: &Url| url.registrable_domain().unwrap_or(url.host()).to_owned();
        match target.has_origin(&page.origin()) {
            true => Self::SameOrigin,
            false if site(page) == site(target) => Self::SameSite,
            false => Self::Other,
        }
    }
}

/// Names and values of cookies.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PageCookies(pub Vec<(String, String)>);

impl fmt::Debug for PageCookies {
    /// Cookies are secrets and stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cookies", self.0.len())
    }
}

impl PageCookies {
    /// The value of the `Cookie` header: these cookies, and those of the crawl that have other names.
    pub(crate) fn joined_with(&self, of_crawl: Option<&CookieHeader>) -> Option<CookieHeader> {
        let mut value = Vec::new();
        let mut push = |bytes: &[u8]| {
            if !value.is_empty() {
                value.extend_from_slice(b"; ");
            }
            value.extend_from_slice(bytes);
        };
        // A value with a line break would add header fields.
        let is_safe = |text: &str| text.bytes().all(|byte| byte > 0x1f && byte != 0x7f && byte != b';');
        for (name, cookie) in self.0.iter().filter(|(name, cookie)| is_safe(name) && is_safe(cookie)) {
            push(format!("{name}={cookie}").as_bytes());
        }
        let pairs =
            of_crawl.map_or(&[][..], CookieHeader::as_bytes).split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            if !self.0.iter().any(|(own, _)| own.as_bytes() == name) {
                push(pair);
            }
        }
        (!value.is_empty()).then(|| CookieHeader::new(value))
    }
}

/// Validators of an earlier response, for a conditional request.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Conditional {
    pub etag: Option<Box<str>>,
    pub last_modified: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_a_page_replace_those_of_the_crawl_and_add_no_header_fields() {
        let of_crawl = CookieHeader::new(b"a=1; b=2".to_vec());
        let own = |pairs: &[(&str, &str)]| {
            PageCookies(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let joined = |cookies: PageCookies, of_crawl| {
            cookies.joined_with(of_crawl).map(|header| String::from_utf8_lossy(header.as_bytes()).into_owned())
        };
        assert_eq!(joined(own(&[("b", "3"), ("c", "4")]), Some(&of_crawl)).as_deref(), Some("b=3; c=4; a=1"));
        assert_eq!(joined(own(&[("x", "1\r\nHost: evil")]), None), None);
        assert_eq!(joined(own(&[]), Some(&of_crawl)).as_deref(), Some("a=1; b=2"));
    }

    #[test]
    fn a_job_is_small() {
        assert!(size_of::<Job>() <= 120, "{} bytes", size_of::<Job>());
    }
}

//! [`Visit`]: the result of one fetch. Its main parts are [`Facts`], [`PageFindings`] and [`KeeperPart`].

use std::net::IpAddr;
use std::time::Duration;

use crate::base::digest::BodyDigest;
use crate::base::job::{Job, LaneHttp, LaneId, Purpose};
use crate::base::link::ALREADY_SENT;
use crate::base::link::Link;
use crate::base::link_list::LinkList;
use crate::base::outcome::{ErrorKind, Failure, Outcome, Truncated, is_requested};
use crate::base::time::Time;
use crate::base::url::Url;
use crate::crawl::render_facts::RenderFacts;
use crate::crawl::rules::Rules;
use crate::crawl::warc::WarcExchange;
use crate::http::conn::Headers;
use crate::http::cookies::SetCookie;
use crate::page::examine::PageFacts;
use crate::page::follow::{self, JudgedLinks, JudgedPage, LinkPage, Rejected};
use crate::page::follow_list::FollowList;
use crate::page::likeness::Likeness;
use crate::page::reader::{HeldBody, PageContent};
use crate::page::robots::RobotsResponse;

/// The result of one job: the link, the facts of the exchange, the findings of the page, and what the keeper
/// needs to schedule further work.
///
/// A link that is never requested (excluded by robots.txt, refused, of an unreachable host) ends as a visit too.
#[derive(Debug)]
pub struct Visit {
    /// The link that was to be fetched. If it was requested, `tries` includes this attempt.
    pub link: Link,
    pub purpose: Purpose,
    pub facts: Facts,
    pub findings: PageFindings,
    /// The exact bytes of request and response, if the rules keep them.
    pub wire: Option<Box<Wire>>,
    /// The decoded body, if the rules deliver it.
    pub body: Option<Box<HeldBody>>,
    /// The page without its scripts, if `body` is the rendered document and the rules keep both.
    pub static_page: Option<Box<StaticPage>>,
    pub for_keeper: KeeperPart,
}

/// The page that a server sent, where the body of the visit is the rendered document.
#[derive(Debug)]
pub struct StaticPage {
    pub body: Box<HeldBody>,
    /// The WHATWG name of the charset in lower case.
    pub charset: Option<&'static str>,
}

/// What is known about the HTTP exchange: outcome, status, times, sizes and headers.
///
/// Fields that are hidden from the documentation are for the crates of Argiope. Their types are not part of the library.
#[derive(Debug)]
#[non_exhaustive]
pub struct Facts {
    /// How the exchange ended.
    pub outcome: Outcome,
    /// What went wrong, if something did.
    pub error: Option<Failure>,
    /// The status code; `None` if there was no response.
    pub status: Option<u16>,
    /// The target, if the status is a redirect.
    pub redirect: Option<Url>,
    /// Size of the response as received, after TLS.
    pub bytes_wire: u64,
    /// Size of the decoded body.
    pub bytes_body: u64,
    /// Why the body is incomplete, if it is.
    pub truncated: Option<Truncated>,
    /// How long each phase took.
    pub timings: Timings,
    /// When the worker started the job.
    #[doc(hidden)]
    pub started: Time,
    /// When the exchange ended.
    #[doc(hidden)]
    pub ended: Time,
    /// The IP address that answered.
    pub ip: Option<IpAddr>,
    /// Protocol version, for example `1.1`.
    pub http: Option<&'static str>,
    /// The header `ETag`; `None` if it is very long.
    pub etag: Option<Box<str>>,
    /// The header `Last-Modified`; `None` if it is very long.
    pub last_modified: Option<Box<str>>,
    /// The response came over TLS, and the certificate was not verified.
    pub insecure: bool,
    /// Defects of the response that did not prevent reading it.
    #[doc(hidden)]
    pub defects: ResponseDefects,
    /// The response headers, if records include them.
    #[doc(hidden)]
    pub headers: Option<Box<Headers>>,
}

/// The findings of the examination of a page's body.
///
/// Fields that are hidden from the documentation are for the crates of Argiope. Their types are not part of the library.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PageFindings {
    /// The media type without parameters, such as `text/html`.
    pub content_type: Option<Box<str>>,
    /// The WHATWG name of the charset in lower case; for text only.
    pub charset: Option<&'static str>,
    /// The title, with white space collapsed.
    pub title: Option<Box<str>>,
    /// The digest of the decoded body.
    pub digest: Option<BodyDigest>,
    /// The canonical URL that the page names.
    pub canonical: Option<Url>,
    /// Language codes, and the address of the page in each language.
    pub hreflang: Vec<(Box<str>, Url)>,
    /// Facts for the record of an HTML page, from its last response with status 2xx.
    #[doc(hidden)]
    pub facts: Option<Box<PageFacts>>,
    /// Whether the page has the robots directive `noindex`.
    pub noindex: bool,
    /// Whether the page has the robots directive `nofollow`.
    pub nofollow: bool,
    /// A limit on links, attributes or size was reached, so links may be missing.
    pub capped: bool,
    /// Number of distinct links that are in scope and may be followed.
    pub links: u32,
    /// How many of these links were not known before, counted when the page is settled.
    pub new_links: u32,
    /// Links that were rejected, counted by scope rule.
    #[doc(hidden)]
    pub rejected: Vec<Rejected>,
    /// Links that are not followed, with the reason, if skips are logged.
    #[doc(hidden)]
    pub skipped: Vec<(Box<str>, &'static str)>,
    /// Every link of the page, if records include them.
    #[doc(hidden)]
    pub all_links: Option<Box<LinkList>>,
    /// Number of links beyond a limit: they are neither followed nor part of the graph.
    pub links_cut: u32,
    /// How the page was rendered, if it was.
    #[doc(hidden)]
    pub render: Option<Box<RenderFacts>>,
    /// Extracted fields and text, if the rules request them.
    #[doc(hidden)]
    pub content: Option<Box<PageContent>>,
}

/// The part of a visit that only the keeper needs. Records do not contain it.
#[derive(Debug, Default)]
pub struct KeeperPart {
    /// The lane and the connection slot to release; `None` if the link never became a job.
    pub(crate) slot: Option<(LaneId, u16)>,
    /// Whether the link became a job, and the keeper then decided not to send the request.
    pub(crate) is_unsent: bool,
    /// Another fetcher continues the visit: its slot is released already.
    pub(crate) is_postponed: bool,
    /// Whether there was an earlier attempt.
    pub(crate) was_tried_before: bool,
    /// The HTTP version of the host, if the visit shows it.
    pub(crate) http: Option<LaneHttp>,
    /// How many concurrent streams the host allows on the HTTP/2 connection; `u32::MAX` if it sent no limit. `None` for
    /// HTTP/1.1, and if the host's settings did not arrive.
    pub(crate) streams: Option<u32>,
    /// How long to wait before the next request, from the header `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// The end of that wait in seconds since the Unix epoch, if the header gave a date and the response had no `Date`
    /// header to count from.
    pub(crate) retry_at: Option<i64>,
    /// Cookies that the response set.
    pub(crate) set_cookies: Vec<SetCookie>,
    /// Links to follow: in scope, not nofollow, distinct.
    pub(crate) found: FollowList,
    /// Every link of the page, for the link graph.
    pub(crate) edges: Option<Box<LinkList>>,
    /// Charges the visit to the memory budget, if it is large.
    pub(crate) charge: Option<crate::base::budget::BudgetCharge>,
    /// Fingerprint of the text, to recognise near-duplicate pages.
    pub(crate) likeness: Option<Likeness>,
    /// The exchange encoded for the archive, if there is one.
    pub(crate) archive: Option<Box<WarcExchange>>,
    /// The content of a robots.txt or a sitemap.
    pub(crate) site_file: Option<Box<SiteFile>>,
}

impl KeeperPart {
    /// Whether the host asks for a longer wait than this.
    pub(crate) fn asks_to_wait_longer_than(&self, longest: Option<Duration>) -> bool {
        self.retry_after.zip(longest).is_some_and(|(asked, longest)| asked > longest)
    }

    /// The lane and the connection slot that the visit used; `None` if the link never became a job.
    pub fn slot(&self) -> Option<(LaneId, u16)> {
        self.slot
    }

    /// Whether another fetcher has continued the visit.
    pub fn is_postponed(&self) -> bool {
        self.is_postponed
    }

    /// How long to wait before the next request, from the header `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Links to follow: in scope, not nofollow, distinct.
    pub fn found(&self) -> &FollowList {
        &self.found
    }

    /// The exchange encoded for the archive, if there is one.
    pub fn archive(&self) -> Option<&WarcExchange> {
        self.archive.as_deref()
    }

    /// The content of a robots.txt or a sitemap.
    pub fn site_file(&self) -> Option<&SiteFile> {
        self.site_file.as_deref()
    }

    /// Sets the wait that the server demands, for simulated visits.
    pub fn set_retry_after(&mut self, wait: Option<Duration>) {
        self.retry_after = wait;
    }

    /// Sets the links to follow, for simulated visits.
    pub fn set_found(&mut self, found: FollowList) {
        self.found = found;
    }

    /// Sets the content of a site file, for simulated visits.
    pub fn set_site_file(&mut self, site_file: SiteFile) {
        self.site_file = Some(Box::new(site_file));
    }

    /// Sets the fingerprint of the text, for simulated visits.
    pub fn set_likeness(&mut self, likeness: Option<Likeness>) {
        self.likeness = likeness;
    }

    /// The cookies of the response, for simulated visits.
    pub fn set_cookies_mut(&mut self) -> &mut Vec<SetCookie> {
        &mut self.set_cookies
    }
}

/// The bytes of request and response, after TLS.
#[derive(Debug)]
pub struct Wire {
    pub request: Vec<u8>,
    pub response: Vec<u8>,
    /// Length of the response head in bytes; 0 if the head is incomplete.
    pub head: usize,
    /// The negotiated TLS parameters, if a handshake was completed.
    pub tls_info: Option<crate::http::conn::TlsInfo>,
    /// Charges these bytes to the memory budget until they are dropped.
    pub charge: crate::base::budget::BudgetCharge,
}

impl Wire {
    /// The head of the response and the bytes after it, as split by the parser.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        self.response.split_at_checked(self.head).unwrap_or((&self.response, &[]))
    }
}

/// The content of a site file: robots.txt or a sitemap.
#[derive(Debug)]
pub enum SiteFile {
    /// The bytes of a robots.txt.
    Robots(Vec<u8>),
    /// A parsed sitemap, and its charge to the memory budget.
    Sitemap(crate::page::sitemap::Sitemap, crate::base::budget::BudgetCharge),
}

/// How long each phase took; `None` if it did not take place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// The DNS lookup, if this fetch was the first after it.
    pub dns: Option<Duration>,
    /// The TCP connection.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// From the start of the fetch to the first byte of the response.
    pub ttfb: Option<Duration>,
    /// The whole fetch, without the DNS lookup.
    pub total: Option<Duration>,
}

/// Defects of a response that could be read nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseDefects {
    /// The body was labelled with a coding and was plain text, or the label does not name a coding.
    pub coding_label: bool,
    /// There were bytes after the end of the coded stream; they were ignored.
    pub coding_garbage: bool,
    /// The declared charset is unknown.
    pub charset_unknown: bool,
    /// Links that are longer than `--max-url` were left out.
    pub url_too_long: bool,
    /// Header fields with a malformed name were dropped.
    pub header_dropped: bool,
    /// Header values contain control characters.
    pub header_control: bool,
}

impl ResponseDefects {
    /// The names of the defects, as in records.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.coding_label, "coding_label"),
            (self.coding_garbage, "coding_garbage"),
            (self.charset_unknown, "charset_unknown"),
            (self.url_too_long, "url_too_long"),
            (self.header_dropped, "header_dropped"),
            (self.header_control, "header_control"),
        ];
        all.into_iter().filter_map(|(is_present, name)| is_present.then_some(name)).collect()
    }
}

impl Facts {
    /// The facts of an exchange that ended at `now`, without further details.
    pub fn with_outcome(outcome: Outcome, now: Time) -> Self {
        Self {
            outcome,
            error: None,
            status: None,
            redirect: None,
            bytes_wire: 0,
            bytes_body: 0,
            truncated: None,
            timings: Timings::default(),
            started: now,
            ended: now,
            ip: None,
            http: None,
            etag: None,
            last_modified: None,
            insecure: false,
            defects: ResponseDefects::default(),
            headers: None,
        }
    }
}

impl Visit {
    /// A visit with nothing but its outcome.
    pub fn with_outcome(link: Link, purpose: Purpose, outcome: Outcome, now: Time) -> Self {
        let for_keeper = KeeperPart { was_tried_before: link.tries > 0, ..KeeperPart::default() };
        let (facts, findings) = (Facts::with_outcome(outcome, now), PageFindings::default());
        Self { link, purpose, facts, findings, wire: None, body: None, static_page: None, for_keeper }
    }

    /// A link that is not fetched: refused, forbidden, or of a host that cannot be reached.
    pub fn not_fetched(link: Link, outcome: Outcome, error: Option<Failure>, now: Time) -> Self {
        let purpose =
            if link.kind == crate::base::link::LinkKind::SitemapFile { Purpose::Sitemap } else { Purpose::Page };
        let mut visit = Self::with_outcome(link, purpose, outcome, now);
        visit.facts.error = error;
        visit
    }

    /// The visit of a job whose host was contacted, with nothing but its outcome.
    pub fn requested(job: Job, outcome: Outcome, now: Time) -> Self {
        let (slot, dns) = ((job.lane, job.slot), job.dns());
        let mut visit = Self::with_outcome(job.link, job.purpose, outcome, now);
        visit.link.tries = visit.link.tries.saturating_add(1);
        visit.for_keeper.slot = Some(slot);
        visit.facts.timings.dns = dns;
        visit
    }

    /// A job that ended before a response arrived.
    pub fn failed(job: Job, failure: Failure, started: Time, now: Time) -> Self {
        let is_refused = matches!(failure.kind, ErrorKind::PrivateAddress | ErrorKind::BlockedPort);
        let mut visit = Self::requested(job, if is_refused { Outcome::Refused } else { Outcome::Failed }, now);
        visit.facts.error = Some(failure);
        visit.facts.started = started;
        visit.facts.timings.total = Some(now - started);
        visit
    }

    /// A job that the keeper refuses before it is sent.
    pub(crate) fn unsent(mut job: Job, failure: Failure, now: Time) -> Self {
        let (slot, dns) = ((job.lane, job.slot), job.dns());
        if job.link.tries == ALREADY_SENT {
            // An earlier run may have sent the request. It is not known how often.
            job.link.tries = 0;
        }
        let mut visit = Self::with_outcome(job.link, job.purpose, Outcome::Refused, now);
        visit.for_keeper.slot = Some(slot);
        visit.for_keeper.is_unsent = true;
        visit.facts.error = Some(failure);
        visit.facts.timings.dns = dns;
        visit
    }

    /// Judges the links of the page by scope, and adds those to follow. `nofollow`: the page forbids following its
    /// links. `body` is empty if it is not kept.
    pub fn follow_links(&mut self, links: &LinkList, nofollow: bool, body: &[u8], rules: &Rules) {
        let PageFindings { charset, title, .. } = &self.findings;
        let content = LinkPage { link: &self.link, body, charset: *charset, title: title.as_deref() };
        // Only HTML pages have `facts`.
        let page = JudgedPage { link: &self.link, is_html: self.findings.facts.is_some(), nofollow, content };
        let judged = follow::judge_links(page, links, &rules.follow_rules());
        self.findings.links = u32::try_from(judged.found.len()).unwrap_or(u32::MAX);
        self.add_judged(judged);
    }

    /// Judges the target of a redirect by scope, and adds it as a new link that may follow one redirect less.
    pub fn follow_redirect(&mut self, location: &[u8], rules: &Rules) {
        match follow::redirect_target(&self.link, location, rules.max_url) {
            Ok(target) => {
                self.facts.redirect = Some(target.clone());
                // The keeper follows redirects of site files.
                if self.is_page() {
                    let judged = follow::judge_redirect(&self.link, &target, &rules.follow_rules());
                    self.add_judged(judged);
                }
            }
            Err(failure) => {
                self.facts.error.get_or_insert(failure);
            }
        }
    }

    fn add_judged(&mut self, judged: JudgedLinks) {
        let JudgedLinks { found, rejected, skipped, cut, failure } = judged;
        self.for_keeper.found = found;
        let findings = &mut self.findings;
        findings.rejected.extend(rejected);
        findings.skipped.extend(skipped);
        findings.capped |= cut > 0;
        findings.links_cut = findings.links_cut.saturating_add(cut);
        if let Some(failure) = failure {
            self.facts.error.get_or_insert(failure);
        }
    }

    /// What the visit says about a robots.txt with these bytes.
    pub fn robots_response<'a>(&self, body: &'a [u8]) -> RobotsResponse<'a> {
        let Facts { status, error, truncated, .. } = &self.facts;
        RobotsResponse {
            status: *status,
            failure: error.as_ref().map(|failure| failure.kind),
            truncated: *truncated,
            body,
        }
    }

    /// Adjusts the memory charge of a large visit to its size now, plus `extra` bytes.
    pub fn recharge(&mut self, extra: usize) {
        if let Some(mut charge) = self.for_keeper.charge.take() {
            charge.resize(self.heap_bytes() + extra);
            self.for_keeper.charge = Some(charge);
        }
    }

    /// Heap bytes of its larger parts that have no charge of their own. The constants that are added to lengths
    /// estimate the fixed size of an entry, with the overhead of its allocations.
    pub fn heap_bytes(&self) -> usize {
        let pair_bytes = |pair: &(Box<str>, Box<str>)| pair.0.len() + pair.1.len() + 64;
        let headers: usize = self.facts.headers.iter().flat_map(|headers| headers.iter()).map(pair_bytes).sum();
        let validators = self.facts.etag.as_ref().map_or(0, |text| text.len())
            + self.facts.last_modified.as_ref().map_or(0, |text| text.len());
        let cookies: usize = self.for_keeper.set_cookies.iter().map(SetCookie::weight).sum();
        let links = [&self.findings.all_links, &self.for_keeper.edges].into_iter().flatten();
        let links: usize = links.map(|links| links.heap_bytes()).sum();
        let skipped: usize = self.findings.skipped.iter().map(|(url, _)| url.len() + 40).sum();
        let alternates: usize = self.findings.hreflang.iter().map(|(_, url)| url.as_str().len() + 64).sum();
        let robots = match self.for_keeper.site_file.as_deref() {
            Some(SiteFile::Robots(bytes)) => bytes.capacity(),
            _ => 0,
        };
        let request = self.link.request.as_ref().map_or(0, |request| request.bytes());
        request + self.for_keeper.found.bytes() + links + headers + validators + cookies + skipped + alternates + robots
    }

    /// Whether this is a page that was requested from its host: `--max-pages` counts these.
    pub fn is_fetched_page(&self) -> bool {
        let was_sent = self.for_keeper.slot.is_some() && !self.for_keeper.is_unsent;
        self.is_page() && is_requested(was_sent, self.link.tries, self.facts.error.as_ref())
    }

    /// Whether this is a page that counted towards `--max-pages` when its first attempt started.
    pub(crate) fn was_counted_page(&self) -> bool {
        let KeeperPart { slot, is_unsent, was_tried_before, .. } = &self.for_keeper;
        self.is_page() && ((slot.is_some() && !is_unsent) || *was_tried_before)
    }

    /// Whether this is a page in the sense of the record format, as opposed to a robots.txt or a sitemap.
    pub fn is_page(&self) -> bool {
        self.purpose == Purpose::Page
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
    use crate::crawl::record::CrawlRecord;
    use crate::crawl::rules::Config;

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
            visit.follow_redirect(location.as_bytes(), &rules);
            let mut line = Vec::new();
            CrawlRecord::of(&visit, WallClock { start: 0 }, 0, None).encode(&mut line);
            let output = format!("{visit:?} {}", String::from_utf8_lossy(&line));
            assert!(!output.contains("secret"), "{output}");
            assert_eq!(visit.facts.error.expect("the location cannot be followed").kind, kind, "{location}");
        }
    }
}

//! [`Fetch`]: one job on one connection, from the request to the visit. What every engine drives.
//!
//! The engine's whole part in it is three lines: [`Step::Write`]: write those bytes, say how many; [`Step::Read`]: when
//! bytes are there, read them into a buffer of the engine's own and feed them in; [`Step::Done`]: take the visit. TLS
//! handshakes, redirects, codings and links are nothing that an engine knows of.
//!
//! Invariant: a fetch that waits owns no read buffer; a body is examined as it arrives and is held only where something
//! that was asked for needs it.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::budget::Held;
use crate::http::conn::request::RequestHead;
use crate::http::conn::{Conn, ExchangeEnd, Head, Receiver, Step, Version, Want, refused_by_proxy};
use crate::http::cookies::{self, CookieHeader, SetCookie};
use crate::outcome::{ErrorKind, Failure, Outcome, Truncated};
use crate::output::record::WallClock;
use crate::output::warc;
use crate::page::examine::{self, ExamineLimits, Examiner, Findings};
use crate::page::follow;
use crate::page::link::{Link, LinkKind, LinkList};
use crate::page::reader::{Body, DeliveredBodies};
use crate::page::robots;
use crate::page::sitemap;
use crate::page::url::Url;
use crate::rules::Rules;
use crate::schedule::job::{Job, Purpose};
use crate::schedule::retry;
use crate::time::Time;
use crate::visit::{Errand, Facts, Headers, Visit, Wire};

/// Pages are welcome; anything else will be recorded too.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// Attributes of one tag that are looked at.
pub(crate) const MAX_ATTRIBUTES: usize = 1_024;

/// One job on one connection. All of it is one box: whoever waits for ten thousand fetches holds ten thousand pointers.
pub struct Fetch(Box<Exchange>);

struct Exchange {
    conn: Conn,
    page: Page,
}

/// How a fetch ended.
pub enum Finished {
    /// With a visit; and with the connection, where it can serve again.
    Visit(Box<Visit>, Option<Box<Conn>>),
    /// The kept-alive connection turned out closed before the host said anything: connect anew and ask again. Nobody
    /// would count this as an attempt.
    Again(Box<Job>),
}

/// How the connection came to be.
#[derive(Clone, Copy, Debug)]
pub struct FetchStart {
    /// When the job was taken up.
    pub started: Time,
    /// When TCP was connected; none on a kept-alive connection.
    pub connected: Option<Time>,
}

/// What the answer has brought so far. What comes only with the answer is in boxes: most fetches wait for it.
struct Page {
    job: Box<Job>,
    rules: Arc<Rules>,
    started: Time,
    /// [`Time::NEVER`] on a kept-alive connection.
    connected: Time,
    answer: Option<Box<Answer>>,
    wire: Option<Box<Kept>>,
}

/// What there is once the head has come.
struct Answer {
    head: Head,
    reader: Reader,
    /// The decoded body, where the rules ask for it.
    body: Option<Box<Body>>,
    /// What was fed and is not read yet, because the bytes before it were so much work that others come first.
    rest: Option<Vec<u8>>,
}

/// The bytes of an answer that an archive wants, and their share of the budget.
struct Kept {
    bytes: Vec<u8>,
    held: Held,
}

/// A robots.txt as far as it has come.
#[derive(Default)]
struct RobotsText {
    bytes: Vec<u8>,
}

/// Who reads the body.
enum Reader {
    None,
    Page(Box<Examiner>),
    Robots(Box<RobotsText>),
    Sitemap(Box<SitemapRead>),
}

/// A sitemap as far as it has come, and its share of the budget for what is held: fifty thousand addresses are no
/// small thing.
struct SitemapRead {
    reader: sitemap::SitemapReader,
    held: Held,
    weighed: usize,
}

impl SitemapRead {
    fn feed(&mut self, decoded: &[u8]) {
        self.reader.feed(decoded);
        let weight = self.reader.weight();
        self.held.grow(weight.saturating_sub(self.weighed));
        self.weighed = self.weighed.max(weight);
    }
}

impl Fetch {
    /// Asks for the job's link over a connection.
    pub fn new(job: Box<Job>, mut conn: Conn, rules: Arc<Rules>, start: FetchStart, now: Time) -> Self {
        let bytes = request_bytes(&job, &rules);
        conn.ask(bytes, start.started + rules.timeout, now);
        let keep = rules.keep_wire || rules.archive;
        let wire = keep.then(|| Box::new(Kept { bytes: Vec::new(), held: rules.budget.hold() }));
        let FetchStart { started, connected } = start;
        let connected = connected.unwrap_or(Time::NEVER);
        let page = Page { job, rules, started, connected, answer: None, wire };
        Self(Box::new(Exchange { conn, page }))
    }

    pub fn step(&mut self) -> Step<'_> {
        self.0.conn.step()
    }

    pub fn wrote(&mut self, n: usize, now: Time) {
        self.guarded(|conn, _| conn.wrote(n, now));
    }

    pub fn feed(&mut self, bytes: &[u8], now: Time) {
        self.read(bytes, now);
        self.hold(now);
    }

    /// Reads some of these bytes; the others wait for [`Fetch::resume`].
    fn read(&mut self, bytes: &[u8], now: Time) {
        self.guarded(|conn, page| {
            let used = conn.feed_some(bytes, now, page);
            let rest = bytes.get(used..).unwrap_or_default();
            if (!rest.is_empty() || conn.has_more())
                && let Some(answer) = &mut page.answer
            {
                answer.rest = Some(rest.to_vec());
            }
        });
    }

    /// Whether it pauses only to let others have their turn, and wants to go on soon.
    pub fn is_yielding(&self) -> bool {
        self.0.page.answer.as_ref().is_some_and(|answer| answer.rest.is_some())
    }

    /// The host closed its side.
    pub fn closed(&mut self, now: Time) {
        self.guarded(|conn, page| conn.closed(now, page));
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure) {
        self.guarded(|conn, page| conn.broke(failure, page));
    }

    /// A fault of ours while an answer is read must not take the worker with it: it is the fate of this one page.
    fn guarded(&mut self, read: impl FnOnce(&mut Conn, &mut Page)) {
        let Exchange { conn, page } = &mut *self.0;
        if catch_unwind(AssertUnwindSafe(|| read(conn, page))).is_err() {
            page.forget_body();
            conn.broke(Failure::new(ErrorKind::Internal, "a fault in Argiope while it read this answer"), page);
        }
    }

    /// When [`Fetch::expire`] wants to be called, unless something happens before.
    pub fn deadline(&self) -> Time {
        self.0.conn.deadline()
    }

    pub fn expire(&mut self, now: Time) {
        self.guarded(|conn, page| conn.expire(now, page));
    }

    /// After [`Step::Pause`]: goes on with what was too much at once, and reads on where the budget for bodies has room
    /// again. Says whether it does.
    pub fn resume(&mut self, now: Time) -> bool {
        if let Some(rest) = self.0.page.answer.as_mut().and_then(|answer| answer.rest.take()) {
            self.0.conn.hold(false, now);
            self.read(&rest, now);
        }
        self.hold(now)
    }

    /// Holds the connection while there is no room or no time for more. Says whether it moves.
    fn hold(&mut self, now: Time) -> bool {
        let breathes = self.is_yielding();
        let Page { wire, answer, .. } = &mut self.0.page;
        let (mut of_reader, mut of_body) = (None, None);
        if let Some(Answer { reader, body, .. }) = answer.as_deref_mut() {
            of_reader = if let Reader::Sitemap(read) = reader { Some(&mut read.held) } else { None };
            of_body = body.as_mut().map(|body| &mut body.held);
        }
        let of_wire = wire.as_mut().map(|kept| &mut kept.held);
        let mut all = of_wire.into_iter().chain(of_reader).chain(of_body).peekable();
        // One that goes beyond the budget takes the other along: they are the same answer.
        let moves = !breathes && (all.peek().is_none() || all.any(Held::may_grow));
        self.0.conn.hold(!moves, now);
        moves
    }

    pub fn job(&self) -> &Job {
        &self.0.page.job
    }

    /// Takes the result of a fetch that is done.
    pub fn finish(self, now: Time) -> Finished {
        let Exchange { mut conn, page } = *self.0;
        let end = conn.end();
        if end.stale && end.failure.is_some() && page.answer.is_none() {
            return Finished::Again(page.job);
        }
        let (reusable, peer) = (end.reusable, conn.peer);
        let insecure = conn.is_tls() && page.rules.insecure;
        // What a fault needs to become a visit: little, and only links and names are cloned.
        let (link, purpose, seat) = (page.job.link.clone(), page.job.purpose.clone(), (page.job.lane, page.job.slot));
        let mut visit = catch_unwind(AssertUnwindSafe(|| page.into_visit(end, peer, now))).unwrap_or_else(|_| {
            let mut visit = Visit::bare(link, purpose, Outcome::Failed, now);
            visit.message.slot = Some(seat);
            visit.link.tries = visit.link.tries.saturating_add(1);
            visit.facts.error =
                Some(Failure::new(ErrorKind::Internal, "a fault in Argiope while it examined this page"));
            visit
        });
        visit.facts.insecure = insecure;
        if let Some(wire) = &mut visit.wire {
            wire.tls_info = conn.tls_info();
        }
        Finished::Visit(Box::new(visit), reusable.then(|| Box::new(conn)))
    }
}

/// The request as it goes over the wire: a pure function of job and rules, so that it need not be kept.
fn request_bytes(job: &Job, rules: &Rules) -> Vec<u8> {
    let url = job.link.url.as_ref();
    RequestHead {
        extra: &rules.headers_for(&job.link.url),
        cookie: job.rare.as_ref().and_then(|rare| rare.cookie.as_ref()).map(CookieHeader::as_bytes),
        proxy: rules.proxies.of(url).filter(|proxy| proxy.relays(url)).map(|proxy| &**proxy),
        ..open_request(job, rules)
    }
    .to_bytes()
}

/// What anybody may know of a request: archives are handed on, so the user's own headers, cookies and proxies are none of
/// their business.
fn open_request<'a>(job: &'a Job, rules: &'a Rules) -> RequestHead<'a> {
    let known = job.rare.as_ref().and_then(|rare| rare.conditional.as_ref());
    RequestHead {
        url: job.link.url.as_ref(),
        user_agent: &rules.user_agent,
        accept: ACCEPT,
        extra: &[],
        etag: known.and_then(|known| known.etag.as_deref()),
        last_modified: known.and_then(|known| known.last_modified.as_deref()),
        cookie: None,
        proxy: None,
    }
}

impl Receiver for Page {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        let status = head.status;
        let reader = match &self.job.purpose {
            Purpose::Page => {
                let caps = ExamineLimits {
                    max_links: self.rules.max_links,
                    max_url: self.rules.max_url,
                    max_attrs: MAX_ATTRIBUTES,
                    agent: Arc::clone(&self.rules.agent_token),
                };
                let kind = head.get("content-type");
                Reader::Page(Box::new(Examiner::new(&self.job.link.url, kind, caps)))
            }
            Purpose::Robots(_) if (200..300).contains(&status) => Reader::Robots(Box::default()),
            Purpose::Sitemap if (200..300).contains(&status) => {
                let reader = sitemap::SitemapReader::new(&self.job.link.url, bounds(&self.job.link));
                Reader::Sitemap(Box::new(SitemapRead { reader, held: self.rules.budget.hold(), weighed: 0 }))
            }
            Purpose::Robots(_) | Purpose::Sitemap => Reader::None,
        };
        // The body of a redirect leads nowhere: it is unpacked for nobody, and read only where an archive wants it.
        let reader = if is_redirect(head) { Reader::None } else { reader };
        let want = match &reader {
            Reader::None if self.wire.is_none() => Want::Nothing,
            Reader::Sitemap(_) => Want::UpTo(self.rules.max_size.max(sitemap::MAX_BYTES)),
            Reader::Robots(_) => Want::UpTo(robots::MAX_ROBOTS_BYTES as u64 + 1),
            Reader::None | Reader::Page(_) => Want::Body,
        };
        let body = matches!(reader, Reader::Page(_)) && {
            let declared = text(head.get("content-type"));
            let essence = declared.as_deref().map(|value| value.split(';').next().unwrap_or("").trim().to_lowercase());
            self.rules.bodies.holds(&self.job.link.url, status, essence.as_deref())
        };
        let body = body.then(|| Box::new(Body::new(self.rules.budget.hold())));
        self.answer = Some(Box::new(Answer { head: head.clone(), reader, body, rest: None }));
        want
    }

    fn wire(&mut self, raw: &[u8]) {
        if let Some(wire) = &mut self.wire {
            wire.bytes.extend_from_slice(raw);
            wire.held.grow(raw.len());
        }
    }

    fn body(&mut self, decoded: &[u8]) {
        let Some(answer) = &mut self.answer else { return };
        if let Some(body) = &mut answer.body {
            body.extend(decoded);
        }
        match &mut answer.reader {
            Reader::None => {}
            Reader::Page(examiner) => examiner.feed(decoded),
            Reader::Robots(text) => {
                let bytes = &mut text.bytes;
                // One byte more than is read tells a file that ends there from one that goes on.
                let room = (robots::MAX_ROBOTS_BYTES + 1).saturating_sub(bytes.len());
                bytes.extend_from_slice(decoded.get(..room).unwrap_or(decoded));
            }
            Reader::Sitemap(reader) => reader.feed(decoded),
        }
    }

    fn unpacked(&self) -> Option<u64> {
        match &self.answer.as_ref()?.reader {
            Reader::Sitemap(read) => Some(read.reader.unpacked()),
            Reader::None | Reader::Page(_) | Reader::Robots(_) => None,
        }
    }
}

impl Page {
    /// Whoever was to read the body does not.
    fn forget_body(&mut self) {
        if let Some(answer) = &mut self.answer {
            answer.reader = Reader::None;
            answer.body = None;
        }
    }

    /// Builds the visit: the facts of the exchange first, then, where a head has come, what head and body say.
    fn into_visit(self, end: ExchangeEnd, peer: Option<IpAddr>, now: Time) -> Visit {
        let Self { job, rules, started, connected, answer, wire } = self;
        let wire = wire.map(|kept| {
            let Kept { bytes, held } = *kept;
            let head = answer.as_ref().map_or(0, |answer| answer.head.raw().len());
            let request = if rules.keep_wire { request_bytes(&job, &rules) } else { Vec::new() };
            Wire { request, response: bytes, head, tls_info: None, held }
        });
        let open_request = if rules.archive { open_request(&job, &rules).to_bytes() } else { Vec::new() };
        let dns = job.dns();
        let conditional = job.rare.as_ref().is_some_and(|rare| rare.conditional.is_some());
        let wall = job.rare.as_ref().map_or(WallClock::default(), |rare| rare.wall);
        let mut visit = Visit::bare(job.link, job.purpose, Outcome::Failed, now);
        visit.link.tries = visit.link.tries.saturating_add(1);
        visit.message.slot = Some((job.lane, job.slot));
        visit.facts.ip = peer;
        visit.facts.timings.dns = dns;
        note_end(&mut visit.facts, end, started, connected, now);
        let Some(Answer { head, reader, body, .. }) = answer.map(|answer| *answer) else {
            visit.wire = wire.filter(|_| rules.keep_wire).map(Box::new);
            return visit;
        };
        if !note_head(&mut visit, &head, &rules) {
            return visit;
        }
        // A 2xx body that failed without being truncated is unusable even up to the failure. An archive keeps it anyway.
        let facts = &mut visit.facts;
        let is_useless = (200..300).contains(&head.status) && facts.error.is_some() && facts.truncated.is_none();
        if !is_useless {
            if head.status == 206 && !is_whole_range(head.get("content-range")) {
                // We did not ask for a range: the response is complete, the page is not.
                facts.truncated = facts.truncated.or(Some(Truncated::Length));
            }
            note_body(&mut visit, &head, reader, &rules);
            note_content(&mut visit, &head, body, &rules);
        }
        if let Some(wire) = wire {
            visit.message.archive =
                rules.archive.then(|| Box::new(archived(&visit, &open_request, &wire, wall, &rules)));
            visit.wire = rules.keep_wire.then(|| Box::new(wire));
        }
        if !is_useless {
            visit.facts.outcome = outcome(&mut visit, &head, conditional, &rules);
        }
        visit
    }
}

/// Takes over times, sizes and the failure, if any, from the connection. `connected` is [`Time::NEVER`] on a kept-alive
/// connection.
fn note_end(facts: &mut Facts, end: ExchangeEnd, started: Time, connected: Time, now: Time) {
    let connected = (!connected.is_never()).then_some(connected);
    facts.started = started;
    facts.timings.connect = connected.map(|at| at - started);
    facts.timings.tls = end.tls_done.and_then(|at| Some(at - connected?));
    facts.timings.ttfb = end.ttfb.map(|at| at - started);
    facts.timings.total = Some(now - started);
    facts.bytes_wire = end.bytes_wire;
    facts.bytes_body = end.bytes_body;
    facts.truncated = end.truncated;
    facts.error = end.failure;
    facts.odd.coding_label = end.oddities.mislabelled;
    facts.odd.coding_garbage = end.oddities.garbage;
}

/// Takes over what the response head says. Returns false if the response is the proxy's and not the host's.
fn note_head(visit: &mut Visit, head: &Head, rules: &Rules) -> bool {
    let Visit { link, facts, message, .. } = visit;
    facts.http = Some(match head.version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    });
    facts.status = Some(head.status);
    let url = link.url.as_ref();
    if head.status == 407 && rules.proxies.of(url).is_some_and(|proxy| proxy.relays(url)) {
        facts.error = Some(refused_by_proxy(head.status));
        return false;
    }
    facts.etag = text(head.get("etag"));
    facts.last_modified = text(head.get("last-modified"));
    message.retry_after = head.get("retry-after").and_then(|value| retry::asked(value, head.get("date")));
    if rules.cookies.is_some() {
        let lines = head.get_all("set-cookie").take(cookies::MAX_PER_RESPONSE);
        message.set_cookies = lines.filter_map(SetCookie::parse).collect();
    }
    if rules.with_headers {
        facts.headers = Some(Box::new(headers(head)));
    }
    true
}

/// Takes over what was read from the body.
fn note_body(visit: &mut Visit, head: &Head, reader: Reader, rules: &Rules) {
    match reader {
        Reader::None => {}
        Reader::Page(examiner) => harvest(visit, head, examiner.finish(), rules),
        Reader::Robots(text) => visit.message.errand = Some(Box::new(Errand::Robots(text.bytes))),
        Reader::Sitemap(read) => {
            let SitemapRead { reader, held, .. } = *read;
            visit.message.errand = Some(Box::new(Errand::Sitemap(reader.finish(), held)));
        }
    }
}

/// Has the body read by who reads pages, and hands it on where it is asked for.
fn note_content(visit: &mut Visit, head: &Head, body: Option<Box<Body>>, rules: &Rules) {
    let delivers = rules.bodies.delivered != DeliveredBodies::None && visit.is_page();
    let (content_type, charset) = (visit.findings.content_type.as_deref(), visit.findings.charset);
    let mut content = None;
    let body = body.and_then(|body| {
        let held = rules.budget.hold();
        content = rules.bodies.read(&visit.link.url, head.status, content_type, charset, &body, held);
        rules.bodies.delivers(content_type).then_some(body)
    });
    // Headers come along also where the body does not.
    visit.body = delivers.then(|| {
        let mut body = body.unwrap_or_else(|| Box::new(Body::new(rules.budget.hold())));
        body.headers = headers(head);
        body
    });
    visit.findings.content = content;
}

/// The exchange as the archive keeps it.
fn archived(visit: &Visit, request: &[u8], wire: &Wire, wall: WallClock, rules: &Rules) -> warc::WarcExchange {
    let (head, payload) = wire.parts();
    let source = warc::WarcSource {
        url: visit.link.url.as_ref(),
        date: wall.text(visit.facts.started),
        ip: visit.facts.ip,
        request,
        head,
        payload,
        truncated: warc::truncation(visit.facts.truncated, visit.facts.error.as_ref().map(|error| error.kind)),
        digest: visit.findings.digest,
        key: rules.fingerprint_key,
    };
    warc::WarcExchange::encode(&source, rules.budget.hold())
}

/// Where an answer says to go instead, each time that it says so.
fn locations(head: &Head) -> impl Iterator<Item = &[u8]> {
    head.get_all("location").map(<[u8]>::trim_ascii).filter(|value| !value.is_empty())
}

fn is_redirect(head: &Head) -> bool {
    (300..400).contains(&head.status) && head.status != 304 && locations(head).next().is_some()
}

/// What the status means. A redirect is a new link with one redirect less; it is judged like any link.
/// A 304 says something only to those who asked on a condition.
fn outcome(visit: &mut Visit, head: &Head, conditional: bool, rules: &Rules) -> Outcome {
    match head.status {
        200..=299 => Outcome::Ok,
        304 if conditional => Outcome::NotModified,
        304 => Outcome::HttpError,
        300..=399 if is_redirect(head) => {
            let mut locations = locations(head);
            let first = locations.next().unwrap_or_default();
            if locations.any(|other| other != first) {
                // Whoever is in between may have followed the other one.
                let message = "two Locations that differ: neither can be trusted";
                visit.facts.error.get_or_insert(Failure::new(ErrorKind::RedirectInvalid, message));
            } else {
                follow::redirect(visit, first, rules);
            }
            Outcome::Redirect
        }
        _ => Outcome::HttpError,
    }
}

/// Takes over what the examiner found, and judges the links by scope.
fn harvest(visit: &mut Visit, head: &Head, mut examined: Findings, rules: &Rules) {
    add_header_links(&mut examined.links, head, &visit.link.url, rules);
    let directives = examined.directives.merge(examine::x_robots_tag(head.get_all("x-robots-tag"), &rules.agent_token));
    visit.facts.odd.charset_unknown = examined.unknown_charset;
    visit.facts.odd.url_too_long = examined.too_long > 0;
    visit.message.likeness = examined.likeness;
    let findings = &mut visit.findings;
    findings.content_type = examined.content_type;
    findings.charset = examined.charset;
    findings.title = examined.title;
    // A 304 has no body to compute a digest of: the page is unchanged.
    findings.digest = (head.status != 304).then_some(examined.digest);
    findings.canonical = examined.canonical;
    findings.hreflang = examined.hreflang;
    findings.capped = examined.capped;
    findings.noindex = directives.noindex;
    findings.nofollow = directives.nofollow;
    if (200..300).contains(&head.status) {
        follow::links(visit, &examined.links, directives.nofollow, rules);
    }
    if rules.with_links {
        visit.findings.all_links = Some(Box::new(examined.links));
    }
}

fn add_header_links(links: &mut LinkList, head: &Head, page: &Url, rules: &Rules) {
    let mut add = |href: &str, kind| {
        if let Ok(url) = page.join(href)
            && url.as_str().len() <= rules.max_url
        {
            links.push(url.as_str(), kind, false);
        }
    };
    if let Some(value) = text(head.get("refresh"))
        && let Some(target) = examine::refresh_header(&value)
    {
        add(target, LinkKind::Refresh);
    }
    for value in head.get_all("link") {
        for (href, rel) in examine::link_header(&String::from_utf8_lossy(value)) {
            if rel.split_ascii_whitespace().any(|word| ["next", "prev"].iter().any(|r| word.eq_ignore_ascii_case(r))) {
                add(href, LinkKind::Rel);
            }
        }
    }
}

/// What a sitemap may list: pages of its own site, and of the host whose robots.txt named it.
fn bounds(link: &Link) -> sitemap::SitemapBounds {
    let vouched = link.via.iter().map(|via| Box::from(via.host())).collect();
    sitemap::SitemapBounds { vouched, ..sitemap::SitemapBounds::default() }
}

/// Does a `Content-Range` cover all there is, as in `bytes 0-99/100`?
fn is_whole_range(value: Option<&[u8]>) -> bool {
    let value = value.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let parts = value.and_then(|text| text.trim().strip_prefix("bytes ")).and_then(|text| {
        let (range, total) = text.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        Some((first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?, total.trim().parse::<u64>().ok()?))
    });
    parts.is_some_and(|(first, last, total)| first == 0 && last.checked_add(1) == Some(total))
}

fn headers(head: &Head) -> Headers {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
    head.iter().map(|(name, value)| (lossy(name), lossy(value))).collect()
}

fn text(value: Option<&[u8]>) -> Option<Box<str>> {
    value.map(|bytes| String::from_utf8_lossy(bytes.trim_ascii()).into_owned().into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::conn::Limits;
    use crate::rules::Config;
    use crate::schedule::frontier::LaneId;

    #[test]
    fn a_fetch_that_waits_is_small() {
        assert!(size_of::<Exchange>() <= 248, "{} bytes", size_of::<Exchange>());
    }

    #[test]
    fn a_range_is_whole_only_from_end_to_end() {
        for (value, whole) in [
            ("bytes 0-99/100", true),
            ("bytes 0-9/100", false),
            ("bytes 1-99/100", false),
            ("bytes 0-18446744073709551615/0", false),
            ("bytes */100", false),
            ("bytes 0-9/*", false),
            ("banana", false),
        ] {
            assert_eq!(is_whole_range(Some(value.as_bytes())), whole, "{value}");
        }
        assert!(!is_whole_range(None));
    }

    fn fetch(address: &str, purpose: Purpose, edit: impl FnOnce(&mut Rules)) -> Fetch {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let mut rules = config.compile(1).expect("settings");
        edit(&mut rules);
        let link = Link::root(Url::parse(address).expect("an address"), 1);
        let (addresses, lane) = (Arc::from([IpAddr::from([127, 0, 0, 1])]), LaneId(7));
        let job = Job { link, purpose, lane, slot: 3, addresses, rare: None };
        let conn = Conn::plain(Arc::new(Limits::default()), Time::ZERO);
        let start = FetchStart { started: Time::ZERO, connected: Some(Time::ZERO) };
        let mut fetch = Fetch::new(Box::new(job), conn, Arc::new(rules), start, Time::ZERO);
        while let Step::Write(bytes) = fetch.step() {
            let count = bytes.len();
            fetch.wrote(count, Time::ZERO);
        }
        fetch
    }

    #[test]
    fn what_sitemaps_list_is_within_the_budget_for_what_is_held() {
        let budget = crate::budget::Budget::new(100_000);
        let start = || {
            let budget = Arc::clone(&budget);
            let mut fetch = fetch("http://h/map.txt", Purpose::Sitemap, |rules| rules.budget = budget);
            fetch.feed(b"HTTP/1.1 200 OK\r\n\r\n", Time::ZERO);
            fetch
        };
        let lines: String = (0..2_000).map(|n| format!("http://h/{n}\n")).collect();
        let (mut first, mut second) = (start(), start());
        first.feed(lines.as_bytes(), Time::ZERO);
        assert!(budget.held() > 100_000, "{}", budget.held());
        assert!(matches!(first.step(), Step::Read), "one may go beyond");
        second.feed(b"http://h/\n", Time::ZERO);
        assert!(matches!(second.step(), Step::Pause), "the others wait");
        first.closed(Time::ZERO);
        let Finished::Visit(visit, _) = first.finish(Time::ZERO) else { panic!("a visit") };
        assert!(budget.held() > 100_000, "held until the keeper has read it");
        drop(visit);
        assert!(second.resume(Time::ZERO));
    }

    /// Feeds an answer whole, and says in how many slices it was read.
    fn slices(fetch: &mut Fetch, answer: &[u8]) -> usize {
        fetch.feed(answer, Time::ZERO);
        let mut slices = 1;
        while fetch.is_yielding() {
            assert!(matches!(fetch.step(), Step::Pause));
            fetch.resume(Time::ZERO);
            slices += 1;
        }
        slices
    }

    #[test]
    fn what_unpacks_to_much_is_read_in_slices() {
        use std::io::Write as _;
        let packed = |text: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(text).expect("memory takes all");
            encoder.finish().expect("memory takes all")
        };
        let answer = |coding: &str, body: &[u8]| {
            let head = format!("HTTP/1.1 200 OK\r\n{coding}Content-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), body].concat()
        };
        let page = "<p>0</p>".repeat(1 << 20);
        let map: String = (0..100_000).map(|n| format!("http://h/{n}\n")).collect();
        for (purpose, coding, text) in [
            (Purpose::Page, "Content-Encoding: gzip\r\n", &page),
            (Purpose::Sitemap, "", &map),
            (Purpose::Sitemap, "Content-Encoding: gzip\r\n", &map),
        ] {
            let mut fetch = fetch("http://h/map.txt", purpose.clone(), |_| {});
            let slices = slices(&mut fetch, &answer(coding, &packed(text.as_bytes())));
            let most = text.len() / (32 << 10) + 2;
            assert!(slices > 3 && slices <= most, "{slices} slices of {} bytes as {purpose:?}", text.len());
            let Finished::Visit(visit, conn) = fetch.finish(Time::ZERO) else { panic!("a visit") };
            assert_eq!((visit.facts.outcome, visit.facts.truncated, conn.is_some()), (Outcome::Ok, None, true));
        }
        // An ordinary page is read at once.
        let mut fetch = fetch("http://h/", Purpose::Page, |_| {});
        assert_eq!(slices(&mut fetch, &answer("", page.get(..60_000).unwrap_or_default().as_bytes())), 1);
    }

    #[test]
    fn a_fault_of_ours_is_the_fate_of_one_page() {
        let lane = LaneId(7);
        let mut fetch = fetch("http://h/", Purpose::Page, |_| {});
        fetch.guarded(|_, _| panic!("a fault"));
        assert!(matches!(fetch.step(), Step::Done));
        let Finished::Visit(visit, None) = fetch.finish(Time::ZERO) else {
            panic!("a fault gives a visit, and no connection that would be used again");
        };
        assert_eq!((visit.facts.outcome, visit.message.slot), (Outcome::Failed, Some((lane, 3))));
        assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(ErrorKind::Internal));
    }
}

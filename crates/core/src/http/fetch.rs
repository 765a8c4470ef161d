//! [`Fetch`]: one job on one connection, from the request to the visit. Every engine drives it.
//!
//! An engine does three things: on [`Step::Write`] write the bytes and report how many; on [`Step::Read`] wait, read
//! into its own buffer and feed the bytes; on [`Step::Done`] take the visit. TLS, redirects, codings and links are
//! invisible to it.
//!
//! Invariant: a waiting fetch owns no read buffer. A body is examined as it arrives and kept only if an output needs
//! it.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::budget::{Held, MemoryPart};
use crate::http::conn::request::RequestHead;
use crate::http::conn::{Conn, ExchangeEnd, Head, Receiver, Step, Version, Want, refused_by_proxy};
use crate::http::cookies::{self, CookieHeader, SetCookie};
use crate::outcome::{ErrorKind, Failure, Outcome, Truncated};
use crate::output::record::WallClock;
use crate::output::warc;
use crate::page::examine::{self, ExamineLimits, Examiner, Findings};
use crate::page::follow;
use crate::page::link::{Link, LinkKind, LinkList};
use crate::page::reader::{DeliveredBodies, HeldBody};
use crate::page::robots;
use crate::page::sitemap;
use crate::page::url::Url;
use crate::rules::Rules;
use crate::schedule::job::{Job, Purpose};
use crate::schedule::retry::{self, RetryAfter};
use crate::time::Time;
use crate::visit::{Errand, Facts, Headers, Visit, Wire};

/// Prefers pages; other types are recorded too.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// An ETag or Last-Modified longer than this is ignored: a shortened one would not work in a conditional request.
pub(crate) const MAX_VALIDATOR: usize = 1_024;

/// Attributes of one tag that are examined.
pub(crate) const MAX_ATTRIBUTES: usize = 1_024;

/// One job on one connection. A single box, so that an engine with ten thousand waiting fetches holds ten thousand
/// pointers.
pub struct Fetch(Box<Exchange>);

struct Exchange {
    conn: Conn,
    page: Page,
}

/// The result of a fetch.
pub enum Finished {
    /// A visit, and the connection if it can be reused.
    Visit(Box<Visit>, Option<Box<Conn>>),
    /// The kept-alive connection was closed before the host responded: repeat the job on a new connection. Does not
    /// count as an attempt.
    Again(Box<Job>),
}

/// Heads up to this length are not charged to the budget, ...
pub(crate) const FREE_HEAD: usize = 4 << 10;
/// ... and lists of links up to this size: nearly all pages.
const FREE_LINKS: usize = 32 << 10;

/// Times of the start of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchStart {
    /// When the worker started the job.
    pub started: Time,
    /// When TCP was connected; `None` on a kept-alive connection.
    pub connected: Option<Time>,
}

/// The state of the response. Parts that exist only once the response arrives are boxed, because most fetches are
/// waiting.
struct Page {
    job: Box<Job>,
    rules: Arc<Rules>,
    started: Time,
    /// [`Time::NEVER`] on a kept-alive connection.
    connected: Time,
    answer: Option<Box<Answer>>,
    wire: Option<Box<Kept>>,
}

/// The response, from the end of its head on.
struct Answer {
    head: Head,
    reader: Reader,
    /// The decoded body, where the rules ask for it.
    body: Option<Box<HeldBody>>,
    /// The large windows of decoders, charged to the budget.
    windows: Option<Held>,
    /// A long head and the links of the page, charged to the budget.
    found: Held,
    /// The bytes of the head among them.
    head_bytes: usize,
    /// Bytes that were fed and wait because the slice was used up, or because decoding waits for memory.
    rest: Option<Vec<u8>>,
}

/// The raw bytes of the response for an archive, charged to the budget.
struct Kept {
    bytes: Vec<u8>,
    held: Held,
}

/// The bytes of a robots.txt so far.
#[derive(Default)]
struct RobotsText {
    bytes: Vec<u8>,
}

/// The consumer of the body.
enum Reader {
    None,
    Page(Box<Examiner>),
    Robots(Box<RobotsText>),
    Sitemap(Box<SitemapRead>),
}

/// A sitemap so far, charged to the budget: fifty thousand URLs take megabytes.
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
    /// Starts a request for the job's link on a connection.
    pub fn new(job: Box<Job>, mut conn: Conn, rules: Arc<Rules>, start: FetchStart, now: Time) -> Self {
        let bytes = request_bytes(&job, &rules);
        conn.ask(bytes, start.started + rules.timeout, now);
        if rules.lease.has_ended(now) {
            conn.refuse(Failure::new(ErrorKind::Internal, "the lease on this host has ended"));
        }
        let keep = rules.keep_wire || rules.archive;
        let wire = keep.then(|| Box::new(Kept { bytes: Vec::new(), held: rules.budget.hold() }));
        let FetchStart { started, connected } = start;
        let connected = connected.unwrap_or(Time::NEVER);
        let page = Page { job, rules, started, connected, answer: None, wire };
        Self(Box::new(Exchange { conn, page }))
    }

    pub fn step(&mut self) -> Step<'_> {
        let Exchange { conn, page } = &mut *self.0;
        if matches!(conn.step(), Step::Done) && !page.reserve_links() {
            return Step::Pause;
        }
        conn.step()
    }

    pub fn wrote(&mut self, n: usize, now: Time) {
        self.guarded(|conn, page| {
            let was_sending = conn.is_sending();
            conn.wrote(n, now);
            if was_sending && !conn.is_sending() {
                page.job.report_sent(now);
            }
        });
    }

    pub fn feed(&mut self, bytes: &[u8], now: Time) {
        self.read(bytes, now);
        self.hold(now);
    }

    /// Processes some of the bytes and keeps the rest for [`Fetch::resume`].
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

    /// True if it paused only to yield to other fetches and can continue at once.
    pub fn is_yielding(&self) -> bool {
        self.0.page.answer.as_ref().is_some_and(|answer| answer.rest.is_some()) && !self.0.conn.awaits_memory()
    }

    /// The host closed its side of the connection.
    pub fn closed(&mut self, now: Time) {
        self.guarded(|conn, page| conn.closed(now, page));
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure) {
        self.guarded(|conn, page| conn.broke(failure, page));
    }

    /// A panic while a response is processed must not kill the worker: it becomes the outcome of this page.
    fn guarded(&mut self, read: impl FnOnce(&mut Conn, &mut Page)) {
        let Exchange { conn, page } = &mut *self.0;
        if catch_unwind(AssertUnwindSafe(|| read(conn, page))).is_err() {
            page.forget_body();
            conn.broke(Failure::new(ErrorKind::Internal, "a fault in Argiope while it read this answer"), page);
        }
    }

    /// When to call [`Fetch::expire`] if nothing else happens before.
    pub fn deadline(&self) -> Time {
        self.0.conn.deadline()
    }

    pub fn expire(&mut self, now: Time) {
        self.guarded(|conn, page| conn.expire(now, page));
    }

    /// After [`Step::Pause`]: continues with kept input, and resumes reading if the budget allows. Returns whether it
    /// does.
    pub fn resume(&mut self, now: Time) -> bool {
        if let Some(rest) = self.0.page.answer.as_mut().and_then(|answer| answer.rest.take()) {
            self.0.conn.hold(false, now);
            self.read(&rest, now);
        }
        self.hold(now)
    }

    /// Pauses the connection while the budget or the slice is used up. Returns whether reading continues.
    fn hold(&mut self, now: Time) -> bool {
        let yields = self.is_yielding();
        let awaits_memory = self.0.conn.awaits_memory();
        let Page { wire, answer, .. } = &mut self.0.page;
        let overdraws = answer.as_ref().and_then(|answer| answer.windows.as_ref()).is_some_and(Held::overdraws);
        let may_head_grow = self.0.conn.may_head_grow();
        let (mut of_reader, mut of_body, mut of_links) = (None, None, None);
        if let Some(Answer { reader, body, found, .. }) = answer.as_deref_mut() {
            of_links = (found.bytes() > 0).then_some(found);
            of_reader = if let Reader::Sitemap(read) = reader { Some(&mut read.held) } else { None };
            of_body = body.as_mut().map(|body| &mut body.held);
        }
        let of_wire = wire.as_mut().map(|kept| &mut kept.held);
        let mut all = of_wire.into_iter().chain(of_reader).chain(of_body).chain(of_links).peekable();
        // All belong to the same response: if one may overdraw the budget, so may the others.
        let may_grow = overdraws || all.peek().is_none() || all.any(Held::may_grow);
        let moves = !yields && !awaits_memory && may_head_grow && may_grow;
        self.0.conn.hold(!moves, now);
        moves
    }

    pub fn job(&self) -> &Job {
        &self.0.page.job
    }

    /// Returns the result, after [`Step::Done`].
    pub fn finish(self, now: Time) -> Finished {
        let Exchange { mut conn, page } = *self.0;
        let end = conn.end();
        if end.stale && end.failure.is_some() && page.answer.is_none() {
            return Finished::Again(page.job);
        }
        let (reusable, peer) = (end.reusable, conn.peer);
        let insecure = conn.is_tls() && page.rules.insecure;
        // What is needed to build a visit after a panic; cloned beforehand because it is little.
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

/// The request as sent: a function of job and rules, so it does not have to be stored.
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

/// The request without the user's own headers, cookies and proxy login: archives are published.
fn open_request<'a>(job: &'a Job, rules: &'a Rules) -> RequestHead<'a> {
    let known = job.rare.as_ref().and_then(|rare| rare.conditional.as_ref());
    RequestHead {
        url: job.link.url.as_ref(),
        user_agent: &rules.user_agent,
        accept: ACCEPT,
        extra: &[],
        etag: known.and_then(|known| known.etag.as_deref()).filter(|etag| etag.len() <= MAX_VALIDATOR),
        last_modified: known
            .and_then(|known| known.last_modified.as_deref())
            .filter(|date| date.len() <= MAX_VALIDATOR),
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
                    assets: self.rules.assets,
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
        // The body of a redirect is not decoded, and read only if an archive needs it.
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
        let body = body.then(|| Box::new(HeldBody::new(self.rules.budget.hold())));
        // The field index and the copy for the visit are about as long as the head itself.
        let head_bytes = if head.raw().len() > FREE_HEAD { head.raw().len() * 2 } else { 0 };
        let mut found = self.rules.budget.hold_for(MemoryPart::Pages);
        found.resize(head_bytes);
        let head = head.clone();
        self.answer = Some(Box::new(Answer { head, reader, body, windows: None, found, head_bytes, rest: None }));
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
            Reader::Page(examiner) => {
                examiner.feed(decoded);
                let links = examiner.weight();
                if links > FREE_LINKS {
                    answer.found.resize(answer.head_bytes + links);
                }
            }
            Reader::Robots(text) => {
                let bytes = &mut text.bytes;
                // One byte above the limit distinguishes a file that ends there from a longer one.
                let room = (robots::MAX_ROBOTS_BYTES + 1).saturating_sub(bytes.len());
                bytes.extend_from_slice(decoded.get(..room).unwrap_or(decoded));
            }
            Reader::Sitemap(reader) => reader.feed(decoded),
        }
    }

    fn hold_head(&self) -> Option<Held> {
        Some(self.rules.budget.hold_for(MemoryPart::Heads))
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let Some(answer) = &mut self.answer else { return true };
        let windows = answer.windows.get_or_insert_with(|| self.rules.budget.hold_for(MemoryPart::Windows));
        if windows.try_grow(bytes) {
            return true;
        }
        // One fetch at a time may exceed the budget, with all that it holds.
        let of_reader = if let Reader::Sitemap(read) = &answer.reader { Some(&read.held) } else { None };
        let of_body = answer.body.as_ref().map(|body| &body.held);
        let mut others = self.wire.iter().map(|kept| &kept.held).chain(of_reader).chain(of_body);
        let exceeds = others.any(Held::overdraws) || windows.overdraw();
        if exceeds {
            windows.grow(bytes);
        }
        exceeds
    }

    fn unpacked(&self) -> Option<u64> {
        match &self.answer.as_ref()?.reader {
            Reader::Sitemap(read) => Some(read.reader.unpacked()),
            Reader::None | Reader::Page(_) | Reader::Robots(_) => None,
        }
    }
}

impl Page {
    /// Charges the links of a complete page to the budget before they are resolved: a long base URL turns a little
    /// markup into megabytes. False if they do not fit now.
    fn reserve_links(&mut self) -> bool {
        let Some(answer) = &mut self.answer else { return true };
        let Reader::Page(examiner) = &answer.reader else { return true };
        let resolved = examiner.resolved_weight();
        if resolved <= FREE_LINKS {
            return true;
        }
        // All resolved links, and those of them that are followed.
        let needed = resolved.min(examine::MAX_RESOLVED) + resolved.min(follow::MAX_FOLLOW_BYTES);
        let more = needed.saturating_sub(usize::try_from(answer.found.bytes()).unwrap_or(usize::MAX));
        if more == 0 || answer.found.try_grow(more) {
            return true;
        }
        let of_body = answer.body.as_ref().map(|body| &body.held);
        let mut others = self.wire.iter().map(|kept| &kept.held).chain(of_body).chain(&answer.windows);
        let exceeds = others.any(Held::overdraws) || answer.found.overdraw();
        if exceeds {
            answer.found.grow(more);
        }
        exceeds
    }

    /// Detaches the consumer of the body.
    fn forget_body(&mut self) {
        if let Some(answer) = &mut self.answer {
            answer.reader = Reader::None;
            answer.body = None;
        }
    }

    /// Builds the visit: facts of the exchange first, then what head and body say, if a head arrived.
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
        let Some(Answer { head, reader, body, mut found, .. }) = answer.map(|answer| *answer) else {
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
        let bytes = visit.heap_bytes();
        if bytes > FREE_LINKS {
            found.resize(bytes);
            visit.message.held = Some(found);
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
    facts.odd.header_dropped = head.has_dropped_fields;
    facts.odd.header_control = head.has_controls;
    facts.etag = validator(head.get("etag"));
    facts.last_modified = validator(head.get("last-modified"));
    match head.get("retry-after").and_then(|value| retry::asked(value, head.get("date"))) {
        Some(RetryAfter::Wait(wait)) => message.retry_after = Some(wait),
        Some(RetryAfter::Until(moment)) => message.retry_at = Some(moment),
        None => {}
    }
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

/// Passes the body to the content readers, and delivers it if the rules ask for it.
fn note_content(visit: &mut Visit, head: &Head, body: Option<Box<HeldBody>>, rules: &Rules) {
    let delivers = rules.bodies.delivered != DeliveredBodies::None && visit.is_page();
    let (content_type, charset) = (visit.findings.content_type.as_deref(), visit.findings.charset);
    let mut content = None;
    let body = body.and_then(|body| {
        let held = rules.budget.hold();
        content = rules.bodies.read(&visit.link.url, head.status, content_type, charset, &body, held);
        rules.bodies.delivers(content_type).then_some(body)
    });
    // Headers are delivered even without the body.
    visit.body = delivers.then(|| {
        let mut body = body.unwrap_or_else(|| Box::new(HeldBody::new(rules.budget.hold())));
        body.headers = headers(head);
        body
    });
    visit.findings.content = content;
}

/// Encodes the exchange for the archive.
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
        compression: rules.archive_compression,
    };
    warc::WarcExchange::encode(&source, rules.budget.hold())
}

/// The values of `Location`.
fn locations(head: &Head) -> impl Iterator<Item = &[u8]> {
    head.get_all("location").map(<[u8]>::trim_ascii).filter(|value| !value.is_empty())
}

fn is_redirect(head: &Head) -> bool {
    (300..400).contains(&head.status) && head.status != 304 && locations(head).next().is_some()
}

/// Maps the status to an outcome. A redirect becomes a new link with one redirect less, judged like any link. A 304 is
/// an answer only to a conditional request.
fn outcome(visit: &mut Visit, head: &Head, conditional: bool, rules: &Rules) -> Outcome {
    match head.status {
        200..=299 => Outcome::Ok,
        304 if conditional => Outcome::NotModified,
        304 => Outcome::HttpError,
        300..=399 if is_redirect(head) => {
            let mut locations = locations(head);
            let first = locations.next().unwrap_or_default();
            if locations.any(|other| other != first) {
                // An intermediary may have followed the other one.
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
    findings.links_cut = examined.cut.saturating_add(examined.too_long);
    findings.noindex = directives.noindex;
    findings.nofollow = directives.nofollow;
    let is_searched = (200..300).contains(&head.status);
    if is_searched {
        findings.facts = examined.facts;
        follow::links(visit, &examined.links, directives.nofollow, rules);
    }
    if rules.with_links {
        visit.findings.all_links = Some(Box::new(examined.links.clone()));
    }
    if is_searched {
        // A long base URL turns a little markup into very many bytes, and visits queue up.
        let dropped = examined.links.truncate(follow::MAX_FOLLOW_BYTES);
        let cut = visit.findings.links_cut.max(u32::try_from(dropped).unwrap_or(u32::MAX));
        (visit.findings.links_cut, visit.findings.edges) = (cut, Some(Box::new(examined.links)));
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

/// Which URLs a sitemap may list: those of its own site, and of the host whose robots.txt names it.
fn bounds(link: &Link) -> sitemap::SitemapBounds {
    let vouched = link.via.iter().map(|via| Box::from(via.host())).collect();
    sitemap::SitemapBounds { vouched, ..sitemap::SitemapBounds::default() }
}

/// True if a `Content-Range` covers the whole resource, as in `bytes 0-99/100`.
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

fn validator(value: Option<&[u8]>) -> Option<Box<str>> {
    text(value.filter(|value| value.len() <= MAX_VALIDATOR))
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

    /// Feeds a response at once and returns in how many slices it was processed.
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
        // An ordinary page is processed in one slice.
        let mut fetch = fetch("http://h/", Purpose::Page, |_| {});
        assert_eq!(slices(&mut fetch, &answer("", page.get(..60_000).unwrap_or_default().as_bytes())), 1);
    }

    /// The visit that results from a response after which the connection is closed.
    fn visit(purpose: Purpose, response: &[u8]) -> Visit {
        let mut fetch = fetch("http://h/map.xml", purpose, |_| {});
        slices(&mut fetch, response);
        fetch.closed(Time::ZERO);
        let Finished::Visit(visit, _) = fetch.finish(Time::ZERO) else { panic!("a visit") };
        *visit
    }

    #[test]
    fn long_texts_of_a_server_are_left_out_or_cut() {
        let long = "x".repeat(200_000);
        let head = |fields: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nhi");
        let fields = format!("ETag: \"{long}\"\r\nContent-Type: text/{}\r\n", "x".repeat(40_000));
        let page = visit(Purpose::Page, head(&fields).as_bytes());
        assert_eq!((page.facts.outcome, page.facts.etag), (Outcome::Ok, None));
        assert!(page.findings.content_type.is_none_or(|name| name.len() <= 255));
        let page = visit(Purpose::Page, head("ETag: \"a\"\r\nLast-Modified: today\r\n").as_bytes());
        assert_eq!((page.facts.etag.as_deref(), page.facts.last_modified.as_deref()), (Some("\"a\""), Some("today")));
        let coded = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {long}\r\n\r\n");
        let failure = visit(Purpose::Page, coded.as_bytes()).facts.error.expect("a failure");
        assert_eq!(failure.kind, ErrorKind::Decode);
        assert!(failure.message.len() < 200, "{} bytes", failure.message.len());
        assert!(Failure::new(ErrorKind::Tls, long).message.len() < 1_010);
    }

    #[test]
    fn large_windows_wait_for_the_budget_before_they_are_allocated() {
        let budget = crate::budget::Budget::new(10 << 20);
        // A zstd frame with a window of 8 MiB and one raw block of two bytes, which is the last one.
        let body = b"\x28\xb5\x2f\xfd\x00\x68\x11\x00\x00hi";
        let start = |coding: &str| {
            let budget = Arc::clone(&budget);
            let mut fetch = fetch("http://h/", Purpose::Page, |rules| rules.budget = budget);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 100\r\n\r\n");
            fetch.feed(&[head.as_bytes(), body, &body[..5]].concat(), Time::ZERO);
            fetch
        };
        let mut first = start("zstd");
        assert!(budget.held() >= 8 << 20, "{}", budget.held());
        assert!(matches!(first.step(), Step::Read));
        let mut second = start("zstd");
        assert!(matches!(second.step(), Step::Read), "one may exceed the budget");
        let held = budget.held();
        let mut others: Vec<Fetch> = (0..20).map(|_| start("zstd")).collect();
        assert_eq!(budget.held(), held, "the others allocate nothing");
        for other in &mut others {
            assert!(matches!(other.step(), Step::Pause) && !other.is_yielding());
            assert!(!other.resume(Time::ZERO));
        }
        drop((first, second));
        assert_eq!(budget.held(), 0);
        assert!(others.iter_mut().filter_map(|other| other.resume(Time::ZERO).then_some(())).count() == 2);
        drop(others);
        // Windows of ordinary size are not charged.
        let mut small = fetch("http://h/", Purpose::Page, |rules| rules.budget = Arc::clone(&budget));
        small.feed(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\n\x0b", Time::ZERO);
        assert!(matches!(small.step(), Step::Read));
    }

    #[test]
    fn a_retry_after_that_is_a_date_needs_our_clock_only_without_a_date() {
        let when = "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n";
        let run = |fields: &str| {
            let response = format!("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n{fields}\r\n");
            let message = visit(Purpose::Page, response.as_bytes()).message;
            (message.retry_after.map(|wait| wait.as_secs()), message.retry_at)
        };
        assert_eq!(run(&format!("{when}Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n")), (Some(60), None));
        assert_eq!(run(when), (None, Some(784_111_837)));
        assert_eq!(run("Retry-After: 7\r\n"), (Some(7), None));
    }

    #[test]
    fn a_compressed_sitemap_that_breaks_keeps_what_came_before() {
        use std::io::Write as _;
        // Poorly compressible numbers, so that the compressed form can be cut in its middle.
        let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let urls: String = (0..5_000).map(|n| format!("<url><loc>http://h/{}</loc></url>", number(n))).collect();
        let text = format!("<?xml version='1.0'?><urlset>{urls}</urlset>");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text.as_bytes()).expect("memory takes all");
        let packed = encoder.finish().expect("memory takes all");
        let (half, mut broken) = (packed.get(..packed.len() / 2).unwrap_or_default(), packed.clone());
        broken.iter_mut().skip(packed.len() / 2).take(400).for_each(|byte| *byte = 0xff);
        for coding in ["", "Content-Encoding: gzip\r\n"] {
            for (body, length) in [(half, packed.len()), (half, half.len()), (&broken, broken.len())] {
                let head = format!("HTTP/1.1 200 OK\r\n{coding}Content-Length: {length}\r\n\r\n");
                let visit = visit(Purpose::Sitemap, &[head.as_bytes(), body].concat());
                let Some(Errand::Sitemap(sitemap, _)) = visit.message.errand.map(|errand| *errand) else {
                    panic!("no sitemap: {:?}", visit.facts.error);
                };
                assert!(sitemap.entries.len() > 1_000, "{coding:?}: {} entries", sitemap.entries.len());
            }
        }
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

//! [`Page`]: the state of one response, fed by the connection of HTTP/1.1 or by a stream of HTTP/2.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::FetchStart;
use super::result::{is_redirect, text};
use crate::budget::{BudgetCharge, MemoryPart};
use crate::http::conn::request::RequestHead;
use crate::http::conn::{Conn, ExchangeEnd, Head, Receiver, TlsInfo, Want};
use crate::http::cookies::CookieHeader;
use crate::http::hooks::{ResponseStart, call_closure};
use crate::outcome::{ErrorKind, Failure, Outcome};
use crate::page::custom_request::Method;
use crate::page::examine::{self, ExamineLimits, Examiner};
use crate::page::follow;
use crate::page::link::Link;

use crate::page::reader::{DeliveredBodies, HeldBody};
use crate::page::robots;
use crate::page::sitemap;
use crate::rules::Rules;
use crate::schedule::job::{Job, LaneHttp, Purpose};
use crate::time::Time;
use crate::visit::Visit;

/// The value of `Accept`. It prefers pages, but other types are recorded too.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// An ETag or Last-Modified longer than this is ignored: a shortened one would not work in a conditional request.
pub(crate) const MAX_VALIDATOR: usize = 1_024;

/// Limit on the attributes of one tag that are examined.
pub(crate) const MAX_ATTRIBUTES: usize = 1_024;

/// Heads up to this length are not charged to the budget.
pub(crate) const FREE_HEAD: usize = 4 << 10;
/// Lists of links up to this size are not charged to the budget. The limit is low, because hundreds of fetches may hold
/// such lists at the same time.
pub(super) const FREE_LINKS: usize = 4 << 10;

/// The state of the response. Parts that exist only once the response arrives are boxed, because most fetches are
/// waiting.
pub(in crate::http) struct Page {
    pub(super) job: Box<Job>,
    pub(super) rules: Arc<Rules>,
    pub(super) started: Time,
    /// [`Time::NEVER`] on a kept-alive connection.
    pub(super) connected: Time,
    pub(super) answer: Option<Box<Answer>>,
    pub(super) wire: Option<Box<RawCapture>>,
}

/// The response, from the end of its head on.
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) reader: Reader,
    /// The decoded body, if the rules ask for it.
    pub(super) body: Option<Box<HeldBody>>,
    /// The large windows of decoders, charged to the budget.
    windows: Option<BudgetCharge>,
    /// A long head and the links of the page, charged to the budget.
    pub(super) found: BudgetCharge,
    /// The bytes of the head within `found`.
    head_bytes: usize,
    /// The response hook did not want the body.
    pub(super) is_stopped: bool,
    /// The response hook panicked.
    pub(super) panic: Option<Failure>,
    /// Bytes that were fed and wait because the slice was used up, or because decoding waits for memory.
    rest: Option<Box<HeldRest>>,
}

/// Input that waits to be processed, charged to the budget.
struct HeldRest {
    bytes: Vec<u8>,
    charge: BudgetCharge,
}

/// The raw bytes of the response for an archive, charged to the budget.
pub(super) struct RawCapture {
    pub(super) bytes: Vec<u8>,
    pub(super) charge: BudgetCharge,
}

/// The bytes of a robots.txt so far.
#[derive(Default)]
pub(super) struct RobotsText {
    pub(super) bytes: Vec<u8>,
}

/// The consumer of the body.
pub(super) enum Reader {
    None,
    Page(Box<Examiner>),
    Robots(Box<RobotsText>),
    Sitemap(Box<SitemapRead>),
}

/// A sitemap so far, charged to the budget: fifty thousand URLs take megabytes.
pub(super) struct SitemapRead {
    pub(super) reader: sitemap::SitemapReader,
    pub(super) charge: BudgetCharge,
    charged: usize,
}

impl SitemapRead {
    fn feed(&mut self, decoded: &[u8]) {
        self.reader.feed(decoded);
        let weight = self.reader.weight();
        self.charge.grow(weight.saturating_sub(self.charged));
        self.charged = self.charged.max(weight);
    }
}

impl Page {
    pub(in crate::http) fn new(job: Box<Job>, rules: Arc<Rules>, start: FetchStart) -> Self {
        let keep = rules.keep_wire || rules.archive;
        let wire = keep.then(|| Box::new(RawCapture { bytes: Vec::new(), charge: rules.budget.hold() }));
        let FetchStart { started, connected } = start;
        let connected = connected.unwrap_or(Time::NEVER);
        Self { job, rules, started, connected, answer: None, wire }
    }

    pub(in crate::http) fn job(&self) -> &Job {
        &self.job
    }

    pub(in crate::http) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The head of the request, in HTTP/1.1 syntax.
    pub(in crate::http) fn request(&self) -> Vec<u8> {
        request_bytes(&self.job, &self.rules)
    }

    /// Whether the request is HEAD: its response has no body.
    pub(in crate::http) fn asks_head(&self) -> bool {
        asks_head(&self.job, &self.rules)
    }

    /// The body of the request; empty if it has none.
    pub(in crate::http) fn request_body(&self) -> &[u8] {
        self.job.link.request.as_ref().map_or(&[], |request| &request.body)
    }

    /// When the whole fetch must be complete.
    pub(in crate::http) fn deadline(&self) -> Time {
        self.started + self.rules.timeout
    }

    /// Why the request must not be sent; `None` if it may be.
    pub(in crate::http) fn refusal(&self, now: Time) -> Option<Failure> {
        let ended = || Failure::new(ErrorKind::Internal, "the lease on this host has ended");
        self.rules.lease.has_ended(now).then(ended)
    }

    pub(in crate::http) fn set_http(&mut self, http: LaneHttp) {
        self.job.http = http;
    }

    /// Whether the head of the response was received.
    pub(in crate::http) fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether input is kept because its slice was used up, or because decoding waits for memory.
    pub(in crate::http) fn has_rest(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.rest.is_some())
    }

    /// Keeps input to be processed later. It may be empty: the decoder may have more output for earlier input.
    pub(in crate::http) fn set_rest(&mut self, rest: &[u8]) {
        self.take_rest();
        self.extend_rest(rest);
    }

    pub(in crate::http) fn extend_rest(&mut self, bytes: &[u8]) {
        if let Some(answer) = &mut self.answer {
            let budget = &self.rules.budget;
            let empty = || Box::new(HeldRest { bytes: Vec::new(), charge: budget.hold_for(MemoryPart::Bodies) });
            let rest = answer.rest.get_or_insert_with(empty);
            rest.bytes.extend_from_slice(bytes);
            rest.charge.resize(rest.bytes.capacity());
        }
    }

    pub(in crate::http) fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.answer.as_mut()?.rest.take().map(|rest| rest.bytes)
    }

    /// Whether the memory budget has room for more of the body.
    pub(in crate::http) fn may_read(&mut self, conn: &mut Conn) -> bool {
        if conn.awaits_memory() || !conn.may_head_grow() {
            return false;
        }
        let Self { wire, answer, .. } = self;
        let has_overdraft =
            answer.as_ref().and_then(|answer| answer.windows.as_ref()).is_some_and(BudgetCharge::has_overdraft);
        let (mut of_reader, mut of_body, mut of_links) = (None, None, None);
        if let Some(Answer { reader, body, found, .. }) = answer.as_deref_mut() {
            of_links = (found.bytes() > 0).then_some(found);
            of_reader = if let Reader::Sitemap(read) = reader { Some(&mut read.charge) } else { None };
            of_body = body.as_mut().map(|body| &mut body.charge);
        }
        let of_wire = wire.as_mut().map(|kept| &mut kept.charge);
        let mut all = of_wire.into_iter().chain(of_reader).chain(of_body).chain(of_links).peekable();
        // They all belong to the same response: if one of them has the overdraft, the others may grow too.
        has_overdraft || all.peek().is_none() || all.any(BudgetCharge::may_grow)
    }

    /// Whether this response is the one that may exceed the budget.
    pub(in crate::http) fn has_overdraft(&self) -> bool {
        let of_wire = self.wire.as_ref().map(|kept| &kept.charge);
        let Some(Answer { reader, body, windows, found, .. }) = self.answer.as_deref() else {
            return of_wire.is_some_and(BudgetCharge::has_overdraft);
        };
        let of_reader = if let Reader::Sitemap(read) = reader { Some(&read.charge) } else { None };
        let of_body = body.as_ref().map(|body| &body.charge);
        let mut all = of_wire.into_iter().chain(of_reader).chain(of_body).chain(windows).chain([found]);
        all.any(BudgetCharge::has_overdraft)
    }

    /// Counts the times of the fetch from now on. It waited for the handshake of another job's connection, which says
    /// nothing about how fast the host answers.
    pub(in crate::http) fn restart(&mut self, now: Time) {
        self.started = now;
    }

    /// Processes a part of the response. A panic must not end the worker: it becomes the failure of this page.
    pub(in crate::http) fn guarded(&mut self, conn: &mut Conn, read: impl FnOnce(&mut Conn, &mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| read(conn, self))).is_err() {
            self.forget_body();
            conn.broke(Failure::new(ErrorKind::Internal, "a fault in Argiope while it read this answer"), self);
        }
    }

    pub(in crate::http) fn into_job(self) -> Box<Job> {
        self.job
    }

    /// The job, to be sent with another version of HTTP.
    pub(in crate::http) fn into_job_for(mut self, http: LaneHttp) -> Box<Job> {
        self.job.http = http;
        self.job
    }

    /// Counts one more time that the request was not processed. Returns whether it may be sent again without counting
    /// as an attempt.
    pub(in crate::http) fn may_resend(&mut self, most: u8) -> bool {
        self.job.unprocessed = self.job.unprocessed.saturating_add(1);
        self.job.unprocessed <= most
    }

    /// The visit of a job whose connection failed before the request was sent.
    pub(in crate::http) fn into_failed(self, failure: Failure, peer: Option<IpAddr>, now: Time) -> Box<Visit> {
        let mut visit = Visit::failed(*self.job, failure, self.started, now);
        visit.facts.ip = peer;
        Box::new(visit)
    }

    /// The visit that results from the end of the exchange.
    pub(in crate::http) fn finish(
        self,
        end: ExchangeEnd,
        peer: Option<IpAddr>,
        is_tls: bool,
        tls_info: impl FnOnce() -> Option<TlsInfo>,
        now: Time,
    ) -> Box<Visit> {
        let insecure = is_tls && self.rules.insecure;
        // A visit after a panic is built from these. They are small, so they are cloned beforehand.
        let (link, purpose, slot) = (self.job.link.clone(), self.job.purpose.clone(), (self.job.lane, self.job.slot));
        let mut visit = catch_unwind(AssertUnwindSafe(|| self.into_visit(end, peer, now))).unwrap_or_else(|_| {
            let mut visit = Visit::bare(link, purpose, Outcome::Failed, now);
            visit.message.slot = Some(slot);
            visit.link.tries = visit.link.tries.saturating_add(1);
            visit.facts.error =
                Some(Failure::new(ErrorKind::Internal, "a fault in Argiope while it examined this page"));
            visit
        });
        visit.facts.insecure = insecure;
        if let Some(wire) = &mut visit.wire {
            wire.tls_info = tls_info();
        }
        Box::new(visit)
    }

    /// Charges the links of a complete page to the budget before they are resolved: a long base URL turns a little
    /// markup into megabytes. False if they do not fit now.
    pub(in crate::http) fn reserve_links(&mut self) -> bool {
        let Some(answer) = &mut self.answer else { return true };
        let Reader::Page(examiner) = &answer.reader else { return true };
        let resolved = examiner.resolved_weight();
        if resolved <= FREE_LINKS {
            return true;
        }
        // All resolved links, and the copy of those that are followed.
        let needed = resolved.min(examine::MAX_RESOLVED) + resolved.min(follow::MAX_FOLLOW_BYTES);
        let more = needed.saturating_sub(usize::try_from(answer.found.bytes()).unwrap_or(usize::MAX));
        if more == 0 || answer.found.try_grow(more) {
            return true;
        }
        let of_body = answer.body.as_ref().map(|body| &body.charge);
        let mut others = self.wire.iter().map(|kept| &kept.charge).chain(of_body).chain(&answer.windows);
        let exceeds = others.any(BudgetCharge::has_overdraft) || answer.found.try_overdraft();
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
}

/// The request as sent: a function of job and rules, so it does not have to be stored.
pub(super) fn request_bytes(job: &Job, rules: &Rules) -> Vec<u8> {
    let url = job.link.url.as_ref();
    let request = job.link.request.as_deref();
    RequestHead {
        content_length: request
            .filter(|request| !matches!(request.method, Method::Get | Method::Head) || !request.body.is_empty())
            .map(|request| request.body.len()),
        extra: &user_headers(job, rules),
        cookie: job.extras.as_ref().and_then(|extras| extras.cookie.as_ref()).map(CookieHeader::as_bytes),
        proxy: rules.proxies.of(url).filter(|proxy| proxy.relays(url)).map(|proxy| &**proxy),
        ..open_request(job, rules)
    }
    .to_bytes()
}

/// Whether the request is HEAD. Later attempts are GET, because the server may answer HEAD wrongly.
fn asks_head(job: &Job, rules: &Rules) -> bool {
    match job.link.request.as_ref().map_or(Method::Get, |request| request.method) {
        Method::Head => true,
        Method::Get => rules.head_first && job.link.tries == 0 && job.purpose == Purpose::Page,
        _ => false,
    }
}

/// The user's own headers: those of the request hook come first, then those of the request, then those of the crawl. Of
/// several with one name the first counts.
fn user_headers<'a>(job: &'a Job, rules: &'a Rules) -> Vec<(&'a str, &'a str)> {
    let general = rules.headers_for(&job.link.url);
    let of_hook = job.extras.as_ref().map_or(&[][..], |extras| &extras.headers);
    let of_request = job.link.request.as_ref().map_or(&[][..], |request| &request.headers);
    if of_hook.is_empty() && of_request.is_empty() {
        return general;
    }
    let mut headers: Vec<(&str, &str)> = Vec::new();
    let own = of_hook.iter().chain(of_request).map(|(name, value)| (&**name, &**value));
    for (name, value) in own.chain(general) {
        if headers.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)) {
            headers.push((name, value));
        }
    }
    headers
}

/// The request without the user's own headers, body, cookies and proxy login, for archives, which may be published.
pub(super) fn open_request<'a>(job: &'a Job, rules: &'a Rules) -> RequestHead<'a> {
    let known = job.extras.as_ref().and_then(|extras| extras.conditional.as_ref());
    RequestHead {
        method: job.link.request.as_ref().map_or(Method::Get, |request| request.method),
        content_length: None,
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
        head_only: asks_head(job, rules),
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
                    anchors: self.rules.with_anchors || self.rules.link_filter.is_some(),
                };
                let kind = head.get("content-type");
                Reader::Page(Box::new(Examiner::new(&self.job.link.url, kind, caps)))
            }
            Purpose::Robots(_) if (200..300).contains(&status) => Reader::Robots(Box::default()),
            Purpose::Sitemap if (200..300).contains(&status) => {
                let reader = sitemap::SitemapReader::new(&self.job.link.url, bounds(&self.job.link));
                Reader::Sitemap(Box::new(SitemapRead { reader, charge: self.rules.budget.hold(), charged: 0 }))
            }
            Purpose::Robots(_) | Purpose::Sitemap => Reader::None,
        };
        // The body of a redirect is not decoded, and read only if an archive needs it.
        let reader = if is_redirect(head) { Reader::None } else { reader };
        let hook = self.rules.response_hook.as_ref().filter(|_| matches!(reader, Reader::Page(_)));
        let start = ResponseStart::new(&self.job.link, head);
        let wanted = hook.map_or(Ok(true), |hook| call_closure("on_response", || hook.wants_body(&start)));
        let is_stopped = wanted != Ok(true);
        let panic = wanted.err();
        let reader = if is_stopped { Reader::None } else { reader };
        let want = match &reader {
            Reader::None if is_stopped => Want::Nothing,
            Reader::None if self.wire.is_none() => Want::Nothing,
            Reader::Sitemap(_) => Want::UpTo(self.rules.max_size.max(sitemap::MAX_BYTES)),
            Reader::Robots(_) => Want::UpTo(robots::MAX_ROBOTS_BYTES as u64 + 1),
            Reader::None | Reader::Page(_) => Want::Body,
        };
        let body = matches!(reader, Reader::Page(_)) && {
            let declared = text(head.get("content-type"));
            let essence = declared.as_deref().map(|value| value.split(';').next().unwrap_or("").trim().to_lowercase());
            self.rules.bodies.should_hold(&self.job.link.url, status, essence.as_deref())
        };
        let body = body.then(|| {
            let charge = self.rules.budget.hold();
            // A body that is delivered stays with its consumer: a buffer larger than the body would waste memory.
            Box::new(match self.rules.bodies.delivered {
                DeliveredBodies::None => HeldBody::reusing(charge),
                _ => HeldBody::new(charge),
            })
        });
        // The field index and the copy for the visit are about as long as the head itself.
        let head_bytes = if head.raw().len() > FREE_HEAD { head.raw().len() * 2 } else { 0 };
        let mut found = self.rules.budget.hold_for(MemoryPart::Pages);
        found.resize(head_bytes);
        let head = head.clone();
        self.answer = Some(Box::new(Answer {
            head,
            reader,
            body,
            windows: None,
            found,
            head_bytes,
            rest: None,
            is_stopped,
            panic,
        }));
        want
    }

    fn wire(&mut self, raw: &[u8]) {
        if let Some(wire) = &mut self.wire {
            wire.bytes.extend_from_slice(raw);
            wire.charge.grow(raw.len());
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

    fn hold_head(&self) -> Option<BudgetCharge> {
        Some(self.rules.budget.hold_for(MemoryPart::Heads))
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let Some(answer) = &mut self.answer else { return true };
        let windows = answer.windows.get_or_insert_with(|| self.rules.budget.hold_for(MemoryPart::Windows));
        if windows.try_grow(bytes) {
            return true;
        }
        // One fetch at a time may exceed the budget, with everything that it holds.
        let of_reader = if let Reader::Sitemap(read) = &answer.reader { Some(&read.charge) } else { None };
        let of_body = answer.body.as_ref().map(|body| &body.charge);
        let mut others = self.wire.iter().map(|kept| &kept.charge).chain(of_reader).chain(of_body);
        let exceeds = others.any(BudgetCharge::has_overdraft) || windows.try_overdraft();
        if exceeds {
            windows.grow(bytes);
        }
        exceeds
    }

    fn unpacked(&self) -> Option<u64> {
        match &self.answer.as_ref()?.reader {
            Reader::Sitemap(read) => Some(read.reader.decompressed_bytes()),
            Reader::None | Reader::Page(_) | Reader::Robots(_) => None,
        }
    }
}

/// Which URLs a sitemap may list: those of its own site, and of the host whose robots.txt names it.
fn bounds(link: &Link) -> sitemap::SitemapBounds {
    let vouched = link.via.iter().map(|via| Box::from(via.host())).collect();
    sitemap::SitemapBounds { vouched, ..sitemap::SitemapBounds::default() }
}

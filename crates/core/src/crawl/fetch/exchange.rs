//! [`Exchange`]: one job and its response. The bytes come from an HTTP/1.1 connection or from a stream of HTTP/2.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::FetchStart;
use super::fields::{is_redirect, text};
use crate::base::budget::{BudgetCharge, MemoryPart};
use crate::base::custom_request::Method;
use crate::base::job::{CookieHeader, Job, LaneHttp, PartAccess, Purpose};
use crate::base::link::Link;
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::quota::SlowResponseQuota;
use crate::base::time::Time;
use crate::base::user_code::call_closure;
use crate::crawl::hooks::{BodyWriter, ResponseHook, ResponseStart};
use crate::crawl::marks::Mark;
use crate::crawl::rules::Rules;
use crate::crawl::visit::Visit;
use crate::http::conn::request::RequestHead;
use crate::http::conn::{Conn, ExchangeEnd, Head, Receiver, Step, TlsInfo, UNCHARGED_HEAD, Want};
use crate::http::h2;
use crate::page::examine::{self, Examiner};
use crate::page::follow;
use crate::page::reader::{DeliveredBodies, HeldBody};
use crate::page::robots;
use crate::page::sitemap;

/// The value of `Accept`. It prefers pages, but other types are recorded too.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// An ETag or Last-Modified longer than this is ignored: a shortened one would not work in a conditional request.
pub(crate) const MAX_VALIDATOR: usize = 1_024;

/// Lists of links up to this size are not charged to the budget. The limit is low, because hundreds of fetches may hold
/// such lists at the same time.
pub(super) const UNCHARGED_LINKS: usize = 4 << 10;

/// One job and its response so far. Parts that exist only once the response arrives are boxed, because most fetches are
/// waiting.
pub(in crate::crawl) struct Exchange {
    pub(super) job: Box<Job>,
    pub(super) rules: Arc<Rules>,
    pub(super) started: Time,
    /// When TCP was connected; [`Time::NEVER`] on a kept-alive connection.
    pub(super) connected: Time,
    /// `None` until the head of the response is complete.
    pub(super) response: Option<Box<ReceivedResponse>>,
    /// The raw bytes of the response, if an output needs them.
    pub(super) wire: Option<Box<RawCapture>>,
}

/// The response, once its head is complete.
pub(super) struct ReceivedResponse {
    pub(super) head: Head,
    pub(super) reader: Reader,
    /// The decoded body, if the rules require it.
    pub(super) body: Option<Box<HeldBody>>,
    /// The memory charge for large windows of decoders.
    window_charge: Option<BudgetCharge>,
    /// The memory charge for a long head and for the links of the page.
    pub(super) findings_charge: BudgetCharge,
    /// The part of `findings_charge` that is for the head.
    head_bytes: usize,
    /// The response hook refused the body, or it panicked.
    pub(super) is_body_refused: bool,
    /// Why a closure of the user failed: it panicked, or the body could not be written.
    pub(super) hook_failure: Option<Failure>,
    /// Where the hook wants the body to be written.
    pub(super) writer: Option<BodyWriter>,
    /// Set between the last byte and the visit.
    mark: Option<Mark>,
    /// Bytes that were fed and wait, because the decode slice was used up or because decoding waits for memory.
    rest: Option<Box<HeldRest>>,
}

/// Input that waits to be processed, charged to the budget.
struct HeldRest {
    bytes: Vec<u8>,
    charge: BudgetCharge,
}

/// The raw bytes of the response, charged to the budget.
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
    /// The largest weight of the reader so far, all of which is charged.
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

impl ReceivedResponse {
    /// Uses the writer of the body, if there is one. After an error it is not used again.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut BodyWriter) -> std::io::Result<()>) {
        let Some(writer) = &mut self.writer else { return };
        let written = call_closure("stream_body", || write(writer));
        let failure = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Failure::new(ErrorKind::Hook, format!("the body cannot be written: {error}")),
            Err(panic) => panic,
        };
        (self.writer, self.hook_failure) = (None, Some(failure));
    }
}

impl Exchange {
    pub(in crate::crawl) fn new(job: Box<Job>, rules: Arc<Rules>, start: FetchStart) -> Self {
        let needs_raw = (rules.keep_wire || rules.archive) && !is_document(&job);
        let wire = needs_raw.then(|| Box::new(RawCapture { bytes: Vec::new(), charge: rules.budget.hold() }));
        let FetchStart { started, connected } = start;
        let connected = connected.unwrap_or(Time::NEVER);
        Self { job, rules, started, connected, response: None, wire }
    }

    pub(in crate::crawl) fn job(&self) -> &Job {
        &self.job
    }

    pub(in crate::crawl) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The head of the request in HTTP/1.1 syntax.
    pub(in crate::crawl) fn request(&self) -> Vec<u8> {
        with_request(&self.job, &self.rules, |request| request.to_bytes())
    }

    /// The head of the request as a header block of HTTP/2.
    pub(in crate::crawl) fn request_block(&self) -> Vec<u8> {
        with_request(&self.job, &self.rules, |request| h2::request_block(self.job.link.url.is_https(), request))
    }

    /// Whether the request is HEAD; its response then has no body.
    pub(in crate::crawl) fn is_head_request(&self) -> bool {
        is_head_request(&self.job, &self.rules)
    }

    /// The body of the request; empty if it has none.
    pub(in crate::crawl) fn request_body(&self) -> &[u8] {
        self.job.link.request.as_ref().map_or(&[], |request| &request.body)
    }

    /// When the whole fetch must be complete.
    pub(in crate::crawl) fn deadline(&self) -> Time {
        self.started + self.rules.timeout
    }

    /// Why the request must not be sent; `None` if it may be.
    pub(in crate::crawl) fn refusal(&self, now: Time) -> Option<Failure> {
        let ended = || Failure::new(ErrorKind::Internal, "the lease on this host has ended");
        self.rules.lease.has_ended(now).then(ended)
    }

    pub(in crate::crawl) fn set_http(&mut self, http: LaneHttp) {
        self.job.http = http;
    }

    /// Whether the head of the response was received.
    pub(in crate::crawl) fn has_response(&self) -> bool {
        self.response.is_some()
    }

    /// Whether input is kept because the decode slice was used up, or because decoding waits for memory.
    pub(in crate::crawl) fn has_rest(&self) -> bool {
        self.response.as_ref().is_some_and(|response| response.rest.is_some())
    }

    /// Keeps input to be processed later. It may be empty: the decoder may have more output for earlier input.
    pub(in crate::crawl) fn set_rest(&mut self, rest: &[u8]) {
        self.take_rest();
        self.extend_rest(rest);
    }

    pub(in crate::crawl) fn extend_rest(&mut self, bytes: &[u8]) {
        if let Some(response) = &mut self.response {
            let budget = &self.rules.budget;
            let new_rest = || Box::new(HeldRest { bytes: Vec::new(), charge: budget.hold_for(MemoryPart::Bodies) });
            let rest = response.rest.get_or_insert_with(new_rest);
            rest.bytes.extend_from_slice(bytes);
            rest.charge.resize(rest.bytes.capacity());
        }
    }

    pub(in crate::crawl) fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.response.as_mut()?.rest.take().map(|rest| rest.bytes)
    }

    /// Whether the memory budget has room for more of the body. True if nothing of this response is charged.
    pub(in crate::crawl) fn may_read(&mut self, conn: &mut Conn) -> bool {
        if is_document(&self.job) {
            return true;
        }
        if conn.awaits_memory() || !conn.may_head_grow() {
            return false;
        }
        let Self { wire, response, .. } = self;
        let window_charge = response.as_ref().and_then(|response| response.window_charge.as_ref());
        let has_overdraft = window_charge.is_some_and(BudgetCharge::has_overdraft);
        let (mut reader_charge, mut body_charge, mut link_charge) = (None, None, None);
        if let Some(ReceivedResponse { reader, body, findings_charge, .. }) = response.as_deref_mut() {
            link_charge = (findings_charge.bytes() > 0).then_some(findings_charge);
            reader_charge = if let Reader::Sitemap(read) = reader { Some(&mut read.charge) } else { None };
            body_charge = body.as_mut().map(|body| &mut body.charge);
        }
        let wire_charge = wire.as_mut().map(|wire| &mut wire.charge);
        let charges = wire_charge.into_iter().chain(reader_charge).chain(body_charge).chain(link_charge);
        let mut charges = charges.peekable();
        // All these charges belong to the same response: if one of them has the overdraft, the others may grow too.
        has_overdraft || charges.peek().is_none() || charges.any(BudgetCharge::may_grow)
    }

    /// Whether this response is the one that may exceed the budget.
    pub(in crate::crawl) fn has_overdraft(&self) -> bool {
        let wire_charge = self.wire.as_ref().map(|wire| &wire.charge);
        let Some(response) = self.response.as_deref() else {
            return wire_charge.is_some_and(BudgetCharge::has_overdraft);
        };
        let ReceivedResponse { reader, body, window_charge, findings_charge, .. } = response;
        let reader_charge = if let Reader::Sitemap(read) = reader { Some(&read.charge) } else { None };
        let body_charge = body.as_ref().map(|body| &body.charge);
        let charges = wire_charge.into_iter().chain(reader_charge).chain(body_charge).chain(window_charge);
        charges.chain([findings_charge]).any(BudgetCharge::has_overdraft)
    }

    /// Measures the times of this fetch from now on. Before, the job waited for the handshake of another job's
    /// connection. That time says nothing about how fast the host responds.
    pub(in crate::crawl) fn restart(&mut self, now: Time) {
        self.started = now;
    }

    /// Processes a part of the response, as [`Self::catching_panics`] does, and marks it meanwhile. After the last part,
    /// the mark is kept until the visit is built.
    pub(in crate::crawl) fn process(&mut self, conn: &mut Conn, process: impl FnOnce(&mut Conn, &mut Self)) {
        let mark = self.begin_mark();
        self.catching_panics(conn, process);
        if let Some(response) = self.response.as_mut().filter(|_| matches!(conn.step(), Step::Done)) {
            response.mark = mark;
        }
    }

    fn begin_mark(&mut self) -> Option<Mark> {
        let kept = self.response.as_mut().and_then(|response| response.mark.take());
        kept.or_else(|| self.rules.marks.begin(&self.job.link, self.job.lane, self.rules.fingerprint_key))
    }

    /// Calls `process` with the connection. A panic must not end the worker: it becomes the failure of this page.
    pub(in crate::crawl) fn catching_panics(&mut self, conn: &mut Conn, process: impl FnOnce(&mut Conn, &mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| process(conn, self))).is_err() {
            self.forget_body();
            conn.broke(Failure::new(ErrorKind::Internal, "a bug in Argiope: it panicked on this response"), self);
        }
    }

    pub(in crate::crawl) fn into_job(self) -> Box<Job> {
        self.job
    }

    /// The job, to be sent with another version of HTTP.
    pub(in crate::crawl) fn into_job_for(mut self, http: LaneHttp) -> Box<Job> {
        self.job.http = http;
        self.job
    }

    /// Counts that the server did not process the request. Returns whether the request may be sent again without
    /// counting as an attempt: at most `max` times.
    pub(in crate::crawl) fn count_unprocessed(&mut self, max: u8) -> bool {
        self.job.unprocessed = self.job.unprocessed.saturating_add(1);
        self.job.unprocessed <= max
    }

    /// The visit of a job whose connection failed before the request was sent.
    pub(in crate::crawl) fn into_failed(self, failure: Failure, peer: Option<IpAddr>, now: Time) -> Box<Visit> {
        let mut visit = Visit::failed(*self.job, failure, self.started, now);
        visit.facts.ip = peer;
        Box::new(visit)
    }

    /// The visit that results from the end of the exchange.
    pub(in crate::crawl) fn finish(
        mut self,
        end: ExchangeEnd,
        peer: Option<IpAddr>,
        is_tls: bool,
        tls_info: impl FnOnce() -> Option<TlsInfo>,
        now: Time,
    ) -> Box<Visit> {
        let insecure = is_tls && self.rules.insecure;
        // Without a response there is nothing to process. The mark is removed when this function returns.
        let _mark = if self.response.is_some() { self.begin_mark() } else { None };
        // If building the visit panics, another one is built from these clones.
        let (link, purpose, slot) = (self.job.link.clone(), self.job.purpose.clone(), (self.job.lane, self.job.slot));
        let mut visit = catch_unwind(AssertUnwindSafe(|| self.into_visit(end, peer, now))).unwrap_or_else(|_| {
            let mut visit = Visit::with_outcome(link, purpose, Outcome::Failed, now);
            visit.for_keeper.slot = Some(slot);
            visit.link.tries = visit.link.tries.saturating_add(1);
            visit.facts.error = Some(Failure::new(ErrorKind::Internal, "a bug in Argiope: it panicked on this page"));
            visit
        });
        visit.facts.insecure = insecure;
        if let Some(wire) = &mut visit.wire {
            wire.tls_info = tls_info();
        }
        Box::new(visit)
    }

    /// Charges the links of a complete page to the budget before they are resolved: a long base URL turns a little
    /// markup into megabytes. Returns false if the budget has no room for them now.
    pub(in crate::crawl) fn reserve_links(&mut self) -> bool {
        let Some(response) = &mut self.response else { return true };
        let Reader::Page(examiner) = &response.reader else { return true };
        let resolved = examiner.resolved_weight();
        if resolved <= UNCHARGED_LINKS {
            return true;
        }
        // All resolved links, and the copy of those that are followed.
        let needed = resolved.min(examine::MAX_RESOLVED) + resolved.min(follow::MAX_FOLLOW_BYTES);
        let missing = needed.saturating_sub(usize::try_from(response.findings_charge.bytes()).unwrap_or(usize::MAX));
        if missing == 0 || response.findings_charge.try_grow(missing) {
            return true;
        }
        // One response at a time may exceed the budget, and a document that is in memory already.
        let body_charge = response.body.as_ref().map(|body| &body.charge);
        let mut others = self.wire.iter().map(|wire| &wire.charge).chain(body_charge).chain(&response.window_charge);
        let may_exceed = is_document(&self.job)
            || others.any(BudgetCharge::has_overdraft)
            || response.findings_charge.try_overdraft();
        if may_exceed {
            response.findings_charge.grow(missing);
        }
        may_exceed
    }

    /// Drops the consumer of the body, and the body received so far.
    fn forget_body(&mut self) {
        if let Some(response) = &mut self.response {
            response.reader = Reader::None;
            response.body = None;
        }
    }
}

/// Calls `use_head` with the head of the request as sent. It is computed from job and rules, so it does not have to be
/// stored.
pub(super) fn with_request<R>(job: &Job, rules: &Rules, use_head: impl FnOnce(&RequestHead<'_>) -> R) -> R {
    let url = job.link.url.as_ref();
    let request = job.link.request.as_deref();
    use_head(&RequestHead {
        content_length: request
            .filter(|request| !matches!(request.method, Method::Get | Method::Head) || !request.body.is_empty())
            .map(|request| request.body.len()),
        extra: &user_headers(job, rules),
        cookie: job.extras.as_ref().and_then(|extras| extras.cookie.as_ref()).map(CookieHeader::as_bytes),
        proxy: rules.proxies.of(url).filter(|proxy| proxy.relays(url)).map(|proxy| &**proxy),
        target: job.extras.as_ref().and_then(|extras| extras.target.as_deref()),
        ..public_request(job, rules)
    })
}

/// Whether the request is HEAD: because the link requires it, or for the first attempt with `head_first`. Later
/// attempts are GET, because some servers respond to HEAD wrongly.
fn is_head_request(job: &Job, rules: &Rules) -> bool {
    match job.link.request.as_ref().map_or(Method::Get, |request| request.method) {
        Method::Head => true,
        Method::Get => rules.head_first && job.link.tries == 0 && job.purpose == Purpose::Page,
        _ => false,
    }
}

/// The headers that the user sets: first those of the request hook, then those of the request, then those of the crawl.
/// A header of the hook replaces all headers of the request and of the crawl that have the same name. A header of the
/// request replaces those of the crawl.
fn user_headers<'a>(job: &'a Job, rules: &'a Rules) -> Vec<(&'a str, &'a str)> {
    let has_access = job.purpose.access() == PartAccess::SameOrigin;
    let crawl_headers = if has_access { rules.headers_for(&job.link.url) } else { Vec::new() };
    let hook_headers = job.extras.as_ref().map_or(&[][..], |extras| &extras.headers);
    let request_headers = job.link.request.as_ref().map_or(&[][..], |request| &request.headers);
    if hook_headers.is_empty() && request_headers.is_empty() {
        return crawl_headers;
    }
    let has = |headers: &[(Box<str>, Box<str>)], name: &str| {
        headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let as_text = |header: &'a (Box<str>, Box<str>)| (&*header.0, &*header.1);
    let request = request_headers.iter().map(as_text).filter(|(name, _)| !has(hook_headers, name));
    let is_replaced = |name: &str| has(hook_headers, name) || has(request_headers, name);
    let crawl = crawl_headers.into_iter().filter(|(name, _)| !is_replaced(name));
    hook_headers.iter().map(as_text).chain(request).chain(crawl).collect()
}

/// The request without the user's own headers, body, cookies and proxy login. Archives contain it, because they may be
/// published.
pub(super) fn public_request<'a>(job: &'a Job, rules: &'a Rules) -> RequestHead<'a> {
    let known = job.extras.as_ref().and_then(|extras| extras.conditional.as_ref());
    RequestHead {
        method: job.link.request.as_ref().map_or(Method::Get, |request| request.method),
        content_length: None,
        url: job.link.url.as_ref(),
        target: None,
        user_agent: rules.user_agent_for(job.link.url.host()),
        accept: ACCEPT,
        extra: &[],
        etag: known.and_then(|known| known.etag.as_deref()).filter(|etag| etag.len() <= MAX_VALIDATOR),
        last_modified: known
            .and_then(|known| known.last_modified.as_deref())
            .filter(|date| date.len() <= MAX_VALIDATOR),
        cookie: None,
        proxy: None,
        head_only: is_head_request(job, rules),
    }
}

impl Receiver for Exchange {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        let status = head.status;
        let reader = match &self.job.purpose {
            Purpose::Page | Purpose::Probe => {
                let limits = self.rules.examine_limits(
                    self.job.link.url.host(),
                    self.rules.with_anchors || self.rules.link_filter.is_some(),
                );
                let content_type = head.get("content-type");
                Reader::Page(Box::new(Examiner::new(&self.job.link.url, content_type, limits)))
            }
            Purpose::Robots(_) if (200..300).contains(&status) => Reader::Robots(Box::default()),
            Purpose::Sitemap if (200..300).contains(&status) => {
                let reader = sitemap::SitemapReader::new(&self.job.link.url, sitemap_bounds(&self.job.link));
                Reader::Sitemap(Box::new(SitemapRead { reader, charge: self.rules.budget.hold(), charged: 0 }))
            }
            Purpose::Robots(_) | Purpose::Sitemap | Purpose::Part(_) => Reader::None,
        };
        // The body of a redirect is not examined, and is read only if an output needs the raw bytes.
        let reader = if is_redirect(head) { Reader::None } else { reader };
        let is_page = self.job.purpose == Purpose::Page;
        let is_hooked = is_page && !is_document(&self.job) && matches!(reader, Reader::Page(_));
        let hook = self.rules.response_hook.as_ref().filter(|_| is_hooked);
        let start = ResponseStart::new(&self.job.link, head);
        let wants_body = hook.map_or(Ok(true), |hook| call_closure("on_response", || hook.wants_body(&start)));
        let is_body_refused = wants_body != Ok(true);
        let open_body = |hook: &Arc<dyn ResponseHook>| call_closure("stream_body", || hook.open_body(&start));
        let writer = hook.filter(|_| !is_body_refused).map_or(Ok(None), open_body);
        let (writer, no_writer) = writer.map_or_else(|panic| (None, Some(panic)), |writer| (writer, None));
        let hook_failure = wants_body.err().or(no_writer);
        let reader = if is_body_refused { Reader::None } else { reader };
        let is_part = self.job.purpose.is_part();
        let is_body_needed = is_part
            || is_page && writer.is_none() && matches!(reader, Reader::Page(_)) && {
                let declared = text(head.get("content-type"));
                let essence =
                    declared.as_deref().map(|value| value.split(';').next().unwrap_or("").trim().to_lowercase());
                self.rules.bodies.should_hold(&self.job.link.url, status, essence.as_deref())
            };
        let max_held = self.rules.budget.max_held_body();
        let want = match &reader {
            Reader::None if is_body_refused => Want::Nothing,
            Reader::None if self.wire.is_none() && !is_part => Want::Nothing,
            Reader::Sitemap(_) => Want::UpTo(self.rules.max_size.min(max_held).max(sitemap::MAX_BYTES)),
            // One byte above the limit shows that the file is too long, see `body`.
            Reader::Robots(_) => Want::UpTo(robots::MAX_ROBOTS_BYTES as u64 + 1),
            Reader::None | Reader::Page(_)
                if (is_body_needed || self.wire.is_some()) && self.rules.max_size > max_held =>
            {
                Want::UpTo(max_held)
            }
            Reader::None | Reader::Page(_) => Want::Body,
        };
        let body = is_body_needed.then(|| {
            let charge = self.rules.budget.hold();
            // A delivered body is kept by its consumer, so a reused buffer, which may be larger than the body, would
            // waste memory.
            Box::new(match self.rules.bodies.delivered {
                DeliveredBodies::None if !is_part && !self.rules.bodies.rendered => HeldBody::reusing(charge),
                _ => HeldBody::new(charge),
            })
        });
        // The factor covers the field index and the copy for the visit, which are about as long as the head itself.
        let head_bytes = if head.size() > UNCHARGED_HEAD { head.size() * 2 } else { 0 };
        let mut findings_charge = self.rules.budget.hold_for(MemoryPart::Pages);
        findings_charge.resize(head_bytes);
        let head = head.clone();
        self.response = Some(Box::new(ReceivedResponse {
            head,
            reader,
            body,
            window_charge: None,
            findings_charge,
            head_bytes,
            mark: None,
            rest: None,
            is_body_refused,
            hook_failure,
            writer,
        }));
        want
    }

    fn wants_wire(&self) -> bool {
        self.wire.is_some()
    }

    fn wire(&mut self, raw: &[u8]) {
        if let Some(wire) = &mut self.wire {
            wire.bytes.extend_from_slice(raw);
            wire.charge.grow(raw.len());
        }
    }

    fn body(&mut self, decoded: &[u8]) {
        let Some(response) = &mut self.response else { return };
        if let Some(body) = &mut response.body {
            body.extend(decoded);
        }
        response.write(|writer| writer.write_all(decoded));
        match &mut response.reader {
            Reader::None => {}
            Reader::Page(examiner) => {
                examiner.feed(decoded);
                let link_bytes = examiner.weight();
                if link_bytes > UNCHARGED_LINKS {
                    response.findings_charge.resize(response.head_bytes + link_bytes);
                }
            }
            Reader::Robots(text) => {
                let bytes = &mut text.bytes;
                // One byte above the limit distinguishes a file that ends at the limit from a longer one.
                let room = (robots::MAX_ROBOTS_BYTES + 1).saturating_sub(bytes.len());
                bytes.extend_from_slice(decoded.get(..room).unwrap_or(decoded));
            }
            Reader::Sitemap(reader) => reader.feed(decoded),
        }
    }

    fn new_head_charge(&self) -> Option<BudgetCharge> {
        Some(self.rules.budget.hold_for(MemoryPart::Heads))
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let Some(response) = &mut self.response else { return true };
        let new_charge = || self.rules.budget.hold_for(MemoryPart::Windows);
        let window_charge = response.window_charge.get_or_insert_with(new_charge);
        if window_charge.try_grow(bytes) {
            return true;
        }
        // One response at a time may exceed the budget, with everything that it holds.
        let reader_charge = if let Reader::Sitemap(read) = &response.reader { Some(&read.charge) } else { None };
        let body_charge = response.body.as_ref().map(|body| &body.charge);
        let others = self.wire.iter().map(|wire| &wire.charge).chain(reader_charge).chain(body_charge);
        let mut others = others.chain([&response.findings_charge]);
        let may_exceed = others.any(BudgetCharge::has_overdraft) || window_charge.try_overdraft();
        if may_exceed {
            window_charge.grow(bytes);
        }
        may_exceed
    }

    fn slow_response_quota(&self) -> Option<&SlowResponseQuota> {
        Some(&self.job.slow_responses)
    }

    fn decompressed_bytes(&self) -> Option<u64> {
        match &self.response.as_ref()?.reader {
            Reader::Sitemap(read) => Some(read.reader.decompressed_bytes()),
            Reader::None | Reader::Page(_) | Reader::Robots(_) => None,
        }
    }
}

/// Whether the response is a document that is in memory already, and that no server sent. It does not wait for memory, the
/// response hook is not called for it, and it is not archived.
fn is_document(job: &Job) -> bool {
    job.extras.as_ref().is_some_and(|extras| extras.is_document)
}

/// What a sitemap may list: URLs of its own site, and of the host whose robots.txt names it; other sitemaps, if it is not
/// nested too deep itself.
fn sitemap_bounds(link: &Link) -> sitemap::SitemapBounds {
    let naming_hosts = link.via.iter().map(|via| Box::from(via.host())).collect();
    let allows_index = link.depth < sitemap::MAX_INDEX_DEPTH;
    sitemap::SitemapBounds { naming_hosts, allows_index, ..sitemap::SitemapBounds::default() }
}

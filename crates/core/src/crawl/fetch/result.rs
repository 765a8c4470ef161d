//! The visit that an exchange results in.

use std::net::IpAddr;

use super::exchange::{
    Exchange, MAX_VALIDATOR, RawCapture, Reader, ReceivedResponse, SitemapRead, UNCHARGED_LINKS, public_request,
    with_request,
};
use super::fields::{is_redirect, locations, text};
use crate::base::budget::BudgetCharge;
use crate::base::link::LinkKind;
use crate::base::link_list::LinkList;
use crate::base::outcome::{ErrorKind, Failure, Outcome, Truncated};
use crate::base::time::Time;
use crate::base::time::WallClock;
use crate::base::url::Url;
use crate::crawl::rules::Rules;
use crate::crawl::visit::{Facts, SiteFile, Visit, Wire};
use crate::crawl::warc;
use crate::http::conn::{ExchangeEnd, Head, Headers, Version, refused_by_proxy};
use crate::http::cookies::{self, SetCookie};
use crate::http::retry_after::{RetryAfter, parse_retry_after};
use crate::page::examine::{self, Findings};
use crate::page::follow;
use crate::page::reader::{DeliveredBodies, HeldBody};

/// Who sent the response.
enum ResponseSource {
    /// No response arrived.
    None,
    /// The proxy, which refused the request.
    Proxy,
    Host {
        /// The value of `WARC-Truncated`, for an archive.
        truncation: Option<&'static str>,
        /// The memory charge for a long head and for the links of the page.
        findings_charge: BudgetCharge,
    },
}

impl Exchange {
    /// Builds the visit: decides it, then archives the exchange, then charges the visit to the budget.
    pub(super) fn into_visit(self, end: ExchangeEnd, peer: Option<IpAddr>, now: Time) -> Visit {
        let Self { job, rules, started, connected, response, wire } = self;
        let wire = wire.map(|capture| {
            let RawCapture { bytes, charge } = *capture;
            let head = response.as_ref().map_or(0, |response| response.head.size());
            let request =
                if rules.keep_wire { with_request(&job, &rules, |request| request.to_bytes()) } else { Vec::new() };
            Wire { request, response: bytes, head, tls_info: None, charge }
        });
        let public_request = if rules.archive { public_request(&job, &rules).to_bytes() } else { Vec::new() };
        let is_conditional = job.extras.as_ref().is_some_and(|extras| extras.conditional.is_some());
        let wall = job.extras.as_ref().map_or(WallClock::default(), |extras| extras.wall);
        let is_http2 = end.is_http2;
        let mut visit = Visit::requested(*job, Outcome::Failed, now);
        visit.facts.ip = peer;
        copy_end(&mut visit.facts, end, started, connected, now);
        let source = match response {
            Some(response) => decide(&mut visit, *response, is_http2, is_conditional, &rules),
            None => ResponseSource::None,
        };
        if let (ResponseSource::Host { truncation, .. }, Some(wire)) =
            (&source, wire.as_ref().filter(|_| rules.archive))
        {
            archive(&mut visit, &public_request, wire, *truncation, wall, &rules);
        }
        let is_from_proxy = matches!(source, ResponseSource::Proxy);
        visit.wire = wire.filter(|_| rules.keep_wire && !is_from_proxy).map(Box::new);
        if let ResponseSource::Host { findings_charge, .. } = source {
            charge(&mut visit, findings_charge);
        }
        visit
    }
}

/// Decides the outcome, facts and findings of a visit that got a response.
fn decide(
    visit: &mut Visit,
    mut response: ReceivedResponse,
    is_http2: bool,
    is_conditional: bool,
    rules: &Rules,
) -> ResponseSource {
    response.write(|writer| writer.flush());
    let ReceivedResponse { head, reader, body, findings_charge, is_body_refused, hook_failure, .. } = response;
    if is_body_refused {
        visit.facts.truncated = visit.facts.truncated.or(Some(Truncated::Hook));
        visit.findings.content_type =
            head.get("content-type").and_then(examine::MediaType::parse).map(|declared| declared.essence);
    }
    if let Some(failure) = hook_failure {
        visit.facts.error.get_or_insert(failure);
    }
    let is_from_host = copy_head(visit, &head, rules);
    if is_http2 {
        visit.facts.http = Some("2");
    }
    if !is_from_host {
        return ResponseSource::Proxy;
    }
    // A 2xx body that failed without being truncated is unusable even up to the failure. An archive keeps it anyway.
    let facts = &mut visit.facts;
    let is_unusable = (200..300).contains(&head.status) && facts.error.is_some() && facts.truncated.is_none();
    if !is_unusable && head.status == 206 && !is_whole_range(head.get("content-range")) {
        // The request had no Range header. The response is complete, but it is only a part of the page.
        facts.truncated = facts.truncated.or(Some(Truncated::Length));
    }
    // Later errors, such as a redirect to an invalid URL, do not shorten the response.
    let truncation = warc::truncation(facts.truncated, facts.error.as_ref().map(|error| error.kind));
    if !is_unusable {
        copy_body(visit, &head, reader, body.as_ref().map_or(&[], |body| &body.bytes), rules);
        read_content(visit, &head, body, rules);
        visit.facts.outcome = outcome(visit, &head, is_conditional, rules);
    }
    // A closure of the user panicked: links or the body may be missing.
    if visit.facts.error.as_ref().is_some_and(|failure| failure.kind == ErrorKind::Hook) {
        visit.facts.outcome = Outcome::Failed;
    }
    ResponseSource::Host { truncation, findings_charge }
}

/// Encodes the exchange for the archive.
fn archive(
    visit: &mut Visit,
    request: &[u8],
    wire: &Wire,
    truncated: Option<&'static str>,
    wall: WallClock,
    rules: &Rules,
) {
    let (head, payload) = wire.parts();
    let times = &visit.facts.timings;
    let source = warc::WarcSource {
        url: visit.link.url.as_ref(),
        date: wall.text(visit.facts.started),
        times: warc::WarcTimes { first: times.ttfb.unwrap_or_default(), end: times.total.unwrap_or_default() },
        ip: visit.facts.ip,
        request,
        request_has_body: visit.link.request.as_ref().is_some_and(|request| !request.body.is_empty()),
        request_identity: visit.link.request_identity(rules.fingerprint_key),
        head,
        payload,
        truncated,
        digest: visit.findings.digest,
        key: rules.fingerprint_key,
        compression: rules.archive_compression,
        is_http2: visit.facts.http == Some("2"),
    };
    visit.for_keeper.archive = Some(Box::new(warc::WarcExchange::encode(&source, rules.budget.hold())));
}

/// Charges a large visit to the budget until the keeper drops it.
fn charge(visit: &mut Visit, mut charge: BudgetCharge) {
    let bytes = visit.heap_bytes();
    if bytes > UNCHARGED_LINKS {
        charge.resize(bytes);
        visit.for_keeper.charge = Some(charge);
    }
}

/// Copies times, sizes, coding defects and the failure, if any, from the result of the exchange. `connected` is
/// [`Time::NEVER`] on a kept-alive connection.
fn copy_end(facts: &mut Facts, end: ExchangeEnd, started: Time, connected: Time, now: Time) {
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
    facts.defects.coding_label = end.coding_defects.mislabelled;
    facts.defects.coding_garbage = end.coding_defects.garbage;
}

/// Copies what the visit needs from the head of the response. Returns false if the response comes from the proxy and
/// not from the host.
fn copy_head(visit: &mut Visit, head: &Head, rules: &Rules) -> bool {
    let Visit { link, facts, for_keeper, .. } = visit;
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
    facts.defects.header_dropped = head.has_dropped_fields;
    facts.defects.header_control = head.has_controls;
    facts.etag = validator(head.get("etag"));
    facts.last_modified = validator(head.get("last-modified"));
    match head.get("retry-after").and_then(|value| parse_retry_after(value, head.get("date"))) {
        Some(RetryAfter::Wait(wait)) => for_keeper.retry_after = Some(wait),
        Some(RetryAfter::Until(moment)) => for_keeper.retry_at = Some(moment),
        None => {}
    }
    if rules.cookies.is_some() {
        let lines = head.get_all("set-cookie").take(cookies::MAX_PER_RESPONSE);
        for_keeper.set_cookies = lines.filter_map(SetCookie::parse).collect();
    }
    if rules.with_headers {
        facts.headers = Some(Box::new(headers(head)));
    }
    true
}

/// Copies what the reader found in the body.
fn copy_body(visit: &mut Visit, head: &Head, reader: Reader, body: &[u8], rules: &Rules) {
    match reader {
        Reader::None => {}
        Reader::Page(examiner) => copy_findings(visit, head, examiner.finish(), body, rules),
        Reader::Robots(text) => visit.for_keeper.site_file = Some(Box::new(SiteFile::Robots(text.bytes))),
        Reader::Sitemap(read) => {
            let SitemapRead { reader, charge, .. } = *read;
            visit.for_keeper.site_file = Some(Box::new(SiteFile::Sitemap(reader.finish(), charge)));
        }
    }
}

/// Passes the body to the content readers, and stores it in the visit if the rules require that.
fn read_content(visit: &mut Visit, head: &Head, body: Option<Box<HeldBody>>, rules: &Rules) {
    if visit.purpose.is_part() {
        let mut body = body.unwrap_or_else(|| Box::new(HeldBody::new(rules.budget.hold())));
        body.headers = headers(head);
        visit.body = Some(body);
        return;
    }
    let delivers_any = (rules.bodies.delivered != DeliveredBodies::None || rules.bodies.rendered) && visit.is_page();
    let (content_type, charset) = (visit.findings.content_type.as_deref(), visit.findings.charset);
    let mut content = None;
    let body = body.and_then(|body| {
        let charge = rules.budget.hold();
        content = rules.bodies.read(&visit.link.url, head.status, content_type, charset, &body, charge);
        if rules.bodies.should_deliver(content_type) {
            return Some(body);
        }
        body.recycle();
        None
    });
    // Headers are delivered even without the body.
    visit.body = delivers_any.then(|| {
        let mut body = body.unwrap_or_else(|| Box::new(HeldBody::new(rules.budget.hold())));
        body.headers = headers(head);
        body
    });
    visit.findings.content = content;
}

/// Maps the status to an outcome. A redirect adds a new link to the visit, which is judged like any link and may follow
/// one redirect less. A 304 is an HTTP error if the request was not conditional.
fn outcome(visit: &mut Visit, head: &Head, is_conditional: bool, rules: &Rules) -> Outcome {
    match head.status {
        200..=299 => Outcome::Ok,
        304 if is_conditional => Outcome::NotModified,
        304 => Outcome::HttpError,
        300..=399 if is_redirect(head) => {
            let mut locations = locations(head);
            let first = locations.next().unwrap_or_default();
            if locations.any(|other| other != first) {
                // An intermediary may have followed the other `Location`.
                let message = "several Location headers that differ: none can be trusted";
                visit.facts.error.get_or_insert(Failure::new(ErrorKind::RedirectInvalid, message));
            } else {
                visit.follow_redirect(first, rules);
            }
            Outcome::Redirect
        }
        _ => Outcome::HttpError,
    }
}

/// Copies the findings of the examiner, and judges the links by scope.
fn copy_findings(visit: &mut Visit, head: &Head, mut examined: Findings, body: &[u8], rules: &Rules) {
    add_header_links(&mut examined.links, head, &visit.link.url, rules);
    let directives = examined
        .directives
        .merge(examine::x_robots_tag(head.get_all("x-robots-tag"), rules.agent_token_for(visit.link.url.host())));
    visit.facts.defects.charset_unknown = examined.unknown_charset;
    visit.facts.defects.url_too_long = examined.too_long > 0;
    visit.for_keeper.likeness = examined.likeness;
    let findings = &mut visit.findings;
    findings.content_type = examined.content_type;
    findings.charset = examined.charset;
    findings.title = examined.title;
    // A 304 has no body, so there is no digest.
    findings.digest = (head.status != 304).then_some(examined.digest);
    findings.canonical = examined.canonical;
    findings.hreflang = examined.hreflang;
    findings.capped = examined.capped;
    findings.links_cut = examined.links_over_limit.saturating_add(examined.too_long);
    findings.noindex = directives.noindex;
    findings.nofollow = directives.nofollow;
    let is_success = (200..300).contains(&head.status);
    if is_success {
        findings.facts = examined.facts;
        if !visit.is_page() {
            return;
        }
        visit.follow_links(&examined.links, directives.nofollow, body, rules);
        if !rules.with_anchors {
            examined.links.drop_anchors();
        }
        if rules.with_links {
            visit.findings.all_links = Some(Box::new(examined.links.clone()));
        }
        // A long base URL turns a little markup into many bytes, and many visits may wait for the keeper.
        let dropped = examined.links.truncate(follow::MAX_FOLLOW_BYTES);
        examined.links.shrink();
        // `follow_links` has counted links beyond the same limit already, so the two numbers are not added.
        let cut = visit.findings.links_cut.max(u32::try_from(dropped).unwrap_or(u32::MAX));
        (visit.findings.links_cut, visit.for_keeper.edges) = (cut, Some(Box::new(examined.links)));
    }
}

/// Adds the links of the `Refresh` and `Link` headers.
fn add_header_links(links: &mut LinkList, head: &Head, page: &Url, rules: &Rules) {
    let mut add = |href: &str, kind| {
        if let Ok(url) = page.join(href)
            && url.as_str().len() <= rules.max_url
        {
            let nofollow = false;
            links.push(url.as_str(), kind, nofollow);
        }
    };
    if let Some(value) = text(head.get("refresh"))
        && let Some(target) = examine::refresh_header(&value)
    {
        add(target, LinkKind::Refresh);
    }
    for value in head.get_all("link") {
        for (href, rel) in examine::link_header(&String::from_utf8_lossy(value)) {
            let is_pagination = |rel: &str| ["next", "prev"].iter().any(|word| rel.eq_ignore_ascii_case(word));
            if rel.split_ascii_whitespace().any(is_pagination) {
                add(href, LinkKind::Rel);
            }
        }
    }
}

/// True if a `Content-Range` covers the whole resource, as in `bytes 0-99/100`.
pub(super) fn is_whole_range(value: Option<&[u8]>) -> bool {
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

/// The value of `ETag` or `Last-Modified`; `None` if it is too long.
fn validator(value: Option<&[u8]>) -> Option<Box<str>> {
    text(value.filter(|value| value.len() <= MAX_VALIDATOR))
}

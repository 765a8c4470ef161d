//! WARC 1.1: the exact bytes of an exchange in the format of web archives.
//!
//! # Theory
//!
//! Every response that has a JSON record is archived as two WARC records, `request` and `response`, with the bytes as
//! they were transferred inside TLS: heads as sent, bodies with content coding and chunked framing. If the same payload
//! is in the archive already, or the response was a 304, a `revisit` with the head alone replaces the response. Every
//! WARC record is a gzip member or a zstd frame of its own, so that it can be read alone. The reasons are in
//! `docs/decisions/0004-warc.md`.
//!
//! [`WarcExchange::encode`] is a pure function. It hashes and compresses on the worker that fetched the page.
//! [`ArchiveLayout`] belongs to the keeper. It decides what depends on the order in which pages finish: file, offset, and
//! whether the payload is known. Its results are an [`ArchiveChunk`] for the writer and a location for the record of the
//! page. So the location is known before anything is written.
//!
//! Invariant: a file consists of its chunks, in order. Its first record is a `warcinfo`.

mod compress;
mod layout;
mod location;
mod read;
mod record;

use std::net::IpAddr;

use crate::base::budget::BudgetCharge;
use crate::base::digest::BodyDigest;
use crate::base::outcome::{ErrorKind, Truncated};
use crate::base::url::UrlRef;
use crate::base::value::WarcCompression;

use read::TIMES_FIELD;
use record::{Sha1Sum, WarcId, WarcRecord, WarcType};

pub use layout::{ArchiveChunk, ArchiveLayout, segment_start};
pub use location::{WarcLocation, WarcPayload};
pub use read::{WarcHeader, WarcTimes};

/// What begins the URI of a rendered document. The URL of the page follows.
pub const RENDERED_SCHEME: &str = "urn:dom:";
/// What begins the URI of a picture of a page.
pub const SCREENSHOT_SCHEME: &str = "urn:view:";
/// The media type of a rendered document.
const RENDERED_TYPE: &str = "text/html; charset=utf-8";

/// The input of a WARC exchange.
pub struct WarcSource<'a> {
    pub url: UrlRef<'a>,
    /// When the fetch began: `2026-01-02T03:04:05.678Z`.
    pub date: String,
    /// When the response arrived.
    pub times: WarcTimes,
    pub ip: Option<IpAddr>,
    /// The head of the request.
    pub request: &'a [u8],
    /// Whether the request had a body. The body is not archived, because it may contain a login.
    pub request_has_body: bool,
    /// Distinguishes requests for the same URL, such as two forms; zero for a plain GET.
    pub request_identity: u64,
    /// The head of the response.
    pub head: &'a [u8],
    /// Everything after the head: the body as transferred.
    pub payload: &'a [u8],
    /// Why the response is incomplete, as a WARC-Truncated value.
    pub truncated: Option<&'static str>,
    /// The digest of the decoded body, if known.
    pub digest: Option<BodyDigest>,
    /// The random key of the crawl, so that the ids of records of different crawls differ.
    pub key: u64,
    /// Whether the exchange used HTTP/2. Request and response are in the syntax of HTTP/1.1 even then.
    pub is_http2: bool,
    pub compression: WarcCompression,
}

/// One encoded exchange.
#[derive(Debug)]
pub struct WarcExchange {
    /// The `request` record, compressed.
    request: Vec<u8>,
    /// The `response` record, compressed.
    response: Vec<u8>,
    /// The `resource` record with the rendered document, compressed; empty if there is none.
    rendered: Vec<u8>,
    /// The `resource` record with a picture of the page, compressed; empty if there is none.
    screenshot: Vec<u8>,
    /// The head of the response, for a `revisit` record.
    head: Box<[u8]>,
    payload: Payload,
    url: Box<str>,
    date: Box<str>,
    times: WarcTimes,
    ip: Option<IpAddr>,
    /// The id of the `response` record, or of the `revisit` that replaces it.
    id: WarcId,
    /// See [`WarcSource::key`].
    key: u64,
    is_http2: bool,
    compression: WarcCompression,
    /// Charges the compressed bytes to the memory budget.
    charge: BudgetCharge,
}

/// The identity of a payload.
///
/// Archives identify payloads by SHA-1, for which collisions can be constructed. So the SHA-256 of the decoded body
/// must agree too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payload {
    /// Of the body as transferred.
    sum: Sha1Sum,
    /// SHA-256 of the decoded body, if known.
    digest: Option<BodyDigest>,
    /// Whether it is complete, not empty, and the response to a plain GET. Only then may revisit records refer to it.
    is_referable: bool,
}

impl WarcExchange {
    /// Compressed length of its records.
    pub fn bytes(&self) -> usize {
        self.request.len() + self.response.len() + self.rendered.len() + self.screenshot.len()
    }

    /// Adds the document that the scripts of the page made, as UTF-8.
    ///
    /// It is a `resource`, because it never was a response. Its URI is `urn:dom:` and the URL of the page, so that a
    /// replay that looks for the page finds the response. The standard forbids `WARC-Refers-To` in resources; the record
    /// of the response is named by `WARC-Concurrent-To`.
    pub fn add_rendered(&mut self, document: &[u8]) {
        self.rendered = self.resource(RENDERED_SCHEME, RENDERED_TYPE, document);
        self.charge.grow(self.rendered.len());
    }

    /// Adds a picture of the page as PNG, in the same way.
    pub fn add_screenshot(&mut self, picture: &[u8]) {
        self.screenshot = self.resource(SCREENSHOT_SCHEME, "image/png", picture);
        self.charge.grow(self.screenshot.len());
    }

    /// A view of the page that belongs to the response.
    fn resource(&self, scheme: &str, content_type: &str, block: &[u8]) -> Vec<u8> {
        let id = WarcId::new(self.key, &[scheme, &self.url, &self.date, &self.id.to_string()]);
        let mut record = WarcRecord::new(WarcType::Resource, id, &self.date);
        record.add_field("WARC-Target-URI", &format!("{scheme}{}", self.url));
        record.add_field("WARC-Concurrent-To", &self.id.to_string());
        record.add_field("WARC-Payload-Digest", &Sha1Sum::of(&[block]).to_string());
        record.compress(content_type, &[block], self.compression)
    }

    /// Hashes and compresses an exchange. The compressed bytes are charged to the budget until they are written.
    pub fn encode(source: &WarcSource<'_>, mut charge: BudgetCharge) -> Self {
        let url = source.url.as_str();
        // Ids depend on URL and date. Two forms that are sent to one URL within a millisecond must have different ids.
        let key = source.key ^ source.request_identity;
        let id = WarcId::of_response(key, url, &source.date);
        let sum = Sha1Sum::of(&[source.payload]);
        let mut response = WarcRecord::new(WarcType::Response, id, &source.date);
        response.add_target(url, source.ip);
        response.add_protocol(source.is_http2);
        response.add_field(TIMES_FIELD, &source.times.to_string());
        response.add_field("WARC-Payload-Digest", &sum.to_string());
        if let Some(reason) = source.truncated {
            response.add_field("WARC-Truncated", reason);
        }
        let block = [source.head, source.payload];
        let response = response.compress("application/http; msgtype=response", &block, source.compression);
        let mut request =
            WarcRecord::new(WarcType::Request, WarcId::new(key, &["request", url, &source.date]), &source.date);
        request.add_target(url, source.ip);
        request.add_protocol(source.is_http2);
        request.add_field("WARC-Concurrent-To", &id.to_string());
        if source.request_has_body {
            request.add_field("WARC-Truncated", "unspecified");
        }
        let request = request.compress("application/http; msgtype=request", &[source.request], source.compression);
        charge.grow(request.len() + response.len());
        Self {
            request,
            response,
            rendered: Vec::new(),
            screenshot: Vec::new(),
            head: source.head.into(),
            payload: Payload {
                sum,
                digest: source.digest,
                // A revisit record contains the id of the original, computed from URL and date. The id of a response to
                // a form depends on the form too.
                is_referable: source.truncated.is_none() && !source.payload.is_empty() && source.request_identity == 0,
            },
            url: url.into(),
            date: source.date.as_str().into(),
            times: source.times,
            ip: source.ip,
            id,
            key: source.key,
            is_http2: source.is_http2,
            compression: source.compression,
            charge,
        }
    }
}

/// The WARC-Truncated value of a response. A body that could not be decoded is complete on the wire.
pub fn truncation(truncated: Option<Truncated>, error: Option<ErrorKind>) -> Option<&'static str> {
    match (truncated, error) {
        (Some(Truncated::Length), _) => Some("length"),
        (Some(Truncated::Time), _) => Some("time"),
        (Some(Truncated::Disconnect), _) => Some("disconnect"),
        (Some(Truncated::Hook), _) => Some("unspecified"),
        (Some(Truncated::Decode) | None, None | Some(ErrorKind::Decode)) => None,
        // The framing was invalid, so the rest was not read.
        (Some(Truncated::Decode) | None, Some(_)) => Some("unspecified"),
    }
}

#[cfg(test)]
mod tests;

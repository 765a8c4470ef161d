//! WARC 1.1: the exact bytes of an exchange, in the form that web archives read.
//!
//! # Theory
//!
//! Every answer that a record speaks of becomes two WARC records: `request` and `response`, with the bytes as they went
//! over the wire (after TLS): heads as sent, bodies with their content coding and their chunked framing. Where the very
//! same payload is in the archive already, a `revisit` with the head alone takes the response's place. Every WARC record
//! is a gzip member of its own, so that one can be read without those before it. `docs/decisions/0010-warc.md` says why.
//!
//! The work is split where the crawler is split. [`WarcExchange::encode`] hashes and compresses on the worker that fetched
//! the page: a pure function of its bytes. [`ArchiveLayout`] lives with the keeper and decides, page after page, what needs the
//! order of completion: which file, at which offset, and whether the payload is known. The result is a [`ArchiveChunk`] for
//! whoever writes files, and a place for the page's record, which thus is known before anything is written.
//!
//! Invariant: the chunks of a file, one behind the other, are the file; its first record is a `warcinfo`.

mod layout;
mod record;

use std::net::IpAddr;

use crate::budget::Held;
use crate::outcome::{ErrorKind, Truncated};
use crate::page::url::UrlRef;

use record::{Sha1Sum, WarcId, WarcRecord, WarcType};

pub use layout::{ArchiveChunk, ArchiveLayout, FILE_SIZE};

/// What went over the wire, and when, and with whom.
pub struct WarcSource<'a> {
    pub url: UrlRef<'a>,
    /// When the fetch began: `2026-01-02T03:04:05.678Z`.
    pub date: String,
    pub ip: Option<IpAddr>,
    pub request: &'a [u8],
    /// The head of the answer.
    pub head: &'a [u8],
    /// All that came behind the head: the body as transferred.
    pub payload: &'a [u8],
    /// Why the answer is not whole, in WARC's words.
    pub truncated: Option<&'static str>,
    /// The digest of the decoded body, where it is known.
    pub digest: Option<[u8; 32]>,
    /// A number that is the crawl's own: records of different crawls must not have the same name.
    pub key: u64,
}

/// One exchange, ready for the archive.
#[derive(Debug)]
pub struct WarcExchange {
    /// The `request` record, compressed.
    request: Vec<u8>,
    /// The `response` record, compressed.
    response: Vec<u8>,
    /// The head of the answer: all that is written where the payload is known already.
    head: Box<[u8]>,
    payload: Payload,
    url: Box<str>,
    date: Box<str>,
    ip: Option<IpAddr>,
    id: WarcId,
    key: u64,
    /// The compressed bytes' share of the budget.
    held: Held,
}

/// What makes two payloads the same.
///
/// SHA-1 is what archives name payloads by, but people can make two files with the same SHA-1. So the digest of the
/// decoded body, which is SHA-256, has to agree too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payload {
    sum: Sha1Sum,
    digest: Option<[u8; 32]>,
    /// Whether it came to its end and is not empty: only then may another record refer to it, or it to another.
    is_whole: bool,
}

impl WarcExchange {
    /// Hashes and compresses. The compressed bytes are held within a budget until they are written.
    pub fn encode(source: &WarcSource<'_>, mut held: Held) -> Self {
        let url = source.url.as_str();
        let id = WarcId::new(source.key, &["response", url, &source.date]);
        let sum = Sha1Sum::of(&[source.payload]);
        let mut response = WarcRecord::new(WarcType::Response, id, &source.date);
        response.target(url, source.ip);
        response.field("WARC-Payload-Digest", &sum.to_string());
        if let Some(reason) = source.truncated {
            response.field("WARC-Truncated", reason);
        }
        let response = response.compress("application/http; msgtype=response", &[source.head, source.payload]);
        let mut request =
            WarcRecord::new(WarcType::Request, WarcId::new(source.key, &["request", url, &source.date]), &source.date);
        request.target(url, source.ip);
        request.field("WARC-Concurrent-To", &id.to_string());
        let request = request.compress("application/http; msgtype=request", &[source.request]);
        held.grow(request.len() + response.len());
        Self {
            request,
            response,
            head: source.head.into(),
            payload: Payload {
                sum,
                digest: source.digest,
                is_whole: source.truncated.is_none() && !source.payload.is_empty(),
            },
            url: url.into(),
            date: source.date.as_str().into(),
            ip: source.ip,
            id,
            key: source.key,
            held,
        }
    }
}

/// Why an answer is not whole, in WARC's words. A body that could not be decoded is whole as far as the wire goes.
pub fn truncation(truncated: Option<Truncated>, error: Option<ErrorKind>) -> Option<&'static str> {
    match (truncated, error) {
        (Some(Truncated::Length), _) => Some("length"),
        (Some(Truncated::Time), _) => Some("time"),
        (Some(Truncated::Disconnect), _) => Some("disconnect"),
        (Some(Truncated::Decode) | None, None | Some(ErrorKind::Decode)) => None,
        // The framing broke: what followed was not read.
        (Some(Truncated::Decode) | None, Some(_)) => Some("unspecified"),
    }
}

#[cfg(test)]
mod tests;

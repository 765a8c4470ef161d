//! How a link is stored: without what its key, its host and its level say already.

use std::sync::Arc;

use argiope_core::page::custom_request::CustomRequest;
use argiope_core::{Link, LinkKind, LinkRef, Url, UrlRef};

use crate::memory::behind_host;

/// Scheme and kind, redirects, tries, length of the page that it was found on.
const HEAD: usize = 7;
/// This bit of the first byte: the length of a request and the request follow the page.
const HAS_REQUEST: u8 = 0x40;

/// A link on its way into the queue of a bucket.
#[derive(Clone, Debug)]
pub struct QueuedLink {
    pub fingerprint: u64,
    pub host: Box<str>,
    pub depth: u32,
    /// Whether it counts towards the limit on the pages of a host: roots and sitemap files do not.
    pub is_limited: bool,
    pub bytes: Vec<u8>,
}

impl QueuedLink {
    pub fn new(link: LinkRef<'_>, key: u64) -> Self {
        let via = link.via.map_or("", Url::as_str);
        let rest = behind_host(link.url);
        let mut bytes = Vec::with_capacity(HEAD + via.len() + rest.len());
        let has_request = if link.request.is_some() { HAS_REQUEST } else { 0 };
        let flags = link.kind as u8 | has_request | (u8::from(link.url.is_https()) << 7);
        bytes.extend([flags, link.redirects, link.tries]);
        bytes.extend((via.len() as u32).to_be_bytes());
        bytes.extend(via.as_bytes());
        if let Some(request) = link.request {
            let encoded = request.encode();
            bytes.extend((encoded.len() as u32).to_be_bytes());
            bytes.extend(encoded);
        }
        bytes.extend(rest.as_bytes());
        let fingerprint = link.seen_key(key);
        let is_limited = !matches!(link.kind, LinkKind::Root | LinkKind::SitemapFile);
        Self { fingerprint, host: link.url.host().into(), depth: link.depth, is_limited, bytes }
    }
}

/// Reads a link back. `None` where the bytes are not what [`QueuedLink::new`] wrote.
pub fn decode(bytes: &[u8], host: &str, depth: u32) -> Option<Link> {
    let (&[flags, redirects, tries, v0, v1, v2, v3], rest) = bytes.split_first_chunk::<HEAD>()?;
    let (via, mut rest) = rest.split_at_checked(u32::from_be_bytes([v0, v1, v2, v3]) as usize)?;
    let mut request = None;
    if flags & HAS_REQUEST != 0 {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (encoded, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        request = Some(Arc::new(CustomRequest::decode(encoded)?));
        rest = after;
    }
    let scheme = if flags & 0x80 == 0 { "http://" } else { "https://" };
    let text = [scheme, host, std::str::from_utf8(rest).ok()?].concat();
    let via = std::str::from_utf8(via).ok()?;
    Some(Link {
        url: UrlRef::from_normal(&text)?.to_url(),
        via: if via.is_empty() { None } else { Some(UrlRef::from_normal(via)?.to_url()) },
        depth,
        redirects,
        tries,
        kind: LinkKind::from_number(flags & 0x3F)?,
        request,
    })
}

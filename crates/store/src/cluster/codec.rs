//! The stored form of a link. It omits what the key, the host and the level of the queue already say.

use std::sync::Arc;

use argiope_core::page::custom_request::CustomRequest;
use argiope_core::{Link, LinkKind, LinkRef, Url, UrlRef};

use crate::memory::behind_host;

/// Scheme and kind, redirects, tries, and the length of the URL of the page on which it was found.
const HEAD: usize = 7;
/// Bits of the first byte, beside the kind.
const HTTPS: u8 = 0x80;
/// The page that it was found on has the same scheme and host, which are left out.
const NEAR: u8 = 0x20;
/// The length of a request and the request follow the page.
const HAS_REQUEST: u8 = 0x40;

/// A link in the form in which it is queued in a bucket.
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
        // Most links are found on a page of the same host, which is stored without the host then.
        let is_near = |via: &Url| via.host() == link.url.host() && via.is_https() == link.url.is_https();
        let near = link.via.filter(|via| is_near(via));
        let via = near.map_or_else(|| link.via.map_or("", Url::as_str), |via| behind_host(via.as_ref()));
        let rest = behind_host(link.url);
        let mut bytes = Vec::with_capacity(HEAD + via.len() + rest.len());
        let has_request = if link.request.is_some() { HAS_REQUEST } else { 0 };
        let scheme = if link.url.is_https() { HTTPS } else { 0 };
        let flags = has_request | scheme | if near.is_some() { NEAR } else { 0 };
        bytes.extend([link.kind as u8 | flags, link.redirects, link.tries]);
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

/// Decodes a link. `None` if the bytes were not written by [`QueuedLink::new`].
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
    let scheme = if flags & HTTPS == 0 { "http://" } else { "https://" };
    let text = [scheme, host, std::str::from_utf8(rest).ok()?].concat();
    let via = std::str::from_utf8(via).ok()?;
    let via = if flags & NEAR == 0 { via.to_owned() } else { [scheme, host, via].concat() };
    Some(Link {
        url: UrlRef::from_normal(&text)?.to_url(),
        via: if via.is_empty() { None } else { Some(UrlRef::from_normal(&via)?.to_url()) },
        depth,
        redirects,
        tries,
        kind: LinkKind::from_number(flags & !(HTTPS | NEAR | HAS_REQUEST))?,
        request,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_back_wherever_it_was_found() {
        let url = |text: &str| Url::parse(text).expect("a URL");
        for via in [None, Some("https://h.test:8443/a?b"), Some("http://h.test/a"), Some("https://other.test/")] {
            let link = Link {
                url: url("https://h.test/x/y?z=1"),
                via: via.map(url),
                depth: 3,
                redirects: 20,
                tries: 1,
                kind: LinkKind::Other,
                request: None,
            };
            let stored = QueuedLink::new(LinkRef::from(&link), 7);
            assert_eq!(decode(&stored.bytes, &stored.host, stored.depth).as_ref(), Some(&link), "{via:?}");
        }
    }
}

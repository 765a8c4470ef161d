//! The stored form of a link. It omits the host and the rank, which follow from the queue that the link is in.

use std::sync::Arc;

use argiope_core::page::custom_request::CustomRequest;
use argiope_core::{Link, LinkKind, LinkRef, Url, UrlRef};

use crate::memory::after_host;
use crate::segments::EarlierPlace;

/// Length of the fixed part in bytes: flags and kind, redirects, tries.
const HEAD_LENGTH: usize = 3;
/// Flag in the first byte: the scheme is https.
const HTTPS: u8 = 0x80;
/// Flag: the page that the link was found on (`via`) has the same scheme and host, so only the rest of its URL is
/// stored.
const SAME_HOST: u8 = 0x20;
/// Flag: the link has a custom request. The depth of the link, the length of the request and the request are stored
/// too. The depth is needed because a request can have a priority, and then the rank of the link is not its depth.
const HAS_REQUEST: u8 = 0x40;

/// A link in the form in which it is queued in a bucket.
#[derive(Clone, Debug)]
pub struct QueuedLink {
    pub fingerprint: u64,
    pub host: Box<str>,
    /// The order in which the links of a host are taken: the smallest first.
    pub rank: i32,
    /// Whether the link counts towards the limit on pages per host. Roots and sitemap files do not count.
    pub is_limited: bool,
    /// The stored form, without host and rank.
    pub bytes: Vec<u8>,
}

/// A link read from the queue, and where its record of the previous round is (in a recrawl).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenLink {
    pub link: Link,
    pub earlier: Option<EarlierPlace>,
}

impl QueuedLink {
    pub fn new(link: LinkRef<'_>, key: u64) -> Self {
        Self::with_earlier(link, key, None)
    }

    /// A link that is crawled again, with the place of its record of the previous round.
    pub fn with_earlier(link: LinkRef<'_>, key: u64, earlier: Option<EarlierPlace>) -> Self {
        // Most links are found on a page of the same host. The URL of that page is then stored without scheme and host.
        let is_same_host = |via: &Url| via.host() == link.url.host() && via.is_https() == link.url.is_https();
        let same_host = link.via.filter(|via| is_same_host(via));
        let via = same_host.map_or_else(|| link.via.map_or("", Url::as_str), |via| after_host(via.as_ref()));
        let rest = after_host(link.url);
        let mut bytes = Vec::with_capacity(HEAD_LENGTH + 2 + via.len() + rest.len());
        let has_request = if link.request.is_some() { HAS_REQUEST } else { 0 };
        let scheme = if link.url.is_https() { HTTPS } else { 0 };
        let flags = has_request | scheme | if same_host.is_some() { SAME_HOST } else { 0 };
        bytes.extend([link.kind as u8 | flags, link.redirects, link.tries]);
        // The lowest bit says whether the place of an earlier record follows.
        push_number(&mut bytes, (via.len() as u64) << 1 | u64::from(earlier.is_some()));
        bytes.extend(via.as_bytes());
        if let Some(EarlierPlace { segment, offset, length, line }) = earlier {
            for number in [u64::from(segment), offset, length, u64::from(line)] {
                push_number(&mut bytes, number);
            }
        }
        if let Some(request) = link.request {
            let encoded = request.encode();
            push_number(&mut bytes, u64::from(link.depth));
            push_number(&mut bytes, encoded.len() as u64);
            bytes.extend(encoded);
        }
        bytes.extend(rest.as_bytes());
        let fingerprint = link.fingerprint(key);
        let is_limited = !matches!(link.kind, LinkKind::Root | LinkKind::SitemapFile);
        Self { fingerprint, host: link.url.host().into(), rank: link.rank(), is_limited, bytes }
    }
}

/// Appends a number as LEB128: seven bits per byte, the lowest first.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number that [`push_number`] wrote.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Splits the first `length` bytes off; `None` if there are fewer.
fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Decodes a link. `None` if the bytes were not written by [`QueuedLink`].
pub fn decode(bytes: &[u8], host: &str, rank: i32) -> Option<TakenLink> {
    let (&[flags, redirects, tries], mut rest) = bytes.split_first_chunk::<HEAD_LENGTH>()?;
    let via_length = take_number(&mut rest)?;
    let has_earlier = via_length & 1 == 1;
    let via = take_bytes(&mut rest, via_length >> 1)?;
    let mut earlier = None;
    if has_earlier {
        let mut number = || take_number(&mut rest);
        let (segment, offset, length, line) = (number()?, number()?, number()?, number()?);
        let (segment, line) = (u32::try_from(segment).ok()?, u32::try_from(line).ok()?);
        earlier = Some(EarlierPlace { segment, offset, length, line });
    }
    // Without a custom request, the rank is the depth.
    let (mut depth, mut request) = (u32::try_from(rank).unwrap_or(0), None);
    if flags & HAS_REQUEST != 0 {
        depth = u32::try_from(take_number(&mut rest)?).ok()?;
        let length = take_number(&mut rest)?;
        request = Some(Arc::new(CustomRequest::decode(take_bytes(&mut rest, length)?)?));
    }
    let scheme = if flags & HTTPS == 0 { "http://" } else { "https://" };
    let text = [scheme, host, std::str::from_utf8(rest).ok()?].concat();
    let via = std::str::from_utf8(via).ok()?;
    let via = if flags & SAME_HOST == 0 { via.to_owned() } else { [scheme, host, via].concat() };
    let link = Link {
        url: UrlRef::from_normal(&text)?.to_url(),
        via: if via.is_empty() { None } else { Some(UrlRef::from_normal(&via)?.to_url()) },
        depth,
        redirects,
        tries,
        kind: LinkKind::from_number(flags & !(HTTPS | SAME_HOST | HAS_REQUEST))?,
        request,
    };
    Some(TakenLink { link, earlier })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_restores_the_encoded_link() {
        let url = |text: &str| Url::parse(text).expect("a URL");
        let places = [None, Some(EarlierPlace { segment: 300, offset: 1 << 40, length: 127, line: 128 })];
        let request = CustomRequest { priority: 3, ..CustomRequest::default() };
        for via in [None, Some("https://h.test:8443/a?b"), Some("http://h.test/a"), Some("https://other.test/")] {
            for (earlier, request) in places.into_iter().zip([None, Some(Arc::new(request.clone()))]) {
                let link = Link {
                    url: url("https://h.test/x/y?z=1"),
                    via: via.map(url),
                    depth: 3,
                    redirects: 20,
                    tries: 1,
                    kind: LinkKind::Other,
                    request,
                };
                let stored = QueuedLink::with_earlier(LinkRef::from(&link), 7, earlier);
                let read = decode(&stored.bytes, &stored.host, stored.rank);
                assert_eq!(read, Some(TakenLink { link, earlier }), "{via:?}");
                for cut in 0..HEAD_LENGTH + 2 {
                    assert_eq!(decode(&stored.bytes[..cut], &stored.host, stored.rank), None);
                }
            }
        }
    }
}

//! A queued link in the store: its page, the place of its record of the previous round, and its stored form
//! (`link_codec`). Host and rank follow from the queue that the link is in.

use argiope_core::{Link, LinkKind, LinkRef, Url, UrlRef};

use crate::segments::EarlierPlace;
use argiope_store::link_codec::{BareLink, after_host, scheme};
use argiope_store::varint::{Bytes, write_varint};

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
        let via = link.via.map_or("", |via| if is_same_host(via) { after_host(via.as_ref()) } else { via.as_str() });
        let mut bytes = Vec::with_capacity(via.len() + link.url.as_str().len());
        // The lowest bit says whether the place of an earlier record follows.
        write_varint((via.len() as u64) << 1 | u64::from(earlier.is_some()), &mut bytes);
        bytes.extend(via.as_bytes());
        if let Some(EarlierPlace { segment, offset, length, line }) = earlier {
            for number in [u64::from(segment), offset, length, u64::from(line)] {
                write_varint(number, &mut bytes);
            }
        }
        let request = link.request.map(|request| request.encode());
        BareLink::new(link, request.as_deref()).encode(&mut bytes);
        let fingerprint = link.fingerprint(key);
        let is_limited = !matches!(link.kind, LinkKind::Root | LinkKind::SitemapFile);
        Self { fingerprint, host: link.url.host().into(), rank: link.rank(), is_limited, bytes }
    }
}

/// Decodes a link of this host. `None` if the bytes were not written by [`QueuedLink`].
pub fn decode(bytes: &[u8], host: &str) -> Option<TakenLink> {
    let mut bytes = Bytes(bytes);
    let via_length = bytes.varint()?;
    let via = std::str::from_utf8(bytes.bytes(usize::try_from(via_length >> 1).ok()?)?).ok()?;
    let mut earlier = None;
    if via_length & 1 == 1 {
        let mut number = || bytes.varint();
        let (segment, offset, length, line) = (number()?, number()?, number()?, number()?);
        let (segment, line) = (u32::try_from(segment).ok()?, u32::try_from(line).ok()?);
        earlier = Some(EarlierPlace { segment, offset, length, line });
    }
    let stored = BareLink::decode(bytes)?;
    let via = match via {
        "" => None,
        // What follows a host never begins like a scheme.
        via if via.starts_with("http") => Some(UrlRef::from_normal(via)?.to_url()),
        via => Some(UrlRef::from_normal(&[scheme(stored.https), host, via].concat())?.to_url()),
    };
    Some(TakenLink { link: stored.to_link(host, via)?, earlier })
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::base::custom_request::CustomRequest;
    use std::sync::Arc;

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
                let read = decode(&stored.bytes, &stored.host);
                assert_eq!(read, Some(TakenLink { link, earlier }), "{via:?}");
                for cut in 0..4 {
                    assert_eq!(decode(&stored.bytes[..cut], &stored.host), None);
                }
            }
        }
    }
}

//! The stored form of a link, the same in every frontier: in memory, in the log of a crawl directory, in a cluster.
//!
//! It is `flags · redirects · tries · depth · request · rest of the URL`. The host is left out, because the queue that the
//! link is in belongs to one host; so is the page, which each frontier stores in its own way. The flags are the kind of
//! the link, whether the scheme is https, and whether there is a request. Depth and length of the request are varints.
//! The rest of the URL ends with the stored form.

use crate::varint::{Bytes, write_varint};
use argiope_core::base::custom_request::{CustomRequest, rank_of_encoded};
use argiope_core::base::link::link_fingerprint;
use argiope_core::{Link, LinkKind, LinkRef, Url, UrlRef};
use std::sync::Arc;

/// Flag in the first byte: the scheme is https.
const HTTPS: u8 = 0x80;
/// Flag in the first byte: the link has a request that is not a plain GET. The request follows the depth.
const HAS_REQUEST: u8 = 0x40;
/// The bits of the first byte that hold the kind.
const KIND: u8 = 0x3F;

/// A link without its host and its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareLink<'a> {
    pub kind: LinkKind,
    pub https: bool,
    /// How many redirects may still be followed.
    pub redirects: u8,
    /// How often the link was tried.
    pub tries: u8,
    pub depth: u32,
    /// How its request differs from a plain GET: an encoded [`CustomRequest`].
    pub request: Option<&'a [u8]>,
    /// Port, path and query: the URL after the host name.
    pub rest: &'a str,
}

impl<'a> BareLink<'a> {
    /// The stored form of a link with this request, which is the encoded request of the link.
    pub fn new(link: LinkRef<'a>, request: Option<&'a [u8]>) -> Self {
        let LinkRef { url, depth, redirects, tries, kind, .. } = link;
        Self { kind, https: url.is_https(), redirects, tries, depth, request, rest: after_host(url) }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let https = if self.https { HTTPS } else { 0 };
        let has_request = if self.request.is_some() { HAS_REQUEST } else { 0 };
        out.extend([self.kind as u8 | https | has_request, self.redirects, self.tries]);
        write_varint(u64::from(self.depth), out);
        if let Some(request) = self.request {
            write_varint(request.len() as u64, out);
            out.extend_from_slice(request);
        }
        out.extend_from_slice(self.rest.as_bytes());
    }

    /// Reads what [`Self::encode`] wrote. `None` if the bytes are malformed.
    pub fn decode(mut bytes: Bytes<'a>) -> Option<Self> {
        let (flags, redirects, tries) = (bytes.byte()?, bytes.byte()?, bytes.byte()?);
        let depth = u32::try_from(bytes.varint()?).ok()?;
        let request = if flags & HAS_REQUEST == 0 { None } else { Some(bytes.sized()?) };
        let kind = LinkKind::from_number(flags & KIND)?;
        let (https, rest) = (flags & HTTPS != 0, std::str::from_utf8(bytes.0).ok()?);
        Some(Self { kind, https, redirects, tries, depth, request, rest })
    }

    /// The order in which the links of a lane are taken: the smallest first.
    pub fn rank(&self) -> i32 {
        rank_of_encoded(self.depth, self.request)
    }

    /// Replaces the content of `text` by the URL, which is on this host.
    pub fn write_url(&self, host: &str, text: &mut String) {
        text.clear();
        for part in [scheme(self.https), host, self.rest] {
            text.push_str(part);
        }
    }

    /// The fingerprint by which a frontier recognises the link on this host. `None` if it is not a URL, or its request
    /// cannot be decoded. `text` is a buffer.
    pub fn fingerprint(&self, host: &str, key: u64, text: &mut String) -> Option<u64> {
        self.write_url(host, text);
        let plain = link_fingerprint(UrlRef::from_normal(text)?, self.kind, key);
        Some(match self.request {
            None => plain,
            Some(request) => plain ^ CustomRequest::decode(request)?.identity(key),
        })
    }

    /// The link on this host. `None` if it is not a URL, or its request cannot be decoded.
    pub fn to_link(self, host: &str, via: Option<Url>) -> Option<Link> {
        let url = UrlRef::from_normal(&[scheme(self.https), host, self.rest].concat())?.to_url();
        let request = match self.request {
            None => None,
            Some(request) => Some(Arc::new(CustomRequest::decode(request)?)),
        };
        let Self { kind, redirects, tries, depth, .. } = self;
        Some(Link { url, via, depth, redirects, tries, kind, request })
    }
}

/// The beginning of a URL.
pub fn scheme(https: bool) -> &'static str {
    if https { "https://" } else { "http://" }
}

/// The part of a URL after its scheme.
pub fn after_scheme(url: UrlRef<'_>) -> &str {
    url.as_str().get(scheme(url.is_https()).len()..).unwrap_or_default()
}

/// The part of a URL that its host does not determine: port, path and query.
pub fn after_host(url: UrlRef<'_>) -> &str {
    after_scheme(url).get(url.host().len()..).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_restores_the_link() {
        let request = CustomRequest { priority: 3, ..CustomRequest::default() };
        for (url, request) in [("https://h.test:8443/x/y?z=1", None), ("http://h.test/", Some(Arc::new(request)))] {
            let link = Link {
                url: Url::parse(url).expect("a URL"),
                via: None,
                depth: 300,
                redirects: 20,
                tries: 255,
                kind: LinkKind::Other,
                request,
            };
            let request = link.request.as_ref().map(|request| request.encode());
            let stored = BareLink::new(LinkRef::from(&link), request.as_deref());
            let mut bytes = Vec::new();
            stored.encode(&mut bytes);
            let read = BareLink::decode(Bytes(&bytes)).expect("it decodes");
            assert_eq!((read, read.rank()), (stored, link.rank()));
            assert_eq!(read.fingerprint("h.test", 7, &mut String::new()), Some(link.fingerprint(7)));
            assert_eq!(read.to_link("h.test", None), Some(link));
            for length in 0..4 {
                assert_eq!(BareLink::decode(Bytes(&bytes[..length])), None);
            }
        }
    }
}

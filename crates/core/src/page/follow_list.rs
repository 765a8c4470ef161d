//! [`FollowList`]: the links to follow from one visit.
//!
//! A page has about fifty links, most of them known already. They are created on one thread, processed on a second and
//! dropped on a third. To make this cheap, the list has only two allocations: one for the text of all URLs and one for
//! the items.
//!
//! Invariant: all links come from the same page and have the same depth.

use std::sync::Arc;

use crate::base::custom_request::CustomRequest;
use crate::base::link::LinkKind;
use crate::base::link::{LinkRef, UrlHash};
use crate::base::url::{Url, UrlOffsets, UrlRef};
use crate::page::url_shape::is_circular;

/// Links to follow, all from one page.
#[derive(Clone, Debug, Default)]
pub struct FollowList {
    /// All URLs, one after the other.
    text: String,
    items: Vec<Item>,
    /// Number of links from a root to each of these links.
    depth: u32,
    /// How many more redirects each link may follow.
    redirects: u8,
    /// The key of the fingerprints.
    key: u64,
    /// Whether the path of a URL repeats itself. Computed by the worker, like the fingerprints.
    has_circular_path: bool,
    /// For each link, its request if it has a priority. Shorter than `items` if the last links have none.
    requests: Vec<Option<Arc<CustomRequest>>>,
}

/// Among this number of links before it, a link looks for a request with the same priority.
const KNOWN_PRIORITIES: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Item {
    /// End of its URL in the text. The URL starts at the end of the previous one.
    end: u32,
    kind: LinkKind,
    offsets: UrlOffsets,
    /// Computed by the worker, because the keeper, which needs it, runs on a single thread.
    fingerprint: u64,
}

impl FollowList {
    /// An empty list for links of this depth and redirect allowance. `key` is the key of their fingerprints.
    pub fn new(key: u64, depth: u32, redirects: u8) -> Self {
        let (text, items, requests) = (String::new(), Vec::new(), Vec::new());
        Self { text, items, depth, redirects, key, has_circular_path: false, requests }
    }

    /// Reserves memory for this many links with this many bytes.
    pub fn reserve(&mut self, links: usize, bytes: usize) {
        self.items.reserve_exact(links);
        self.text.reserve_exact(bytes);
    }

    /// Adds a link, and computes its fingerprint.
    pub fn push(&mut self, url: UrlRef<'_>, kind: LinkKind) {
        self.push_hashed(url, kind, url.fingerprint(self.key));
    }

    /// Adds a link whose fingerprint is known. Links beyond 4 GB of text are dropped; [`crate::page::follow`] keeps the
    /// list far below that.
    pub(crate) fn push_hashed(&mut self, url: UrlRef<'_>, kind: LinkKind, fingerprint: u64) {
        if let Ok(end) = u32::try_from(self.text.len() + url.as_str().len()) {
            self.text.push_str(url.as_str());
            self.has_circular_path = self.has_circular_path || is_circular(url.path());
            self.items.push(Item { end, kind, offsets: url.offsets(), fingerprint });
        }
    }

    /// Sets the priority of the link that was added last.
    pub fn set_priority(&mut self, priority: i16) {
        if priority == 0 || self.items.is_empty() {
            return;
        }
        // Links of one page usually have few priorities.
        let is_same = |request: &&Arc<CustomRequest>| request.priority == priority;
        let known = self.requests.iter().rev().take(KNOWN_PRIORITIES).flatten().find(is_same).cloned();
        self.requests.resize(self.items.len() - 1, None);
        self.requests.push(known.or_else(|| CustomRequest::of_priority(priority)));
    }

    /// Releases unused capacity.
    pub fn shrink(&mut self) {
        self.requests.shrink_to_fit();
        self.text.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether the path of at least one URL repeats itself: see [`is_circular`].
    pub fn has_circular_path(&self) -> bool {
        self.has_circular_path
    }

    /// Heap bytes of the list.
    pub fn bytes(&self) -> usize {
        let requests =
            self.requests.capacity() * (size_of::<Option<Arc<CustomRequest>>>() + size_of::<CustomRequest>());
        self.text.capacity() + self.items.capacity() * size_of::<Item>() + requests
    }

    /// URLs and kinds, in page order.
    pub fn iter(&self) -> impl Iterator<Item = (UrlRef<'_>, LinkKind)> {
        let mut start = 0;
        self.items.iter().map(move |item| {
            let text = self.text.get(start..item.end as usize).unwrap_or("");
            start = item.end as usize;
            (UrlRef::with_offsets(text, item.offsets), item.kind)
        })
    }

    /// The links, as found on `page`.
    pub fn links<'a>(&'a self, page: &'a Url) -> impl Iterator<Item = LinkRef<'a>> {
        let (key, depth, redirects) = (self.key, self.depth, self.redirects);
        let requests = self.requests.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        self.iter().zip(&self.items).zip(requests).map(move |(((url, kind), item), request)| LinkRef {
            url,
            via: Some(page),
            depth,
            redirects,
            tries: 0,
            kind,
            request,
            hash: Some(UrlHash { key, fingerprint: item.fingerprint }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_links_are_restored() {
        let url = |text: &str| Url::parse(text).expect("an address");
        let urls = ["http://h/", "https://[::1]:81/p?q=é", "http://h:8080/a/b"].map(url);
        let page = url("http://page/");
        let mut found = FollowList::new(7, 3, 5);
        for (address, kind) in urls.iter().zip([LinkKind::Anchor, LinkKind::Frame, LinkKind::Asset]) {
            found.push(address.as_ref(), kind);
        }
        for (link, url) in found.links(&page).zip(&urls) {
            assert_eq!((link.fingerprint(7), link.fingerprint(8)), (url.fingerprint(7), url.fingerprint(8)));
        }
        let links: Vec<_> = found.links(&page).map(|link| link.to_link()).collect();
        assert_eq!(links.iter().map(|link| &link.url).collect::<Vec<_>>(), urls.iter().collect::<Vec<_>>());
        for (link, address) in links.iter().zip(&urls) {
            assert_eq!((link.url.host(), link.url.port()), (address.host(), address.port()));
            assert_eq!((link.url.path(), link.url.query()), (address.path(), address.query()));
            assert_eq!((link.via.as_ref(), link.depth, link.redirects, link.tries), (Some(&page), 3, 5, 0));
        }
        assert_eq!(
            links.iter().map(|link| link.kind).collect::<Vec<_>>(),
            [LinkKind::Anchor, LinkKind::Frame, LinkKind::Asset]
        );
        assert_eq!((found.len(), found.is_empty()), (3, false));
        found.shrink();
        assert_eq!(found.iter().map(|(url, _)| url.to_url()).collect::<Vec<_>>(), urls);
    }
}

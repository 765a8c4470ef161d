//! [`Backlinks`]: which pages link to which URL, kept until the broken links are known.
//!
//! Invariant: at most [`MAX_LINKS`] links and [`MAX_TEXT`] bytes of page addresses, about 60 MB in total. Beyond that, a
//! broken link is listed with the page it was found on and the linking pages seen before the limit.

use std::collections::HashMap;

use argiope_core::UrlRef;

use super::url_list::UrlList;

/// Maximum number of links, which take 12 bytes each.
const MAX_LINKS: usize = 3_000_000;
/// Maximum bytes of the URLs of pages with links.
const MAX_TEXT: usize = 16 << 20;

/// The key of the fingerprints. It can be constant: a collision, even a constructed one, only lists a page too many.
const KEY: u64 = 0x6172_6769_6f70_6521;

#[derive(Clone, Debug)]
pub struct Backlinks {
    /// The pages with links.
    urls: UrlList,
    /// `links` and `pages` are parallel vectors, because a vector of pairs would need padding.
    links: Vec<u64>,
    pages: Vec<u32>,
}

impl Default for Backlinks {
    fn default() -> Self {
        Self { urls: UrlList::with_limit(MAX_TEXT), links: Vec::new(), pages: Vec::new() }
    }
}

impl Backlinks {
    /// The fingerprint of a link.
    pub fn fingerprint(url: UrlRef<'_>) -> u64 {
        url.fingerprint(KEY)
    }

    /// The fingerprint of an address read from a file; 0 if it is not a URL.
    pub fn fingerprint_of_text(url: &str) -> u64 {
        UrlRef::from_normal(url).map_or(0, Self::fingerprint)
    }

    pub fn add(&mut self, page: &str, links: impl IntoIterator<Item = u64>) {
        if self.links.len() >= MAX_LINKS {
            return;
        }
        let Some(number) = self.urls.push(page) else { return };
        let before = self.links.len();
        self.links.extend(links.into_iter().take(MAX_LINKS - before));
        match self.links.len() {
            after if after > before => self.pages.resize(after, number),
            _ => self.urls.pop(),
        }
    }

    /// For each of these links, the pages that contain it, in reading order. One pass over all links, regardless of how many
    /// are requested.
    pub fn pages_with(&self, wanted: &[u64]) -> Vec<Vec<&str>> {
        let places: HashMap<u64, usize> = wanted.iter().enumerate().map(|(place, link)| (*link, place)).collect();
        let mut found: Vec<Vec<u32>> = vec![Vec::new(); wanted.len()];
        for (link, page) in self.links.iter().zip(&self.pages) {
            // A page may contain the same link more than once.
            if let Some(pages) = places.get(link).and_then(|place| found.get_mut(*place))
                && pages.last() != Some(page)
            {
                pages.push(*page);
            }
        }
        found.into_iter().map(|pages| pages.into_iter().filter_map(|page| self.urls.get(page)).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_with_a_link_are_found_once() {
        let link = Backlinks::fingerprint_of_text;
        let (a, b, c) = (link("http://h/a"), link("http://h/b"), link("http://h/c"));
        let mut backlinks = Backlinks::default();
        backlinks.add("http://h/1", [a, b, a]);
        backlinks.add("http://h/none", []);
        backlinks.add("http://h/2", [b]);
        backlinks.add("http://h/3", [a]);
        let found = backlinks.pages_with(&[a, b, c]);
        assert_eq!(found, [vec!["http://h/1", "http://h/3"], vec!["http://h/1", "http://h/2"], vec![]]);
    }

    #[test]
    fn links_and_urls_stay_within_their_limits() {
        let mut backlinks = Backlinks::default();
        backlinks.add("http://h/1", 0..2 * MAX_LINKS as u64);
        backlinks.add("http://h/2", [1]);
        assert_eq!((backlinks.links.len(), backlinks.pages.len()), (MAX_LINKS, MAX_LINKS));
        assert_eq!(backlinks.urls.get(1), None);
    }
}

//! [`Backlinks`]: which pages link to which URL, kept until the broken links are known.
//!
//! Invariant: at most [`MAX_LINKS`] links and [`MAX_TEXT`] bytes of page URLs are kept, about 60 MB in total. Later links are
//! dropped, so the pages that contain them are not listed.

use std::collections::HashMap;

use argiope_core::UrlRef;

use super::url_list::UrlList;

/// Maximum number of links, which take 12 bytes each.
const MAX_LINKS: usize = 3_000_000;
/// Maximum bytes of the URLs of pages with links.
const MAX_TEXT: usize = 16 << 20;

/// The key of the fingerprints. It may be constant, because a collision only adds a wrong page to a list.
const KEY: u64 = 0x6172_6769_6f70_6521;

/// Pairs of a link and the page that contains it.
#[derive(Clone, Debug)]
pub struct Backlinks {
    /// The pages with links.
    urls: UrlList,
    /// The fingerprint of each link. Parallel to `pages`, because a vector of pairs would contain padding.
    links: Vec<u64>,
    /// For each link, the number of its page in `urls`.
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

    /// The fingerprint of a URL from a record; 0 if it is not a URL.
    pub fn fingerprint_of_text(url: &str) -> u64 {
        UrlRef::from_normal(url).map_or(0, Self::fingerprint)
    }

    /// Adds the links of a page, as fingerprints.
    pub fn add(&mut self, page: &str, links: impl IntoIterator<Item = u64>) {
        if self.links.len() >= MAX_LINKS {
            return;
        }
        let Some(page_number) = self.urls.push(page) else { return };
        let before = self.links.len();
        self.links.extend(links.into_iter().take(MAX_LINKS - before));
        match self.links.len() {
            after if after > before => self.pages.resize(after, page_number),
            // Without links, the URL of the page is not needed.
            _ => self.urls.pop(),
        }
    }

    /// For each of these links, the pages that contain it, in the order in which they were added. Makes one pass over all
    /// links.
    pub fn pages_with(&self, links: &[u64]) -> Vec<Vec<&str>> {
        let positions: HashMap<u64, usize> =
            links.iter().enumerate().map(|(position, link)| (*link, position)).collect();
        let mut found: Vec<Vec<u32>> = vec![Vec::new(); links.len()];
        for (link, page) in self.links.iter().zip(&self.pages) {
            // A page may contain the same link more than once.
            if let Some(pages) = positions.get(link).and_then(|position| found.get_mut(*position))
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
    fn each_page_with_a_link_is_listed_once() {
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
    fn no_link_or_page_is_added_beyond_the_limit_of_links() {
        let mut backlinks = Backlinks::default();
        backlinks.add("http://h/1", 0..2 * MAX_LINKS as u64);
        backlinks.add("http://h/2", [1]);
        assert_eq!((backlinks.links.len(), backlinks.pages.len()), (MAX_LINKS, MAX_LINKS));
        assert_eq!(backlinks.urls.get(1), None);
    }
}

//! [`Duplicates`]: pages with identical bodies, listed by URL.
//!
//! Invariant: at most [`MAX_BODIES`] digests and [`MAX_TEXT`] bytes of URLs are kept, about 20 MB. When a limit is reached,
//! later pages are compared only with the pages that are kept, so the count is a lower bound.

use std::collections::HashMap;

use super::url_list::UrlList;

/// Maximum number of different bodies.
const MAX_BODIES: usize = 1 << 17;
/// Maximum bytes of the URLs of the first pages with these bodies.
const MAX_TEXT: usize = 16 << 20;
/// Maximum number of groups listed.
const MAX_GROUPS: usize = 100;
/// Maximum number of pages listed per group, besides the first.
const MAX_LISTED: usize = 10;

/// Pages with the same body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateGroup {
    /// The first page that had this body.
    pub first: Box<str>,
    /// Other pages, up to [`MAX_LISTED`].
    pub others: Vec<Box<str>>,
    /// The number of all other pages, listed or not.
    pub total: u64,
}

/// Pages whose body is identical to that of an earlier page.
#[derive(Clone, Debug)]
pub struct Duplicates {
    /// The number of pages with the same body as an earlier page.
    pub total: u64,
    pub groups: Vec<DuplicateGroup>,
    /// By digest: the position in `groups`.
    group_positions: HashMap<u64, usize>,
    /// By digest: the number, in `urls`, of the first page with this body.
    first_pages: HashMap<u64, u32>,
    urls: UrlList,
}

impl Default for Duplicates {
    fn default() -> Self {
        Self {
            total: 0,
            groups: Vec::new(),
            group_positions: HashMap::new(),
            first_pages: HashMap::new(),
            urls: UrlList::with_limit(MAX_TEXT),
        }
    }
}

impl Duplicates {
    /// Adds a page. `digest` is the first eight bytes of the body's digest.
    pub fn add(&mut self, digest: u64, url: &str) {
        if let Some(first) = self.first_pages.get(&digest) {
            self.total += 1;
            if self.groups.len() < MAX_GROUPS && !self.group_positions.contains_key(&digest) {
                let first = self.urls.get(*first).unwrap_or_default().into();
                self.group_positions.insert(digest, self.groups.len());
                self.groups.push(DuplicateGroup { first, others: Vec::new(), total: 0 });
            }
            if let Some(group) = self.group_positions.get(&digest).and_then(|position| self.groups.get_mut(*position)) {
                group.total += 1;
                if group.others.len() < MAX_LISTED {
                    group.others.push(url.into());
                }
            }
        } else if self.first_pages.len() < MAX_BODIES
            && let Some(number) = self.urls.push(url)
        {
            self.first_pages.insert(digest, number);
        }
    }

    /// Frees the memory that only adding pages needs.
    pub fn close(&mut self) {
        (self.first_pages, self.group_positions) = (HashMap::new(), HashMap::new());
        self.urls = UrlList::with_limit(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lists_the_first_page_and_its_duplicates() {
        let mut duplicates = Duplicates::default();
        for number in 0..20_u64 {
            duplicates.add(number % 2, &format!("http://h/{number}"));
        }
        duplicates.add(7, "http://h/alone");
        duplicates.close();
        assert_eq!(duplicates.total, 18);
        let [even, odd] = &duplicates.groups[..] else { panic!("{duplicates:?}") };
        assert_eq!((&*even.first, even.others.len(), even.total), ("http://h/0", 9, 9));
        assert_eq!((&*odd.first, &*odd.others[0]), ("http://h/1", "http://h/3"));
    }

    #[test]
    fn the_numbers_of_bodies_and_groups_are_limited() {
        let mut duplicates = Duplicates::default();
        for number in 0..MAX_BODIES as u64 + 10 {
            duplicates.add(number, "u");
        }
        for number in 0..MAX_BODIES as u64 + 10 {
            duplicates.add(number, "again");
        }
        assert_eq!((duplicates.first_pages.len(), duplicates.groups.len()), (MAX_BODIES, MAX_GROUPS));
        assert_eq!(duplicates.total, MAX_BODIES as u64);
    }
}

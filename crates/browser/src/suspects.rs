//! [`Suspects`]: which sites end browsers, so that they do not end rendering for others.

use std::collections::HashMap;

use argiope_core::Url;

/// How many pages of a site may end the browser, each when it was rendered alone, before its pages stay static.
const PAGES_PER_SITE: u32 = 2;
/// If the pages of this many sites in a row end the browser, and none has a document, the browser itself is the cause.
const SITES_IN_A_ROW: u32 = 5;
/// Limit on the sites that are remembered.
const MAX_SITES: usize = 10_000;

/// Counts the pages that end browsers, by site.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    sites: HashMap<Box<str>, u32>,
    sites_in_a_row: u32,
}

impl Suspects {
    /// A page has ended the browser in all its tries. Returns a notice for the user, once for each site.
    pub(crate) fn ended_browser(&mut self, page: &Url) -> Option<String> {
        if self.sites.len() >= MAX_SITES {
            self.sites.clear();
        }
        let site = site_of(page);
        let pages = self.sites.entry(site.into()).or_default();
        *pages += 1;
        if *pages != PAGES_PER_SITE {
            return None;
        }
        self.sites_in_a_row += 1;
        Some(format!("pages of {site} are not rendered any more: they end the browser"))
    }

    /// A page has a document.
    pub(crate) fn has_document(&mut self) {
        self.sites_in_a_row = 0;
    }

    /// Whether the pages of this page's site stay static.
    pub(crate) fn is_given_up(&self, page: &Url) -> bool {
        self.sites.get(site_of(page)).is_some_and(|pages| *pages >= PAGES_PER_SITE)
    }

    /// Whether the browser fails with all pages.
    pub(crate) fn all_fail(&self) -> bool {
        self.sites_in_a_row >= SITES_IN_A_ROW
    }
}

fn site_of(page: &Url) -> &str {
    page.registrable_domain().unwrap_or(page.host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_ends_browsers_is_given_up_and_others_are_not() {
        let mut suspects = Suspects::default();
        let page = |host: &str| Url::parse(&format!("http://{host}/")).expect("a URL");
        let notices: Vec<_> =
            (0..20).filter_map(|n| suspects.ended_browser(&page(&format!("h{n}.evil.example")))).collect();
        assert_eq!(notices, ["pages of evil.example are not rendered any more: they end the browser"]);
        assert!(suspects.is_given_up(&page("www.evil.example")) && !suspects.is_given_up(&page("good.example")));
        assert!(!suspects.all_fail());
    }

    #[test]
    fn a_browser_that_renders_no_page_of_many_sites_is_given_up() {
        let mut suspects = Suspects::default();
        let page = |n: u32| Url::parse(&format!("http://site{n}.example/")).expect("a URL");
        let end_twice = |suspects: &mut Suspects, n: u32| (0..2).for_each(|_| drop(suspects.ended_browser(&page(n))));
        (0..4).for_each(|n| end_twice(&mut suspects, n));
        suspects.has_document();
        (4..8).for_each(|n| end_twice(&mut suspects, n));
        assert!(!suspects.all_fail(), "a page in between was rendered");
        end_twice(&mut suspects, 8);
        assert!(suspects.all_fail());
    }
}

//! [`PickFilter`]: `--pick` and `--next`, which choose the links of a page by CSS selectors.
//!
//! It decides before the filter of a program: what is not picked is not passed to that filter.

use std::collections::HashSet;
use std::sync::Arc;

use argiope_content::{Document, Element, ParseLimits, Selector};
use argiope_core::LinkKind;
use argiope_core::base::url::{StripParams, Url};
use argiope_core::crawl::rules::{Config, ConfigError};
use argiope_core::page::follow::{LinkFilter, LinkJudge, LinkPage, LinkVerdict, PageLink};
use argiope_core::page::page_budget::PageBudget;
use argiope_core::page::reader::decode;

/// Leaves out the links of pages that are not in picked elements.
#[derive(Debug)]
pub struct PickFilter {
    pick: Vec<Selector>,
    next: Vec<Selector>,
    /// The depth up to which links of `next` are followed.
    max_next: u32,
    /// Links are compared after these parameters were removed from them.
    strip_params: StripParams,
    program: Option<Arc<dyn LinkFilter>>,
}

/// The links of one page in picked elements.
#[derive(Debug, Default, PartialEq, Eq)]
struct Picked {
    /// Whether a selector of `pick` matches the page: only then are other links left out.
    is_limited: bool,
    links: HashSet<Url>,
    next: HashSet<Url>,
}

impl PickFilter {
    /// The filter of a program, after the one for these settings if they pick links.
    pub fn before(
        config: &Config,
        program: Option<Arc<dyn LinkFilter>>,
    ) -> Result<Option<Arc<dyn LinkFilter>>, ConfigError> {
        if config.pick.is_empty() && config.next.is_empty() {
            return Ok(program);
        }
        Ok(Some(Arc::new(Self {
            pick: selectors("pick", &config.pick)?,
            next: selectors("next", &config.next)?,
            max_next: config.max_next,
            strip_params: StripParams::new(&config.strip_param),
            program,
        })))
    }

    fn picked(&self, page: &LinkPage<'_>) -> Picked {
        if page.body.is_empty() {
            return Picked::default();
        }
        let html = decode(page.body, page.charset);
        let budget = PageBudget::for_page(html.len());
        let document = Document::parse_within(html, &ParseLimits::default(), &budget);
        let document = document.with_charset(page.charset).with_url(&page.link.url);
        let mut picked = Picked::default();
        for selector in &self.pick {
            picked.is_limited |= self.collect(selector, &document, &budget, &mut picked.links);
        }
        for selector in &self.next {
            self.collect(selector, &document, &budget, &mut picked.next);
        }
        // A page that is too expensive to read has no links that were picked, instead of all.
        picked.is_limited |= budget.is_used_up() && !self.pick.is_empty();
        picked
    }

    /// Collects the links in elements that match. Returns whether one matches.
    fn collect(&self, selector: &Selector, page: &Document, budget: &PageBudget, links: &mut HashSet<Url>) -> bool {
        // Elements are in the order of the page, so those within one that was read come directly after it.
        let (mut has_match, mut read_until) = (false, None);
        for element in selector.matches_within(page.root(), budget) {
            has_match = true;
            if read_until.is_some_and(|last| element.index() <= last) {
                continue;
            }
            for inner in std::iter::once(element).chain(element.descendants()) {
                if !budget.visit() {
                    return has_match;
                }
                read_until = Some(inner.index());
                links.extend(target(page, inner).map(|url| self.strip_params.strip(url.as_ref()).unwrap_or(url)));
            }
        }
        has_match
    }
}

impl LinkFilter for PickFilter {
    fn open<'a>(&'a self, page: LinkPage<'a>) -> LinkJudge<'a> {
        let picked = self.picked(&page);
        let mut program = self.program.as_ref().map(|program| program.open(page));
        Box::new(move |link| {
            if !picked.admits(link, self.max_next) {
                return LinkVerdict::Skip;
            }
            program.as_mut().map_or(LinkVerdict::With(0), |judge| judge(link))
        })
    }

    fn ranks(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.ranks())
    }

    fn name(&self) -> &'static str {
        self.program.as_ref().map_or("pick", |program| program.name())
    }
}

impl Picked {
    fn admits(&self, link: &PageLink<'_>, max_next: u32) -> bool {
        // A refresh is a redirect, and resources are chosen by `assets`.
        if matches!(link.kind, LinkKind::Refresh | LinkKind::Redirect | LinkKind::Asset) {
            return true;
        }
        let url = link.url.as_str();
        if self.next.contains(url) {
            return link.depth <= max_next;
        }
        !self.is_limited || self.links.contains(url)
    }
}

/// The URL to which an element leads.
fn target(page: &Document, element: Element<'_>) -> Option<Url> {
    let attribute = match element.name() {
        "a" | "area" | "link" => "href",
        "frame" | "iframe" => "src",
        _ => return None,
    };
    page.resolve(&element.attribute(attribute)?)
}

fn selectors(key: &'static str, texts: &[String]) -> Result<Vec<Selector>, ConfigError> {
    let parse = |text: &String| {
        Selector::parse(text).map_err(|error| ConfigError { key, value: text.clone(), problem: error.to_string() })
    };
    texts.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use argiope_core::crawl::rules::ProgramSettings;
    use argiope_core::{Link, UrlRef};

    use super::*;

    /// The paths that are followed on a page at this depth.
    fn followed(config: &Config, body: &str, depth: u32) -> Vec<String> {
        let filter = PickFilter::before(config, ProgramSettings::default().link_filter).expect("selectors");
        let filter = filter.expect("a filter");
        let link = Link { depth, ..Link::root(Url::parse("http://h.example/list/").expect("a URL"), 5) };
        let page = LinkPage::new(&link, body.as_bytes(), Some("utf-8"));
        let mut judge = filter.open(page);
        let paths = ["/list/a", "/list/b", "/next", "/other"];
        let is_followed = |path: &&str| {
            let url = format!("http://h.example{path}");
            let url = UrlRef::from_normal(&url).expect("a URL");
            judge(&PageLink::new(url, LinkKind::Anchor, &link)) != LinkVerdict::Skip
        };
        paths.into_iter().filter(is_followed).map(str::to_owned).collect()
    }

    fn config(pick: &[&str], next: &[&str]) -> Config {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Config {
            pick: texts(pick),
            next: texts(next),
            max_next: 3,
            strip_param: vec!["sid".into()],
            ..Config::default()
        }
    }

    const LIST: &str = "<nav><a href=/other>x</a></nav><ul class=items><li><div><a href='a#part'>a</a></div>\
        <li><a href='b?sid=1'>b</a></ul><p class=pager><a href=/next>next</a>";

    #[test]
    fn only_links_in_picked_elements_are_followed_on_pages_that_have_them() {
        assert_eq!(followed(&config(&[".items"], &[]), LIST, 0), ["/list/a", "/list/b"]);
        assert_eq!(followed(&config(&[".items div, .items", "nav"], &[]), LIST, 0), ["/list/a", "/list/b", "/other"]);
        assert_eq!(followed(&config(&[".absent"], &[]), LIST, 0).len(), 4, "a page without a match is not limited");
        assert!(followed(&config(&["ul"], &[]), "<ul></ul><a href=/other>x</a>", 0).is_empty());
    }

    #[test]
    fn pages_of_a_list_are_followed_beside_what_is_picked_and_up_to_a_depth() {
        let config = config(&[".items"], &[".pager a"]);
        assert_eq!(followed(&config, LIST, 1), ["/list/a", "/list/b", "/next"]);
        assert_eq!(followed(&config, LIST, 3), ["/list/a", "/list/b"], "its depth would be 4");
    }

    #[test]
    fn a_selector_that_cannot_be_parsed_is_an_error() {
        let error = PickFilter::before(&config(&["a["], &[]), None).expect_err("not a selector");
        assert_eq!((error.key, &*error.value), ("pick", "a["));
    }
}

//! [`Rendered`]: how many pages were rendered, and what that has gained, by template.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use argiope_core::base::escape::visible;
use argiope_core::base::url::UrlRef;
use argiope_core::crawl::render_facts::RenderFacts;
use argiope_core::page::url_shape;
use serde_json::{Value, json};

use crate::wording;

/// Limit on the templates that are listed; all further ones are counted together.
const MAX_TEMPLATES: usize = 1_000;
/// How many templates the text of the report shows.
const SHOWN_TEMPLATES: usize = 5;

/// What rendering has gained for some pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderTotals {
    pub pages: u64,
    /// Pages with more links or words than without their scripts.
    pub gained: u64,
    pub links: u64,
    pub words: u64,
}

impl RenderTotals {
    fn add(&mut self, facts: &RenderFacts) {
        self.pages += 1;
        self.gained += u64::from(facts.links > 0 || facts.words > 0);
        self.links += u64::from(facts.links);
        self.words += facts.words;
    }

    fn to_json(self) -> Value {
        json!({ "pages": self.pages, "gained": self.gained, "links": self.links, "words": self.words })
    }

    fn in_words(self) -> String {
        let pages = wording::plural(self.pages, "page");
        let (links, words) = (wording::plural(self.links, "link"), wording::plural(self.words, "word"));
        format!("{pages}, {} gained: {links} and {words} more", wording::count(self.gained))
    }
}

/// The rendered pages of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub total: RenderTotals,
    pub templates: BTreeMap<Box<str>, RenderTotals>,
}

impl Rendered {
    /// Adds a rendered page.
    pub fn add(&mut self, url: UrlRef<'_>, facts: &RenderFacts) {
        self.total.add(facts);
        let template = url_shape::pattern(url).into_boxed_str();
        if self.templates.len() < MAX_TEMPLATES || self.templates.contains_key(&template) {
            self.templates.entry(template).or_default().add(facts);
        }
    }

    /// The templates, those with the largest gain first.
    fn by_gain(&self) -> Vec<(&str, RenderTotals)> {
        let mut all: Vec<_> = self.templates.iter().map(|(name, totals)| (&**name, *totals)).collect();
        all.sort_by_key(|(_, totals)| std::cmp::Reverse((totals.gained, totals.pages)));
        all
    }

    /// The section of the report; empty if no page was rendered.
    pub fn to_text(&self, all: bool) -> String {
        let mut text = String::new();
        if self.total.pages == 0 {
            return text;
        }
        let _ = writeln!(text, "\nRendered pages: {}", self.total.in_words());
        let shown = if all { usize::MAX } else { SHOWN_TEMPLATES };
        for (template, totals) in self.by_gain().into_iter().take(shown) {
            let _ = writeln!(text, "  {}  {}", visible(template), totals.in_words());
        }
        let more = self.templates.len().saturating_sub(shown);
        if more > 0 {
            let _ = writeln!(text, "  … and {more} more");
        }
        text
    }

    /// For `report --json`. `null` if no page was rendered.
    pub fn to_json(&self) -> Value {
        if self.total.pages == 0 {
            return Value::Null;
        }
        let templates = self.by_gain().into_iter().map(|(name, totals)| {
            let mut value = totals.to_json();
            if let Some(fields) = value.as_object_mut() {
                fields.insert("template".into(), name.into());
            }
            value
        });
        let mut value = self.total.to_json();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("templates".into(), templates.collect());
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::Url;
    use argiope_core::render::{RenderEnd, RenderReason};

    use super::*;

    #[test]
    fn gains_are_summed_by_template_and_the_largest_come_first() {
        let mut rendered = Rendered::default();
        assert_eq!((rendered.to_text(false), rendered.to_json()), (String::new(), Value::Null));
        let mut add = |path: &str, links: u32| {
            let facts = RenderFacts {
                reason: RenderReason::Sample,
                end: RenderEnd::Idle,
                ms: 1,
                virtual_ms: 1,
                requests: 0,
                cached: 0,
                refused: 0,
                words: 0,
                links,
                errors: Vec::new(),
                without_scripts: None,
            };
            let url = Url::parse(&format!("http://h.example/{path}")).expect("a URL");
            rendered.add(url.as_ref(), &facts);
        };
        (0..4).for_each(|_| add("about", 0));
        (1..4).for_each(|n| add(&format!("item/{n}"), 40));
        let value = rendered.to_json();
        assert_eq!((&value["pages"], &value["gained"], &value["links"]), (&json!(7), &json!(3), &json!(120)));
        assert_eq!((&value["templates"][0]["pages"], &value["templates"][0]["gained"]), (&json!(3), &json!(3)));
        let text = rendered.to_text(false);
        assert!(text.contains("Rendered pages: 7 pages, 3 gained: 120 links and 0 words more\n"), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}

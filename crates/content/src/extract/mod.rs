//! [`Extraction`]: rules that extract named fields from pages.
//!
//! A rule is `NAME=SELECTOR` on the command line or an entry of a rules file (TOML). Both become a [`Field`]. All errors
//! of a rule are detected when it is parsed, before the first request.

use std::sync::OnceLock;

use argiope_core::base::url::Url;
use argiope_core::page::page_budget::PageBudget;
use argiope_core::page::reader::FieldCount;
use regex::Regex;
use serde_json::{Map, Value};

mod coerce;
mod file;
mod rule;
mod schema;
mod stream;
#[cfg(test)]
mod stream_tests;
mod values;

use crate::document::{Document, ParseLimits};
use crate::select::Selector;
use crate::structured::DataPath;
use coerce::Coercion;
pub(crate) use coerce::date_of as parse_date;
pub use schema::{DataColumn, ValueType};
use stream::StreamPlan;

/// Rules that extract named fields from pages.
///
/// ```
/// use argiope_content::{Document, Extraction};
///
/// let rules = Extraction::from_rules(["title=h1", "tags[]=.tag", "next=a[rel=next]@href"]).unwrap();
/// let page = Document::parse("<h1>Orb weavers</h1><i class=tag>web</i><i class=tag>silk</i><a rel=next href=/2>2</a>")
///     .with_base("https://example.com/").unwrap();
/// let budget = argiope_core::page::page_budget::PageBudget::for_page(1000);
/// let data = rules.apply(&page, "https://example.com/", &budget, &mut rules.tally()).data;
/// assert_eq!(serde_json::Value::Object(data), serde_json::json!({
///     "title": "Orb weavers", "tags": ["web", "silk"], "next": "https://example.com/2",
/// }));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Extraction {
    fields: Vec<Field>,
    /// The pages that the rules apply to.
    urls: UrlFilter,
    /// How the fields are found without a tree. It is computed on first use, and is `None` if the rules need a tree.
    plan: OnceLock<Option<StreamPlan>>,
}

/// A rule that cannot be used, and its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
#[non_exhaustive]
pub struct RuleError {
    /// The rule, or the file, line and field.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

/// The data extracted from one page.
#[derive(Clone, Debug, Default)]
pub struct Extracted {
    /// Fields that matched.
    pub data: Map<String, Value>,
    /// The limit that was reached, if any. Then values may be missing.
    pub limited: Option<&'static str>,
}

/// Counts per field, in the order of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// One entry per field.
    pub fields: Vec<FieldCount>,
}

impl Tally {
    /// Adds the counts of another tally of the same rules.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.fields.iter_mut().zip(&other.fields) {
            own.tried += other.tried;
            own.matched += other.matched;
            own.unusable += other.unusable;
        }
    }

    /// The fields that were searched for and never found.
    pub fn never_matched(&self) -> impl Iterator<Item = &FieldCount> {
        self.fields.iter().filter(|field| field.tried > 0 && field.matched == 0)
    }
}

/// A rule: how one named value is found.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    /// Whether the value is a list of all matches instead of the first one.
    many: bool,
    source: Source,
    /// The value is the first group that took part in the first match, or the whole match if no group did.
    regex: Option<Regex>,
    coercion: Coercion,
    /// The pages that the rule applies to.
    urls: UrlFilter,
}

/// Where the values of a field come from.
#[derive(Clone, Debug)]
enum Source {
    /// Elements. Without a selector, the current element: the root of the page, or the item.
    Css(Option<Selector>, Take),
    JsonLd(DataPath),
    Microdata(DataPath),
    /// `meta` elements with this name.
    Meta(String),
    /// Each selected element is an item, which becomes an object with these fields.
    Items(Selector, Vec<Field>),
}

/// The part of a matched element that becomes the value.
#[derive(Clone, Debug)]
enum Take {
    Text,
    Html,
    Attribute(String),
}

/// The pages that a rule applies to. The URL must match at least one pattern of each group. Without groups, the rule
/// applies to all pages.
#[derive(Clone, Debug, Default)]
struct UrlFilter(Vec<Vec<Regex>>);

impl UrlFilter {
    /// A filter with one group. Without patterns, it accepts all pages.
    fn new(patterns: Vec<Regex>) -> Self {
        Self(if patterns.is_empty() { Vec::new() } else { vec![patterns] })
    }

    /// Restricts the filter to pages that `other` accepts too.
    fn restrict(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    fn accepts(&self, url: &str) -> bool {
        self.0.iter().all(|group| group.iter().any(|pattern| pattern.is_match(url)))
    }
}

impl Extraction {
    /// Parses rules in command-line syntax.
    ///
    /// # Errors
    ///
    /// A rule that cannot be parsed, or a name that is used twice.
    pub fn from_rules<T: AsRef<str>>(rules: impl IntoIterator<Item = T>) -> Result<Self, RuleError> {
        let mut extraction = Self::default();
        for rule in rules {
            extraction.add(rule::parse_rule(rule.as_ref())?, rule.as_ref())?;
        }
        Ok(extraction)
    }

    /// Parses a rules file. `name` is its name in error messages.
    ///
    /// # Errors
    ///
    /// The text is not TOML, or a rule cannot be used; the error names line and field.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, RuleError> {
        file::parse(text, name)
    }

    /// Adds the rules of another extraction. The `urls` of a rules file still apply to the fields of that file only.
    ///
    /// # Errors
    ///
    /// Both use the same name.
    pub fn merge(&mut self, other: Self) -> Result<(), RuleError> {
        let own_urls = std::mem::take(&mut self.urls);
        for field in &mut self.fields {
            field.urls.restrict(&own_urls);
        }
        for mut field in other.fields {
            field.urls.restrict(&other.urls);
            let place = format!("field `{}`", field.name);
            self.add(field, &place)?;
        }
        Ok(())
    }

    /// Adds a field. `place` is where an error says that the field comes from.
    fn add(&mut self, field: Field, place: &str) -> Result<(), RuleError> {
        if self.fields.iter().any(|known| known.name == field.name) {
            let message = format!("the name `{}` is used twice", field.name);
            return Err(RuleError { place: place.to_owned(), message });
        }
        self.fields.push(field);
        self.plan = OnceLock::new();
        Ok(())
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// An empty tally for these rules.
    pub fn tally(&self) -> Tally {
        let mut fields = Vec::new();
        let count = |name: String| FieldCount { name, tried: 0, matched: 0, unusable: 0 };
        for field in &self.fields {
            fields.push(count(field.name.clone()));
            if let Source::Items(_, inner) = &field.source {
                fields.extend(inner.iter().map(|inner| count(format!("{}.{}", field.name, inner.name))));
            }
        }
        Tally { fields }
    }

    /// Whether any rule applies to a page with this URL.
    pub fn applies_to(&self, url: &str) -> bool {
        self.urls.accepts(url) && self.fields.iter().any(|field| field.urls.accepts(url))
    }

    /// Extracts the fields of a page within a budget that other work on the page shares, and counts them in `tally`,
    /// which must belong to the same rules.
    pub fn apply(&self, page: &Document, url: &str, budget: &PageBudget, tally: &mut Tally) -> Extracted {
        if !self.urls.accepts(url) {
            return Extracted::default();
        }
        values::read_fields(&mut values::TreeFinder::new(page, budget), &self.fields, url, tally)
    }

    /// Extracts the fields of a page that is not parsed yet. The result is that of [`Extraction::apply`] for the parsed
    /// page. A tree is built only if the rules or the page need one. The rules need one for `@html`, microdata,
    /// selectors that look ahead, such as `:has()`, and very many fields. `charset` is that of the page, in which the
    /// queries of its links are encoded.
    pub fn read(
        &self,
        html: &str,
        (url, charset): (&Url, Option<&str>),
        budget: &PageBudget,
        tally: &mut Tally,
    ) -> Extracted {
        if !self.urls.accepts(url.as_str()) {
            return Extracted::default();
        }
        let plan = self.plan.get_or_init(|| StreamPlan::of(&self.fields));
        let applies = |field: &Field| field.urls.accepts(url.as_str());
        match plan.as_ref().and_then(|plan| plan.read(&self.fields, applies, html, (url, charset), budget)) {
            Some(mut finder) => values::read_fields(&mut finder, &self.fields, url.as_str(), tally),
            None => {
                let page = Document::parse_within(html, &ParseLimits::default(), budget);
                self.apply(&page.with_charset(charset).with_url(url), url.as_str(), budget, tally)
            }
        }
    }
}

//! Applies rules to a page.

use std::cell::OnceCell;

use argiope_core::page::page_budget::{PageBudget, REGEX};
use serde_json::{Map, Value};

use super::coerce::Coercion;
use super::{Extracted, Field, Source, Take, Tally};
use crate::document::build::USED_UP;
use crate::document::{Document, Element};
use crate::select::Selector;
use crate::structured::memory_of;

/// Maximum number of matches of one rule.
pub(super) const MAX_MATCHES: usize = 10_000;
/// Maximum bytes of one value.
pub(super) const MAX_VALUE: usize = 1 << 20;
/// Maximum bytes of all values of a page.
pub(super) const MAX_DATA: usize = 8 << 20;

pub(super) const TOO_MANY_MATCHES: &str = "a rule matched more elements than are read";

/// Attributes whose values are URLs.
const URL_ATTRIBUTES: &[&str] = &[
    "href",
    "src",
    "action",
    "formaction",
    "poster",
    "data",
    "cite",
    "background",
    "longdesc",
    "itemid",
    "data-src",
    "data-href",
    "data-url",
    "data-original",
];

/// Converts texts to the values of fields, within the limits of a page.
pub(super) struct ValueReader<'a> {
    budget: &'a PageBudget,
    /// Bytes of values that may still be kept.
    left: usize,
    /// The first limit on values that was reached.
    limited: Option<&'static str>,
}

/// The result of one field on a page or in an item.
pub(super) enum FieldValue {
    /// No element or data matched.
    Nothing,
    /// Something matched, but it does not have the form or type that the rule requires.
    Unusable,
    Value(Value),
}

/// The results of one inner field over all items of a page.
#[derive(Clone, Copy, Default)]
pub(super) struct InnerResult {
    /// Whether the field has a value in some item.
    matched: bool,
    /// Whether a match in some item was not usable.
    unusable: bool,
}

impl InnerResult {
    fn add(&mut self, found: &FieldValue) {
        self.matched |= matches!(found, FieldValue::Value(_));
        self.unusable |= matches!(found, FieldValue::Unusable);
    }
}

/// Finds the values of fields in a page. One implementation uses the tree, the other works without a tree.
pub(super) trait TextFinder {
    /// The value of a field of the page. The results of its inner fields are added to `seen`, which has one entry for
    /// each.
    fn field(&mut self, index: usize, field: &Field, seen: &mut [InnerResult]) -> FieldValue;
    /// The limit that was reached, if any.
    fn limited(&self) -> Option<&'static str>;
}

/// Reads all fields that apply to the page, and counts them.
pub(super) fn read_fields(finder: &mut impl TextFinder, fields: &[Field], url: &str, tally: &mut Tally) -> Extracted {
    let mut data = Map::new();
    // The index of the field's count in the tally. The counts of its inner fields follow there.
    let mut index = 0;
    for (position, field) in fields.iter().enumerate() {
        let inner = if let Source::Items(_, inner) = &field.source { inner.len() } else { 0 };
        let counts = tally.fields.get_mut(index..=index + inner);
        index += inner + 1;
        if !field.urls.accepts(url) {
            continue;
        }
        let mut seen = vec![InnerResult::default(); inner];
        let found = finder.field(position, field, &mut seen);
        if let Some([count, inner_counts @ ..]) = counts {
            count.tried += 1;
            count.matched += u64::from(matches!(found, FieldValue::Value(_)));
            count.unusable += u64::from(matches!(found, FieldValue::Unusable));
            for (count, seen) in inner_counts.iter_mut().zip(seen) {
                count.tried += u64::from(matches!(found, FieldValue::Value(_)));
                count.matched += u64::from(seen.matched);
                count.unusable += u64::from(seen.unusable && !seen.matched);
            }
        }
        if let FieldValue::Value(value) = found {
            data.insert(field.name.clone(), value);
        }
    }
    Extracted { data, limited: finder.limited() }
}

/// Builds the objects of items. `inner` are the fields of an item, and `many` says whether all items are wanted. `read`
/// returns the value of an inner field of an item, and whether the limit of all values was reached.
pub(super) fn rows<T>(
    items: impl Iterator<Item = T>,
    (inner, many): (&[Field], bool),
    seen: &mut [InnerResult],
    mut read: impl FnMut(&T, usize, &Field) -> (FieldValue, bool),
) -> FieldValue {
    let mut rows = Vec::new();
    for item in items {
        let mut row = Map::new();
        let mut is_limit_reached = false;
        for (position, field) in inner.iter().enumerate() {
            let (found, is_full) = read(&item, position, field);
            is_limit_reached |= is_full;
            if let Some(seen) = seen.get_mut(position) {
                seen.add(&found);
            }
            if let FieldValue::Value(value) = found {
                row.insert(field.name.clone(), value);
            }
        }
        if !row.is_empty() {
            rows.push(Value::Object(row));
        }
        if is_limit_reached {
            break;
        }
    }
    match (rows.is_empty(), many) {
        (true, _) => FieldValue::Nothing,
        (false, true) => FieldValue::Value(Value::Array(rows)),
        (false, false) => rows.into_iter().next().map_or(FieldValue::Nothing, FieldValue::Value),
    }
}

/// Finds texts in the tree.
pub(super) struct TreeFinder<'a> {
    page: &'a Document,
    budget: &'a PageBudget,
    values: ValueReader<'a>,
    json_ld: OnceCell<Vec<Value>>,
    microdata: OnceCell<Vec<Value>>,
}

impl<'a> TreeFinder<'a> {
    pub(super) fn new(page: &'a Document, budget: &'a PageBudget) -> Self {
        Self {
            page,
            budget,
            values: ValueReader::new(page.truncated(), budget),
            json_ld: OnceCell::new(),
            microdata: OnceCell::new(),
        }
    }

    /// The value of a field in the page, or in an item.
    fn read(&mut self, field: &Field, item: Option<Element<'a>>, seen: &mut [InnerResult]) -> FieldValue {
        let (page, budget) = (self.page, self.budget);
        match &field.source {
            Source::Items(selector, inner) => {
                let max_items = if field.many { MAX_MATCHES } else { 1 };
                let items = self.find(selector, item, max_items);
                rows(items.into_iter(), (inner, field.many), seen, |&item, _, field| {
                    (self.read(field, Some(item), &mut []), self.values.is_full())
                })
            }
            Source::Css(selector, take) => {
                let Some(selector) = selector else {
                    let text = take_text(item.unwrap_or(page.root()), take, budget);
                    return self.values.collect(field, text.into_iter());
                };
                let matches = match item {
                    None => selector.matches_of(page, budget),
                    Some(item) => selector.matches_within(item, budget),
                };
                let mut count = 0;
                let limit = match_limit(field, take);
                let texts = matches.take(limit).inspect(|_| count += 1);
                let found = self.values.collect(field, texts.filter_map(|element| take_text(element, take, budget)));
                if count == MAX_MATCHES {
                    self.values.limit(TOO_MANY_MATCHES);
                }
                found
            }
            Source::Meta(name) => self.values.collect(field, page.metas(name)),
            Source::JsonLd(path) => {
                let found = path.find_within(self.json_ld.get_or_init(|| page.json_ld_within(budget)), budget);
                self.values.collect_data(field, found)
            }
            Source::Microdata(path) => {
                let found = path.find_within(self.microdata.get_or_init(|| page.microdata_within(budget)), budget);
                self.values.collect_data(field, found)
            }
        }
    }

    fn find(&mut self, selector: &Selector, item: Option<Element<'a>>, max_matches: usize) -> Vec<Element<'a>> {
        match item {
            None => selector.matches_of(self.page, self.budget).take(max_matches).collect(),
            Some(item) => selector.matches_within(item, self.budget).take(max_matches).collect(),
        }
    }
}

impl TextFinder for TreeFinder<'_> {
    fn field(&mut self, _index: usize, field: &Field, seen: &mut [InnerResult]) -> FieldValue {
        self.read(field, None, seen)
    }

    fn limited(&self) -> Option<&'static str> {
        self.values.limited()
    }
}

/// The number of matches that are read. If the first match may not have the attribute or the required form, further
/// matches are tried.
pub(super) fn match_limit(field: &Field, take: &Take) -> usize {
    let is_first_enough = !field.many && accepts_any_text(field) && matches!(take, Take::Text | Take::Html);
    if is_first_enough { 1 } else { MAX_MATCHES }
}

impl<'a> ValueReader<'a> {
    pub(super) fn new(limited: Option<&'static str>, budget: &'a PageBudget) -> Self {
        Self { budget, left: MAX_DATA, limited }
    }

    /// The first limit that was reached.
    pub(super) fn limited(&self) -> Option<&'static str> {
        self.limited.or(self.budget.cut()).or(self.budget.is_used_up().then_some(USED_UP))
    }

    /// Records a limit that was reached. Only the first one is reported.
    pub(super) fn limit(&mut self, reason: &'static str) {
        self.limited.get_or_insert(reason);
    }

    /// Whether no further value is kept.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0 || self.budget.is_used_up()
    }

    /// The value of a field from values of structured data. They keep their type unless the rule sets one.
    pub(super) fn collect_data(&mut self, field: &Field, found: Vec<&Value>) -> FieldValue {
        let found = found.into_iter().filter(|value| !value.is_null()).take(MAX_MATCHES);
        if !accepts_any_text(field) {
            let texts = found.filter_map(|value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                Value::Bool(truth) => Some(truth.to_string()),
                _ => None,
            });
            return self.collect(field, texts);
        }
        let mut kept = Vec::new();
        for value in found {
            if !memory_of(value, self.budget).is_some_and(|memory| self.charge(memory)) {
                break;
            }
            kept.push(value.clone());
            if !field.many {
                break;
            }
        }
        to_field_value(field, kept, false)
    }

    /// The value of a field from texts.
    pub(super) fn collect(&mut self, field: &Field, texts: impl Iterator<Item = String>) -> FieldValue {
        let mut values = Vec::new();
        let mut has_unusable = false;
        for text in texts {
            let text = truncate(text);
            let length = text.len();
            let Some(value) = to_value(field, text, self.budget) else {
                has_unusable = true;
                continue;
            };
            if !self.charge(length) {
                break;
            }
            values.push(value);
            if !field.many || values.len() >= MAX_MATCHES {
                break;
            }
        }
        to_field_value(field, values, has_unusable)
    }

    /// Charges bytes to the limit of the page. Returns whether they fit.
    fn charge(&mut self, bytes: usize) -> bool {
        if !self.budget.hold(bytes) {
            return false;
        }
        let fits = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        if !fits {
            self.limit("the values of the page are larger than what is kept");
        }
        fits
    }
}

/// Whether the rule has neither a regular expression nor a type, so that any text is a value.
pub(super) fn accepts_any_text(field: &Field) -> bool {
    field.regex.is_none() && field.coercion == Coercion::Text
}

/// The result of a field with these values. `has_unusable`: a match was not usable.
fn to_field_value(field: &Field, mut values: Vec<Value>, has_unusable: bool) -> FieldValue {
    match (values.is_empty(), field.many) {
        (true, _) if has_unusable => FieldValue::Unusable,
        (true, _) => FieldValue::Nothing,
        (false, true) => FieldValue::Value(Value::Array(values)),
        (false, false) => FieldValue::Value(values.swap_remove(0)),
    }
}

/// The text that a rule takes from an element; `None` if the attribute is missing.
fn take_text(element: Element<'_>, take: &Take, budget: &PageBudget) -> Option<String> {
    match take {
        Take::Text => Some(element.text_within(MAX_VALUE, budget)),
        Take::Html => Some(element.html_within(MAX_VALUE, budget)),
        Take::Attribute(name) => {
            budget.spend(element.source_len()).then_some(())?;
            let value = element.attribute(name)?;
            let absolute = is_url_attribute(name).then(|| element.url(name)).flatten();
            Some(absolute.unwrap_or_else(|| value.trim().to_owned()))
        }
    }
}

/// Whether the values of the attribute are URLs.
pub(super) fn is_url_attribute(name: &str) -> bool {
    URL_ATTRIBUTES.contains(&name)
}

/// Truncates a text to [`MAX_VALUE`].
fn truncate(mut text: String) -> String {
    if text.len() > MAX_VALUE {
        let mut end = MAX_VALUE;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

/// The value of a text after the regular expression and the coercion; `None` if it does not match or is empty.
pub(super) fn to_value(field: &Field, text: String, budget: &PageBudget) -> Option<Value> {
    if accepts_any_text(field) {
        return if text.trim().is_empty() { None } else { Some(Value::String(text)) };
    }
    let steps = if field.regex.is_some() { REGEX } else { 1 };
    budget.spend(text.len() * steps).then_some(())?;
    let text = match &field.regex {
        None => text.as_str(),
        Some(regex) => {
            let groups = regex.captures(&text)?;
            groups.iter().skip(1).flatten().next().or_else(|| groups.get(0))?.as_str()
        }
    };
    if text.trim().is_empty() { None } else { field.coercion.apply(text) }
}

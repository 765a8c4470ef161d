//! Applies rules to a page.

use std::cell::OnceCell;

use serde_json::{Map, Value};

use super::coerce::Coercion;
use super::{Extracted, Field, Source, Take, Tally};
use crate::document::{Document, Element};
use crate::select::{Selector, Steps};

/// Maximum number of matches of one rule.
pub(super) const MAX_MATCHES: usize = 10_000;
/// Maximum bytes of one value.
pub(super) const MAX_VALUE: usize = 1 << 20;
/// Maximum bytes of all values of a page.
pub(super) const MAX_DATA: usize = 8 << 20;

pub(super) const TOO_MANY: &str = "a rule matched more elements than are read";

/// Attributes whose values are URLs.
const ADDRESSES: &[&str] = &[
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

/// Turns texts into the values of fields, within the limits of a page.
pub(super) struct ValueReader {
    /// Bytes of values that may still be kept.
    left: usize,
    pub(super) limited: Option<&'static str>,
}

/// The result of one field on a page or in an item.
pub(super) enum Found {
    Nothing,
    /// Something matched, but not in the form that the rule requires.
    Unusable,
    Value(Value),
}

/// The results of one inner field over all items of a page.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    matched: bool,
    unusable: bool,
}

impl Seen {
    fn add(&mut self, found: &Found) {
        self.matched |= matches!(found, Found::Value(_));
        self.unusable |= matches!(found, Found::Unusable);
    }
}

/// Finds the values of fields in a page. One implementation uses the tree, the other matches without a tree.
pub(super) trait TextFinder {
    /// The value of a field of the page. `seen` has one entry per field of its items.
    fn field(&mut self, index: usize, field: &Field, seen: &mut [Seen]) -> Found;
    /// The limit that was reached, if any.
    fn limited(&self) -> Option<&'static str>;
}

/// Reads all fields that apply to the page, and counts them.
pub(super) fn read_fields(finder: &mut impl TextFinder, fields: &[Field], url: &str, tally: &mut Tally) -> Extracted {
    let mut data = Map::new();
    let mut index = 0;
    for (position, field) in fields.iter().enumerate() {
        let inner = if let Source::Items(_, inner) = &field.source { inner.len() } else { 0 };
        let counts = tally.fields.get_mut(index..=index + inner);
        index += inner + 1;
        if !field.urls.accepts(url) {
            continue;
        }
        let mut seen = vec![Seen::default(); inner];
        let found = finder.field(position, field, &mut seen);
        if let Some([count, inner_counts @ ..]) = counts {
            count.tried += 1;
            count.matched += u64::from(matches!(found, Found::Value(_)));
            count.unusable += u64::from(matches!(found, Found::Unusable));
            for (count, seen) in inner_counts.iter_mut().zip(seen) {
                count.tried += u64::from(matches!(found, Found::Value(_)));
                count.matched += u64::from(seen.matched);
                count.unusable += u64::from(seen.unusable && !seen.matched);
            }
        }
        if let Found::Value(value) = found {
            data.insert(field.name.clone(), value);
        }
    }
    Extracted { data, limited: finder.limited() }
}

/// Builds the rows of items. `read` gives the value of an inner field of an item, and whether the limit of all values
/// was reached.
pub(super) fn rows<T>(
    items: impl Iterator<Item = T>,
    (inner, many): (&[Field], bool),
    seen: &mut [Seen],
    mut read: impl FnMut(&T, usize, &Field) -> (Found, bool),
) -> Found {
    let mut rows = Vec::new();
    for item in items {
        let mut row = Map::new();
        let mut exhausted = false;
        for (position, field) in inner.iter().enumerate() {
            let (found, out_of_room) = read(&item, position, field);
            exhausted |= out_of_room;
            if let Some(seen) = seen.get_mut(position) {
                seen.add(&found);
            }
            if let Found::Value(value) = found {
                row.insert(field.name.clone(), value);
            }
        }
        if !row.is_empty() {
            rows.push(Value::Object(row));
        }
        if exhausted {
            break;
        }
    }
    match (rows.is_empty(), many) {
        (true, _) => Found::Nothing,
        (false, true) => Found::Value(Value::Array(rows)),
        (false, false) => rows.into_iter().next().map_or(Found::Nothing, Found::Value),
    }
}

/// Finds texts in the tree.
pub(super) struct TreeFinder<'a> {
    page: &'a Document,
    steps: Steps,
    values: ValueReader,
    json_ld: OnceCell<Vec<Value>>,
    microdata: OnceCell<Vec<Value>>,
}

impl<'a> TreeFinder<'a> {
    pub(super) fn new(page: &'a Document) -> Self {
        Self {
            page,
            steps: Steps::default(),
            values: ValueReader::new(page.truncated()),
            json_ld: OnceCell::new(),
            microdata: OnceCell::new(),
        }
    }

    /// The value of a field in the page, or in an item.
    fn read(&mut self, field: &Field, item: Option<Element<'a>>, seen: &mut [Seen]) -> Found {
        let page = self.page;
        match &field.source {
            Source::Items(selector, inner) => {
                let most = if field.many { MAX_MATCHES } else { 1 };
                let items = self.find(selector, item, most);
                rows(items.into_iter(), (inner, field.many), seen, |&item, _, field| {
                    (self.read(field, Some(item), &mut []), self.values.is_full())
                })
            }
            Source::Css(selector, take) => {
                let Some(selector) = selector else {
                    let text = taken(item.unwrap_or(page.root()), take);
                    return self.values.collect(field, text.into_iter());
                };
                let mut matches = match item {
                    None => selector.matches_of(page),
                    Some(item) => selector.matches_within(item),
                };
                matches.swap_steps(&mut self.steps);
                let mut count = 0;
                let limit = match_limit(field, take);
                let texts = matches.by_ref().take(limit).inspect(|_| count += 1);
                let found = self.values.collect(field, texts.filter_map(|element| taken(element, take)));
                matches.swap_steps(&mut self.steps);
                if count == MAX_MATCHES {
                    self.values.limit(TOO_MANY);
                }
                found
            }
            Source::Meta(name) => self.values.collect(field, page.metas(name)),
            Source::JsonLd(path) => {
                let found = path.find(self.json_ld.get_or_init(|| page.json_ld()));
                self.values.data(field, data_values(found))
            }
            Source::Microdata(path) => {
                let found = path.find(self.microdata.get_or_init(|| page.microdata()));
                self.values.data(field, data_values(found))
            }
        }
    }

    fn find(&mut self, selector: &Selector, item: Option<Element<'a>>, most: usize) -> Vec<Element<'a>> {
        let mut matches = match item {
            None => selector.matches_of(self.page),
            Some(item) => selector.matches_within(item),
        };
        matches.swap_steps(&mut self.steps);
        let found = matches.by_ref().take(most).collect();
        matches.swap_steps(&mut self.steps);
        found
    }
}

impl TextFinder for TreeFinder<'_> {
    fn field(&mut self, _index: usize, field: &Field, seen: &mut [Seen]) -> Found {
        self.read(field, None, seen)
    }

    fn limited(&self) -> Option<&'static str> {
        let exhausted = self.steps.exhausted().then_some("the selectors cost too much on this page");
        self.values.limited.or(exhausted)
    }
}

/// The number of matches that are read. The first match may lack the attribute or the required form, so further
/// matches are tried.
pub(super) fn match_limit(field: &Field, take: &Take) -> usize {
    let first = !field.many && plain(field) && matches!(take, Take::Text | Take::Html);
    if first { 1 } else { MAX_MATCHES }
}

impl ValueReader {
    pub(super) fn new(limited: Option<&'static str>) -> Self {
        Self { left: MAX_DATA, limited }
    }

    /// Notes a limit that was reached; the first one is reported.
    pub(super) fn limit(&mut self, reason: &'static str) {
        self.limited.get_or_insert(reason);
    }

    /// Whether no further value is kept.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Values of structured data keep their type unless the rule sets one.
    pub(super) fn data(&mut self, field: &Field, values: Vec<Value>) -> Found {
        if !plain(field) {
            let texts = values.into_iter().filter_map(|value| match value {
                Value::String(text) => Some(text),
                Value::Number(number) => Some(number.to_string()),
                Value::Bool(truth) => Some(truth.to_string()),
                _ => None,
            });
            return self.collect(field, texts);
        }
        let mut kept = Vec::new();
        for value in values {
            let size = match &value {
                Value::String(text) => text.len(),
                Value::Array(_) | Value::Object(_) => value.to_string().len(),
                _ => 8,
            };
            if !self.account(size) {
                break;
            }
            kept.push(value);
            if !field.many {
                break;
            }
        }
        finish(field, kept, false)
    }

    pub(super) fn collect(&mut self, field: &Field, texts: impl Iterator<Item = String>) -> Found {
        let mut values = Vec::new();
        let mut unusable = false;
        for text in texts {
            let text = cut(text);
            let length = text.len();
            let Some(value) = usable(field, text) else {
                unusable = true;
                continue;
            };
            if !self.account(length) {
                break;
            }
            values.push(value);
            if !field.many || values.len() >= MAX_MATCHES {
                break;
            }
        }
        finish(field, values, unusable)
    }

    /// Charges bytes to the limit of the page; returns whether they fit.
    fn account(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        if !fits {
            self.limit("the values of the page are larger than what is kept");
        }
        fits
    }
}

/// Whether the rule has neither a regular expression nor a type, so that any text is a value.
pub(super) fn plain(field: &Field) -> bool {
    field.regex.is_none() && field.coercion == Coercion::Text
}

fn finish(field: &Field, mut values: Vec<Value>, unusable: bool) -> Found {
    match (values.is_empty(), field.many) {
        (true, _) if unusable => Found::Unusable,
        (true, _) => Found::Nothing,
        (false, true) => Found::Value(Value::Array(values)),
        (false, false) => Found::Value(values.swap_remove(0)),
    }
}

fn taken(element: Element<'_>, take: &Take) -> Option<String> {
    match take {
        Take::Text => Some(element.text()),
        Take::Html => Some(element.html()),
        Take::Attribute(name) => {
            let value = element.attribute(name)?;
            let absolute = is_address(name).then(|| element.url(name)).flatten();
            Some(absolute.unwrap_or_else(|| value.trim().to_owned()))
        }
    }
}

/// Whether the values of the attribute are URLs.
pub(super) fn is_address(name: &str) -> bool {
    ADDRESSES.contains(&name)
}

/// Truncates a text to [`MAX_VALUE`].
fn cut(mut text: String) -> String {
    if text.len() > MAX_VALUE {
        let mut end = MAX_VALUE;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

/// The value of a text after the regular expression and the coercion. An empty text is not a value.
pub(super) fn usable(field: &Field, text: String) -> Option<Value> {
    if plain(field) {
        return if text.trim().is_empty() { None } else { Some(Value::String(text)) };
    }
    let text = match &field.regex {
        None => text.as_str(),
        Some(regex) => {
            let groups = regex.captures(&text)?;
            groups.iter().skip(1).flatten().next().or_else(|| groups.get(0))?.as_str()
        }
    };
    if text.trim().is_empty() { None } else { field.coercion.apply(text) }
}

pub(super) fn data_values(found: Vec<&Value>) -> Vec<Value> {
    found.into_iter().filter(|value| !value.is_null()).take(MAX_MATCHES).cloned().collect()
}

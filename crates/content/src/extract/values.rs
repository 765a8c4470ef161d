//! Applies rules to a page.

use std::cell::OnceCell;

use serde_json::{Map, Value};

use super::coerce::Coercion;
use super::{Extracted, Field, Source, Take, Tally};
use crate::document::{Document, Element};
use crate::select::Steps;

/// Maximum number of matches of one rule.
const MAX_MATCHES: usize = 10_000;
/// Maximum bytes of one value.
const MAX_VALUE: usize = 1 << 20;
/// Maximum bytes of all values of a page.
const MAX_DATA: usize = 8 << 20;

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

pub(super) struct Reader<'a> {
    page: &'a Document,
    steps: Steps,
    left: usize,
    limited: Option<&'static str>,
    json_ld: OnceCell<Vec<Value>>,
    microdata: OnceCell<Vec<Value>>,
}

enum Found {
    Nothing,
    /// Something matched, but not in the form that the rule requires.
    Unusable,
    Value(Value),
}

impl<'a> Reader<'a> {
    pub(super) fn new(page: &'a Document) -> Self {
        Self {
            page,
            steps: Steps::default(),
            left: MAX_DATA,
            limited: page.truncated(),
            json_ld: OnceCell::new(),
            microdata: OnceCell::new(),
        }
    }

    pub(super) fn page(mut self, fields: &[Field], url: &str, tally: &mut Tally) -> Extracted {
        let mut data = Map::new();
        let mut index = 0;
        for field in fields {
            let inner = if let Source::Items(_, inner) = &field.source { inner.len() } else { 0 };
            let counts = tally.fields.get_mut(index..=index + inner);
            index += inner + 1;
            if !field.urls.accepts(url) {
                continue;
            }
            let mut seen = vec![(false, false); inner];
            let found = self.field(field, self.page.root(), &mut seen);
            if let Some([count, inner_counts @ ..]) = counts {
                count.tried += 1;
                count.matched += u64::from(matches!(found, Found::Value(_)));
                count.unusable += u64::from(matches!(found, Found::Unusable));
                for (count, (matched, unusable)) in inner_counts.iter_mut().zip(seen) {
                    count.tried += u64::from(matches!(found, Found::Value(_)));
                    count.matched += u64::from(matched);
                    count.unusable += u64::from(unusable && !matched);
                }
            }
            if let Found::Value(value) = found {
                data.insert(field.name.clone(), value);
            }
        }
        if self.steps.exhausted() {
            self.limited = Some("the selectors cost too much on this page");
        }
        Extracted { data, limited: self.limited }
    }

    fn field(&mut self, field: &Field, scope: Element<'a>, seen: &mut [(bool, bool)]) -> Found {
        let most = if field.many { MAX_MATCHES } else { 1 };
        match &field.source {
            Source::Items(selector, inner) => {
                let items = selector.find(scope, most, &mut self.steps);
                let mut rows = Vec::new();
                for item in items {
                    let mut row = Map::new();
                    for (position, field) in inner.iter().enumerate() {
                        let found = self.field(field, item, &mut []);
                        if let Some(seen) = seen.get_mut(position) {
                            seen.0 |= matches!(found, Found::Value(_));
                            seen.1 |= matches!(found, Found::Unusable);
                        }
                        if let Found::Value(value) = found {
                            row.insert(field.name.clone(), value);
                        }
                    }
                    if !row.is_empty() {
                        rows.push(Value::Object(row));
                    }
                    if self.left == 0 {
                        break;
                    }
                }
                match (rows.is_empty(), field.many) {
                    (true, _) => Found::Nothing,
                    (false, true) => Found::Value(Value::Array(rows)),
                    (false, false) => rows.into_iter().next().map_or(Found::Nothing, Found::Value),
                }
            }
            Source::Css(selector, take) => {
                let mut found = match selector {
                    None => vec![scope],
                    // The first match may lack the attribute or the required form, so further matches are tried.
                    Some(selector) if plain(field) && matches!(take, Take::Text | Take::Html) => {
                        selector.find(scope, most, &mut self.steps)
                    }
                    Some(selector) => selector.find(scope, MAX_MATCHES, &mut self.steps),
                };
                if found.len() == MAX_MATCHES {
                    self.limited = Some("a rule matched more elements than are read");
                }
                let texts = found.drain(..).filter_map(|element| taken(element, take));
                self.collect(field, texts)
            }
            Source::Meta(name) => {
                let page = self.page;
                self.collect(field, page.metas(name))
            }
            Source::JsonLd(path) => {
                let roots = std::mem::take(&mut self.json_ld);
                let texts = data_values(path.find(roots.get_or_init(|| self.page.json_ld())));
                self.json_ld = roots;
                self.data(field, texts)
            }
            Source::Microdata(path) => {
                let roots = std::mem::take(&mut self.microdata);
                let texts = data_values(path.find(roots.get_or_init(|| self.page.microdata())));
                self.microdata = roots;
                self.data(field, texts)
            }
        }
    }

    /// Values of structured data keep their type unless the rule sets one.
    fn data(&mut self, field: &Field, values: Vec<Value>) -> Found {
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

    fn collect(&mut self, field: &Field, texts: impl Iterator<Item = String>) -> Found {
        let mut values = Vec::new();
        let mut unusable = false;
        for text in texts {
            let text = cut(text);
            let Some(value) = usable(field, &text) else {
                unusable = true;
                continue;
            };
            if !self.account(text.len()) {
                break;
            }
            values.push(value);
            if !field.many || values.len() >= MAX_MATCHES {
                break;
            }
        }
        finish(field, values, unusable)
    }

    fn account(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        if !fits {
            self.limited = Some("the values of the page are larger than what is kept");
        }
        fits
    }
}

/// Whether the first match is used regardless of its text.
fn plain(field: &Field) -> bool {
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
            let absolute = ADDRESSES.contains(&name.as_str()).then(|| element.url(name)).flatten();
            Some(absolute.unwrap_or_else(|| value.trim().to_owned()))
        }
    }
}

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
fn usable(field: &Field, text: &str) -> Option<Value> {
    let text = match &field.regex {
        None => text,
        Some(regex) => {
            let groups = regex.captures(text)?;
            groups.iter().skip(1).flatten().next().or_else(|| groups.get(0))?.as_str()
        }
    };
    if text.trim().is_empty() { None } else { field.coercion.apply(text) }
}

fn data_values(found: Vec<&Value>) -> Vec<Value> {
    found.into_iter().filter(|value| !value.is_null()).take(MAX_MATCHES).cloned().collect()
}

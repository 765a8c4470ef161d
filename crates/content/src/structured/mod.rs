//! Structured data of a page: JSON-LD, microdata, OpenGraph and `meta`, and paths into it.

use std::borrow::Cow;

use argiope_core::page::page_budget::PageBudget;
use serde_json::{Map, Value};

use crate::document::{Document, Element, names};
pub(crate) use json::memory_of;
use json::parse_json;

mod json;

/// Maximum bytes of JSON-LD read per page; further blocks are skipped.
const MAX_JSON_LD: usize = 4 << 20;
/// Maximum bytes of microdata values read per page. A value counts once for each name of its property.
const MAX_MICRODATA: usize = 4 << 20;
/// Bytes that a microdata value counts beside its text: about what its place in an object takes.
const MICRODATA_VALUE: usize = 256;
/// Why a record may lack values of structured data.
const TOO_MUCH_JSON_LD: &str = "the page has more JSON-LD than is read";
const TOO_MUCH_MICRODATA: &str = "the page has more microdata than is read";
const TOO_MANY_VALUES: &str = "a path visits more values of structured data than are read";
/// Maximum nesting of microdata items.
const MAX_NESTING: usize = 32;
/// Maximum number of values that one path visits.
const MAX_VISITS: usize = 200_000;
/// Maximum depth at which objects of a type are searched for.
const MAX_TYPE_DEPTH: usize = 64;
/// Maximum nesting of arrays around top-level objects.
const MAX_ARRAY_DEPTH: usize = 4;

impl Document {
    /// The JSON-LD blocks of the page that can be parsed, in order.
    pub fn json_ld(&self) -> Vec<Value> {
        self.json_ld_within(&self.budget())
    }

    /// The values at a path in the JSON-LD of the page.
    pub fn json_ld_at(&self, path: &DataPath) -> Vec<Value> {
        let budget = self.budget();
        let roots = self.json_ld_within(&budget);
        // A value may be within another one, so all of them may take more memory than the page allows.
        let fits = |value: &&Value| memory_of(value, &budget).is_some_and(|memory| budget.hold(memory));
        path.find_within(&roots, &budget).into_iter().take_while(fits).cloned().collect()
    }

    /// Like [`Document::json_ld`], with a budget that other work on the page shares.
    pub(crate) fn json_ld_within(&self, budget: &PageBudget) -> Vec<Value> {
        let is_script = |element: &Element<'_>| element.name_id() == names::SCRIPT;
        let scripts = self.elements().take_while(|_| budget.visit()).filter(is_script).filter(|script| {
            let kind = script.attribute("type");
            kind.is_some_and(|kind| is_json_ld(&kind))
        });
        let texts: Vec<_> = scripts.map(|script| script.raw()).collect();
        parse_blocks(texts.iter().map(|text| &**text), budget)
    }

    /// The content of a `meta` element by its name, property, `itemprop` or `http-equiv`, ignoring case.
    pub fn meta(&self, name: &str) -> Option<String> {
        self.metas(name).next()
    }

    /// The contents of all `meta` elements with this name.
    pub fn metas<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        self.elements().filter(|element| element.name_id() == names::META).filter_map(move |element| {
            let content = element.attribute("content").filter(|_| has_meta_name(|key| element.attribute(key), name))?;
            Some(content.trim().to_owned()).filter(|content| !content.is_empty())
        })
    }

    /// The top-level microdata items: `{"@type": ..., property: value}`. A property with several values is an array.
    /// Values beyond a fixed number of bytes are left out.
    pub fn microdata(&self) -> Vec<Value> {
        self.microdata_within(&self.budget())
    }

    /// Like [`Document::microdata`], with a budget that other work on the page shares.
    pub(crate) fn microdata_within(&self, budget: &PageBudget) -> Vec<Value> {
        let mut reader = MicrodataReader { left: MAX_MICRODATA, budget };
        let is_item = |element: &Element<'_>| element.raw_attribute("itemscope").is_some();
        let top_items = self
            .elements()
            .take_while(|_| budget.visit())
            .filter(is_item)
            .filter(|item| item.raw_attribute("itemprop").is_none());
        top_items.map_while(|item| reader.item(item, 0)).collect()
    }
}

/// Whether a `meta` element with these attributes has this name.
pub(crate) fn has_meta_name<'a>(attribute: impl Fn(&str) -> Option<Cow<'a, str>>, name: &str) -> bool {
    let is = |key| attribute(key).is_some_and(|value| value.trim().eq_ignore_ascii_case(name));
    ["name", "property", "http-equiv", "itemprop"].into_iter().any(is)
}

/// Whether a script of this type is JSON-LD.
pub(crate) fn is_json_ld(kind: &str) -> bool {
    kind.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/ld+json")
}

/// Parses blocks of JSON-LD, up to the limit of a page. Blocks that cannot be parsed are skipped.
pub(crate) fn parse_blocks<'a>(texts: impl Iterator<Item = &'a str>, budget: &PageBudget) -> Vec<Value> {
    let mut bytes = 0;
    let mut blocks = Vec::new();
    for text in texts {
        bytes += text.len();
        if bytes > MAX_JSON_LD {
            budget.mark_cut(TOO_MUCH_JSON_LD);
        }
        if bytes > MAX_JSON_LD || budget.is_used_up() {
            break;
        }
        blocks.extend(parse_lenient(text, budget));
    }
    blocks
}

/// Parses JSON after removing what pages wrap around it: comments, CDATA marks, a final semicolon.
fn parse_lenient(text: &str, budget: &PageBudget) -> Option<Value> {
    let text = text.trim();
    if let Some(value) = parse_json(text, budget) {
        return Some(value);
    }
    // The text is copied twice at most.
    (budget.hold(text.len() * 2) && budget.spend(text.len() * 4)).then_some(())?;
    let unwrapped = text.replace("<![CDATA[", "").replace("]]>", "");
    let found = parse_inner(&unwrapped, budget);
    budget.release(text.len() * 2);
    found
}

/// Parses from the first bracket of a text to the last one.
fn parse_inner(text: &str, budget: &PageBudget) -> Option<Value> {
    let start = text.find(['{', '['])?;
    let end = text.rfind(['}', ']'])?;
    let inner = text.get(start..=end)?;
    if let Some(value) = parse_json(inner, budget) {
        return Some(value);
    }
    // The most frequent error is a line break within a string.
    let cleaned: String = inner.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    parse_json(&cleaned, budget)
}

/// Reads microdata items within the limit of a page.
///
/// The items within an item have its number of names as copies, so each level of nesting can multiply what the level
/// below it holds. Every copy is charged for before it is made.
struct MicrodataReader<'b> {
    /// Bytes of values that may still be read.
    left: usize,
    budget: &'b PageBudget,
}

impl MicrodataReader<'_> {
    /// An item with its properties; `None` if the limit is reached before it.
    fn item(&mut self, item: Element<'_>, depth: usize) -> Option<Value> {
        let kind = item.attribute("itemtype");
        let kind = kind.map(|kind| kind.split_ascii_whitespace().next().unwrap_or("").to_owned());
        self.charge(MICRODATA_VALUE + kind.as_ref().map_or(0, String::len))?;
        let mut properties = Map::new();
        properties.extend(kind.map(|kind| ("@type".to_owned(), Value::String(kind))));
        let mut next = item.node + 1;
        while next < item.end() && self.budget.visit() {
            let element = item.document.element(next);
            next += 1;
            if element.raw_attribute("itemscope").is_some() {
                // The properties within this item belong to it.
                next = element.end().max(next);
            }
            if self.property(element, &mut properties, depth).is_none() {
                break;
            }
        }
        Some(Value::Object(properties))
    }

    /// Adds the value of this element under each name that it has in `itemprop`; `None` if the limit is reached.
    fn property(&mut self, element: Element<'_>, properties: &mut Map<String, Value>, depth: usize) -> Option<()> {
        let Some(names) = element.attribute("itemprop") else { return Some(()) };
        let mut names = names.split_ascii_whitespace().peekable();
        let is_item = element.raw_attribute("itemscope").is_some();
        if names.peek().is_none() {
            return Some(());
        }
        if is_item && depth >= MAX_NESTING {
            self.budget.mark_cut(TOO_MUCH_MICRODATA);
            return Some(());
        }
        let before = self.left;
        let value = if is_item { self.item(element, depth + 1)? } else { self.text_value(element)? };
        let cost = before - self.left;
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                add_value(properties, name, value);
                break;
            }
            self.charge(cost)?;
            add_value(properties, name, value.clone());
        }
        Some(())
    }

    fn text_value(&mut self, element: Element<'_>) -> Option<Value> {
        let value = microdata_value(element, self.left, self.budget);
        self.charge(MICRODATA_VALUE + value.len())?;
        Some(Value::String(value))
    }

    fn charge(&mut self, bytes: usize) -> Option<()> {
        if bytes > self.left {
            self.budget.mark_cut(TOO_MUCH_MICRODATA);
        }
        let left = self.left.checked_sub(bytes).filter(|_| self.budget.spend(bytes) && self.budget.hold(bytes));
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }
}

/// Adds a value of a property. From the second value on, the property is an array.
fn add_value(properties: &mut Map<String, Value>, name: &str, value: Value) {
    match properties.get_mut(name) {
        None => {
            properties.insert(name.to_owned(), value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

/// The value of a microdata property: an attribute that depends on the element, or the text if there is none.
fn microdata_value(element: Element<'_>, max_bytes: usize, budget: &PageBudget) -> String {
    let attribute = |name: &str| element.attribute(name).map(|value| value.trim().to_owned());
    let url = |name: &str| element.url(name).or_else(|| attribute(name));
    let value = match element.name_id() {
        names::META => attribute("content"),
        names::A | names::AREA | names::LINK => url("href"),
        names::IMG | names::AUDIO | names::VIDEO | names::EMBED | names::IFRAME | names::SOURCE => url("src"),
        names::OBJECT => url("data"),
        names::DATA | names::METER => attribute("value"),
        names::TIME => attribute("datetime"),
        _ => attribute("content"),
    };
    value.unwrap_or_else(|| element.text_within(max_bytes, budget))
}

/// A path into structured data: `Product.offers.price`, `headline`, `author[1].name`.
///
/// If the first part begins with a capital letter, it is a type and selects the objects of that type at any depth.
/// Arrays are searched element by element, unless a part has an index in brackets.
#[derive(Clone, Debug)]
pub struct DataPath {
    /// The type of the objects at which the path starts; `None` for the top-level objects.
    kind: Option<Box<str>>,
    /// Name and index of each part.
    parts: Vec<(Box<str>, Option<usize>)>,
}

impl DataPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// The path has an empty part or an invalid index; the message says which.
    pub fn parse(path: &str) -> Result<Self, String> {
        let mut kind = None;
        let mut parts = Vec::new();
        for (position, part) in path.split('.').enumerate() {
            let (name, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
                Some((name, index)) => {
                    let index = index.parse().map_err(|_| format!("{index:?} in the path {path:?} is not an index"))?;
                    (name, Some(index))
                }
                None => (part, None),
            };
            if name.is_empty() {
                return Err(format!("part {} of the path {path:?} is empty", position + 1));
            }
            if position == 0 && index.is_none() && name.starts_with(|first: char| first.is_ascii_uppercase()) {
                kind = Some(name.into());
            } else {
                parts.push((name.into(), index));
            }
        }
        Ok(Self { kind, parts })
    }

    /// The values that the path leads to.
    pub fn find<'v>(&self, roots: &'v [Value]) -> Vec<&'v Value> {
        self.find_within(roots, &PageBudget::unlimited())
    }

    /// Like [`DataPath::find`]; marks in `budget` whether values were left out.
    pub(crate) fn find_within<'v>(&self, roots: &'v [Value], budget: &PageBudget) -> Vec<&'v Value> {
        let mut visits = MAX_VISITS;
        let mut current = Vec::new();
        for root in roots {
            match &self.kind {
                Some(kind) => push_objects_of_type(root, kind, &mut current, &mut visits, 0),
                None => push_top_level_objects(root, &mut current, 0),
            }
        }
        for (name, index) in &self.parts {
            let mut next = Vec::new();
            for value in current {
                let found = value.get(&**name);
                match (found, index) {
                    (Some(Value::Array(values)), Some(index)) => next.extend(values.get(*index)),
                    // With an index, a single value counts as an array with one member.
                    (Some(value), Some(0) | None) => flatten(value, &mut next, &mut visits),
                    _ => {}
                }
            }
            current = next;
        }
        if visits == 0 {
            budget.mark_cut(TOO_MANY_VALUES);
        }
        current
    }
}

/// Adds the members of an array, or the value itself if it is not an array.
fn flatten<'v>(value: &'v Value, out: &mut Vec<&'v Value>, visits: &mut usize) {
    match value {
        Value::Array(values) => {
            for value in values {
                if *visits == 0 {
                    return;
                }
                *visits -= 1;
                out.push(value);
            }
        }
        other => out.push(other),
    }
}

/// Adds the top-level objects of a block: the block itself, the members of an array, and those of `@graph`.
fn push_top_level_objects<'v>(value: &'v Value, out: &mut Vec<&'v Value>, depth: usize) {
    match value {
        Value::Array(values) if depth < MAX_ARRAY_DEPTH => {
            values.iter().for_each(|value| push_top_level_objects(value, out, depth + 1));
        }
        Value::Object(object) => {
            out.push(value);
            if let Some(graph) = object.get("@graph") {
                push_top_level_objects(graph, out, depth + 1);
            }
        }
        _ => {}
    }
}

/// Adds the objects of this type, at any depth. `visits` is the number of values that may still be visited.
fn push_objects_of_type<'v>(value: &'v Value, kind: &str, out: &mut Vec<&'v Value>, visits: &mut usize, depth: usize) {
    if *visits == 0 || depth > MAX_TYPE_DEPTH {
        return;
    }
    *visits -= 1;
    match value {
        Value::Array(values) => {
            values.iter().for_each(|value| push_objects_of_type(value, kind, out, visits, depth + 1));
        }
        Value::Object(object) => {
            // A type may be a URL or have a prefix: `https://schema.org/Product`, `schema:Product`.
            let is_kind = |found: &Value| {
                let last = found.as_str().and_then(|text| text.rsplit(['/', '#', ':']).next());
                last.is_some_and(|last| last.eq_ignore_ascii_case(kind))
            };
            let has_kind = match object.get("@type") {
                Some(Value::Array(kinds)) => kinds.iter().any(is_kind),
                Some(found) => is_kind(found),
                None => false,
            };
            if has_kind {
                out.push(value);
            }
            object.values().for_each(|value| push_objects_of_type(value, kind, out, visits, depth + 1));
        }
        _ => {}
    }
}

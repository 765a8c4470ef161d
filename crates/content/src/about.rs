//! [`PageAbout`]: what a page declares about itself, such as its dates and its author, and where it says so.

use std::borrow::Cow;

use argiope_core::page::page_budget::PageBudget;
use serde::Serialize;
use serde_json::Value;

use crate::document::{Document, Element, names};
use crate::extract::parse_date;

/// A longer value is not a name.
const MAX_NAME: usize = 200;
/// How many breadcrumbs are kept.
const MAX_CRUMBS: usize = 20;
/// How many values of JSON-LD are visited, and how deep.
const MAX_VISITS: usize = 5_000;
const MAX_DEPTH: usize = 12;
/// How many elements with metadata of a page are kept.
const MAX_ELEMENTS: usize = 2_000;
/// A language is detected in this many bytes of text, at least and at most.
const MIN_TEXT: usize = 120;
const MAX_TEXT: usize = 4_000;

/// Where a page declares something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AboutSource {
    /// JSON-LD.
    JsonLd,
    /// A `meta` element, or an attribute of the `html` element.
    Meta,
    /// Microdata.
    Microdata,
    /// The text of the page.
    Text,
    /// The document, if it is not HTML.
    Document,
}

/// A value and where it is declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Declared<T> {
    /// The value.
    pub value: T,
    /// Where it is declared.
    pub source: AboutSource,
}

/// What a page declares about itself. Each value is from the first of JSON-LD, meta elements, microdata and the text
/// that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageAbout {
    /// When it was published, as `2026-03-01`, with the time if it is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Declared<String>>,
    /// When it was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Declared<String>>,
    /// Who wrote it; several names are separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Declared<String>>,
    /// The name of the site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<Declared<String>>,
    /// The names of the pages above it, from the start page on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breadcrumbs: Option<Declared<Vec<String>>>,
    /// The language of its text, else the declared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Declared<String>>,
    /// The number of words of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<Declared<usize>>,
    /// The number of pages of a PDF file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Declared<usize>>,
}

impl PageAbout {
    /// As the object of a record; `None` if the page declares nothing.
    pub fn to_map(&self) -> Option<serde_json::Map<String, Value>> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) if !map.is_empty() => Some(map),
            _ => None,
        }
    }

    /// Reads what a page declares. `text` is its text, in which the language is detected.
    pub fn of(page: &Document, text: &str, budget: &PageBudget) -> Self {
        let json = page.json_ld_within(budget);
        let json = JsonFacts::of(&json);
        let marked = Marked::of(page, budget);
        let date = |text: Cow<'_, str>| parse_date(text.trim());
        let name = |text: Cow<'_, str>| as_name(&text);
        Self {
            published: first([
                json.published.and_then(parse_date).map(from(AboutSource::JsonLd)),
                marked.meta(page, PUBLISHED, date),
                marked.property("datePublished", budget, date),
                marked.time(true, budget, date),
            ]),
            modified: first([
                json.modified.and_then(parse_date).map(from(AboutSource::JsonLd)),
                marked.meta(page, MODIFIED, date),
                marked.property("dateModified", budget, date),
                marked.time(false, budget, date),
            ]),
            author: first([
                json.author.as_deref().and_then(as_name).map(from(AboutSource::JsonLd)),
                marked.meta(page, AUTHOR, |text| name(text).filter(|name| !name.contains("://"))),
                marked.property("author", budget, name),
                marked.author(budget),
            ]),
            site: first([
                json.site.and_then(as_name).map(from(AboutSource::JsonLd)),
                marked.meta(page, SITE, name),
                None,
                None,
            ]),
            breadcrumbs: first([
                Some(json.breadcrumbs).filter(|crumbs| !crumbs.is_empty()).map(from(AboutSource::JsonLd)),
                None,
                marked.crumbs(true, budget).map(from(AboutSource::Microdata)),
                marked.crumbs(false, budget).map(from(AboutSource::Text)),
            ]),
            language: detected_language(text).map(from(AboutSource::Text)).or_else(|| declared_language(page)),
            words: None,
            pages: None,
        }
    }
}

const PUBLISHED: &[&str] = &[
    "article:published_time",
    "datepublished",
    "citation_publication_date",
    "dc.date.issued",
    "dcterms.created",
    "dc.date",
    "parsely-pub-date",
    "pubdate",
    "publish-date",
    "date",
];
const MODIFIED: &[&str] = &[
    "article:modified_time",
    "datemodified",
    "dcterms.modified",
    "dc.date.modified",
    "og:updated_time",
    "last-modified",
];
const AUTHOR: &[&str] =
    &["author", "article:author", "citation_author", "parsely-author", "dc.creator", "dcterms.creator"];
const SITE: &[&str] = &["og:site_name", "application-name", "citation_journal_title"];

fn first<T>(found: [Option<Declared<T>>; 4]) -> Option<Declared<T>> {
    found.into_iter().flatten().next()
}

fn from<T>(source: AboutSource) -> impl FnOnce(T) -> Declared<T> {
    move |value| Declared { value, source }
}

/// A text as a name, with white space collapsed; `None` if it is empty or too long.
fn as_name(text: &str) -> Option<String> {
    if text.len() > MAX_NAME * 2 {
        return None;
    }
    let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!name.is_empty() && name.len() <= MAX_NAME).then_some(name)
}

/// What JSON-LD says: the first value of each kind.
#[derive(Default)]
struct JsonFacts<'a> {
    published: Option<&'a str>,
    modified: Option<&'a str>,
    author: Option<String>,
    site: Option<&'a str>,
    breadcrumbs: Vec<String>,
}

impl<'a> JsonFacts<'a> {
    fn of(roots: &'a [Value]) -> Self {
        let mut facts = Self::default();
        let mut left: Vec<(&Value, usize)> = roots.iter().rev().map(|root| (root, 0)).collect();
        let mut visits = 0;
        while let Some((value, depth)) = left.pop() {
            visits += 1;
            if visits > MAX_VISITS {
                break;
            }
            match value {
                Value::Array(values) if depth < MAX_DEPTH => {
                    left.extend(values.iter().take(MAX_VISITS).rev().map(|value| (value, depth + 1)));
                }
                Value::Object(object) => {
                    facts.read(object);
                    if depth < MAX_DEPTH {
                        left.extend(object.values().rev().map(|value| (value, depth + 1)));
                    }
                }
                _ => {}
            }
        }
        facts
    }

    fn read(&mut self, object: &'a serde_json::Map<String, Value>) {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let is = |kind: &str| match object.get("@type") {
            Some(Value::String(name)) => name == kind,
            Some(Value::Array(names)) => names.iter().take(MAX_CRUMBS).any(|name| name == kind),
            _ => false,
        };
        self.published = self.published.or_else(|| text("datePublished"));
        self.modified = self.modified.or_else(|| text("dateModified"));
        if self.author.is_none() && object.contains_key("datePublished") | object.contains_key("headline") {
            self.author = object.get("author").and_then(names_of);
        }
        let publisher = object.get("publisher").and_then(|publisher| publisher.get("name")).and_then(Value::as_str);
        self.site = self.site.or_else(|| text("name").filter(|_| is("WebSite"))).or(publisher);
        if self.breadcrumbs.is_empty() && is("BreadcrumbList") {
            let items = object.get("itemListElement").and_then(Value::as_array);
            let name = |item: &Value| {
                let name = item.get("name").or_else(|| item.get("item")?.get("name"));
                name.and_then(Value::as_str).and_then(as_name)
            };
            self.breadcrumbs = items.into_iter().flatten().take(MAX_CRUMBS).filter_map(name).collect();
        }
    }
}

/// The names of authors: a text, an object with a name, or a list of these.
fn names_of(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Object(object) => object.get("name").and_then(Value::as_str).map(ToOwned::to_owned),
        Value::Array(values) => {
            let names = values.iter().take(MAX_CRUMBS).filter(|value| !value.is_array()).filter_map(names_of);
            let names = names.collect::<Vec<_>>().join(", ");
            Some(names).filter(|names| !names.is_empty())
        }
        _ => None,
    }
}

/// The elements of a page that say something about it.
#[derive(Default)]
struct Marked<'a> {
    metas: Vec<Element<'a>>,
    properties: Vec<Element<'a>>,
    times: Vec<Element<'a>>,
    authors: Vec<Element<'a>>,
    crumbs: Option<Element<'a>>,
    crumb_list: Option<Element<'a>>,
}

impl<'a> Marked<'a> {
    fn of(page: &'a Document, budget: &PageBudget) -> Self {
        let mut marked = Self::default();
        for element in page.elements() {
            if !budget.visit() || !budget.spend(element.source_len() * 2) {
                break;
            }
            let attribute = |name: &str| element.raw_attribute(name).unwrap_or_default();
            let list = match element.name_id() {
                names::META => &mut marked.metas,
                _ if !attribute("itemprop").is_empty() => &mut marked.properties,
                names::TIME => &mut marked.times,
                names::A | names::SPAN | names::P | names::DIV | names::ADDRESS if is_author(element) => {
                    &mut marked.authors
                }
                _ => {
                    if attribute("itemtype").ends_with("BreadcrumbList") {
                        marked.crumb_list = marked.crumb_list.or(Some(element));
                    } else if is_crumbs(element) {
                        marked.crumbs = marked.crumbs.or(Some(element));
                    }
                    continue;
                }
            };
            if list.len() < MAX_ELEMENTS {
                list.push(element);
            }
        }
        marked
    }

    /// The first `meta` element with one of these names, in their order, whose content can be read.
    fn meta(
        &self,
        _page: &Document,
        wanted: &[&str],
        read: impl Fn(Cow<'_, str>) -> Option<String>,
    ) -> Option<Declared<String>> {
        let is = |meta: &Element<'_>, name: &str| {
            let named =
                ["property", "name", "itemprop", "http-equiv"].into_iter().filter_map(|key| meta.raw_attribute(key));
            named.into_iter().any(|found| found.trim().eq_ignore_ascii_case(name))
        };
        let mut found = wanted.iter().flat_map(|name| self.metas.iter().filter(|meta| is(meta, name)));
        found.find_map(|meta| read(meta.attribute("content")?)).map(from(AboutSource::Meta))
    }

    /// The first element with this property whose value can be read.
    fn property(
        &self,
        name: &str,
        budget: &PageBudget,
        read: impl Fn(Cow<'_, str>) -> Option<String>,
    ) -> Option<Declared<String>> {
        let mut found = self.properties.iter().filter(|element| {
            element.raw_attribute("itemprop").is_some_and(|names| names.split_ascii_whitespace().any(|one| one == name))
        });
        found.find_map(|element| read(value_of(*element, budget))).map(from(AboutSource::Microdata))
    }

    /// The first `time` element that is, or is not, marked as an update.
    fn time(
        &self,
        is_first: bool,
        budget: &PageBudget,
        read: impl Fn(Cow<'_, str>) -> Option<String>,
    ) -> Option<Declared<String>> {
        let is_update = |time: &&Element<'_>| {
            time.raw_attribute("class").is_some_and(|class| class.contains("updated") || class.contains("modified"))
        };
        let mut times = self.times.iter().filter(|time| is_update(time) != is_first);
        times.find_map(|time| read(value_of(*time, budget))).map(from(AboutSource::Text))
    }

    fn author(&self, budget: &PageBudget) -> Option<Declared<String>> {
        let name = |element: &Element<'_>| {
            let name = as_name(&element.text_within(MAX_NAME, budget))?;
            let name = name.strip_prefix("By ").or_else(|| name.strip_prefix("by ")).unwrap_or(&name).to_owned();
            (name.len() <= 80).then_some(name)
        };
        self.authors.iter().take(MAX_CRUMBS).find_map(name).map(from(AboutSource::Text))
    }

    /// The names of the breadcrumbs: links, and the last item.
    fn crumbs(&self, is_marked: bool, budget: &PageBudget) -> Option<Vec<String>> {
        let around = if is_marked { self.crumb_list } else { self.crumbs }?;
        let has_items = around.descendants().take(MAX_ELEMENTS).any(|inner| inner.name_id() == names::LI);
        let is_item = |inner: &Element<'_>| match inner.name_id() {
            _ if is_marked => inner.raw_attribute("itemprop") == Some("name"),
            names::LI => true,
            names::A => !has_items,
            _ => false,
        };
        let items = around.descendants().take_while(|_| budget.visit()).take(MAX_ELEMENTS).filter(is_item);
        let trim = |name: String| name.trim_matches(|c: char| "/>\u{bb}\u{203a} ".contains(c)).to_owned();
        let names = items.take(MAX_CRUMBS).filter_map(|item| as_name(&item.text_within(MAX_NAME, budget)).map(trim));
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        (!names.is_empty()).then_some(names)
    }
}

/// The value of an element with a property, or of a `time` element.
fn value_of<'a>(element: Element<'a>, budget: &PageBudget) -> Cow<'a, str> {
    let value = ["datetime", "content"].into_iter().find_map(|name| element.attribute(name));
    value.unwrap_or_else(|| Cow::Owned(element.text_within(MAX_NAME, budget)))
}

fn is_author(element: Element<'_>) -> bool {
    let class = element.raw_attribute("class").unwrap_or_default();
    element.raw_attribute("rel") == Some("author")
        || class
            .split_ascii_whitespace()
            .take(8)
            .any(|word| matches!(word, "byline" | "author" | "author-name" | "p-author"))
}

fn is_crumbs(element: Element<'_>) -> bool {
    let is_box = matches!(element.name_id(), names::NAV | names::UL | names::OL | names::DIV);
    let class = element.raw_attribute("class").unwrap_or_default();
    let label = element.raw_attribute("aria-label").unwrap_or_default();
    is_box
        && (label.to_ascii_lowercase().contains("breadcrumb")
            || class.split_ascii_whitespace().take(8).any(|word| matches!(word, "breadcrumb" | "breadcrumbs")))
}

/// The language that a page declares.
fn declared_language(page: &Document) -> Option<Declared<String>> {
    let declared = page.root().attribute("lang").or_else(|| page.root().attribute("xml:lang"));
    let tag = declared.map(Cow::into_owned).or_else(|| page.meta("content-language"))?;
    let tag = tag.trim();
    let is_tag = tag.len() <= 35 && !tag.is_empty() && tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_tag.then(|| Declared { value: tag.to_owned(), source: AboutSource::Meta })
}

/// The language of a text as a code of ISO 639, if it can be told from the text.
pub(crate) fn detected_language(text: &str) -> Option<String> {
    let text = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(text);
    if text.len() < MIN_TEXT {
        return None;
    }
    let found = whatlang::detect(text).filter(whatlang::Info::is_reliable)?;
    let code = found.lang().code();
    let short = SHORT_CODES.iter().find(|(long, _)| *long == code).map_or(code, |(_, short)| short);
    Some(short.to_owned())
}

/// The two-letter codes of languages.
#[rustfmt::skip]
const SHORT_CODES: &[(&str, &str)] = &[
    ("epo", "eo"), ("eng", "en"), ("rus", "ru"), ("cmn", "zh"), ("spa", "es"), ("por", "pt"), ("ita", "it"),
    ("ben", "bn"), ("fra", "fr"), ("deu", "de"), ("ukr", "uk"), ("kat", "ka"), ("ara", "ar"), ("hin", "hi"),
    ("jpn", "ja"), ("heb", "he"), ("yid", "yi"), ("pol", "pl"), ("amh", "am"), ("jav", "jv"), ("kor", "ko"),
    ("nob", "nb"), ("dan", "da"), ("swe", "sv"), ("fin", "fi"), ("tur", "tr"), ("nld", "nl"), ("hun", "hu"),
    ("ces", "cs"), ("ell", "el"), ("bul", "bg"), ("bel", "be"), ("mar", "mr"), ("kan", "kn"), ("ron", "ro"),
    ("slv", "sl"), ("hrv", "hr"), ("srp", "sr"), ("mkd", "mk"), ("lit", "lt"), ("lav", "lv"), ("est", "et"),
    ("tam", "ta"), ("vie", "vi"), ("urd", "ur"), ("tha", "th"), ("guj", "gu"), ("uzb", "uz"), ("pan", "pa"),
    ("aze", "az"), ("ind", "id"), ("tel", "te"), ("pes", "fa"), ("mal", "ml"), ("ori", "or"), ("mya", "my"),
    ("nep", "ne"), ("sin", "si"), ("khm", "km"), ("tuk", "tk"), ("aka", "ak"), ("zul", "zu"), ("sna", "sn"),
    ("afr", "af"), ("lat", "la"), ("slk", "sk"), ("cat", "ca"), ("tgl", "tl"), ("hye", "hy"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_ld_comes_before_meta_elements_microdata_and_text() {
        let json = r#"<script type="application/ld+json">{"@graph":[{"@type":"NewsArticle","headline":"x",
            "datePublished":"2026-03-01T10:00:00+01:00","author":[{"name":"A. Weaver"},"B. Silk"],"publisher":{"name":"The Web"}},
            {"@type":"BreadcrumbList","itemListElement":[{"name":"Home"},{"item":{"name":"Spiders"}}]}]}</script>"#;
        let rest = "<html lang=de><meta property=article:published_time content=2020-01-01>\
            <meta name=author content='C. Thread'><meta name=last-modified content='2 May 2026'>\
            <p>by <span itemprop=author>D. Dew</span><time datetime=2019-01-01>then</time>";
        let about = |html: &str| PageAbout::of(&Document::parse(html), "", &PageBudget::unlimited());
        let both = about(&format!("{rest}{json}"));
        let of =
            |found: &Option<Declared<String>>| found.clone().map(|found| (found.value, found.source)).expect("a value");
        assert_eq!(of(&both.published), ("2026-03-01T09:00:00Z".to_owned(), AboutSource::JsonLd));
        assert_eq!(of(&both.author).0, "A. Weaver, B. Silk");
        assert_eq!(of(&both.site).0, "The Web");
        assert_eq!(both.breadcrumbs.expect("crumbs").value, ["Home", "Spiders"]);
        assert_eq!(of(&both.modified), ("2026-05-02".to_owned(), AboutSource::Meta));
        assert_eq!(of(&both.language), ("de".to_owned(), AboutSource::Meta));
        let metas = about(rest);
        assert_eq!((of(&metas.published).0, of(&metas.author).0), ("2020-01-01".to_owned(), "C. Thread".to_owned()));
        let marked = about(
            "<p><span itemprop=author>D. Dew</span><time datetime=2019-01-01>then</time>\
            <nav aria-label=Breadcrumb><ol><li><a href=/>Home</a> /<li>Here</ol></nav>",
        );
        assert_eq!(of(&marked.author), ("D. Dew".to_owned(), AboutSource::Microdata));
        assert_eq!(of(&marked.published), ("2019-01-01".to_owned(), AboutSource::Text));
        assert_eq!(marked.breadcrumbs.expect("crumbs").value, ["Home", "Here"]);
    }

    #[test]
    fn the_language_of_the_text_comes_before_the_declared_one() {
        let text = "Die Kreuzspinne baut jede Nacht ein neues Netz und frisst zuvor das alte, weil die Seide viel Eiwei\u{df} \
            enth\u{e4}lt. Am Morgen sitzt sie in der Mitte und wartet auf die ersten Fliegen des Tages.";
        let about = PageAbout::of(&Document::parse("<html lang=en>"), text, &PageBudget::unlimited());
        assert_eq!(about.language.map(|found| (found.value, found.source)), Some(("de".to_owned(), AboutSource::Text)));
    }
}

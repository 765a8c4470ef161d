//! [`PageFacts`]: facts for the record of an HTML page, collected from tags that are parsed anyway.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::entities;
use crate::page::likeness::MinHash;

/// Bytes kept of a heading, a description or an OpenGraph title, as received.
const MAX_RAW: usize = 8 * 1024;
/// Limit on the bytes of a language tag. Longer ones are ignored.
const MAX_LANG: usize = 64;
/// Limit on the number of robots directives that are kept.
const MAX_DIRECTIVES: usize = 16;
/// Limit on the bytes of a robots directive. Longer ones are ignored.
const MAX_DIRECTIVE: usize = 64;

/// Facts for the record of an HTML or XHTML page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageFacts {
    /// Content of `meta name=description`.
    pub description: Option<Box<str>>,
    /// Text of the first `h1` that has text.
    pub h1: Option<Box<str>>,
    pub h1_count: u32,
    /// `lang` of the `html` element.
    pub lang: Option<Box<str>>,
    /// Robots directives of meta elements, in lower case.
    pub meta_robots: Vec<Box<str>>,
    /// Number of words in the visible text. Words are separated by white space. In UTF-8 pages, each Chinese or Japanese
    /// character also counts as one.
    pub words: u64,
    pub og: OpenGraph,
    /// Number of `img` elements without an `alt` attribute. An empty `alt` marks a decoration and is not counted.
    pub images_without_alt: u32,
    /// Whether the page looks empty without scripts: few words, and a sign that scripts make the content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_scripts: bool,
    /// For comparing the texts of pages; `None` if there is too little text.
    pub minhash: Option<MinHash>,
}

/// OpenGraph properties of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenGraph {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// An absolute URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<str>>,
}

impl OpenGraph {
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.image.is_none()
    }
}

/// [`PageFacts`] while the page is read, as received.
#[derive(Default)]
pub struct RawFacts {
    pub description: Option<Box<[u8]>>,
    pub h1: Vec<u8>,
    pub h1_count: u32,
    /// Whether the tokenizer is within the `h1` whose text is kept.
    pub in_heading: bool,
    pub lang: Option<Box<[u8]>>,
    pub meta_robots: Vec<Box<str>>,
    pub og_title: Option<Box<[u8]>>,
    /// The range of the image's URL in the bytes of `Collector::links`.
    pub og_image: Option<Range<usize>>,
    pub images_without_alt: u32,
}

impl RawFacts {
    /// Handles the start of an `h1`. Its text is kept unless an earlier `h1` has text.
    pub fn begin_heading(&mut self) {
        self.h1_count = self.h1_count.saturating_add(1);
        self.in_heading = self.h1.iter().all(u8::is_ascii_whitespace);
    }

    /// Adds text of the heading.
    pub fn push_heading(&mut self, text: &[u8]) {
        let room = MAX_RAW.saturating_sub(self.h1.len());
        self.h1.extend_from_slice(text.get(..room).unwrap_or(text));
        self.in_heading = self.h1.len() < MAX_RAW;
    }

    /// Sets the language of the page, unless it is set already.
    pub fn set_lang(&mut self, lang: Option<&[u8]>) {
        let lang = lang.map(<[u8]>::trim_ascii).filter(|lang| !lang.is_empty() && lang.len() <= MAX_LANG);
        if let (None, Some(lang)) = (&self.lang, lang) {
            self.lang = Some(lang.into());
        }
    }

    /// Handles a meta element that is not about robots. `name` is its `name` or `property`.
    pub fn add_meta(&mut self, name: &[u8], content: &[u8]) {
        let slot = if name.eq_ignore_ascii_case(b"description") {
            &mut self.description
        } else if name.eq_ignore_ascii_case(b"og:title") {
            &mut self.og_title
        } else {
            return;
        };
        if slot.is_none() && !content.trim_ascii().is_empty() {
            *slot = Some(content.get(..MAX_RAW).unwrap_or(content).into());
        }
    }

    /// Adds the directives of a robots meta element.
    pub fn add_robots(&mut self, content: &str) {
        for item in content.split(',').map(str::trim) {
            // A directive with a value may contain spaces: `unavailable_after: 25 Jun 2010`.
            if item.contains(':') {
                self.add_directive(item);
            } else {
                item.split_ascii_whitespace().for_each(|word| self.add_directive(word));
            }
        }
    }

    fn add_directive(&mut self, word: &str) {
        let word = word.to_ascii_lowercase();
        let is_new = !word.is_empty() && !self.meta_robots.iter().any(|known| **known == *word);
        if is_new && word.len() <= MAX_DIRECTIVE && self.meta_robots.len() < MAX_DIRECTIVES {
            self.meta_robots.push(word.into());
        }
    }
}

/// The `alt` of an image, as text of the heading or link that contains the image. Like that text, the result is in the
/// charset of the page, and its references are resolved later.
pub fn alt_text(alt: &[u8]) -> Cow<'_, [u8]> {
    entities::resolve_in_bytes(alt, entities::push_as_reference)
}

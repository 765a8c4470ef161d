//! [`EmptyPageReader`]: recognises pages that look empty without scripts.
//!
//! Such a page has scripts, few words, and a sign that scripts make its content: an element with an id and no text, a
//! `noscript` that asks for JavaScript, or a script element with data. A page with scripts that shows nothing at all is
//! one too. Only pages with few words are watched, so the work on other pages is small.

use memchr::memmem;

use super::names;
use super::tokenizer::Tag;

/// A page with more words than this, those of `noscript` left out, does not look empty.
const MAX_WORDS: u64 = 40;
/// If an element without text is the only sign, a page with more words than this does not look empty: short pages with
/// text have such elements too.
const MAX_WORDS_WITH_PLACE: u64 = 15;
/// Bytes kept of the text of a `noscript`. More than [`MAX_WORDS`] words need not be kept.
const MAX_NOSCRIPT: usize = 1024;

/// Watches the tokens of a page.
#[derive(Debug, Default)]
pub struct EmptyPageReader {
    has_script: bool,
    /// Whether the page asks for JavaScript or has data for scripts.
    has_request: bool,
    /// Whether an element with an id has no text.
    has_place: bool,
    /// Whether an image, a form or the like shows something without text.
    shows_other: bool,
    /// The element with an id that is open and has no text so far.
    place: Option<Place>,
    /// The number of words before the open `noscript`.
    noscript: Option<u64>,
    noscript_text: Vec<u8>,
    /// The number of words in `noscript` elements.
    noscript_words: u64,
}

/// An element with an id and no text so far.
#[derive(Debug)]
struct Place {
    name: u64,
    /// The number of words of the page before it.
    words: u64,
    /// How many elements of the same name are open, itself included.
    depth: u32,
}

impl EmptyPageReader {
    /// Handles a start tag. `words` is the number of words before it.
    pub fn start(&mut self, key: u64, tag: &Tag<'_>, words: u64) {
        if self.visible(words) > MAX_WORDS {
            return;
        }
        if self.noscript.is_some() {
            self.shows_other |= key == names::IMG;
            return;
        }
        match key {
            names::SCRIPT => self.script(tag),
            names::NOSCRIPT => self.noscript = Some(words),
            names::DIV | names::MAIN | names::SECTION => self.place(key, tag, words),
            _ if is_custom(tag.name) => self.place(key, tag, words),
            // These show something without text.
            names::IMG
            | names::IFRAME
            | names::FRAME
            | names::VIDEO
            | names::AUDIO
            | names::OBJECT
            | names::EMBED
            | names::FORM => {
                (self.place, self.shows_other) = (None, true);
            }
            names::A | names::SVG => self.shows_other = true,
            _ => {}
        }
    }

    /// Handles an end tag. `words` is the number of words before it.
    pub fn end(&mut self, key: u64, name: &[u8], words: u64) {
        if key == names::NOSCRIPT
            && let Some(before) = self.noscript.take()
        {
            self.noscript_words += words.saturating_sub(before);
            self.noscript_text.make_ascii_lowercase();
            self.has_request |= memmem::find(&self.noscript_text, b"javascript").is_some();
            self.noscript_text.clear();
        }
        let is_place = key != names::LONG_NAME || is_custom(name);
        let Some(place) = self.place.as_mut().filter(|place| is_place && place.name == key) else { return };
        place.depth -= 1;
        if place.depth == 0 {
            self.has_place |= place.words == words;
            self.place = None;
        }
    }

    /// Handles text.
    pub fn text(&mut self, text: &[u8]) {
        if self.noscript.is_some() {
            let room = MAX_NOSCRIPT.saturating_sub(self.noscript_text.len());
            self.noscript_text.extend_from_slice(text.get(..room).unwrap_or(text));
        }
    }

    /// Whether the page, which has this many words, looks empty without scripts.
    pub fn looks_empty(&self, words: u64) -> bool {
        let limit = if self.has_request { MAX_WORDS } else { MAX_WORDS_WITH_PLACE };
        let (has_sign, visible) = (self.has_request || self.has_place, self.visible(words));
        self.has_script && (has_sign && visible <= limit || visible == 0 && !self.shows_other)
    }

    fn visible(&self, words: u64) -> u64 {
        words.saturating_sub(self.noscript_words)
    }

    fn script(&mut self, tag: &Tag<'_>) {
        let kind = tag.attributes().find(|(name, _)| name.eq_ignore_ascii_case(b"type")).map(|(_, value)| value);
        if kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"application/json")) {
            self.has_request = true;
        } else if !kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"application/ld+json")) {
            self.has_script = true;
        }
    }

    fn place(&mut self, key: u64, tag: &Tag<'_>, words: u64) {
        if let Some(place) = &mut self.place
            && place.words == words
        {
            place.depth += u32::from(place.name == key);
            return;
        }
        let has_id = || tag.attributes().any(|(name, _)| name.eq_ignore_ascii_case(b"id"));
        // A custom element is a place for scripts by its name.
        self.place = (is_custom(tag.name) || has_id()).then_some(Place { name: key, words, depth: 1 });
    }
}

/// Whether this is the name of a custom element, which scripts define: it has a hyphen.
fn is_custom(name: &[u8]) -> bool {
    name.contains(&b'-')
}

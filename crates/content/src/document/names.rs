//! Element names as numbers, and the properties of each element that the tree builder needs.

use std::collections::HashMap;

use argiope_core::page::examine::names::key;

/// The maximum number of distinct custom names of a page. Elements with further names get the last of these names.
const MAX_CUSTOM_NAMES: usize = 4096;

/// The name of an element: a number for an HTML element, or an index into a document's custom names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) u16);

/// The element has no content and no end tag.
pub(super) const VOID: u16 = 1;
/// The start tag closes an open `p`.
pub(super) const BLOCK: u16 = 2;
/// The search for the start tag of an end tag stops at this element.
pub(super) const BARRIER: u16 = 4;
/// The element belongs to the head if it comes before the body.
pub(super) const HEAD: u16 = 8;
/// The end tag does not close blocks: `</b>` does not close an open `div`.
pub(super) const INLINE: u16 = 16;
/// The content is text up to the end tag.
pub(super) const RAW: u16 = 32;

/// Defines a constant for each name, and the tables of texts and flags.
macro_rules! names {
    ($($constant:ident $text:literal $flags:expr;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum Number {
            $($constant),*
        }
        $(#[allow(dead_code)] pub(crate) const $constant: Name = Name(Number::$constant as u16);)*
        static TEXTS: &[&str] = &[$($text),*];
        static FLAGS: &[u16] = &[$($flags),*];
    };
}

names! {
    A "a" INLINE; ABBR "abbr" INLINE; ADDRESS "address" BLOCK; AREA "area" VOID; ARTICLE "article" BLOCK;
    ASIDE "aside" BLOCK; AUDIO "audio" 0; B "b" INLINE; BASE "base" VOID | HEAD; BDI "bdi" INLINE; BDO "bdo" INLINE;
    BIG "big" INLINE; BLOCKQUOTE "blockquote" BLOCK; BODY "body" 0; BR "br" VOID; BUTTON "button" 0; CANVAS "canvas" 0;
    CAPTION "caption" BARRIER; CENTER "center" BLOCK; CITE "cite" INLINE; CODE "code" INLINE; COL "col" VOID;
    COLGROUP "colgroup" 0; DATA "data" INLINE; DATALIST "datalist" 0; DD "dd" BLOCK; DEL "del" INLINE;
    DETAILS "details" BLOCK; DFN "dfn" INLINE; DIALOG "dialog" BLOCK; DIR "dir" BLOCK; DIV "div" BLOCK; DL "dl" BLOCK;
    DT "dt" BLOCK; EM "em" INLINE; EMBED "embed" VOID; FIELDSET "fieldset" BLOCK; FIGCAPTION "figcaption" BLOCK;
    FIGURE "figure" BLOCK; FONT "font" INLINE; FOOTER "footer" BLOCK; FORM "form" BLOCK; FRAME "frame" VOID;
    FRAMESET "frameset" 0; H1 "h1" BLOCK; H2 "h2" BLOCK; H3 "h3" BLOCK; H4 "h4" BLOCK; H5 "h5" BLOCK; H6 "h6" BLOCK;
    HEAD_ELEMENT "head" 0; HEADER "header" BLOCK; HGROUP "hgroup" BLOCK; HR "hr" VOID | BLOCK; HTML "html" BARRIER;
    I "i" INLINE; IFRAME "iframe" RAW; IMG "img" VOID; INPUT "input" VOID; INS "ins" INLINE; KBD "kbd" INLINE;
    LABEL "label" INLINE; LEGEND "legend" 0; LI "li" BLOCK; LINK "link" VOID | HEAD; MAIN "main" BLOCK; MAP "map" 0;
    MARK "mark" INLINE; MATH "math" 0; MENU "menu" BLOCK; META "meta" VOID | HEAD; METER "meter" INLINE;
    NAV "nav" BLOCK; NOBR "nobr" INLINE; NOEMBED "noembed" RAW; NOFRAMES "noframes" RAW; NOSCRIPT "noscript" 0;
    OBJECT "object" BARRIER; OL "ol" BLOCK; OPTGROUP "optgroup" 0; OPTION "option" 0; OUTPUT "output" INLINE;
    P "p" BLOCK; PARAM "param" VOID; PICTURE "picture" 0; PLAINTEXT "plaintext" BLOCK; PRE "pre" BLOCK;
    PROGRESS "progress" INLINE; Q "q" INLINE; RP "rp" 0; RT "rt" 0; RUBY "ruby" INLINE; S "s" INLINE;
    SAMP "samp" INLINE; SCRIPT "script" HEAD | RAW; SEARCH "search" BLOCK; SECTION "section" BLOCK; SELECT "select" 0;
    SLOT "slot" INLINE; SMALL "small" INLINE; SOURCE "source" VOID; SPAN "span" INLINE; STRIKE "strike" INLINE;
    STRONG "strong" INLINE; STYLE "style" HEAD | RAW; SUB "sub" INLINE; SUMMARY "summary" BLOCK; SUP "sup" INLINE;
    SVG "svg" 0; TABLE "table" BARRIER | BLOCK; TBODY "tbody" 0; TD "td" BARRIER; TEMPLATE "template" BARRIER | HEAD;
    TEXTAREA "textarea" RAW; TFOOT "tfoot" 0; TH "th" BARRIER; THEAD "thead" 0; TIME "time" INLINE;
    TITLE "title" HEAD | RAW; TR "tr" 0; TRACK "track" VOID; TT "tt" INLINE; U "u" INLINE; UL "ul" BLOCK;
    VAR "var" INLINE; VIDEO "video" 0; WBR "wbr" VOID; XMP "xmp" BLOCK | RAW;
}

/// The number of slots of [`KEYS`]; a power of two.
const SLOTS: usize = 512;

/// A hash table from the keys of names of up to eight bytes to their numbers. The key of a name is its bytes as a
/// little-endian number. Empty slots have the key 0.
static KEYS: [(u64, u16); SLOTS] = {
    let mut table = [(0, 0); SLOTS];
    let mut number = 0;
    while number < TEXTS.len() {
        let text = TEXTS[number].as_bytes();
        if text.len() <= 8 {
            let (mut key, mut index) = (0, 0);
            while index < text.len() {
                key |= (text[index] as u64) << (8 * index);
                index += 1;
            }
            let mut slot = slot_of(key);
            while table[slot].0 != 0 {
                slot = (slot + 1) % SLOTS;
            }
            table[slot] = (key, number as u16);
        }
        number += 1;
    }
    table
};

/// The first slot to search for a key: the upper bits of a product (Fibonacci hashing).
const fn slot_of(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros())) as usize
}

impl Name {
    /// The number of an HTML name, given in any case.
    pub(crate) fn known(name: &[u8]) -> Option<Self> {
        if name.len() > 8 {
            // All HTML names of more than eight bytes.
            return [BLOCKQUOTE, FIGCAPTION, PLAINTEXT]
                .into_iter()
                .find(|known| known.text().is_some_and(|text| text.as_bytes().eq_ignore_ascii_case(name)));
        }
        let key = key(name);
        let mut slot = slot_of(key);
        loop {
            match KEYS[slot % SLOTS] {
                (0, _) => return None,
                // A name with a NUL byte at its end has the key of a shorter name.
                (found, number) if found == key => {
                    return Some(Self(number)).filter(|known| known.length() == name.len());
                }
                _ => slot += 1,
            }
        }
    }

    fn length(self) -> usize {
        self.text().map_or(0, str::len)
    }

    /// The number of HTML names. Numbers from this one on are custom names of a document.
    pub(crate) fn count() -> u16 {
        TEXTS.len() as u16
    }

    /// The text of an HTML name.
    pub(crate) fn text(self) -> Option<&'static str> {
        TEXTS.get(usize::from(self.0)).copied()
    }

    pub(super) fn flags(self) -> u16 {
        FLAGS.get(usize::from(self.0)).copied().unwrap_or(0)
    }

    pub(super) fn has(self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    /// Whether the element starts a new line when displayed.
    pub(crate) fn is_block(self) -> bool {
        self.has(BLOCK) || matches!(self, TR | CAPTION | BODY | OPTION | LEGEND | THEAD | TBODY | TFOOT)
    }

    pub(crate) fn is_void(self) -> bool {
        self.has(VOID)
    }

    pub(crate) fn is_heading(self) -> bool {
        matches!(self, H1 | H2 | H3 | H4 | H5 | H6)
    }
}

/// The custom names of a page: those that are not HTML names.
#[derive(Debug, Default)]
pub(crate) struct CustomNames {
    /// The names in lower case.
    texts: Vec<Box<str>>,
    /// The index of each name in `texts`.
    indexes: HashMap<Box<str>, u16>,
}

impl CustomNames {
    /// The number of a custom name, which is added if it is new.
    pub(super) fn number(&mut self, written: &[u8]) -> Name {
        let mut buffer = [0; 64];
        let text = match buffer.get_mut(..written.len()) {
            Some(lower) => {
                lower.copy_from_slice(written);
                lower.make_ascii_lowercase();
                String::from_utf8_lossy(lower)
            }
            None => String::from_utf8_lossy(written).to_ascii_lowercase().into(),
        };
        let index = match self.indexes.get(&*text) {
            Some(&index) => index,
            None if self.texts.len() < MAX_CUSTOM_NAMES => {
                let index = self.texts.len() as u16;
                self.texts.push((*text).into());
                self.indexes.insert((*text).into(), index);
                index
            }
            None => self.texts.len() as u16 - 1,
        };
        Name(Name::count() + index)
    }

    /// The text of any name of the page, in lower case.
    pub(crate) fn text(&self, name: Name) -> &str {
        name.text().unwrap_or_else(|| {
            let index = usize::from(name.0.saturating_sub(Name::count()));
            self.texts.get(index).map_or("", |text| text)
        })
    }

    /// Whether `name` is the custom name `text`.
    pub(super) fn is(&self, name: Name, text: &str) -> bool {
        name.0 >= Name::count() && self.text(name) == text
    }
}

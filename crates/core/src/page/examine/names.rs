//! Element names as integers, so that a name is compared with fifty others without an allocation.

use crate::base::swar;

/// The key of all names that are too long for a key of their own. They are compared by bytes.
pub const LONG_NAME: u64 = 0;

/// The key of a name: up to eight bytes in lower case, as an integer; [`LONG_NAME`] if it is longer.
#[inline]
pub fn key(name: &[u8]) -> u64 {
    if name.len() > 8 { LONG_NAME } else { swar::lower(swar::up_to_eight(name)) }
}

/// Like [`key`], for a constant name in lower case.
const fn const_key(name: &[u8]) -> u64 {
    assert!(name.len() <= 8, "a longer name has no key");
    let (mut key, mut index) = (0, 0);
    while index < name.len() {
        key |= (name[index] as u64) << (8 * index);
        index += 1;
    }
    key
}

/// Defines a constant with the key of each name.
macro_rules! names {
    ($($constant:ident $text:literal)*) => { $(pub const $constant: u64 = const_key($text);)* };
}

names! {
    A b"a" APPLET b"applet" AREA b"area" AUDIO b"audio" BASE b"base" BGSOUND b"bgsound" BODY b"body" CHANNEL b"channel" DESC b"desc" DIV b"div"
    EMBED b"embed" FEED b"feed" FEIMAGE b"feimage" FONT b"font" FORM b"form" FRAME b"frame" GUID b"guid"
    H1 b"h1" HTML b"html"
    IFRAME b"iframe" IMAGE b"image" IMG b"img" INPUT b"input" LINK b"link" MAIN b"main" MATH b"math" META b"meta" MI b"mi" MN b"mn"
    MO b"mo" MS b"ms" MTEXT b"mtext" NOEMBED b"noembed" NOFRAMES b"noframes" NOSCRIPT b"noscript" OBJECT b"object" RDF b"rdf"
    RSS b"rss" SCRIPT b"script" SECTION b"section" SOURCE b"source" STYLE b"style" SVG b"svg" TEMPLATE b"template" TEXTAREA b"textarea"
    TITLE b"title" TRACK b"track" USE b"use" VIDEO b"video" XMP b"xmp"
}

/// Inline elements.
mod inline {
    use super::const_key;
    names! {
        A b"a" ABBR b"abbr" ACRONYM b"acronym" B b"b" BDI b"bdi" BDO b"bdo" BIG b"big" CITE b"cite"
        CODE b"code" DATA b"data" DEL b"del" DFN b"dfn" EM b"em" FONT b"font" I b"i" INS b"ins" KBD b"kbd"
        MARK b"mark" NOBR b"nobr" Q b"q" S b"s" SAMP b"samp" SMALL b"small" SPAN b"span" STRIKE b"strike"
        STRONG b"strong" SUB b"sub" SUP b"sup" TIME b"time" TT b"tt" U b"u" VAR b"var" WBR b"wbr"
    }
}

/// Whether an element is inline: a word continues across its tags.
#[rustfmt::skip]
pub fn is_inline(key: u64) -> bool {
    use inline::*;
    matches!(
        key,
        A | ABBR | ACRONYM | B | BDI | BDO | BIG | CITE | CODE | DATA | DEL | DFN | EM | FONT | I | INS | KBD |
        MARK | NOBR | Q | S | SAMP | SMALL | SPAN | STRIKE | STRONG | SUB | SUP | TIME | TT | U | VAR | WBR
    )
}

/// Whether a name is `h1` to `h6`.
pub fn is_heading(name: &[u8]) -> bool {
    matches!(name, [b'h' | b'H', b'1'..=b'6'])
}

/// The keys of the elements whose start tags close SVG and MathML, by the list of the standard. `blockquote`, which is
/// on the list too, is too long for a key.
const BREAK_OUT: [u64; 43] = [
    const_key(b"b"),
    const_key(b"big"),
    const_key(b"body"),
    const_key(b"br"),
    const_key(b"center"),
    const_key(b"code"),
    const_key(b"dd"),
    const_key(b"div"),
    const_key(b"dl"),
    const_key(b"dt"),
    const_key(b"em"),
    const_key(b"embed"),
    const_key(b"h1"),
    const_key(b"h2"),
    const_key(b"h3"),
    const_key(b"h4"),
    const_key(b"h5"),
    const_key(b"h6"),
    const_key(b"head"),
    const_key(b"hr"),
    const_key(b"i"),
    const_key(b"img"),
    const_key(b"li"),
    const_key(b"listing"),
    const_key(b"menu"),
    const_key(b"meta"),
    const_key(b"nobr"),
    const_key(b"ol"),
    const_key(b"p"),
    const_key(b"pre"),
    const_key(b"ruby"),
    const_key(b"s"),
    const_key(b"small"),
    const_key(b"span"),
    const_key(b"strong"),
    const_key(b"strike"),
    const_key(b"sub"),
    const_key(b"sup"),
    const_key(b"table"),
    const_key(b"tt"),
    const_key(b"u"),
    const_key(b"ul"),
    const_key(b"var"),
];

/// Whether a tag of this name closes SVG and MathML.
pub fn breaks_out(name: &[u8]) -> bool {
    BREAK_OUT.contains(&key(name)) || name.eq_ignore_ascii_case(b"blockquote")
}

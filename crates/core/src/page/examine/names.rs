//! Element names as integers, so that distinguishing fifty of them costs a few comparisons and no allocation.

use crate::swar;

/// A name of up to eight bytes in lower case, as an integer. Longer names are all 0 and compared by bytes.
#[inline]
pub fn key(name: &[u8]) -> u64 {
    if name.len() > 8 { 0 } else { swar::lower(swar::up_to(name)) }
}

/// Like [`key`], for a constant name in lower case.
const fn known(name: &[u8]) -> u64 {
    assert!(name.len() <= 8, "a longer name has no key");
    let (mut key, mut index) = (0, 0);
    while index < name.len() {
        key |= (name[index] as u64) << (8 * index);
        index += 1;
    }
    key
}

macro_rules! names {
    ($($constant:ident $text:literal)*) => { $(pub const $constant: u64 = known($text);)* };
}

names! {
    A b"a" AREA b"area" AUDIO b"audio" BASE b"base" BODY b"body" CHANNEL b"channel" DESC b"desc"
    EMBED b"embed" FEED b"feed" FEIMAGE b"feimage" FONT b"font" FORM b"form" FRAME b"frame" GUID b"guid"
    H1 b"h1" HTML b"html"
    IFRAME b"iframe" IMAGE b"image" IMG b"img" INPUT b"input" LINK b"link" MATH b"math" META b"meta" MI b"mi" MN b"mn"
    MO b"mo" MS b"ms" MTEXT b"mtext" NOEMBED b"noembed" NOFRAMES b"noframes" OBJECT b"object" RDF b"rdf"
    RSS b"rss" SCRIPT b"script" SOURCE b"source" STYLE b"style" SVG b"svg" TEMPLATE b"template" TEXTAREA b"textarea"
    TITLE b"title" TRACK b"track" USE b"use" VIDEO b"video" XMP b"xmp"
}

/// Inline elements.
mod inline {
    use super::known;
    names! {
        A b"a" ABBR b"abbr" ACRONYM b"acronym" B b"b" BDI b"bdi" BDO b"bdo" BIG b"big" CITE b"cite"
        CODE b"code" DATA b"data" DEL b"del" DFN b"dfn" EM b"em" FONT b"font" I b"i" INS b"ins" KBD b"kbd"
        MARK b"mark" NOBR b"nobr" Q b"q" S b"s" SAMP b"samp" SMALL b"small" SPAN b"span" STRIKE b"strike"
        STRONG b"strong" SUB b"sub" SUP b"sup" TIME b"time" TT b"tt" U b"u" VAR b"var" WBR b"wbr"
    }
}

/// True for inline elements: a word continues across their tags.
#[rustfmt::skip]
pub fn is_inline(key: u64) -> bool {
    use inline::*;
    matches!(
        key,
        A | ABBR | ACRONYM | B | BDI | BDO | BIG | CITE | CODE | DATA | DEL | DFN | EM | FONT | I | INS | KBD |
        MARK | NOBR | Q | S | SAMP | SMALL | SPAN | STRIKE | STRONG | SUB | SUP | TIME | TT | U | VAR | WBR
    )
}

/// True for `h1` to `h6`.
pub fn is_heading(name: &[u8]) -> bool {
    matches!(name, [b'h' | b'H', b'1'..=b'6'])
}

/// Elements whose start tags close SVG and MathML, by the standard's list. Only `blockquote` is too long for a key.
const BREAK_OUT: [u64; 43] = [
    known(b"b"),
    known(b"big"),
    known(b"body"),
    known(b"br"),
    known(b"center"),
    known(b"code"),
    known(b"dd"),
    known(b"div"),
    known(b"dl"),
    known(b"dt"),
    known(b"em"),
    known(b"embed"),
    known(b"h1"),
    known(b"h2"),
    known(b"h3"),
    known(b"h4"),
    known(b"h5"),
    known(b"h6"),
    known(b"head"),
    known(b"hr"),
    known(b"i"),
    known(b"img"),
    known(b"li"),
    known(b"listing"),
    known(b"menu"),
    known(b"meta"),
    known(b"nobr"),
    known(b"ol"),
    known(b"p"),
    known(b"pre"),
    known(b"ruby"),
    known(b"s"),
    known(b"small"),
    known(b"span"),
    known(b"strong"),
    known(b"strike"),
    known(b"sub"),
    known(b"sup"),
    known(b"table"),
    known(b"tt"),
    known(b"u"),
    known(b"ul"),
    known(b"var"),
];

/// True if a start tag of this name closes SVG and MathML.
pub fn breaks_out(name: &[u8]) -> bool {
    BREAK_OUT.contains(&key(name)) || name.eq_ignore_ascii_case(b"blockquote")
}

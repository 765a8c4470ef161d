//! Names of elements as numbers, so that telling fifty of them apart costs a few comparisons and no allocation.

/// A name of up to eight bytes in lower case, packed. Longer names are all 0: they are told apart by their bytes.
pub const fn key(name: &[u8]) -> u64 {
    if name.len() > 8 {
        return 0;
    }
    let mut key = 0;
    let mut index = 0;
    while index < name.len() {
        key = key << 8 | name[index].to_ascii_lowercase() as u64;
        index += 1;
    }
    key
}

macro_rules! names {
    ($($constant:ident $text:literal)*) => { $(pub const $constant: u64 = key($text);)* };
}

names! {
    A b"a" AREA b"area" AUDIO b"audio" BASE b"base" BODY b"body" CHANNEL b"channel" DESC b"desc"
    EMBED b"embed" FEED b"feed" FEIMAGE b"feimage" FONT b"font" FORM b"form" FRAME b"frame" GUID b"guid"
    IFRAME b"iframe" IMAGE b"image" IMG b"img" INPUT b"input" LINK b"link" MATH b"math" META b"meta" MI b"mi" MN b"mn"
    MO b"mo" MS b"ms" MTEXT b"mtext" NOEMBED b"noembed" NOFRAMES b"noframes" OBJECT b"object" RDF b"rdf"
    RSS b"rss" SCRIPT b"script" SOURCE b"source" STYLE b"style" SVG b"svg" TEMPLATE b"template" TEXTAREA b"textarea"
    TITLE b"title" TRACK b"track" USE b"use" VIDEO b"video" XMP b"xmp"
}

/// The names whose start tags close SVG and MathML, by the standard's list. The one long name, `blockquote`, is missing.
const BREAK_OUT: [u64; 43] = [
    key(b"b"),
    key(b"big"),
    key(b"body"),
    key(b"br"),
    key(b"center"),
    key(b"code"),
    key(b"dd"),
    key(b"div"),
    key(b"dl"),
    key(b"dt"),
    key(b"em"),
    key(b"embed"),
    key(b"h1"),
    key(b"h2"),
    key(b"h3"),
    key(b"h4"),
    key(b"h5"),
    key(b"h6"),
    key(b"head"),
    key(b"hr"),
    key(b"i"),
    key(b"img"),
    key(b"li"),
    key(b"listing"),
    key(b"menu"),
    key(b"meta"),
    key(b"nobr"),
    key(b"ol"),
    key(b"p"),
    key(b"pre"),
    key(b"ruby"),
    key(b"s"),
    key(b"small"),
    key(b"span"),
    key(b"strong"),
    key(b"strike"),
    key(b"sub"),
    key(b"sup"),
    key(b"table"),
    key(b"tt"),
    key(b"u"),
    key(b"ul"),
    key(b"var"),
];

/// Whether a start tag of this name closes SVG and MathML.
pub fn breaks_out(name: &[u8]) -> bool {
    BREAK_OUT.contains(&key(name)) || name.eq_ignore_ascii_case(b"blockquote")
}

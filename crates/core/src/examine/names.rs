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

/// Whether a start tag of this name closes SVG and MathML, as the standard's list says.
pub fn breaks_out(name: &[u8]) -> bool {
    const LIST: [&[u8]; 44] = [
        b"b",
        b"big",
        b"blockquote",
        b"body",
        b"br",
        b"center",
        b"code",
        b"dd",
        b"div",
        b"dl",
        b"dt",
        b"em",
        b"embed",
        b"h1",
        b"h2",
        b"h3",
        b"h4",
        b"h5",
        b"h6",
        b"head",
        b"hr",
        b"i",
        b"img",
        b"li",
        b"listing",
        b"menu",
        b"meta",
        b"nobr",
        b"ol",
        b"p",
        b"pre",
        b"ruby",
        b"s",
        b"small",
        b"span",
        b"strong",
        b"strike",
        b"sub",
        b"sup",
        b"table",
        b"tt",
        b"u",
        b"ul",
        b"var",
    ];
    LIST.iter().any(|entry| name.eq_ignore_ascii_case(entry))
}

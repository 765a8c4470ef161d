//! Which attributes hold URLs, and which elements, attributes and link relations are copied.

use argiope_core::page::examine::places::{AssetForm, AssetUse, asset_place, is_svg_place};

use super::ReferenceUse;

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeUse {
    Url(ReferenceUse),
    Srcset(ReferenceUse),
    /// Declarations of CSS.
    Style,
    /// A page as text.
    Page,
    /// Not copied: it runs a script, sends a request, or has no meaning in a copy.
    Dropped,
    /// Neither a URL nor dangerous.
    Plain,
}

/// What an attribute holds. Names are in lower case and without a namespace prefix. An unknown element is treated like
/// the known one with this attribute that is most restricted.
pub fn use_of(element: &str, attribute: &str) -> AttributeUse {
    use AttributeUse::{Dropped, Page, Plain, Srcset, Style, Url};
    use ReferenceUse::{Data, Frame, Image, Link, Media};
    match (element, attribute) {
        // Event handlers.
        (_, name) if name.starts_with("on") => Dropped,
        // They would stop a browser from loading the changed files.
        (_, "integrity" | "crossorigin" | "nonce") => Dropped,
        // Requests without a click, or beside one.
        (_, "ping" | "attributionsrc" | "manifest" | "codebase" | "classid" | "archive" | "profile") => Dropped,
        // `base` as an attribute of XML; the type of an element that a script defines.
        (_, "base" | "is" | "imagesrcset") => Dropped,
        ("iframe", "srcdoc") => Page,
        (_, "srcdoc" | "http-equiv" | "charset") => Dropped,
        (_, "style") => Style,
        ("iframe" | "frame", "src") => Url(Frame),
        (element, "href") if is_svg_place(element.as_bytes()) => Url(Image),
        (element, attribute) if let Some(place) = asset_place(element, attribute) => match (place.form, place.use_as) {
            (AssetForm::List, _) | (_, AssetUse::PlugIn) => Dropped,
            (AssetForm::Srcset, AssetUse::Data) => Srcset(Data),
            (AssetForm::Srcset, _) => Srcset(Image),
            (AssetForm::Url, AssetUse::Image) => Url(Image),
            (AssetForm::Url, AssetUse::Media) => Url(Media),
            (AssetForm::Url, AssetUse::Data) => Url(Data),
        },
        (_, name) if name.starts_with("data-") => Plain,
        // Elements for which these attributes mean nothing, as far as is known.
        (_, "srcset") => Srcset(Image),
        ("animate" | "animatemotion" | "animatetransform" | "set", "href") => Url(Image),
        (_, "poster" | "lowsrc" | "dynsrc" | "icon") => Url(Image),
        (_, "src") => Url(Media),
        (_, "href" | "action" | "formaction" | "cite" | "longdesc") => Url(Link),
        _ => Plain,
    }
}

/// How the `href` of a `link` element is used; `None` if the element is not copied. `rel` is in lower case.
///
/// Known relations only: others may open connections (`preconnect`, `dns-prefetch`, `prefetch`, `prerender`).
pub fn use_of_rel(rel: &str) -> Option<ReferenceUse> {
    const IMAGES: [&str; 4] = ["icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon"];
    const LINKS: [&str; 14] = [
        "alternate",
        "author",
        "bookmark",
        "canonical",
        "first",
        "help",
        "index",
        "last",
        "license",
        "next",
        "prev",
        "shortlink",
        "start",
        "up",
    ];
    let has = |words: &[&str]| rel.split_ascii_whitespace().any(|entry| words.contains(&entry));
    let all_known = rel
        .split_ascii_whitespace()
        .all(|entry| entry == "stylesheet" || entry == "shortcut" || IMAGES.contains(&entry) || LINKS.contains(&entry));
    if !all_known || rel.trim().is_empty() {
        None
    } else if has(&["stylesheet"]) {
        Some(ReferenceUse::Style)
    } else if has(&IMAGES) {
        Some(ReferenceUse::Image)
    } else {
        Some(ReferenceUse::Link)
    }
}

/// How the tags of an element are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementUse {
    Copied,
    /// Under this name.
    Renamed(&'static str),
    /// Its tags are left out; its content is copied.
    Unwrapped,
    /// Left out with its content.
    Dropped,
}

/// How an element of HTML is copied. `name` is in lower case and without a namespace prefix.
pub fn element_use(name: &str) -> ElementUse {
    match name {
        "script" | "noembed" | "noframes" | "applet" => ElementUse::Dropped,
        // Scripts do not run, so the content of `noscript` is what is shown.
        "noscript" | "base" | "param" | "portal" | "fencedframe" | "bgsound" => ElementUse::Unwrapped,
        "xmp" | "plaintext" | "listing" => ElementUse::Renamed("pre"),
        _ => ElementUse::Copied,
    }
}

/// Whether an element of HTML has no content and no end tag.
pub fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Whether this is an element of SVG that neither runs scripts nor holds content of another language. Case counts.
#[rustfmt::skip]
pub fn is_svg_element(name: &str) -> bool {
    matches!(
        name,
        "a" | "animate" | "animateMotion" | "animateTransform" | "circle" | "clipPath" | "defs" | "desc" | "ellipse" |
        "feBlend" | "feColorMatrix" | "feComponentTransfer" | "feComposite" | "feConvolveMatrix" |
        "feDiffuseLighting" | "feDisplacementMap" | "feDistantLight" | "feDropShadow" | "feFlood" | "feFuncA" |
        "feFuncB" | "feFuncG" | "feFuncR" | "feGaussianBlur" | "feImage" | "feMerge" | "feMergeNode" |
        "feMorphology" | "feOffset" | "fePointLight" | "feSpecularLighting" | "feSpotLight" | "feTile" |
        "feTurbulence" | "filter" | "g" | "image" | "line" | "linearGradient" | "marker" | "mask" | "mpath" | "path" |
        "pattern" | "polygon" | "polyline" | "radialGradient" | "rect" | "set" | "stop" | "style" | "svg" | "switch" |
        "symbol" | "text" | "textPath" | "title" | "tspan" | "use" | "view"
    )
}

//! [`asset_place`]: which attributes hold URLs of resources. It is the one list of these places: what `--assets` fetches,
//! what a copy of a site loads, and what its pages refer to follow from it.
//!
//! Resources are also in style sheets and `style` attributes (`css`), in scripts and import maps (`imports`), in web app
//! manifests (`manifest`), and in the pages of `srcdoc` attributes, which are read like other pages.

/// How a page uses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssetUse {
    Image,
    /// Audio, video, tracks, embedded objects.
    Media,
    /// Only scripts use it, such as `data-src`.
    Data,
    /// A program that needs a plug-in, which no browser has any more.
    PlugIn,
}

/// The form of the value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssetForm {
    Url,
    /// URLs with descriptors, separated by commas.
    Srcset,
    /// URLs separated by white space or commas.
    List,
}

/// A place of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssetPlace {
    pub form: AssetForm,
    pub use_as: AssetUse,
}

/// All places: element (`*` is any), attribute, form, use. Names are in lower case and without a namespace prefix.
/// `link` elements are not listed: their `rel` decides.
#[rustfmt::skip]
pub const ASSET_PLACES: &[(&str, &str, AssetForm, AssetUse)] = &[
    ("img", "src", AssetForm::Url, AssetUse::Image),
    ("img", "srcset", AssetForm::Srcset, AssetUse::Image),
    ("img", "lowsrc", AssetForm::Url, AssetUse::Image),
    ("img", "dynsrc", AssetForm::Url, AssetUse::Image),
    ("image", "src", AssetForm::Url, AssetUse::Image),
    ("image", "srcset", AssetForm::Srcset, AssetUse::Image),
    ("source", "src", AssetForm::Url, AssetUse::Media),
    ("source", "srcset", AssetForm::Srcset, AssetUse::Image),
    ("video", "src", AssetForm::Url, AssetUse::Media),
    ("video", "poster", AssetForm::Url, AssetUse::Image),
    ("audio", "src", AssetForm::Url, AssetUse::Media),
    ("track", "src", AssetForm::Url, AssetUse::Media),
    ("embed", "src", AssetForm::Url, AssetUse::Media),
    ("bgsound", "src", AssetForm::Url, AssetUse::Media),
    ("object", "data", AssetForm::Url, AssetUse::Media),
    ("object", "archive", AssetForm::List, AssetUse::PlugIn),
    ("applet", "archive", AssetForm::List, AssetUse::PlugIn),
    ("input", "src", AssetForm::Url, AssetUse::Image),
    ("*", "background", AssetForm::Url, AssetUse::Image),
    ("*", "data-src", AssetForm::Url, AssetUse::Data),
    ("*", "data-lazy-src", AssetForm::Url, AssetUse::Data),
    ("*", "data-original", AssetForm::Url, AssetUse::Data),
    ("*", "data-srcset", AssetForm::Srcset, AssetUse::Data),
    ("*", "data-lazy-srcset", AssetForm::Srcset, AssetUse::Data),
];

/// The elements of SVG whose `href` or `xlink:href` is a resource.
pub const SVG_PLACES: &[&str] =
    &["image", "use", "feimage", "filter", "pattern", "lineargradient", "radialgradient", "textpath", "mpath"];

/// The place of a resource that an attribute of an HTML element is, if it is one. Names are in lower case and without a
/// namespace prefix.
pub fn asset_place(element: &str, attribute: &str) -> Option<AssetPlace> {
    let is_here = |place: &&(&str, &str, AssetForm, AssetUse)| {
        let (of_element, of_attribute, ..) = **place;
        of_attribute == attribute && (of_element == "*" || of_element == element)
    };
    ASSET_PLACES.iter().find(is_here).map(|&(_, _, form, use_as)| AssetPlace { form, use_as })
}

/// Whether the `href` of this element of SVG is a resource. The name is in any case.
pub fn is_svg_place(element: &[u8]) -> bool {
    SVG_PLACES.iter().any(|name| element.eq_ignore_ascii_case(name.as_bytes()))
}

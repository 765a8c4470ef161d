//! Copies pages, SVG images and style sheets, and replaces every URL that a browser would load or follow.
//!
//! Invariant: a copy is written anew, not edited. Every `<` in it begins a tag whose name and attributes this module has
//! checked; text, comments and attribute values contain none. So the copy has no other elements than those that were
//! checked, even where a browser reads the text differently than the tokenizer here.
//!
//! | file | subject |
//! |---|---|
//! | `places` | which attributes hold URLs, and what may be copied at all |
//! | `page` | HTML, and XHTML as HTML |
//! | `svg` | SVG images, as XML |
//! | `attributes` | the attributes of one tag, for both |
//! | `css` | style sheets |

mod attributes;
mod css;
mod page;
mod places;
mod svg;

pub use css::rewrite_css;
pub use page::rewrite_page;
pub use svg::rewrite_svg;

/// How a page uses a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceUse {
    /// Followed by the user: `a`, forms, `link rel=canonical`.
    Link,
    /// Followed by the browser after some time: `meta http-equiv=refresh`.
    Refresh,
    /// A page within the page: `iframe`, `frame`.
    Frame,
    Image,
    Style,
    /// Audio, video, tracks, embedded objects.
    Media,
    /// A URL that only scripts read, such as `data-src`.
    Data,
}

/// The decision about a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    Keep,
    With(String),
    /// The attribute is left out.
    Remove,
}

/// Decides how the URLs of a page are replaced.
pub trait PageRewriter {
    /// The replacement of a URL. `url` is as written: it may be relative to the `base` that was passed to
    /// [`PageRewriter::base`].
    fn replace(&mut self, url: &str, use_as: ReferenceUse) -> Replacement;

    /// The first `base` of the page. It is not copied, so that replacements are relative to the page itself.
    fn base(&mut self, _href: &str) {}
}

#[cfg(test)]
mod tests;

//! Text and links that cannot become markup.

use std::fmt::{self, Display, Write as _};

use argiope_core::base::escape::{is_unsafe_char, write_markup_text};

/// Maximum characters of a URL that are shown. The link itself contains the whole URL.
const MAX_URL_CHARS: usize = 300;

/// Text that cannot become markup.
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Characters that change the writing direction would make a URL look like another one.
        write_markup_text(f, self.0, |f, c| f.write_char(if is_unsafe_char(c) { '\u{fffd}' } else { c }))
    }
}

/// A URL as a link. Only http and https URLs become links; others are shown as text.
pub struct UrlLink<'a>(pub &'a str);

impl Display for UrlLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.char_indices().nth(MAX_URL_CHARS).map(|(end, _)| end);
        let shown = Text(cut.and_then(|end| self.0.get(..end)).unwrap_or(self.0));
        let ellipsis = if cut.is_some() { "…" } else { "" };
        if self.0.starts_with("https://") || self.0.starts_with("http://") {
            write!(f, "<a rel=\"noreferrer noopener\" href=\"{}\">{shown}{ellipsis}</a>", Text(self.0))
        } else {
            write!(f, "{shown}{ellipsis}")
        }
    }
}

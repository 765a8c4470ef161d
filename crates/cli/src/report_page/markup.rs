//! Text and links that cannot become markup.

use std::fmt::{self, Display, Write as _};

use argiope_core::output::escape::acts;

/// Letters of a URL that are shown; the link itself is whole.
const SHOWN: usize = 300;

/// Text that cannot become markup.
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Characters that turn the direction of writing would make an address look like another.
                c if acts(c) => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A URL as a link: only http and https become one.
pub struct UrlLink<'a>(pub &'a str);

impl Display for UrlLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.char_indices().nth(SHOWN).map(|(end, _)| end);
        let shown = Text(cut.and_then(|end| self.0.get(..end)).unwrap_or(self.0));
        let more = if cut.is_some() { "…" } else { "" };
        if self.0.starts_with("https://") || self.0.starts_with("http://") {
            write!(f, "<a rel=\"noreferrer noopener\" href=\"{}\">{shown}{more}</a>", Text(self.0))
        } else {
            write!(f, "{shown}{more}")
        }
    }
}

//! Escaping of text for XML and HTML, in and out of attributes.

use std::fmt::{self, Formatter, Write as _};

/// Writes text so that it cannot become markup. `write_other` writes the characters outside of printable ASCII, none of
/// which can become markup.
pub fn write_escaped(
    f: &mut Formatter<'_>,
    text: &str,
    mut write_other: impl FnMut(&mut Formatter<'_>, char) -> fmt::Result,
) -> fmt::Result {
    for c in text.chars() {
        match c {
            '&' => f.write_str("&amp;")?,
            '<' => f.write_str("&lt;")?,
            '>' => f.write_str("&gt;")?,
            '"' => f.write_str("&quot;")?,
            '\'' => f.write_str("&#39;")?,
            ' '..='~' => f.write_char(c)?,
            c => write_other(f, c)?,
        }
    }
    Ok(())
}

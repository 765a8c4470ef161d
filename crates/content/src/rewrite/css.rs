//! Replaces the URLs of style sheets.

use argiope_core::page::examine::{CssReader, CssUrl, CssUse, unescape_css};

use super::{ReferenceUse, Replacement};

/// Replaces the URLs of a style sheet or of a `style` attribute. A URL that is removed becomes an empty string.
pub fn rewrite_css(css: &str, mut replace: impl FnMut(&str, ReferenceUse) -> Replacement) -> String {
    let mut out = String::with_capacity(css.len());
    let mut done = 0;
    let mut found = |url: CssUrl<'_>| {
        let written = String::from_utf8_lossy(url.written);
        let use_as = match url.use_as {
            CssUse::Import => ReferenceUse::Style,
            CssUse::Resource => ReferenceUse::Image,
        };
        let new = match replace(&unescape_css(&written), use_as) {
            Replacement::Keep => return,
            Replacement::With(new) => new,
            Replacement::Remove => String::new(),
        };
        out.push_str(css.get(done..url.start).unwrap_or(""));
        // Single quotes, because the style sheet may be a `style` attribute in double quotes.
        out.push('\'');
        for next in new.chars() {
            // A backslash with a hexadecimal number and a space is an escape in CSS.
            match next {
                '\'' | '\\' => out.extend(['\\', next]),
                '"' => out.push_str("\\22 "),
                '<' => out.push_str("\\3c "),
                '\n' => out.push_str("\\a "),
                _ => out.push(next),
            }
        }
        out.push('\'');
        done = url.end;
    };
    let mut reader = CssReader::with_whole_urls();
    reader.feed(css.as_bytes(), &mut found);
    reader.finish(&mut found);
    out.push_str(css.get(done..).unwrap_or(""));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_of_a_style_sheet_are_replaced() {
        let new = rewrite_css("@import 'a.css';b{c:url(d.png)/*url(e)*/;f:url( \"g\" )}", |url, use_as| match url {
            "a.css" if use_as == ReferenceUse::Style => Replacement::With("x/it's.css".into()),
            "d.png" | "g" => Replacement::With("y.png".into()),
            _ => Replacement::Keep,
        });
        assert_eq!(new, "@import 'x/it\\'s.css';b{c:url('y.png')/*url(e)*/;f:url( 'y.png' )}");
    }
}

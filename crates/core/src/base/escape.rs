//! Escaping of texts from the web for terminals, for files that may be printed on one, and for markup languages.
//!
//! Invariant: the output of [`visible`] and [`write_json`] has no character that moves a cursor, changes a colour,
//! rings a bell, breaks the line, changes the writing direction or is invisible. The escape shows that such a character
//! was there. Exception: the variation selectors U+FE00 to U+FE0F, which emoji use, are not escaped.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Escapes every character that could act on a terminal, as `\x1b` or `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe_char) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if is_unsafe_char(c) && u32::from(c) < 0x100 => {
                let _ = write!(shown, "\\x{:02x}", u32::from(c));
            }
            c if is_unsafe_char(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Like [`visible`], but keeps line breaks.
pub fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// Bytes as text: valid UTF-8 as in [`visible`], other bytes as `\xNN`.
pub fn visible_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&visible(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// Whether a character must be escaped: control characters (C0, DEL, C1), line and paragraph separators, and characters
/// that are invisible (except the variation selectors U+FE00 to U+FE0F) or change the writing direction. With such
/// characters, a URL could look like another one.
pub fn is_unsafe_char(c: char) -> bool {
    // The property Default_Ignorable_Code_Point of Unicode, without the variation selectors U+FE00 to U+FE0F, which
    // emoji use. In addition, the separators U+2028 and U+2029, and the annotation characters U+FFF9 to U+FFFB.
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Appends a value as JSON on one line. Unsafe characters are escaped, for example as `\u202e`. For parsers this is the
/// same text, and it is harmless when printed.
pub fn write_json(out: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Harmless(CompactFormatter)))
}

/// A value as a line of JSON, escaped as in [`write_json`].
pub fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    // Writing to memory cannot fail. For a value that cannot be JSON, the line is incomplete.
    let _ = write_json(&mut line, value);
    line.push(b'\n');
    line
}

/// Like [`write_json`], but indented over several lines, for people.
pub fn pretty_json(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    // Writing to memory cannot fail. For a value that cannot be JSON, the result is incomplete.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, Harmless(PrettyFormatter::new())));
    String::from_utf8(out).unwrap_or_default()
}

/// Writes text for XML or HTML, in or out of attributes, so that it cannot become markup. `write_other` writes the
/// characters outside of printable ASCII, none of which can become markup.
pub fn write_markup_text<W: Write>(
    out: &mut W,
    text: &str,
    mut write_other: impl FnMut(&mut W, char) -> fmt::Result,
) -> fmt::Result {
    for c in text.chars() {
        match c {
            '&' => out.write_str("&amp;")?,
            '<' => out.write_str("&lt;")?,
            '>' => out.write_str("&gt;")?,
            '"' => out.write_str("&quot;")?,
            '\'' => out.write_str("&#39;")?,
            ' '..='~' => out.write_char(c)?,
            c => write_other(out, c)?,
        }
    }
    Ok(())
}

/// Text escaped so that Markdown shows it literally: no markup, no table borders, no HTML, no automatic links. Unsafe
/// characters are escaped as in [`visible`].
pub fn markdown_text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    for c in visible(text).chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '~' => {
                shown.push('\\');
                shown.push(c);
            }
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            // Prevents user mentions and mail links.
            '@' => shown.push_str("&#64;"),
            c => shown.push(c),
        }
    }
    // Prevents links to bare URLs.
    shown.replace("://", ":&#47;/")
}

/// A JSON formatter that differs from the wrapped one only in strings.
struct Harmless<F>(F);

impl<F: Formatter> Formatter for Harmless<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // serde_json has escaped C0 controls, and most texts are ASCII. This check has no branch per byte, which makes
        // it several times faster than a search that stops at the first byte that is not ASCII.
        if !fragment.bytes().fold(false, |found, byte| found | (byte >= 0x7f)) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_unsafe_char(*c)) {
            let (before, after) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_unsafe_characters_is_borrowed() {
        for text in ["", "plain", "bücher 日本語 עברית", "a\\b"] {
            assert!(matches!(visible(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn unsafe_characters_are_escaped() {
        for (text, shown) in [
            ("a\u{1b}[31mb", "a\\x1b[31mb"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{7}\u{7f}\u{9b}0m", "\\x07\\x7f\\x9b0m"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
            ("\u{2066}x\u{2069}\u{feff}\u{200b}", "\\u{2066}x\\u{2069}\\u{feff}\\u{200b}"),
            ("line\u{2028}two", "line\\u{2028}two"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn every_control_character_is_escaped() {
        for code in (0..0x20).chain(0x7f..0xa0) {
            let c = char::from_u32(code).unwrap();
            assert!(!visible(&c.to_string()).contains(c), "{code:x}");
        }
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let text = "a\u{1b}\u{7f}b\u{9b}c\u{202e}日本\u{feff}\u{e0041}\"\\";
        let value = serde_json::json!({ "title": text, text: [text, 1, null], "plain": "é" });
        let mut line = b"before ".to_vec();
        write_json(&mut line, &value).unwrap();
        let line = String::from_utf8(line).unwrap();
        let line = line.strip_prefix("before ").unwrap();
        assert!(!line.chars().any(is_unsafe_char), "{line}");
        assert!(line.contains(r#""a\u001b\u007fb\u009bc\u202e日本\ufeff\udb40\udc41\"\\""#), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(line).unwrap(), value);
        let pretty = pretty_json(&value);
        assert!(
            !pretty.lines().any(|line| line.chars().any(is_unsafe_char)) && pretty.contains("\n  \"plain\": \"é\""),
            "{pretty}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&pretty).unwrap(), value);
    }

    #[test]
    fn text_cannot_become_markup() {
        let mut shown = String::new();
        let replace = |out: &mut String, _: char| out.write_char('?');
        write_markup_text(&mut shown, "<a href=\"x\" id='y'>é & \u{1b}", replace).unwrap();
        assert_eq!(shown, "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;? &amp; ?");
    }

    #[test]
    fn text_cannot_become_markdown() {
        for (text, shown) in [
            ("<b>|[x](y)", "&lt;b&gt;\\|\\[x\\](y)"),
            ("https://h/a_b?c&d", "https:&#47;/h/a\\_b?c&amp;d"),
            ("~~a~~ @user #1 !\u{1b}", "\\~\\~a\\~\\~ &#64;user \\#1 \\!\\\\x1b"),
        ] {
            assert_eq!(markdown_text(text), shown);
        }
    }

    #[test]
    fn invalid_utf_8_is_written_as_hexadecimal() {
        assert_eq!(visible_bytes(b"caf\xe9 \xc3\xa9\x1b"), "caf\\xe9 é\\x1b");
    }
}

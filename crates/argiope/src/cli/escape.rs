//! Nothing from the web reaches a terminal raw.
//!
//! Invariant: what [`visible`] returns has no character that moves a cursor, changes a colour, rings a bell, breaks the
//! line or turns the direction of writing. A reader sees that such a character was there.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with every character that could act on a terminal written as `\x1b` or `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if acts(c) && u32::from(c) < 0x100 => {
                let _ = write!(shown, "\\x{:02x}", u32::from(c));
            }
            c if acts(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The same for a text that has lines on purpose.
pub fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// Bytes as text: UTF-8 where they are, `\xNN` where they are not.
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

/// Control characters (C0, DEL, C1), line and paragraph separators, and what is invisible or changes the direction of
/// what follows: a URL must not look like another one.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_untouched_and_not_copied() {
        for text in ["", "plain", "bücher 日本語 עברית", "a\\b"] {
            assert!(matches!(visible(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn what_acts_is_shown() {
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
    fn every_control_character_is_caught() {
        for code in (0..0x20).chain(0x7f..0xa0) {
            let c = char::from_u32(code).unwrap();
            assert!(!visible(&c.to_string()).contains(c), "{code:x}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_written_out() {
        assert_eq!(visible_bytes(b"caf\xe9 \xc3\xa9\x1b"), "caf\\xe9 é\\x1b");
    }
}

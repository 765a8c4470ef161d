//! Character references: `&amp;`, `&#x41;`, `&eacute`.
//!
//! The table is a sorted text file of 30 KB, with one name and its code points per line. It is searched by bisection, so
//! it needs no setup.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memrchr};

/// All names of the HTML standard, sorted by bytes. Legacy names, whose semicolon is optional, occur with and
/// without it.
static TABLE: &str = include_str!("entities.txt");

/// Length of the longest name, with its semicolon.
const MAX_NAME: usize = 32;
/// Length of the longest name whose semicolon is optional.
const MAX_BARE_NAME: usize = 6;

/// Where a text occurs. In attributes, `&copy` in `?a=1&copy=2` is not a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextContext {
    Attribute,
    Text,
}

/// Resolves the character references of a text, and replaces NUL by U+FFFD, as the standard requires.
pub fn resolve(text: &str, context: TextContext) -> Cow<'_, str> {
    if memchr2(b'&', 0, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = memchr2(b'&', 0, rest.as_bytes()) {
        let (before, from) = rest.split_at(next);
        out.push_str(before);
        let length = if from.starts_with('\0') {
            out.push('\u{FFFD}');
            1
        } else {
            match resolve_reference(from, context, &mut out) {
                0 => {
                    out.push('&');
                    1
                }
                length => length,
            }
        };
        rest = from.get(length..).unwrap_or("");
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Resolves the character references of an attribute whose charset is not known yet. All other bytes stay as received.
/// `push` writes a resolved character, or an ampersand that does not begin a reference.
pub fn resolve_in_bytes(value: &[u8], push: impl Fn(&mut Vec<u8>, char)) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'&', value) else { return Cow::Borrowed(value) };
    let mut out = Vec::with_capacity(value.len());
    let (before, mut rest) = value.split_at(first);
    out.extend_from_slice(before);
    let mut resolved = String::new();
    // Each piece begins with an ampersand. A reference has ASCII characters only.
    while let Some((_, after)) = rest.split_first() {
        let (piece, next) = rest.split_at(memchr(b'&', after).map_or(rest.len(), |next| next + 1));
        let ascii = piece.iter().take_while(|byte| byte.is_ascii()).count();
        let ascii = piece.get(..ascii).and_then(|ascii| std::str::from_utf8(ascii).ok()).unwrap_or_default();
        resolved.clear();
        let mut length = resolve_reference(ascii, TextContext::Attribute, &mut resolved);
        if length == 0 {
            resolved.push('&');
            length = 1;
        }
        resolved.chars().for_each(|char| push(&mut out, char));
        out.extend_from_slice(piece.get(length..).unwrap_or_default());
        rest = next;
    }
    Cow::Owned(out)
}

/// Appends a character to text whose references are resolved later: as a reference if it is an ampersand or not ASCII.
/// So the result does not depend on the charset of the text.
pub fn push_as_reference(out: &mut Vec<u8>, char: char) {
    match u8::try_from(char) {
        Ok(byte) if byte.is_ascii() && byte != b'&' => out.push(byte),
        _ => out.extend_from_slice(format!("&#x{:x};", u32::from(char)).as_bytes()),
    }
}

/// Resolves the reference at the start of `text` and appends its characters to `out`. Returns its length, or 0 if `text`
/// does not start with a reference.
fn resolve_reference(text: &str, context: TextContext, out: &mut String) -> usize {
    if text.as_bytes().get(1) == Some(&b'#') { resolve_numeric(text, out) } else { resolve_named(text, context, out) }
}

fn resolve_named(text: &str, context: TextContext, out: &mut String) -> usize {
    let bytes = text.as_bytes();
    let name_len = bytes.iter().skip(1).take(MAX_NAME).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if bytes.get(1 + name_len) == Some(&b';')
        && let Some(points) = text.get(1..name_len + 2).and_then(find)
    {
        push_points(points, out);
        return name_len + 2;
    }
    // Without a semicolon, the longest legacy name counts. The shortest, such as `lt`, have two letters.
    for length in (2..=name_len.min(MAX_BARE_NAME)).rev() {
        if let Some(points) = text.get(1..1 + length).and_then(find) {
            let next = bytes.get(1 + length);
            let is_parameter = next.is_some_and(|&byte| byte == b'=' || byte.is_ascii_alphanumeric());
            if context == TextContext::Attribute && is_parameter {
                return 0;
            }
            push_points(points, out);
            return 1 + length;
        }
    }
    0
}

/// Appends code points that are written in hexadecimal, with spaces between them.
fn push_points(points: &str, out: &mut String) {
    out.extend(points.split(' ').filter_map(|point| char::from_u32(u32::from_str_radix(point, 16).ok()?)));
}

/// The code points of a name, as in the table.
fn find(name: &str) -> Option<&'static str> {
    // The most frequent name.
    if name == "amp;" {
        return Some("26");
    }
    let (mut low, mut high) = (0, TABLE.len());
    // Invariant: `low` and `high` are at line starts, and the line of the name, if any, is between them.
    while low < high {
        let middle = low + (high - low) / 2;
        let start = memrchr(b'\n', TABLE.as_bytes().get(low..middle)?).map_or(low, |newline| low + newline + 1);
        let end = memchr(b'\n', TABLE.as_bytes().get(start..high)?).map_or(high, |newline| start + newline);
        let (entry, points) = TABLE.get(start..end)?.split_once(' ')?;
        match name.as_bytes().cmp(entry.as_bytes()) {
            std::cmp::Ordering::Equal => return Some(points),
            std::cmp::Ordering::Less => high = start,
            std::cmp::Ordering::Greater => low = end + 1,
        }
    }
    None
}

fn resolve_numeric(text: &str, out: &mut String) -> usize {
    let bytes = text.as_bytes();
    let (start, radix) = if matches!(bytes.get(2), Some(b'x' | b'X')) { (3, 16) } else { (2, 10) };
    let mut value = 0u32;
    let mut end = start;
    while let Some(digit) = bytes.get(end).and_then(|&byte| char::from(byte).to_digit(radix)) {
        value = value.saturating_mul(radix).saturating_add(digit);
        end += 1;
    }
    if end == start {
        return 0;
    }
    out.push(character(value));
    if bytes.get(end) == Some(&b';') { end + 1 } else { end }
}

/// The character of a numeric reference: C1 controls are read as windows-1252, invalid numbers become U+FFFD.
fn character(value: u32) -> char {
    const C1: [u16; 32] = [
        0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,
        0x017D, 0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A,
        0x0153, 0x9D, 0x017E, 0x0178,
    ];
    let value = match value {
        0 => 0xFFFD,
        0x80..=0x9F => C1.get(value as usize - 0x80).map_or(value, |&point| u32::from(point)),
        _ => value,
    };
    char::from_u32(value).unwrap_or('\u{FFFD}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_table_is_found() {
        assert_eq!(TABLE.lines().count(), 2231);
        assert!(TABLE.lines().is_sorted());
        for line in TABLE.lines() {
            let (name, points) = line.split_once(' ').expect("a line is a name and its code points");
            assert_eq!(find(name), Some(points), "{name}");
            assert!(name.len() <= MAX_NAME && (name.ends_with(';') || name.len() <= MAX_BARE_NAME), "{name}");
        }
        assert_eq!(find("nosuch;"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn references_are_resolved_by_their_context() {
        let cases = [
            ("/a?x=1&amp;y=2&copy=3", "/a?x=1&y=2&copy=3", "/a?x=1&y=2©=3"),
            ("&notit;", "&notit;", "¬it;"),
            ("&notin;", "∉", "∉"),
            ("&copy", "©", "©"),
            ("&copy;&COPY;&Copy;", "©©&Copy;", "©©&Copy;"),
            ("&", "&", "&"),
            ("&&amp&", "&&&", "&&&"),
            ("&#65;&#x42;&#X43", "ABC", "ABC"),
            (
                "&#128;&#0;&#xD800;&#x110000;&#99999999999999;",
                "€\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}",
                "€\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}",
            ),
            ("&#;&#x;&#", "&#;&#x;&#", "&#;&#x;&#"),
            ("a\0b", "a\u{FFFD}b", "a\u{FFFD}b"),
            ("&NotEqualTilde;", "≂\u{338}", "≂\u{338}"),
            ("&CounterClockwiseContourIntegral;", "∳", "∳"),
            ("&é", "&é", "&é"),
        ];
        for (text, attribute, plain) in cases {
            assert_eq!(resolve(text, TextContext::Attribute), attribute, "{text}");
            assert_eq!(resolve(text, TextContext::Text), plain, "{text}");
        }
    }
}

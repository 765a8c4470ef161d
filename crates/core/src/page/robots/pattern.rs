//! Patterns of rules, and matching of targets octet by octet.
//!
//! Invariant: patterns and targets are in the same normal form, in which every octet has one spelling. `*` in a pattern
//! is always a wildcard. In targets, it is encoded as `%2A`.

use std::borrow::Cow;

use memchr::memmem;

/// A rule's value, ready for matching.
pub struct RobotsPattern<'a> {
    pub normal: Cow<'a, [u8]>,
    /// Whether the value ends in `$`: the target must end where the pattern ends.
    pub anchored: bool,
    /// The length of the normal form in octets, with `$` and with all wildcards, before adjacent ones are merged.
    pub octets: u32,
}

impl<'a> RobotsPattern<'a> {
    pub fn new(value: &'a [u8]) -> Self {
        let (body, anchored) = match value {
            [body @ .., b'$'] => (body, true),
            _ => (value, false),
        };
        let mut normal = normalize(body, Role::Pattern);
        let octets = u32::try_from(normal.len() + usize::from(anchored)).unwrap_or(u32::MAX);
        if memmem::find(&normal, b"**").is_some() {
            // Adjacent wildcards are equivalent to one.
            normal.to_mut().dedup_by(|b, a| *a == b'*' && *b == b'*');
        }
        Self { normal, anchored, octets }
    }
}

/// What a text is: `*` is a wildcard in a pattern and a plain character in a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Pattern,
    Target,
}

/// A request target in the form that patterns expect.
pub fn normal_target(target: &str) -> Cow<'_, [u8]> {
    if target.starts_with('/') {
        normalize(target.as_bytes(), Role::Target)
    } else {
        Cow::Owned(normalize(format!("/{target}").as_bytes(), Role::Target).into_owned())
    }
}

/// The normal form of RFC 9309, 2.2.2. Octets outside ASCII are percent-encoded. Percent-encoded unreserved characters
/// are decoded. A literal `$`, and `*` in a target, are encoded. A `%` without two hexadecimal digits after it is kept.
fn normalize(text: &[u8], role: Role) -> Cow<'_, [u8]> {
    let stays = |byte: u8| match byte {
        b'%' | b'$' => false,
        b'*' => role == Role::Pattern,
        _ => is_uri_character(byte),
    };
    let Some(first) = text.iter().position(|b| !stays(*b)) else { return Cow::Borrowed(text) };
    let (head, mut rest) = text.split_at(first);
    let mut out = Vec::with_capacity(text.len() + 16);
    out.extend_from_slice(head);
    while let [byte, after @ ..] = rest {
        rest = after;
        match (*byte, after) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after;
                let octet = hex_value(*high) << 4 | hex_value(*low);
                if is_unreserved(octet) { out.push(octet) } else { percent_encode(octet, &mut out) }
            }
            (b'%', _) => out.push(b'%'),
            (byte, _) if stays(byte) => out.push(byte),
            (byte, _) => percent_encode(byte, &mut out),
        }
    }
    Cow::Owned(out)
}

/// Whether the target begins with the pattern, or matches it to the end if it is anchored.
///
/// Each piece between wildcards is matched at its first possible position, except that the last piece of an anchored
/// pattern is matched at the end. No backtracking is needed: if other positions lead to a match, these do too.
pub fn matches(pattern: &[u8], anchored: bool, target: &[u8]) -> bool {
    let mut pieces = pattern.split(|b| *b == b'*').peekable();
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = target.strip_prefix(first) else { return false };
    if pieces.peek().is_none() {
        return !anchored || rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if anchored && pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        if piece.is_empty() {
            continue;
        }
        let Some(at) = memmem::find(rest, piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    true
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte is an unreserved or reserved character of RFC 3986.
fn is_uri_character(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b':' | b'/'
                | b'?'
                | b'#'
                | b'['
                | b']'
                | b'@'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

fn percent_encode(octet: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[b'%', digit(octet >> 4), digit(octet & 15)]);
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Matching as the RFC defines it, without regard to speed.
    fn reference(pattern: &[u8], anchored: bool, target: &[u8]) -> bool {
        match pattern {
            [] => !anchored || target.is_empty(),
            [b'*', rest @ ..] => (0..=target.len()).any(|skip| reference(rest, anchored, &target[skip..])),
            [byte, rest @ ..] => target.first() == Some(byte) && reference(rest, anchored, &target[1..]),
        }
    }

    proptest! {
        #[test]
        fn the_matcher_agrees_with_the_reference(
            pattern in "/[ab*/]{0,8}",
            anchored: bool,
            target in "/[ab/]{0,12}",
        ) {
            let (pattern, target) = (pattern.as_bytes(), target.as_bytes());
            prop_assert_eq!(matches(pattern, anchored, target), reference(pattern, anchored, target));
        }

        #[test]
        fn normal_forms_are_stable(text: Vec<u8>, is_pattern: bool) {
            let role = if is_pattern { Role::Pattern } else { Role::Target };
            let once = normalize(&text, role).into_owned();
            prop_assert_eq!(normalize(&once, role).into_owned(), once);
        }
    }

    #[test]
    fn every_octet_has_one_normal_form() {
        let target = |text: &str| String::from_utf8(normal_target(text).into_owned()).unwrap();
        assert_eq!(target("/a/b?c=d"), "/a/b?c=d");
        assert_eq!(target("/b%C3%bc"), "/b%C3%BC");
        assert_eq!(target("/bü"), "/b%C3%BC");
        assert_eq!(target("/%62%61%7A%7e"), "/baz~");
        assert_eq!(target("/%2f"), "/%2F");
        assert_eq!(target("/a*b$"), "/a%2Ab%24");
        assert_eq!(target("/%3M%"), "/%3M%");
        assert_eq!(target(""), "/");
        assert_eq!(target("?q"), "/?q");
    }
}

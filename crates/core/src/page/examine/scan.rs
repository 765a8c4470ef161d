//! Finds the ends of tags, comments and document types.
//!
//! Each of the three has a small state machine that continues across chunks. Nearly all tags are complete within one
//! chunk. For them, [`whole_tag`] is faster: it searches for delimiters instead of reading every byte.
//!
//! Invariant: [`whole_tag`] and [`TagScan`] find the same end.

use memchr::memchr;

use super::characters::is_space;
use crate::base::swar;

/// Flags in [`FLAGS`]: which constructs a byte ends, and whether it is white space.
const ENDS_NAME: u8 = 1;
const ENDS_ATTRIBUTE_NAME: u8 = 2;
const ENDS_UNQUOTED: u8 = 4;
const SPACE: u8 = 8;

/// The flags of each byte.
const FLAGS: [u8; 256] = {
    let mut flags = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        flags[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0C => ENDS_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED | SPACE,
            b'>' => ENDS_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED,
            b'/' => ENDS_NAME | ENDS_ATTRIBUTE_NAME,
            b'=' => ENDS_ATTRIBUTE_NAME,
            _ => 0,
        };
        byte += 1;
    }
    flags
};

/// The first position at or after `from` whose byte has one of the flags.
fn find_flags(bytes: &[u8], from: usize, flags: u8) -> Option<usize> {
    let rest = bytes.get(from..)?;
    Some(from + rest.iter().position(|&byte| FLAGS[usize::from(byte)] & flags != 0)?)
}

/// The first position at or after `from` whose byte is not white space.
fn skip_space(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    Some(from + rest.iter().position(|&byte| FLAGS[usize::from(byte)] & SPACE == 0)?)
}

/// Like [`find_flags`], but faster if the position is within the first eight bytes, as it is for nearly all names. Only
/// white space, `/`, `=` and `>` have flags.
#[inline]
fn find_flags_near(bytes: &[u8], from: usize, flags: u8) -> Option<usize> {
    let near = swar::first_eight(bytes.get(from..)?)
        .and_then(|word| swar::first_mark(swar::below(word, b'0') | swar::equal(word, b'=') | swar::equal(word, b'>')));
    match near.map(|near| from + near) {
        // Other bytes below `0`, such as a hyphen, have no flags.
        Some(near) if FLAGS[usize::from(*bytes.get(near)?)] & flags != 0 => Some(near),
        _ => find_flags(bytes, from, flags),
    }
}

/// The position of the first byte that equals `byte`. Optimized for a match within the first 24 bytes.
#[inline]
pub fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks();
    for (word, at) in words.iter().zip([0, 8, 16]) {
        if let Some(place) = swar::first_mark(swar::equal(u64::from_le_bytes(*word), byte)) {
            return Some(at + place);
        }
    }
    memchr(byte, bytes)
}

/// The end of the tag name that `bytes` start with; `None` if the name is incomplete.
#[inline]
pub fn name_end(bytes: &[u8]) -> Option<usize> {
    find_flags_near(bytes, 0, ENDS_NAME)
}

/// Finds the end of a tag: the position of its `>`, and whether it is self-closing. `bytes` starts after the tag's
/// name. `None` if the tag is incomplete.
#[inline]
pub fn whole_tag(bytes: &[u8]) -> Option<(usize, bool)> {
    if bytes.first() == Some(&b'>') {
        return Some((0, false));
    }
    let mut at = 0;
    loop {
        // Before a name: white space and slashes, then the end or a name, which may start with `=`.
        let mut is_after_slash = false;
        loop {
            match bytes.get(at)? {
                b'>' => return Some((at, is_after_slash)),
                b'/' => is_after_slash = true,
                &byte if is_space(byte) => is_after_slash = false,
                _ => break,
            }
            at += 1;
        }
        at = find_flags_near(bytes, at + 1, ENDS_ATTRIBUTE_NAME)?;
        let after = if bytes.get(at) == Some(&b'=') { at } else { skip_space(bytes, at)? };
        if bytes.get(after) != Some(&b'=') {
            at = after;
            continue;
        }
        at = skip_space(bytes, after + 1)?;
        match bytes.get(at)? {
            quote @ (b'"' | b'\'') => at += 2 + find(*quote, bytes.get(at + 1..)?)?,
            b'>' => return Some((at, false)),
            _ => at = find_flags(bytes, at, ENDS_UNQUOTED)?,
        }
    }
}

/// Finds the end of a tag across chunks. It tracks quotes, because `>` within quotes does not end a tag.
#[derive(Clone, Copy, Debug)]
pub struct TagScan {
    state: TagState,
    /// Whether the tag is self-closing. Known when its end is found.
    pub self_closing: bool,
}

#[derive(Clone, Copy, Debug)]
enum TagState {
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
    Slash,
}

impl TagScan {
    /// The state at the first byte of a tag's name.
    pub fn at_name() -> Self {
        Self { state: TagState::TagName, self_closing: false }
    }

    /// Continues with the next bytes of the tag. Returns the position of its `>`; `None` if it is not among them.
    pub fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut index = 0;
        while let Some(&byte) = bytes.get(index) {
            let next = match self.state {
                TagState::Quoted(quote) => {
                    index += memchr(quote, bytes.get(index..)?)?;
                    // After a quoted value a name may start without white space.
                    TagState::BeforeName
                }
                TagState::BeforeValue => match byte {
                    b'"' | b'\'' => TagState::Quoted(byte),
                    b'>' => return Some(index),
                    _ if is_space(byte) => TagState::BeforeValue,
                    _ => TagState::Unquoted,
                },
                TagState::Unquoted => match byte {
                    b'>' => return Some(index),
                    _ if is_space(byte) => TagState::BeforeName,
                    _ => TagState::Unquoted,
                },
                state => match byte {
                    b'>' => {
                        self.self_closing = matches!(state, TagState::Slash);
                        return Some(index);
                    }
                    b'/' => TagState::Slash,
                    b'=' => match state {
                        TagState::Name | TagState::AfterName => TagState::BeforeValue,
                        TagState::TagName => TagState::TagName,
                        _ => TagState::Name,
                    },
                    _ if is_space(byte) => match state {
                        TagState::Name | TagState::AfterName => TagState::AfterName,
                        _ => TagState::BeforeName,
                    },
                    _ => match state {
                        TagState::TagName => TagState::TagName,
                        _ => TagState::Name,
                    },
                },
            };
            self.state = next;
            index += 1;
        }
        None
    }
}

/// The state within a comment.
#[derive(Clone, Copy, Debug)]
pub enum CommentScan {
    /// Right after `<!--`. Here `>` and `->` end the comment.
    Start,
    StartDash,
    Body,
    Dash,
    /// After two dashes or more.
    Dashes,
    /// After `--!`.
    Bang,
}

impl CommentScan {
    /// Continues with the next bytes of the comment. Returns the position of the `>` that ends it; `None` if it is not
    /// among them.
    pub fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut index = 0;
        while let Some(&byte) = bytes.get(index) {
            *self = match (*self, byte) {
                (Self::Body, _) => {
                    index += memchr(b'-', bytes.get(index..)?)?;
                    Self::Dash
                }
                (Self::Start | Self::StartDash | Self::Dashes | Self::Bang, b'>') => return Some(index),
                (Self::Start, b'-') => Self::StartDash,
                (Self::StartDash | Self::Dash | Self::Dashes, b'-') => Self::Dashes,
                (Self::Bang, b'-') => Self::Dash,
                (Self::Dashes, b'!') => Self::Bang,
                _ => Self::Body,
            };
            index += 1;
        }
        None
    }
}

/// The state within an XML document type declaration. Its internal subset is skipped.
#[derive(Clone, Copy, Debug)]
pub enum DoctypeScan {
    Head,
    Quoted(u8),
    Subset,
    /// After a `]` that may end the internal subset.
    SubsetEnd,
}

impl DoctypeScan {
    /// Continues with the next bytes of the declaration. Returns the position of the `>` that ends it; `None` if it is
    /// not among them.
    pub fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|&byte| self.is_ended_by(byte))
    }

    /// Processes one byte. Returns whether it ends the declaration.
    fn is_ended_by(&mut self, byte: u8) -> bool {
        *self = match (*self, byte) {
            (Self::Head | Self::SubsetEnd, b'>') => return true,
            (Self::Head, b'"' | b'\'') => Self::Quoted(byte),
            (Self::Head, b'[') => Self::Subset,
            (Self::Quoted(quote), _) if quote == byte => Self::Head,
            (Self::Subset | Self::SubsetEnd, b']') => Self::SubsetEnd,
            (Self::SubsetEnd, _) if !is_space(byte) => Self::Subset,
            (state, _) => state,
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn whole_tag_and_tag_scan_agree(rest in "[a=/> \t\"'é]{0,14}", cut in 0usize..8) {
            let bytes = rest.as_bytes();
            let mut scan = TagScan::at_name();
            // `whole_tag` starts after the name.
            let expected = match name_end(bytes) {
                Some(name) => bytes.get(name..).and_then(whole_tag).map(|(end, closing)| (name + end, closing)),
                None => None,
            };
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let found = scan.find_end(first).or_else(|| Some(first.len() + scan.find_end(second)?));
            prop_assert_eq!(found.map(|end| (end, scan.self_closing)), expected);
        }
    }

    #[test]
    fn comments_end_as_the_standard_says() {
        for (comment, end) in [
            (">", Some(0)),
            ("->", Some(1)),
            ("-->", Some(2)),
            ("--->", Some(3)),
            ("x-->", Some(3)),
            ("x--!>", Some(4)),
            ("x--!-->", Some(6)),
            ("x--!->", None),
            ("!>", None),
            ("-!>", None),
            ("--!>", Some(3)),
            ("x->", None),
            ("<!-->", Some(4)),
            ("<!->", None),
            ("x", None),
        ] {
            for cut in 0..=comment.len() {
                let (first, second) = comment.as_bytes().split_at(cut);
                let mut scan = CommentScan::Start;
                let found = scan.find_end(first).or_else(|| Some(cut + scan.find_end(second)?));
                assert_eq!(found, end, "{comment} cut at {cut}");
            }
        }
    }

    #[test]
    fn document_types_end_after_their_subset() {
        for (doctype, end) in [
            (" a>", Some(2)),
            (" a \"x>y\">", Some(8)),
            (" a [<!ENTITY b 'c'> ] >", Some(22)),
            (" a [ ]x> ]>", Some(10)),
            (" a [", None),
        ] {
            let mut scan = DoctypeScan::Head;
            assert_eq!(scan.find_end(doctype.as_bytes()), end, "{doctype}");
        }
    }
}

//! Classes of characters in HTML markup.

/// Whether `bytes` start with `word`, ignoring case; `None` if there are too few bytes to decide.
pub(super) fn starts_with(bytes: &[u8], word: &[u8]) -> Option<bool> {
    if !bytes.iter().zip(word).all(|(byte, expected)| byte.eq_ignore_ascii_case(expected)) {
        Some(false)
    } else if bytes.len() >= word.len() {
        Some(true)
    } else {
        None
    }
}

/// White space by the HTML standard.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C)
}

/// Whether a byte ends the name of a tag.
pub(super) fn ends_name(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'/' | b'>')
}

//! SWAR (SIMD within a register): operations on eight bytes at a time, in one integer.
//!
//! Tags, names and the text between them are short. In a loop over their bytes, the branch misprediction at loop exit
//! costs more than the loop body. These functions find the end without a loop.
//!
//! The first byte is always the lowest one of the integer. A function that *marks* bytes returns an integer in which
//! the highest bit of each marked byte is set; all other bits are zero.

/// The lowest bit of every byte.
const ONES: u64 = u64::from_ne_bytes([1; 8]);
/// The highest bit of every byte.
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The first eight bytes, if there are that many.
#[inline]
pub fn first_eight(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// Up to eight bytes, padded with zeros; further bytes are ignored.
#[inline]
pub fn up_to_eight(bytes: &[u8]) -> u64 {
    if let Some(word) = first_eight(bytes) {
        return word;
    }
    // The two loads overlap; the shared bytes are the same in both.
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        return u64::from(head) | u64::from(tail) << (8 * (bytes.len() - 4));
    }
    match *bytes {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, ..] => u64::from(u32::from_le_bytes([a, b, c, 0])),
    }
}

/// Marks the bytes equal to `byte`. Only the first mark is reliable: the borrow of the subtraction may add later ones.
#[inline]
pub fn equal(word: u64, byte: u8) -> u64 {
    // Bytes that are equal become zero.
    let difference = word ^ (ONES * u64::from(byte));
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

/// Marks the bytes below `byte`, which must be ASCII. Only the first mark is reliable, as for [`equal`].
#[inline]
pub fn below(word: u64, byte: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(byte)) & !word & HIGHS
}

/// Marks all ASCII digits.
#[inline]
pub fn digits(word: u64) -> u64 {
    let value = word ^ (ONES * u64::from(b'0'));
    let ten_or_more = (value & !HIGHS) + ONES * (0x80 - 10);
    !(ten_or_more | value) & HIGHS
}

/// Marks all bytes above the space: neither white space nor a control character.
#[inline]
pub fn above_space(word: u64) -> u64 {
    (((word & !HIGHS) + ONES * (0x7F - 0x20)) | word) & HIGHS
}

/// Whether at least one byte is not ASCII.
#[inline]
pub fn has_high(word: u64) -> bool {
    word & HIGHS != 0
}

/// Marks all bytes that begin a kana or a Chinese character in UTF-8, U+3000 to U+9FFF.
#[inline]
pub fn ideograph_leads(word: u64) -> u64 {
    // The bytes E3 to E9 have the highest bit set, and their lower bits are 63 to 69.
    let low = word & !HIGHS;
    let from_e3 = low + ONES * (0x80 - 0x63);
    let after_e9 = low + ONES * (0x80 - 0x6A);
    (from_e3 ^ after_e9) & word & HIGHS
}

/// The number of marks. It is correct only if all marks are reliable.
#[inline]
pub fn count_marks(marks: u64) -> u64 {
    (marks >> 7).wrapping_mul(ONES) >> 56
}

/// The index of the first mark.
#[inline]
pub fn first_mark(marks: u64) -> Option<usize> {
    (marks != 0).then(|| (marks.trailing_zeros() / 8) as usize)
}

/// Converts ASCII letters to lower case.
#[inline]
pub const fn lower(word: u64) -> u64 {
    let low = word & !HIGHS;
    let from_a = low + ONES * (0x80 - b'A' as u64);
    let after_z = low + ONES * (0x7F - b'Z' as u64);
    let capital = (from_a ^ after_z) & !word & HIGHS;
    // The mark 0x80 becomes 0x20, the bit that distinguishes lower case.
    word | capital >> 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_equal_those_of_loops_over_bytes(bytes in prop::collection::vec(any::<u8>(), 0..20), byte: u8, limit in 0_u8..128) {
            let mut eight = [0; 8];
            eight.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
            let word = u64::from_le_bytes(eight);
            prop_assert_eq!(up_to_eight(&bytes), word);
            prop_assert_eq!(first_eight(&bytes), (bytes.len() >= 8).then_some(word));
            prop_assert_eq!(first_mark(equal(word, byte)), eight.iter().position(|&other| other == byte));
            prop_assert_eq!(first_mark(below(word, limit)), eight.iter().position(|&other| other < limit));
            let both = equal(word, byte) | below(word, limit);
            prop_assert_eq!(first_mark(both), eight.iter().position(|&other| other == byte || other < limit));
            let mark_visible = |byte: u8| if byte > b' ' { 0x80 } else { 0 };
            prop_assert_eq!(above_space(word), u64::from_le_bytes(eight.map(mark_visible)));
            prop_assert_eq!(has_high(word), eight.iter().any(|byte| !byte.is_ascii()));
            let lead = |byte: u8| if (0xE3..=0xE9).contains(&byte) { 0x80 } else { 0 };
            prop_assert_eq!(ideograph_leads(word), u64::from_le_bytes(eight.map(lead)));
            prop_assert_eq!(count_marks(above_space(word)), eight.iter().filter(|&&byte| byte > b' ').count() as u64);
            let digit = |byte: &u8| if byte.is_ascii_digit() { 0x80 } else { 0 };
            prop_assert_eq!(digits(word), u64::from_le_bytes(eight.map(|byte| digit(&byte))));
            prop_assert_eq!(lower(word), u64::from_le_bytes(eight.map(|byte| byte.to_ascii_lowercase())));
        }
    }
}

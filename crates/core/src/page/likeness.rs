//! [`Likeness`]: two fingerprints that detect duplicate and near-duplicate pages, computed while a page is read.
//!
//! Only visible text counts, without tags, URLs, scripts and styles. So a page that is served for every URL, with
//! different links each time, is still recognised.
//!
//! Invariant: the fingerprints do not depend on how the page was split into chunks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::swar;

/// A page with fewer bytes of text is not compared.
const MIN_TEXT: u64 = 64;
/// A piece of text is identified by this many bytes at its start.
const PIECE_PREFIX: usize = 16;
/// In the [`MinHash`], a piece counts as one part per this many bytes, so that paragraphs outweigh menus.
const BYTES_PER_PART: u64 = 64;
/// The largest number of parts of a piece.
const MAX_PARTS: u64 = 64;
/// A page with fewer parts has no [`MinHash`].
const MIN_PARTS: u32 = 16;
/// An odd multiplier for hashing: 2⁶⁴ divided by the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The two fingerprints of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// Equal if two pages have the same text.
    pub text: u64,
    /// Equal with high probability if two pages have nearly the same text: the same pieces except a few, in any order
    /// and with different numbers in them.
    ///
    /// This is a min-hash: pieces are divided into four groups by hash, and the smallest hash of each group is kept. If
    /// two pages share a fraction `s` of their pieces, all four are equal with probability `s⁴`.
    pub sketch: u64,
}

/// A fingerprint of sixteen hexadecimal digits that estimates how much two texts have in common: the fraction of equal
/// digits is about the fraction of common parts. Different texts have one equal digit on average, by chance.
///
/// A part is a piece of text between two tags; a long piece counts as several parts. The parts are divided into sixteen
/// groups by hash, and four bits of the smallest hash of each group are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinHash(pub u64);

impl MinHash {
    /// How many of the sixteen digits are equal.
    pub fn equal_digits(self, other: Self) -> u32 {
        let different = self.0 ^ other.0;
        let any_bit = different | different >> 1 | different >> 2 | different >> 3;
        16 - (any_bit & 0x1111_1111_1111_1111).count_ones()
    }
}

impl fmt::Display for MinHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for MinHash {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

impl Serialize for MinHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MinHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Computes the fingerprints of a page from its text. A piece is the text between two tags.
#[derive(Clone, Debug)]
pub struct LikenessReader {
    /// The hash of the text so far, without the buffered bytes.
    text_hash: u64,
    /// The length of the text so far.
    length: u64,
    /// Up to seven bytes that are not hashed yet, and their number.
    pending: u64,
    pending_bytes: u32,
    /// The first bytes of the current piece, and their number.
    piece: u128,
    piece_bytes: usize,
    /// The smallest hash of each group of pieces, for the sketch.
    smallest_pieces: [u64; 4],
    /// The length of the text before the current piece.
    piece_start: u64,
    /// The smallest hash of each group of parts, for the [`MinHash`], and the number of parts.
    smallest_parts: [u32; 16],
    parts: u32,
    words: WordCount,
    /// The highest bit of a byte if the last byte of text belongs to a word, else 0.
    in_word: u64,
}

/// Words of a text, counted in the same pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordCount {
    /// Runs of bytes without white space.
    pub spaced: u64,
    /// Chinese and Japanese characters, if the text is UTF-8.
    pub ideographs: u64,
}

impl WordCount {
    /// The number of words, as if the text were UTF-8.
    pub fn total(self) -> u64 {
        self.spaced + self.ideographs
    }
}

impl Default for LikenessReader {
    fn default() -> Self {
        Self {
            text_hash: ODD,
            length: 0,
            pending: 0,
            pending_bytes: 0,
            piece: 0,
            piece_bytes: 0,
            smallest_pieces: [u64::MAX; 4],
            piece_start: 0,
            smallest_parts: [u32::MAX; 16],
            parts: 0,
            words: WordCount::default(),
            in_word: 0,
        }
    }
}

impl LikenessReader {
    /// Adds text.
    pub fn text(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if self.piece_bytes == 0 {
            // White space at the start of a piece is layout, not text.
            let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
            if start != Some(0) {
                self.in_word = 0;
            }
            let Some(start) = start else { return };
            bytes = bytes.get(start..).unwrap_or(&[]);
        }
        if self.piece_bytes < PIECE_PREFIX {
            let (first, second) = (swar::up_to_eight(bytes), swar::up_to_eight(bytes.get(8..).unwrap_or(&[])));
            self.piece |= (u128::from(second) << 64 | u128::from(first)) << (8 * self.piece_bytes);
            self.piece_bytes = (self.piece_bytes + bytes.len()).min(PIECE_PREFIX);
        }
        self.hash_and_count(bytes);
    }

    /// Ends the current piece of text at a tag.
    pub fn tag(&mut self) {
        if self.piece_bytes == 0 {
            return;
        }
        let piece = mask_numbers(self.piece);
        let hash = mix(piece as u64 ^ mix((piece >> 64) as u64));
        if let Some(smallest) = self.smallest_pieces.get_mut((hash & 3) as usize) {
            *smallest = (*smallest).min(hash);
        }
        self.add_parts(hash);
        (self.piece, self.piece_bytes) = (0, 0);
    }

    /// Adds the parts of the piece that ends here to the [`MinHash`]. `hash` is that of the piece.
    fn add_parts(&mut self, hash: u64) {
        let length = self.length - self.piece_start;
        self.piece_start = self.length;
        if length <= BYTES_PER_PART {
            return self.add_part(hash);
        }
        let piece_hash = mix(hash ^ length);
        for part in 0..(length / BYTES_PER_PART).min(MAX_PARTS) {
            self.add_part(mix(piece_hash.wrapping_add(part)));
        }
    }

    fn add_part(&mut self, hash: u64) {
        if let Some(smallest) = self.smallest_parts.get_mut((hash & 15) as usize) {
            *smallest = (*smallest).min((hash >> 32) as u32);
        }
        self.parts += 1;
    }

    /// The fingerprint for comparing texts; `None` if the page has too little text.
    pub fn min_hash(&self) -> Option<MinHash> {
        let mut reader = self.clone();
        reader.tag();
        let digits = reader.smallest_parts.iter().fold(0, |digits, smallest| digits << 4 | u64::from(smallest & 15));
        (reader.parts >= MIN_PARTS).then_some(MinHash(digits))
    }

    /// The fingerprints of the page; `None` if it has too little text.
    pub fn finish(mut self) -> Option<Likeness> {
        self.tag();
        self.hash_eight_bytes(self.pending);
        let sketch = self.smallest_pieces.iter().fold(ODD, |sketch, smallest| mix(sketch ^ smallest));
        (self.length >= MIN_TEXT).then(|| Likeness { text: mix(self.text_hash ^ self.length), sketch })
    }

    /// Hashes text and counts its words, eight bytes at a time.
    fn hash_and_count(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let (groups, last) = bytes.as_chunks::<8>();
        for group in groups {
            let group = u64::from_le_bytes(*group);
            self.count_words(group, 8);
            self.push(group, 8);
        }
        if !last.is_empty() {
            let (group, count) = (swar::up_to_eight(last), last.len() as u32);
            self.count_words(group, count);
            self.push(group, count);
        }
    }

    /// Counts the words that begin in up to eight bytes. Missing bytes are zero, which is white space here.
    #[inline]
    fn count_words(&mut self, bytes: u64, count: u32) {
        let non_space = swar::above_space(bytes);
        let begins = non_space & !(non_space << 8 | self.in_word);
        self.words.spaced += swar::count_marks(begins);
        self.in_word = (non_space >> (8 * (count - 1))) & 0x80;
        if swar::has_high(bytes) {
            self.words.ideographs += swar::count_marks(swar::ideograph_leads(bytes));
        }
    }

    /// The counts so far.
    pub fn words(&self) -> WordCount {
        self.words
    }

    /// Restores an earlier count: text read since then is not counted.
    pub fn set_words(&mut self, words: WordCount) {
        (self.words, self.in_word) = (words, 0);
    }

    /// Whether the text so far ends within a word.
    pub fn is_in_word(&self) -> bool {
        self.in_word != 0
    }

    /// Ends the current word: the next byte of text begins another one.
    pub fn end_word(&mut self) {
        self.in_word = 0;
    }

    /// Appends up to eight bytes. Every complete group of eight bytes is hashed.
    fn push(&mut self, bytes: u64, count: u32) {
        let pending_bits = 8 * self.pending_bytes;
        self.pending |= bytes << pending_bits;
        self.pending_bytes += count;
        if self.pending_bytes >= 8 {
            self.hash_eight_bytes(self.pending);
            self.pending = bytes.checked_shr(64 - pending_bits).unwrap_or(0);
            self.pending_bytes -= 8;
        }
    }

    fn hash_eight_bytes(&mut self, bytes: u64) {
        self.text_hash = (self.text_hash.rotate_left(23) ^ bytes).wrapping_mul(ODD);
    }
}

/// The start of a piece with every number replaced by 0.
fn mask_numbers(piece: u128) -> u128 {
    let digits = u128::from(swar::digits((piece >> 64) as u64)) << 64 | u128::from(swar::digits(piece as u64));
    if digits == 0 {
        return piece;
    }
    // `digits` has the highest bit of each byte set that is a digit.
    let digit_bytes = (digits >> 7) * 0xFF;
    let mut masked = (piece & !digit_bytes) | ((digits >> 7) * u128::from(b'0'));
    // Remove the digits that follow a digit, the last one first, so that the positions of the others stay valid.
    let mut surplus = digits & (digits << 8);
    while surplus != 0 {
        let position = surplus.ilog2() & !7;
        let before = (1 << position) - 1;
        masked = (masked & before) | ((masked >> 8) & !before);
        surplus &= before;
    }
    masked
}

/// Mixes the bits so that each input bit affects all output bits.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(ODD);
    let value = (value ^ (value >> 29)).wrapping_mul(ODD);
    value ^ (value >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fingerprints of a page with these pieces of text.
    fn of(pieces: &[&str]) -> Option<Likeness> {
        let mut reader = LikenessReader::default();
        for piece in pieces {
            reader.text(piece.as_bytes());
            reader.tag();
        }
        reader.finish()
    }

    const LONG: &str = "a sentence that is long enough to say something about its page, and then some more";

    #[test]
    fn pages_with_the_same_text_have_equal_fingerprints() {
        let page = of(&[LONG, "one", "two"]).expect("enough text");
        assert_eq!(of(&["\n  ", LONG, " ", "one", "two"]), Some(page), "layout does not count");
        let other = of(&[LONG, "one", "three"]).expect("enough text");
        assert_ne!(other.text, page.text);
        let (first, second) = (of(&[LONG, "page 9 of 10"]).expect("text"), of(&[LONG, "page 10 of 10"]).expect("text"));
        assert_ne!(first.text, second.text);
        assert_eq!(first.sketch, second.sketch, "only numbers differ");
    }

    #[test]
    fn removing_one_piece_rarely_changes_the_sketch() {
        // Each piece starts with another sequence of letters, because only the first bytes of a piece count.
        let start = |n: usize| char::from(b'a' + (n % 26) as u8).to_string().repeat(1 + n / 26);
        let pieces: Vec<String> = (0..200).map(|n| format!("{}{LONG} {n} w{}", start(n), "x".repeat(n % 40))).collect();
        let page: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole = of(&page).expect("text").sketch;
        let alike = (0..200).filter(|&out| {
            let mut page = page.clone();
            page.remove(out);
            of(&page).is_some_and(|likeness| likeness.sketch == whole)
        });
        assert!(alike.count() >= 190, "only the four smallest pieces matter");
    }

    fn min_hash(pieces: &[String]) -> Option<MinHash> {
        let mut reader = LikenessReader::default();
        for piece in pieces {
            reader.text(piece.as_bytes());
            reader.tag();
        }
        reader.min_hash()
    }

    #[test]
    fn equal_digits_estimate_the_common_fraction_of_two_texts() {
        let menu: Vec<String> = (0..40).map(|item| format!("item {}", "m".repeat(item))).collect();
        let text = |seed: u64, paragraphs: u64| -> Vec<String> {
            let paragraph = |n: u64| format!("{:x} {}", mix(seed << 32 | n), LONG.repeat(3 + (n % 5) as usize));
            (0..paragraphs).map(paragraph).collect()
        };
        let page = |seed, change: &dyn Fn(&mut Vec<String>)| {
            let mut text = text(seed, 40);
            change(&mut text);
            min_hash(&[menu.clone(), text].concat()).expect("enough text")
        };
        let compared = |seed, change: &dyn Fn(&mut Vec<String>)| page(seed, &|_| {}).equal_digits(page(seed, change));
        for seed in 0..20 {
            assert_eq!(compared(seed, &|_| {}), 16);
            let one_changed = compared(seed, &|text| text[20].push_str(" (edited)"));
            assert!(one_changed >= 13, "{one_changed} of 16 although one of forty paragraphs differs");
            let another = page(seed, &|_| {}).equal_digits(page(seed + 100, &|_| {}));
            assert!(another < 12, "{another} of 16 although only the menu is the same");
        }
        assert_eq!(min_hash(&text(1, 1)), None, "too short to compare");
        let digits = MinHash(0x0123_4567_89AB_CDEF);
        assert_eq!(serde_json::to_string(&digits).expect("JSON"), "\"0123456789abcdef\"");
        assert_eq!(serde_json::from_str::<MinHash>("\"0123456789abcdef\"").expect("a hash"), digits);
        assert_eq!(digits.equal_digits(MinHash(0x0123_4567_89AB_CDFF)), 15);
    }

    #[test]
    fn a_page_without_text_has_no_likeness() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["next"]), None);
        assert_eq!(of(&["\n", "        ".repeat(20).as_str()]), None);
    }

    /// The naive implementation, byte by byte.
    fn mask_numbers_naively(piece: u128) -> u128 {
        let (mut masked, mut length, mut is_after_digit) = ([0; PIECE_PREFIX], 0, false);
        for byte in piece.to_le_bytes() {
            let is_digit = byte.is_ascii_digit();
            if !(is_digit && is_after_digit) {
                masked[length] = if is_digit { b'0' } else { byte };
                length += 1;
            }
            is_after_digit = is_digit;
        }
        u128::from_le_bytes(masked)
    }

    proptest! {
        #[test]
        fn mask_numbers_agrees_with_the_naive_version(bytes in prop::collection::vec(prop_oneof![b'0'..=b'9', any::<u8>()], PIECE_PREFIX)) {
            let piece = u128::from_le_bytes(bytes.try_into().expect("sixteen"));
            prop_assert_eq!(mask_numbers(piece), mask_numbers_naively(piece));
        }

        #[test]
        fn fingerprints_do_not_depend_on_the_split_into_chunks(page in "[ab1 \n]{0,90}", cuts in prop::collection::vec(0usize..90, 0..4)) {
            let mut whole = LikenessReader::default();
            whole.text(page.as_bytes());
            let mut cut = LikenessReader::default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(page.len())).collect();
            cuts.sort_unstable();
            let mut start = 0;
            for at in cuts.into_iter().chain([page.len()]) {
                cut.text(&page.as_bytes()[start..at]);
                start = at;
            }
            prop_assert_eq!(whole.min_hash(), cut.min_hash());
            prop_assert_eq!(whole.finish(), cut.finish());
        }
    }
}

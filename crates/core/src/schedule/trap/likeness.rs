//! [`Likeness`]: two fingerprints that detect duplicate and near-duplicate pages, computed while a page is read.
//!
//! Only visible text counts, without tags, URLs, scripts and styles. So a page that is served for every URL, with
//! different links each time, is still recognised.
//!
//! Invariant: the fingerprints do not depend on how the page was split into chunks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::swar;

/// A page with fewer bytes of text is not compared.
const MIN_TEXT: u64 = 64;
/// A piece of text is identified by this many bytes at its start.
const LOOKED_AT: usize = 16;
/// In the [`MinHash`], a piece has a weight of one per this many bytes, so that paragraphs outweigh menus.
const WEIGHED: u64 = 64;
/// The largest weight of a piece.
const MAX_WEIGHT: u64 = 64;
/// A page with a smaller total weight has no [`MinHash`].
const MIN_WEIGHT: u32 = 16;
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

/// Reads a page's text, in pieces.
#[derive(Clone, Debug)]
pub struct LikenessReader {
    text: u64,
    length: u64,
    /// Buffered bytes, fewer than eight.
    begun: u64,
    begun_bytes: u32,
    /// The first bytes of the current piece of text between two tags.
    piece: u128,
    piece_bytes: usize,
    /// The smallest hash of each group of pieces, for the sketch.
    least: [u64; 4],
    /// Where the current piece begins, in bytes of text.
    piece_start: u64,
    /// The smallest hash of each group of parts, for the [`MinHash`], and the number of parts.
    least_weighed: [u32; 16],
    weight: u32,
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

impl Default for LikenessReader {
    fn default() -> Self {
        Self {
            text: ODD,
            length: 0,
            begun: 0,
            begun_bytes: 0,
            piece: 0,
            piece_bytes: 0,
            least: [u64::MAX; 4],
            piece_start: 0,
            least_weighed: [u32::MAX; 16],
            weight: 0,
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
            // Whitespace is layout, not text.
            let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
            if start != Some(0) {
                self.in_word = 0;
            }
            let Some(start) = start else { return };
            bytes = bytes.get(start..).unwrap_or(&[]);
        }
        if self.piece_bytes < LOOKED_AT {
            let (first, second) = (swar::up_to(bytes), swar::up_to(bytes.get(8..).unwrap_or(&[])));
            self.piece |= (u128::from(second) << 64 | u128::from(first)) << (8 * self.piece_bytes);
            self.piece_bytes = (self.piece_bytes + bytes.len()).min(LOOKED_AT);
        }
        self.fold(bytes);
    }

    /// Ends the current piece of text at a tag.
    pub fn tag(&mut self) {
        if self.piece_bytes == 0 {
            return;
        }
        let piece = mask_numbers(self.piece);
        let hash = mix(piece as u64 ^ mix((piece >> 64) as u64));
        if let Some(least) = self.least.get_mut((hash & 3) as usize) {
            *least = (*least).min(hash);
        }
        self.weigh(hash);
        (self.piece, self.piece_bytes) = (0, 0);
    }

    /// Adds the piece that ends here to the [`MinHash`].
    fn weigh(&mut self, hash: u64) {
        let length = self.length - self.piece_start;
        self.piece_start = self.length;
        if length <= WEIGHED {
            return self.weigh_part(hash);
        }
        let piece = mix(hash ^ length);
        for part in 0..(length / WEIGHED).min(MAX_WEIGHT) {
            self.weigh_part(mix(piece.wrapping_add(part)));
        }
    }

    fn weigh_part(&mut self, hash: u64) {
        if let Some(least) = self.least_weighed.get_mut((hash & 15) as usize) {
            *least = (*least).min((hash >> 32) as u32);
        }
        self.weight += 1;
    }

    /// The fingerprint for comparing texts; `None` if the page has too little text.
    pub fn min_hash(&self) -> Option<MinHash> {
        let mut reader = self.clone();
        reader.tag();
        let digits = reader.least_weighed.iter().fold(0, |digits, least| digits << 4 | u64::from(least & 15));
        (reader.weight >= MIN_WEIGHT).then_some(MinHash(digits))
    }

    /// The fingerprints of the page; `None` if it has too little text.
    pub fn finish(mut self) -> Option<Likeness> {
        self.tag();
        self.word(self.begun);
        let sketch = self.least.iter().fold(ODD, |sketch, least| mix(sketch ^ least));
        (self.length >= MIN_TEXT).then(|| Likeness { text: mix(self.text ^ self.length), sketch })
    }

    /// Hashes text and counts its words, eight bytes at a time.
    fn fold(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let (words, last) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word);
            self.count_words(word, 8);
            self.push(word, 8);
        }
        if !last.is_empty() {
            let (word, count) = (swar::up_to(last), last.len() as u32);
            self.count_words(word, count);
            self.push(word, count);
        }
    }

    /// Counts the words that begin in up to eight bytes. Missing bytes are zero, which is white space here.
    #[inline]
    fn count_words(&mut self, bytes: u64, count: u32) {
        let non_space = swar::above_space(bytes);
        let begins = non_space & !(non_space << 8 | self.in_word);
        self.words.spaced += swar::marks(begins);
        self.in_word = (non_space >> (8 * (count - 1))) & 0x80;
        if swar::has_high(bytes) {
            self.words.ideographs += swar::marks(swar::ideograph_leads(bytes));
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

    /// Appends up to eight bytes; every complete group of eight bytes is hashed.
    fn push(&mut self, bytes: u64, count: u32) {
        let begun_bits = 8 * self.begun_bytes;
        self.begun |= bytes << begun_bits;
        self.begun_bytes += count;
        if self.begun_bytes >= 8 {
            self.word(self.begun);
            self.begun = bytes.checked_shr(64 - begun_bits).unwrap_or(0);
            self.begun_bytes -= 8;
        }
    }

    /// Hashes eight bytes of text.
    fn word(&mut self, word: u64) {
        self.text = (self.text.rotate_left(23) ^ word).wrapping_mul(ODD);
    }
}

/// The start of a piece with every number replaced by 0.
fn mask_numbers(piece: u128) -> u128 {
    let digits = u128::from(swar::digits((piece >> 64) as u64)) << 64 | u128::from(swar::digits(piece as u64));
    if digits == 0 {
        return piece;
    }
    let digit_bytes = (digits >> 7) * 0xFF;
    let mut alike = (piece & !digit_bytes) | ((digits >> 7) * u128::from(b'0'));
    // Remove the digits that follow a digit. The last one goes first, so that the positions of the others stay valid.
    let mut too_many = digits & (digits << 8);
    while too_many != 0 {
        let place = too_many.ilog2() & !7;
        let before = (1 << place) - 1;
        alike = (alike & before) | ((alike >> 8) & !before);
        too_many &= before;
    }
    alike
}

/// Mixes the bits so that each input bit affects all output bits.
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(ODD);
    let value = (value ^ (value >> 29)).wrapping_mul(ODD);
    value ^ (value >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn pages_that_say_the_same_are_alike() {
        let page = of(&[LONG, "one", "two"]).expect("enough text");
        assert_eq!(of(&["\n  ", LONG, " ", "one", "two"]), Some(page), "layout does not count");
        let other = of(&[LONG, "one", "three"]).expect("enough text");
        assert_ne!(other.text, page.text);
        let (first, second) = (of(&[LONG, "page 9 of 10"]).expect("text"), of(&[LONG, "page 10 of 10"]).expect("text"));
        assert_ne!(first.text, second.text);
        assert_eq!(first.sketch, second.sketch, "only numbers differ");
    }

    #[test]
    fn a_few_pieces_more_or_less_are_most_often_not_seen_in_the_sketch() {
        let words: Vec<String> = (0..200).map(|n| format!("{LONG} {n} w{}", "x".repeat(n % 40))).collect();
        let words: Vec<String> = words
            .iter()
            .enumerate()
            .map(|(n, w)| format!("{}{w}", char::from(b'a' + (n % 26) as u8).to_string().repeat(1 + n / 26)))
            .collect();
        let page: Vec<&str> = words.iter().map(String::as_str).collect();
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
    fn texts_are_alike_by_how_much_they_have_in_common() {
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
        let (mut alike, mut length, mut after_digit) = ([0; LOOKED_AT], 0, false);
        for byte in piece.to_le_bytes() {
            let is_digit = byte.is_ascii_digit();
            if !(is_digit && after_digit) {
                alike[length] = if is_digit { b'0' } else { byte };
                length += 1;
            }
            after_digit = is_digit;
        }
        u128::from_le_bytes(alike)
    }

    proptest! {
        #[test]
        fn numbers_are_alike(bytes in prop::collection::vec(prop_oneof![b'0'..=b'9', any::<u8>()], LOOKED_AT)) {
            let piece = u128::from_le_bytes(bytes.try_into().expect("sixteen"));
            prop_assert_eq!(mask_numbers(piece), mask_numbers_naively(piece));
        }

        #[test]
        fn it_does_not_matter_how_a_page_is_cut(page in "[ab1 \n]{0,90}", cuts in prop::collection::vec(0usize..90, 0..4)) {
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

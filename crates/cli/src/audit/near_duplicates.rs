//! Pairs of pages with nearly the same text, found by their [`MinHash`].

use std::collections::HashMap;

use argiope_core::schedule::trap::MinHash;

/// Two texts are nearly the same if at least this many of the sixteen digits are equal. They have about 95 % in common.
const ALIKE: u32 = 15;
/// Maximum number of pages that one page is compared with. On a site built from one template, very many pages have the
/// same half of a fingerprint.
const MAX_COMPARED: usize = 64;

/// The fingerprint of a page's text.
#[derive(Clone, Copy, Debug)]
pub struct TextSketch {
    pub min_hash: MinHash,
    /// The hash of its body.
    pub body: u64,
    /// The hash of its URL.
    pub url: u64,
}

/// Pages with nearly the same text as another page but not the same body, and that page.
///
/// Two fingerprints that differ in one digit have an equal half, so only pages with an equal half are compared.
pub fn pairs(mut sketches: Vec<TextSketch>) -> HashMap<u64, u64> {
    let mut near = HashMap::new();
    for shift in [0, 32] {
        let half = |sketch: &TextSketch| (sketch.min_hash.0 >> shift) as u32;
        sketches.sort_by_key(|sketch| (half(sketch), sketch.min_hash, sketch.body, sketch.url));
        for alike in sketches.chunk_by(|a, b| half(a) == half(b)) {
            for (at, sketch) in alike.iter().enumerate() {
                // Only neighbours in the sorted order are compared: they have the most digits in common.
                let others = alike.iter().skip(at.saturating_sub(MAX_COMPARED / 2)).take(MAX_COMPARED);
                let is_near = |other: &&TextSketch| {
                    other.body != sketch.body && other.min_hash.equal_digits(sketch.min_hash) >= ALIKE
                };
                if !near.contains_key(&sketch.url)
                    && let Some(other) = others.clone().find(is_near)
                {
                    near.insert(sketch.url, other.url);
                }
            }
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_digit_may_differ_and_the_body_must() {
        let all = [
            (0x1111_2222_3333_4444, 1),
            (0x1111_2222_3333_4445, 2),
            (0x9111_2222_3333_4444, 3),
            (0x1111_2222_3344_4444, 4),
            (0x5555_5555_5555_5555, 5),
            (0x5555_5555_5555_5555, 5),
            (0x7777_7777_7777_7777, 6),
        ];
        let sketches =
            all.iter().zip(0..).map(|(&(digits, body), url)| TextSketch { min_hash: MinHash(digits), body, url });
        let near = pairs(sketches.collect());
        let mut found: Vec<u64> = near.keys().copied().collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2], "two digits, the same body, and another text are not near");
    }

    #[test]
    fn very_many_pages_with_one_fingerprint_are_linear_work() {
        let sketches = (0..200_000).map(|url| TextSketch { min_hash: MinHash(7), body: url, url });
        assert_eq!(pairs(sketches.collect()).len(), 200_000);
    }
}

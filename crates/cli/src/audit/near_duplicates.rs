//! Pairs of pages with nearly the same text, found by their [`MinHash`].

use std::collections::HashMap;

use argiope_core::page::likeness::MinHash;

/// A [`MinHash`] has sixteen hexadecimal digits. Two texts are nearly the same if at least this many digits are equal; they
/// then have about 95 % in common.
const MIN_EQUAL_DIGITS: u32 = 15;
/// Maximum number of pages that one page is compared with. On a site built from one template, many pages have the same half
/// of a fingerprint.
const MAX_COMPARED: usize = 64;

/// The fingerprint of a page's text.
#[derive(Clone, Copy, Debug)]
pub struct TextSketch {
    pub min_hash: MinHash,
    /// The hash of the page's body.
    pub body: u64,
    /// The hash of the page's URL.
    pub url: u64,
}

/// For each page with nearly the same text as another page, but a different body: that other page. Keys and values are
/// hashes of URLs.
///
/// If two fingerprints differ in one digit, one of their halves is equal. So only pages with an equal half are compared.
pub fn pairs(mut sketches: Vec<TextSketch>) -> HashMap<u64, u64> {
    let mut near = HashMap::new();
    for shift in [0, 32] {
        let half = |sketch: &TextSketch| (sketch.min_hash.0 >> shift) as u32;
        sketches.sort_by_key(|sketch| (half(sketch), sketch.min_hash, sketch.body, sketch.url));
        for group in sketches.chunk_by(|a, b| half(a) == half(b)) {
            for (position, sketch) in group.iter().enumerate() {
                // In a large group, only neighbours in the sorted order are compared, which have the most digits in common.
                let others = group.iter().skip(position.saturating_sub(MAX_COMPARED / 2)).take(MAX_COMPARED);
                let is_near = |other: &&TextSketch| {
                    other.body != sketch.body && other.min_hash.equal_digits(sketch.min_hash) >= MIN_EQUAL_DIGITS
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
    fn texts_are_near_if_one_digit_differs_and_the_bodies_differ() {
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
        assert_eq!(found, [0, 1, 2], "two different digits, the same body, or another text: not near");
    }

    /// The limit keeps the number of comparisons linear in the number of pages.
    #[test]
    fn in_a_large_group_only_neighbours_are_compared() {
        // The first and the last page differ in the first digit alone. Each of the others differs from every page in at
        // least two of the first eight digits. All have the same second half.
        let others = |count: u64| (1..=count).map(|number| 0x1000_0000 | number << 20 | number << 8);
        let found = |count: u64| {
            let halves = std::iter::once(0).chain(others(count)).chain([0xf000_0000]);
            let sketches = halves.zip(0..).map(|(half, url)| TextSketch {
                min_hash: MinHash(half << 32 | 0x3333_4444),
                body: url,
                url,
            });
            pairs(sketches.collect()).len()
        };
        assert_eq!(found(MAX_COMPARED as u64 / 4), 2, "in a small group, all pages are compared");
        assert_eq!(found(MAX_COMPARED as u64), 0, "each page is compared with at most MAX_COMPARED pages");
    }

    #[test]
    fn all_of_many_pages_with_the_same_fingerprint_are_near() {
        let sketches = (0..200_000).map(|url| TextSketch { min_hash: MinHash(7), body: url, url });
        assert_eq!(pairs(sketches.collect()).len(), 200_000);
    }
}

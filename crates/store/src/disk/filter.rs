//! [`Filter`]: a Bloom filter that tests whether a fingerprint may be in a run file, with 12 bits per fingerprint.
//!
//! A split block Bloom filter: a fingerprint belongs to one block of 256 bits, and sets one bit in each of its eight
//! words. So a query touches one cache line. The false positive rate is about one in three hundred. Without memory for
//! the filter, every query returns true.

/// Odd multipliers for multiplicative hashing, one for each word of a block.
const SPREAD: [u32; 8] =
    [0x47B6_137B, 0x4497_4D91, 0x8824_AD5B, 0xA2B7_289D, 0x7054_95C7, 0x2DF1_424B, 0x9EFC_4947, 0x5C6B_FB31];

/// Fingerprints per block: 256 bits, 12 for each fingerprint.
const PER_BLOCK: u64 = 21;
/// Size of a block in bytes.
pub(super) const BLOCK: usize = 32;

/// A split block Bloom filter.
pub(super) struct Filter {
    blocks: Vec<[u32; 8]>,
}

impl Filter {
    /// A filter for this many fingerprints, with 12 bits each, limited to `max_bytes` bytes.
    pub fn for_count(count: u64, max_bytes: usize) -> Self {
        let blocks = usize::try_from(count / PER_BLOCK + 1).unwrap_or(usize::MAX);
        Self { blocks: vec![[0; 8]; blocks.min(max_bytes / BLOCK)] }
    }

    /// Restores a filter from the bytes of [`Filter::encode`].
    pub fn decode(bytes: &[u8]) -> Self {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let block = |bytes: &[u8]| std::array::from_fn(|at| word(bytes.get(at * 4..at * 4 + 4).unwrap_or_default()));
        Self { blocks: bytes.chunks_exact(BLOCK).map(block).collect() }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()));
    }

    pub fn insert(&mut self, fingerprint: u64) {
        let index = self.block_index(fingerprint);
        if let Some(block) = self.blocks.get_mut(index) {
            block.iter_mut().zip(bits(fingerprint)).for_each(|(word, bit)| *word |= bit);
        }
    }

    /// Returns `false` only if the fingerprint was never inserted.
    pub fn may_contain(&self, fingerprint: u64) -> bool {
        let block = self.blocks.get(self.block_index(fingerprint));
        block.is_none_or(|block| block.iter().zip(bits(fingerprint)).all(|(word, bit)| word & bit != 0))
    }

    /// The block of a fingerprint: its upper bits, scaled to the number of blocks.
    fn block_index(&self, fingerprint: u64) -> usize {
        ((u128::from(fingerprint) * self.blocks.len() as u128) >> 64) as usize
    }

    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK
    }
}

/// The bit that a fingerprint sets in each word of its block. The bits are derived from the lower half of the
/// fingerprint. The upper half selects the block.
fn bits(fingerprint: u64) -> [u32; 8] {
    // The upper five bits of the product are the number of the bit.
    SPREAD.map(|odd| 1 << ((fingerprint as u32).wrapping_mul(odd) >> 27))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(number: u64) -> u64 {
        let z = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }

    #[test]
    fn there_are_no_false_negatives_and_few_false_positives() {
        let mut filter = Filter::for_count(100_000, usize::MAX);
        (0..100_000).for_each(|number| filter.insert(mix(number)));
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        let read = Filter::decode(&bytes);
        for filter in [&filter, &read] {
            assert!((0..100_000).all(|number| filter.may_contain(mix(number))));
            let false_positives = (100_000..300_000).filter(|number| filter.may_contain(mix(*number))).count();
            assert!(false_positives < 2_000, "{false_positives} of 200,000");
        }
        // 12 bits each are 150,000 bytes.
        assert!(filter.bytes() < 160_000);
    }

    #[test]
    fn without_memory_every_query_returns_true() {
        let mut filter = Filter::for_count(1_000, 10);
        filter.insert(7);
        assert!(filter.bytes() == 0 && filter.may_contain(8));
    }
}

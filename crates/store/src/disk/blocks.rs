//! A file of checksummed blocks: a reader gets exactly what was written, or an error.
//!
//! A block is `length (4) · checksum (8) · bytes`. The seed of the checksum is the id of the crawl XOR the number of
//! the block, so a block cannot be mistaken for another. An empty block marks the end. A file without it is incomplete.

use super::files::File;
use crate::varint::{Bytes, MAX_VARINT, write_varint};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Maximum length of the bytes of a block.
const MAX_BLOCK: usize = 1 << 20;
/// Length of a block's header.
const BLOCK_HEADER: usize = 12;

/// Builds a file block by block. The caller takes the blocks out in portions and writes them.
///
/// Each block is its own allocation. One allocation for a whole portion would be several times as large. After glibc
/// has freed such an allocation, it raises its mmap threshold and places later ones of that size in its heap, which
/// then fragments.
pub(super) struct BlockWriter {
    /// The id of the crawl.
    crawl: u64,
    /// Blocks that were not taken out yet. The last one is incomplete.
    blocks: Vec<Vec<u8>>,
    /// The number of the block being filled. If no block is being filled, the number of the next one.
    number: u64,
    /// Length of the complete blocks that were not taken out yet.
    complete_bytes: usize,
}

impl BlockWriter {
    pub fn new(crawl: u64) -> Self {
        Self { crawl, blocks: Vec::new(), number: 0, complete_bytes: 0 }
    }

    /// Bytes that were not taken out yet.
    pub fn len(&self) -> usize {
        self.complete_bytes + self.blocks.last().map_or(0, Vec::len)
    }

    /// The block being filled, with space for at least one varint.
    fn block(&mut self) -> &mut Vec<u8> {
        if self.blocks.last().is_none_or(|block| block.len() + MAX_VARINT > BLOCK_HEADER + MAX_BLOCK) {
            self.end_block();
            let mut block = Vec::with_capacity(BLOCK_HEADER + MAX_BLOCK);
            block.extend([0; BLOCK_HEADER]);
            self.blocks.push(block);
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    /// Adds a varint.
    pub fn varint(&mut self, number: u64) {
        write_varint(number, self.block());
    }

    /// Adds numbers of eight bytes each.
    pub fn u64s(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.write(&number.to_le_bytes()));
    }

    /// Adds bytes, which may be split over several blocks.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let block = self.block();
            let (fitting, rest) = bytes.split_at(bytes.len().min(BLOCK_HEADER + MAX_BLOCK - block.len()));
            block.extend_from_slice(fitting);
            bytes = rest;
        }
    }

    /// Completes the header of the block being filled, if there is one.
    fn end_block(&mut self) {
        let Some(block) = self.blocks.last_mut() else { return };
        let (head, bytes) = block.split_at_mut(BLOCK_HEADER);
        head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&xxh3_64_with_seed(bytes, self.crawl ^ self.number).to_le_bytes());
        self.complete_bytes += block.len();
        self.number += 1;
    }

    /// Ends the block and returns all blocks so far, in file order.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.end_block();
        self.complete_bytes = 0;
        std::mem::take(&mut self.blocks)
    }

    /// Adds the end of the file and returns all remaining blocks.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.end_block();
        self.blocks.push(vec![0; BLOCK_HEADER]);
        self.take()
    }
}

/// Reads a file block by block.
pub(super) struct BlockReader {
    file: Box<dyn File>,
    /// The length of the file, queried once because it does not change.
    length: u64,
    /// The id of the crawl.
    crawl: u64,
    /// The current block.
    block: Vec<u8>,
    /// Number of bytes of the block that were already read.
    read: usize,
    /// The number of the next block.
    number: u64,
    /// The offset of the next block in the file.
    position: u64,
}

impl BlockReader {
    /// Reads from the start of the file. A file whose length cannot be determined counts as empty.
    pub fn new(file: Box<dyn File>, crawl: u64) -> Self {
        Self { length: file.length().unwrap_or(0), file, crawl, block: Vec::new(), read: 0, number: 0, position: 0 }
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The number of bytes of the file that were read, in whole blocks.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next block. `None` if the file is damaged.
    fn next_block(&mut self) -> Option<()> {
        let mut head = [0; BLOCK_HEADER];
        if self.file.read_at(&mut head, self.position).ok()? < BLOCK_HEADER {
            return None;
        }
        let [l0, l1, l2, l3, sum @ ..] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let left = self.length.checked_sub(self.position + BLOCK_HEADER as u64)?;
        if length as u64 > left {
            return None;
        }
        self.block.resize(length, 0);
        let read = self.file.read_at(&mut self.block, self.position + BLOCK_HEADER as u64).ok()?;
        let is_valid =
            read == length && xxh3_64_with_seed(&self.block, self.crawl ^ self.number) == u64::from_le_bytes(sum);
        self.position += (BLOCK_HEADER + length) as u64;
        self.number += 1;
        self.read = 0;
        is_valid.then_some(())
    }

    /// Passes the next `length` bytes to `with`, in pieces.
    pub fn read(&mut self, mut length: usize, mut with: impl FnMut(&[u8])) -> Option<()> {
        while length > 0 {
            if self.read == self.block.len() {
                self.next_block()?;
                if self.block.is_empty() {
                    return None;
                }
            }
            let rest = self.block.get(self.read..)?;
            let piece = rest.get(..length.min(rest.len()))?;
            with(piece);
            self.read += piece.len();
            length -= piece.len();
        }
        Some(())
    }

    /// The next `length` bytes. `None` if the file is too short. A damaged file may contain any length, so this is
    /// checked before memory is allocated.
    pub fn bytes(&mut self, length: u64) -> Option<Vec<u8>> {
        if length > self.length {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?);
        self.read(usize::try_from(length).ok()?, |piece| bytes.extend_from_slice(piece))?;
        Some(bytes)
    }

    pub fn byte(&mut self) -> Option<u8> {
        let mut byte = 0;
        self.read(1, |piece| byte = piece.first().copied().unwrap_or(0))?;
        Some(byte)
    }

    /// The next varint.
    pub fn varint(&mut self) -> Option<u64> {
        let rest = self.block.get(self.read..)?;
        let mut bytes = Bytes(rest);
        if let Some(number) = bytes.varint() {
            self.read += rest.len() - bytes.0.len();
            return Some(number);
        }
        // The block has no complete varint left: it is in the next block, or it is invalid.
        let mut written = Vec::with_capacity(MAX_VARINT);
        while written.last().is_none_or(|byte| byte & 0x80 != 0) && written.len() < MAX_VARINT {
            written.push(self.byte()?);
        }
        Bytes(&written).varint()
    }

    pub fn u64(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        let mut filled = 0;
        self.read(8, |piece| {
            bytes[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        })?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Reads this many numbers. `None` if the file is too short, which is checked before memory is allocated.
    pub fn u64s(&mut self, count: u64) -> Option<Vec<u64>> {
        if count.checked_mul(8)? > self.length {
            return None;
        }
        let count = usize::try_from(count).ok()?;
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            // Reads all numbers in this block at once; a number that crosses into the next block is read separately.
            let here = self.block.get(self.read..)?;
            let whole = (here.len() / 8).min(count - numbers.len());
            let chunks = here.chunks_exact(8).take(whole);
            numbers.extend(chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default())));
            self.read += whole * 8;
            if numbers.len() < count {
                numbers.push(self.u64()?);
            }
        }
        Some(numbers)
    }

    /// Whether the file ends here with its end mark.
    pub fn reached_end(mut self) -> bool {
        self.read == self.block.len() && self.next_block().is_some() && self.block.is_empty()
    }
}

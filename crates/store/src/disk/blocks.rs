//! A file of checked blocks: what is read from it is what was written, or the reading ends.
//!
//! A block is `length (4) · checksum (8) · bytes`. The checksum is keyed with the crawl's number and the block's own, so
//! no block passes for another. An empty block is the end: a file that lacks it is not whole.

use super::files::File;
use super::record::{Bytes, write_number};
use std::io;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const BLOCK: usize = 1 << 20;
const HEAD: usize = 12;

/// Writes a file block by block.
pub(super) struct BlockWriter {
    file: Box<dyn File>,
    crawl: u64,
    buffer: Vec<u8>,
    number: u64,
    position: u64,
}

impl BlockWriter {
    pub fn new(file: Box<dyn File>, crawl: u64) -> Self {
        Self { file, crawl, buffer: vec![0; HEAD], number: 0, position: 0 }
    }

    /// Where the next bytes go.
    pub fn buffer(&mut self) -> io::Result<&mut Vec<u8>> {
        if self.buffer.len() >= BLOCK {
            self.flush()?;
        }
        Ok(&mut self.buffer)
    }

    /// Writes a number of variable length.
    pub fn number(&mut self, number: u64) -> io::Result<()> {
        write_number(number, self.buffer()?);
        Ok(())
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(BLOCK) {
            self.buffer()?.extend_from_slice(piece);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (head, bytes) = self.buffer.split_at_mut(HEAD);
        head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&xxh3_64_with_seed(bytes, self.crawl ^ self.number).to_le_bytes());
        self.file.write_at(&self.buffer, self.position)?;
        self.position += self.buffer.len() as u64;
        self.number += 1;
        self.buffer.truncate(HEAD);
        Ok(())
    }

    /// Writes the end; gives the length of the file. It is not synced.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.buffer.len() > HEAD {
            self.flush()?;
        }
        self.flush()?;
        Ok(self.position)
    }
}

/// Reads a file block by block.
pub(super) struct BlockReader {
    file: Box<dyn File>,
    /// Asked for once: the file does not change, and is asked for very many things.
    length: u64,
    crawl: u64,
    block: Vec<u8>,
    /// How much of the block was read already.
    read: usize,
    number: u64,
    position: u64,
}

impl BlockReader {
    /// A file whose length nobody can tell has none.
    pub fn new(file: Box<dyn File>, crawl: u64) -> Self {
        Self { length: file.length().unwrap_or(0), file, crawl, block: Vec::new(), read: 0, number: 0, position: 0 }
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How much of the file was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next block. `None` where the file is not what was written.
    fn next_block(&mut self) -> Option<()> {
        let mut head = [0; HEAD];
        if self.file.read_at(&mut head, self.position).ok()? < HEAD {
            return None;
        }
        let [l0, l1, l2, l3, sum @ ..] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let left = self.length.checked_sub(self.position + HEAD as u64)?;
        if length as u64 > left {
            return None;
        }
        self.block.resize(length, 0);
        let read = self.file.read_at(&mut self.block, self.position + HEAD as u64).ok()?;
        let sound =
            read == length && xxh3_64_with_seed(&self.block, self.crawl ^ self.number) == u64::from_le_bytes(sum);
        self.position += (HEAD + length) as u64;
        self.number += 1;
        self.read = 0;
        sound.then_some(())
    }

    /// Hands the next `length` bytes to `with`, in pieces.
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

    /// The next bytes. A length that the file cannot hold is none, whatever it says.
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

    /// A number of variable length.
    pub fn number(&mut self) -> Option<u64> {
        let rest = self.block.get(self.read..)?;
        let mut bytes = Bytes(rest);
        if let Some(number) = bytes.number() {
            self.read += rest.len() - bytes.0.len();
            return Some(number);
        }
        // It crosses into the next block, or is none.
        let mut written = Vec::with_capacity(10);
        while written.last().is_none_or(|byte| byte & 0x80 != 0) && written.len() < 10 {
            written.push(self.byte()?);
        }
        Bytes(&written).number()
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

    /// So many numbers. A count that the file cannot hold is none, whatever it says.
    pub fn u64s(&mut self, count: u64) -> Option<Vec<u64>> {
        if count.checked_mul(8)? > self.length {
            return None;
        }
        let count = usize::try_from(count).ok()?;
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            // As many as lie in this block at once; the one that crosses into the next alone.
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

    /// Whether the file ends here, as it should.
    pub fn ends(mut self) -> bool {
        self.read == self.block.len() && self.next_block().is_some() && self.block.is_empty()
    }
}

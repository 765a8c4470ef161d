//! Filler text for pages. One block is created once and read repeatedly, so that a page of 100 MB costs no memory.
//!
//! Invariant: the filler is the same in every process, contains no `<`, `&` or other markup, and does not repeat within
//! 64 KiB, so that it compresses about as well as ordinary prose.

use std::io;
use std::sync::OnceLock;

/// Length of the repeating block.
pub(crate) const BLOCK: usize = 1 << 16;

/// Sixty-four words: six random bits choose one.
const WORDS: &str = "\
    a the web thread spider silk waits orb between branches dew morning garden and of slow answer many at \
    once in middle still each strand tells where something moves leaf wind autumn yellow black striped patient \
    wheel anchor bridge line spiral sticky radius hub night rebuilt eaten again before sunrise grass meadow \
    fly grasshopper wrapped kept for later zigzag ribbon nobody knows why yet";

/// The block itself.
pub(crate) fn block() -> &'static [u8] {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    TEXT.get_or_init(|| {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let mut text = Vec::with_capacity(BLOCK + 16);
        let mut state = 0x0a59_10be_u64;
        while text.len() < BLOCK {
            state = crate::mix::mix(state);
            text.extend_from_slice(words[(state >> 58) as usize % words.len()].as_bytes());
            text.push(if state & 15 == 0 { b'\n' } else { b' ' });
        }
        text.truncate(BLOCK);
        text
    })
}

/// The filler from `offset` on: `max_length` bytes, or fewer if the block ends before.
pub(crate) fn slice_at(offset: u64, max_length: u64) -> &'static [u8] {
    let block = block();
    let start = (offset % BLOCK as u64) as usize;
    let length = max_length.min((BLOCK - start) as u64) as usize;
    &block[start..start + length]
}

/// Appends `length` bytes of filler, from its start.
pub(crate) fn append(out: &mut Vec<u8>, length: u64) {
    append_range(out, 0..length);
}

/// Appends the bytes of the filler with these offsets.
pub(crate) fn append_range(out: &mut Vec<u8>, range: std::ops::Range<u64>) {
    let mut at = range.start;
    while at < range.end {
        let piece = slice_at(at, range.end - at);
        out.extend_from_slice(piece);
        at += piece.len() as u64;
    }
}

/// An [`io::Read`] of `length` bytes of filler.
pub(crate) struct Reader {
    offset: u64,
    length: u64,
}

impl Reader {
    pub(crate) fn new(length: u64) -> Reader {
        Reader { offset: 0, length }
    }
}

impl io::Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = slice_at(self.offset, (self.length - self.offset).min(buffer.len() as u64));
        buffer[..piece.len()].copy_from_slice(piece);
        self.offset += piece.len() as u64;
        Ok(piece.len())
    }
}

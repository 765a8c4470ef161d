//! [`Chains`]: many byte queues in one allocation.
//!
//! Most of a million queues hold a few dozen bytes. With one allocation per queue, allocator overhead and spare
//! capacity would exceed the contents. Here all bytes are stored in chunks of equal size in one vector. A queue is a
//! linked list of chunks. When all bytes of a chunk were read, any queue can reuse it.
//!
//! Invariant: every chunk is in one chain or in the free list. A [`Chain`] must be emptied before it is dropped.

/// Bytes per chunk. A chunk takes 32 bytes, because it also has the index of the next one.
const CHUNK: usize = 28;
/// The end of a chain.
const NONE: u32 = u32::MAX;

/// A part of a chain.
struct Chunk {
    bytes: [u8; CHUNK],
    /// Index of the next chunk of the chain, or of the free list.
    next: u32,
}

/// The chunks of all chains.
pub(super) struct Chains {
    chunks: Vec<Chunk>,
    /// The index of the first free chunk.
    first_free: u32,
}

/// A queue of bytes. An empty one has no chunks.
#[derive(Default)]
pub(super) struct Chain {
    /// The index of the first chunk.
    head: u32,
    /// The index of the last chunk.
    tail: u32,
    /// The number of bytes in the queue.
    length: u32,
    /// Number of bytes of the first chunk that were already read.
    read: u8,
}

impl Chain {
    pub fn len(&self) -> usize {
        self.length as usize
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Chains {
    pub fn new() -> Self {
        Self { chunks: Vec::new(), first_free: NONE }
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<Chunk>()
    }

    /// Takes a chunk from the free list, or a new one. The chunk `next` follows it. Returns its index.
    fn allocate(&mut self, next: u32) -> u32 {
        if let Some(chunk) = self.chunks.get_mut(self.first_free as usize) {
            let index = self.first_free;
            self.first_free = std::mem::replace(&mut chunk.next, next);
            return index;
        }
        self.chunks.push(Chunk { bytes: [0; CHUNK], next });
        (self.chunks.len() - 1) as u32
    }

    /// A new chain with these bytes.
    pub fn chain(&mut self, bytes: &[u8]) -> Chain {
        let mut chain = Chain::default();
        self.push(&mut chain, bytes);
        chain
    }

    /// Appends bytes.
    pub fn push(&mut self, chain: &mut Chain, bytes: &[u8]) {
        let mut offset = (usize::from(chain.read) + chain.len()) % CHUNK;
        let mut bytes = bytes.iter();
        while bytes.len() > 0 {
            if chain.is_empty() {
                let index = self.allocate(NONE);
                (chain.head, chain.tail) = (index, index);
            } else if offset == 0 {
                let index = self.allocate(NONE);
                self.chunks[chain.tail as usize].next = index;
                chain.tail = index;
            }
            for (free, byte) in self.chunks[chain.tail as usize].bytes[offset..].iter_mut().zip(&mut bytes) {
                *free = *byte;
                chain.length += 1;
            }
            offset = 0;
        }
    }

    /// Prepends bytes.
    pub fn prepend(&mut self, chain: &mut Chain, bytes: &[u8]) {
        for byte in bytes.iter().rev() {
            if chain.read == 0 {
                let index = self.allocate(if chain.is_empty() { NONE } else { chain.head });
                if chain.is_empty() {
                    chain.tail = index;
                }
                (chain.head, chain.read) = (index, CHUNK as u8);
            }
            chain.read -= 1;
            self.chunks[chain.head as usize].bytes[usize::from(chain.read)] = *byte;
            chain.length += 1;
        }
    }

    /// Removes the first byte.
    pub fn pop(&mut self, chain: &mut Chain) -> Option<u8> {
        chain.length = chain.length.checked_sub(1)?;
        let chunk = self.chunks.get_mut(chain.head as usize)?;
        let byte = chunk.bytes[usize::from(chain.read)];
        chain.read += 1;
        if chain.is_empty() || usize::from(chain.read) == CHUNK {
            let next = std::mem::replace(&mut chunk.next, self.first_free);
            self.first_free = chain.head;
            (chain.head, chain.read) = (next, 0);
        }
        Some(byte)
    }

    /// Removes up to this many bytes from the front.
    pub fn take(&mut self, chain: &mut Chain, length: usize) -> Vec<u8> {
        (0..length.min(chain.len())).map_while(|_| self.pop(chain)).collect()
    }

    /// The bytes, in pieces.
    pub fn pieces(&self, chain: &Chain) -> impl Iterator<Item = &[u8]> {
        let (mut index, mut start, mut remaining) = (chain.head, usize::from(chain.read), chain.len());
        std::iter::from_fn(move || {
            let chunk = self.chunks.get(index as usize).filter(|_| remaining > 0)?;
            let piece = &chunk.bytes[start..CHUNK.min(start + remaining)];
            (index, start, remaining) = (chunk.next, 0, remaining - piece.len());
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn chains_are_independent_and_chunks_are_reused() {
        let mut chains = Chains::new();
        let mut queues: [Chain; 3] = Default::default();
        let mut expected: [VecDeque<u8>; 3] = Default::default();
        let mut max_length = 0;
        for number in 0..20_000_usize {
            let (index, length) = (number * 7 % 11 % 3, number * number % 67);
            let bytes: Vec<u8> = (0..length).map(|at| (number + at) as u8).collect();
            match number % 5 {
                0 | 1 => {
                    chains.push(&mut queues[index], &bytes);
                    expected[index].extend(&bytes);
                }
                2 => {
                    chains.prepend(&mut queues[index], &bytes);
                    bytes.iter().rev().for_each(|byte| expected[index].push_front(*byte));
                }
                _ => {
                    let length = length * 2;
                    let taken: Vec<u8> = (0..length).map_while(|_| expected[index].pop_front()).collect();
                    assert_eq!(chains.take(&mut queues[index], length), taken);
                }
            }
            assert_eq!(chains.pieces(&queues[index]).flatten().copied().collect::<VecDeque<u8>>(), expected[index]);
            max_length = max_length.max(expected.iter().map(VecDeque::len).sum::<usize>());
        }
        // The first and the last chunk of each of the three chains may be partly used.
        assert!(chains.bytes() <= (max_length / CHUNK + 6) * size_of::<Chunk>(), "{} for {max_length}", chains.bytes());
    }
}

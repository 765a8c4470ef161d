//! [`ChunkedVec`]: a vector that grows without moving its elements.
//!
//! A `Vec` with millions of elements is copied when it grows, and needs more than twice its memory at that moment. Here
//! the elements are in chunks of equal size. The disk frontier stores the queues of its lanes in such a vector.

use std::ops::{Index, IndexMut};

/// Elements per chunk.
const CHUNK: usize = 4_096;

/// A vector in chunks.
pub(crate) struct ChunkedVec<T> {
    /// All but the last are full.
    chunks: Vec<Vec<T>>,
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> ChunkedVec<T> {
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    pub fn push(&mut self, element: T) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(element),
            None => {
                // The first chunk grows as needed, because most crawls have few lanes.
                let mut chunk = Vec::with_capacity(if self.chunks.is_empty() { 0 } else { CHUNK });
                chunk.push(element);
                self.chunks.push(chunk);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }

    /// Memory use in bytes, without the heap memory that the elements own.
    pub fn bytes(&self) -> usize {
        let elements: usize = self.chunks.iter().map(Vec::capacity).sum();
        elements * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

impl<T: Default> ChunkedVec<T> {
    /// Adds default elements until there are at least this many.
    pub fn grow_to(&mut self, len: usize) {
        while self.len() < len {
            self.push(T::default());
        }
    }
}

impl<T> Index<usize> for ChunkedVec<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for ChunkedVec<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_index() {
        let mut vector = ChunkedVec::default();
        (0..2 * CHUNK + 7).for_each(|number| vector.push(number));
        assert_eq!(
            (vector.len(), vector[0], vector[CHUNK], vector.get(2 * CHUNK + 7)),
            (2 * CHUNK + 7, 0, CHUNK, None)
        );
        vector[CHUNK] = 1;
        vector.grow_to(3 * CHUNK);
        assert_eq!((vector.len(), vector.get(CHUNK), vector[3 * CHUNK - 1]), (3 * CHUNK, Some(&1), 0));
        assert_eq!(vector.iter().filter(|number| **number == CHUNK - 1).count(), 1);
        assert!(vector.bytes() < 3 * CHUNK * size_of::<usize>() + 200, "{}", vector.bytes());
    }
}

//! Storage: the frontier in memory and on disk; the crawl directory.

mod bytequeue;
mod chunked_vec;
pub mod disk;
pub mod lanes;
pub mod link_codec;
pub mod memory;
pub mod seen;
pub mod varint;

pub use disk::{Commits, CommittedOutput, Store};
pub use memory::MemoryFrontier;
pub use seen::SeenSet;

/// A random number that cannot be predicted from outside the process.
pub fn unpredictable() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    // The standard library keys its hashers with random numbers of the operating system.
    RandomState::new().build_hasher().finish()
}

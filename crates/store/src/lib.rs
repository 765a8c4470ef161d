//! Storage: the frontier in memory, on disk and in a cluster; the crawl directory; the results of a fleet.

mod bytequeue;
mod chunked_vec;
#[cfg(feature = "fleet")]
pub mod cluster;
pub mod disk;
mod lanes;
mod link_codec;
pub mod memory;
pub mod seen;
#[cfg(feature = "fleet")]
pub mod segments;
mod varint;

pub use memory::MemoryFrontier;
pub use seen::SeenSet;

/// A random number that cannot be predicted from outside the process.
pub fn unpredictable() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    // The standard library keys its hashers with random numbers of the operating system.
    RandomState::new().build_hasher().finish()
}

//! Storage: the frontier in memory and on disk, and the crawl directory.

mod bytequeue;
#[cfg(feature = "fleet")]
pub mod cluster;
pub mod disk;
mod lanes;
pub mod memory;
pub mod seen;
#[cfg(feature = "fleet")]
pub mod segments;

pub use memory::MemoryFrontier;
pub use seen::SeenSet;

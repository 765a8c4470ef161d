//! Storage: the frontier in memory and on disk, and the crawl directory.

mod bytequeue;
pub mod disk;
mod lanes;
pub mod memory;
pub mod seen;

pub use memory::MemoryFrontier;
pub use seen::SeenSet;

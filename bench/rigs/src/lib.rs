//! Shared parts of the measuring programs in `bin`: generated URLs, a writer thread, a tag counter, and process
//! statistics.

mod addresses;
pub mod kernel;
mod tags;
mod writer;

pub use addresses::{AddressGenerator, BATCH};
pub use tags::TagCounter;
pub use writer::CommitWriter;

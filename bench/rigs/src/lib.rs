//! What the rigs share: addresses to offer, a thread that waits for the disk, a reader of tags, and what the kernel counts.

mod addresses;
pub mod kernel;
mod tags;
mod writer;

pub use addresses::AddressGenerator;
pub use tags::Tags;
pub use writer::Writer;

//! Properties that must hold for all inputs, one function per parser of data from outside.
//!
//! A function panics if its property does not hold. Fuzz targets feed it generated inputs; an ordinary test
//! of the core feeds it the corpora in `fuzz/corpus` as regression tests.

mod conn;
mod cookies;
mod frames;
mod pages;
mod references;
mod robots;
mod servers;
mod sitemaps;
mod tokens;

pub use conn::{answer, coding};
pub use cookies::cookies;
pub use frames::frames;
pub use pages::{charset, url};
pub use references::{body, head};
pub use robots::robots;
pub use servers::conn;
pub use sitemaps::sitemap;
pub use tokens::tokenizer;

/// Splits off up to `most` bytes at the end, which control the test case. The others are its input.
fn steered(data: &[u8], most: usize) -> (&[u8], &[u8]) {
    data.split_at(data.len() - data.len().min(most))
}

/// The size of the pieces that an input is split into, from the first control byte.
fn piece(steer: &[u8]) -> usize {
    usize::from(steer.first().copied().unwrap_or(0)) % 64 + 1
}

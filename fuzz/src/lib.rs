//! Properties that hold for all inputs: one function for each parser of outside data.
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

/// Splits off the last bytes, which select the case; the others are its input.
fn steered(data: &[u8], most: usize) -> (&[u8], &[u8]) {
    data.split_at(data.len() - data.len().min(most))
}

/// Sizes of pieces to cut an input into, from a byte of the case.
fn piece(steer: &[u8]) -> usize {
    usize::from(steer.first().copied().unwrap_or(0)) % 64 + 1
}

//! Properties that must hold for all inputs, with one function per parser of external data.
//!
//! A function panics if its property does not hold. Fuzz targets call it with generated inputs. An ordinary test of the
//! core calls it with the corpora in `fuzz/corpus`, as regression tests.
//!
//! The last bytes of most inputs control the test case, for example how the other bytes are split into pieces.

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

/// Splits the input of a test case and its control bytes, which are the last ones, at most `max_control` of them.
fn split_control(data: &[u8], max_control: usize) -> (&[u8], &[u8]) {
    data.split_at(data.len() - data.len().min(max_control))
}

/// The size of the pieces that an input is split into, from the first control byte.
fn piece_size(control: &[u8]) -> usize {
    usize::from(control.first().copied().unwrap_or(0)) % 64 + 1
}

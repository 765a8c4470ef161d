//! A web crawler: polite, exact, fast.

pub mod report;
pub mod run_lines;
pub mod snapshot;

//! A web crawler: polite, exact, fast.

pub mod report;
pub mod snapshot;

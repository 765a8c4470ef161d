//! Virtual time and conformance suites.

pub mod crawling;
pub mod engine_suite;
pub mod frontier_suite;

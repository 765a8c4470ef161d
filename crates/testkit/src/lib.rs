//! Virtual time and conformance suites.

pub mod crawling;
pub mod engine_suite;
pub mod frontier_suite;

pub use argiope_core::rules::EngineName;

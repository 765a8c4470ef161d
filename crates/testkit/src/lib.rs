//! Virtual time and conformance suites.

pub mod frontier_suite;
pub mod sim;

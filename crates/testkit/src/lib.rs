//! Virtual time and conformance suites.

pub mod crash_files;
pub mod frontier_suite;

//! Virtual time and conformance suites: what must hold for every engine and every frontier.

pub mod crash_files;
pub mod crawling;
pub mod engine_suite;
pub mod frontier_suite;

pub use argiope_core::rules::EngineName;
pub mod sim;

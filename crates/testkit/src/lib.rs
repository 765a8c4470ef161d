//! Virtual time and conformance suites: what is meant to be true of every engine and of every frontier.

pub mod crawling;
pub mod engine_suite;
pub mod frontier_suite;
pub mod sim;

pub use argiope_core::rules::EngineName;

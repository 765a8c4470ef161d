//! Virtual time, fault injection, and conformance suites for engines and frontiers.

pub mod blocking_frontier;
pub mod crash_files;
pub mod crawling;
pub mod engine_suite;
pub mod fleet_model;
pub mod frontier_suite;
pub mod redis_cluster;
pub mod s3_server;

pub use argiope_core::crawl::rules::EngineName;
pub mod sim;

//! One crawl on many machines: the frontier that processes share in a Redis or Valkey cluster, and their results.
//!
//! [`cluster`] holds what changes while the crawl runs, [`segments`] what is finished. A process learns of others only
//! through them.

pub mod cluster;
pub mod segments;

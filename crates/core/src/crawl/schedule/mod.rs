//! Scheduling: which URL is requested next, from which host, and when.
//!
//! The [`frontier`] holds all known and all queued URLs. A [`lane`] holds the politeness state of one host. The
//! [`workbench`] picks the next [`job`](crate::base::job) among the lanes being worked on. The [`keeper`] owns frontier
//! and workbench and applies the results of fetches.

pub mod carryover;
#[deny(missing_docs)]
pub mod frontier;
pub mod keeper;
pub mod lane;
pub mod next;
pub mod retry;
pub mod run_record;
pub mod store_error;
pub mod trap;
pub mod workbench;

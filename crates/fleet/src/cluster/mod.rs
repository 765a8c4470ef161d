//! One crawl on many machines: a Redis or Valkey cluster holds the state that the processes share.
//!
//! The unit of ownership is the bucket, a hash of the host name. All keys of a bucket have one hash tag, so they are on
//! one node, and a script changes them atomically. A bucket is leased to one process at a time. Every script that
//! leases or settles links checks the fencing token (owner and epoch).
//!
//! This folder is the only one that uses the Redis client crate.

mod client;
mod codec;
mod connection;
mod crawl;
mod fleet;
mod host_note;
mod lease_thread;
mod orders;
mod plan;
mod recall_thread;
mod restore;
mod round;
mod session;
mod settle_thread;
mod shared;

pub use client::{
    Acquired, BucketState, FleetClient, LeaseToken, NodeState, PutResult, SettleReply, SettleRequest, TakeRequest,
    TakeResult, TakenHost,
};
pub use codec::{QueuedLink, TakenLink};
pub use connection::{AccessRemedy, Nodes, Unreachable};
pub use crawl::{CrawlHead, FleetSettings, FleetState, MAX_BUCKETS, MemberInfo, Members};
pub use fleet::FleetFrontier;
pub use host_note::{HostNews, WireNote};
pub use lease_thread::{FleetOrder, FleetWatcher, LeaseTimes};
pub use orders::CrawlOrders;
pub use restore::{RestoredCounts, restore};
pub use round::{CrawlRound, RequeueError, requeue};
pub use session::{FleetSession, SessionSetup};
pub use settle_thread::ArchiveStart;
pub use shared::FleetTotals;

/// The bucket of a host name.
pub fn bucket_of(host: &str, buckets: u32) -> u32 {
    (xxhash_rust::xxh3::xxh3_64(host.as_bytes()) % u64::from(buckets.max(1))) as u32
}

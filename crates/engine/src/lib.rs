//! The waiting half of Argiope: four engines that drive the same fetches, each with its own way to wait, and the
//! resolver.
//!
//! Reading order: [`worker`] (what engines share), then the engines in the order of their history: [`threads`],
//! [`callbacks`], [`coroutines`], [`tokio`]. They have the same functions in the same order: `run` (takes the mail),
//! `start` (a job begins), `connect` (the race of addresses), `drive` (the fetch), then what happens at its end.

pub mod callbacks;
pub mod channel;
pub mod clock;
pub mod connecting;
pub mod coroutines;
pub mod epoll;
pub mod idle_pool;
pub mod resolver;
pub mod resources;
pub mod socket;
mod task_slots;
pub mod threads;
pub mod timers;
pub mod tokio;
pub mod wake_batcher;
pub mod worker;
pub mod worker_pool;

pub use channel::{JobQueue, StopMode, VisitSender};
pub use clock::Clock;
pub use resolver::{DnsAnswer, DnsQuery, Resolver};
pub use worker::{FileShortage, Notices, Worker};
pub use worker_pool::{EngineKind, WorkerPool};

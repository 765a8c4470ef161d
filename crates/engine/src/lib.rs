//! Waiting: five engines that drive the same sessions, each with its own way to wait, and the resolver.
//!
//! Reading order: [`worker`] (how an engine is structured), then the engines in the order of their history:
//! [`threads`], [`callbacks`], [`coroutines`], [`tokio`], [`uring`]. They have the same functions in the same order:
//! `run` receives jobs, `start` starts one job, `connect` runs the race between addresses, `drive` serves the session.
//! The last three engines share what does not wait: `worker_state` receives and starts jobs, `task_slots` hands a job to
//! the task of an open connection.

pub mod callbacks;
pub mod channel;
pub mod clock;
pub mod connecting;
pub mod coroutines;
pub mod epoll;
pub mod idle_pool;
pub mod resolver;
pub mod resources;
pub mod shared_tasks;
pub mod socket;
mod task_slots;
pub mod threads;
pub mod timers;
pub mod tokio;
#[cfg(target_os = "linux")]
pub mod uring;
pub mod wake_batcher;
pub mod worker;
pub mod worker_pool;
mod worker_state;

pub use argiope_core::crawl::fetcher::{StopMode, VisitSender};
pub use channel::JobQueue;
pub use clock::Clock;
pub use resolver::{DnsAnswer, DnsQuery, Resolver};
pub use shared_tasks::{Arrivals, SharedThread, SharedThreads};
pub use worker::{FileShortage, IdleLimit, Notices, Worker};
pub use worker_pool::{EngineKind, WorkerPool};

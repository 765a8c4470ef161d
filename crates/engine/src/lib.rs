//! The waiting half of Argiope: four engines that drive the same fetches, each with its own way to wait, and the
//! resolver.
//!
//! Reading order: [`worker`] (what engines share), then the engines in the order of their history: [`threads`],
//! [`callbacks`], [`coroutines`], [`tokio`]. They have the same functions in the same order: `run` (takes the mail),
//! `start` (a job begins), `connect` (the race of addresses), `drive` (the fetch), then what happens at its end.

pub mod callbacks;
pub mod clock;
pub mod coroutines;
pub mod crew;
pub mod epoll;
pub mod leisure;
pub mod lounge;
pub mod mail;
pub mod resolver;
pub mod socket;
pub mod threads;
pub mod timers;
pub mod tokio;
pub mod worker;

pub use clock::Clock;
pub use crew::{Crew, EngineKind};
pub use mail::{Ending, Orders, Reports};
pub use resolver::{Answer, Query, Resolver};
pub use worker::{Files, Notices, Worker};

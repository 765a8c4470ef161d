//! The waiting half of Argiope: four engines that drive the same fetches, each with its own way to wait, and the
//! resolver.

pub mod callbacks;
pub mod clock;
pub mod coroutines;
pub mod epoll;
pub mod mail;
pub mod resolver;
pub mod socket;
pub mod timers;
pub mod worker;

pub use clock::Clock;
pub use mail::{Ending, Orders, Reports};
pub use resolver::{Answer, Query, Resolver};
pub use worker::{Notices, Worker};

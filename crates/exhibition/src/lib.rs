//! The exhibition: measurements that show what waiting costs.
//!
//! - [`chess`]: the chess exhibition in virtual time, played by the crawler's own scheduler;
//! - [`race`]: all engines on the same slow web, each in a process of its own;
//! - [`memory`]: the memory of one fetch in flight, as a slope;
//! - [`trace`]: two requests on the coroutine engine, with every task switch;
//! - [`chart`]: the comparison as an SVG.
//!
//! Invariant: measured code runs in a child process ([`child`]) and is measured from outside where possible, so that
//! figures do not include the measuring.

pub mod chart;
pub mod chess;
pub mod child;
pub mod memory;
pub mod proc;
pub mod race;
pub mod trace;
pub mod web;

pub use chess::{ChessExhibition, ChessResult};
pub use memory::MemorySlope;
pub use race::{EngineRace, EngineResult};

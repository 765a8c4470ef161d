//! The exhibition: measurements of what it costs an engine to wait.
//!
//! - [`chess`]: the chess exhibition in virtual time, played by the crawler's own scheduler;
//! - [`race`]: all engines on the same slow web, each in its own process;
//! - [`memory`]: the memory per additional fetch in flight;
//! - [`trace`]: two requests on the coroutine engine, with every task switch;
//! - [`chart`]: the comparison as an SVG.
//!
//! Invariant: measured code runs in a child process ([`child`]) and is measured from outside if possible, so that the
//! figures do not include the cost of measuring.

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
pub use race::{EngineComparison, EngineResult};

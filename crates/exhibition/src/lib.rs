//! The exhibition: measures what it costs an engine to wait for many responses (`argiope exhibition`).
//!
//! - [`chess`]: the chess exhibition in virtual time, played by the crawler's own scheduler;
//! - [`comparison`]: all engines on the same slow web, each in its own process;
//! - [`memory`]: the memory per additional fetch in flight;
//! - [`trace`]: a log of every task switch of two requests on the coroutine engine;
//! - [`chart`]: the comparison as an SVG.
//!
//! Invariant: measured code runs in a child process ([`child`]) and is measured from outside if possible, so that the
//! figures do not include the cost of measuring.

pub mod chart;
pub mod chess;
pub mod child;
pub mod comparison;
pub mod memory;
pub mod proc;
pub mod trace;
pub mod web;

pub use chess::{ChessExhibition, ChessResult};
pub use comparison::{EngineComparison, EngineResult};
pub use memory::MemorySlope;

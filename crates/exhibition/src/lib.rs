//! The exhibition: what waiting costs, shown instead of told.
//!
//! - [`chess`]: the founding documents' chess exhibition, in virtual time, played by the keeper that also crawls;
//! - [`race`]: four engines on the same slow web, each in a process of its own;
//! - [`memory`]: what one fetch in flight costs, as a slope;
//! - [`trace`]: two requests on the coroutine engine, and who runs and who waits;
//! - [`picture`]: the race as an SVG.
//!
//! Invariant: what is measured runs in a child process ([`child`]) and is measured from outside wherever that can be
//! done, so that no figure contains the measuring.

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

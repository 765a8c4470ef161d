//! What a user sees while a command runs: the live view, progress lines, JSON log lines, and the wording of numbers,
//! outcomes and failures.

pub mod json_log;
pub mod live;
pub mod ticker;
pub mod view;
pub mod wording;

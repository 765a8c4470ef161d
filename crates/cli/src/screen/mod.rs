//! What a user sees while a command runs: the live view and JSON log lines.

pub mod json_log;
pub mod live;
pub mod view;

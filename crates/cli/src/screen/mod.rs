//! What a user sees while a crawl runs: the live view, plain progress lines, JSON log lines, and the wording of numbers,
//! outcomes and failures.

pub mod json_log;
pub mod live;
pub mod ticker;
pub mod view;
pub mod wording;

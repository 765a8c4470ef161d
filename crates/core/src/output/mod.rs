//! Output formats: [`record`] (JSON Lines), [`carried`] (records of unchanged pages) and [`warc`] (archives).

pub mod carried;
pub mod record;
pub mod warc;

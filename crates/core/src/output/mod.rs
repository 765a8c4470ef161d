//! Output formats: [`record`] (JSON Lines), [`carried`] (records of unchanged pages), [`warc`] (archives) and
//! [`escape`] (text that is safe on a terminal and in markup).

pub mod carried;
pub mod escape;
pub mod record;
pub mod warc;

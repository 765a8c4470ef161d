//! Output formats: [`record`] (JSON Lines), [`warc`] (archives) and [`escape`] (text that is safe on a terminal).

pub mod escape;
pub mod record;
pub mod warc;

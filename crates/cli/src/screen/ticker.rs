//! [`Ticker`]: a progress line on the terminal for commands that read many records.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::wording;

/// Commands that take less time print no progress.
const QUIET_FOR: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(500);
/// Number of calls between two clock reads.
const STRIDE: u64 = 1_024;

/// Progress of a command, shown on standard error if that is a terminal. Dropping it clears the line.
pub struct Ticker {
    next: Instant,
    is_terminal: bool,
    is_shown: bool,
}

impl Ticker {
    pub fn start() -> Self {
        Self { next: Instant::now() + QUIET_FOR, is_terminal: std::io::stderr().is_terminal(), is_shown: false }
    }

    /// Reports that this many records were read.
    pub fn tick(&mut self, count: u64) {
        if !self.is_terminal || !count.is_multiple_of(STRIDE) || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + INTERVAL;
        self.is_shown = true;
        // Ignored: if standard error is closed, the message has no reader.
        let _ = write!(std::io::stderr(), "\r\x1b[Kreading: {}", wording::plural(count, "record"));
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

//! [`Ticker`]: a progress line on the terminal for commands that read many records.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::wording;

/// Progress is shown after this time.
const FIRST_PROGRESS: Duration = Duration::from_secs(2);
/// Interval between updates of the line.
const INTERVAL: Duration = Duration::from_millis(500);
/// The clock is read once for this many records.
const RECORDS_PER_CLOCK_READ: u64 = 1_024;

/// Progress of a command, shown on standard error if that is a terminal. Dropping it clears the line.
pub struct Ticker {
    next_update: Instant,
    is_terminal: bool,
    is_shown: bool,
}

impl Ticker {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            next_update: Instant::now() + FIRST_PROGRESS,
            is_terminal: std::io::stderr().is_terminal(),
            is_shown: false,
        }
    }

    /// Reports that `count` records were read so far. Called once per record.
    pub fn tick(&mut self, count: u64) {
        if !self.is_terminal || !count.is_multiple_of(RECORDS_PER_CLOCK_READ) || Instant::now() < self.next_update {
            return;
        }
        self.next_update = Instant::now() + INTERVAL;
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

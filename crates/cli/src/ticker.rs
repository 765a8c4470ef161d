//! [`Ticker`]: a progress line on the terminal for commands that read many records.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use argiope_core::base::escape::visible;

use crate::wording;

/// A command that takes longer than this shows its progress.
const FIRST_PROGRESS: Duration = Duration::from_secs(2);
/// Interval between updates of the line.
const INTERVAL: Duration = Duration::from_millis(500);
/// The clock is read once for this many records.
const RECORDS_PER_CLOCK_READ: u64 = 64;
/// Moves the cursor of the terminal to the start of the line and erases the line.
const ERASE_LINE: &str = "\r\x1b[K";

/// Progress of a command, shown on standard error if that is a terminal. Dropping it clears the line.
pub struct Ticker {
    next_update: Instant,
    is_terminal: bool,
    is_shown: bool,
    /// How often [`Ticker::advance`] was called.
    count: u64,
}

impl Ticker {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            next_update: Instant::now() + FIRST_PROGRESS,
            is_terminal: std::io::stderr().is_terminal(),
            is_shown: false,
            count: 0,
        }
    }

    /// Reports that one more record was read.
    pub fn advance(&mut self) {
        self.count += 1;
        self.tick(self.count);
    }

    /// Reports that `count` records were read so far. Called once per record.
    pub fn tick(&mut self, count: u64) {
        if !self.is_terminal || !count.is_multiple_of(RECORDS_PER_CLOCK_READ) || Instant::now() < self.next_update {
            return;
        }
        self.next_update = Instant::now() + INTERVAL;
        self.show(&format!("reading: {}", wording::plural(count, "record")));
    }

    /// Shows a text as progress.
    pub fn show(&mut self, text: &str) {
        if self.is_terminal {
            self.is_shown = true;
            // Ignored: if standard error is closed, the message has no reader.
            let _ = write!(std::io::stderr(), "{ERASE_LINE}{}", visible(text));
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "{ERASE_LINE}");
        }
    }
}

//! [`RateCap`]: a limit on requests per second, below a rate that a host refused.
//!
//! A host that answers 429 or 503 may limit the rate, not the concurrency. The cap starts below the rate at which the
//! host refused and holds for a while. Then it grows in steps that double, as long as requests come close to it and
//! none is refused. The next refusal lowers it again.

use std::time::Duration;

use crate::base::time::Time;

/// How long the cap holds after the first refusal, in seconds.
const FIRST_HOLD: f32 = 4.0;
/// How long the cap holds at most, in seconds.
const MAX_HOLD: f32 = 40.0;
/// The cap grows by this fraction at first.
const FIRST_STEP: f32 = 0.01;
/// After the hold, the cap grows at most once in this time.
const STEP_INTERVAL: Duration = Duration::from_secs(2);
/// The accepted rate is measured over one to two of these.
const WINDOW: Duration = Duration::from_secs(5);
/// With fewer accepted requests than this, a refusal does not use the measured rate, which is unreliable. To raise the
/// cap, half as many are enough.
const MIN_ACCEPTED: u32 = 10;
/// The cap is at least this many requests per second: one request in 20 seconds.
const MIN_RATE: f32 = 0.05;
/// The measured time is at least this long, in seconds, so that the measured rate stays finite.
const MIN_SPAN: f32 = 0.02;

/// The highest rate at which requests to one host may start, if the host refused a higher one.
#[derive(Debug)]
pub struct RateCap {
    /// Starts per second; `None` if the host has not refused a request.
    rate: Option<f32>,
    /// How long the cap holds after the next refusal, in seconds.
    hold: f32,
    /// The fraction by which the cap grows next.
    step: f32,
    /// The cap does not grow before this time.
    grows_at: Time,
    /// Accepted requests in the current window.
    accepted: u32,
    /// The start of the current window.
    window_start: Time,
    /// Accepted requests in the window before.
    previous_accepted: u32,
    /// The length of the window before.
    previous_span: Duration,
}

impl Default for RateCap {
    fn default() -> Self {
        Self {
            rate: None,
            hold: FIRST_HOLD,
            step: FIRST_STEP,
            grows_at: Time::ZERO,
            accepted: 0,
            window_start: Time::ZERO,
            previous_accepted: 0,
            previous_span: Duration::ZERO,
        }
    }
}

impl RateCap {
    /// Minimum time from one start to the next.
    pub fn spacing(&self) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f32(1.0 / rate.max(MIN_RATE)))
    }

    /// Starts per second, if there is a cap.
    pub fn rate(&self) -> Option<f32> {
        self.rate
    }

    /// Records that the host accepted a request.
    pub fn accepted(&mut self, now: Time) {
        if now - self.window_start >= WINDOW {
            (self.previous_accepted, self.previous_span) = (self.accepted, now - self.window_start);
            (self.accepted, self.window_start) = (0, now);
        }
        self.accepted += 1;
        let Some(rate) = self.rate else { return };
        if now < self.grows_at {
            return;
        }
        self.grows_at = now + STEP_INTERVAL;
        let (count, span) = self.measured(now);
        let measured = count as f32 / span;
        // A cap that is more than a quarter above the rate of our requests was not tested by them, so it must not grow.
        if count >= MIN_ACCEPTED / 2 && rate < 1.25 * measured {
            self.rate = Some(rate * (1.0 + self.step));
            self.step = (self.step * 2.0).min(1.0);
        }
    }

    /// Records that the host refused a request; the lane backs off until `backoff_end`.
    pub fn refused(&mut self, now: Time, backoff_end: Time) {
        let (count, span) = self.measured(now);
        let (measured, attempted) = (count as f32 / span, (count + 1) as f32 / span);
        // The first cap is the rate that was accepted. Every further refusal lowers it by five percent, starting from
        // at most ten percent above the accepted rate. If the measured rate is unreliable, the first cap is three
        // quarters of the attempted rate, and a further refusal lowers it by a quarter.
        let rate = match self.rate {
            Some(rate) if count >= MIN_ACCEPTED => rate.min(1.1 * measured) * 0.95,
            Some(rate) => rate * 0.75,
            None if count >= MIN_ACCEPTED => measured,
            None => 0.75 * attempted,
        };
        self.rate = Some(rate.max(MIN_RATE));
        self.step = FIRST_STEP;
        self.grows_at = now + Duration::from_secs_f32(self.hold);
        self.hold = (self.hold * 1.6).min(MAX_HOLD);
        (self.accepted, self.window_start) = (0, backoff_end.max(now));
        (self.previous_accepted, self.previous_span) = (0, Duration::ZERO);
    }

    /// Accepted requests in the current window and the one before, and the length of both in seconds.
    fn measured(&self, now: Time) -> (u32, f32) {
        let span = self.previous_span + (now - self.window_start);
        (self.previous_accepted + self.accepted, span.as_secs_f32().max(MIN_SPAN))
    }
}

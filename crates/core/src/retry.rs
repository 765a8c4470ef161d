//! The retry table: failure and attempt in, again or give up out.
//!
//! Invariant: one table decides, for pages, robots.txt and sitemaps alike.

use std::time::Duration;

use crate::outcome::ErrorKind;
use crate::visit::Visit;

/// The longest Retry-After that is obeyed.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this long.
    After(Duration),
    /// This was the last attempt, or another one would end the same.
    GiveUp,
}

/// Whether a failure of this kind may pass by itself.
pub fn is_passing(kind: ErrorKind) -> bool {
    use ErrorKind as K;
    matches!(
        kind,
        K::DnsServfail
            | K::DnsTimeout
            | K::ConnectRefused
            | K::ConnectTimeout
            | K::Unreachable
            | K::Reset
            | K::EmptyReply
            | K::TimeoutFirstByte
            | K::TimeoutIdle
            | K::TimeoutTotal
            | K::TooSlow
    )
}

/// Whether a status may pass by itself.
pub fn is_passing_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Judges an attempt. `tries` counts it.
pub fn judge(visit: &Visit, tries: u8, max_tries: u8, wait: Duration) -> Retry {
    let passing = visit.error.as_ref().is_some_and(|failure| is_passing(failure.kind))
        || visit.status.is_some_and(is_passing_status);
    if !passing || tries >= max_tries {
        return Retry::GiveUp;
    }
    let doubled = wait.saturating_mul(2u32.saturating_pow(u32::from(tries.saturating_sub(1)).min(16)));
    Retry::After(visit.retry_after.map_or(doubled, |asked| asked.min(LONGEST_RETRY_AFTER).max(doubled.min(wait))))
}

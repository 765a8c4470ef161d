//! [`RetryAfter`]: the header `Retry-After`, with which a server says when the next request may be sent.

use std::time::Duration;

/// The longest Retry-After that is obeyed.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The meaning of a `Retry-After` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// A wait from now on.
    Wait(Duration),
    /// A moment in seconds since the Unix epoch, by the host's clock. The response has no usable `Date`, so the wait
    /// can only be computed with the local clock.
    Until(i64),
}

/// Parses a `Retry-After`: seconds, or a date. If the response has a `Date`, the wait is the time from that date,
/// because the clock of the host may differ from the local clock.
pub fn parse_retry_after(value: &[u8], date: Option<&[u8]>) -> Option<RetryAfter> {
    let value = std::str::from_utf8(value.trim_ascii()).ok()?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(RetryAfter::Wait(Duration::from_secs(seconds).min(MAX_RETRY_AFTER)));
    }
    let until = http_date(value)?;
    let date = date.and_then(|date| http_date(std::str::from_utf8(date.trim_ascii()).ok()?));
    Some(date.map_or(RetryAfter::Until(until), |from| RetryAfter::Wait(wait_until(until, from))))
}

/// The wait from one moment to another, both in seconds since the Unix epoch, at most [`MAX_RETRY_AFTER`].
pub fn wait_until(until: i64, from: i64) -> Duration {
    Duration::from_secs(u64::try_from(until.saturating_sub(from)).unwrap_or(0)).min(MAX_RETRY_AFTER)
}

/// Seconds since the Unix epoch of an HTTP date, in any of its three forms (RFC 9110, 5.6.7).
pub fn http_date(text: &str) -> Option<i64> {
    let clean = text.trim();
    let civil = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .iter()
        .find_map(|form| jiff::civil::DateTime::strptime(form, clean).ok())?;
    Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_retry_after_are_parsed() {
        let date: Option<&[u8]> = Some(b"Sun, 06 Nov 1994 08:49:37 GMT");
        let seconds = |n| Some(RetryAfter::Wait(Duration::from_secs(n)));
        assert_eq!(parse_retry_after(b"120", None), seconds(120));
        assert_eq!(parse_retry_after(b" 0 ", None), seconds(0));
        assert_eq!(parse_retry_after(b"99999999999999999999999", None), Some(RetryAfter::Wait(MAX_RETRY_AFTER)));
        assert_eq!(parse_retry_after(b"Sun, 06 Nov 1994 08:50:37 GMT", date), seconds(60));
        assert_eq!(parse_retry_after(b"Sunday, 06-Nov-94 08:50:37 GMT", date), seconds(60));
        assert_eq!(parse_retry_after(b"Sun Nov  6 08:50:37 1994", date), seconds(60));
        assert_eq!(parse_retry_after(b"Sun, 06 Nov 1994 08:00:00 GMT", date), seconds(0), "a date in the past");
        for odd in [&b""[..], b"-5", b"soon", b"1.5", b"\xff"] {
            assert_eq!(parse_retry_after(odd, date), None);
        }
        for no_date in [None, Some(&b"today"[..])] {
            let parsed = parse_retry_after(b"Sun, 06 Nov 1994 08:50:37 GMT", no_date);
            assert_eq!(
                parsed,
                Some(RetryAfter::Until(784_111_837)),
                "without a Date, the wait depends on the local clock"
            );
        }
        assert_eq!(wait_until(784_111_837, 784_111_777), Duration::from_secs(60));
        assert_eq!(wait_until(784_111_837, 784_111_838), Duration::ZERO, "a date in the past");
        assert_eq!(wait_until(i64::MAX, i64::MIN), MAX_RETRY_AFTER);
    }
}

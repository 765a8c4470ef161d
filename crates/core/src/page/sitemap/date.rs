//! Dates of sitemaps and feeds: ISO 8601 of any precision, and RFC 2822.
//!
//! They are parsed by hand. `jiff` accepts neither bare years and months, nor the missing parts and unusual zones that
//! occur in real feeds.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Longer texts are not dates.
const MAX_DATE_LEN: usize = 64;

/// Parses a date. A day, month or year alone means its start. `None` if the text is not a date.
pub fn parse(text: &str) -> Option<Timestamp> {
    let text = super::trim(text);
    if !text.is_ascii() || text.len() > MAX_DATE_LEN {
        return None;
    }
    parse_iso(text).or_else(|| parse_rfc2822(text))
}

/// Parses `2014`, `2014-06`, `2014-06-03`, `2014-06-03T10:30+02:00`, `2014-06-03T10:30:45.82Z`. UTC if there is no zone.
fn parse_iso(text: &str) -> Option<Timestamp> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time.trim())),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = parts.next().filter(|year| year.len() == 4)?;
    let (month, day) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("1"));
    if parts.next().is_some() {
        return None;
    }
    let (clock, offset) = match time {
        None => (Clock::default(), Offset::UTC),
        Some(time) => {
            let at = time.find(['Z', 'z', '+', '-', ' ']).unwrap_or(time.len());
            let (clock, zone) = time.split_at(at);
            (parse_clock(clock)?, if zone.is_empty() { Offset::UTC } else { parse_zone(zone.trim())? })
        }
    };
    timestamp(number(year)?, number(month)?, number(day)?, clock, offset)
}

/// Parses `Thu, 05 Jan 2017 13:34:51 +0100`, with or without weekday and century. The zone is required.
fn parse_rfc2822(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let mut words = text.split_whitespace();
    let day = number(words.next()?)?;
    let name = words.next()?.get(..3)?.to_ascii_lowercase();
    // Other matches, such as `anf`, cross the border between two names.
    let month = MONTHS.find(&name).filter(|at| at % 3 == 0)? / 3 + 1;
    let year = words.next()?;
    let year = match (year.len(), number::<i16>(year)?) {
        (4, year) => year,
        // The rule of RFC 2822 for years without century.
        (2, year) if year < 50 => 2000 + year,
        (2 | 3, year) => 1900 + year,
        _ => return None,
    };
    let clock = parse_clock(words.next()?)?;
    let offset = parse_zone(words.next()?)?;
    timestamp(year, i8::try_from(month).ok()?, day, clock, offset)
}

/// A time of day.
#[derive(Clone, Copy, Default)]
struct Clock {
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
}

/// Parses `10:30`, `10:30:45`, `10:30:45.82`.
fn parse_clock(text: &str) -> Option<Clock> {
    let mut parts = text.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let (second, fraction) = match parts.next() {
        None => ("0", ""),
        Some(second) => second.split_once(['.', ',']).unwrap_or((second, "")),
    };
    if parts.next().is_some() {
        return None;
    }
    // Nine digits are a number of nanoseconds.
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    // A leap second counts as the last second of its minute.
    Some(Clock { hour, minute, second: number::<i8>(second)?.min(59), nanosecond: number(&digits)? })
}

/// Parses `Z`, `+01:00`, `+0100`, `+01`, and the zone names of RFC 2822.
fn parse_zone(text: &str) -> Option<Offset> {
    let hours = match text.to_ascii_uppercase().as_str() {
        "Z" | "GMT" | "UT" | "UTC" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        _ => {
            let sign = if text.starts_with('-') { -1 } else { 1 };
            let digits = text.strip_prefix(['+', '-'])?.replace(':', "");
            let (hours, minutes) = match digits.len() {
                1 | 2 => (digits.as_str(), "0"),
                3 | 4 => digits.split_at(digits.len() - 2),
                _ => return None,
            };
            return Offset::from_seconds(sign * (number::<i32>(hours)? * 3600 + number::<i32>(minutes)? * 60)).ok();
        }
    };
    Offset::from_hours(hours).ok()
}

fn timestamp(year: i16, month: i8, day: i8, clock: Clock, offset: Offset) -> Option<Timestamp> {
    let Clock { hour, minute, second, nanosecond } = clock;
    offset.to_timestamp(DateTime::new(year, month, day, hour, minute, second, nanosecond).ok()?).ok()
}

/// Parses a number that consists of digits. `str::parse` would also accept a sign.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

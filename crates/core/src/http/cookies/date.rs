//! Cookie dates, parsed with the lenient algorithm of RFC 6265bis, section 5.1.1: tokens may come in any order, with
//! any separators. Neither `jiff` nor `httpdate` implements it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Parses a cookie date to seconds since the Unix epoch. `None` if it is not a date, or before the year 1601.
pub fn parse(text: &[u8]) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(|byte| is_delimiter(*byte)).filter(|token| !token.is_empty()) {
        // The first token of a kind counts. A token is tried as each kind that is still missing, in this order.
        if time.is_none() && set(&mut time, parse_time(token)) {
            continue;
        }
        if day.is_none() && set(&mut day, number(token, 1, 2)) {
            continue;
        }
        if month.is_none() && set(&mut month, parse_month(token)) {
            continue;
        }
        if year.is_none() {
            set(&mut year, number(token, 2, 4));
        }
    }
    let (hour, minute, second) = time?;
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    if year < 1601 {
        return None;
    }
    let (month, day) = (month?, i8::try_from(day?).ok()?);
    let date_time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    // The last day of the year 9999 exceeds the range of a timestamp.
    Some(Offset::UTC.to_timestamp(date_time).unwrap_or(Timestamp::MAX).as_second())
}

/// Stores the value. Returns whether there is one.
fn set<T>(target: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    *target = value;
    is_some
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~')
}

/// The number at the start of a token, if it has between `min_digits` and `max_digits` digits.
fn number(token: &[u8], min_digits: usize, max_digits: usize) -> Option<i16> {
    let digit_count = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(min_digits..=max_digits).contains(&digit_count) {
        return None;
    }
    let digits = token.get(..digit_count)?;
    Some(digits.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0')))
}

/// Hour, minute and second of a text such as `8:49:37`. Characters after the second are ignored.
fn parse_time(token: &[u8]) -> Option<(i8, i8, i8)> {
    let mut parts = token.splitn(3, |byte| *byte == b':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let exact_number = |part: &[u8]| number(part, 1, 2).filter(|_| part.len() <= 2);
    let up_to = |max: i16, number: Option<i16>| number.filter(|number| *number <= max)?.try_into().ok();
    Some((up_to(23, exact_number(hour))?, up_to(59, exact_number(minute))?, up_to(59, number(second, 1, 2))?))
}

fn parse_month(token: &[u8]) -> Option<i8> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let start = token.get(..3)?.to_ascii_lowercase();
    let index = MONTHS.iter().position(|month| *month == start)?;
    i8::try_from(index + 1).ok()
}

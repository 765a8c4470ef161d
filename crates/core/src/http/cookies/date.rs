//! Cookie dates, parsed with the lenient algorithm of RFC 6265bis, section 5.1.1. Neither `jiff` nor `httpdate`
//! implements it: tokens may come in any order, with any separators.

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
    let moment = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    // The last day of the year 9999 exceeds the range of a timestamp.
    Some(Offset::UTC.to_timestamp(moment).unwrap_or(Timestamp::MAX).as_second())
}

fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    *place = value;
    is_some
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~')
}

/// The number at the start of a token, if it has between `least` and `most` digits.
fn number(token: &[u8], least: usize, most: usize) -> Option<i16> {
    let count = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(least..=most).contains(&count) {
        return None;
    }
    let digits = token.get(..count)?;
    Some(digits.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0')))
}

/// `8:49:37`; further characters are ignored.
fn parse_time(token: &[u8]) -> Option<(i8, i8, i8)> {
    let mut parts = token.splitn(3, |byte| *byte == b':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = |part: &[u8]| number(part, 1, 2).filter(|_| part.len() <= 2);
    let part = |number: Option<i16>, most: i16| number.filter(|number| *number <= most)?.try_into().ok();
    Some((part(whole(hour), 23)?, part(whole(minute), 59)?, part(number(second, 1, 2), 59)?))
}

fn parse_month(token: &[u8]) -> Option<i8> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let start = token.get(..3)?.to_ascii_lowercase();
    let at = MONTHS.iter().position(|month| *month == start)?;
    i8::try_from(at + 1).ok()
}

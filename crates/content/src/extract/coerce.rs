//! Coercion of a field's text to a number or a date.

use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use serde_json::{Number, Value};

/// A number ends at the first separator after this many bytes of digits and separators.
const MAX_SEPARATED_BYTES: usize = 64;
/// Longer texts are not dates.
const MAX_DATE_BYTES: usize = 100;

/// The type of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Coercion {
    Text,
    /// The decimal separator, if the rule names one.
    Number(Option<char>),
    /// The format, if the rule names one.
    Date(Option<String>),
}

impl Coercion {
    /// The value of a text; `None` if it does not have this type.
    pub(super) fn apply(&self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(Value::String(text.to_owned())),
            Self::Number(decimal) => number(text, *decimal).map(Value::Number),
            Self::Date(format) => date(text, format.as_deref()).map(Value::String),
        }
    }
}

/// Parses the first number in a text: `1,299.00 EUR` and `1.299,00` are 1299.
///
/// If both a dot and a comma occur, the last one is the decimal separator. A comma before exactly three digits groups
/// thousands. A dot is the decimal separator unless it occurs more than once.
pub(super) fn number(text: &str, decimal: Option<char>) -> Option<Number> {
    let start = text.find(|next: char| next.is_ascii_digit())?;
    let is_separator = |next: char| matches!(next, '.' | ',' | '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}' | ' ');
    // The digits and separators of the number; grouping separators other than dots and commas become apostrophes.
    let mut run = String::new();
    let mut rest = text.get(start..)?.chars().peekable();
    while let Some(next) = rest.next() {
        if next.is_ascii_digit() {
            run.push(next);
        } else if is_separator(next) && rest.peek().is_some_and(char::is_ascii_digit) && run.len() < MAX_SEPARATED_BYTES
        {
            // A space groups exactly three digits: `5 000`, but not `3 50`.
            let digits = rest.clone().take_while(char::is_ascii_digit).count();
            if next.is_whitespace() && digits != 3 {
                break;
            }
            run.push(if matches!(next, '.' | ',') { next } else { '\'' });
        } else {
            break;
        }
    }
    let decimal = decimal.or_else(|| {
        let count = |wanted: char| run.chars().filter(|&next| next == wanted).count();
        match (run.rfind('.'), run.rfind(',')) {
            (Some(dot), Some(comma)) => Some(if dot > comma { '.' } else { ',' }),
            (Some(_), None) => (count('.') == 1).then_some('.'),
            (None, Some(comma)) => (count(',') == 1 && run.len() - comma - 1 != 3).then_some(','),
            (None, None) => None,
        }
    });
    let mut plain = String::with_capacity(run.len() + 1);
    let before = text.get(..start).unwrap_or("").trim_end_matches(|next: char| !matches!(next, '-' | '\u{2212}'));
    // A minus sign counts only if nothing but symbols (such as `€`) stands between it and the digits, and no letter or
    // digit stands directly before it (as in `A-5`).
    let between = text.get(before.len()..start).unwrap_or("");
    let is_negative = before.ends_with(['-', '\u{2212}'])
        && between.chars().all(|next| !next.is_alphanumeric() && !next.is_whitespace())
        && !before.trim_end_matches(['-', '\u{2212}']).ends_with(|next: char| next.is_alphanumeric());
    if is_negative {
        plain.push('-');
    }
    plain.extend(run.chars().filter_map(|next| match next {
        digit if digit.is_ascii_digit() => Some(digit),
        next if Some(next) == decimal => Some('.'),
        _ => None,
    }));
    if plain.contains('.') {
        return plain.parse::<f64>().ok().and_then(Number::from_f64);
    }
    plain.parse::<i64>().map(Number::from).ok().or_else(|| plain.parse::<f64>().ok().and_then(Number::from_f64))
}

/// Formats tried if the rule names none. In numeric dates with dots, the day comes first.
const DATES: &[&str] = &[
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d %B %Y",
    "%d %b %Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%B %d %Y",
    "%A, %B %d, %Y",
    "%A, %d %B %Y",
];

/// Formats with a time that are tried if the rule names none.
const DATE_TIMES: &[&str] =
    &["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%d %B %Y %H:%M", "%B %d, %Y %H:%M"];

/// Parses a date in any of the known formats, as [`date`].
pub(crate) fn date_of(text: &str) -> Option<String> {
    date(text, None)
}

/// Parses a date to `2026-03-01`, with the time if the text has one. A time with an offset is converted to UTC.
pub(super) fn date(text: &str, format: Option<&str>) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.as_str();
    if text.len() > MAX_DATE_BYTES {
        return None;
    }
    if let Some(format) = format {
        let parsed = strtime::parse(format, text).ok()?;
        if let Ok(stamp) = parsed.to_timestamp() {
            return Some(stamp.to_string());
        }
        let has_time = ["%H", "%I", "%T", "%R"].iter().any(|part| format.contains(part));
        return if has_time {
            parsed.to_datetime().ok().map(|time| time.to_string())
        } else {
            parsed.to_date().ok().map(|date| date.to_string())
        };
    }
    if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
        return Some(stamp.to_string());
    }
    if let Ok(zoned) = jiff::fmt::rfc2822::parse(text) {
        return Some(zoned.timestamp().to_string());
    }
    for format in DATE_TIMES {
        if let Ok(time) = DateTime::strptime(format, text) {
            return Some(time.to_string());
        }
    }
    if text.contains('T')
        && let Ok(time) = text.parse::<DateTime>()
    {
        return Some(time.to_string());
    }
    // `1st of March` becomes `1 March`, and `March 1st,` becomes `March 1,`.
    let plain: String = text.replace(" of ", " ");
    let words: Vec<String> = plain
        .split(' ')
        .map(|word| {
            let (bare, comma) = word.strip_suffix(',').map_or((word, ""), |bare| (bare, ","));
            let ordinal = ["st", "nd", "rd", "th"].iter().find_map(|suffix| bare.strip_suffix(suffix));
            match ordinal {
                Some(number) if number.chars().all(|next| next.is_ascii_digit()) => format!("{number}{comma}"),
                _ => word.to_owned(),
            }
        })
        .collect();
    let plain = words.join(" ");
    DATES.iter().find_map(|format| Date::strptime(format, &plain).ok()).map(|date| date.to_string())
}

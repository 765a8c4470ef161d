//! Value types of settings: durations, sizes, rates, names.
//!
//! Invariant: every type here reads and writes the same text on the command line, in a configuration file and in a
//! record. The message about an invalid text contains the right form, and also the text unless it may be a secret.

mod identity;
mod words;

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{self, Visitor};

pub use identity::{Bearer, Credentials, HeaderLine, Login, Resolve};
pub use words::{
    AssetsScope, DigestAlgorithm, EngineName, Follow, HttpVersion, Interact, Only, Pace, RenderMode, RobotsPolicy,
    ScopeKind, Soft404, TrapPolicy, WarcCompression, With,
};

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {form}")]
pub struct BadValue {
    /// What is wrong. It usually quotes the text.
    pub problem: String,
    /// The right form.
    pub form: &'static str,
}

impl BadValue {
    /// The error for a text with this problem.
    pub fn new(problem: impl Into<String>, form: &'static str) -> Self {
        Self { problem: problem.into(), form }
    }
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} {value:?}: {problem}")]
pub struct ConfigError {
    /// The key in a file; `--key` on the command line (except `roots`, which are arguments).
    pub key: &'static str,
    /// The value as given, shortened if it is long; empty if missing.
    pub value: String,
    /// What is wrong with it, and the right form.
    pub problem: String,
}

impl ConfigError {
    pub(crate) fn new(key: &'static str, value: impl ToString, problem: impl Into<String>) -> Self {
        Self { key, value: shortened(value.to_string()), problem: problem.into() }
    }
}

/// Limit on the characters of a value in a message. A line of an input file may have megabytes.
const MAX_SHOWN: usize = 200;

fn shortened(mut value: String) -> String {
    if let Some((end, _)) = value.char_indices().nth(MAX_SHOWN) {
        value.truncate(end);
        value.push('…');
    }
    value
}

/// Serializes a type as its text. Integers are accepted in place of text.
#[macro_export]
macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::base::value::read_text(deserializer)
            }
        }
    )*};
}

/// Reads a text, an integer, `true` or `false` in the form of its type.
pub fn read_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    struct Text<T>(PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
        fn visit_bool<E: de::Error>(self, is_set: bool) -> Result<T, E> {
            self.visit_str(if is_set { "true" } else { "false" })
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }
    deserializer.deserialize_any(Text(PhantomData))
}

as_text!(Span, Size, Rate, SinceDate, HeaderLine, Resolve, Credentials, Bearer);

/// A point in time: a date, which stands for its beginning in UTC, or a date and a time with an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinceDate(pub jiff::Timestamp);

impl FromStr for SinceDate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let is_date = text.len() == "2026-01-31".len();
        let beginning = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
        let time = if is_date { beginning().map(|beginning| beginning.timestamp()) } else { text.parse().ok() };
        let form = "write a date such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z";
        time.map(Self).ok_or_else(|| BadValue::new("this is not a date", form))
    }
}

impl fmt::Display for SinceDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.strip_suffix("T00:00:00Z").unwrap_or(&text))
    }
}

/// A duration: `500ms`, `0.5s`, `5m`, `1h`, `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    const FORM: &'static str = "write a number and its unit: 500ms, 0.5s, 5m, 1h";
    /// The name and the milliseconds of each unit.
    const UNITS: [(&'static str, u64); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    /// Longer than any crawl. The limit prevents overflow in sums.
    const MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

    /// A duration of this many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A duration of this many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl FromStr for Span {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |problem: String| BadValue::new(problem, Self::FORM);
        if text == "0" {
            return Ok(Self::default());
        }
        let mut rest = text;
        let mut total = Duration::ZERO;
        // An empty text enters the loop too, and fails there.
        while !rest.is_empty() || text.is_empty() {
            let (number, unit, after) =
                number_and_unit(rest).ok_or_else(|| bad(format!("{text:?} is not a duration")))?;
            if unit.is_empty() {
                return Err(bad(format!("{text:?} is a duration without a unit")));
            }
            let (_, millis) = Self::UNITS
                .into_iter()
                .find(|(name, _)| *name == unit)
                .ok_or_else(|| bad(format!("{text:?} is not a duration: the unit {unit:?} is unknown")))?;
            #[allow(clippy::cast_precision_loss)]
            let part = Duration::try_from_secs_f64(number * millis as f64 / 1_000.0).ok();
            total = part
                .and_then(|part| total.checked_add(part))
                .filter(|total| *total <= Self::MAX)
                .ok_or_else(|| bad(format!("{text:?} is longer than 100 years")))?;
            rest = after;
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("0s");
        }
        for (unit, millis) in Self::UNITS {
            let unit_nanos = u128::from(millis) * 1_000_000;
            if nanos.is_multiple_of(unit_nanos) {
                return write!(f, "{}{unit}", nanos / unit_nanos);
            }
        }
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// A number of bytes: `512`, `64K`, `10M`, `1G` (1K is 1024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    const FORM: &'static str = "write a number of bytes, or one with K, M or G: 512, 64K, 10M, 1G";
    /// The largest size. The limit prevents overflow in sums.
    const MAX: u64 = 1 << 60;
    /// The name and the bytes of each unit.
    const UNITS: [(&'static str, u64); 5] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];
}

impl FromStr for Size {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |problem: String| BadValue::new(problem, Self::FORM);
        let (number, unit, after) = number_and_unit(text).ok_or_else(|| bad(format!("{text:?} is not a size")))?;
        // `KB` and `KiB` mean the same as `K`.
        let letter = unit.strip_suffix(['b', 'B']).unwrap_or(unit);
        let letter = if letter.len() == 2 { letter.strip_suffix('i').unwrap_or(letter) } else { letter };
        let factor = Self::UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(letter));
        let Some((_, factor)) = factor.filter(|_| after.is_empty()) else {
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            return Err(bad(format!("{text:?} is not a size: the unit {unit:?} is unknown")));
        };
        #[allow(clippy::cast_precision_loss)]
        let bytes = number * factor as f64;
        #[allow(clippy::cast_precision_loss)]
        if bytes > Self::MAX as f64 {
            return Err(bad(format!("{text:?} is larger than any crawl can use")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in Self::UNITS {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// Pages over time: `10/s`, `0.5/s`, `30/m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Pages a second.
    pub per_second: f64,
}

impl FromStr for Rate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad =
            || BadValue::new(format!("{text:?} is not a rate"), "write pages a second, minute or hour: 10/s, 30/m");
        let (number, unit, after) = number_and_unit(text).ok_or_else(bad)?;
        let seconds = match (unit, after) {
            ("/", "s") => 1.0,
            ("/", "m") => 60.0,
            ("/", "h") => 3_600.0,
            _ => return Err(bad()),
        };
        let per_second = number / seconds;
        // Faster than any crawl. A number with very many digits would be infinite.
        if per_second > 0.0 && per_second <= 1e9 { Ok(Self { per_second }) } else { Err(bad()) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.per_second)
    }
}

/// A value for which a number without a unit has a meaning.
pub trait BareNumber: FromStr<Err = BadValue> {
    /// The unit that is meant.
    const UNIT: &'static str;

    /// Parses a value with its unit, or a number alone.
    fn from_number(text: &str) -> Result<Self, BadValue> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_number { format!("{text}{}", Self::UNIT).parse() } else { text.parse() }
    }
}

impl BareNumber for Span {
    const UNIT: &'static str = "s";
}

impl BareNumber for Rate {
    const UNIT: &'static str = "/s";
}

/// Reads a setting in which a number without a unit has a meaning.
pub(crate) fn bare_number<'de, D: Deserializer<'de>, T: BareNumber>(deserializer: D) -> Result<T, D::Error> {
    struct Text<T>(PhantomData<T>);
    impl<T: BareNumber> Visitor<'_> for Text<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a number")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            T::from_number(text).map_err(E::custom)
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
        fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }
    deserializer.deserialize_any(Text(PhantomData))
}

/// Like [`bare_number`], for a setting that may be absent.
pub(crate) fn optional_bare_number<'de, D: Deserializer<'de>, T: BareNumber>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    struct Maybe<T>(PhantomData<T>);
    impl<'de, T: BareNumber> Visitor<'de> for Maybe<T> {
        type Value = Option<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a number")
        }
        fn visit_none<E: de::Error>(self) -> Result<Option<T>, E> {
            Ok(None)
        }
        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
            bare_number(deserializer).map(Some)
        }
    }
    deserializer.deserialize_option(Maybe(PhantomData))
}

/// Splits the start of a text into a number, a unit (letters, or one `/`) and the rest: `1h30m` into 1, `h` and `30m`.
///
/// A number consists of digits and at most one point. It has no sign and no exponent.
fn number_and_unit(text: &str) -> Option<(f64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let unit = if rest.starts_with('/') {
        1
    } else {
        rest.find(|c: char| c.is_ascii_digit() || c == '.' || c == '/').unwrap_or(rest.len())
    };
    let (unit, after) = rest.split_at(unit);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return None;
    }
    Some((number.parse().ok()?, unit, after))
}

/// Defines an enum for a setting with a fixed set of values.
#[macro_export]
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The names of the values, in the order of `ALL`.
            pub const WORDS: &'static [&'static str] = &[$($text,)*];

            /// The name of the value.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::base::value::BadValue;

            fn from_str(text: &str) -> Result<Self, $crate::base::value::BadValue> {
                const FORM: &str = concat!("write one of:", $(" ", $text,)*);
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err($crate::base::value::BadValue::new(format!("{text:?} is not known"), FORM)),
                }
            }
        }

        $crate::as_text!($name);
    )*};
}

//! [`WarcHeader`]: the named fields before the block of a WARC record, as they are read. [`WarcTimes`]: one of them.

use std::fmt;
use std::time::Duration;

/// The field with the times of a response. It is an extension: the standard has only the time of the request.
pub(super) const TIMES_FIELD: &str = "Argiope-Times";

/// The header of a WARC record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarcHeader {
    fields: Vec<(Box<str>, Box<str>)>,
    length: u64,
}

impl WarcHeader {
    /// Reads a header: version, fields, and the empty line at the end. `None` if it is not a WARC header, or does not say
    /// how long the block is.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(header);
        let mut lines = text.lines();
        lines.next().filter(|version| version.starts_with("WARC/"))?;
        let mut fields: Vec<(Box<str>, Box<str>)> = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            fields.push((name.trim().into(), value.trim().into()));
        }
        let mut header = Self { fields, length: 0 };
        header.length = header.field("Content-Length")?.parse().ok()?;
        Some(header)
    }

    /// The first value of a field. The case of its name is ignored.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// A field that contains a URI or an id. Some programs write them in angle brackets.
    pub fn uri_field(&self, name: &str) -> Option<&str> {
        self.field(name).map(|value| value.trim_start_matches('<').trim_end_matches('>'))
    }

    /// The length of the block in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The times of the response, if the record has them.
    pub fn times(&self) -> Option<WarcTimes> {
        WarcTimes::parse(self.field(TIMES_FIELD)?)
    }
}

/// When a response arrived, counted from the start of the fetch, which is the date of its WARC record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarcTimes {
    /// When its first byte arrived.
    pub first: Duration,
    /// When it was complete.
    pub end: Duration,
}

impl WarcTimes {
    /// Reads the text that [`fmt::Display`] writes.
    fn parse(text: &str) -> Option<Self> {
        let (first, end) = text.split_once(", ")?;
        Some(Self { first: millis(first.strip_prefix("first=")?)?, end: millis(end.strip_prefix("end=")?)? })
    }
}

/// In milliseconds, such as `first=12.345, end=13.000`.
impl fmt::Display for WarcTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, end] = [self.first, self.end].map(|time| time.as_micros());
        write!(f, "first={}.{:03}, end={}.{:03}", first / 1_000, first % 1_000, end / 1_000, end % 1_000)
    }
}

/// Reads milliseconds with three decimals.
fn millis(text: &str) -> Option<Duration> {
    let (whole, decimals) = text.split_once('.').filter(|(_, decimals)| decimals.len() == 3)?;
    let micros = whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(decimals.parse::<u16>().ok()?.into())?;
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_its_fields_in_any_case() {
        let text =
            b"WARC/1.0\r\nwarc-type: response\r\nWARC-Target-URI: <http://a.example/>\r\ncontent-length: 7\r\n\r\n";
        let header = WarcHeader::parse(text).expect("a header");
        assert_eq!((header.field("WARC-Type"), header.length()), (Some("response"), 7));
        assert_eq!(header.uri_field("WARC-Target-URI"), Some("http://a.example/"));
        for other in [&b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"[..], b"WARC/1.1\r\nWARC-Type: x\r\n\r\n", b""] {
            assert_eq!(WarcHeader::parse(other), None);
        }
    }

    #[test]
    fn times_are_read_as_they_were_written() {
        let times = WarcTimes { first: Duration::from_micros(12_005), end: Duration::from_micros(3_000_000) };
        assert_eq!(times.to_string(), "first=12.005, end=3000.000");
        assert_eq!(WarcTimes::parse(&times.to_string()), Some(times));
        for other in
            ["first=1.000", "first=1, end=2", "first=-1.000, end=2.000", "first=99999999999999999999.000, end=0.000"]
        {
            assert_eq!(WarcTimes::parse(other), None, "{other}");
        }
    }
}

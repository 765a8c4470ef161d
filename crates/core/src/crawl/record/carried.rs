//! The record of a page whose status is 304. It repeats what the record of the last full response says about the page.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::base::escape::write_json;
use crate::crawl::warc::{WarcLocation, WarcPayload};

/// The fields that describe one exchange. All others describe the page.
const EXCHANGE_FIELDS: [&str; 21] = [
    "v",
    "type",
    "for",
    "url",
    "status",
    "outcome",
    "error",
    "redirect",
    "via",
    "depth",
    "tries",
    "bytes_wire",
    "new_links",
    "ms",
    "started",
    "ip",
    "http",
    "insecure",
    "etag",
    "last_modified",
    "headers",
];

/// Adds fields of an earlier record to `line`, which is a record with its line feed. The added fields are those that
/// describe the page and that `line` does not have.
pub fn add_missing_fields(line: &mut Vec<u8>, earlier_bytes: &[u8]) {
    let record = |bytes: &[u8]| serde_json::from_slice::<Map<String, Value>>(bytes).ok();
    let (Some(own), Some(mut earlier)) = (record(line), record(earlier_bytes)) else { return };
    if let Some(payload) = archived_body(earlier_bytes).and_then(|body| serde_json::to_value(body).ok())
        && let Some(Value::Object(warc)) = earlier.get_mut("warc")
    {
        // The new record has another start time than the archived response, so the record must name that response.
        warc.insert("payload".to_owned(), payload);
    }
    earlier.retain(|name, _| !own.contains_key(name) && !EXCHANGE_FIELDS.contains(&name.as_str()));
    let mut fields = Vec::new();
    if earlier.is_empty() || write_json(&mut fields, &earlier).is_err() || !line.ends_with(b"}\n") {
        return;
    }
    // Merge the two objects: `{a}` and `{b}` become `{a,b}`.
    line.truncate(line.len() - 2);
    line.push(b',');
    line.extend_from_slice(fields.get(1..).unwrap_or_default());
    line.push(b'\n');
}

/// Where the archive has the body that a record describes; `None` if the record does not say it.
pub fn archived_body(record: &[u8]) -> Option<WarcPayload> {
    #[derive(Deserialize)]
    struct Archived {
        url: Box<str>,
        status: Option<u16>,
        started: Box<str>,
        warc: Option<WarcLocation>,
    }
    let Archived { url, status, started, warc } = serde_json::from_slice(record).ok()?;
    let WarcLocation { file, offset, length, payload } = warc?;
    match payload {
        Some(payload) => Some(*payload),
        // The crawl that fetched the body had no archive.
        None if status == Some(304) => None,
        None => Some(WarcPayload { url, date: started, file, offset, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_describe_the_page_are_added() {
        let mut line = b"{\"v\":1,\"url\":\"http://h/\",\"status\":304,\"title\":\"new\"}\n".to_vec();
        let earlier =
            r#"{"v":1,"url":"http://h/","status":200,"title":"old","words":7,"ip":"::1","og":{"a":"\u001b"}}"#;
        add_missing_fields(&mut line, earlier.as_bytes());
        let text = String::from_utf8(line).expect("UTF-8");
        let expected = r#"{"v":1,"url":"http://h/","status":304,"title":"new","og":{"a":"\u001b"},"words":7}"#;
        assert_eq!(text, format!("{expected}\n"));
    }

    #[test]
    fn records_of_unchanged_pages_refer_to_the_archived_body() {
        let full = r#"{"url":"http://h/","status":200,"started":"D1","warc":{"file":"f","offset":1,"length":2}}"#;
        let mut second = b"{\"url\":\"http://h/\",\"status\":304,\"started\":\"D2\"}\n".to_vec();
        add_missing_fields(&mut second, full.as_bytes());
        let mut third = b"{\"url\":\"http://h/\",\"status\":304,\"started\":\"D3\"}\n".to_vec();
        add_missing_fields(&mut third, &second);
        let body = archived_body(full.as_bytes()).expect("an archived body");
        assert_eq!((&*body.url, &*body.date, &*body.file, body.offset, body.length), ("http://h/", "D1", "f", 1, 2));
        assert_eq!(archived_body(&second), Some(body.clone()));
        assert_eq!(archived_body(&third), Some(body));
        let without_body =
            br#"{"url":"http://h/","status":304,"started":"D","warc":{"file":"f","offset":1,"length":2}}"#;
        assert_eq!(archived_body(without_body), None);
    }

    #[test]
    fn unreadable_records_and_records_without_other_fields_add_nothing() {
        for (line, earlier) in [("{}", "{}"), ("{\"a\":1}\n", "nothing"), ("{\"a\":1}\n", "{\"a\":2}")] {
            let mut bytes = line.as_bytes().to_vec();
            add_missing_fields(&mut bytes, earlier.as_bytes());
            assert_eq!(bytes, line.as_bytes());
        }
    }
}

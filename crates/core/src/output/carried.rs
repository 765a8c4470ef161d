//! The record of a page with status 304: the facts of the last full response stay.

use serde_json::{Map, Value};

use crate::output::escape::write_json;

/// The fields that belong to one exchange. All others describe the page.
const OF_EXCHANGE: [&str; 21] = [
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

/// Adds to a record, which ends with a line feed, the fields of an earlier one that it lacks and that describe the page.
pub fn add(line: &mut Vec<u8>, earlier: &[u8]) {
    let record = |bytes: &[u8]| serde_json::from_slice::<Map<String, Value>>(bytes).ok();
    let (Some(own), Some(mut earlier)) = (record(line), record(earlier)) else { return };
    earlier.retain(|name, _| !own.contains_key(name) && !OF_EXCHANGE.contains(&name.as_str()));
    let mut fields = Vec::new();
    if earlier.is_empty() || write_json(&mut fields, &earlier).is_err() || !line.ends_with(b"}\n") {
        return;
    }
    // Both are objects: `{...}` and `{...}` become `{...,...}`.
    line.truncate(line.len() - 2);
    line.push(b',');
    line.extend_from_slice(fields.get(1..).unwrap_or_default());
    line.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_the_page_stays() {
        let mut line = b"{\"v\":1,\"url\":\"http://h/\",\"status\":304,\"title\":\"new\"}\n".to_vec();
        let earlier =
            r#"{"v":1,"url":"http://h/","status":200,"title":"old","words":7,"ip":"::1","og":{"a":"\u001b"}}"#;
        add(&mut line, earlier.as_bytes());
        let text = String::from_utf8(line).expect("UTF-8");
        let expected = r#"{"v":1,"url":"http://h/","status":304,"title":"new","og":{"a":"\u001b"},"words":7}"#;
        assert_eq!(text, format!("{expected}\n"));
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        for (line, earlier) in [("{}", "{}"), ("{\"a\":1}\n", "nothing"), ("{\"a\":1}\n", "{\"a\":2}")] {
            let mut bytes = line.as_bytes().to_vec();
            add(&mut bytes, earlier.as_bytes());
            assert_eq!(bytes, line.as_bytes());
        }
    }
}

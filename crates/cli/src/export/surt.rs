//! SURT (Sort-friendly URI Reordering Transform): the sort key for URLs in indexes of web archives.
//!
//! The host comes first, from the top-level domain down, so that the pages of a domain are adjacent:
//! `https://www.example.com/A?y&x` becomes `com,example)/a?x&y`. Differences that rarely distinguish pages are removed:
//! scheme, `www.`, case, the order of query parameters, session ids. The rules follow the Internet Archive's tools,
//! because writers and readers of an index must agree on the key.

use std::sync::LazyLock;

use argiope_core::UrlRef;
use regex::bytes::Regex;

/// Patterns of session ids in queries. The groups 1 and 2 are the text before and after the id.
static QUERY_SESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        "jsessionid=[0-9a-zA-Z]{32}",
        "phpsessid=[0-9a-zA-Z]{32}",
        "sid=[0-9a-zA-Z]{32}",
        "ASPSESSIONID[a-zA-Z]{8}=[a-zA-Z]{24}",
        "cfid=[^&]+&cftoken=[^&]+",
    ]
    .iter()
    .filter_map(|id| Regex::new(&format!("(?i-u)^(.*)(?:{id})(?:&(.*))?$")).ok())
    .collect()
});

/// Patterns of session ids in paths, with the same groups.
static PATH_SESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [r"\((?:[a-z]\([0-9a-z]{24}\))+\)/", r"\([0-9a-z]{24}\)/"]
        .iter()
        .filter_map(|id| Regex::new(&format!(r"(?i-u)^(.*/)(?:{id})([^\?]+\.aspx.*)$")).ok())
        .collect()
});

/// The sort key of a URL.
pub fn surt(url: UrlRef<'_>) -> String {
    let host = url.host();
    let after_www = host.strip_prefix("www").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let host = after_www.and_then(|rest| rest.strip_prefix('.')).unwrap_or(host);
    let mut key = host.split('.').rev().collect::<Vec<_>>().join(",");
    let default_port = if url.is_https() { 443 } else { 80 };
    if url.port() != default_port {
        key.push_str(&format!(":{}", url.port()));
    }
    key.push(')');
    let target = url.target();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut path = escape(&merge_slashes(&unescape(path.as_bytes()))).to_ascii_lowercase();
    for session in PATH_SESSIONS.iter() {
        path = remove_session(session, path);
    }
    if path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    key.push_str(&String::from_utf8_lossy(&path));
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        let mut query = escape(&unescape(query.as_bytes()));
        for session in QUERY_SESSIONS.iter() {
            query = remove_session(session, query);
        }
        let query = query.to_ascii_lowercase();
        let mut parts: Vec<(&[u8], Option<&[u8]>)> = query
            .split(|byte| *byte == b'&')
            .map(|part| match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (part.get(..at).unwrap_or_default(), part.get(at + 1..)),
                None => (part, None),
            })
            .collect();
        parts.sort_unstable();
        let parts: Vec<Vec<u8>> = parts
            .iter()
            .map(|(name, value)| [*name, value.map_or(b"", |_| b"="), value.unwrap_or(b"")].concat())
            .collect();
        let query = parts.join(&b'&');
        if !query.is_empty() {
            key.push('?');
            key.push_str(&String::from_utf8_lossy(&query));
        }
    }
    key
}

/// Removes the session id that the pattern matches, if any.
fn remove_session(session: &Regex, text: Vec<u8>) -> Vec<u8> {
    let Some(found) = session.captures(&text) else { return text };
    let part = |number| found.get(number).map_or(&b""[..], |part| part.as_bytes());
    [part(1), part(2)].concat()
}

/// Replaces each sequence of slashes by one.
fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    for byte in path {
        if *byte != b'/' || out.last() != Some(&b'/') {
            out.push(*byte);
        }
    }
    out
}

/// Decodes percent escapes repeatedly until none are left.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    loop {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some((first, tail)) = rest.split_first() {
            let escaped = match tail {
                [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
                _ => None,
            };
            match escaped {
                Some((high, low)) => {
                    out.push(high << 4 | low);
                    rest = tail.get(2..).unwrap_or_default();
                }
                None => {
                    out.push(*first);
                    rest = tail;
                }
            }
        }
        if out == text {
            return out;
        }
        text = out;
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Percent-encodes space, `#`, `%` and everything outside of printable ASCII.
fn escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'!'..=b'~' if !b"#%".contains(byte) => out.push(*byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::Url;

    #[test]
    fn keys_are_those_of_the_internet_archive() {
        for (url, key) in [
            ("http://example.com/", "com,example)/"),
            ("https://www.Example.com/Path/?B=2&a=1", "com,example)/path?a=1&b=2"),
            ("http://www3.example.co.uk:8080/x/", "uk,co,example:8080)/x"),
            ("http://127.0.0.1:4/a%2Fb", "1,0,0,127:4)/a/b"),
            ("http://e.com/%25%34%31b//c", "com,e)/ab/c"),
            ("http://e.com/?", "com,e)/"),
            ("http://e.com/%C3%A9?q=%C3%A9 x", "com,e)/%c3%a9?q=%c3%a9%20x"),
            ("http://e.com/?phpsessid=0123456789abcdef0123456789abcdef&x=1", "com,e)/?x=1"),
            ("http://e.com/?a&b=&a=0", "com,e)/?a&a=0&b="),
            ("http://wwwe.com/", "com,wwwe)/"),
        ] {
            assert_eq!(surt(Url::parse(url).unwrap().as_ref()), key, "{url}");
        }
    }
}

//! Properties of the cookie jar: it stays within its limits, and each host gets only cookies of its site.

use argiope_core::Url;
use argiope_core::http::cookies::{CookieJar, SetCookie, parse_date};

use super::split_control;

const NOW: i64 = 1_800_000_000;
/// Pages that set cookies. The first two hosts are of one site, and so are the last two. All others are of different
/// sites.
const PAGES: [&str; 8] = [
    "https://example.org/a/b",
    "http://www.example.org/",
    "http://notexample.org/a",
    "https://x.co.uk/",
    "http://co.uk/a/b/c",
    "http://127.0.0.1/",
    "https://a.github.io/",
    "http://a.github.io./a",
];

/// Stores each line of the input as a `Set-Cookie` value. The last 16 bytes select the page that sets each cookie.
pub fn cookies(data: &[u8]) {
    let (lines, control) = split_control(data, 16);
    let mut jar = CookieJar::default();
    let urls = PAGES.map(|page| Url::parse(page).expect("a valid URL"));
    for (number, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        let _ = parse_date(line);
        let Some(cookie) = SetCookie::parse(line) else { continue };
        let page = usize::from(control.get(number % 16).copied().unwrap_or(number as u8)) % PAGES.len();
        let before = jar.clone();
        let is_new = jar.store(&cookie, urls[page].as_ref(), NOW);
        assert!(!jar.store(&cookie, urls[page].as_ref(), NOW), "storing the same cookie again changes nothing");
        for (other, url) in urls.iter().enumerate() {
            let is_same_site = other == page || (other < 2 && page < 2) || (other > 5 && page > 5);
            let (old, new) = (before.clone().header(url.as_ref(), NOW), jar.clone().header(url.as_ref(), NOW));
            assert!(is_same_site || old == new, "{} has changed the cookies of {}", PAGES[page], PAGES[other]);
            assert!(
                is_new || other != page || old == new || new.is_none() || old.is_some(),
                "a cookie that is not new adds no header"
            );
            let Some(header) = new else { continue };
            let bytes = header.as_bytes();
            assert!(bytes.len() <= 8_182, "{} bytes", bytes.len());
            let has_control = bytes.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
            assert!(!has_control, "a header has no control characters");
        }
    }
    assert!(jar.len() <= 50 * PAGES.len());
    let _ = CookieJar::from_netscape(lines, NOW);
}

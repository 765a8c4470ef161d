//! URLs: the web platform tests, the crawler-commons normalizer, the public suffix list.

use argiope_core::Url;
use argiope_core::base::url::registrable_domain;
use serde_json::Value;

use crate::tally::{Deviations, Tally};
use crate::{cases, read, text};

const WPT_DEVIATIONS: Deviations = &[(
    "an invalid punycode label cannot be looked up and is refused, as the vectors for private addresses require for \
     `http://xn--/`",
    &[
        "http://a.b.c.xn--pokxncvks",
        "http://10.0.0.xn--pokxncvks",
        "http://a.b.c.XN--pokxncvks",
        "http://a.b.c.Xn--pokxncvks",
        "http://10.0.0.XN--pokxncvks",
        "http://10.0.0.xN--pokxncvks",
        "https://xn--/",
    ],
)];

#[test]
#[ignore = "needs vectors/wpt_url"]
fn wpt_urltestdata() {
    wpt();
}

/// Every http or https URL must be normalized as the standard says, without fragment and user information. Every other
/// input must be refused.
pub fn wpt() -> Tally {
    let vectors = read("wpt_url/urltestdata.json");
    let mut tally = Tally::new("wpt_url/urltestdata.json", WPT_DEVIATIONS);
    for case in vectors.as_array().unwrap().iter().filter(|case| case.is_object()) {
        let input = text(case, "input");
        let got = match case["base"].as_str() {
            None => Url::parse(input),
            Some(base) => match Url::parse(base) {
                Ok(base) => base.join(input),
                // The base is neither http nor https, so only an absolute URL can be accepted.
                Err(_) => Url::parse(input),
            },
        };
        tally.case(input, got.ok().map(|url| url.to_string()), expected(case));
    }
    tally.finish(891)
}

/// The expected URL of a case without fragment and user information; `None` if it is neither http nor https.
fn expected(case: &Value) -> Option<String> {
    let href = case["href"].as_str().filter(|_| matches!(case["protocol"].as_str(), Some("http:" | "https:")))?;
    let (scheme, rest) = href.split_once("//")?;
    let rest = rest.split('#').next()?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let host = authority.rsplit('@').next()?;
    Some(format!("{scheme}//{host}{target}"))
}

const COMMONS_DEVIATIONS: Deviations = &[
    (
        "percent-encoded bytes stay as written: a server may distinguish `%66` from `f`, and `%2f` from `%2F`",
        &[
            "http://foo.com/%66oo.html",
            "http://foo.com/%66oo.htm%6c",
            "http://foo.com/%66oo.ht%6dl",
            "http://foo.com/%66oo.ht%6d%6c",
            "http://foo.com/%66oo.htm%C0",
            "http://foo.com/%66oo.htm%1A",
            "http://foo.com/%66oo.htm%c0",
            "https://www.example.com/search/%2a/",
            "https://www.example.com/topic/9%2f11/",
            "http://foo.com/fast/dir%2fcz",
            "http://x.com/./a/../%66.html",
            "http://x.com/foo%c2%80",
        ],
    ),
    (
        "characters that the URL standard does not encode are not encoded, including a single `%`, as in browsers",
        &[
            "http://x.com/?x[y]=1",
            "https://www.last.fm/music/Prefuse+73/_/90%+of+My+Mind+Is+With+You",
            "http://www.example.com/a/c/../b/search?q=foobar%",
            "http://www.example.com/a/c/../b/search?q=foobar^",
            "http://www.example.com/a/c/../b/search?q=foobar`",
            "http://www.example.com/a/c/../b/search?q=foobar|",
            "http://www.example.com/p%zz%77%v",
            "http://www.example.com/search?q=foobar%",
            "http://www.example.com/search?q=foobar%2",
        ],
    ),
    (
        "consecutive slashes stay, because many servers treat them as a different path",
        &[
            "http://foo.com//aa/bb/foo.html",
            "http://foo.com/aa//bb/foo.html",
            "http://foo.com/aa/bb//foo.html",
            "http://foo.com//aa//bb//foo.html",
            "http://foo.com////aa////bb//foo.html",
            "http://foo.com////aa////bb////foo.html",
        ],
    ),
    (
        "queries are not changed: their order, empty values, empty pairs and a trailing `?` may matter",
        &[
            "http://example.com?",
            "http://example.com/?",
            "http://example.com/?b=1&a=1",
            "http://foo.com/foo.html?b=1&a=1",
            "http://foo.com/index?b=2&a=1",
            "http://foo.com/index?b=2&a=1#c",
            "http://foo.com/index?a=1&b=",
            "http://foo.com/index?b&a=1",
            "http://foo.com/index?b=&a=1",
            "http://foo.com/index?b=1&a=1&",
            "http://foo.com/index?&b=1&a=1",
            "http://foo.com/index?&=1&a=1",
            "http://foo.com/index?=1&b=1&a=1",
        ],
    ),
    ("a host with a trailing dot is a different name for servers and certificates", &["https://www.example.org./"]),
    (
        "only http and https URLs are accepted",
        &[
            "file:///foo/bar.txt",
            "ftp:/",
            "ftp://foo.com/index.html",
            "file:/path/index.html",
            "file:/var/www/html/////./bar/index.html",
            "file:/var/www/html/foo/../bar/index.html",
            "//server/file at file:///tmp/mock/path",
        ],
    ),
    ("a URL without a host is refused", &["http:////", "http:///////"]),
    ("a missing scheme is added only to URLs on the command line (https, then http)", &["foo.com/index.html"]),
    (
        "fragments and user information are removed",
        &[
            "http://user:pass@foo:21/bar;par?b#c at http://example.org/foo/bar",
            "#right-menu at https://example.org/product/red-table",
        ],
    ),
    (
        "the input of this case contains the quotes of the original CSV file",
        &["\"http://www.example.com/a/c/../b/search?q=foobar\"\"\""],
    ),
];

#[test]
#[ignore = "needs vectors/crawler_commons_urls.json"]
fn crawler_commons_urls() {
    commons();
}

pub fn commons() -> Tally {
    let vectors = read("crawler_commons_urls.json");
    let mut tally = Tally::new("crawler_commons_urls.json", COMMONS_DEVIATIONS);
    let normal = |text: &str| Url::parse(text).ok().map(|url| url.to_string());
    for case in cases(&vectors, "normalize") {
        tally.case(text(case, "in"), normal(text(case, "in")).as_deref(), case["out"].as_str());
    }
    for case in cases(&vectors, "invalid") {
        tally.case(case.as_str().unwrap(), normal(case.as_str().unwrap()), None);
    }
    for line in text(&vectors, "resolve_csv_raw").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.splitn(3, ',').map(|field| field.trim().trim_matches('"')).collect();
        let [input, base, expected] = fields[..] else { panic!("{line}") };
        let got = if base.is_empty() { Url::parse(input) } else { Url::parse(base).and_then(|base| base.join(input)) };
        tally.case(&format!("{input} at {base}"), got.ok().map(|url| url.to_string()).as_deref(), Some(expected));
    }
    tally.finish(136)
}

#[test]
#[ignore = "needs vectors/publicsuffix.json"]
fn publicsuffix() {
    psl();
}

pub fn psl() -> Tally {
    let vectors = read("publicsuffix.json");
    let mut tally = Tally::new("publicsuffix.json", &[]);
    for case in cases(&vectors, "cases") {
        let host = case["input"].as_str().unwrap_or("");
        // Names reach the list as a URL's host: lower case, in punycode. Text that is not a host has no domain.
        let url = Url::parse(&format!("http://{host}/"));
        let got = url.as_ref().ok().filter(|_| !host.starts_with('.')).and_then(|url| registrable_domain(url.host()));
        let expected = case["registrable_domain"].as_str().map(|name| Url::parse(&format!("http://{name}/")).unwrap());
        tally.case(text(case, "id"), got, expected.as_ref().map(Url::host));
    }
    tally.finish(78)
}

const TOASCII_DEVIATIONS: Deviations = &[(
    "an invalid punycode label is refused (see urltestdata.json)",
    &["xn--a", "xn--a.xn--zca", "xn--ls8h=", "xn--1ug.example", "xn--a-yoc", "xn--zn7c.com", "xn--0.com"],
)];

#[test]
#[ignore = "needs vectors/wpt_url"]
fn wpt_toascii() {
    toascii();
}

/// Names as hosts of a URL: in ASCII, or refused.
pub fn toascii() -> Tally {
    let vectors = read("wpt_url/toascii.json");
    let mut tally = Tally::new("wpt_url/toascii.json", TOASCII_DEVIATIONS);
    for case in vectors.as_array().unwrap().iter().filter(|case| case.is_object()) {
        let url = Url::parse(&format!("https://{}/x", text(case, "input"))).ok();
        tally.case(text(case, "input"), url.as_ref().map(Url::host), case["output"].as_str());
    }
    tally.finish(87)
}

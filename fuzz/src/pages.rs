//! Properties of URLs and pages: URLs are compared with the crate `url`. Pages are examined as in a crawl.

use std::sync::Arc;

use argiope_core::base::value::DigestAlgorithm;
use argiope_core::page::examine::{ExamineLimits, Examiner, Findings};
use argiope_core::{Url, UrlRef};

use super::{piece_size, split_control};

/// Base URLs of pages.
const BASES: [&str; 6] = [
    "http://h/",
    "https://example.com:8080/a/b/c.html?q=1",
    "http://1.2.3.4/C:/x",
    "http://[::1]/a//b/",
    "https://xn--bcher-kva.example/%7Ea/%2e%2e?x",
    "http://a.b.c/d;e/f?g=h&i",
];

/// Parsing the normal form of a URL gives the same URL. A link in a page resolves to the same URL as with
/// [`Url::join`].
pub fn url(data: &[u8]) {
    let (href, control) = split_control(data, 1);
    let href = String::from_utf8_lossy(href);
    let base = BASES[usize::from(control.first().copied().unwrap_or(0)) % BASES.len()];
    let Ok(base) = Url::parse(base) else { return };
    if let Ok(absolute) = Url::parse(&href) {
        check(&absolute);
    }
    let joined = base.join(&href).ok();
    if let Some(joined) = &joined {
        check(joined);
    }
    if href.len() < 2_000 {
        // Characters that have a meaning in HTML are written as character references. A page cannot contain NUL and CR
        // unchanged, so these inputs are skipped.
        let mut page = String::from("<meta charset=utf-8><a href=\"");
        for c in href.chars() {
            match c {
                '&' | '"' | '<' => page.push_str(&format!("&#{};", u32::from(c))),
                '\0' | '\r' => return,
                c => page.push(c),
            }
        }
        page.push_str("\">");
        let findings = examine(&base, b"text/html", &[page.as_bytes()]);
        let links: Vec<&str> = findings.links.iter().map(|link| link.url.as_str()).collect();
        let expected: Vec<&str> =
            joined.iter().map(Url::as_str).filter(|text| text.len() <= limits().max_url).collect();
        assert_eq!(links, expected, "{href:?} at {base}");
    }
}

/// Checks that a URL is in normal form, and that the crate `url` finds the same parts.
fn check(url: &Url) {
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(url), "the normal form is parsed to the same URL");
    let borrowed = UrlRef::from_normal(url.as_str()).map(UrlRef::to_url);
    assert_eq!(borrowed.as_ref(), Some(url));
    let parsed = url::Url::parse(url.as_str()).ok();
    let parsed = parsed.as_ref();
    assert_eq!(parsed.and_then(url::Url::host_str), Some(url.host()));
    assert_eq!(parsed.and_then(url::Url::port_or_known_default), Some(url.port()));
    assert_eq!(parsed.map(url::Url::path), Some(url.path()));
    assert_eq!(parsed.and_then(url::Url::query), url.query());
    assert!(parsed.is_some_and(|parsed| parsed.fragment().is_none() && parsed.username().is_empty()));
}

/// Any bytes as a page: the charset and the findings are the same for every split into pieces.
pub fn charset(data: &[u8]) {
    const TYPES: [&[u8]; 8] = [
        b"text/html",
        b"text/html; charset=shift_jis",
        b"text/html; charset=utf-16le",
        b"text/html; charset=iso-2022-jp",
        b"text/html; charset=nonsense",
        b"application/xhtml+xml",
        b"text/plain",
        b"",
    ];
    let (body, control) = split_control(data, 2);
    let Ok(page) = Url::parse("http://h.example/a/b") else { return };
    let content_type = TYPES[usize::from(control.last().copied().unwrap_or(0)) % TYPES.len()];
    let at_once = examine(&page, content_type, &[body]);
    let pieces: Vec<&[u8]> = body.chunks(piece_size(control)).collect();
    let in_pieces = examine(&page, content_type, &pieces);
    assert_eq!(at_once.charset, in_pieces.charset);
    assert_eq!(at_once.title, in_pieces.title);
    assert_eq!((&at_once.links, at_once.directives), (&in_pieces.links, in_pieces.directives));
    assert_eq!((&at_once.canonical, &at_once.hreflang), (&in_pieces.canonical, &in_pieces.hreflang));
    assert_eq!(at_once.digest, in_pieces.digest);
    for link in at_once.links.iter() {
        assert!(Url::parse(link.url.as_str()).is_ok_and(|url| url.as_str() == link.url.as_str()));
    }
}

fn limits() -> ExamineLimits {
    ExamineLimits {
        max_links: 200,
        max_url: 4096,
        max_attrs: 50,
        agent: Arc::from("argiope"),
        assets: true,
        anchors: true,
        digest: DigestAlgorithm::Xxh3,
    }
}

fn examine(page: &Url, content_type: &[u8], pieces: &[&[u8]]) -> Findings {
    let mut examiner = Examiner::new(page, Some(content_type), limits());
    pieces.iter().for_each(|piece| examiner.feed(piece));
    examiner.finish()
}

//! Pages: compares URLs with the crate `url`, and checks charsets, with the same examiner as a crawl.

use std::sync::Arc;

use argiope_core::page::examine::{ExamineLimits, Examiner, Findings};
use argiope_core::{Url, UrlRef};

use super::{piece, steered};

/// Base URLs.
const BASES: [&str; 6] = [
    "http://h/",
    "https://example.com:8080/a/b/c.html?q=1",
    "http://1.2.3.4/C:/x",
    "http://[::1]/a//b/",
    "https://xn--bcher-kva.example/%7Ea/%2e%2e?x",
    "http://a.b.c/d;e/f?g=h&i",
];

/// The normal form of a URL is stable, and links in pages resolve like with [`Url::join`], on the fast path and on the
/// slow one.
pub fn url(data: &[u8]) {
    let (href, steer) = steered(data, 1);
    let href = String::from_utf8_lossy(href);
    let base = BASES[usize::from(steer.first().copied().unwrap_or(0)) % BASES.len()];
    let Ok(base) = Url::parse(base) else { return };
    if let Ok(absolute) = Url::parse(&href) {
        check(&absolute);
    }
    let joined = base.join(&href).ok();
    if let Some(joined) = &joined {
        check(joined);
    }
    if href.len() < 2_000 {
        // Characters with a meaning in attribute values are written as character references.
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
        let expected: Vec<&str> = joined.iter().map(Url::as_str).filter(|text| text.len() <= caps().max_url).collect();
        assert_eq!(links, expected, "{href:?} at {base}");
    }
}

/// Checks that a URL is in normal form, and that the crate `url` sees the same parts.
fn check(url: &Url) {
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(url), "normal form is stable");
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
    let (body, steer) = steered(data, 2);
    let Ok(page) = Url::parse("http://h.example/a/b") else { return };
    let kind = TYPES[usize::from(steer.last().copied().unwrap_or(0)) % TYPES.len()];
    let whole = examine(&page, kind, &[body]);
    let pieces: Vec<&[u8]> = body.chunks(piece(steer)).collect();
    let cut = examine(&page, kind, &pieces);
    assert_eq!(whole.charset, cut.charset);
    assert_eq!((&whole.title, &whole.links, whole.directives), (&cut.title, &cut.links, cut.directives));
    assert_eq!((&whole.canonical, &whole.hreflang, whole.digest), (&cut.canonical, &cut.hreflang, cut.digest));
    for link in whole.links.iter() {
        assert!(Url::parse(link.url.as_str()).is_ok_and(|url| url.as_str() == link.url.as_str()));
    }
}

fn caps() -> ExamineLimits {
    ExamineLimits {
        max_links: 200,
        max_url: 4096,
        max_attrs: 50,
        agent: Arc::from("argiope"),
        assets: true,
        anchors: true,
    }
}

fn examine(page: &Url, kind: &[u8], pieces: &[&[u8]]) -> Findings {
    let mut examiner = Examiner::new(page, Some(kind), caps());
    pieces.iter().for_each(|piece| examiner.feed(piece));
    examiner.finish()
}

//! crawler-commons' tests of sitemaps and feeds.

use argiope_core::Url;
use argiope_core::page::sitemap::{
    Sitemap, SitemapBounds, SitemapEntry, SitemapFormat, SitemapReach, SitemapReader, parse_date,
};
use serde_json::Value;

use crate::tally::{Deviations, Tally};
use crate::{bytes, cases, read, text};

const DEVIATIONS: Deviations = &[("namespaces are often wrong in practice, so they are not checked", &["sm05"])];

#[test]
#[ignore = "needs vectors/crawler_commons_sitemaps.json"]
fn crawler_commons_sitemaps() {
    commons();
}

pub fn commons() -> Tally {
    let vectors = read("crawler_commons_sitemaps.json");
    let mut tally = Tally::new("crawler_commons_sitemaps.json", DEVIATIONS);
    for case in cases(&vectors, "cases") {
        tally.case(text(case, "id"), document(case), Ok(()));
    }
    for case in cases(&vectors, "location_validity") {
        let bounds = SitemapBounds { reach: SitemapReach::Directory, ..SitemapBounds::default() };
        let admitted = bounds.admits(&url(text(case, "sitemap")), &url(text(case, "url")));
        tally.case("location", Some(admitted), case["valid"].as_bool());
    }
    for case in cases(&vectors, "cross_submit") {
        let reach = if text(case, "level") == "host" { SitemapReach::Host } else { SitemapReach::Domain };
        let naming_hosts = cases(case, "announced_in").iter().map(|host| host.as_str().unwrap().into()).collect();
        let mut reader = SitemapReader::new(
            &url(text(case, "sitemap")),
            SitemapBounds { reach, naming_hosts, ..SitemapBounds::default() },
        );
        for page in cases(case, "urls") {
            reader.feed(page.as_str().unwrap().as_bytes());
            reader.feed(b"\n");
        }
        tally.case("cross submit", Some(reader.finish().entries.len() as u64), case["kept"].as_u64());
    }
    for (part, id) in [("w3c_dates", "W3C date"), ("rss_dates", "RSS date")] {
        for case in cases(&vectors, part) {
            tally.case(id, parse_date(text(case, "in")), case["utc"].as_str().and_then(parse_date));
        }
    }
    for case in cases(&vectors, "priority") {
        let document =
            format!("<urlset><url><loc>http://a/</loc><priority>{}</priority></url></urlset>", text(case, "in"));
        let sitemap = read_whole("http://a/sitemap.xml", document.as_bytes(), SitemapBounds::default());
        tally.case("priority", priority(&sitemap.entries[0]), case["priority"].as_f64());
    }
    tally.finish(86)
}

/// Compares one document with its expected contents. The error names the difference.
fn document(case: &Value) -> Result<(), String> {
    let (options, expect) = (&case["options"], &case["expect"]);
    let sitemap_url = text(case, "sitemap_url");
    let reach = if options["strict_location"] == true { SitemapReach::Directory } else { SitemapReach::Any };
    let sitemap = read_whole(sitemap_url, &bytes(case, "content"), SitemapBounds { reach, ..SitemapBounds::default() });
    let check_that = |what: &str, is_right: bool| if is_right { Ok(()) } else { Err(format!("{what}: {sitemap:?}")) };
    let list = if sitemap.format == Some(SitemapFormat::Index) { &sitemap.children } else { &sitemap.entries };
    let find = |loc: &str| list.iter().find(|entry| entry.url.as_str() == loc);

    let kind = match sitemap.format {
        _ if text(expect, "kind") == "error" && sitemap.fault.is_some() => "error",
        Some(SitemapFormat::UrlSet) => "urlset",
        Some(SitemapFormat::Index) => "index",
        Some(SitemapFormat::Rss) => "rss",
        Some(SitemapFormat::Atom) => "atom",
        Some(SitemapFormat::Text) => "text",
        None => "none",
    };
    check_that("kind", kind == text(expect, "kind"))?;
    if kind == "error" {
        return Ok(());
    }
    for (key, expected) in expect.as_object().unwrap() {
        let is_right = match key.as_str() {
            "count" => Some(list.len() as u64) == expected.as_u64(),
            "url_elements" => Some(list.len() as u64 + u64::from(sitemap.skipped)) == expected.as_u64(),
            "urls" | "sitemaps" => {
                let entries = expected.as_array().unwrap();
                entries.len() == list.len()
                    && entries.iter().zip(list).all(|(expected, entry)| is_same(expected, entry))
            }
            "contains" => expected.as_array().unwrap().iter().all(|loc| find(loc.as_str().unwrap()).is_some()),
            "lastmod_null" => {
                let mut locs = expected.as_array().unwrap().iter();
                locs.all(|loc| find(loc.as_str().unwrap()).is_some_and(|entry| entry.lastmod.is_none()))
            }
            "truncated" => sitemap.fault.is_some(),
            "flagged_invalid" => {
                let strict = SitemapBounds { reach: SitemapReach::Directory, ..SitemapBounds::default() };
                let outside = list.iter().filter(|entry| !strict.admits(&url(sitemap_url), &entry.url)).count();
                Some(outside as u64) == expected.as_u64()
            }
            "first_changefreq" => changefreq(&list[0]) == expected.as_str().map(str::to_owned),
            "feed_lastmod_ms" => sitemap.lastmod.map(|date| date.as_millisecond()) == expected.as_i64(),
            // Nothing to test for `must_not_read`: the parser cannot open files.
            "kind" | "must_not_read" | "why" => true,
            _ => panic!("unknown expectation {key}"),
        };
        check_that(key, is_right)?;
    }
    Ok(())
}

fn is_same(expected: &Value, entry: &SitemapEntry) -> bool {
    expected.as_object().unwrap().iter().all(|(key, value)| match key.as_str() {
        "loc" => Some(entry.url.as_str()) == value.as_str(),
        "lastmod" => entry.lastmod == value.as_str().and_then(parse_date),
        "lastmod_ms" => entry.lastmod.map(|date| date.as_millisecond()) == value.as_i64(),
        "has_lastmod" => Some(entry.lastmod.is_some()) == value.as_bool(),
        "changefreq" => changefreq(entry).as_deref() == value.as_str(),
        "priority" => priority(entry) == value.as_f64(),
        _ => panic!("unknown expectation {key}"),
    })
}

fn changefreq(entry: &SitemapEntry) -> Option<String> {
    entry.changefreq.map(|value| format!("{value:?}").to_lowercase())
}

/// A missing priority counts as 0.5.
fn priority(entry: &SitemapEntry) -> Option<f64> {
    Some((f64::from(entry.priority.unwrap_or(0.5)) * 1000.0).round() / 1000.0)
}

/// Reads a document at once and byte by byte; both must have the same result.
fn read_whole(sitemap: &str, document: &[u8], bounds: SitemapBounds) -> Sitemap {
    let mut whole = SitemapReader::new(&url(sitemap), bounds.clone());
    whole.feed(document);
    let mut byte_by_byte = SitemapReader::new(&url(sitemap), bounds);
    document.iter().for_each(|byte| byte_by_byte.feed(std::slice::from_ref(byte)));
    let sitemap = whole.finish();
    assert_eq!(sitemap, byte_by_byte.finish(), "bytes one by one");
    sitemap
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

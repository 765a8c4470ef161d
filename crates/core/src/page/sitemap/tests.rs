use std::io::Write as _;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn read_with(document: &[u8], bounds: SitemapBounds) -> Sitemap {
    let mut reader = SitemapReader::new(&url("https://a.test/maps/sitemap.xml"), bounds);
    reader.feed(document);
    reader.finish()
}

fn read(document: &str) -> Sitemap {
    read_with(document.as_bytes(), SitemapBounds::default())
}

fn locs(sitemap: &Sitemap) -> Vec<&str> {
    sitemap.entries.iter().chain(&sitemap.children).map(|entry| entry.url.as_str()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn urlset(count: usize) -> String {
    let entries: String = (0..count).map(|n| format!("<url><loc>https://a.test/{n}</loc></url>")).collect();
    format!("<urlset>{entries}</urlset>")
}

#[test]
fn all_fields_of_a_urlset_are_read() {
    let sitemap = read(
        "\u{feff}  <?xml version='1.0'?><s:urlset xmlns:s='x'><s:url><s:loc> https://a.test/?a=1&amp;b=&#x32;\n</s:loc>\
         <s:lastmod>2020-02-03T04:05:06+01:00</s:lastmod><s:changefreq>Daily</s:changefreq><s:priority>0.25</s:priority>\
         <i:image><i:loc>https://a.test/image.png</i:loc></i:image></s:url></s:urlset>",
    );
    assert_eq!(sitemap.fault, None);
    assert_eq!(sitemap.format, Some(SitemapFormat::UrlSet));
    let [entry] = &sitemap.entries[..] else { panic!("{sitemap:?}") };
    assert_eq!(entry.url.as_str(), "https://a.test/?a=1&b=2");
    assert_eq!(entry.lastmod, "2020-02-03T03:05:06Z".parse().ok());
    assert_eq!((entry.priority, entry.changefreq), (Some(0.25), Some(Changefreq::Daily)));
}

#[test]
fn an_index_lists_sitemaps_and_may_be_nested_too_deep() {
    let text = "<sitemapindex><sitemap><loc>https://cdn.test/1.xml</loc></sitemap></sitemapindex>";
    let sitemap = read(text);
    assert_eq!(locs(&sitemap), ["https://cdn.test/1.xml"]);
    assert!(sitemap.entries.is_empty());
    let nested = read_with(text.as_bytes(), SitemapBounds { allows_index: false, ..SitemapBounds::default() });
    assert!(nested.children.is_empty());
    assert!(nested.fault.unwrap().contains("nested too deep"));
}

#[test]
fn feeds_list_their_items() {
    let rss = read(
        "<rss><channel><link>https://a.test/</link><pubDate>Mon, 06 Jan 2020 00:00:00 GMT</pubDate><item><link>https://a.test/1</link>\
         <guid>x</guid><pubDate>Tue, 07 Jan 2020 01:02:03 EST</pubDate></item><item><guid>https://a.test/2</guid></item></channel></rss>",
    );
    assert_eq!(locs(&rss), ["https://a.test/1", "https://a.test/2"]);
    assert_eq!(rss.lastmod, "2020-01-06T00:00:00Z".parse().ok());
    assert_eq!(rss.entries[0].lastmod, "2020-01-07T06:02:03Z".parse().ok());
    let atom = read(
        "<feed><link href='/'/><entry><link rel='edit' href='/e'/><link href='../p?a&amp;b'/><link href='/q'/>\
         <updated>2020-01-01</updated></entry></feed>",
    );
    assert_eq!(locs(&atom), ["https://a.test/p?a&b"]);
    assert!(atom.entries[0].lastmod.is_some());
}

#[test]
fn a_plain_list_of_urls_is_read() {
    let sitemap = read("https://a.test/1\r\n\r\na.test/2\n/3\nnonsense\nhttps://other.test/\nhttps://www.a.test/4");
    assert_eq!(locs(&sitemap), ["https://a.test/1", "https://a.test/2", "https://a.test/3", "https://www.a.test/4"]);
    assert_eq!(sitemap.skipped, 2);
    assert_eq!(sitemap.fault, None);
}

#[test]
fn a_plain_list_of_urls_of_other_sites_has_no_fault() {
    for count in [1, 2_000] {
        let sitemap = read(&"https://other.test/\n".repeat(count));
        assert_eq!((sitemap.entries.len(), sitemap.foreign.len(), sitemap.skipped), (0, count, count as u32));
        assert_eq!((sitemap.fault, sitemap.cut), (None, false));
    }
}

#[test]
fn other_documents_are_reported_as_faults() {
    for text in ["", "  \n ", "hello world", "<html><body>404</body></html>", "{\"a\": 1}"] {
        let sitemap = read(text);
        assert!(sitemap.fault.is_some() && locs(&sitemap).is_empty(), "{text:?}");
    }
    // Pseudorandom bytes, by multiplicative hashing.
    let binary: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(read_with(&binary, SitemapBounds::default()).fault.is_some());
}

#[test]
fn urls_of_other_sites_need_a_robots_txt_that_names_the_sitemap() {
    let text = b"https://b.a.test/1\nhttps://c.test/2\n";
    let kept = |bounds| read_with(text, bounds).entries.len();
    assert_eq!(kept(SitemapBounds::default()), 1);
    assert_eq!(kept(SitemapBounds { reach: SitemapReach::Host, ..SitemapBounds::default() }), 0);
    assert_eq!(kept(SitemapBounds { reach: SitemapReach::Any, ..SitemapBounds::default() }), 2);
    assert_eq!(kept(SitemapBounds { naming_hosts: vec!["www.c.test".into()], ..SitemapBounds::default() }), 2);
    let directory = SitemapBounds { reach: SitemapReach::Directory, ..SitemapBounds::default() };
    let sitemap = read_with(b"https://a.test/maps/x\nhttps://a.test/x\nhttp://a.test/maps/x\n", directory);
    assert_eq!(locs(&sitemap), ["https://a.test/maps/x"]);
}

#[test]
fn gzip_is_detected_by_its_first_bytes() {
    let packed = gzip(urlset(1000).as_bytes());
    assert_eq!(read_with(&packed, SitemapBounds::default()).entries.len(), 1000);
    let cut = read_with(&packed[..packed.len() / 2], SitemapBounds::default());
    assert!(cut.fault.is_some() && !cut.entries.is_empty(), "{:?}", cut.fault);
    let mut broken = packed;
    let middle = broken.len() / 2;
    broken[middle..middle + 8].fill(0xff);
    assert!(read_with(&broken, SitemapBounds::default()).fault.is_some());
}

#[test]
fn entries_before_a_fault_are_kept() {
    let good = "<urlset><url><loc>https://a.test/1</loc></url>";
    for bad in
        ["</wrong>", "<url><loc>https://a.test/cut", "<![CDATA[ never closed", "<!wrong>", "<!-- a <url>", "<url"]
    {
        let sitemap = read(&format!("{good}{bad}"));
        assert_eq!(locs(&sitemap), ["https://a.test/1"], "{bad}");
        assert!(sitemap.fault.is_some(), "{bad}");
    }
    // Cut inside the end tag: the URL is complete.
    assert_eq!(locs(&read(&format!("{good}<url><loc>https://a.test/2</lo"))), ["https://a.test/1", "https://a.test/2"]);
}

#[test]
fn declared_entities_are_never_expanded() {
    let doctype = "<!DOCTYPE urlset [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'><!ENTITY f SYSTEM 'file:///etc/passwd'>]>";
    let sitemap = read(&format!(
        "{doctype}<urlset><url><loc>https://a.test/1</loc></url><url><loc>https://a.test/&b;</loc></url>\
         <url><loc>&f;</loc></url><url><loc>https://a.test/2</loc></url></urlset>"
    ));
    assert_eq!(locs(&sitemap), ["https://a.test/1", "https://a.test/2"]);
    assert_eq!(sitemap.skipped, 2);
    assert!(sitemap.fault.unwrap().contains("\"b\""));
    let external = read(
        "<!DOCTYPE urlset SYSTEM 'http://127.0.0.1/x.dtd'><urlset><url><loc>https://a.test/1</loc></url></urlset>",
    );
    assert_eq!((locs(&external), external.fault.clone()), (vec!["https://a.test/1"], None));
}

#[test]
fn entries_and_bytes_are_limited() {
    let many = read(&urlset(50_001));
    assert_eq!(many.entries.len(), 50_000);
    assert!(many.fault.unwrap().contains("50000"));
    assert_eq!(read(&urlset(50_000)).fault, None);
    let children = "<sitemap><loc>https://a.test/x</loc></sitemap>".repeat(50_001);
    assert_eq!(read(&format!("<sitemapindex>{children}</sitemapindex>")).children.len(), 50_000);
    let small = SitemapBounds { max_bytes: 1000, ..SitemapBounds::default() };
    let cut = read_with(urlset(100).as_bytes(), small.clone());
    assert!(!cut.entries.is_empty() && cut.entries.len() < 100);
    assert!(cut.fault.is_some());
    let cut = read_with(&gzip(urlset(100).as_bytes()), small);
    assert!(!cut.entries.is_empty() && cut.entries.len() < 100, "the limit applies after decoding");
}

/// The time limit is generous: it only catches work that grows faster than linearly.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test measures time")]
fn hostile_documents_cost_linear_time() {
    let start = Instant::now();
    let bomb = gzip(&vec![b' '; 200 << 20]);
    let sitemap = read_with(&bomb, SitemapBounds::default());
    assert!(sitemap.fault.is_some());
    let attributes: String = (0..80_000).map(|n| format!(" a{n}='x'")).collect();
    let sitemap = read(&format!("<urlset><url{attributes}><loc>https://a.test/1</loc></url></urlset>"));
    assert!(sitemap.fault.is_some() || sitemap.entries.len() == 1);
    assert!(read(&"<a>".repeat(1_000_000)).fault.is_some());
    assert!(read(&format!("<urlset>{}", "<b>".repeat(1_000_000))).fault.is_some());
    assert!(read(&format!("<urlset><!--{}", "<".repeat(3_000_000))).fault.is_some());
    assert!(read(&format!("<urlset><url><loc>{}", "&amp;".repeat(1_000_000))).fault.is_some());
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn declared_encodings_and_byte_order_marks_are_used() {
    let latin =
        b"<?xml version='1.0' encoding='ISO-8859-1'?><urlset><url><loc>https://a.test/\xfc</loc></url></urlset>";
    assert_eq!(locs(&read_with(latin, SitemapBounds::default())), ["https://a.test/%C3%BC"]);
    let text = "\u{feff}<urlset><url><loc>https://a.test/\u{fc}</loc></url></urlset>";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(locs(&read_with(&utf16, SitemapBounds::default())), ["https://a.test/%C3%BC"]);
}

#[test]
fn dates_of_any_precision_are_parsed_and_invalid_ones_are_refused() {
    for (text, expected) in [
        ("2014", "2014-01-01T00:00:00Z"),
        ("2014-06", "2014-06-01T00:00:00Z"),
        ("2014-06-03T10:30", "2014-06-03T10:30:00Z"),
        ("2014-06-03 10:30:45", "2014-06-03T10:30:45Z"),
        ("2014-06-03T10:30:45.5-0130", "2014-06-03T12:00:45.5Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("5 Jan 99 1:02 GMT", "1999-01-05T01:02:00Z"),
    ] {
        assert_eq!(parse_date(text), expected.parse().ok(), "{text}");
    }
    for text in [
        "",
        "banana",
        "20140603",
        "2014-13-01",
        "2014-02-30",
        "2014-06-03T25:00Z",
        "5 Foo 2020 1:02 GMT",
        "5 Jan 2020 1:02",
        "+2014",
        "2014-1-1-1",
        "99999999999-01-01",
    ] {
        assert_eq!(parse_date(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(bytes: Vec<u8>) {
        read_with(&bytes, SitemapBounds::default());
    }

    #[test]
    fn the_result_does_not_depend_on_the_chunks(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "<urlset>", "</urlset>", "<url>", "</url>", "<loc>", "</loc>", "https://a.test/", "a.test/b", "&amp;", "&x;",
                "&", ">", "<", "<!--", "-->", "<![CDATA[", "]]>", "<rss>", "<item>", "<link>", "\n", "\"", "ü", "<?xml?>",
            ]),
            0..24,
        ),
        size in 1usize..9,
    ) {
        let document = pieces.concat();
        let mut reader = SitemapReader::new(&url("https://a.test/maps/sitemap.xml"), SitemapBounds::default());
        document.as_bytes().chunks(size).for_each(|chunk| reader.feed(chunk));
        prop_assert_eq!(reader.finish(), read(&document));
    }
}

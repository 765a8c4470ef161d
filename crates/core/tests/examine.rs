//! What an examination finds in a page, rule by rule.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

use std::sync::Arc;

use argiope_core::base::value::DigestAlgorithm;
use argiope_core::page::examine::{Directives, ExamineLimits, Examiner, Findings};
use argiope_core::{LinkKind, Url};
use proptest::prelude::*;

fn limits() -> ExamineLimits {
    ExamineLimits {
        max_links: 10_000,
        max_url: 4096,
        max_attrs: 256,
        agent: Arc::from("argiope"),
        assets: true,
        anchors: true,
        digest: DigestAlgorithm::Xxh3,
    }
}

fn examine_as(content_type: Option<&str>, body: &[u8]) -> Findings {
    let page = Url::parse("http://h/d/p").expect("an address");
    let mut examiner = Examiner::new(&page, content_type.map(str::as_bytes), limits());
    examiner.feed(body);
    examiner.finish()
}

fn examine(body: &str) -> Findings {
    examine_as(Some("text/html; charset=utf-8"), body.as_bytes())
}

/// Links as `kind url`, followed by ` nofollow` if they have it.
fn links(findings: &Findings) -> Vec<String> {
    findings
        .links
        .iter()
        .map(|link| {
            let nofollow = if link.nofollow { " nofollow" } else { "" };
            let path = link.url.as_str().strip_prefix("http://h/").map(|path| format!("/{path}"));
            format!("{} {}{nofollow}", link.kind.as_str(), path.unwrap_or_else(|| link.url.to_string()))
        })
        .collect()
}

#[track_caller]
fn assert_links(body: &str, expected: &[&str]) {
    assert_eq!(links(&examine(body)), expected, "{body}");
}

/// The texts of links are read like titles. If several links lead to a URL, the first text that is not empty counts.
#[test]
fn the_texts_of_links_are_collected() {
    let long = "x".repeat(600);
    for (body, expected) in [
        ("<a href=/x> one\n<b>t</b>wo &amp; <i>three</i> </a> not", vec![Some("one two & three")]),
        ("<a href=/x>one<br>two<a href=/y>three</p>four", vec![Some("one two"), Some("three four")]),
        ("<a href=/x><img src=/i alt='the &lt;pic'></a>", vec![Some("the <pic"), None]),
        ("<a href=/x></a><a href=/x> </a><a href=/x>late</a><a href=/x>later</a>", vec![Some("late")]),
        ("<a href=/x><script>no()</script>yes</a><a href=mailto:x>mail</a>", vec![Some("yes")]),
        ("<svg><a href=/x><text>drawn</text></a></svg>", vec![Some("drawn")]),
        (&format!("<a href=/x>{long}</a>"), vec![Some(&long[..512])]),
    ] {
        let found = examine(body);
        let texts: Vec<Option<&str>> = found.links.iter().map(|link| link.anchor).collect();
        assert_eq!(texts, expected, "{body}");
    }
    let latin = examine_as(Some("text/html; charset=windows-1252"), b"<a href=/x>caf\xE9</a>");
    assert_eq!(latin.links.anchor(0), Some("caf\u{e9}"));
}

#[test]
fn the_element_determines_the_kind_of_a_link() {
    for (body, expected) in [
        ("<a href=x>", vec!["anchor /d/x"]),
        ("<A HREF='/x?a=1&amp;b=2#f'>", vec!["anchor /x?a=1&b=2"]),
        ("<a href>", vec!["anchor /d/p"]),
        ("<a name=x>", vec![]),
        ("<area href=/x>", vec!["anchor /x"]),
        ("<frame src=/x><iframe src=/y></iframe>", vec!["frame /x", "frame /y"]),
        ("<iframe src=''></iframe><img src=''>", vec![]),
        ("<link rel=next href=/n><link rel='x PREV' href=/p>", vec!["rel /n", "rel /p"]),
        ("<link rel=canonical href=/c>", vec!["canonical /c"]),
        ("<link rel=alternate hreflang=de href=/de>", vec!["alternate /de"]),
        ("<link rel=stylesheet href=/s><link rel='shortcut icon' href=/i>", vec!["asset /s", "asset /i"]),
        ("<link rel=preload href=/s imagesrcset='/1 1x'>", vec!["asset /1", "asset /s"]),
        ("<link rel=author href=/me><link href=/no>", vec!["other /me", "other /no"]),
        ("<form action=/f><form method=GET action=/g><form method=post action=/h>", vec!["form /f", "form /g"]),
        ("<meta http-equiv=Refresh content='0; URL=/r'>", vec!["refresh /r"]),
        ("<meta http-equiv=refresh content='0;url=&#39;/r&#39;'>", vec!["refresh /r"]),
        ("<meta http-equiv=refresh content=5>", vec![]),
        ("<img src=/i srcset='/1 1x, /2 2x'>", vec!["asset /i", "asset /1", "asset /2"]),
        ("<image src=/i>", vec!["asset /i"]),
        ("<picture><source srcset='/1, /2 2x'></picture>", vec!["asset /1", "asset /2"]),
        ("<video src=/v poster=/p><audio src=/a><track src=/t>", vec!["asset /v", "asset /p", "asset /a", "asset /t"]),
        ("<embed src=/e><object data=/o>", vec!["asset /e", "asset /o"]),
        ("<script src=/s></script>", vec!["asset /s"]),
        ("<input type=IMAGE src=/i><input type=text src=/no>", vec!["asset /i"]),
        ("<body background=/b>", vec!["asset /b"]),
        (
            "<svg><a xlink:href=/x></a><image href=/i /><use href=/u#f /></svg>",
            vec!["anchor /x", "asset /i", "asset /u"],
        ),
        ("<a ping=/no href=/x>", vec!["anchor /x"]),
        ("<a href=/x><img src=/x>", vec!["anchor /x", "asset /x"]),
        ("<a href=/x><a href=/x#1><a href=http://h/x>", vec!["anchor /x"]),
        ("<a href=../x><a href='../../x'>", vec!["anchor /x"]),
    ] {
        assert_links(body, &expected);
    }
}

#[test]
fn a_link_is_nofollow_only_if_all_its_occurrences_are() {
    assert_links("<a href=/x rel='external NoFollow'>", &["anchor /x nofollow"]);
    assert_links("<area href=/x rel=nofollow>", &["anchor /x nofollow"]);
    assert_links("<a href=/x rel='ugc sponsored'>", &["anchor /x"]);
    assert_links("<a href=/x rel=nofollow><a href=/x>", &["anchor /x"]);
    assert_links("<a href=/x><a href=/x rel=nofollow>", &["anchor /x"]);
    assert_links("<a href=/x rel=nofollow><a href=http://h/x>", &["anchor /x"]);
}

#[test]
fn text_that_resembles_markup_has_no_links() {
    for body in [
        "<!-- <a href=x> -->",
        "<!-- > <a href=x> --!>",
        "<script><a href=x></script>",
        "<script><!-- <script></script> <a href=x> --></script>",
        "<style><a href=x></style>",
        "<textarea><a href=x></textarea>",
        "<title><a href=x></title>",
        "<xmp><a href=x></xmp>",
        "<iframe><a href=x></iframe>",
        "<noembed><a href=x></noembed>",
        "<noframes><a href=x></noframes>",
        "<plaintext><a href=x></plaintext><a href=y>",
        "<template><a href=x><template></template><a href=y></template>",
        "<iframe srcdoc='<a href=x>'></iframe>",
        "<svg><![CDATA[<a href=x>]]></svg>",
        "<math><![CDATA[<a href=x>]]></math>",
        "<math><mi></mi><![CDATA[<a href=x>]]></math>",
        "<math><annotation-xml><![CDATA[<a href=x>]]></annotation-xml></math>",
        "<svg><font><![CDATA[<a href=x>]]></font></svg>",
        "<svg><title></title><svg></svg><![CDATA[<a href=x>]]></svg>",
        "<p title='<a href=x>'>",
        "<a href=x",
        "<a href='x>",
        "</a href=x>",
        "<? <a href=x>",
        "<!doctype <a href=x>",
        "< a href=x>",
        "<a hr\0ef=x>",
        "<!-- never closed <a href=x>",
        "<script> never closed <a href=x>",
    ] {
        assert_links(body, &[]);
    }
}

#[test]
fn markup_that_resembles_text_has_links() {
    for body in [
        "<noscript><a href=x></noscript>",
        "<!--><a href=x>-->",
        "<!---><a href=x>-->",
        "<!----><a href=x>",
        "<!-- --!><a href=x>",
        "<!-- <!-- --><a href=x>",
        "<script><!-- </script><a href=x>",
        "<script><!--><script></script><a href=x>",
        "<script></scripty></script ><a href=x>",
        "<style></STYLE\n><a href=x>",
        "<template></template><a href=x>",
        "<![CDATA[><a href=x>]]>",
        "<svg><foreignObject><![CDATA[><a href=x>]]></foreignObject></svg>",
        "<svg></svg><![CDATA[><a href=x>",
        "<svg/><![CDATA[><a href=x>",
        "<svg><p><![CDATA[><a href=x>",
        "<svg><BlockQuote><![CDATA[><a href=x>",
        "<svg></div><![CDATA[><a href=x>",
        "<math><mi><![CDATA[><a href=x></mi></math>",
        "<math><annotation-xml encoding='Text/HTML'><![CDATA[><a href=x></annotation-xml></math>",
        "<svg><font size=1><![CDATA[><a href=x>",
        "<svg><title><b><a href=x></b></title></svg>",
        "<svg><style><a href=x></style></svg>",
        "<svg><![CDATA[ ]] ]>]]]><a href=x></svg>",
        "</ <a href=y><a href=x>",
        "<br/><a/href=x/>",
        "<a title=a\"b href=x/>",
        "<a\thref\n=\r'x/'\x0C>",
        "<a href=x/ href=y>",
        "<a title='>' href=x/>",
        "<p =\"><a href=x/>",
        "a<b <a href=q><a href=x>",
    ] {
        let found = links(&examine(body));
        assert!(found.iter().any(|link| link == "anchor /d/x" || link == "anchor /d/x/"), "{body} {found:?}");
        // `y` occurs only where it is not a link.
        assert!(!found.iter().any(|link| link.contains('y')), "{body} {found:?}");
    }
}

#[test]
fn links_before_unclosed_markup_are_found() {
    for open in ["<!--", "<script>", "<title>", "<svg><![CDATA[", "<style>", "<a href='", "<template>", "<!doctype "] {
        assert_links(&format!("<a href=/x>{open}<a href=/no>"), &["anchor /x"]);
    }
}

#[test]
fn the_first_base_element_counts() {
    assert_links("<base href=/b/><a href=x>", &["anchor /b/x"]);
    assert_links("<a href=x><base href=/b/>", &["anchor /b/x"]);
    assert_links("<base target=_top><base href=/b/><base href=/c/><a href=x>", &["anchor /b/x"]);
    assert_links("<base href='http://evil.test/'><base href=/c/><a href=x>", &["anchor http://evil.test/x"]);
    assert_links("<base href='javascript:1'><a href=x>", &["anchor /d/x"]);
    assert_links("<base href='http://['><a href=x>", &["anchor /d/x"]);
    assert_links("<base href='//other/a&amp;b/'><a href=x>", &["anchor http://other/a&b/x"]);
    assert_links("<template><base href=/b/></template><a href=x>", &["anchor /d/x"]);
}

#[test]
fn other_schemes_and_malformed_urls_are_counted() {
    let links_with_other_schemes = "<a href=javascript:1><a href=data:,><a href=mailto:x><a href=tel:1><a href=blob:x><a href=about:blank>\
               <a href=file:///etc/passwd><a href=view-source:http://h/><a href=intent:x><a href=ftp://f/>\
               <a href=' JavaScript:1'><a href='java&#10;script:1'><a href='java\nscript:1'>";
    let found = examine(links_with_other_schemes);
    assert_eq!((found.links.len(), found.other_schemes, found.malformed), (0, 13, 0));
    let found = examine("<a href='http://['><a href=http://h:65536/><a href=http://h:0/><a href=http://h:/>");
    assert_eq!(links(&found), ["anchor http://h:0/", "anchor /"]);
    assert_eq!(found.malformed, 2);
    let found = examine("<a href='/a%00b'><a href='/a%0d%0aX: y'><a href='/a\r\nX: y'><a href='http://u:p@h/q'>");
    assert_eq!(links(&found), ["anchor /a%00b", "anchor /a%0d%0aX:%20y", "anchor /aX:%20y", "anchor /q"]);
}

#[test]
fn reached_limits_are_reported() {
    let only_x = vec!["anchor /x".to_owned()];
    let found = examine(&format!("<a href=/{}><a href=/{}><a href=/x>", "a".repeat(4096), "b".repeat(20_000)));
    assert_eq!((links(&found), found.too_long), (only_x.clone(), 2));
    // The tag exceeds the limit on tags. Its URL counts as too long, and `capped` is not set.
    let found = examine(&format!("<a href=/{}><a href=/x>", "a".repeat(8_000_000)));
    assert_eq!((links(&found), found.too_long, found.capped), (only_x.clone(), 1, false));

    let found = examine(&format!("<img src='data:image/png;base64,{}'><a href=/x>", "a".repeat(100_000)));
    assert_eq!((links(&found), found.capped), (only_x.clone(), false));

    let attributes: String = (0..1000).map(|number| format!(" a{number}=1")).collect();
    let found = examine(&format!("<a{attributes} href=/no><a href=/x>"));
    assert_eq!((links(&found), found.capped), (only_x, true));

    let many: String = (0..10_001).map(|number| format!("<a href=/{number}>")).collect();
    let found = examine(&many);
    assert_eq!((found.links.len(), found.capped), (10_000, true));
    assert!(!examine("<a href=/x>").capped);
}

#[test]
fn the_first_title_is_found() {
    for (body, title) in [
        ("<title> A &amp; B\n\t C </title>", Some("A & B C")),
        ("<title>a</title><title>b</title>", Some("a")),
        ("<svg><title>no</title></svg><title>yes</title>", Some("yes")),
        ("<template><title>no</title></template><title>yes</title>", Some("yes")),
        ("<title>a<b>c</b></title>", Some("a<b>c</b>")),
        ("<title>never closed", Some("never closed")),
        ("<title>a</titl", Some("a</titl")),
        ("<title> </title>", None),
        ("<p>", None),
        ("<TITLE>\0&copy</TITLE>", Some("\u{FFFD}©")),
        ("<title>a &lt b</title>", Some("a < b")),
    ] {
        assert_eq!(examine(body).title.as_deref(), title, "{body}");
    }
    let long = examine(&format!("<title>{}</title>", "é".repeat(100_000))).title.expect("a title");
    assert!(long.len() <= 2048 && long.chars().all(|character| character == 'é'));
}

#[test]
fn robots_directives_are_read() {
    let noindex = Directives { noindex: true, nofollow: false };
    let nofollow = Directives { noindex: false, nofollow: true };
    let both = noindex.merge(nofollow);
    for (body, expected) in [
        ("<meta name=robots content='noindex,nofollow'>", both),
        ("<META NAME=Robots CONTENT=NONE>", both),
        ("<meta name=argiope content=nofollow>", nofollow),
        ("<meta name=Argiope content=nofollow><meta name=robots content=noindex>", both),
        ("<meta name=googlebot content=noindex>", Directives::default()),
        ("<meta name=robots content='index,follow'>", Directives::default()),
        ("<template><meta name=robots content=noindex></template>", Directives::default()),
        ("<meta name=robots content='no&#105;ndex'>", noindex),
    ] {
        assert_eq!(examine(body).directives, expected, "{body}");
    }
}

#[test]
fn canonical_url_and_languages_are_found() {
    let found = examine(
        "<link rel=canonical href=/c1#x><link rel=canonical href=/c2><link rel=alternate hreflang=de href=/de>\
         <link rel=alternate hreflang=x-default href=/><link rel=alternate href=/f>",
    );
    assert_eq!(found.canonical.expect("canonical").as_str(), "http://h/c1");
    let languages: Vec<_> = found.hreflang.iter().map(|(language, url)| (&**language, url.as_str())).collect();
    assert_eq!(languages, [("de", "http://h/de"), ("x-default", "http://h/")]);
    assert_eq!(found.links.iter().filter(|link| link.kind == LinkKind::Alternate).count(), 3);
}

#[test]
fn the_charset_is_detected() {
    let page = |charset: &str| format!("<meta charset={charset}><title>\u{e9}</title>");
    let latin = |text: &str| encoding_rs::WINDOWS_1252.encode(text).0.into_owned();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (content_type, body, charset, title) in [
        ("text/html; charset=utf-8", page("windows-1252").into_bytes(), "utf-8", "é"),
        ("text/html", latin(&page("windows-1252")), "windows-1252", "é"),
        ("text/html", latin(&page("ascii")), "windows-1252", "é"),
        ("text/html", page("utf-16").into_bytes(), "utf-8", "é"),
        ("text/html; charset=foo-8", page("utf-8").into_bytes(), "utf-8", "é"),
        ("text/html; charset=utf-7", b"<title>+AGE-</title>".to_vec(), "utf-8", "+AGE-"),
        ("text/html; charset=utf-16", utf16("<title>\u{e9}</title>"), "utf-16le", "é"),
        ("text/html; charset=utf-16", b"<title>x</title>".to_vec(), "utf-8", "x"),
        ("text/html", [b"\xFF\xFE".to_vec(), utf16("<title>\u{e9}</title>")].concat(), "utf-16le", "é"),
        ("text/html; charset=koi8-r", "\u{FEFF}<title>\u{e9}</title>".as_bytes().to_vec(), "utf-8", "é"),
        ("text/html; charset=utf-8", b"<title>a\xE9b</title>".to_vec(), "utf-8", "a\u{FFFD}b"),
        ("text/html", "<title>é</title>".as_bytes().to_vec(), "utf-8", "é"),
        ("text/html", [vec![b' '; 2000], latin(&page("windows-1252"))].concat(), "windows-1252", "é"),
        ("text/html; charset=iso-2022-jp", b"<title>\x1B$B<~\x1B(B</title>".to_vec(), "iso-2022-jp", "周"),
        ("text/html; charset=shift_jis", b"<title>\x83\x5C\x95\x5C</title>".to_vec(), "shift_jis", "ソ表"),
        ("text/html; charset=x-user-defined", b"<title>a\xE9</title>".to_vec(), "x-user-defined", "a\u{F7E9}"),
    ] {
        let found = examine_as(Some(content_type), &body);
        assert_eq!((found.charset, found.title.as_deref()), (Some(charset), Some(title)), "{content_type}");
    }
    let found = examine_as(Some("text/html; charset=iso-2022-kr"), b"<title>x</title><a href=/x>");
    assert_eq!((found.charset, found.title, found.links.len()), (Some("replacement"), None, 0));
}

#[test]
fn attributes_are_decoded_in_the_charset_of_the_page() {
    let latin = Some("text/html; charset=windows-1252");
    let findings = examine_as(latin, b"<h1><img src=/i alt='caf\xE9 &eacute; &amp;lt; &copy=1 &#x44f;'></h1>");
    assert_eq!(findings.facts.and_then(|facts| facts.h1).as_deref(), Some("caf\u{e9} \u{e9} &lt; &copy=1 \u{44f}"));
    let findings = examine_as(latin, b"<a href=/x><img src=/i alt='caf\xE9 &not'>in;</a>");
    assert_eq!(findings.links.anchor(0), Some("caf\u{e9} \u{ac}in;"));
    for (page, path) in [
        (&b"<p style='background:url(/\xE9.png)'>"[..], "/%C3%A9.png"),
        (b"<p style='background:url(/&eacute;\xE9.png)'>", "/%C3%A9%C3%A9.png"),
        (b"<p style='background:url(&quot;/\xE9&#x44f;e.png?a&amp;b&quot;)'>", "/%C3%A9%D1%8Fe.png?a&b"),
        (b"<p style='background:url(/\xE9\\e9 \\26 lt;.png)'>", "/%C3%A9%C3%A9&lt;.png"),
        (b"<style>p{background:url(/\xE9\\e9 x.png)}</style>", "/%C3%A9%C3%A9x.png"),
        (b"<style>p{background:url(/\\\xE9.png)}</style>", "/%C3%A9.png"),
    ] {
        let text = String::from_utf8_lossy(page);
        assert_eq!(links(&examine_as(latin, page)), [format!("asset {path}")], "{text}");
    }
}

#[test]
fn queries_are_encoded_in_the_charset_of_the_page() {
    let found =
        examine_as(Some("text/html; charset=windows-1252"), b"<a href='/\xE9?\xE9'><a href='?&eacute;&#1103;'>");
    assert_eq!(links(&found), ["anchor /%C3%A9?%E9", "anchor /d/p?%E9%26%231103%3B"]);
    let found = examine_as(Some("text/html"), "<a href='?é'>".as_bytes());
    assert_eq!(links(&found), ["anchor /d/p?%C3%A9"]);
}

#[test]
fn the_media_type_decides_what_is_examined() {
    let links_of = |content_type: Option<&str>, body: &[u8]| {
        let found = examine_as(content_type, body);
        (found.links.len(), found.content_type.map(String::from), found.charset)
    };
    let html = b"<html><a href=/x>";
    assert_eq!(links_of(None, html), (1, Some("text/html".into()), Some("utf-8")));
    assert_eq!(links_of(Some("Text/HTML;x"), html), (1, Some("text/html".into()), Some("utf-8")));
    assert_eq!(links_of(Some(";;; , text/html;charset=\""), html), (1, Some("text/html".into()), Some("utf-8")));
    assert_eq!(links_of(Some("image/png"), html), (0, Some("image/png".into()), None));
    assert_eq!(links_of(Some("text/plain"), html), (0, Some("text/plain".into()), Some("utf-8")));
    let png = b"\x89PNG\r\n\x1A\n<a href=/x>";
    assert_eq!(links_of(Some("text/html"), png), (0, Some("text/html".into()), None));
    assert_eq!(links_of(Some("text/html"), b""), (0, Some("text/html".into()), Some("utf-8")));
    assert_eq!(links_of(None, b""), (0, None, None));
}

#[test]
fn the_links_of_feeds_and_other_xml_are_found() {
    for (body, title, expected) in [
        (
            "<?xml version='1.0'?><!DOCTYPE rss [<!ENTITY a '>'> ]><rss><channel><title>T</title><link>http://h/l</link>\
             <item><link><![CDATA[http://h/1?a&b]]></link><guid>http://h/g</guid></item>\
             <item><link> /2?a&amp;b\n</link><guid isPermaLink='false'>http://h/no</guid></item><item><guid>17</guid>\
             <enclosure url='/e.mp3'/></item></channel></rss>",
            Some("T"),
            vec!["anchor /l", "anchor /1?a&b", "anchor /g", "anchor /2?a&b", "asset /e.mp3"],
        ),
        (
            "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='/b/'><title type='text'>A &amp; B</title>\
             <link rel='self' href='/self'/><link rel='next' href='/n'/><entry><link href='e1'/>\
             <link rel='alternate' href='e2'/><link rel='enclosure' href='m'/><title>no</title></entry></feed>",
            Some("A & B"),
            vec!["other /self", "rel /n", "anchor /b/e1", "anchor /b/e2", "asset /b/m"],
        ),
        (
            "<html xmlns='x'><head><title>X</title><link rel='stylesheet' href='/s'/><script><![CDATA[<a href='/no'>]]>\
             </script></head><body><a href='/x'/><textarea><a href='/y'/></textarea></body></html>",
            Some("X"),
            vec!["asset /s", "anchor /x", "anchor /y"],
        ),
        ("<svg><a xlink:href='/a'/><image xlink:href='/i'/></svg>", None, vec!["anchor /a", "asset /i"]),
        ("<doc><ref xlink:href='/r'/></doc>", None, vec!["anchor /r"]),
    ] {
        let found = examine_as(Some("application/xml"), body.as_bytes());
        assert_eq!(links(&found), expected, "{body}");
        assert_eq!(found.title.as_deref(), title, "{body}");
    }
}

#[test]
fn digest_and_size_are_computed() {
    let found = examine("abc");
    let hex: String = found.digest.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "06b05ab6733a618578af5f94892f3950", "the 128-bit hash of the family XXH3");
    assert_eq!(found.bytes, 3);
}

/// Pieces of pages, valid and broken.
const PIECES: [&[u8]; 43] = [
    b"<a href=/x>",
    b"<a href='y?a&amp;b'>",
    b"</a>",
    b"<!--",
    b"-->",
    b"--!>",
    b"-",
    b"<",
    b">",
    b"<script>",
    b"</script>",
    b"<script",
    b"<title>",
    b"</title>",
    b"<![CDATA[",
    b"]]>",
    b"]",
    b"<svg>",
    b"</svg>",
    b"<p title=\"",
    b"\"",
    b"'",
    b"=",
    b"<base href=/b/>",
    b"<template>",
    b"</template>",
    b"<meta charset=windows-1251>",
    b"\xE9",
    b"\xC3\xA9",
    b"&eacute;",
    b"<textarea>",
    b"</textarea ",
    b"text ",
    b"\0",
    b"\n",
    b"/",
    b"<img srcset='1 1x, 2 2x'>",
    b"<!DOCTYPE x [",
    b"<?x",
    b"<link rel=next href=n>",
    b"<link>http://h/q</link>",
    b"<rss>",
    b"<meta http-equiv=refresh content='0;url=z'>",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_findings_do_not_depend_on_the_chunks(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40),
        lead in 0usize..3,
        cuts in prop::collection::vec(1usize..9, 1..20),
        content_type in prop::sample::select(vec![
            "text/html", "text/html;charset=utf-8", "text/xml", "text/html;charset=utf-16",
            "text/html;charset=iso-2022-jp", "text/html;charset=shift_jis", "bad",
        ]),
    ) {
        // The first kilobyte is always buffered, so some pages have their pieces after it.
        let body = [vec![b' '; lead * 600], pieces.concat()].concat();
        let whole = examine_as(Some(content_type), &body);
        let page = Url::parse("http://h/d/p").expect("an address");
        let mut examiner = Examiner::new(&page, Some(content_type.as_bytes()), limits());
        let mut rest = body.as_slice();
        for &cut in cuts.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            examiner.feed(chunk);
            rest = after;
        }
        let cut = examiner.finish();
        prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
    }
}

#[test]
fn facts_for_the_record_are_collected() {
    let found = examine(
        "<!doctype html><html lang=' en-GB '><head><title>not counted</title>\
         <meta name=description content='  What &amp; why\n it is '><meta name=Description content=second>\
         <meta property=og:title content='Shared &quot;title&quot;'><meta property='og:image' content='/i.png'>\
         <meta name=robots content='NOINDEX, max-snippet: -1'><meta name=argiope content='noindex nofollow'></head>\
         <body><h1> A <em>first</em><br>heading &lt;</h1><p>one two<b>three</b> four<td>five<td>six</p>\
         <img src=a><img src=b alt><img src=c alt='text'><h1>second</h1>\
         <script>not these words</script><template><h1>x</h1><img></template></body>",
    );
    let facts = found.facts.expect("facts of HTML");
    assert_eq!(facts.description.as_deref(), Some("What & why it is"));
    assert_eq!((facts.h1.as_deref(), facts.h1_count), (Some("A first heading <"), 2));
    assert_eq!(facts.lang.as_deref(), Some("en-GB"));
    let robots: Vec<&str> = facts.meta_robots.iter().map(|word| &**word).collect();
    assert_eq!(robots, ["noindex", "max-snippet: -1", "nofollow"]);
    assert_eq!(facts.og.title.as_deref(), Some("Shared \"title\""));
    assert_eq!(facts.og.image.as_deref(), Some("http://h/i.png"));
    assert_eq!(facts.images_without_alt, 1);
    // "A first heading &lt;", "one twothree four", "five", "six", "second", and "x" of the template.
    assert_eq!(facts.words, 4 + 3 + 2 + 1 + 1);
}

#[test]
fn pages_that_look_empty_without_scripts_are_recognised() {
    let needs_scripts = |body: &str| examine(body).facts.expect("facts of HTML").needs_scripts;
    let few_words = "word ".repeat(16);
    let many_words = "word ".repeat(50);
    let ask = "<noscript>You need to enable <b>JavaScript</b> to run this app.</noscript>";
    for body in [
        "<title>App</title><div id=root></div><script src=a.js></script>",
        "<script src=a.js></script><div class=x id='app'> <!-- - --><div><div class=spinner></div></div></div>",
        "<DIV ID=page><p>Menu</p><div id=root>\n</div></DIV><script>x</script>",
        "<app-root></app-root><script type=module src=main.js></script>",
        "<my-application-shell><other-element-of-it></other-element-of-it></my-application-shell><script></script>",
        "<title>Written by a script</title><script>document.write('x')</script>",
        &format!("<script src=a.js></script>{few_words}{ask}"),
        &format!("<noscript><p>{many_words} JAVASCRIPT</noscript><script></script>"),
        &format!("{few_words}<script src=a.js></script><script id=__NEXT_DATA__ type='application/json'>{{}}</script>"),
    ] {
        assert!(needs_scripts(body), "{body}");
    }
    for body in [
        "<div id=root></div>",
        "<p>Text</p><script src=a.js></script>",
        "<div id=root>Text</div><script src=a.js></script>",
        "<div id=logo><img src=a alt=''></div><script src=a.js></script>",
        "<div id=login><form><input></form></div><script src=a.js></script>",
        "Text<template><div id=root></div></template><script src=a.js></script>",
        "<img src=a alt=''><script src=a.js></script>",
        "<a href=/x><svg></svg></a><script src=a.js></script>",
        "<title>Nothing</title>",
        "<div id=root></div><script type='application/ld+json'>{}</script>",
        "<noscript><img src=pixel></noscript><script src=a.js></script>",
        &format!("<div id=map></div>{few_words}<script src=a.js></script>"),
        &format!("{many_words}{ask}<div id=root></div><script type=application/json></script><script></script>"),
        &format!("{ask}{many_words}<script></script>"),
    ] {
        assert!(!needs_scripts(body), "{body}");
    }
}

#[test]
fn the_first_heading_with_text_counts() {
    let h1 = |body: &str| examine(body).facts.and_then(|facts| facts.h1).map(String::from);
    assert_eq!(h1("<h1><a href=/><img src=l alt='The &amp;lt; logo'></a></h1>").as_deref(), Some("The &lt; logo"));
    assert_eq!(h1("<h1> </h1><h1>second</h1>").as_deref(), Some("second"));
    assert_eq!(h1("<h1>never closed<h2>other</h2>").as_deref(), Some("never closed"));
    assert_eq!(h1("<h1></h1>"), None);
    assert_eq!(h1(&format!("<h1>{}", "word ".repeat(100_000))).map(|h1| h1.len() <= 2048), Some(true));
}

#[test]
fn words_are_counted_with_and_without_spaces() {
    let words = |content_type: &str, body: &[u8]| examine_as(Some(content_type), body).facts.map(|facts| facts.words);
    assert_eq!(words("text/html; charset=utf-8", "<p>日本語 and words".as_bytes()), Some(3 + 3));
    assert_eq!(words("text/html; charset=windows-1252", b"<p>\xe9t\xe9 \xe9"), Some(2));
    let xhtml = "<html xml:lang='de'><body><h1>x y</h1></body></html>";
    let facts = examine_as(Some("application/xhtml+xml"), xhtml.as_bytes()).facts.expect("facts of XHTML");
    assert_eq!((facts.words, facts.h1.as_deref(), facts.lang.as_deref()), (2, Some("x y"), Some("de")));
    assert_eq!(words("text/plain", b"two words"), None);
    assert_eq!(words("application/rss+xml", b"<rss><channel><title>a b</title></channel></rss>"), None);
}

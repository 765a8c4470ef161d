//! Tests of the jar: the rules of the RFC, attacks that succeeded on other cookie jars, and invariants on random input.

use proptest::prelude::*;

use super::*;
use crate::base::url::Url;

const NOW: i64 = 1_800_000_000;

fn url(text: &str) -> Url {
    Url::parse(text).expect("a valid URL")
}

/// Stores the cookie of a `Set-Cookie` line. Returns the result of [`CookieJar::store`], or false for an invalid line.
fn set(jar: &mut CookieJar, page: &str, line: &str) -> bool {
    SetCookie::parse(line.as_bytes()).is_some_and(|cookie| jar.store(&cookie, url(page).as_ref(), NOW))
}

/// The `Cookie` header of a request for `page`; empty if there is none.
fn sent(jar: &mut CookieJar, page: &str) -> String {
    sent_at(jar, page, NOW)
}

fn sent_at(jar: &mut CookieJar, page: &str, now: i64) -> String {
    let header = jar.header(url(page).as_ref(), now);
    header.map(|header| String::from_utf8_lossy(header.as_bytes()).into_owned()).unwrap_or_default()
}

/// A jar after one page has sent one `Set-Cookie` line.
fn jar(page: &str, line: &str) -> CookieJar {
    let mut jar = CookieJar::default();
    set(&mut jar, page, line);
    jar
}

#[test]
fn set_cookie_lines_are_parsed_according_to_the_rfc() {
    // `Set-Cookie` line, and the `Cookie` header that the same page then receives.
    let cases = [
        ("a=b", "a=b"),
        ("  a =\tb ; Path=/", "a=b"),
        ("a=b=c", "a=b=c"),
        ("a=\"b c\"", "a=\"b c\""),
        ("a=", "a="),
        ("=b", "b"),
        ("b", "b"),
        ("; Path=/", ""),
        ("=", ""),
        ("", ""),
        ("a=b; Max-Age=0", ""),
        ("a=b; Max-Age=-5", ""),
        ("a=b; Max-Age=x", "a=b"),
        ("a=b; Max-Age=-", "a=b"),
        ("a=b; Max-Age=0; Max-Age=10", "a=b"),
        ("a=b; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=b"),
        ("a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT", ""),
        ("a=b; Expires=nonsense", "a=b"),
        ("a=b; PATH=/other", ""),
        ("a=b; Path=/other; path=/x", "a=b"),
        ("a=b; Path=x", "a=b"),
        ("a=b; Unheard-Of; HttpOnly", "a=b"),
        ("a=b; SameSite=None", ""),
        ("a=b; SameSite=None; Secure", "a=b"),
        ("a=b; SameSite=Strict", "a=b"),
        ("a=b\u{1}", ""),
        ("a=b\tc", "a=b\tc"),
        ("a=b; Domain=ex\u{e9}mple.org", ""),
    ];
    for (line, expected) in cases {
        let mut jar = jar("https://www.example.org/x/y", line);
        assert_eq!(sent(&mut jar, "https://www.example.org/x/z"), expected, "{line:?}");
    }
}

#[test]
fn a_host_can_set_cookies_only_for_its_domain_and_parents() {
    // Host, domain, and whether the cookie is sent to `www.example.org`, to a sibling, and to the parent domain.
    let cases = [
        ("www.example.org", "", [true, false, false]),
        ("www.example.org", "example.org", [true, true, true]),
        ("www.example.org", ".Example.ORG", [true, true, true]),
        ("www.example.org", ".Example.ORG.", [false; 3]),
        ("www.example.org", "www.example.org", [true, false, false]),
        ("www.example.org", "ample.org", [false; 3]),
        ("www.example.org", "notexample.org", [false; 3]),
        ("www.example.org", "a.www.example.org", [false; 3]),
        ("www.example.org", "org", [false; 3]),
        ("www.example.org", "ORG.", [false; 3]),
        ("www.example.org", "..example.org", [false; 3]),
        ("www.example.org.", "", [false; 3]),
    ];
    for (host, domain, expected) in cases {
        let mut jar = jar(&format!("http://{host}/"), &format!("a=b; Domain={domain}"));
        let pages = ["http://www.example.org/", "http://other.example.org:81/", "http://example.org/"];
        assert_eq!(pages.map(|page| !sent(&mut jar, page).is_empty()), expected, "{host} {domain:?}");
        assert_eq!(sent(&mut jar, "http://notexample.org/"), "");
    }
}

#[test]
fn cookies_for_a_public_suffix_are_rejected_except_from_its_own_host() {
    for domain in ["co.uk", "Co.UK", "co.uk.", ".co.uk", "uk", "github.io"] {
        for host in ["evil.co.uk", "evil.co.uk.", "EVIL.co.uk", "evil.github.io"] {
            let jar = jar(&format!("http://{host}/"), &format!("a=b; Domain={domain}"));
            assert!(jar.is_empty(), "{host} {domain}");
        }
    }
    let mut own = jar("http://github.io/", "a=b; Domain=github.io");
    assert_eq!(
        (sent(&mut own, "http://github.io/").as_str(), sent(&mut own, "http://x.github.io/")),
        ("a=b", String::new())
    );
    let mut local = jar("http://localhost/", "a=b; Domain=localhost");
    assert_eq!(
        (sent(&mut local, "http://localhost:8080/").as_str(), sent(&mut local, "http://x.localhost/")),
        ("a=b", String::new())
    );
}

#[test]
fn cookies_of_an_ip_address_are_sent_only_to_it() {
    for domain in ["0.0.1", ".0.0.1", "1", "0.1"] {
        assert!(jar("http://127.0.0.1/", &format!("a=b; Domain={domain}")).is_empty(), "{domain}");
    }
    for (page, domain) in [("http://127.0.0.1/", "127.0.0.1"), ("http://[::1]/", "[::1]"), ("http://[::1]/", "")] {
        let mut jar = jar(page, &format!("a=b; Domain={domain}"));
        assert_eq!(sent(&mut jar, page), "a=b", "{page} {domain}");
    }
    let mut own = jar("http://1.2.3.4/", "a=b");
    assert_eq!(sent(&mut own, "http://1.2.3.5/"), "");
}

#[test]
fn cookie_paths_match_whole_segments() {
    let cases = [
        ("/a/b", "", "/a/c", true),
        ("/a/b", "", "/a", true),
        ("/a/b", "", "/ab", false),
        ("/a/b", "", "/", false),
        ("/a", "", "/b", true),
        ("/", "/a", "/a", true),
        ("/", "/a", "/a/", true),
        ("/", "/a", "/a?q=/", true),
        ("/", "/a", "/ab", false),
        ("/", "/a/", "/a", false),
        ("/", "/a/", "/a/b", true),
    ];
    for (page, path, other, expected) in cases {
        let line = if path.is_empty() { "a=b".to_owned() } else { format!("a=b; Path={path}") };
        let mut jar = jar(&format!("http://h.example{page}"), &line);
        assert_eq!(!sent(&mut jar, &format!("http://h.example{other}")).is_empty(), expected, "{page} {path} {other}");
    }
}

#[test]
fn secure_cookies_are_set_and_sent_only_over_https() {
    let mut secure = jar("https://h.example/", "a=1; Secure");
    assert_eq!(
        (sent(&mut secure, "http://h.example/").as_str(), sent(&mut secure, "https://h.example/").as_str()),
        ("", "a=1")
    );
    assert!(jar("http://h.example/", "a=1; Secure").is_empty());
    // Over http a secure cookie cannot be replaced, not even for a directory below, a parent domain or a host below.
    for line in ["a=2", "a=2; Path=/x", "a=2; Domain=h.example"] {
        assert!(!set(&mut secure, "http://www.h.example/x/y", line), "{line}");
        assert!(!set(&mut secure, "http://h.example/x/y", line), "{line}");
    }
    assert_eq!(sent(&mut secure, "https://h.example/"), "a=1");
    assert!(set(&mut secure, "http://h.example/", "other=2") && set(&mut secure, "https://h.example/", "a=3"));
}

#[test]
fn name_prefixes_are_enforced() {
    let good = ["__Secure-a=1; Secure", "__host-a=1; Secure; Path=/", "__Host-a=1; secure; path=/"];
    let bad = [
        "__Secure-a=1",
        "__SECURE-a=1",
        "__Host-a=1; Secure",
        "__Host-a=1; Path=/",
        "__Host-a=1; Secure; Path=/x",
        "__Host-a=1; Secure; Path=/; Domain=h.example",
        "=__Host-a=1",
        "__Secure-a",
    ];
    for line in good {
        assert!(!jar("https://h.example/x", line).is_empty(), "{line}");
    }
    for line in bad {
        assert!(jar("https://h.example/x", line).is_empty(), "{line}");
    }
    assert!(jar("http://h.example/", "__Host-a=1; Path=/").is_empty());
}

#[test]
fn cookies_expire_and_large_lifetimes_are_capped() {
    let mut short = jar("http://h.example/", "a=1; Max-Age=10");
    assert_eq!(sent_at(&mut short, "http://h.example/", NOW + 9), "a=1");
    assert_eq!(sent_at(&mut short, "http://h.example/", NOW + 10), "");
    let day = 86_400;
    for line in ["a=1; Max-Age=99999999999999999999", "a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"] {
        let mut long = jar("http://h.example/", line);
        assert_eq!(sent_at(&mut long, "http://h.example/", NOW + 400 * day - 1), "a=1", "{line}");
        assert_eq!(sent_at(&mut long, "http://h.example/", NOW + 400 * day), "", "{line}");
    }
    assert!(jar("http://h.example/", "a=1; Max-Age=-99999999999999999999").is_empty());
}

#[test]
fn a_cookie_replaces_its_earlier_value_and_reports_a_change() {
    let mut jar = CookieJar::default();
    assert!(set(&mut jar, "http://h.example/", "a=1"));
    assert!(!set(&mut jar, "http://h.example/", "a=1"));
    assert!(set(&mut jar, "http://h.example/", "b=1"));
    assert!(set(&mut jar, "http://h.example/", "a=2"));
    // The cookie that was first set comes first; longer paths come before shorter ones.
    assert_eq!(sent(&mut jar, "http://h.example/"), "a=2; b=1");
    assert!(set(&mut jar, "http://h.example/x/", "c=3; Path=/x"));
    assert_eq!(sent(&mut jar, "http://h.example/x/"), "c=3; a=2; b=1");
    assert!(!set(&mut jar, "http://h.example/", "a=; Max-Age=0"));
    assert!(!set(&mut jar, "http://h.example/", "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"));
    assert!(!set(&mut jar, "http://h.example/x/", "c=; Max-Age=0; Path=/x"));
    assert!(jar.is_empty() && jar.bytes == 0);
}

#[test]
fn the_number_of_cookies_per_domain_and_site_is_limited() {
    let mut jar = CookieJar::default();
    set(&mut jar, "https://h.example/", "kept=1; Secure");
    for n in 0..60 {
        set(&mut jar, "https://h.example/", &format!("n{n}=1; Path=/x"));
        sent(&mut jar, "https://h.example/"); // uses `kept`, and no other
    }
    assert_eq!(jar.len(), MAX_PER_DOMAIN);
    let header = sent(&mut jar, "https://h.example/x");
    // The least recently used cookies were evicted; secure ones are evicted last.
    assert!(header.contains("kept=1") && header.contains("n59=1") && !header.contains("n10=1"), "{header}");
    for n in 0..2_000 {
        set(&mut jar, &format!("http://n{n}.h.example/"), "a=1");
    }
    assert_eq!(jar.len(), MAX_PER_SITE);
    set(&mut jar, "http://other.example/", "a=1");
    assert_eq!(sent(&mut jar, "http://other.example/"), "a=1");
}

#[test]
fn oversized_cookies_are_rejected_and_headers_are_bounded() {
    // With a name of one byte, this value just fits.
    let fits = "x".repeat(MAX_COOKIE - 1);
    assert!(set(&mut CookieJar::default(), "http://h.example/", &format!("a={fits}")));
    assert!(!set(&mut CookieJar::default(), "http://h.example/", &format!("ab={fits}")));
    let mut jar = CookieJar::default();
    for n in 0..50 {
        set(&mut jar, "http://h.example/", &format!("n{n}={}", "x".repeat(1_000)));
    }
    let header = sent(&mut jar, "http://h.example/");
    assert!(header.len() + "Cookie: ".len() <= MAX_HEADER && header.len() > 7_000, "{}", header.len());
}

#[test]
fn a_full_jar_evicts_the_least_recently_used_sites() {
    let mut jar = CookieJar::default();
    let value = "x".repeat(4_000);
    for n in 0..6_000 {
        set(&mut jar, &format!("http://h{n}.example/"), &format!("a={value}"));
        assert!(jar.bytes <= MAX_JAR_BYTES);
    }
    let total_weight: usize = jar.sites.values().flatten().map(Cookie::weight).sum();
    assert_eq!(jar.bytes, total_weight);
    assert!(!sent(&mut jar, "http://h5999.example/").is_empty());
    assert!(sent(&mut jar, "http://h0.example/").is_empty());
}

#[test]
fn dates_are_parsed_leniently() {
    let moment = 784_111_777;
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "6 november 94 8:49:37",
        "08:49:37zzz 06th Novem 1994AD",
        "1994 6 Nov 08:49:37",
    ] {
        assert_eq!(parse_date(text.as_bytes()), Some(moment), "{text}");
    }
    assert_eq!(parse_date(b"1 Jan 1970 00:00:00"), Some(0));
    assert_eq!(parse_date(b"1 Jan 69 00:00:00"), parse_date(b"1 Jan 2069 00:00:00"));
    for text in [
        "",
        "Sun, 06 Nov 1994",
        "06 Nov 1994 24:00:00",
        "06 Nov 1994 08:60:00",
        "06 Nov 1994 08:49:60",
        "31 Feb 1994 08:49:37",
        "00 Nov 1994 08:49:37",
        "06 Nov 1600 08:49:37",
        "06 Nov 19941 08:49:37",
        "06 Nov 1994 123:49:37",
        // The first number of one or two digits is the day.
        "94 08:49:37 06 Nov",
    ] {
        assert_eq!(parse_date(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_cookie_file_is_parsed_and_its_errors_are_reported() {
    let file = "# Netscape HTTP Cookie File\n\n\
        .example.org\tTRUE\t/\tFALSE\t0\tall\t1\r\n\
        #HttpOnly_www.example.org\tFALSE\t/x\tTRUE\t1900000000\tone\t2\n\
        example.org\tFALSE\t/\tFALSE\t1000\told\t3\n\
        www.example.org\tFALSE\t/\tFALSE\t0\tempty";
    let mut jar = CookieJar::from_netscape(file.as_bytes(), NOW).expect("a valid cookie file");
    assert_eq!(sent(&mut jar, "https://www.example.org/x"), "one=2; all=1; empty=");
    assert_eq!(sent(&mut jar, "http://a.example.org/x"), "all=1");
    assert!(!format!("{jar:?}").contains("all"));
    for (line, problem) in [
        ("example.org TRUE / FALSE 0 a b", "seven fields"),
        ("example.org\tTRUE\t/\tFALSE\tsoon\ta\tb", "fifth field"),
        ("example.org\tyes\t/\tFALSE\t0\ta\tb", "second field"),
        ("example.org\tTRUE\t/\tno\t0\ta\tb", "fourth field"),
        ("example.org\tTRUE\tx\tFALSE\t0\ta\tb", "third field"),
        ("\tTRUE\t/\tFALSE\t0\ta\tb", "host name"),
        ("co.uk\tTRUE\t/\tFALSE\t0\ta\tb", "public suffix"),
        ("example.org\tTRUE\t/\tFALSE\t0\t__Host-a\tb", "__Host-"),
        ("example.org\tTRUE\t/\tFALSE\t0\ta\tb\rX: y", "characters"),
    ] {
        let bad = CookieJar::from_netscape(format!("# one\n{line}\n").as_bytes(), NOW).expect_err(line);
        assert!(bad.line == 2 && bad.to_string().contains(problem), "{line:?}: {bad}");
    }
}

#[test]
fn a_host_with_a_trailing_dot_has_cookies_of_its_own() {
    let mut plain = jar("https://www.a.test/", "a=1");
    set(&mut plain, "https://www.a.test/", "b=2; Domain=a.test");
    assert_eq!(sent(&mut plain, "https://www.a.test/"), "a=1; b=2");
    assert_eq!(sent(&mut plain, "https://www.a.test./"), "");
    let mut dotted = jar("https://www.a.test./", "a=1");
    set(&mut dotted, "https://www.a.test./", "b=2; Domain=a.test");
    set(&mut dotted, "https://www.a.test./", "c=3; Domain=test.");
    set(&mut dotted, "https://evil.co.uk./", "d=4; Domain=co.uk.");
    assert_eq!(sent(&mut dotted, "https://www.a.test./"), "a=1");
    assert_eq!(sent(&mut dotted, "https://www.a.test/"), "");
    assert_eq!(sent(&mut dotted, "https://other.co.uk./"), "");
}

fn hosts() -> impl Strategy<Value = String> {
    const NAMES: &[&str] =
        &["example.org", "a.example.org", "b.a.example.org", "notexample.org", "co.uk", "x.co.uk", "1.2.3.4", "org"];
    (proptest::sample::select(NAMES), proptest::bool::ANY)
        .prop_map(|(host, dot)| format!("{host}{}", if dot { "." } else { "" }))
}

proptest! {
    /// Whatever is set, a cookie reaches only its own host and names that share its registrable domain, and the jar's
    /// byte count is correct. Over http no secure cookie is sent.
    #[test]
    fn cookies_are_sent_only_within_their_site(
        sets in proptest::collection::vec((hosts(), hosts(), proptest::bool::ANY, proptest::bool::ANY, 0..4_u8), 1..40),
        to in hosts(),
        https in proptest::bool::ANY,
    ) {
        let mut jar = CookieJar::default();
        for (host, domain, from_https, secure, n) in &sets {
            let (scheme, secure) = (if *from_https { "https" } else { "http" }, if *secure { "; Secure" } else { "" });
            let site = site_of(host.trim_end_matches('.')).to_owned();
            let line = format!("n{n}={site}{secure}; Domain={domain}");
            set(&mut jar, &format!("{scheme}://{host}/"), &line);
        }
        let total_weight: usize = jar.sites.values().flatten().map(Cookie::weight).sum();
        prop_assert_eq!(jar.bytes, total_weight);
        let page = format!("{}://{to}/", if https { "https" } else { "http" });
        let header = sent(&mut jar, &page);
        for pair in header.split("; ").filter(|pair| !pair.is_empty()) {
            let site = pair.split_once('=').map(|(_, site)| site);
            prop_assert_eq!(site, Some(site_of(to.trim_end_matches('.'))), "{} got {}", to, pair);
        }
        if !https {
            let mut without_secure = jar.clone();
            without_secure.sites.values_mut().for_each(|cookies| cookies.retain(|cookie| !cookie.secure));
            prop_assert_eq!(header, sent(&mut without_secure, &page));
        }
    }

    #[test]
    fn no_line_makes_the_parser_panic(line: Vec<u8>, text in "[a-zA-Z=; ,:0-9\\-]{0,80}") {
        for line in [line.as_slice(), text.as_bytes()] {
            if let Some(cookie) = SetCookie::parse(line) {
                prop_assert!(cookie.name.len() + cookie.value.len() <= 4_096);
                CookieJar::default().store(&cookie, url("https://example.org/").as_ref(), NOW);
            }
        }
    }
}

use super::*;
use proptest::prelude::*;

fn page(text: &str) -> Url {
    Url::parse(text).expect("an address that can be parsed")
}

/// The result of the crate `url`, in normal form.
fn resolve_slowly(base: &Url, href: &str, encoding: &'static Encoding) -> Result<String, BadUrl> {
    let base = url::Url::parse(base.as_str()).expect("normal form parses");
    let parsed = parse(href, &base, encoding).map_err(|_| BadUrl::Syntax)?;
    Url::from_parsed(parsed).map(|url| url.as_str().to_owned())
}

fn resolve_fast(base: &Url, href: &str) -> Option<String> {
    let mut out = String::new();
    Normal::new(base).resolve(href, &mut out).then_some(out)
}

#[test]
fn simple_links_take_the_fast_path() {
    let base = page("https://example.com:8080/a/b/c.html?q=1");
    for (href, expected) in [
        ("", "https://example.com:8080/a/b/c.html?q=1"),
        ("#top", "https://example.com:8080/a/b/c.html?q=1"),
        ("?x=y&z", "https://example.com:8080/a/b/c.html?x=y&z"),
        ("/", "https://example.com:8080/"),
        ("/x/y.html", "https://example.com:8080/x/y.html"),
        ("d.html", "https://example.com:8080/a/b/d.html"),
        ("d/e/?f", "https://example.com:8080/a/b/d/e/?f"),
        ("../d.html#x", "https://example.com:8080/a/d.html"),
        ("./d.html", "https://example.com:8080/a/b/d.html"),
        ("../../../../d", "https://example.com:8080/d"),
        ("..", "https://example.com:8080/a/"),
        (".", "https://example.com:8080/a/b/"),
        ("x//../y", "https://example.com:8080/a/b/x/y"),
        ("a%20b", "https://example.com:8080/a/b/a%20b"),
        ("http://other.example/x", "http://other.example/x"),
        ("https://other.example", "https://other.example/"),
        ("https://other.example?x", "https://other.example/?x"),
        ("//cdn.example/x.js", "https://cdn.example/x.js"),
        ("https://example.com:8080/z", "https://example.com:8080/z"),
        (" /x \n", "https://example.com:8080/x"),
        ("http://192.0.2.7/x", "http://192.0.2.7/x"),
        ("http://192.0.2.7:8080", "http://192.0.2.7:8080/"),
        ("https://other.example:80/x", "https://other.example:80/x"),
        ("//other.example:0/x", "https://other.example:0/x"),
    ] {
        assert_eq!(resolve_fast(&base, href).as_deref(), Some(expected), "{href}");
        assert_eq!(resolve_slowly(&base, href, UTF_8).as_deref(), Ok(expected), "{href}");
    }
}

#[test]
fn other_links_are_passed_to_the_parser() {
    let base = page("http://h/a/b");
    for href in [
        "HTTP://h/",
        "http://H/",
        "http://1.2.3/",
        "http://1.2.3.04/",
        "http://1.2.3.256/",
        "http://h:80/",
        "http://h:080/",
        "http://h:65536/",
        "http://h:/",
        "http://h:1:2/",
        "http://1.2.3.4:80/",
        "http://xn--a/",
        "http://a..b/",
        "http://u@h/",
        "http:x",
        "a:b",
        "a\\b",
        "/\\h",
        "é",
        "a b",
        "a\tb",
        "%2e%2e/x",
        "x/%2E",
        "?a'b",
        "///x",
        "http://0x7f/",
        "http://a_b/",
        "{",
    ] {
        assert_eq!(resolve_fast(&base, href), None, "{href}");
    }
}

#[test]
fn queries_are_encoded_in_the_charset_of_the_page() {
    let base = BaseUrl::new(&page("http://h/"));
    let mut out = String::new();
    for (href, encoding, expected) in [
        ("/é?é", "utf-8", "http://h/%C3%A9?%C3%A9"),
        ("/é?é", "windows-1252", "http://h/%C3%A9?%E9"),
        ("?я", "windows-1251", "http://h/?%FF"),
        ("?я", "windows-1252", "http://h/?%26%231103%3B"),
        ("?日", "shift_jis", "http://h/?%93%FA"),
        ("?é", "utf-16", "http://h/?%C3%A9"),
    ] {
        let encoding = Encoding::for_label(encoding.as_bytes()).expect("a label of the standard");
        base.resolve(href, encoding, &mut out).expect("resolves");
        assert_eq!(out, expected, "{href}");
    }
}

#[test]
fn a_base_element_changes_the_base_unless_it_is_ignored() {
    let page_base = BaseUrl::new(&page("http://h/a/b"));
    let mut out = String::new();
    for (base, href, expected) in [
        ("/x/", "y", Ok("http://h/x/y")),
        ("http://u:p@other/x", "y", Ok("http://other/y")),
        ("ftp://f/", "y", Err(BadUrl::Scheme)),
        ("ftp://f/", "http://z", Ok("http://z/")),
        ("mailto:x", "y", Err(BadUrl::Syntax)),
    ] {
        let rebased = page_base.rebased(base, UTF_8).expect("a base");
        assert_eq!(rebased.resolve(href, UTF_8, &mut out).map(|()| out.as_str()), expected, "{base} {href}");
    }
    for ignored in ["javascript:x", "data:,x", "http://[", "//"] {
        assert!(page_base.rebased(ignored, UTF_8).is_none(), "{ignored}");
    }
}

/// Random texts that resemble links.
fn hrefs() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z0-9]{1,4}",
        2 => Just("/".to_owned()),
        2 => Just("../".to_owned()),
        1 => Just("./".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just("..".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("#".to_owned()),
        1 => Just(":".to_owned()),
        1 => Just("http://".to_owned()),
        1 => Just("https://".to_owned()),
        1 => Just("//".to_owned()),
        1 => Just("example.com".to_owned()),
        1 => Just("h:8080".to_owned()),
        1 => Just("127.0.0.1".to_owned()),
        1 => Just("%2e".to_owned()),
        1 => Just("%".to_owned()),
        1 => Just("-".to_owned()),
        2 => "[ -~]",
        1 => "[\\x00-\\x20]",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn the_fast_path_agrees_with_url(
        href in hrefs(),
        base in prop::sample::select(vec![
            "http://h/", "https://example.com/a/b/c?d", "http://h:8080/x//y/", "http://127.0.0.1:81/a", "https://[::1]/p/q?",
        ]),
    ) {
        let base = page(base);
        if let Some(fast) = resolve_fast(&base, &href) {
            prop_assert_eq!(Ok(fast), resolve_slowly(&base, &href, UTF_8), "{:?}", href);
        }
    }
}

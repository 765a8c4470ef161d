use proptest::prelude::*;

use super::*;

fn normal(text: &str) -> String {
    Url::parse(text).map_or_else(|error| error.to_string(), |url| url.to_string())
}

#[test]
fn equal_urls_have_one_normal_form() {
    for (text, expected) in [
        ("HTTP://Example.COM", "http://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/%2e%2E/x", "http://example.com/x"),
        ("http:\\\\example.com\\x", "http://example.com/x"),
        (" http://ex\tample.com/\n", "http://example.com/"),
        ("http://b\u{fc}cher.example/\u{fc}?\u{fc}", "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[0:0::0:1]:8080/", "http://[::1]:8080/"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
}

#[test]
fn parts_that_a_server_may_distinguish_are_kept() {
    for text in [
        "http://example.com/a//b",
        "http://example.com/A",
        "http://example.com/%66oo",
        "http://example.com/a%2fb",
        "http://example.com/?",
        "http://example.com/?b=1&a=2",
        "http://example.com/?a=",
        "http://example.com/index.html",
        "http://example.com./",
        "http://www.example.com/a/",
        "http://example.com/?utm_source=x&PHPSESSID=1",
    ] {
        assert_eq!(normal(text), text);
    }
}

#[test]
fn fragments_and_user_information_are_removed() {
    assert_eq!(normal("http://me:secret@example.com:81/x?y#z"), "http://example.com:81/x?y");
    assert_eq!(normal("http://me@example.com/#"), "http://example.com/");
    let page = Url::parse("http://example.com/a/b").unwrap();
    assert_eq!(page.join("//u:p@other.example/c#d").unwrap().as_str(), "http://other.example/c");
    assert_eq!(page.join("#top").unwrap(), page);
}

#[test]
fn other_schemes_and_long_urls_are_refused() {
    let parse = |text: &str| Url::parse(text).unwrap_err();
    for text in ["ftp://a/", "file:///etc/passwd", "javascript:alert(1)", "data:,x", "mailto:a@b", "ws://a/"] {
        assert_eq!(parse(text), BadUrl::Scheme, "{text}");
    }
    for text in ["", "/x", "example.com", "http://", "http://a b/", "http://[::1", "http://1.2.3.4.5/"] {
        assert_eq!(parse(text), BadUrl::Syntax, "{text}");
    }
    assert_eq!(parse("http://a:99999/"), BadUrl::Port);
    let long = |len: usize| format!("http://a/{}", "x".repeat(len - "http://a/".len()));
    assert!(Url::parse(&long(MAX_URL_LEN)).is_ok());
    assert_eq!(parse(&long(MAX_URL_LEN + 1)), BadUrl::TooLong);
    assert_eq!(
        parse(&format!("http://a/{}", "\u{fc}".repeat(MAX_URL_LEN / 3))),
        BadUrl::TooLong,
        "the limit applies to the normal form"
    );
}

#[test]
fn the_parts_of_a_url_are_found() {
    let url = Url::parse("https://[2001:db8::1]:8443/a/b?c=/?d").unwrap();
    assert_eq!((url.host(), url.port(), url.authority()), ("[2001:db8::1]", 8443, "[2001:db8::1]:8443"));
    assert_eq!((url.path(), url.query(), url.target()), ("/a/b", Some("c=/?d"), "/a/b?c=/?d"));
    assert!(url.is_https());
    assert_eq!(url.origin().to_string(), "https://[2001:db8::1]:8443");
    let url = Url::parse("http://[::1]/").unwrap();
    assert_eq!((url.host(), url.port(), url.authority(), url.query()), ("[::1]", 80, "[::1]", None));
    let url = Url::parse("http://example.com/?").unwrap();
    assert_eq!((url.path(), url.query(), url.target()), ("/", Some(""), "/?"));
}

#[test]
fn from_normal_refuses_malformed_urls() {
    for text in ["", "http:", "http://", "http://a", "httpx://a/", "ftp://a/", "//a/", "http://a:b/", "http://a:99999/"]
    {
        assert!(UrlRef::from_normal(text).is_none(), "{text}");
    }
}

#[test]
fn urls_take_at_most_24_bytes() {
    assert!(size_of::<Url>() <= 24);
    assert!(size_of::<Option<Url>>() <= 24);
}

#[test]
fn fingerprints_depend_on_the_key() {
    let (a, b) = (Url::parse("http://a/").unwrap(), Url::parse("http://b/").unwrap());
    assert_eq!(a.fingerprint(1), a.as_ref().fingerprint(1));
    assert_ne!(a.fingerprint(1), a.fingerprint(2));
    assert_ne!(a.fingerprint(1), b.fingerprint(1));
}

#[test]
fn registrable_domains() {
    for (host, expected) in [
        ("example.com", Some("example.com")),
        ("a.b.example.co.uk", Some("example.co.uk")),
        ("me.github.io", Some("me.github.io")),
        ("github.io", None),
        ("com", None),
        ("localhost", None),
        ("127.0.0.1", None),
        ("[::1]", None),
        ("a.unknown-suffix", Some("a.unknown-suffix")),
    ] {
        assert_eq!(registrable_domain(host), expected, "{host}");
    }
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_the_previous_url(
        first in "https?://(a|ab|\\[::1\\]|a:8)(:8|:80|:81|)[/?b]{1,3}",
        second in "https?://(a|ab|\\[::1\\]|a:8)(:8|:80|:81|)[/?b]{0,3}",
    ) {
        if let Some(other) = UrlRef::from_normal(&first) {
            let (after, alone) = (UrlRef::from_normal_after(&second, other), UrlRef::from_normal(&second));
            prop_assert_eq!(after.map(UrlRef::offsets), alone.map(UrlRef::offsets), "{} after {}", second, first);
        }
    }

    #[test]
    fn normal_forms_are_stable_and_equal_their_joined_parts(
        text in prop_oneof![any::<String>(), "https?://(\\PC{0,12}@)?[a-z0-9.:\\[\\]]{1,14}(/\\PC{0,20})?"],
    ) {
        if let Ok(url) = Url::parse(&text) {
            prop_assert_eq!(&Url::parse(url.as_str()).unwrap(), &url);
            let scheme = if url.is_https() { "https" } else { "http" };
            prop_assert_eq!(format!("{scheme}://{}{}", url.authority(), url.target()), url.as_str());
            prop_assert!(url.target().starts_with('/') && url.as_str().is_ascii());
            prop_assert!(!url.as_str().contains(['#', ' ', '\n']) && !url.authority().contains('@'));
            prop_assert_eq!(format!("{}{}", url.origin(), url.target()), url.as_str());
        }
    }
}

#[test]
fn messages_do_not_repeat_passwords() {
    for (text, shown) in [
        ("ftp://me:pw@h/x@y", "ftp://h/x@y"),
        ("//me:p@w@h", "//h"),
        ("http://h:99999/a@b", "http://h:99999/a@b"),
        ("mailto:me@h", "mailto:me@h"),
        (r"http:\\me:pw@h:99999/t", r"http:\\h:99999/t"),
        (r"http:/\me:pw@h:99999\a@b", r"http:/\h:99999\a@b"),
        ("http:me:pw@h:99999", "http:h:99999"),
        ("h\tttp:/\r/me:p\nw@h:99999/", "http://h:99999/"),
        (" \u{1}http:////me:pw@h?a@b", " \u{1}http:////h?a@b"),
        (r"\\me:pw@h", r"\\h"),
        ("me:pw@h", "me:h"),
        ("é", "é"),
        ("é:pw@h", "h"),
        ("/a/b@c", "/a/b@c"),
        ("", ""),
    ] {
        assert_eq!(without_user_info(text), shown);
    }
}

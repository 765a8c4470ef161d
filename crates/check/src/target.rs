//! Resolves a reference as written to its target.

use std::borrow::Cow;

use argiope_core::BadUrl;
use argiope_core::page::examine::BaseUrl;
use encoding_rs::Encoding;

use crate::mail;

/// The kind of target, by syntax alone. The URL itself is in a buffer of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An http or https URL. In a folder check it can stand for a file (`FolderUrls`).
    Web,
    /// Not valid, for the given reason.
    Malformed(String),
    /// A syntactically valid mail address.
    Mail,
    /// Another scheme, which is not checked.
    NotChecked,
}

/// Resolves a reference without its fragment. The URL is written to `out`.
pub(crate) fn resolve(href: &str, base: &BaseUrl, encoding: &'static Encoding, out: &mut String) -> Target {
    match scheme(href) {
        Some(scheme) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => {}
        Some(scheme) if scheme.eq_ignore_ascii_case("mailto") => {
            let address = href.trim_start().get(scheme.len() + 1..).unwrap_or("");
            return mail::fault(address).map_or(Target::Mail, Target::Malformed);
        }
        Some(scheme) if scheme.eq_ignore_ascii_case("file") => {
            return Target::Malformed("a file URL points to the machine that built the page".into());
        }
        Some(_) => return Target::NotChecked,
        None => {}
    }
    match base.resolve(href, encoding, out) {
        Ok(()) => Target::Web,
        Err(BadUrl::Scheme) => Target::NotChecked,
        Err(BadUrl::Port) => Target::Malformed("not a valid port".into()),
        Err(BadUrl::TooLong) => Target::Malformed("longer than a URL may be".into()),
        Err(_) => Target::Malformed("not a valid URL".into()),
    }
}

/// The scheme of a URL, if it has one.
pub(crate) fn scheme(href: &str) -> Option<&str> {
    // Like URL parsers, ignores control characters and spaces at the start.
    let href = href.trim_start_matches(|c: char| c <= ' ');
    if !href.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let end = href.bytes().position(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(&byte))?;
    href.get(..end).filter(|_| href.as_bytes().get(end) == Some(&b':'))
}

/// Splits a reference into the part before the fragment and the fragment without `#`. Surrounding control
/// characters and spaces are ignored.
pub(crate) fn split_fragment(href: &str) -> (&str, Option<&str>) {
    let href = href.trim_matches(|c: char| c <= ' ');
    match href.split_once('#') {
        Some((address, fragment)) => (address, Some(fragment)),
        None => (href, None),
    }
}

/// The file system path of a URL: percent-decoded, without query. An encoded slash is part of a name, and no name of a file
/// has a slash: such a part of the path stays encoded, so that it leads nowhere.
pub(crate) fn decoded_path(target: &str) -> Cow<'_, str> {
    let path = target.split('?').next().unwrap_or(target);
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let decode = |part| {
        let decoded = percent_encoding::percent_decode_str(part).decode_utf8_lossy();
        if decoded.contains('/') { Cow::Borrowed(part) } else { decoded }
    };
    Cow::Owned(path.split('/').map(decode).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::Url;

    #[test]
    fn a_reference_is_resolved_or_classified_by_its_scheme() {
        let base = BaseUrl::new(&Url::parse("https://h.example/a/b").expect("a URL"));
        let mut out = String::new();
        let mut target = |href: &str| {
            out.clear();
            let target = resolve(href, &base, encoding_rs::UTF_8, &mut out);
            (target, out.clone())
        };
        for (href, url) in [
            ("c", "https://h.example/a/c"),
            ("//x.example", "https://x.example/"),
            ("HTTP://x.example/ y", "http://x.example/%20y"),
            ("", "https://h.example/a/b"),
        ] {
            assert_eq!(target(href), (Target::Web, url.to_owned()), "{href}");
        }
        for href in ["tel:1", "javascript:x()", "data:,x", "ftp://h/"] {
            assert_eq!(target(href).0, Target::NotChecked, "{href}");
        }
        assert_eq!(target("mailto:a@b.example").0, Target::Mail);
        for href in ["http://", "https://exa mple/", "http://[::1/", "mailto:someone", "file:///C:/x.html"] {
            assert!(matches!(target(href).0, Target::Malformed(_)), "{href}");
        }
    }

    #[test]
    fn an_encoded_slash_does_not_separate_the_parts_of_a_path() {
        for (path, decoded) in [
            ("/a%20b/c%2e?x=%41", "/a b/c."),
            ("/%2f..%2fetc/pass%77d", "/%2f..%2fetc/passwd"),
            ("/..%2F..%2Fetc", "/..%2F..%2Fetc"),
            ("/a/b", "/a/b"),
        ] {
            assert_eq!(decoded_path(path), decoded);
        }
    }
}

//! Response headers that describe a page: media type, `Refresh`, `Link`.

use super::characters::is_space;

/// A media type longer than this is ignored (RFC 6838, 4.2: two names of at most 127 characters).
const MAX_TYPE: usize = 255;

/// A media type, as far as a crawler needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType {
    /// `type/subtype` in lower case.
    pub essence: Box<str>,
    /// The charset parameter as received.
    pub charset: Option<Box<str>>,
}

impl MediaType {
    /// Parses a `Content-Type` value. In a list, the last valid type counts, as in the Fetch standard. If it has no
    /// charset, the charset of the previous one is used if that has the same type.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = String::from_utf8_lossy(value);
        let mut found: Option<Self> = None;
        for item in split_quoted(&value, ',') {
            let Some(mut next) = Self::parse_one(item) else { continue };
            if let Some(previous) = found
                && next.charset.is_none()
                && next.essence == previous.essence
            {
                next.charset = previous.charset;
            }
            found = Some(next);
        }
        found
    }

    fn parse_one(item: &str) -> Option<Self> {
        let mut parts = split_quoted(item, ';');
        let essence = parts.next()?.trim().to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/')?;
        let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
        if essence.len() > MAX_TYPE || !is_token(kind) || !is_token(subtype) || essence == "*/*" {
            return None;
        }
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches('"').trim();
            (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then(|| Box::from(value))
        });
        Some(Self { essence: essence.into_boxed_str(), charset })
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits a header value at separators outside of quotes and angle brackets.
fn split_quoted(value: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut bracketed) = (false, false);
        let end = text.find(|character| {
            match character {
                '"' if !bracketed => quoted = !quoted,
                '<' if !quoted => bracketed = true,
                '>' if !quoted => bracketed = false,
                _ => return character == separator && !quoted && !bracketed,
            }
            false
        });
        rest = end.and_then(|end| text.get(end + separator.len_utf8()..));
        text.get(..end.unwrap_or(text.len()))
    })
}

/// The URL in a `Refresh` header or meta refresh; `None` if there is none.
pub fn refresh_header(value: &str) -> Option<&str> {
    let spaces = |text: &str| text.bytes().take_while(|&byte| is_space(byte)).count();
    // The delay comes first: a number, which ends at a separator or white space.
    let mut rest = value.get(spaces(value)..)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 && !rest.starts_with('.') {
        return None;
    }
    rest = rest.get(rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count()..)?;
    if !rest.starts_with([';', ',', ' ', '\t', '\n', '\r', '\x0C']) {
        return None;
    }
    rest = rest.get(spaces(rest)..)?;
    if rest.starts_with([';', ',']) {
        rest = rest.get(1..)?;
    }
    rest = rest.get(spaces(rest)..)?;
    if rest.is_empty() {
        return None;
    }
    // `url=` is optional. Without the `=`, these letters belong to the URL.
    if rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("url"))
        && let Some(after) = rest.get(3..)
        && let Some(after) = after.get(spaces(after)..)
        && let Some(after) = after.strip_prefix('=')
    {
        rest = after.get(spaces(after)..)?;
    }
    match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest.get(1..)?.split(quote).next(),
        _ => Some(rest),
    }
}

/// The URLs in a `Link` header with their `rel` parameters ("" if missing).
pub fn link_header(value: &str) -> impl Iterator<Item = (&str, &str)> {
    split_quoted(value, ',').filter_map(|item| {
        let (href, parameters) = item.trim_start().strip_prefix('<')?.split_once('>')?;
        let rel = split_quoted(parameters, ';').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("rel").then(|| value.trim().trim_matches('"'))
        });
        Some((href.trim(), rel.unwrap_or("")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_parsed() {
        let cases = [
            ("text/html", Some(("text/html", None))),
            ("Text/HTML; Charset=UTF-8", Some(("text/html", Some("UTF-8")))),
            ("text/html;charset=\"utf-8\"", Some(("text/html", Some("utf-8")))),
            ("text/html; a=\"x;charset=no\"; charset=yes", Some(("text/html", Some("yes")))),
            (";;; , text/html;charset=\"", Some(("text/html", None))),
            ("text/html;charset=gbk, text/html", Some(("text/html", Some("gbk")))),
            ("text/html;charset=gbk, text/plain", Some(("text/plain", None))),
            ("text/plain, */*", Some(("text/plain", None))),
            ("", None),
            ("html", None),
            ("text/", None),
            ("te xt/html", None),
        ];
        for (value, expected) in cases {
            let parsed = MediaType::parse(value.as_bytes());
            let parsed = parsed.as_ref().map(|parsed| (&*parsed.essence, parsed.charset.as_deref()));
            assert_eq!(parsed, expected, "{value}");
        }
    }

    #[test]
    fn the_url_of_a_refresh_is_found() {
        let cases = [
            ("0; url=/x", Some("/x")),
            ("0;URL='/x'", Some("/x")),
            ("5;url=\"/x y\" more", Some("/x y")),
            ("5.7 , /x", Some("/x")),
            ("5 /x", Some("/x")),
            (" 5;\turl = /x", Some("/x")),
            ("0;urlx", Some("urlx")),
            ("0;url", Some("url")),
            ("0;u", Some("u")),
            (".5;/x", Some("/x")),
            ("5", None),
            ("5;", None),
            ("", None),
            ("x;url=/y", None),
            ("5x;url=/y", None),
            ("-1;url=/y", None),
        ];
        for (value, expected) in cases {
            assert_eq!(refresh_header(value), expected, "{value}");
        }
    }

    #[test]
    fn urls_and_rels_of_link_headers_are_found() {
        let value = "<https://h/a,b>; rel=\"next\"; title=\"x, y\", </c>;rel=prev , <d>, broken, <e;f>; REL=\"a b\"";
        let found: Vec<_> = link_header(value).collect();
        assert_eq!(found, [("https://h/a,b", "next"), ("/c", "prev"), ("d", ""), ("e;f", "a b")]);
        assert_eq!(link_header("").count(), 0);
        assert_eq!(link_header("<unclosed").count(), 0);
    }
}

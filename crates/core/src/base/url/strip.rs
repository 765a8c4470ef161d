//! [`StripParams`]: removes parameters that identify a visitor instead of a page.
//!
//! Invariant: only the selected parameters and session ids are removed. The remaining parameters keep their bytes, and
//! their order unless `@order` is given. Nothing is removed by default, because a server may distinguish any two URLs.

use super::{Url, UrlRef};

/// Selects the parameters of [`SESSIONS`], and path segments that are session ids, such as `(S(...))`.
const ALL_SESSIONS: &str = "@sessions";
/// Selects the parameters of [`TRACKING`].
const ALL_TRACKING: &str = "@tracking";
/// Sorts the remaining parameters.
const SORT: &str = "@order";

/// Session parameters of servers and frameworks.
const SESSIONS: &[&str] = &[
    "aspsessionid*",
    "cfid",
    "cftoken",
    "jsessionid",
    "osid",
    "phpsessid",
    "session_id",
    "sessionid",
    "sessid",
    "sid",
    "zenid",
];

/// Parameters that record where a visitor came from.
const TRACKING: &[&str] = &[
    "_ga", "dclid", "fbclid", "gbraid", "gclid", "igshid", "mc_cid", "mc_eid", "msclkid", "ttclid", "twclid", "utm_*",
    "wbraid", "yclid",
];

/// The parameters to remove from queries, and from path segments such as `page;jsessionid=1`. Their names are compared
/// without regard to case. `utm_*` matches a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripParams {
    names: Vec<Box<str>>,
    prefixes: Vec<Box<str>>,
    /// Whether path segments that are session ids are removed too.
    strips_path_sessions: bool,
    /// Whether the remaining parameters are sorted.
    sorts: bool,
}

impl StripParams {
    /// The special names that [`StripParams::new`] accepts.
    pub const GROUPS: [&str; 3] = [ALL_SESSIONS, ALL_TRACKING, SORT];

    /// `@sessions` and `@tracking` stand for lists of well-known names; `@order` sorts the remaining parameters.
    pub fn new<S: AsRef<str>>(names: &[S]) -> Self {
        let mut strip = Self::default();
        for name in names {
            match name.as_ref() {
                ALL_SESSIONS => {
                    strip.strips_path_sessions = true;
                    SESSIONS.iter().for_each(|name| strip.add(name));
                }
                SORT => strip.sorts = true,
                ALL_TRACKING => TRACKING.iter().for_each(|name| strip.add(name)),
                name => strip.add(name),
            }
        }
        strip
    }

    fn add(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        match name.strip_suffix('*') {
            Some(prefix) => self.prefixes.push(prefix.into()),
            None => self.names.push(name.into()),
        }
    }

    /// Whether no URL is changed.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.prefixes.is_empty() && !self.sorts
    }

    /// The URL without these parameters; `None` if nothing changes.
    pub fn strip(&self, url: UrlRef<'_>) -> Option<Url> {
        if self.is_empty() {
            return None;
        }
        let target = url.target();
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let changes = path.split('/').any(|segment| self.changes_segment(segment))
            || query.is_some_and(|query| query.split('&').any(|pair| self.is_stripped(pair)))
            || query.is_some_and(|query| self.sorts && !query.split('&').is_sorted());
        if !changes {
            return None;
        }
        let mut text = String::with_capacity(url.as_str().len());
        text.push_str(url.as_str().strip_suffix(target)?);
        let mut segments = path.split('/').filter(|segment| !self.is_session_segment(segment));
        text.push_str(segments.next().unwrap_or(""));
        for segment in segments {
            text.push('/');
            let mut parts = segment.split(';');
            text.push_str(parts.next().unwrap_or(""));
            for part in parts.filter(|part| !self.is_stripped(part)) {
                text.push(';');
                text.push_str(part);
            }
        }
        let mut separator = '?';
        let pairs = query.into_iter().flat_map(|query| query.split('&'));
        let mut pairs: Vec<&str> = pairs.filter(|pair| !self.is_stripped(pair)).collect();
        if self.sorts {
            pairs.sort_unstable();
        }
        for pair in pairs {
            text.push(separator);
            text.push_str(pair);
            separator = '&';
        }
        // The new path may not be in normal form, for example `/.` or empty.
        Url::parse(&text).ok()
    }

    fn changes_segment(&self, segment: &str) -> bool {
        self.is_session_segment(segment) || segment.split(';').skip(1).any(|part| self.is_stripped(part))
    }

    /// Whether a path segment is a session id. ASP.NET writes `(S(lit3py55t21z5v55vlm25s55))`, where the first letter
    /// may also be A, F or X; other servers write `s(abc123)`.
    fn is_session_segment(&self, segment: &str) -> bool {
        let inner = segment.strip_prefix('(').and_then(|rest| rest.strip_suffix("))"));
        let is_aspx = inner.is_some_and(|inner| matches!(inner.as_bytes(), [b'A' | b'F' | b'S' | b'X', b'(', ..]));
        let is_plain = matches!(segment.as_bytes(), [b'S' | b's', b'(', .., b')']);
        self.strips_path_sessions && (is_aspx || is_plain)
    }

    /// Whether a parameter, written as `name` or `name=value`, is removed.
    fn is_stripped(&self, pair: &str) -> bool {
        let name = pair.split('=').next().unwrap_or(pair).as_bytes();
        let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|n| n.eq_ignore_ascii_case(prefix.as_bytes()));
        self.names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
            || self.prefixes.iter().any(|prefix| begins(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(names: &[&str], text: &str) -> Option<String> {
        let url = Url::parse(text).unwrap();
        StripParams::new(names).strip(url.as_ref()).map(|url| url.as_str().to_owned())
    }

    #[test]
    fn nothing_is_stripped_by_default() {
        for text in ["https://a.test/?sid=1&utm_source=x", "https://a.test/p;jsessionid=1", "https://a.test/(S(1))/p"] {
            assert_eq!(strip(&[], text), None);
            assert_eq!(strip(&["other"], text), None);
        }
    }

    #[test]
    fn the_rest_keeps_its_bytes_and_its_order() {
        let strip = |text| strip(&["sid", "utm_*"], text).unwrap();
        assert_eq!(strip("https://a.test/p?b=2&sid=1&a=%20+1&"), "https://a.test/p?b=2&a=%20+1&");
        assert_eq!(strip("https://a.test/p?SID=1"), "https://a.test/p");
        assert_eq!(strip("https://a.test:81/?sid&utm_source=x&utm_=y&x?y"), "https://a.test:81/?x?y");
        assert_eq!(strip("https://[::1]/a;x=1;sid=2;y/b;sid=3?q"), "https://[::1]/a;x=1;y/b?q");
    }

    #[test]
    fn sessions_are_removed_from_queries_and_paths() {
        let strip = |text| strip(&["@sessions"], text);
        assert_eq!(strip("https://a.test/p;jsessionid=AB12?q=1").unwrap(), "https://a.test/p?q=1");
        assert_eq!(strip("https://a.test/p?PHPSESSID=1&q=1").unwrap(), "https://a.test/p?q=1");
        assert_eq!(strip("https://a.test/(S(abc123))/p").unwrap(), "https://a.test/p");
        assert_eq!(strip("https://a.test/(S(abc123))").unwrap(), "https://a.test/");
        assert_eq!(strip("https://a.test/?ASPSESSIONIDABC=1").unwrap(), "https://a.test/");
        assert_eq!(strip("https://a.test/s(abc123)/p").unwrap(), "https://a.test/p");
        assert_eq!(strip("https://a.test/(x)/side?inside=1"), None);
        assert_eq!(strip("https://a.test/sin(x)"), None);
    }

    #[test]
    fn remaining_parameters_are_sorted() {
        assert_eq!(strip(&["@order"], "https://a.test/p?b=2&a=1&a=0").unwrap(), "https://a.test/p?a=0&a=1&b=2");
        assert_eq!(strip(&["@order"], "https://a.test/p?a=1&b=2"), None);
        assert_eq!(strip(&["@order", "b"], "https://a.test/p?c&b=2&a").unwrap(), "https://a.test/p?a&c");
    }

    #[test]
    fn tracking_parameters_are_removed() {
        assert_eq!(
            strip(&["@tracking"], "https://a.test/?fbclid=1&id=2&utm_medium=z").unwrap(),
            "https://a.test/?id=2"
        );
    }
}

//! Shapes of URLs: paths that grow endlessly, and the pattern that a URL belongs to.
//!
//! Invariant: everything here is a pure function of the URL.

use crate::base::url::UrlRef;

/// Limit on path segments. Heritrix uses the same number.
const MAX_SEGMENTS: usize = 20;
/// How many times in a row a sequence of segments may occur.
const MAX_REPEATS: usize = 2;
/// The longest sequence of segments that is searched for.
const MAX_SEQUENCE: usize = 4;
/// Limit on parameter names in a pattern.
const MAX_NAMES: usize = 32;
/// Limit on the characters of a parameter name in a pattern.
const MAX_NAME: usize = 40;
/// Limit on the bytes of a pattern.
const MAX_PATTERN: usize = 1_000;

/// Whether a path has more segments than the paths of ordinary sites.
pub fn is_deep(path: &str) -> bool {
    // Fast exit: most paths are too short.
    path.len() > 2 * MAX_SEGMENTS && segments(path).count() > MAX_SEGMENTS
}

/// Whether a path repeats a sequence of segments: `/a/a/a/`, `/x/y/x/y/x/y/`. Numbers alone do not count, because dates
/// and map tiles repeat.
pub fn is_circular(path: &str) -> bool {
    // Fast exit: most paths are too short.
    if path.bytes().filter(|&byte| byte == b'/').count() <= MAX_REPEATS {
        return false;
    }
    let mut buffer = [""; MAX_SEGMENTS];
    let mut count = 0;
    for (slot, segment) in buffer.iter_mut().zip(segments(path)) {
        *slot = segment;
        count += 1;
    }
    let segments = buffer.get(..count).unwrap_or(&[]);
    (1..=MAX_SEQUENCE).any(|length| {
        segments.windows(length * (MAX_REPEATS + 1)).any(|window| {
            let first = window.get(..length).unwrap_or(&[]);
            let has_word = first.iter().any(|segment| segment.bytes().any(|byte| !byte.is_ascii_digit()));
            has_word && window.chunks(length).all(|other| other == first)
        })
    })
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// The pattern of a URL: host, shape of the path, and names of the parameters, as in `h.example/*/#/*.html?month&year`.
///
/// A segment that is a number becomes `#`, every other segment `*`. The last one keeps its extension. Reports show this
/// text, and `explain` compares it.
pub fn pattern(url: UrlRef<'_>) -> String {
    let mut text = String::with_capacity(64);
    text.push_str(url.authority());
    let path = url.path();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/').take(MAX_SEGMENTS + 1) {
        text.push('/');
        text.push_str(match segment {
            "" => "",
            _ if segment.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_')) => "#",
            _ => "*",
        });
    }
    if text.ends_with('*') {
        text.push_str(extension(path));
    }
    let mut separator = '?';
    for name in names(url.query().unwrap_or("")) {
        text.push(separator);
        text.push_str(&name);
        separator = '&';
    }
    text.truncate(text.floor_char_boundary(MAX_PATTERN));
    text
}

/// The file extension, such as `.html`; empty if there is none.
fn extension(path: &str) -> &str {
    let dot_or_slash = path.rfind(['.', '/']).unwrap_or(0);
    let extension = path.get(dot_or_slash..).unwrap_or("");
    // A dot and one to five letters.
    let is_extension = extension.starts_with('.')
        && (2..=6).contains(&extension.len())
        && extension.bytes().skip(1).all(|byte| byte.is_ascii_alphabetic());
    if is_extension { extension } else { "" }
}

/// The parameter names of a query, distinct and sorted. Numbers in them become `#`, so that `item17` equals `item18`.
fn names(query: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()).take(MAX_NAMES) {
        let name = pair.split('=').next().unwrap_or(pair);
        let mut masked = String::with_capacity(name.len());
        for character in name.chars().take(MAX_NAME) {
            let shown = if character.is_ascii_digit() { '#' } else { character };
            if !(shown == '#' && masked.ends_with('#')) {
                masked.push(shown);
            }
        }
        names.push(masked);
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Hash of the set of a query's parameter names.
pub fn combination(query: &str) -> u64 {
    names(query).iter().fold(0, |set, name| set ^ xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::url::Url;

    #[test]
    fn paths_that_repeat_a_sequence_of_segments_are_circular() {
        for path in ["/a/a/a/", "/x/y/x/y/x/y", "/p/a/b/c/a/b/c/a/b/c/z", "/a/b/c/d/a/b/c/d/a/b/c/d", "/k/img/img/img/"]
        {
            assert!(is_circular(path), "{path}");
        }
        for path in
            ["/", "/a/a/", "/a/b/a/b", "/2011/11/11/11", "/0/0/0/0.png", "/a/b/c/a/b/d", "/a/a/b/a/a", "//a//a", ""]
        {
            assert!(!is_circular(path), "{path}");
        }
    }

    #[test]
    fn paths_with_more_than_20_segments_are_deep() {
        assert!(!is_deep(&"/a".repeat(20)));
        assert!(is_deep(&"/a".repeat(21)));
        assert!(!is_deep(&"/".repeat(50)));
    }

    #[test]
    fn patterns_replace_numbers_and_names() {
        let of = |text: &str| pattern(Url::parse(text).expect("a valid URL").as_ref());
        assert_eq!(of("https://h.example/"), "h.example/");
        assert_eq!(of("https://h.example:81/cal/2026/11-02/"), "h.example:81/*/#/#/");
        assert_eq!(of("https://h.example/a/b.html?year=1&month=2&year=3"), "h.example/*/*.html?month&year");
        assert_eq!(of("https://h.example/?item17=x&item2=y"), "h.example/?item#");
        assert_eq!(of("https://h.example/a.b/x"), "h.example/*/*");
        assert_eq!(of("https://h.example/?é=1"), "h.example/?%C3%A9".replace("%C3%A9", "%C#%A#"));
        assert!(of(&format!("https://h.example/?{}", "long_name_".repeat(400))).len() <= MAX_PATTERN);
    }

    #[test]
    fn a_combination_is_the_set_of_parameter_names() {
        assert_eq!(combination("a=1&b=2"), combination("b=3&a=4&a=5"));
        assert_ne!(combination("a=1&b=2"), combination("a=1&c=2"));
    }
}

//! [`Directives`]: robots directives of a page, from meta elements and headers.

/// Robots directives. If there are several, everything that one of them forbids is forbidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    pub noindex: bool,
    /// Whether the links of the page must not be followed.
    pub nofollow: bool,
}

impl Directives {
    /// Combines both: what one of them forbids is forbidden.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self { noindex: self.noindex || other.noindex, nofollow: self.nofollow || other.nofollow }
    }

    /// Parses the content of a meta element whose name is `robots` or the product token of this crawler.
    pub fn from_content(content: &str) -> Self {
        content.split([',', ' ', '\t', '\n', '\r', '\x0C']).map(Self::from_word).fold(Self::default(), Self::merge)
    }

    fn from_word(word: &str) -> Self {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        Self { noindex: is("noindex") || is("none"), nofollow: is("nofollow") || is("none") }
    }
}

/// Parses all `X-Robots-Tag` values. `agent` is the product token of this crawler.
///
/// A value may name an agent, as in `otherbot: noindex, nofollow`. The name applies to all words up to the next name.
pub fn x_robots_tag<'a>(values: impl IntoIterator<Item = &'a [u8]>, agent: &str) -> Directives {
    let mut found = Directives::default();
    for value in values {
        let value = String::from_utf8_lossy(value);
        let mut applies = true;
        for item in value.split(',') {
            let mut word = item.trim();
            if let Some((name, rest)) = word.split_once(':')
                && !takes_value(name.trim())
            {
                applies = name.trim().eq_ignore_ascii_case(agent) || name.trim().eq_ignore_ascii_case("robots");
                word = rest;
            }
            if applies {
                found = found.merge(Directives::from_content(word));
            }
        }
    }
    found
}

/// Whether the word before a colon is a rule that has a value, not the name of an agent.
fn takes_value(name: &str) -> bool {
    ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"]
        .iter()
        .any(|rule| name.eq_ignore_ascii_case(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Directives = Directives { noindex: true, nofollow: true };
    const NOINDEX: Directives = Directives { noindex: true, nofollow: false };
    const NOFOLLOW: Directives = Directives { noindex: false, nofollow: true };
    const NOTHING: Directives = Directives { noindex: false, nofollow: false };

    #[test]
    fn content_is_a_list_of_words_in_any_case() {
        for (content, expected) in [
            ("noindex, nofollow", BOTH),
            ("NOINDEX,NOFOLLOW", BOTH),
            ("none", BOTH),
            ("index, nofollow", NOFOLLOW),
            ("all", NOTHING),
            ("", NOTHING),
            ("noindex nofollow", BOTH),
            ("noindexing", NOTHING),
        ] {
            assert_eq!(Directives::from_content(content), expected, "{content}");
        }
    }

    #[test]
    fn header_values_may_name_an_agent() {
        let cases: [(&[&str], Directives); 10] = [
            (&["noindex"], NOINDEX),
            (&["noindex", "nofollow"], BOTH),
            (&["argiope: nofollow"], NOFOLLOW),
            (&["Argiope: none"], BOTH),
            (&["otherbot: noindex, nofollow"], NOTHING),
            (&["otherbot: noindex", "nofollow"], NOFOLLOW),
            (&["otherbot: noindex, argiope: nofollow"], NOFOLLOW),
            (&["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], NOINDEX),
            (&["max-snippet: 10, nofollow"], NOFOLLOW),
            (&["robots: noindex"], NOINDEX),
        ];
        for (values, expected) in cases {
            assert_eq!(x_robots_tag(values.iter().map(|value| value.as_bytes()), "argiope"), expected, "{values:?}");
        }
    }
}

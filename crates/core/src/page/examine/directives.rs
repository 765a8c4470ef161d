//! [`Directives`]: robots directives of a page, from meta elements and headers.

/// Robots directives. Several are combined to the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    pub noindex: bool,
    /// The links of the page must not be followed.
    pub nofollow: bool,
}

impl Directives {
    /// The union: what either forbids is forbidden.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self { noindex: self.noindex || other.noindex, nofollow: self.nofollow || other.nofollow }
    }

    /// Parses the content of a meta element whose name is `robots` or the agent's.
    pub fn from_content(content: &str) -> Self {
        content.split([',', ' ', '\t', '\n', '\r', '\x0C']).map(Self::from_word).fold(Self::default(), Self::merge)
    }

    fn from_word(word: &str) -> Self {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        Self { noindex: is("noindex") || is("none"), nofollow: is("nofollow") || is("none") }
    }
}

/// Parses all `X-Robots-Tag` values for an agent (its product token).
///
/// A value may be scoped, `otherbot: noindex, nofollow`: the name applies to all words up to the next name.
pub fn x_robots_tag<'a>(values: impl IntoIterator<Item = &'a [u8]>, agent: &str) -> Directives {
    let mut found = Directives::default();
    for value in values {
        let value = String::from_utf8_lossy(value);
        let mut for_us = true;
        for item in value.split(',') {
            let mut word = item.trim();
            if let Some((name, rest)) = word.split_once(':')
                && !has_a_value(name.trim())
            {
                for_us = name.trim().eq_ignore_ascii_case(agent) || name.trim().eq_ignore_ascii_case("robots");
                word = rest;
            }
            if for_us {
                found = found.merge(Directives::from_content(word));
            }
        }
    }
    found
}

/// True if the word before a colon is a rule with a value, not the name of an agent.
fn has_a_value(name: &str) -> bool {
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
    fn content_is_a_list_in_any_case() {
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
    fn header_values_may_be_scoped() {
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

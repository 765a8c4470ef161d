//! [`PreferringFilter`]: priorities of links by regular expressions (`--prefer`).

use std::sync::Arc;

use regex::RegexSet;

use crate::page::follow::{LinkFilter, LinkJudge, LinkPage, LinkVerdict};
use crate::page::scope::{self, BadPattern};

/// Gives links a priority by the first pattern that matches their URL. A program's own filter decides first.
#[derive(Debug)]
pub struct PreferringFilter {
    patterns: RegexSet,
    program: Option<Arc<dyn LinkFilter>>,
}

impl PreferringFilter {
    /// # Errors
    ///
    /// One of the patterns is not a regular expression, or they are too large together.
    pub fn new(patterns: &[String], program: Option<Arc<dyn LinkFilter>>) -> Result<Self, BadPattern> {
        Ok(Self { patterns: scope::compile_patterns(patterns)?.unwrap_or_default(), program })
    }

    /// The priority of a URL: 1 for the last pattern, one more for each pattern before it, and 0 without a match.
    fn priority(&self, url: &str) -> i16 {
        let first = scope::first_match(&self.patterns, url);
        first.map_or(0, |index| i16::try_from(self.patterns.len() - index).unwrap_or(i16::MAX))
    }
}

impl LinkFilter for PreferringFilter {
    fn open<'a>(&'a self, page: LinkPage<'a>) -> LinkJudge<'a> {
        let mut program = self.program.as_ref().map(|program| program.open(page));
        Box::new(move |link| {
            let verdict = program.as_mut().map_or(LinkVerdict::With(0), |judge| judge(link));
            match verdict {
                LinkVerdict::With(0) => LinkVerdict::With(self.priority(link.url.as_str())),
                decided => decided,
            }
        })
    }

    fn ranks(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_matches_gives_the_priority() {
        let patterns = ["/news/", "spider", "%C3%A9"].map(str::to_owned);
        let filter = PreferringFilter::new(&patterns, None).expect("patterns");
        for (url, priority) in [
            ("http://h/news/spider", 3),
            ("http://h/spider", 2),
            ("http://h/sp%69der", 2),
            ("http://h/caf%C3%A9", 1),
            ("http://h/other", 0),
        ] {
            assert_eq!(filter.priority(url), priority, "{url}");
        }
        assert!(PreferringFilter::new(&["[".to_owned()], None).is_err());
    }
}

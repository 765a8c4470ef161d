//! Text fragments: the part `:~:text=[prefix-,]start[,end][,-suffix]` of a fragment, which leads to a text of the page.

use memchr::memmem;
use percent_encoding::percent_decode_str;

use crate::finding::{Fault, FaultKind, TargetVerdict};

/// Maximum characters of a text in a message.
const MAX_SHOWN: usize = 80;
/// What separates a fragment from the directives for the browser.
pub(crate) const DIRECTIVE: &str = ":~:";
/// Maximum number of text directives of one fragment that are checked.
pub(crate) const MAX_DIRECTIVES: usize = 8;
/// Maximum bytes of a text directive, as written. A longer one is not checked.
pub(crate) const MAX_FRAGMENT_TEXT: usize = 1024;
/// Maximum bytes of text that are searched for all fragments of one page.
pub(crate) const MAX_SEARCHED: usize = 64 << 20;
/// A page with scripts and fewer bytes of text than this probably gets its text from the scripts.
const MIN_TEXT: usize = 512;

/// The text of a page, in lower case and with white space collapsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetText {
    pub text: String,
    /// Whether the page has scripts, which may insert more text.
    pub has_scripts: bool,
}

/// The bytes that may still be searched for the fragments of one page.
#[derive(Debug)]
pub(crate) struct SearchBudget(usize);

impl Default for SearchBudget {
    fn default() -> Self {
        Self(MAX_SEARCHED)
    }
}

/// One text directive. All texts are in lower case, with white space collapsed.
#[derive(Debug, PartialEq, Eq)]
struct TextDirective {
    prefix: Option<String>,
    start: String,
    end: Option<String>,
    suffix: Option<String>,
}

/// Whether a fragment leads to a text of the page.
pub(crate) fn has_text(fragment: &str) -> bool {
    directives(fragment).next().is_some()
}

/// Searches a page for the texts that a fragment leads to. The first search of a page is always done.
pub(crate) fn search(fragment: &str, page: &TargetText, budget: &mut SearchBudget) -> TargetVerdict {
    for directive in directives(fragment) {
        let SearchBudget(left) = budget;
        if *left < page.text.len() && *left < MAX_SEARCHED {
            return TargetVerdict::OverLimits;
        }
        *left = left.saturating_sub(page.text.len());
        if !directive.is_in(&page.text) {
            return TargetVerdict::Faulty(fault(&directive.start, page));
        }
    }
    TargetVerdict::Good
}

/// The fault of a link to a text that the page does not have.
fn fault(text: &str, page: &TargetText) -> Fault {
    if page.has_scripts && page.text.len() < MIN_TEXT {
        let message = "scripts of the page insert its text: whether it has the text of the fragment is not known";
        return Fault::unknown(FaultKind::Fragment, message);
    }
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    Fault::broken(FaultKind::Fragment, format!("the page does not have the text {shown:?}"))
}

fn directives(fragment: &str) -> impl Iterator<Item = TextDirective> + '_ {
    let (_, after) = fragment.split_once(DIRECTIVE).unwrap_or_default();
    after.split('&').filter_map(|part| TextDirective::parse(part.strip_prefix("text=")?)).take(MAX_DIRECTIVES)
}

impl TextDirective {
    /// `None` if it is not valid, which browsers ignore, or too long.
    fn parse(written: &str) -> Option<Self> {
        if written.len() > MAX_FRAGMENT_TEXT {
            return None;
        }
        let mut parts: Vec<&str> = written.split(',').collect();
        let prefix = parts.first().and_then(|part| part.strip_suffix('-')).map(normalized);
        if prefix.is_some() {
            parts.remove(0);
        }
        let suffix = parts.last().and_then(|part| part.strip_prefix('-')).map(normalized);
        if suffix.is_some() {
            parts.pop();
        }
        let (start, end) = match parts.as_slice() {
            [start] => (normalized(start), None),
            [start, end] => (normalized(start), Some(normalized(end))),
            _ => return None,
        };
        (!start.is_empty()).then_some(Self { prefix, start, end, suffix })
    }

    /// Whether the page has the text. Each combination of the parts is searched for once, so the work is in proportion to the
    /// page.
    fn is_in(&self, page: &str) -> bool {
        let (prefix, suffix) = (self.prefix.as_deref(), self.suffix.as_deref());
        let Some(end) = &self.end else { return find(page, prefix, &self.start, suffix).is_some() };
        let rest = find(page, prefix, &self.start, None).and_then(|from| page.get(from..));
        rest.is_some_and(|rest| find(rest, None, end, suffix).is_some())
    }
}

/// The offset after the first `text` between `before` and `after`, which are next to it or a space away.
fn find(page: &str, before: Option<&str>, text: &str, after: Option<&str>) -> Option<usize> {
    let spaces = |part: Option<&str>| if part.is_some() { &["", " "][..] } else { &[""] };
    let (first, last) = (before.unwrap_or_default(), after.unwrap_or_default());
    let forms = spaces(before).iter().flat_map(|a| spaces(after).iter().map(move |b| (*a, *b)));
    let ends = forms.filter_map(|(a, b)| {
        let needle = format!("{first}{a}{text}{b}{last}");
        let offset = first.len() + a.len();
        let mut found = memmem::find_iter(page.as_bytes(), needle.as_bytes()).map(|at| at + offset);
        found.find(|&at| is_whole(page.as_bytes(), at, text.as_bytes())).map(|at| at + text.len())
    });
    ends.min()
}

/// Whether the text at this offset does not begin or end within a word.
fn is_whole(page: &[u8], at: usize, text: &[u8]) -> bool {
    let is_joined = |a: Option<&u8>, b: Option<&u8>| {
        a.is_some_and(u8::is_ascii_alphanumeric) && b.is_some_and(u8::is_ascii_alphanumeric)
    };
    let before = at.checked_sub(1).and_then(|at| page.get(at));
    !is_joined(before, text.first()) && !is_joined(text.last(), page.get(at + text.len()))
}

/// A part of a directive in the form of the text of a page.
fn normalized(part: &str) -> String {
    let decoded = percent_decode_str(part).decode_utf8_lossy().to_lowercase();
    decoded.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_text_fragment_is_found_as_in_a_browser() {
        let text = "the quick brown fox jumps over the lazy dog. größe, 100% of the fox ";
        let page = TargetText { text: text.to_owned(), has_scripts: false };
        for (fragment, missing) in [
            (":~:text=quick%20Brown", None),
            ("x:~:text=the,dog", None),
            (":~:text=quick-,brown,-fox", None),
            (":~:text=quick-,brown,over,-the", None),
            (":~:text=lazy-,brown", Some("brown")),
            (":~:text=brown,-jumps", Some("brown")),
            (":~:text=dog,quick", Some("dog")),
            (":~:text=row", Some("row")),
            (":~:text=fox&text=cat", Some("cat")),
            (":~:text=gr%C3%B6%C3%9Fe%2C%20100%25", None),
            (":~:text=", None),
            (":~:text=a,b,c,d", None),
            (":~:other=cat", None),
            ("text=cat", None),
        ] {
            let expected = missing.map_or(TargetVerdict::Good, |text| TargetVerdict::Faulty(fault(text, &page)));
            assert_eq!(search(fragment, &page, &mut SearchBudget::default()), expected, "{fragment}");
        }
        assert!(has_text("a:~:text=b") && !has_text("a") && !has_text("a:~:text="));
    }

    #[test]
    fn a_page_is_searched_within_its_budget_and_at_least_once() {
        let page = |bytes: usize| TargetText { text: "a ".repeat(bytes / 2), has_scripts: false };
        for (bytes, searched) in [(MAX_SEARCHED / 4, 4), (2 * MAX_SEARCHED, 1)] {
            let (page, mut budget) = (page(bytes), SearchBudget::default());
            let verdicts = (0..6).map(|_| search(":~:text=a", &page, &mut budget));
            assert_eq!(verdicts.filter(|verdict| *verdict == TargetVerdict::Good).count(), searched, "{bytes}");
        }
    }

    #[test]
    fn a_long_directive_is_not_checked_and_a_repeated_prefix_is_searched_for_once() {
        assert!(has_text(&format!(":~:text={}", "a".repeat(MAX_FRAGMENT_TEXT))));
        assert!(!has_text(&format!(":~:text={}", "a".repeat(MAX_FRAGMENT_TEXT + 1))));
        let page = TargetText { text: "a ".repeat(1 << 20), has_scripts: false };
        let fragment = format!(":~:text=b{}-,a", "%20a".repeat(200));
        let verdict = search(&fragment, &page, &mut SearchBudget::default());
        assert!(matches!(verdict, TargetVerdict::Faulty(_)), "{verdict:?}");
    }

    #[test]
    fn a_text_that_scripts_may_insert_is_unknown() {
        let verdict = |text: &str, has_scripts| {
            let page = TargetText { text: text.to_owned(), has_scripts };
            let TargetVerdict::Faulty(fault) = search(":~:text=cat", &page, &mut SearchBudget::default()) else {
                return None;
            };
            Some(fault.verdict)
        };
        assert_eq!(verdict("loading", true), Some(Verdict::Unknown));
        assert_eq!(verdict("loading", false), Some(Verdict::Broken));
        assert_eq!(verdict(&"dog ".repeat(MIN_TEXT), true), Some(Verdict::Broken));
        assert_eq!(verdict("a cat", true), None);
    }
}

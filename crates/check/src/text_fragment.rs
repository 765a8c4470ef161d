//! Text fragments: the part `:~:text=[prefix-,]start[,end][,-suffix]` of a fragment, which leads to a text of the page.

use memchr::memmem;
use percent_encoding::percent_decode_str;

use crate::finding::{Fault, FaultKind};

/// Maximum characters of a text in a message.
const MAX_SHOWN: usize = 80;
/// What separates a fragment from the directives for the browser.
pub(crate) const DIRECTIVE: &str = ":~:";
/// Maximum number of text directives of one fragment that are checked.
const MAX_DIRECTIVES: usize = 8;

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

/// The text of the first directive of a fragment that the page does not have. `page` is in lower case, with white space
/// collapsed.
pub(crate) fn missing_text(fragment: &str, page: &str) -> Option<String> {
    directives(fragment).find(|directive| !directive.is_in(page)).map(|directive| directive.start)
}

/// The fault of a link to a text that the page does not have.
pub(crate) fn fault(text: &str) -> Fault {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    Fault::broken(FaultKind::Fragment, format!("the page does not have the text {shown:?}"))
}

fn directives(fragment: &str) -> impl Iterator<Item = TextDirective> + '_ {
    let (_, after) = fragment.split_once(DIRECTIVE).unwrap_or_default();
    after.split('&').filter_map(|part| TextDirective::parse(part.strip_prefix("text=")?)).take(MAX_DIRECTIVES)
}

impl TextDirective {
    /// `None` if it is not valid. Browsers ignore such a directive.
    fn parse(written: &str) -> Option<Self> {
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

    /// Whether the page has the text. The work is in proportion to the page.
    fn is_in(&self, page: &str) -> bool {
        let has_prefix = |at: usize| {
            let before = page.get(..at).unwrap_or_default().trim_end();
            self.prefix.as_ref().is_none_or(|prefix| before.ends_with(prefix.as_str()))
        };
        let has_suffix = |at: usize| {
            let after = page.get(at..).unwrap_or_default().trim_start();
            self.suffix.as_ref().is_none_or(|suffix| after.starts_with(suffix.as_str()))
        };
        let mut starts = words(page, &self.start).filter(|at| has_prefix(*at)).map(|at| at + self.start.len());
        match &self.end {
            None => starts.any(has_suffix),
            Some(end) => starts.next().is_some_and(|from| {
                let rest = page.get(from..).unwrap_or_default();
                words(rest, end).any(|at| has_suffix(from + at + end.len()))
            }),
        }
    }
}

/// The offsets at which `text` occurs, but not within a word.
fn words<'a>(page: &'a str, text: &'a str) -> impl Iterator<Item = usize> + 'a {
    memmem::find_iter(page.as_bytes(), text.as_bytes()).filter(move |&at| {
        let is_joined = |a: Option<&u8>, b: Option<&u8>| {
            a.is_some_and(u8::is_ascii_alphanumeric) && b.is_some_and(u8::is_ascii_alphanumeric)
        };
        let (bytes, inner, end) = (page.as_bytes(), text.as_bytes(), at + text.len());
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !is_joined(before, inner.first()) && !is_joined(inner.last(), bytes.get(end))
    })
}

/// A part of a directive in the form of the text of a page.
fn normalized(part: &str) -> String {
    let decoded = percent_decode_str(part).decode_utf8_lossy().to_lowercase();
    decoded.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_fragment_is_found_as_in_a_browser() {
        let page = "the quick brown fox jumps over the lazy dog. größe, 100% of the fox ";
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
            assert_eq!(missing_text(fragment, page).as_deref(), missing, "{fragment}");
        }
        assert!(has_text("a:~:text=b") && !has_text("a") && !has_text("a:~:text="));
    }
}

//! [`ContentPart`]: which part of a page is its text.

use argiope_core::page::page_budget::PageBudget;

use crate::document::{Document, NodeId, TEXT, names};
use crate::select::{SelectError, Selector};

/// Which part of a page is its text.
#[derive(Clone, Debug, Default)]
pub enum ContentPart {
    /// The main content, without what surrounds it.
    #[default]
    Main,
    /// Everything but scripts and styles.
    Full,
    /// The elements that a selector matches.
    Selected(Box<Selector>),
}

impl ContentPart {
    /// Parses `main`, `full` or a CSS selector. The element `main` is selected by `:is(main)`.
    ///
    /// # Errors
    ///
    /// The text is neither a keyword nor a selector.
    pub fn parse(text: &str) -> Result<Self, SelectError> {
        match text.trim() {
            "main" => Ok(Self::Main),
            "full" => Ok(Self::Full),
            css => Selector::parse(css).map(|selector| Self::Selected(Box::new(selector))),
        }
    }
}

/// The outermost elements that a selector matches.
pub(super) fn selected(page: &Document, selector: &Selector, budget: &PageBudget) -> Vec<NodeId> {
    let mut end = 0;
    let mut roots = Vec::new();
    for element in selector.matches_of(page, budget) {
        if element.node < end || !budget.hold(size_of::<NodeId>()) {
            continue;
        }
        end = element.end();
        roots.push(element.node);
    }
    roots
}

/// The body of a page; its root if there is none.
pub(super) fn body(page: &Document) -> NodeId {
    let body = page.root().children().find(|element| element.name_id() == names::BODY);
    body.map_or(0, |body| body.node)
}

/// Flags what is no text on any page: scripts, styles and metadata.
pub(super) fn flag_code(page: &Document, removed: &mut [bool], budget: &PageBudget) {
    for (id, flag) in removed.iter_mut().enumerate() {
        let Some(node) = page.node(id as u32).filter(|_| budget.visit()) else { break };
        *flag = is_code(node.name);
    }
}

/// Whether an element has no text, only code or what is shown in place of it.
fn is_code(name: names::Name) -> bool {
    matches!(
        name,
        names::HEAD_ELEMENT
            | names::SCRIPT
            | names::STYLE
            | names::TEMPLATE
            | names::IFRAME
            | names::NOEMBED
            | names::NOFRAMES
    )
}

/// The words of a part of a page, and of the whole page without scripts and styles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordShare {
    pub(super) kept: usize,
    all: usize,
}

impl WordShare {
    /// Counts the words in `roots` without `removed`, and those of the page.
    pub(super) fn of(page: &Document, roots: &[NodeId], removed: &[bool], budget: &PageBudget) -> Self {
        let mut share = Self::default();
        let mut roots = roots.iter().peekable();
        // The ends of the current root and of the current subtrees that are not counted, or not kept.
        let (mut root_end, mut code_end, mut removed_end) = (0, 0, 0);
        for id in body(page)..page.len() as u32 {
            let Some(node) = page.node(id).filter(|_| budget.visit()) else { break };
            if roots.next_if(|&&root| root <= id).is_some() {
                root_end = page.element(id).end().max(root_end);
            }
            if node.name != TEXT {
                if is_code(node.name) {
                    code_end = page.element(id).end().max(code_end);
                }
                if removed.get(id as usize) == Some(&true) {
                    removed_end = page.element(id).end().max(removed_end);
                }
            } else if id >= code_end && budget.spend(page.raw_text(node).len()) {
                let words = count_words(&page.text_of(node));
                share.all += words;
                if id < root_end && id >= removed_end {
                    share.kept += words;
                }
            }
        }
        share
    }

    /// The share of the words that are kept, with two decimals; `None` on a page without words.
    pub(super) fn rounded(self) -> Option<f32> {
        let hundredths = (self.kept * 100 + self.all / 2).checked_div(self.all)?;
        // What is not whole is not shown as whole.
        let hundredths = if self.kept < self.all { hundredths.min(99) } else { hundredths };
        Some(hundredths as f32 / 100.0)
    }
}

/// The number of words: sequences of letters and digits. Each Chinese or Japanese character is one.
pub(crate) fn count_words(text: &str) -> usize {
    let (mut count, mut is_in_word) = (0, false);
    for character in text.chars() {
        let is_ideograph = is_ideograph(character);
        let is_part = !is_ideograph && (character.is_alphanumeric() || (is_in_word && is_within_word(character)));
        count += usize::from(is_ideograph || (is_part && !is_in_word));
        is_in_word = is_part;
    }
    count
}

fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character does not end a word: an apostrophe, an underscore, a mark, or what is not visible.
fn is_within_word(character: char) -> bool {
    matches!(character, '\'' | '\u{2019}' | '_' | '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{300}'..='\u{36f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_any_script() {
        for (text, count) in [
            ("", 0),
            ("it's two words", 3),
            ("soft\u{ad}hyphen - dash", 2),
            ("snake_case(x, y)", 3),
            ("\u{7db2}\u{3092}\u{5f35}\u{308b}", 4),
            ("caf\u{e9} \u{43f}\u{430}\u{443}\u{43a}", 2),
        ] {
            assert_eq!(count_words(text), count, "{text:?}");
        }
    }

    #[test]
    fn a_part_is_a_keyword_or_a_selector() {
        assert!(matches!(ContentPart::parse("full"), Ok(ContentPart::Full)));
        assert!(matches!(ContentPart::parse(" main "), Ok(ContentPart::Main)));
        assert!(matches!(ContentPart::parse("#content > p"), Ok(ContentPart::Selected(_))));
        assert!(ContentPart::parse("p[").is_err());
    }
}

//! Matching of selectors against elements.

use super::bits::is_at;
use super::{AttributeTest, Combinator, Complex, Compound, Selector, Simple};
use crate::document::{Document, Element, NONE, TEXT};

/// The default budget of matching steps.
const DEFAULT_STEPS: u64 = 50_000_000;
/// A step compares about this many bytes of an attribute.
const BYTES_PER_STEP: u64 = 16;
/// The most nodes before an element that `:has(+ ...)` visits to find the previous element.
const MAX_PREVIOUS_NODES: u64 = 1000;

/// The budget of matching steps. Once it is used up, nothing matches any more.
#[derive(Clone, Debug)]
pub struct Steps {
    left: u64,
}

impl Default for Steps {
    fn default() -> Self {
        Self { left: DEFAULT_STEPS }
    }
}

impl Steps {
    /// A budget of `count` steps.
    pub fn new(count: u64) -> Self {
        Self { left: count }
    }

    /// Whether the budget was used up, so that matches may be missing.
    pub fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Takes steps from the budget. Returns whether there are steps left.
    pub(crate) fn spend(&mut self, count: u64) -> bool {
        self.left = self.left.saturating_sub(count);
        self.left > 0
    }
}

/// The result of matching the compounds of a selector from right to left. A failure says which further candidates can
/// still match. Backtracking skips those that cannot, so that matching takes polynomial time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Matched,
    /// The next candidate of any combinator may match.
    TryLaterSibling,
    /// Only the next candidate of a descendant combinator may match.
    TryDescendant,
    /// No other candidate matches.
    Never,
}

/// Iterator over the elements that a selector matches.
pub struct Matches<'a, 's> {
    selector: &'s Selector,
    scope: Element<'a>,
    /// The node that is tested next.
    next: u32,
    /// The node after the last one that is tested.
    end: u32,
    steps: Steps,
}

impl<'a> Iterator for Matches<'a, '_> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let document = self.scope.document;
        while self.next < self.end {
            let id = self.next;
            let node = document.node(id)?;
            self.next += 1;
            if node.name == TEXT {
                continue;
            }
            let element = document.element(id);
            if node.name == crate::document::names::TEMPLATE {
                self.next = element.end().max(self.next);
            }
            if self.selector.accepts(element, self.scope, &mut self.steps) {
                return Some(element);
            }
            if self.steps.is_exhausted() {
                return None;
            }
        }
        None
    }
}

impl Matches<'_, '_> {
    /// Exchanges the budget of steps.
    pub(crate) fn swap_steps(&mut self, steps: &mut Steps) {
        std::mem::swap(&mut self.steps, steps);
    }
}

impl Selector {
    /// The elements within `scope` that match, in the order of the page.
    pub fn matches_within<'a>(&self, scope: Element<'a>) -> Matches<'a, '_> {
        Matches { selector: self, scope, next: scope.node + 1, end: scope.end(), steps: Steps::default() }
    }

    /// The elements of a page that match, the root included.
    pub(crate) fn matches_of<'a>(&self, page: &'a Document) -> Matches<'a, '_> {
        let scope = page.root();
        Matches { selector: self, scope, next: scope.node, end: scope.end(), steps: Steps::default() }
    }

    /// The elements within `scope` that match, at most `max_matches`, within the budget `steps`.
    pub fn find<'a>(&self, scope: Element<'a>, max_matches: usize, steps: &mut Steps) -> Vec<Element<'a>> {
        let mut matches = self.matches_within(scope);
        matches.swap_steps(steps);
        let found = matches.by_ref().take(max_matches).collect();
        *steps = matches.steps;
        found
    }

    /// Whether the selector matches `element`.
    pub fn matches(&self, element: Element<'_>) -> bool {
        self.accepts(element, element.document.root(), &mut Steps::default())
    }

    fn accepts(&self, element: Element<'_>, scope: Element<'_>, steps: &mut Steps) -> bool {
        self.alternatives.iter().any(|complex| complex.accepts(element, scope, steps))
    }
}

impl Complex {
    fn accepts(&self, element: Element<'_>, scope: Element<'_>, steps: &mut Steps) -> bool {
        self.match_from(0, element, scope, steps) == Verdict::Matched
    }

    /// Matches the compounds from `index` on, where the compound at `index` is matched against `element`.
    fn match_from(&self, index: usize, element: Element<'_>, scope: Element<'_>, steps: &mut Steps) -> Verdict {
        let Some((compound, combinator)) = self.compounds.get(index) else { return Verdict::Never };
        if !steps.spend(1) {
            return Verdict::Never;
        }
        if !compound.accepts(element, scope, steps) {
            return Verdict::TryLaterSibling;
        }
        let Some(combinator) = *combinator else { return self.match_leading(element, scope) };
        let mut element = element;
        loop {
            let next = match combinator {
                Combinator::Descendant | Combinator::Child => element.parent(),
                Combinator::NextSibling | Combinator::LaterSibling => previous_element(element, steps),
            };
            let Some(next) = next else {
                return match combinator {
                    Combinator::NextSibling | Combinator::LaterSibling => Verdict::TryDescendant,
                    Combinator::Descendant | Combinator::Child => Verdict::Never,
                };
            };
            element = next;
            let verdict = self.match_from(index + 1, element, scope, steps);
            match (verdict, combinator) {
                (Verdict::Matched | Verdict::Never, _) | (_, Combinator::NextSibling) => return verdict,
                (_, Combinator::Child) => return Verdict::TryDescendant,
                (Verdict::TryDescendant, Combinator::LaterSibling) => return verdict,
                (Verdict::TryDescendant, Combinator::Descendant) | (Verdict::TryLaterSibling, _) => {}
            }
        }
    }

    /// In `:has()`, whether the element of the leftmost compound has the required relation to `scope`, the element with
    /// the `:has()`.
    fn match_leading(&self, leftmost: Element<'_>, scope: Element<'_>) -> Verdict {
        let has_relation = match self.leading {
            None => true,
            Some(Combinator::Descendant) => leftmost.node > scope.node && leftmost.node < scope.end(),
            Some(Combinator::Child) => leftmost.parent() == Some(scope),
            Some(Combinator::NextSibling) => {
                previous_element(leftmost, &mut Steps::new(MAX_PREVIOUS_NODES)) == Some(scope)
            }
            Some(Combinator::LaterSibling) => leftmost.parent() == scope.parent() && leftmost.node > scope.node,
        };
        if has_relation { Verdict::Matched } else { Verdict::TryLaterSibling }
    }
}

/// The previous sibling that is an element.
fn previous_element<'a>(element: Element<'a>, steps: &mut Steps) -> Option<Element<'a>> {
    let document = element.document;
    let mut id = document.node(element.node)?.previous;
    while id != NONE && steps.spend(1) {
        let node = document.node(id)?;
        if node.name != TEXT {
            return Some(document.element(id));
        }
        id = node.previous;
    }
    None
}

impl Compound {
    fn accepts(&self, element: Element<'_>, scope: Element<'_>, steps: &mut Steps) -> bool {
        if let Some(name) = &self.name {
            let has_name = match name.known {
                Some(known) => element.name_id() == known,
                None => element.name() == &*name.text,
            };
            if !has_name {
                return false;
            }
        }
        self.simple.iter().all(|simple| simple.accepts(element, scope, steps))
    }
}

impl Simple {
    fn accepts(&self, element: Element<'_>, scope: Element<'_>, steps: &mut Steps) -> bool {
        match self {
            Self::Id(id) => element.attribute("id").is_some_and(|value| *value == **id),
            Self::Class(class) => {
                let Some(written) = element.raw_attribute("class") else { return false };
                steps.spend(written.len() as u64 / BYTES_PER_STEP);
                if written.len() < class.len() {
                    return false;
                }
                if memchr::memchr(b'&', written.as_bytes()).is_none() {
                    return has_word(written, class);
                }
                element.attribute("class").is_some_and(|value| has_word(&value, class))
            }
            Self::Attribute { name, test, value, ignore_case } => {
                let Some(found) = element.attribute(name) else { return false };
                steps.spend(found.len() as u64 / BYTES_PER_STEP);
                *test == AttributeTest::Present || compare(&found, value, *test, *ignore_case)
            }
            Self::Nth { step, offset, from_end, of_type } => {
                let position = position(element, *from_end, *of_type, steps);
                is_at(position, *step, *offset)
            }
            Self::Empty => element.children_nodes().all(|id| {
                element
                    .document
                    .node(id)
                    .is_none_or(|node| node.name == TEXT && element.document.raw_text(node).is_empty())
            }),
            Self::Root => element.parent().is_none(),
            Self::Is { list, is_negated } => {
                list.iter().any(|complex| complex.accepts(element, scope, steps)) != *is_negated
            }
            Self::Has(list) => list.iter().any(|complex| has(complex, element, steps)),
            Self::Contains(text) => {
                let visible = element.text();
                steps.spend(visible.len() as u64);
                visible.contains(&**text)
            }
        }
    }
}

/// Whether `complex`, a selector in `:has()`, matches some element relative to `element`.
fn has(complex: &Complex, element: Element<'_>, steps: &mut Steps) -> bool {
    match complex.leading {
        Some(Combinator::NextSibling | Combinator::LaterSibling) => {
            let Some(parent) = element.parent() else { return false };
            let document = element.document;
            (element.end()..parent.end()).any(|id| {
                steps.spend(1)
                    && document.node(id).is_some_and(|node| node.name != TEXT)
                    && complex.accepts(document.element(id), element, steps)
            })
        }
        _ => element.descendants().any(|candidate| steps.spend(1) && complex.accepts(candidate, element, steps)),
    }
}

/// Whether a list of words contains this word.
pub(super) fn has_word(value: &str, word: &str) -> bool {
    value.split_ascii_whitespace().any(|found| found == word)
}

/// Whether the value `found` of an attribute passes the test with `value`.
pub(super) fn compare(found: &str, value: &str, test: AttributeTest, ignore_case: bool) -> bool {
    if ignore_case {
        return compare(&found.to_ascii_lowercase(), &value.to_ascii_lowercase(), test, false);
    }
    match test {
        AttributeTest::Present => true,
        AttributeTest::Equals => found == value,
        AttributeTest::Word => !value.is_empty() && has_word(found, value),
        AttributeTest::Prefix => !value.is_empty() && found.starts_with(value),
        AttributeTest::Suffix => !value.is_empty() && found.ends_with(value),
        AttributeTest::Substring => !value.is_empty() && found.contains(value),
        AttributeTest::Language => {
            found.strip_prefix(value).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        }
    }
}

/// The position among the siblings, from 1. `of_type`: only siblings with the same name count.
fn position(element: Element<'_>, from_end: bool, of_type: bool, steps: &mut Steps) -> i64 {
    let document = element.document;
    let name = element.name_id();
    let mut count = 1;
    let mut id = element.node;
    while let Some(node) = document.node(id) {
        id = if from_end { node.next } else { node.previous };
        if id == NONE || !steps.spend(1) {
            break;
        }
        let counts =
            document.node(id).is_some_and(|other| if of_type { other.name == name } else { other.name != TEXT });
        count += i64::from(counts);
    }
    count
}

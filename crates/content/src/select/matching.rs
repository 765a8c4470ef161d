//! Matching of selectors against elements, in time linear in the page.
//!
//! A selector is matched from right to left. What was found for a compound and an element is kept ([`Memo`]), so each
//! pair is tested once, and a search along ancestors or siblings ends where an earlier one passed. `:has()` and
//! `:contains()` are answered for all elements of a region at once.

use std::collections::HashMap;

use argiope_core::page::page_budget::{PageBudget, VISIT};

use super::texts::TextIndex;
use super::{AttributeTest, Combinator, Complex, Compound, Selector, Simple, is_at};
use crate::document::names::{Name, TEMPLATE};
use crate::document::{Document, Element, NONE, NodeId, TEXT};

/// The memory of the positions of one element among its siblings, in a table.
const POSITION_BYTES: usize = 64;

/// Iterator over the elements that a selector matches. It ends early if its budget is used up.
pub struct Matches<'a, 's> {
    selector: &'s Selector,
    matcher: Matcher<'a, 's>,
    /// The node that is tested next.
    next: NodeId,
    /// The node after the last one that is tested.
    end: NodeId,
}

impl<'a> Iterator for Matches<'a, '_> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let document = self.matcher.scope.document;
        while self.next < self.end {
            let id = self.next;
            let node = document.node(id)?;
            self.next += 1;
            if node.name == TEXT {
                continue;
            }
            let element = document.element(id);
            if node.name == TEMPLATE {
                self.next = element.end().max(self.next);
            }
            if !self.matcher.budget.visit() {
                return None;
            }
            let is_match = self.selector.alternatives.iter().any(|complex| self.matcher.accepts(complex, 0, element));
            // Without a budget, what `:not()` asks for was not looked for.
            if is_match && !self.matcher.budget.is_used_up() {
                return Some(element);
            }
        }
        None
    }
}

impl Selector {
    /// The elements within `scope` that match, in the order of the page.
    pub fn matches_within<'a, 's>(&'s self, scope: Element<'a>, budget: &'s PageBudget) -> Matches<'a, 's> {
        let matcher = Matcher::new(self, scope, budget);
        Matches { selector: self, matcher, next: scope.node + 1, end: scope.end() }
    }

    /// The elements of a page that match, the root included.
    pub(crate) fn matches_of<'a, 's>(&'s self, page: &'a Document, budget: &'s PageBudget) -> Matches<'a, 's> {
        Matches { next: 0, ..self.matches_within(page.root(), budget) }
    }

    /// Whether the selector matches `element`.
    pub fn matches(&self, element: Element<'_>) -> bool {
        let budget = PageBudget::for_page(element.document.html_len());
        let mut matcher = Matcher::new(self, element, &budget);
        self.alternatives.iter().any(|complex| matcher.accepts(complex, 0, element))
    }
}

/// What is known about one compound of a selector.
#[derive(Default)]
struct Memo {
    /// The facts of the nodes within the scope.
    within: Vec<u8>,
    /// The facts of the other nodes: ancestors of the scope and their siblings.
    around: HashMap<NodeId, u8>,
}

/// The bits of a fact: one that says that the answer is known, and the answer.
#[derive(Clone, Copy)]
enum Question {
    /// Whether the compound and those to its left match with this element.
    Accepts = 0,
    /// Whether the compounds to its left match with elements that have the required relation to this one.
    Left = 2,
}

/// The positions of an element among its siblings, from 1.
#[derive(Clone, Copy, Default)]
struct Positions {
    /// From the first and from the last sibling.
    all: [u32; 2],
    /// The same among the siblings with its name.
    of_type: [u32; 2],
}

/// The part of the page for which a `:has()` or `:contains()` is answered at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    Scope,
    Page,
}

/// Matches the compounds of one selector.
struct Matcher<'a, 's> {
    scope: Element<'a>,
    budget: &'s PageBudget,
    /// For each compound of the selector.
    memos: Vec<Memo>,
    positions: HashMap<NodeId, Positions>,
    /// For each `:has()` and `:contains()` of the selector and each region, whether a node has it.
    regions: Vec<[Option<Vec<bool>>; 2]>,
    /// The texts of each region.
    texts: [Option<TextIndex>; 2],
}

impl<'a, 's> Matcher<'a, 's> {
    fn new(selector: &Selector, scope: Element<'a>, budget: &'s PageBudget) -> Self {
        Self {
            scope,
            budget,
            memos: std::iter::repeat_with(Memo::default).take(selector.compounds).collect(),
            positions: HashMap::new(),
            regions: std::iter::repeat_with(Default::default).take(selector.regions).collect(),
            texts: [None, None],
        }
    }

    /// Whether the compounds of `complex` from `index` on match, the one at `index` with `element`.
    fn accepts(&mut self, complex: &Complex, index: usize, element: Element<'a>) -> bool {
        let Some((compound, _)) = complex.compounds.get(index) else { return false };
        // The rightmost compound is tested with each element once.
        if index == 0 {
            return self.accepts_compound(compound, element) && self.accepts_left(complex, index, element);
        }
        if let Some(known) = self.known(compound, element.node, Question::Accepts) {
            return known;
        }
        let result = self.accepts_compound(compound, element) && self.accepts_left(complex, index, element);
        self.learn(compound, element.node, Question::Accepts, result);
        result
    }

    /// Whether the compounds to the left of `index` match with elements that have the required relation to `element`.
    fn accepts_left(&mut self, complex: &Complex, index: usize, element: Element<'a>) -> bool {
        let Some((compound, Some(combinator))) = complex.compounds.get(index) else { return true };
        match combinator {
            Combinator::Child => element.parent().is_some_and(|parent| self.accepts(complex, index + 1, parent)),
            Combinator::NextSibling => {
                previous_element(element).is_some_and(|previous| self.accepts(complex, index + 1, previous))
            }
            Combinator::Descendant | Combinator::LaterSibling => {
                let mut passed = Vec::new();
                let mut at = element;
                let result = loop {
                    if let Some(known) = self.known(compound, at.node, Question::Left) {
                        break known;
                    }
                    passed.push(at.node);
                    let next = match combinator {
                        Combinator::Descendant => at.parent(),
                        _ => previous_element(at),
                    };
                    let Some(next) = next.filter(|_| self.budget.visit()) else { break false };
                    if self.accepts(complex, index + 1, next) {
                        break true;
                    }
                    at = next;
                };
                for node in passed {
                    self.learn(compound, node, Question::Left, result);
                }
                result
            }
        }
    }

    /// What is known about a compound and a node.
    fn known(&self, compound: &Compound, node: NodeId, question: Question) -> Option<bool> {
        let memo = self.memos.get(compound.slot)?;
        let within = node.checked_sub(self.scope.node).and_then(|index| memo.within.get(index as usize));
        let fact = within.or_else(|| memo.around.get(&node)).copied().unwrap_or(0) >> question as u8;
        (fact & 1 != 0).then_some(fact & 2 != 0)
    }

    fn learn(&mut self, compound: &Compound, node: NodeId, question: Question, answer: bool) {
        let Some(memo) = self.memos.get_mut(compound.slot) else { return };
        let fact = (1 | u8::from(answer) << 1) << question as u8;
        if node < self.scope.node || node >= self.scope.end() {
            if self.budget.hold(POSITION_BYTES) {
                *memo.around.entry(node).or_default() |= fact;
            }
            return;
        }
        if memo.within.is_empty() {
            let nodes = (self.scope.end() - self.scope.node) as usize;
            if !self.budget.hold(nodes) || !self.budget.spend(nodes / VISIT) {
                return;
            }
            memo.within.resize(nodes, 0);
        }
        if let Some(known) = memo.within.get_mut((node - self.scope.node) as usize) {
            *known |= fact;
        }
    }

    fn accepts_compound(&mut self, compound: &Compound, element: Element<'a>) -> bool {
        if let Some(name) = &compound.name {
            let has_name = match name.known {
                Some(known) => element.name_id() == known,
                None => element.name() == &*name.text,
            };
            if !has_name {
                return false;
            }
        }
        compound.simple.iter().all(|simple| self.accepts_simple(simple, element))
    }

    fn accepts_simple(&mut self, simple: &Simple, element: Element<'a>) -> bool {
        match simple {
            Simple::Id(id) => self.attribute_is(element, "id", |value| value == &**id),
            Simple::Class(class) => self.attribute_is(element, "class", |value| has_word(value, class)),
            Simple::Attribute { name, test, value, ignore_case } => {
                self.attribute_is(element, name, |found| compare(found, value, *test, *ignore_case))
            }
            Simple::Nth { step, offset, from_end, of_type } => {
                is_at(self.position(element, *from_end, *of_type).into(), *step, *offset)
            }
            Simple::Empty => element.children_nodes().next().is_none(),
            Simple::Root => element.parent().is_none(),
            Simple::Is { list, is_negated } => {
                list.iter().any(|complex| self.accepts(complex, 0, element)) != *is_negated
            }
            Simple::Has(list) => list.iter().any(|complex| self.has(complex, element)),
            Simple::Contains(slot, text) => self.contains(*slot, text, element),
        }
    }

    /// Whether an element has this attribute, with a value that passes the test.
    fn attribute_is(&self, element: Element<'a>, name: &str, test: impl Fn(&str) -> bool) -> bool {
        let Some(written) = element.raw_attribute(name) else { return false };
        if !self.budget.spend(written.len()) {
            return false;
        }
        if memchr::memchr(b'&', written.as_bytes()).is_none() {
            return test(written);
        }
        element.attribute(name).is_some_and(|value| test(&value))
    }

    /// The position among the siblings, from 1. `of_type`: only siblings with the same name count.
    fn position(&mut self, element: Element<'a>, from_end: bool, of_type: bool) -> u32 {
        if !self.positions.contains_key(&element.node) {
            self.count_siblings(element);
        }
        let Some(found) = self.positions.get(&element.node) else { return 0 };
        let positions = if of_type { found.of_type } else { found.all };
        positions[usize::from(from_end)]
    }

    /// Stores the positions of an element and of its siblings.
    fn count_siblings(&mut self, element: Element<'a>) {
        let siblings: Vec<Element<'a>> = match element.parent() {
            Some(parent) => parent.children().take_while(|_| self.budget.visit()).collect(),
            None => vec![element],
        };
        if !self.budget.hold(siblings.len() * POSITION_BYTES) {
            return;
        }
        for from_end in [0, 1] {
            let mut of_type: HashMap<Name, u32> = HashMap::new();
            for index in 0..siblings.len() {
                let at = if from_end == 0 { index } else { siblings.len() - 1 - index };
                let Some(sibling) = siblings.get(at) else { continue };
                let same = of_type.entry(sibling.name_id()).or_default();
                *same += 1;
                let found = self.positions.entry(sibling.node).or_default();
                (found.all[from_end], found.of_type[from_end]) = (index as u32 + 1, *same);
            }
        }
    }

    /// The region that answers for an element. `with_siblings`: the answer depends on the siblings of the element.
    fn region_of(&self, element: Element<'a>, with_siblings: bool) -> Region {
        let first = self.scope.node + u32::from(with_siblings);
        let is_in_scope = (first..self.scope.end()).contains(&element.node);
        if is_in_scope { Region::Scope } else { Region::Page }
    }

    /// The first node of a region and the node after it.
    fn bounds(&self, region: Region) -> (NodeId, NodeId) {
        match region {
            Region::Scope => (self.scope.node, self.scope.end()),
            Region::Page => (0, self.scope.document.len() as NodeId),
        }
    }

    /// Whether the element has a flag of a region, which `compute` sets for all its nodes.
    fn is_flagged(
        &mut self,
        slot: usize,
        (region, element): (Region, Element<'a>),
        compute: impl FnOnce(&mut Self) -> Vec<bool>,
    ) -> bool {
        let is_known = self.regions.get(slot).is_some_and(|flags| flags[region as usize].is_some());
        if !is_known {
            let flags = compute(self);
            if let Some(known) = self.regions.get_mut(slot) {
                known[region as usize] = Some(flags);
            }
        }
        let index = (element.node - self.bounds(region).0) as usize;
        let flags = self.regions.get(slot).and_then(|flags| flags[region as usize].as_ref());
        flags.and_then(|flags| flags.get(index)).copied().unwrap_or(false)
    }

    /// Whether `complex`, a selector in `:has()`, matches some element relative to `element`.
    fn has(&mut self, complex: &Complex, element: Element<'a>) -> bool {
        let with_siblings = matches!(complex.leading, Some(Combinator::NextSibling | Combinator::LaterSibling));
        let region = self.region_of(element, with_siblings);
        self.is_flagged(complex.slot, (region, element), |matcher| matcher.anchors(complex, region))
    }

    /// For each node of a region, whether `complex` matches relative to it. The compounds are matched from right to
    /// left, each with all elements at once.
    fn anchors(&mut self, complex: &Complex, region: Region) -> Vec<bool> {
        let (first, end) = self.bounds(region);
        if !self.budget.hold(2 * (end - first) as usize) {
            return Vec::new();
        }
        let document = self.scope.document;
        let mut matched = vec![false; (end - first) as usize];
        let mut next = first;
        while next < end && self.budget.visit() {
            let element = document.element(next);
            let name = element.name_id();
            if let Some(flag) = matched.get_mut((next - first) as usize).filter(|_| name != TEXT)
                && let Some((compound, _)) = complex.compounds.first()
            {
                *flag = self.accepts_compound(compound, element);
            }
            next = if name == TEMPLATE { element.end().max(next + 1) } else { next + 1 };
        }
        for (index, (_, combinator)) in complex.compounds.iter().enumerate() {
            let combinator = combinator.or(complex.leading).unwrap_or(Combinator::Descendant);
            matched = self.related(&matched, combinator, first);
            let Some((compound, _)) = complex.compounds.get(index + 1) else { break };
            for (node, flag) in (first..).zip(&mut matched).filter(|(_, flag)| **flag) {
                *flag = self.accepts_compound(compound, document.element(node));
            }
        }
        self.budget.release((end - first) as usize);
        matched
    }

    /// The elements that `combinator` connects to a matched one on its right.
    fn related(&self, matched: &[bool], combinator: Combinator, first: NodeId) -> Vec<bool> {
        let document = self.scope.document;
        let mut related = vec![false; matched.len()];
        // The matched node with the lowest number that is not before the current one.
        let mut nearest = NONE;
        for (index, &is_matched) in matched.iter().enumerate().rev() {
            if !self.budget.visit() {
                return Vec::new();
            }
            let element = document.element(first + index as NodeId);
            if element.name_id() == TEXT {
                continue;
            }
            let is_related = related.get(index).copied().unwrap_or(false);
            let left = match combinator {
                Combinator::Descendant => (nearest < element.end()).then_some(element),
                Combinator::Child => element.parent().filter(|_| is_matched),
                Combinator::NextSibling if is_matched => previous_element(element),
                Combinator::LaterSibling if is_matched || is_related => previous_element(element),
                Combinator::NextSibling | Combinator::LaterSibling => None,
            };
            let left = left.and_then(|left| left.node.checked_sub(first));
            if let Some(flag) = left.and_then(|left| related.get_mut(left as usize)) {
                *flag = true;
            }
            if is_matched {
                nearest = element.node;
            }
        }
        related
    }

    /// Whether the visible text of an element contains `needle`.
    fn contains(&mut self, slot: usize, needle: &str, element: Element<'a>) -> bool {
        let region = self.region_of(element, false);
        self.is_flagged(slot, (region, element), |matcher| {
            let (first, end) = matcher.bounds(region);
            let texts = &mut matcher.texts[region as usize];
            if texts.is_none() {
                *texts = TextIndex::of(matcher.scope.document, (first, end), matcher.budget);
            }
            texts.as_ref().map(|texts| texts.containing(needle, matcher.budget)).unwrap_or_default()
        })
    }
}

/// The previous sibling that is an element.
fn previous_element(element: Element<'_>) -> Option<Element<'_>> {
    let document = element.document;
    let mut id = document.node(element.node)?.previous;
    while id != NONE {
        let node = document.node(id)?;
        if node.name != TEXT {
            return Some(document.element(id));
        }
        id = node.previous;
    }
    None
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

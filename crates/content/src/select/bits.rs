//! [`BitMatcher`]: matches several selectors at once while a page is tokenized, without a tree.
//!
//! Every compound of every selector has a bit. An element has the bit of a compound if the compound matches it and the
//! compounds to the left match related elements. The bits of a selector are adjacent. So the candidates for an element
//! are the bits of the leftmost compounds, and the bits of its parent, ancestors and preceding siblings, shifted by one
//! and masked by combinator. Of these, only compounds that fit the name of the element are tested. For most elements
//! there is no such compound.
//!
//! Selectors that look ahead (`:has()`, `:contains()`, `:empty`, positions from the end) need the tree. So do positions
//! among siblings of the same type, and combinators within `:is()` and `:not()`.

use std::borrow::Cow;

use argiope_core::page::examine::tokenizer::Tag;
use argiope_core::page::examine::{TextContext, decode_character_references};

use super::matching::{compare, has_word};
use super::{AttributeTest, Combinator, Complex, Compound, Selector, Simple, is_at};
use crate::document::build::{MAX_ATTRIBUTES, position};
use crate::document::names::{CustomNames, Name};

/// The maximum number of compounds, all selectors together. Each has a bit of a `u64`.
pub(crate) const MAX_COMPOUNDS: usize = 56;

/// The matcher of all selectors of a set of rules.
#[derive(Clone, Debug)]
pub(crate) struct BitMatcher {
    compounds: Vec<Compound>,
    /// For each bit, the selector whose rightmost compound it is.
    ends: Vec<Option<u8>>,
    /// The bits of the leftmost compounds.
    first: u64,
    /// The bits of the compounds after a child combinator.
    child: u64,
    /// The bits of the compounds after a descendant combinator.
    descendant: u64,
    /// The bits of the compounds after a next-sibling combinator.
    next: u64,
    /// The bits of the compounds after a later-sibling combinator.
    later: u64,
    /// The compounds that can match an element, by its name. The last entry is for all custom names.
    by_name: Vec<u64>,
}

/// The bits of an open element, and of its children so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatchState {
    /// The bits of the element.
    own: u64,
    /// The bits of the element and its ancestors.
    inherited: u64,
    /// The bits of its last child.
    last_child: u64,
    /// The bits of all its children.
    children: u64,
    /// The number of its children.
    child_count: u32,
}

/// An element that is tested.
pub(crate) struct Subject<'a, 't> {
    pub(crate) html: &'a str,
    pub(crate) name: Name,
    /// Its start tag; `None` for an implied element.
    pub(crate) tag: Option<&'t Tag<'t>>,
    pub(crate) names: &'t CustomNames,
    pub(crate) is_root: bool,
}

impl Default for BitMatcher {
    fn default() -> Self {
        Self {
            compounds: Vec::new(),
            ends: Vec::new(),
            first: 0,
            child: 0,
            descendant: 0,
            next: 0,
            later: 0,
            by_name: vec![0; usize::from(Name::count()) + 1],
        }
    }
}

impl BitMatcher {
    /// Adds a selector, whose matches are reported as `number`. Returns whether it can be matched without a tree.
    pub(crate) fn add(&mut self, selector: &Selector, number: u8) -> bool {
        selector.alternatives.iter().all(|complex| self.add_complex(complex, number))
    }

    fn add_complex(&mut self, complex: &Complex, number: u8) -> bool {
        if complex.leading.is_some() || self.compounds.len() + complex.compounds.len() > MAX_COMPOUNDS {
            return false;
        }
        for (compound, combinator) in complex.compounds.iter().rev() {
            if !compound.simple.iter().all(is_immediate) {
                return false;
            }
            let bit = 1 << self.compounds.len();
            // The combinator of a compound is the one to its left.
            match combinator {
                None => self.first |= bit,
                Some(Combinator::Child) => self.child |= bit,
                Some(Combinator::Descendant) => self.descendant |= bit,
                Some(Combinator::NextSibling) => self.next |= bit,
                Some(Combinator::LaterSibling) => self.later |= bit,
            }
            // `None`: the compound matches any name. `Some(None)`: it matches a custom name.
            let known = compound.name.as_ref().map(|name| name.known);
            for (name, bits) in self.by_name.iter_mut().enumerate() {
                let may_match = match known {
                    None => true,
                    Some(Some(known)) => usize::from(known.0) == name,
                    Some(None) => name == usize::from(Name::count()),
                };
                *bits |= if may_match { bit } else { 0 };
            }
            self.compounds.push(compound.clone());
            self.ends.push(None);
        }
        if let Some(end) = self.ends.last_mut().filter(|_| !complex.compounds.is_empty()) {
            *end = Some(number);
        }
        true
    }

    /// The bits of the compounds that belong to the selector `number`, for [`BitMatcher::enter`].
    pub(crate) fn bits_of(&self, number: u8) -> u64 {
        let mut bits = 0;
        // The bits of one alternative of a selector.
        let mut alternative = 0;
        for (index, end) in self.ends.iter().enumerate() {
            alternative |= 1 << index;
            if let Some(end) = end {
                bits |= if *end == number { alternative } else { 0 };
                alternative = 0;
            }
        }
        bits
    }

    /// Tests an element that begins within `parent`. Only compounds in `live` are tested. Returns the state of the
    /// element, and the bits that [`BitMatcher::ends_of`] converts to selectors.
    #[inline]
    pub(crate) fn enter(&self, parent: &mut MatchState, live: u64, subject: &Subject<'_, '_>) -> (MatchState, u64) {
        parent.child_count += 1;
        let name_index = usize::from(subject.name.0.min(Name::count()));
        let possible = live & self.by_name.get(name_index).copied().unwrap_or(0);
        if possible == 0 {
            parent.last_child = 0;
            return (MatchState { inherited: parent.inherited, ..MatchState::default() }, 0);
        }
        let enabled = self.first
            | ((parent.own << 1) & self.child)
            | ((parent.inherited << 1) & self.descendant)
            | ((parent.last_child << 1) & self.next)
            | ((parent.children << 1) & self.later);
        let mut untested = enabled & possible;
        let mut own = 0;
        while untested != 0 {
            let bit = untested.trailing_zeros();
            untested &= untested - 1;
            let compound = self.compounds.get(bit as usize);
            if compound.is_some_and(|compound| compound.accepts_subject(subject, parent.child_count)) {
                own |= 1 << bit;
            }
        }
        parent.last_child = own;
        parent.children |= own;
        (MatchState { own, inherited: parent.inherited | own, ..MatchState::default() }, own)
    }

    /// The selectors that match an element with these bits. A selector with several alternatives may be reported twice.
    pub(crate) fn ends_of(&self, mut bits: u64) -> impl Iterator<Item = u8> + '_ {
        std::iter::from_fn(move || {
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(Some(number)) = self.ends.get(bit as usize) {
                    return Some(*number);
                }
            }
            None
        })
    }
}

/// Whether the test can be decided when an element begins.
fn is_immediate(simple: &Simple) -> bool {
    match simple {
        Simple::Id(_) | Simple::Class(_) | Simple::Attribute { .. } | Simple::Root => true,
        Simple::Nth { from_end, of_type, .. } => !from_end && !of_type,
        Simple::Is { list, .. } => list.iter().all(|complex| match complex.compounds.as_slice() {
            [(compound, None)] => complex.leading.is_none() && compound.simple.iter().all(is_immediate),
            _ => false,
        }),
        Simple::Empty | Simple::Has(_) | Simple::Contains(..) => false,
    }
}

impl<'a> Subject<'a, '_> {
    /// The value of an attribute as it is written.
    fn raw_attribute(&self, name: &str) -> Option<&'a str> {
        let mut attributes = self.tag?.attributes().take(MAX_ATTRIBUTES);
        let (_, value) = attributes.find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))?;
        let start = position(self.html.as_bytes(), value)?;
        self.html.get(start..start + value.len())
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw_attribute(name).map(|value| decode_character_references(value, TextContext::Attribute))
    }
}

impl Compound {
    /// Whether an element matches. `position` is its position among the children of its parent, from 1.
    fn accepts_subject(&self, subject: &Subject<'_, '_>, position: u32) -> bool {
        if let Some(name) = &self.name {
            let has_name = match name.known {
                Some(known) => subject.name == known,
                None => subject.names.text(subject.name) == &*name.text,
            };
            if !has_name {
                return false;
            }
        }
        self.simple.iter().all(|simple| simple.accepts_subject(subject, position))
    }
}

impl Simple {
    fn accepts_subject(&self, subject: &Subject<'_, '_>, position: u32) -> bool {
        match self {
            Self::Id(id) => subject.attribute("id").is_some_and(|value| *value == **id),
            Self::Class(class) => {
                let Some(written) = subject.raw_attribute("class") else { return false };
                if written.len() < class.len() {
                    return false;
                }
                if memchr::memchr(b'&', written.as_bytes()).is_none() {
                    return has_word(written, class);
                }
                subject.attribute("class").is_some_and(|value| has_word(&value, class))
            }
            Self::Attribute { name, test, value, ignore_case } => {
                let Some(found) = subject.attribute(name) else { return false };
                *test == AttributeTest::Present || compare(&found, value, *test, *ignore_case)
            }
            Self::Nth { step, offset, .. } => is_at(i64::from(position), *step, *offset),
            Self::Root => subject.is_root,
            Self::Is { list, is_negated } => {
                let accepts = |complex: &Complex| match complex.compounds.as_slice() {
                    [(compound, None)] => compound.accepts_subject(subject, position),
                    _ => false,
                };
                list.iter().any(accepts) != *is_negated
            }
            Self::Empty | Self::Has(_) | Self::Contains(..) => false,
        }
    }
}

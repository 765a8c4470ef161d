//! [`StreamSink`]: matches the selectors of a plan while a page is tokenized.

use std::borrow::Cow;

use argiope_core::page::examine::tokenizer::Tag;
use argiope_core::page::examine::{TextContext, decode_character_references};
use argiope_core::page::page_budget::PageBudget;

use super::super::values::{
    MAX_DATA, MAX_MATCHES, MAX_VALUE, accepts_any_text, is_url_attribute, match_limit, to_value,
};
use super::super::{Field, Source, Take};
use super::{Item, Slot, SlotKind, StreamPlan, TakenText};
use crate::document::build::NodeSink;
use crate::document::names::{self, CustomNames, Name};
use crate::document::{NodeId, breaks_words, is_hidden, push_collapsed};
use crate::select::{MatchState, Subject};
use crate::structured::{has_meta_name, is_json_ld};

/// Limit on nested matches whose text is read at the same time. A page with more needs the tree.
const MAX_OPEN_MATCHES: usize = 32;

/// The text of an open element that a selector matched.
struct OpenText {
    /// The number of the slot.
    slot: u8,
    node: NodeId,
    /// The depth of the element.
    depth: usize,
    text: String,
}

/// The matches of a slot.
#[derive(Clone, Copy)]
pub(super) struct SlotMatches {
    /// The number of matched elements; not counted for inner fields.
    pub(super) count: usize,
    /// The last matched element.
    last: Option<NodeId>,
}

/// An open element.
#[derive(Clone, Copy, Default)]
struct Frame {
    state: MatchState,
    /// Whether a text or an item ends with this element.
    has_ends: bool,
}

/// Matches the selectors of a plan and collects the texts of the matches.
pub(super) struct StreamSink<'a> {
    plan: &'a StreamPlan,
    fields: &'a [Field],
    html: &'a str,
    budget: &'a PageBudget,
    /// The bits of the selectors that may still add values. A field with a single value loses its bits when it has one.
    live: u64,
    /// The open elements, innermost last.
    frames: Vec<Frame>,
    /// Whether the root is not matched yet. Its attributes are not known before the first node within it.
    is_root_pending: bool,
    /// Whether the root has no attributes so far.
    is_root_bare: bool,
    /// Whether the body has no attributes so far.
    is_body_bare: bool,
    /// The depths of the open elements whose text is not visible.
    hidden: Vec<usize>,
    /// The depth of the outermost open `template`.
    template: Option<usize>,
    open_texts: Vec<OpenText>,
    open_items: Vec<Item>,
    /// For each slot, the texts that were taken.
    pub(super) values: Vec<Vec<TakenText<'a>>>,
    /// The items that have ended.
    pub(super) items: Vec<Item>,
    /// The matches of each slot.
    pub(super) matched: Vec<SlotMatches>,
    /// For each field, the contents of its `meta` elements.
    pub(super) metas: Vec<Vec<String>>,
    /// For each field, whether its `meta` elements are still searched for.
    meta_live: Vec<bool>,
    /// The number of fields for which `meta_live` is true.
    metas_left: usize,
    /// The JSON-LD script that was opened last, until its text arrives.
    script: Option<NodeId>,
    /// The texts of JSON-LD scripts.
    pub(super) scripts: Vec<&'a str>,
    /// The `href` of the first `base` element.
    pub(super) base: Option<String>,
    /// The memory that the collected values take.
    bytes: usize,
    /// Whether the page must be read with the tree.
    pub(super) needs_tree: bool,
}

impl<'a> StreamSink<'a> {
    pub(super) fn new(
        plan: &'a StreamPlan,
        fields: &'a [Field],
        applies: impl Fn(&Field) -> bool,
        html: &'a str,
        budget: &'a PageBudget,
    ) -> Self {
        let applicable: Vec<bool> = fields.iter().map(applies).collect();
        let is_applicable = |index: usize| applicable.get(index).copied().unwrap_or(false);
        let live_slots = plan.slots.iter().filter(|slot| is_applicable(slot.field.into()));
        let live = live_slots.fold(0, |bits, slot| bits | slot.bits);
        let reads_meta =
            |(index, field): (usize, &Field)| matches!(field.source, Source::Meta(_)) && is_applicable(index);
        let meta_live: Vec<bool> = fields.iter().enumerate().map(reads_meta).collect();
        Self {
            plan,
            fields,
            html,
            budget,
            live,
            frames: Vec::with_capacity(64),
            is_root_pending: true,
            is_root_bare: true,
            is_body_bare: true,
            hidden: Vec::new(),
            template: None,
            open_texts: Vec::new(),
            open_items: Vec::new(),
            values: plan.slots.iter().map(|_| Vec::new()).collect(),
            items: Vec::new(),
            matched: vec![SlotMatches { count: 0, last: None }; plan.slots.len()],
            metas: fields.iter().map(|_| Vec::new()).collect(),
            metas_left: meta_live.iter().filter(|live| **live).count(),
            meta_live,
            script: None,
            scripts: Vec::new(),
            base: None,
            bytes: 0,
            needs_tree: false,
        }
    }

    /// The field or inner field of a slot.
    fn field(&self, slot: &Slot) -> Option<&'a Field> {
        let field = self.fields.get(usize::from(slot.field))?;
        match (slot.inner, &field.source) {
            (None, _) => Some(field),
            (Some(inner), Source::Items(_, fields)) => fields.get(usize::from(inner)),
            (Some(_), _) => None,
        }
    }

    /// Matches the root. Called after its tag, or without a tag at the first node within it.
    fn match_root(&mut self, tag: Option<&Tag<'_>>, names: &CustomNames) {
        self.is_root_pending = false;
        self.is_root_bare = is_bare(tag);
        let subject = Subject { html: self.html, name: names::HTML, tag, names, is_root: true };
        let (state, bits) = self.plan.matcher.enter(&mut MatchState::default(), self.live, &subject);
        if let Some(root) = self.frames.first_mut() {
            root.state = state;
        }
        if bits != 0 {
            self.take(bits, &subject, 0, 0);
        }
    }

    /// Reads the values of an element that the selectors with these bits match.
    fn take(&mut self, bits: u64, subject: &Subject<'a, '_>, node: NodeId, depth: usize) {
        let plan = self.plan;
        for number in plan.matcher.ends_of(bits) {
            let (Some(slot), Some(matched)) =
                (plan.slots.get(usize::from(number)), self.matched.get_mut(usize::from(number)))
            else {
                continue;
            };
            if matched.last == Some(node) || matched.count >= MAX_MATCHES {
                continue;
            }
            if slot.inner.is_some() {
                // If only the first match within an item counts, and the innermost item has one, this match is not
                // needed: the items around the innermost one have that match too.
                let Some(item) = self.open_items.iter().rev().find(|item| item.field == slot.field) else { continue };
                let Some(field) = self.field(slot) else { continue };
                let first_only = matches!(slot.kind, SlotKind::Text) && match_limit(field, &Take::Text) == 1;
                let Some(matched) = self.matched.get_mut(usize::from(number)) else { continue };
                if first_only && matched.last.is_some_and(|last| last > item.node) {
                    continue;
                }
                matched.last = Some(node);
            } else {
                *matched = SlotMatches { count: matched.count + 1, last: Some(node) };
            }
            match &slot.kind {
                SlotKind::Items(attributes) => self.open_item(slot, attributes, subject, node, depth),
                SlotKind::Text => self.open_text(number, slot, node, depth),
                SlotKind::Attribute(name) => self.take_attribute(number, slot, name, subject, node),
                SlotKind::ItemAttribute => {}
            }
        }
    }

    fn open_item(
        &mut self,
        slot: &Slot,
        attributes: &[(u8, String)],
        subject: &Subject<'a, '_>,
        node: NodeId,
        depth: usize,
    ) {
        for (inner, name) in attributes {
            if let Some(inner_slot) = self.plan.slots.get(usize::from(*inner)) {
                self.take_attribute(*inner, inner_slot, name, subject, node);
            }
        }
        self.open_items.push(Item { field: slot.field, node, end: NodeId::MAX, depth });
        self.mark_end(depth);
        self.needs_tree |= self.open_items.len() > MAX_OPEN_MATCHES;
        if self.field(slot).is_some_and(|field| !field.many) {
            // Only the first item counts. Its inner fields are searched for until it ends.
            self.live &= !slot.bits;
        }
    }

    fn open_text(&mut self, number: u8, slot: &Slot, node: NodeId, depth: usize) {
        self.open_texts.push(OpenText { slot: number, node, depth, text: String::new() });
        self.mark_end(depth);
        self.needs_tree |= self.open_texts.len() > MAX_OPEN_MATCHES;
        let is_first_enough = self.field(slot).is_some_and(|field| match_limit(field, &Take::Text) == 1);
        if is_first_enough && slot.inner.is_none() {
            self.live &= !slot.bits;
        }
    }

    /// Records that a text or an item ends with the open element at this depth.
    fn mark_end(&mut self, depth: usize) {
        if let Some(frame) = self.frames.get_mut(depth) {
            frame.has_ends = true;
        }
    }

    fn take_attribute(&mut self, number: u8, slot: &Slot, name: &str, subject: &Subject<'a, '_>, node: NodeId) {
        let Some(value) = subject.attribute(name) else { return };
        let text = match value {
            Cow::Borrowed(value) => Cow::Borrowed(value.trim()),
            Cow::Owned(value) => Cow::Owned(value.trim().to_owned()),
        };
        let is_url_attribute = is_url_attribute(name);
        self.bytes += text.len() + size_of::<TakenText<'_>>();
        let field = self.field(slot).filter(|field| slot.inner.is_none() && !field.many);
        if let Some(field) = field {
            let is_usable = if is_url_attribute {
                accepts_any_text(field) && !text.is_empty()
            } else {
                to_value(field, (*text).to_owned(), self.budget).is_some()
            };
            if is_usable {
                self.live &= !slot.bits;
            }
        }
        if let Some(values) = self.values.get_mut(usize::from(number)) {
            values.push(TakenText { node, text, is_url_attribute });
        }
    }

    fn close_text(&mut self, closed: OpenText) {
        let mut text = closed.text;
        text.truncate(text.trim_end().len());
        let Some(slot) = self.plan.slots.get(usize::from(closed.slot)) else { return };
        if slot.inner.is_none()
            && let Some(field) = self.field(slot)
            && !field.many
            && match_limit(field, &Take::Text) > 1
            && to_value(field, text.clone(), self.budget).is_some()
        {
            self.live &= !slot.bits;
        }
        self.bytes += size_of::<TakenText<'_>>();
        if let Some(values) = self.values.get_mut(usize::from(closed.slot)) {
            values.push(TakenText { node: closed.node, text: text.into(), is_url_attribute: false });
        }
    }

    /// Appends text to the open texts, except to those that contain the hidden element around it.
    fn push_text(&mut self, text: &str) {
        let hidden_depth = self.hidden.last().copied().unwrap_or(0);
        for open in self.open_texts.iter_mut().filter(|open| hidden_depth <= open.depth) {
            // The text is trimmed and cut to `MAX_VALUE` later. With a few bytes more than that, the result is the same
            // as with the tree.
            if open.text.len() <= MAX_VALUE + 4 && self.budget.spend(text.len()) {
                let before = open.text.len();
                push_collapsed(&mut open.text, text);
                self.bytes += open.text.len() - before;
            }
        }
    }

    fn take_meta(&mut self, subject: &Subject<'a, '_>) {
        let Some(content) = subject.attribute("content") else { return };
        let content = content.trim();
        if content.is_empty() {
            return;
        }
        for (index, field) in self.fields.iter().enumerate() {
            let Source::Meta(name) = &field.source else { continue };
            if self.meta_live.get(index) != Some(&true) || !has_meta_name(|key| subject.attribute(key), name) {
                continue;
            }
            self.bytes += content.len() + size_of::<String>();
            if !field.many && to_value(field, content.to_owned(), self.budget).is_some() {
                self.metas_left -= 1;
                if let Some(live) = self.meta_live.get_mut(index) {
                    *live = false;
                }
            }
            if let Some(metas) = self.metas.get_mut(index) {
                metas.push(content.to_owned());
            }
        }
    }

    /// Reads the elements that are used without a selector: `meta`, JSON-LD scripts and `base`.
    fn take_special(&mut self, subject: &Subject<'a, '_>, node: NodeId) {
        match subject.name {
            names::META if self.metas_left > 0 => self.take_meta(subject),
            names::SCRIPT if self.plan.reads_json_ld => {
                let is_data = subject.attribute("type").is_some_and(|kind| is_json_ld(&kind));
                self.script = is_data.then_some(node);
            }
            names::BASE if self.base.is_none() => {
                self.base = subject.attribute("href").map(|href| href.trim().to_owned());
            }
            _ => {}
        }
    }
}

/// Whether there is no tag, or a tag without attributes.
fn is_bare(tag: Option<&Tag<'_>>) -> bool {
    tag.is_none_or(|tag| tag.attributes().next().is_none())
}

impl NodeSink for StreamSink<'_> {
    fn open(&mut self, node: NodeId, name: Name, tag: Option<&Tag<'_>>, names: &CustomNames) {
        let depth = self.frames.len();
        if node == 0 {
            self.frames.push(Frame::default());
            return;
        }
        if self.is_root_pending {
            self.match_root(None, names);
        }
        if name == names::BODY {
            self.is_body_bare &= is_bare(tag);
        }
        if !self.open_texts.is_empty() {
            if is_hidden(name) {
                self.hidden.push(depth);
            } else if breaks_words(name) {
                self.push_text(" ");
            }
        }
        if self.template.is_some() {
            self.frames.push(Frame::default());
            return;
        }
        if name == names::TEMPLATE {
            self.template = Some(depth);
        }
        let subject = Subject { html: self.html, name, tag, names, is_root: false };
        // Every compound may read the attributes of the tag, but most do not fit its name.
        let compounds = self.live.count_ones() as usize / 4 + 1;
        let steps = tag.map_or(0, |tag| tag.attributes().remainder().len()) * compounds;
        if self.live != 0 && !self.budget.spend(steps) {
            self.frames.push(Frame::default());
            return;
        }
        let plan = self.plan;
        let Some(parent) = self.frames.last_mut() else { return };
        let (state, bits) = plan.matcher.enter(&mut parent.state, self.live, &subject);
        self.frames.push(Frame { state, has_ends: false });
        if bits != 0 {
            self.take(bits, &subject, node, depth);
        }
        if matches!(name, names::META | names::SCRIPT | names::BASE) {
            self.take_special(&subject, node);
        }
    }

    fn close(&mut self, name: Name, nodes: NodeId) {
        let Some(frame) = self.frames.pop() else { return };
        let depth = self.frames.len();
        if self.template == Some(depth) {
            self.template = None;
        }
        if frame.has_ends {
            while let Some(item) = self.open_items.pop_if(|item| item.depth == depth) {
                self.items.push(Item { end: nodes, ..item });
            }
            while let Some(text) = self.open_texts.pop_if(|text| text.depth == depth) {
                self.close_text(text);
            }
        }
        if self.hidden.last() == Some(&depth) {
            self.hidden.pop();
        } else if !self.open_texts.is_empty() && breaks_words(name) {
            self.push_text(" ");
        }
        if self.open_texts.is_empty() {
            self.hidden.clear();
        }
        self.needs_tree |= self.bytes > MAX_DATA;
    }

    fn text(&mut self, node: NodeId, start: usize, end: usize, _joined: bool) {
        if self.is_root_pending {
            self.match_root(None, &CustomNames::default());
        }
        if self.open_texts.is_empty() && self.script.is_none() {
            return;
        }
        let text = self.html.get(start..end).unwrap_or("");
        // The content of a script is the text node right after it.
        if let Some(script) = self.script.take()
            && script + 1 == node
        {
            self.scripts.push(text);
        }
        if !self.open_texts.is_empty() {
            self.push_text(&decode_character_references(text, TextContext::Text));
        }
    }

    fn merge(&mut self, node: NodeId, tag: &Tag<'_>) {
        if node == 0 && self.is_root_pending {
            self.match_root(Some(tag), &CustomNames::default());
            return;
        }
        // The attributes of a late tag could change earlier matches.
        let was_bare = if node == 0 { self.is_root_bare } else { self.is_body_bare };
        self.needs_tree |= was_bare && !is_bare(Some(tag));
    }

    fn is_done(&self) -> bool {
        self.needs_tree
            || (self.live == 0
                && self.metas_left == 0
                && self.open_texts.is_empty()
                && self.open_items.is_empty()
                && !self.plan.reads_json_ld
                && (!self.plan.reads_urls || self.base.is_some()))
    }
}

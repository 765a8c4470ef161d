//! Extraction without a tree: selectors are matched while the page is tokenized, and only the selected texts are kept.
//!
//! Rules that need the tree (`@html`, microdata, selectors that look ahead) have no [`StreamPlan`]. Some pages need the
//! tree too: a late tag may change an element that was already matched, or matches may be nested too deeply. Such a page
//! is read again with the tree. Both ways give the same result.

mod sink;

use std::borrow::Cow;
use std::cell::OnceCell;

use argiope_core::base::url::Url;
use argiope_core::page::examine::BaseUrl;
use argiope_core::page::page_budget::PageBudget;
use serde_json::Value;

use super::values::{
    FieldValue, InnerResult, MAX_MATCHES, TOO_MANY_MATCHES, TextFinder, ValueReader, is_url_attribute, match_limit,
    rows,
};
use super::{Field, Source, Take};
use crate::document::build::{walk, within_limits};
use crate::document::{NodeId, ParseLimits, encoding_of, resolve_with};
use crate::select::{BitMatcher, Selector};
use crate::structured::parse_blocks;
use encoding_rs::Encoding;
use sink::StreamSink;

/// Limit on the number of fields. Rules with more need the tree.
const MAX_FIELDS: u8 = 64;

/// The selectors of all fields, and what is taken from their matches.
#[derive(Clone, Debug)]
pub(super) struct StreamPlan {
    matcher: BitMatcher,
    slots: Vec<Slot>,
    /// The slots of each field.
    fields: Vec<FieldSlots>,
    /// Whether a field reads JSON-LD.
    reads_json_ld: bool,
    /// Whether a field is a URL, which a `base` element affects.
    reads_urls: bool,
}

/// The numbers of a field's slots.
#[derive(Clone, Copy, Debug, Default)]
struct FieldSlots {
    /// The slot of the field's own selector.
    own: Option<u8>,
    /// The first slot of its inner fields.
    first_inner: u8,
}

/// One selector, or one attribute of items.
#[derive(Clone, Debug)]
struct Slot {
    /// The index of the field.
    field: u8,
    /// The index among the inner fields, if the field has items and this slot belongs to one of its inner fields.
    inner: Option<u8>,
    kind: SlotKind,
    /// The bits of its compounds in the matcher.
    bits: u64,
}

/// What is read from the matches of a slot.
#[derive(Clone, Debug)]
enum SlotKind {
    /// The matches are items. The named attributes of an item are the values of the slots with these numbers.
    Items(Vec<(u8, String)>),
    Text,
    Attribute(String),
    /// An attribute of the item itself. The slot has no selector.
    ItemAttribute,
}

impl StreamPlan {
    /// The plan for these fields; `None` if one of them needs the tree.
    pub(super) fn of(fields: &[Field]) -> Option<Self> {
        let mut plan = Self {
            matcher: BitMatcher::default(),
            slots: Vec::new(),
            fields: Vec::new(),
            reads_json_ld: false,
            reads_urls: false,
        };
        for (index, field) in fields.iter().enumerate() {
            let index = u8::try_from(index).ok().filter(|&index| index < MAX_FIELDS)?;
            let mut slots = FieldSlots::default();
            match &field.source {
                Source::Css(selector, take) => {
                    let kind = plan.kind_of(take)?;
                    slots.own = Some(plan.add(selector.as_ref()?, index, None, kind)?);
                }
                Source::JsonLd(_) => plan.reads_json_ld = true,
                Source::Meta(_) => {}
                Source::Items(selector, inner) => {
                    let own = plan.add(selector, index, None, SlotKind::Items(Vec::new()))?;
                    slots = FieldSlots { own: Some(own), first_inner: own + 1 };
                    for (position, field) in inner.iter().enumerate() {
                        let Source::Css(selector, take) = &field.source else { return None };
                        let position = Some(u8::try_from(position).ok()?);
                        let kind = plan.kind_of(take)?;
                        match (selector, kind) {
                            (Some(selector), kind) => {
                                plan.add(selector, index, position, kind)?;
                            }
                            (None, SlotKind::Attribute(name)) => {
                                let slot = plan.push(index, position, SlotKind::ItemAttribute)?;
                                if let Some(Slot { kind: SlotKind::Items(own), .. }) =
                                    plan.slots.get_mut(usize::from(own))
                                {
                                    own.push((slot, name));
                                }
                            }
                            (None, _) => return None,
                        }
                    }
                }
                Source::Microdata(_) => return None,
            }
            plan.fields.push(slots);
        }
        for number in 0..plan.slots.len() {
            let bits = plan.matcher.bits_of(number as u8);
            if let Some(slot) = plan.slots.get_mut(number) {
                slot.bits = bits;
            }
        }
        Some(plan)
    }

    /// The kind of slot for what is taken from a match; `None` if that needs the tree.
    fn kind_of(&mut self, take: &Take) -> Option<SlotKind> {
        match take {
            Take::Text => Some(SlotKind::Text),
            Take::Html => None,
            Take::Attribute(name) => {
                self.reads_urls |= is_url_attribute(name);
                Some(SlotKind::Attribute(name.clone()))
            }
        }
    }

    /// Adds a slot without a selector. Returns its number; `None` if there are too many slots.
    fn push(&mut self, field: u8, inner: Option<u8>, kind: SlotKind) -> Option<u8> {
        let number = u8::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot { field, inner, kind, bits: 0 });
        Some(number)
    }

    /// Adds a slot with a selector. Returns its number; `None` if the selector needs the tree.
    fn add(&mut self, selector: &Selector, field: u8, inner: Option<u8>, kind: SlotKind) -> Option<u8> {
        let number = self.push(field, inner, kind)?;
        self.matcher.add(selector, number).then_some(number)
    }

    /// Reads a page. `applies` says whether a field applies to it. `None` if the page must be read with the tree.
    pub(super) fn read<'a>(
        &'a self,
        fields: &'a [Field],
        applies: impl Fn(&Field) -> bool,
        html: &'a str,
        (url, charset): (&Url, Option<&str>),
        budget: &'a PageBudget,
    ) -> Option<StreamFinder<'a>> {
        let limits = ParseLimits::default();
        let (html, cut_reason) = within_limits(html, &limits);
        let mut sink = StreamSink::new(self, fields, applies, html, budget);
        let (_, full_reason) = walk(html, limits.max_nodes, &mut sink, budget);
        if sink.needs_tree {
            return None;
        }
        sink.values.iter_mut().for_each(|values| values.sort_by_key(|found| found.node));
        let base = sink.base.as_deref().and_then(|href| url.join_in_charset(href, charset).ok());
        Some(StreamFinder {
            plan: self,
            json_ld: OnceCell::new(),
            scripts: sink.scripts,
            metas: sink.metas,
            slots: sink.values,
            counts: sink.matched.iter().map(|matched| matched.count).collect(),
            items: sink.items,
            base: PageBase { url: BaseUrl::new(base.as_ref().unwrap_or(url)), encoding: encoding_of(charset) },
            values: ValueReader::new(full_reason.or(cut_reason), budget),
            budget,
        })
    }
}

/// What the references of a page are resolved with.
struct PageBase {
    url: BaseUrl,
    encoding: &'static Encoding,
}

/// The text or attribute value of a match.
struct TakenText<'a> {
    node: NodeId,
    text: Cow<'a, str>,
    /// Whether the text is a reference that is resolved against the base of the page.
    is_url_attribute: bool,
}

impl TakenText<'_> {
    /// The text, or the absolute URL if it is a reference.
    fn resolved(&self, base: &PageBase) -> String {
        let absolute = self.is_url_attribute.then(|| resolve_with(&base.url, &self.text, base.encoding)).flatten();
        absolute.unwrap_or_else(|| (*self.text).to_owned())
    }
}

/// An element that is an item, from its node to the node after its subtree.
#[derive(Clone, Copy)]
struct Item {
    /// The index of the field.
    field: u8,
    node: NodeId,
    end: NodeId,
    /// The depth of the element.
    depth: usize,
}

/// The texts that were taken from a page.
pub(super) struct StreamFinder<'a> {
    plan: &'a StreamPlan,
    json_ld: OnceCell<Vec<Value>>,
    scripts: Vec<&'a str>,
    metas: Vec<Vec<String>>,
    /// The texts of each slot.
    slots: Vec<Vec<TakenText<'a>>>,
    /// The number of matches of each slot.
    counts: Vec<usize>,
    items: Vec<Item>,
    base: PageBase,
    budget: &'a PageBudget,
    values: ValueReader<'a>,
}

impl TextFinder for StreamFinder<'_> {
    fn field(&mut self, index: usize, field: &Field, seen: &mut [InnerResult]) -> FieldValue {
        let slots = self.plan.fields.get(index).copied().unwrap_or_default();
        match &field.source {
            Source::Css(_, take) => {
                let own = usize::from(slots.own.unwrap_or(u8::MAX));
                let Some(found) = self.slots.get(own) else { return FieldValue::Nothing };
                let texts = found.iter().take(match_limit(field, take)).map(|taken| taken.resolved(&self.base));
                let value = self.values.collect(field, texts);
                if self.counts.get(own).is_some_and(|&count| count >= MAX_MATCHES) {
                    self.values.limit(TOO_MANY_MATCHES);
                }
                value
            }
            Source::Meta(_) => {
                let metas = self.metas.get_mut(index).map(std::mem::take).unwrap_or_default();
                self.values.collect(field, metas.into_iter())
            }
            Source::JsonLd(path) => {
                let roots = self.json_ld.get_or_init(|| parse_blocks(self.scripts.iter().copied(), self.budget));
                let found = path.find_within(roots, self.budget);
                self.values.collect_data(field, found)
            }
            Source::Items(_, inner) => {
                let mut items: Vec<Item> =
                    self.items.iter().copied().filter(|item| usize::from(item.field) == index).collect();
                items.sort_by_key(|item| item.node);
                let (plan, base, values, found) = (self.plan, &self.base, &mut self.values, &self.slots);
                rows(items.into_iter(), (inner, field.many), seen, |item, position, field| {
                    let number = usize::from(slots.first_inner) + position;
                    let Some(found) = found.get(number) else { return (FieldValue::Nothing, false) };
                    let is_item_attribute =
                        matches!(plan.slots.get(number), Some(Slot { kind: SlotKind::ItemAttribute, .. }));
                    let (first, end) =
                        if is_item_attribute { (item.node, item.node + 1) } else { (item.node + 1, item.end) };
                    let from = found.partition_point(|taken| taken.node < first);
                    let to = found.partition_point(|taken| taken.node < end);
                    let within = found.get(from..to).unwrap_or(&[]);
                    let limit = if let Source::Css(_, take) = &field.source { match_limit(field, take) } else { 0 };
                    let value = values.collect(field, within.iter().take(limit).map(|taken| taken.resolved(base)));
                    if within.len() >= MAX_MATCHES {
                        values.limit(TOO_MANY_MATCHES);
                    }
                    (value, values.is_full())
                })
            }
            Source::Microdata(_) => FieldValue::Nothing,
        }
    }

    fn limited(&self) -> Option<&'static str> {
        self.values.limited()
    }
}

//! Removes blocks of links, lists of teasers, pointers to other pages and credits from the content.

use std::sync::LazyLock;

use argiope_core::page::page_budget::{PageBudget, REGEX};
use regex::Regex;

use super::measure::Measure;
use crate::document::{Document, Element, TEXT, names};

/// The maximum number of elements that the search for teaser lists visits. The elements of nested lists are visited
/// repeatedly.
pub(super) const MAX_TEASER_WORK: usize = 200_000;

/// A label of a list has fewer characters.
const MAX_LABEL: u32 = 80;
/// How many nodes before a list are searched for its label.
const MAX_LABEL_NODES: usize = 32;
/// A link with a label has fewer characters.
const MAX_LABELLED_LINK: u32 = 250;
/// How many nodes of a line are searched for its first text.
const MAX_BEFORE_LABEL: usize = 64;
/// How many bytes of a label are read.
const MAX_POINTER: usize = 60;
/// A credit has fewer characters.
const MAX_CREDIT: u32 = 120;

/// The elements within the root of which neither they nor an ancestor is flagged.
pub(super) fn not_removed<'a>(page: &'a Document, removed: &[bool]) -> impl Iterator<Item = Element<'a>> {
    // The end of the flagged elements so far.
    let mut removed_end = 0;
    page.root().descendants().filter(move |element| {
        if removed.get(element.node as usize) == Some(&true) {
            removed_end = element.end().max(removed_end);
        }
        element.node >= removed_end
    })
}

/// Flags blocks of links and lists of teasers within the content.
pub(super) fn prune(root: Element<'_>, measure: &Measure, removed: &mut [bool], budget: &PageBudget) {
    let page = root.document;
    let all = measure.text(root).max(1);
    let mut work = MAX_TEASER_WORK;
    let mut next = root.node + 1;
    while next < root.end() && budget.visit() {
        let id = next;
        next += 1;
        let element = page.element(id);
        if element.name_id() == TEXT || removed.get(id as usize) == Some(&true) {
            continue;
        }
        if (is_link_block(element, measure, all)
            || is_pointer(element, measure, budget)
            || is_teaser_list(element, measure, all, (&mut work, budget)))
            && let Some(mark) = removed.get_mut(id as usize)
        {
            *mark = true;
            next = element.end().max(next);
            if let Some(label) = label_before(element, measure, budget)
                && let Some(mark) = removed.get_mut(label as usize)
            {
                *mark = true;
            }
        }
    }
}

/// The short block right before an element: its label, as in `Read also:`.
fn label_before(element: Element<'_>, measure: &Measure, budget: &PageBudget) -> Option<u32> {
    let page = element.document;
    let parent = element.parent()?.node;
    let is_sibling = |&id: &u32| page.node(id).is_some_and(|node| node.parent == parent && node.name != TEXT);
    let nodes = (parent + 1..element.node).rev().take(MAX_LABEL_NODES).take_while(|_| budget.visit());
    let before = nodes.filter(is_sibling).map(|id| page.element(id)).find(|sibling| measure.text(*sibling) > 0)?;
    let is_block = matches!(before.name_id(), names::P | names::DIV | names::STRONG | names::SPAN);
    (is_block && measure.text(before) < MAX_LABEL).then_some(before.node)
}

/// Whether the element lists other pages, as under `Read also` or `More stories`: headings that are links, each with a
/// few words. The content has `all` characters. `work` is the number of elements that may still be visited.
pub(super) fn is_teaser_list(
    element: Element<'_>,
    measure: &Measure,
    all: u32,
    (work, budget): (&mut usize, &PageBudget),
) -> bool {
    let is_list = matches!(element.name_id(), names::DIV | names::SECTION | names::UL | names::OL);
    // The text without the list must still be an article.
    let text = measure.text(element);
    if !is_list || text + 500 > all {
        return false;
    }
    let (mut links, mut headings) = (0u32, 0u32);
    for inner in element.descendants() {
        let Some(left) = work.checked_sub(1).filter(|_| budget.visit()) else { return false };
        *work = left;
        if !inner.name_id().is_heading() {
            continue;
        }
        headings += 1;
        let length = measure.text(inner);
        links += u32::from(length >= 15 && measure.link_density(inner) > 0.9 && !links_to_same_page(inner, budget));
    }
    // The headings of an article's sections may be links too. But then each has much more text.
    links >= 3 && links * 10 >= headings * 8 && text / links < 600
}

/// Whether a link in the heading leads to the same page, for example to the table of contents.
fn links_to_same_page(heading: Element<'_>, budget: &PageBudget) -> bool {
    heading.descendants().take_while(|_| budget.visit()).any(|inner| {
        inner.name_id() == names::A && inner.raw_attribute("href").is_some_and(|href| href.trim().starts_with('#'))
    })
}

/// Whether the element consists mainly of links and is a small part of the content, which has `all` characters.
fn is_link_block(element: Element<'_>, measure: &Measure, all: u32) -> bool {
    let text = measure.text(element);
    let density = measure.link_density(element);
    match element.name_id() {
        names::UL | names::OL | names::DL => density > 0.6 && text * 3 < all,
        names::DIV | names::SECTION | names::TABLE | names::FORM | names::HEADER => density > 0.5 && text * 3 < all,
        // A paragraph that is only a link leads to another article: `Read also: ...`.
        names::P if density > 0.9 => text * 4 < all,
        names::P => density > 0.5 && text < MAX_LABELLED_LINK && text * 4 < all && is_labelled_link(element),
        _ => false,
    }
}

/// Whether a paragraph of an article is a label for other pages or a credit: `Read also: ...`, `Photo: ...`.
fn is_pointer(element: Element<'_>, measure: &Measure, budget: &PageBudget) -> bool {
    let is_line = matches!(element.name_id(), names::P | names::STRONG | names::EM) || element.name_id().is_heading();
    let length = measure.text(element);
    if !is_line || length > MAX_LABELLED_LINK {
        return false;
    }
    let page = element.document;
    let inner = (element.node + 1..element.end()).take(MAX_BEFORE_LABEL).take_while(|_| budget.visit());
    let texts = inner.filter_map(|id| page.node(id)).filter(|node| node.name == TEXT);
    let Some(first) = texts.map(|node| page.raw_text(node).trim()).find(|text| !text.is_empty()) else { return false };
    let first = first.get(..first.floor_char_boundary(MAX_POINTER)).unwrap_or_default();
    if !budget.spend(2 * first.len() * REGEX) {
        return false;
    }
    POINTER.is_match(first) && (measure.link_density(element) > 0.2 || length < MAX_LABEL)
        || (length < MAX_CREDIT && CREDIT.is_match(first))
}

/// How the label of a link to another article begins, in several languages.
static POINTER: LazyLock<Regex> = LazyLock::new(|| {
    let labels = [
        "(?:read|see) (?:also|more|next)",
        "also read",
        "related(?: \\w+)?:",
        "more on ",
        "don'?t miss",
        "lesen sie (?:auch|hier|mehr|dazu)",
        "(?:auch|jetzt) lesen",
        "mehr (?:zum thema|themen|dazu)",
        "(?:zum )?weiterlesen",
        "das k\u{f6}nnte (?:dich|sie|euch)",
        "(?:\u{e0} )?lire (?:aussi|\u{e9}galement)",
        "voir aussi",
        "en savoir plus",
        "(?:lea|lee|leer|vea|ver) (?:m\u{e1}s|tambi\u{e9}n)",
        "te puede interesar",
        "leggi anche",
        "leia (?:tamb\u{e9}m|mais)",
        "lees (?:ook|meer)",
        "(?:czytaj|zobacz|przeczytaj) (?:te\u{17c}|tak\u{17c}e|wi\u{119}cej)",
        "\u{447}\u{438}\u{442}\u{430}\u{439}\u{442}\u{435} (?:\u{442}\u{430}\u{43a}\u{436}\u{435}|\u{442}\u{430}\u{43a}\u{43e}\u{436})",
    ];
    Regex::new(&format!("(?i)^\\W*(?:{})", labels.join("|"))).expect("a constant pattern")
});

/// How the credit of a picture or of a text begins.
static CREDIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i)^\\W*(?:quellen?|quellenangaben?|sources?|fotos?|photos?|bild(?:er)?|fuentes?|\u{17a}r\u{f3}d\u{142}o|cr\u{e9}dits? photos?)\\s*:")
        .expect("a constant pattern")
});

/// Whether a paragraph is a label, a colon and a link: `Read more: ...`.
fn is_labelled_link(paragraph: Element<'_>) -> bool {
    let page = paragraph.document;
    let mut nodes = (paragraph.node + 1..paragraph.end()).filter_map(|id| page.node(id).map(|node| (id, node)));
    let first_text = nodes.find(|(_, node)| node.name == TEXT && !page.raw_text(node).trim().is_empty());
    first_text.is_some_and(|(id, node)| {
        let is_in_link = page.node(node.parent).is_some_and(|parent| parent.name == names::A);
        !is_in_link && page.raw_text(node).trim_end().ends_with(':') && id < paragraph.end()
    })
}

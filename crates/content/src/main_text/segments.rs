//! Keeps pages whole: their landmark or their body, without the navigation around it.

use argiope_core::page::page_budget::PageBudget;

use super::boilerplate::{begins_with_heading, is_landmark};
use super::evidence::ContentKind;
use super::measure::Measure;
use super::prune::{MAX_TEASER_WORK, is_teaser_list, not_removed, prune};
use crate::document::{Element, TEXT, names};

/// A landmark with fewer characters is not the content if the page has more outside of it.
const MIN_LANDMARK: u32 = 200;
/// How many levels of a layout are searched for navigation.
const MAX_LAYOUT_DEPTH: usize = 40;
/// The article of a page has at least this percentage of the prose of its landmark.
const MIN_SHARE: u32 = 50;
/// How many headings in a row are considered.
const MAX_OPEN_HEADINGS: usize = 6;
/// A paragraph before the article with fewer characters is a date, a name or a label.
const MIN_LEAD: u32 = 60;

/// Whether these elements have only a part of the prose of the landmark, or of the page.
pub(super) fn is_part(
    body: Element<'_>,
    roots: &[u32],
    measure: &Measure,
    removed: &[bool],
    budget: &PageBudget,
) -> bool {
    let around = landmark(body, measure, removed, budget).unwrap_or(body);
    let prose: u32 = roots.iter().map(|&root| measure.prose(body.document.element(root))).sum();
    prose * 100 < measure.prose(around) * MIN_SHARE
}

/// The content of a page that is kept whole.
pub(super) fn whole(
    body: Element<'_>,
    kind: ContentKind,
    measure: &Measure,
    removed: &mut [bool],
    budget: &PageBudget,
) -> Vec<u32> {
    let landmark = landmark(body, measure, removed, budget);
    let root = landmark.unwrap_or(body);
    let article = only_article(root, measure, removed, budget);
    if landmark.is_none() && article.is_none() {
        trim_layout(root, measure, removed, budget);
    }
    let root = article.unwrap_or(root);
    match kind {
        ContentKind::Plain => remove_teasers(root, measure, removed, budget),
        _ if measure.link_density(root) < 0.5 => prune(root, measure, removed, budget),
        _ => {}
    }
    remove_orphans(root, removed, budget);
    match article {
        Some(article) => with_lead(body, vec![article.node], measure, removed, budget),
        None => vec![root.node],
    }
}

/// The element that the page marks as its main content, if it has a quarter of the prose or of the text.
fn landmark<'a>(body: Element<'a>, measure: &Measure, removed: &[bool], budget: &PageBudget) -> Option<Element<'a>> {
    let is_main = |element: &Element<'_>| budget.spend(element.source_len()) && is_landmark(*element);
    let mains = not_removed(body.document, removed).take_while(|_| budget.visit()).filter(is_main);
    let largest = mains.max_by_key(|main| measure.text(*main))?;
    let has_share = |of: fn(&Measure, Element<'_>) -> u32| of(measure, largest) * 4 >= of(measure, body);
    let is_large = measure.text(largest) >= MIN_LANDMARK || has_share(Measure::text);
    (is_large && (has_share(Measure::prose) || has_share(Measure::text))).then_some(largest)
}

/// The only article within an element, if it has nearly all of its prose.
fn only_article<'a>(
    root: Element<'a>,
    measure: &Measure,
    removed: &[bool],
    budget: &PageBudget,
) -> Option<Element<'a>> {
    let is_outer_article = |element: &Element<'_>| element.name_id() == names::ARTICLE && element.node > root.node;
    let articles = not_removed(root.document, removed).take_while(|_| budget.visit());
    let largest = articles
        .filter(|element| is_outer_article(element) && element.end() <= root.end())
        .max_by_key(|article| measure.prose(*article))?;
    (measure.prose(largest) * 10 >= measure.prose(root) * 7).then_some(largest)
}

/// Flags the navigation of a layout: from the outside in, what stands beside nearly all of the prose and consists of
/// links.
fn trim_layout(root: Element<'_>, measure: &Measure, removed: &mut [bool], budget: &PageBudget) {
    let mut current = root;
    let all = measure.text(root);
    let is_navigation = |element: Element<'_>| is_navigation(element, measure) && measure.text(element) * 3 < all;
    for _ in 0..MAX_LAYOUT_DEPTH {
        let prose = measure.prose(current);
        let mut main = None;
        for child in current.children().take_while(|_| budget.visit()) {
            if measure.prose(child) * 5 >= prose * 4 {
                main = Some(child);
            }
        }
        let Some(main) = main.filter(|_| prose >= MIN_LANDMARK) else { break };
        for child in current.children().take_while(|_| budget.visit()) {
            let is_like_main = child.raw_attribute("class") == main.raw_attribute("class");
            if child.node != main.node && is_navigation(child) && !(is_like_main && begins_with_heading(child)) {
                flag(removed, child);
            }
        }
        current = main;
    }
    if measure.link_density(current) > 0.5 {
        return;
    }
    // At the innermost level only what begins or ends the page.
    let children: Vec<Element<'_>> = current.children().take_while(|_| budget.visit()).collect();
    let is_edge =
        |child: &&Element<'_>| measure.text(**child) == 0 || (is_navigation(**child) && !begins_with_heading(**child));
    let first = children.iter().take_while(is_edge).count();
    let last = children.iter().rev().take_while(is_edge).count();
    if first + last < children.len() {
        for child in children.iter().take(first).chain(children.iter().rev().take(last)) {
            flag(removed, *child);
        }
    }
}

/// Whether an element beside the content consists of links.
fn is_navigation(element: Element<'_>, measure: &Measure) -> bool {
    let is_box = matches!(
        element.name_id(),
        names::DIV
            | names::UL
            | names::OL
            | names::TABLE
            | names::TD
            | names::CENTER
            | names::P
            | names::FORM
            | names::SECTION
    );
    is_box && measure.text(element) > 0 && measure.link_density(element) > 0.5
}

fn flag(removed: &mut [bool], element: Element<'_>) {
    if let Some(mark) = removed.get_mut(element.node as usize) {
        *mark = true;
    }
}

/// Flags lists of teasers.
fn remove_teasers(root: Element<'_>, measure: &Measure, removed: &mut [bool], budget: &PageBudget) {
    let all = measure.text(root).max(1);
    let mut work = MAX_TEASER_WORK;
    let mut next = root.node + 1;
    while next < root.end() && budget.visit() {
        let element = root.document.element(next);
        next += 1;
        if element.name_id() == TEXT || removed.get(element.node as usize) == Some(&true) {
            continue;
        }
        if is_teaser_list(element, measure, all, (&mut work, budget)) {
            flag(removed, element);
            next = element.end().max(next);
        }
    }
}

/// Adds the paragraphs between the headline and the article: its lead.
pub(super) fn with_lead(
    body: Element<'_>,
    mut roots: Vec<u32>,
    measure: &Measure,
    removed: &[bool],
    budget: &PageBudget,
) -> Vec<u32> {
    let page = body.document;
    let Some(&start) = roots.first() else { return roots };
    let headline = not_removed(page, removed)
        .take_while(|element| budget.visit() && element.node < start)
        .filter(|element| element.name_id() == names::H1)
        .last();
    let Some(headline) = headline else { return roots };
    let mut leads = Vec::new();
    let mut end = 0;
    for element in not_removed(page, removed).take_while(|element| budget.visit() && element.node < start) {
        if element.node < headline.end().max(end) || element.end() > start || !is_lead(element, measure) {
            continue;
        }
        end = element.end();
        leads.push(element.node);
    }
    leads.append(&mut roots);
    leads
}

fn is_lead(element: Element<'_>, measure: &Measure) -> bool {
    let is_text = match element.name_id() {
        names::P | names::H2 | names::H3 | names::STRONG | names::B | names::UL => true,
        names::DIV | names::SECTION | names::SPAN => has_own_text(element),
        _ => false,
    };
    is_text && measure.text(element) >= MIN_LEAD && measure.link_density(element) < 0.2
}

/// Whether text stands directly within an element.
fn has_own_text(element: Element<'_>) -> bool {
    let page = element.document;
    let nodes = element.children_nodes().filter_map(|id| page.node(id)).filter(|node| node.name == TEXT);
    nodes.map(|node| page.raw_text(node).trim().len()).sum::<usize>() >= MIN_LEAD as usize
}

/// Flags headings whose section was removed: after them comes nothing but removed elements, up to the next heading of
/// the same rank or the end.
pub(super) fn remove_orphans(root: Element<'_>, removed: &mut [bool], budget: &PageBudget) {
    let page = root.document;
    // The headings without text after them so far, with their rank, and whether something was removed after them.
    let mut open: Vec<(u32, u8, bool)> = Vec::new();
    let mut orphans: Vec<u32> = Vec::new();
    let mut next = root.node;
    while next < root.end() {
        let id = next;
        next += 1;
        let Some(node) = page.node(id).filter(|_| budget.visit()) else { break };
        if removed.get(id as usize) == Some(&true) {
            next = page.element(id).end().max(next);
            open.iter_mut().for_each(|heading| heading.2 = true);
        } else if node.name == TEXT {
            if budget.spend(page.raw_text(node).len()) && !page.raw_text(node).trim().is_empty() {
                open.clear();
            }
        } else if node.name.is_heading() && node.name != names::H1 {
            let heading = page.element(id);
            let rank = heading.name().as_bytes().get(1).copied().unwrap_or_default();
            close_headings(&mut open, rank, &mut orphans);
            if open.len() < MAX_OPEN_HEADINGS {
                open.push((id, rank, false));
            }
            next = heading.end().max(next);
        } else if matches!(node.name, names::IMG | names::TABLE) {
            open.clear();
        }
    }
    close_headings(&mut open, 0, &mut orphans);
    for orphan in orphans {
        flag(removed, page.element(orphan));
    }
}

/// Ends the sections of the open headings of this rank or a lower one. Those after which something was removed are
/// orphans.
fn close_headings(open: &mut Vec<(u32, u8, bool)>, rank: u8, orphans: &mut Vec<u32>) {
    while let Some((id, _, was_removed)) = open.pop_if(|heading| heading.1 >= rank) {
        if was_removed {
            orphans.push(id);
        }
    }
}

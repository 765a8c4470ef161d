//! Chooses the elements with the main content.

use argiope_core::page::page_budget::PageBudget;

use super::boilerplate::{indicates_content, words_of};
use super::evidence::ContentKind;
use super::measure::Measure;
use super::prune::{not_removed, prune};
use super::segments;
use crate::document::{Document, Element, TEXT, names};

/// Content with fewer characters is not treated as an article.
const MIN_ARTICLE: u32 = 200;

/// The nodes of the elements with the main content, in the order of the page. Also flags blocks of links and lists of
/// teasers within them in `removed`.
///
/// A page that declares itself an article is searched for it: what surrounds an article is usually not content. All
/// other pages are kept whole, without what is certainly not content.
pub(super) fn choose(
    page: &Document,
    kind: ContentKind,
    measure: &Measure,
    (removed, budget): (&mut [bool], &PageBudget),
) -> Vec<u32> {
    let body = page.root().children().find(|element| element.name_id() == names::BODY).unwrap_or(page.root());
    if kind == ContentKind::Article
        && let Some(roots) = article(body, measure, removed, budget)
    {
        if segments::is_part(body, &roots, measure, removed, budget) {
            return segments::whole(body, kind, measure, removed, budget);
        }
        for &root in &roots {
            prune(page.element(root), measure, removed, budget);
            segments::remove_orphans(page.element(root), removed, budget);
        }
        return segments::with_lead(body, roots, measure, removed, budget);
    }
    segments::whole(body, kind, measure, removed, budget)
}

/// The elements of the article of a page; `None` if they have too little of its text.
fn article(body: Element<'_>, measure: &Measure, removed: &mut [bool], budget: &PageBudget) -> Option<Vec<u32>> {
    let all = measure.text(body); // the number of characters of the page
    if let Some(article) = declared_article(body.document, measure, removed, (all, budget)) {
        return Some(vec![article.node]);
    }
    let roots = best_scored(body, measure, removed, budget);
    let sum = |count: &dyn Fn(Element<'_>) -> u32| -> u32 {
        roots.iter().map(|&root| count(body.document.element(root))).sum()
    };
    let (found, commas) = (sum(&|root| measure.text(root)), sum(&|root| measure.commas(root)));
    // Text with commas, at least a tenth of the page; or any text that is at least two fifths of the page.
    let is_article = found >= 500 && commas >= 4 && found * 10 >= all;
    (is_article || (found >= MIN_ARTICLE && found * 5 >= all * 2)).then_some(roots)
}

/// The element that the page declares as its article, by its name, class or `itemprop`. It must have a large share of
/// the text of the page, which has `all` characters.
fn declared_article<'a>(
    page: &'a Document,
    measure: &Measure,
    removed: &[bool],
    (all, budget): (u32, &PageBudget),
) -> Option<Element<'a>> {
    let mut best: Option<(u32, Element<'a>)> = None;
    let mut articles: Vec<Element<'a>> = Vec::new();
    let mut candidates: Vec<Element<'a>> = Vec::new();
    for element in not_removed(page, removed) {
        if !budget.visit() || !budget.spend(element.source_len() * 2) {
            break;
        }
        let property = element.attribute("itemprop");
        let is_article_body =
            property.is_some_and(|property| property.split_ascii_whitespace().any(|name| name == "articleBody"));
        let has_content_name = matches!(element.name_id(), names::DIV | names::SECTION | names::ARTICLE)
            && indicates_content(words_of(element).trim());
        if element.name_id() == names::ARTICLE {
            articles.push(element);
        }
        if !(is_article_body || has_content_name) {
            continue;
        }
        let text = measure.text(element);
        if text < MIN_ARTICLE || measure.link_density(element) > 0.4 {
            continue;
        }
        candidates.push(element);
        let weight = if is_article_body { text * 2 } else { text };
        // An element within the best one so far is not better.
        let is_better = |(best_weight, outer): (u32, Element<'_>)| {
            weight > best_weight && !(element.node < outer.end() && element.node > outer.node)
        };
        if best.is_none_or(is_better) {
            best = Some((weight, element));
        }
    }
    if let Some((_, element)) = best {
        if let Some(thread) = thread_around(element, &candidates, measure) {
            return Some(thread);
        }
        let is_body = element.raw_attribute("itemprop").is_some_and(|property| property.contains("articleBody"));
        // An `articleBody` needs an eighth of the text of the page, another element needs a third.
        let divisor = if is_body { 8 } else { 3 };
        if measure.text(element) * divisor >= all {
            return Some(element);
        }
    }
    // The articles that are not within another one, which ends at or before `outer_end`.
    let mut outer_end = 0;
    articles.retain(|article| {
        let is_outer = article.node >= outer_end;
        outer_end = article.end().max(outer_end);
        is_outer
    });
    let outer = articles;
    let largest = outer.iter().max_by_key(|article| measure.text(**article))?;
    let text = measure.text(*largest);
    // The only article needs a third of the text of the page, one of several articles needs half of it.
    let divisor = if outer.len() == 1 { 3 } else { 2 };
    (text >= MIN_ARTICLE && text * divisor >= all && measure.link_density(*largest) < 0.4).then_some(*largest)
}

/// The element around all posts of a thread, if `post` is one of them. The posts are `post` and the other candidates
/// with the same class. There must be at least one other, and all of them together must have at least half of the text
/// of the element around them.
fn thread_around<'a>(post: Element<'a>, candidates: &[Element<'a>], measure: &Measure) -> Option<Element<'a>> {
    let class = post.raw_attribute("class")?;
    let is_apart = |other: &Element<'_>| other.end() <= post.node || other.node >= post.end();
    let is_peer = |other: &&Element<'_>| is_apart(other) && other.raw_attribute("class") == Some(class);
    let (mut first, mut end, mut text) = (post.node, post.end(), measure.text(post));
    for peer in candidates.iter().filter(is_peer) {
        (first, end, text) = (first.min(peer.node), end.max(peer.end()), text + measure.text(*peer));
    }
    if (first, end) == (post.node, post.end()) {
        return None;
    }
    let around = std::iter::successors(Some(post), Element::parent)
        .find(|element| element.node <= first && end <= element.end())?;
    (text * 2 >= measure.text(around)).then_some(around)
}

/// The score of an element before points are added.
fn starting_score(element: Element<'_>) -> f32 {
    match element.name_id() {
        names::ARTICLE | names::MAIN => 10.0,
        names::DIV | names::SECTION => 5.0,
        names::PRE | names::TD | names::BLOCKQUOTE => 3.0,
        names::ADDRESS | names::OL | names::UL | names::DL | names::DD | names::DT | names::LI | names::FORM => -3.0,
        name if name.is_heading() || name == names::TH => -5.0,
        _ => 0.0,
    }
}

/// Finds the content by score, like Mozilla's Readability. Every paragraph adds points to the elements around it. The
/// content is the element with the best score, together with those of its siblings that have a good score or are
/// paragraphs of text.
fn best_scored(body: Element<'_>, measure: &Measure, removed: &[bool], budget: &PageBudget) -> Vec<u32> {
    let page = body.document;
    if !budget.hold(page.len() * size_of::<f32>()) {
        return vec![body.node];
    }
    let mut scores: Vec<f32> = vec![f32::NAN; page.len()];
    let mut next = body.node + 1;
    while next < body.end() && budget.visit() {
        let id = next;
        next += 1;
        let element = page.element(id);
        if element.name_id() == TEXT {
            continue;
        }
        if removed.get(id as usize) == Some(&true) {
            next = element.end();
            continue;
        }
        if !is_paragraph(element, measure) {
            continue;
        }
        let length = measure.text(element);
        if length < 25 {
            continue;
        }
        let points = 1.0 + measure.commas(element) as f32 + (length as f32 / 100.0).min(3.0);
        let points = points * (1.0 - measure.link_density(element));
        for (level, around) in std::iter::successors(element.parent(), Element::parent).take(5).enumerate() {
            let share = match level {
                0 => 1.0,
                1 => 0.5,
                level => 1.0 / (level as f32 * 3.0),
            };
            if let Some(score) = scores.get_mut(around.node as usize) {
                if score.is_nan() {
                    *score = starting_score(around);
                }
                *score += points * share;
            }
        }
    }
    let scaled_score = |id: u32| {
        let score = scores.get(id as usize).copied().unwrap_or(f32::NAN);
        score * (1.0 - measure.link_density(page.element(id)))
    };
    let mut top: Option<(u32, f32)> = None;
    for id in (body.node..body.end()).take_while(|_| budget.visit()) {
        let score = scaled_score(id);
        if !score.is_nan() && top.is_none_or(|(_, best)| score > best) {
            top = Some((id, score));
        }
    }
    let Some((top, top_score)) = top else { return vec![body.node] };
    let mut chosen = page.element(top);
    // If the content is spread over siblings, their parent has nearly as many points.
    while let Some(parent) = chosen.parent() {
        if parent.node <= body.node || matches!(chosen.name_id(), names::BODY) {
            break;
        }
        let score = scaled_score(parent.node);
        let is_only_child = parent.children().take(2).count() == 1;
        if is_only_child || (!score.is_nan() && score >= top_score * 0.75 && measure.link_density(parent) < 0.3) {
            chosen = parent;
        } else {
            break;
        }
    }
    let Some(parent) = chosen.parent().filter(|_| chosen.node != body.node) else { return vec![chosen.node] };
    let threshold = (top_score * 0.2).max(10.0);
    let mut roots = Vec::new();
    for sibling in parent.children().take_while(|_| budget.visit()) {
        if removed.get(sibling.node as usize) == Some(&true) {
            continue;
        }
        let belongs = sibling.node == chosen.node || scaled_score(sibling.node) >= threshold || {
            let length = measure.text(sibling);
            let density = measure.link_density(sibling);
            sibling.name_id() == names::P
                && ((length > 80 && density < 0.25)
                    || (length > 0
                        && length <= 80
                        && density == 0.0
                        && sibling.text_within(usize::MAX, budget).contains(". ")))
        };
        if belongs {
            roots.push(sibling.node);
        }
    }
    roots
}

/// Whether the element is a paragraph: `p`, `pre` and similar elements, or a container with text directly in it.
pub(super) fn is_paragraph(element: Element<'_>, measure: &Measure) -> bool {
    match element.name_id() {
        names::P | names::PRE | names::BLOCKQUOTE | names::TD | names::DD => true,
        names::LI => measure.text(element) > 80,
        names::DIV | names::SECTION | names::ARTICLE => {
            let page = element.document;
            let direct_text: usize = element
                .children_nodes()
                .filter_map(|id| page.node(id))
                .filter(|node| node.name == TEXT)
                .map(|node| page.raw_text(node).trim().len())
                .sum();
            direct_text > 80
        }
        _ => false,
    }
}
